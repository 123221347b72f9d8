//! `initctl upgrade` and `initctl switch-root`: tries the next binary and executes it. The steps
//! are in [`crate::upgrade`].

use crate::base::kernel_cmdline::KernelLine;
use crate::base::reexec::{arguments_in, environment};
use crate::base::{Level, Mode, clock, limit};
use crate::control::{Answered, stopping};
use crate::event_loop::Init;
use crate::fd;
use crate::loader::{Asker, Purpose};
use crate::output::console_log;
use crate::state::store::Store;
use crate::sys::{Pid, fault, inbox, inherit, process, signal, wait};
use crate::trigger::lookout::Lookout;
use crate::upgrade::switch_root::empty;
use crate::upgrade::{Passed, Resume, Upgrade, Wanted, cannot, switch_root, word};
use groundstate_units::control::answer::Failure;
use groundstate_units::control::place;
use groundstate_units::spec::Exit;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

impl Init {
    /// Arms crash recovery. `row` is the number of crashes in a row so far.
    pub(crate) fn arm(&mut self, row: u32) {
        self.images.steady_at = (row > 0).then(|| self.now.after(limit::STEADY));
        self.images.row = row;
        if let Err(error) = self.images.arm(self.basics.crashes) {
            self.say(Level::Warning, format_args!("cannot arm crash recovery: {error}"));
        }
    }

    /// Runs a turn. A panic discards this image; the next one continues with the committed state.
    pub(crate) fn guarded_turn(&mut self) {
        if catch_unwind(AssertUnwindSafe(|| self.turn())).is_err() {
            fault::by_panic();
        }
    }

    /// Commits the changes. The next image finds this state; from here on, the inbox is empty.
    pub(crate) fn commit(&mut self) {
        let inputs = inbox::last();
        self.store_changes();
        // Also when the store cannot be written: otherwise a full inbox would hold inputs in the
        // kernel for ever.
        inbox::note_commit(inputs);
        self.logger.unmarked().note_commit();
        self.closing.clear();
        self.pending.effects.note_commit();
        if self.triggers.has_answers() {
            self.triggers.forget_answers();
        }
    }

    fn store_changes(&mut self) {
        let Some(mut store) = self.images.store.take() else {
            // Otherwise the lists of changed keys would grow with each event.
            wait::take_made_changes();
            return self.forget_changes();
        };
        let began = clock::now();
        let staged = self.stage(&mut store);
        let missing = || io::Error::other("a record cannot be written");
        let committed = staged.ok_or_else(missing).and_then(|()| store.commit());
        let was_committed = store.is_committed();
        if committed.is_err() {
            store.invalidate();
        }
        self.images.store = Some(store);
        let commits = &mut self.images.commits;
        commits.count = commits.count.saturating_add(1);
        let took = clock::now().since(began).as_nanos();
        commits.time_ns = commits.time_ns.saturating_add(u64::try_from(took).unwrap_or(u64::MAX));
        match committed {
            Ok(()) => self.loader.unmarked().origin.note_commit(),
            Err(why) if was_committed => {
                let then = "after a crash of init, services would run unsupervised";
                self.say(Level::Warning, format_args!("cannot store the state: {why}; {then}"));
            }
            Err(_) => {}
        }
    }

    /// Starts the trial of a binary. The answer is sent later.
    pub(crate) fn begin_upgrade(&mut self, asker: Asker, wanted: Wanted) -> Answered {
        if self.images.upgrade.is_some() {
            return Err(Failure::new(Failure::BUSY, "an upgrade is under way", "try again"));
        }
        let fail = |error: io::Error| cannot(&format!("cannot try the new binary: {error}"));
        self.commit();
        let store = self.images.store.as_ref().filter(|store| store.is_committed());
        let store = store.ok_or_else(|| io::Error::other("cannot store the state"));
        let state = store.and_then(Store::copy).map_err(fail)?;
        let upgrade = Upgrade::begin(asker, &wanted, &state, self.now).map_err(fail)?;
        self.images.upgrade = Some(upgrade);
        self.remember(asker);
        Ok(None)
    }

    /// Handles deadlines: a trial that takes too long, and the end of the probation of this image.
    pub(crate) fn upgrade_due(&mut self) {
        let now = self.now;
        let proven = self.images.previous.take_if(|(_, until)| *until <= now).is_some();
        let steady = self.images.steady_at.take_if(|at| *at <= now).is_some();
        if proven || steady {
            self.arm(0);
        }
        if let Some(upgrade) = self.images.upgrade.as_ref().filter(|upgrade| upgrade.until <= now) {
            // On an unresponsive file system the child may never exit.
            let _ = wait::kill_made(upgrade.child, 9);
            self.keep_present_image(
                "the new binary did not confirm in time that it can read the state",
            );
        }
    }

    /// Handles a reaped child. Returns true if it was the trial of a binary.
    pub(crate) fn trial_ended(&mut self, pid: Pid, exit: Exit) -> bool {
        let tried = self.images.upgrade.as_mut().filter(|upgrade| upgrade.child == pid);
        let Some(tried) = tried.map(|upgrade| upgrade.take_result(exit)) else { return false };
        if let Err(why) = tried {
            self.keep_present_image(&why);
        }
        true
    }

    /// Keeps the present image and answers the client.
    fn keep_present_image(&mut self, why: &str) {
        let Some(upgrade) = self.images.upgrade.take() else { return };
        self.say(Level::Error, format_args!("upgrade failed: {why}"));
        self.answer_later(upgrade.asker, Err(cannot(why)));
    }

    /// Runs between two turns: executes the binary that passed its trial. Returns only if that
    /// failed.
    pub(crate) fn execute_next_image(&mut self) {
        let Some(upgrade) = self.images.upgrade.as_mut() else { return };
        if upgrade.to_root && self.loader.is_at_work() {
            // The loader is reading the unit files of the old root.
            return;
        }
        let Some(passed) = upgrade.passed.take() else { return };
        if upgrade.to_root && self.ending.is_under_way() {
            return self.keep_present_image("a shutdown is in progress");
        }
        self.basics.upgraded = self.images.upgrade.as_ref().map(|upgrade| upgrade.asker);
        self.say(Level::Info, format_args!("re-executing init"));
        self.voice.flush();
        // New signals stay pending in the kernel; signals already received are passed on.
        let held = signal::hold();
        let arrived = self.signals.take_arrived();
        let (entered, error) = self.execute(&passed, arrived);
        signal::record_arrived(arrived);
        drop(held);
        self.basics.upgraded = None;
        match entered {
            None => self.keep_present_image(&error),
            Some(old) => {
                self.keep_present_image(&format!(
                    "{error}; continuing in the new root with the present binary"
                ));
                self.begin_in_new_root(old);
            }
        }
        self.next_load();
    }

    fn record_unfinished_connections(&mut self, record: bool) {
        let clients = self.control.iter_mut().flat_map(|control| control.clients.values_mut());
        clients.for_each(|client| client.records_unfinished = record);
    }

    /// Executes the binary. Returns the error and, if the new root was entered nevertheless, the
    /// descriptor of the old root.
    fn execute(&mut self, passed: &Passed, arrived: u64) -> (Option<Option<OwnedFd>>, String) {
        self.record_unfinished_connections(true);
        self.commit();
        self.record_unfinished_connections(false);
        let store = self.images.store.as_ref().filter(|store| store.is_committed());
        let Some(store) = store.map(Store::descriptor_number) else {
            return (None, "cannot store the state".to_string());
        };
        let previous = self.images.binary.as_ref().map(AsRawFd::as_raw_fd);
        let entered = passed.root.as_ref().map(|root| {
            let old = switch_root::memory_of_old(root.as_fd());
            switch_root::enter(root.as_fd()).map(|()| old)
        });
        let entered = match entered.transpose() {
            Ok(entered) => entered,
            Err(why) => return (None, why),
        };
        let in_root = entered.is_some();
        let old = entered.as_ref().and_then(|old| old.as_ref().map(AsRawFd::as_raw_fd));
        let resume = Resume { store, previous, arrived, gave_way: false, in_root, old };
        fd::end_closers();
        console_log::dismiss();
        inherit::keep_all();
        let words = arguments_in(word("--resume", &resume), in_root);
        let error = process::execute(passed.binary.as_fd(), &words, &environment());
        inherit::keep_none();
        (entered, format!("cannot execute the new binary: {error}"))
    }
}

/// The default init program of a new root.
const PROGRAM: &str = "/sbin/init";

impl Init {
    /// Starts the trial of the new root's init. The answer is sent later.
    pub(crate) fn switch_root(
        &mut self,
        asker: Asker,
        root: String,
        program: Option<String>,
    ) -> Answered {
        if self.ending.is_under_way() {
            return Err(stopping());
        }
        if self.mode == Mode::Supervisor {
            let text = "a supervisor has no root of its own";
            let hint = "only PID 1 can switch to another root";
            return Err(Failure::new(Failure::USAGE, text, hint));
        }
        let program = program.unwrap_or_else(|| PROGRAM.to_string());
        self.begin_upgrade(asker, Wanted::InRoot(root, program))
    }

    /// Starts as the first image in a new root and frees the memory of the old root, if given.
    pub(crate) fn begin_in_new_root(&mut self, old: Option<OwnedFd>) {
        self.say(Level::Info, format_args!("continuing in the new root"));
        // The previous goal belonged to the initramfs.
        let is_machine = self.mode == Mode::Machine;
        self.basics.kernel_target = is_machine.then(KernelLine::read).and_then(|line| line.target);
        self.options.target = None;
        self.basics.shell.stop_restarting();
        self.basics.log_files_open = false;
        // The logger and the lookouts hold files of the old root open.
        self.logger.replace(self.now);
        self.triggers.lookouts.values_mut().for_each(Lookout::give_up);
        let socket = self.paths.runtime_dir.as_deref().map(place::control_socket);
        if socket.is_some_and(|path| !Path::new(&path).exists()) {
            self.make_sockets();
        }
        self.loader.boot_again();
        self.start_load(Purpose::Boot);
        if let Some(old) = old {
            let emptied = process::fork(&[old.as_fd()], || {
                let _ = process::set_name(c"init: frees");
                empty(old.as_fd());
                0
            });
            if let Err(error) = emptied {
                let text = "cannot free the initramfs";
                self.say(Level::Warning, format_args!("{text}: {error}"));
            }
        }
    }
}
