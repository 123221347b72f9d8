//! Starts an image of init from the state of the previous one: after an upgrade (`--resume`) or a
//! crash (`--rescue`). [`crate::restore`] reads the records.

#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::base::kernel_cmdline::KernelLine;
use crate::base::paths::Paths;
use crate::base::signals::Signals;
use crate::base::{Level, Mode, limit, signals, token};
use crate::control::client::Client;
use crate::control::now;
use crate::event_loop::{Init, Own};
use crate::loader::Asker;
use crate::options::Options;
use crate::output::console_log;
use crate::output::console_log::ConsoleLog;
use crate::restore::records::State;
use crate::restore::{Helper, end_helpers, execute_newer_image, inherited, open_store, state};
use crate::service::run_table::Main;
use crate::service::sequence::Alarm;
use crate::spawn::Null;
use crate::state::event_in_progress;
use crate::sys::inbox::{Inbox, Input};
use crate::sys::no_linger::close_without_linger;
use crate::sys::wait::Ended;
use crate::sys::{Pid, fault, inbox, process, signal, wait};
use crate::upgrade::{Images, Rescue, Resume, arm_fallback, cannot, read_word};
use crate::{boot, fd};
use groundstate_units::control::answer::Told;
use mio::Poll;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Executes the fallback image, if one is armed, because this image cannot continue; otherwise
/// returns the error. It is called at the point of failure, before returning closes inherited
/// descriptors.
fn execute_fallback(mode: Mode, error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    let error = io::Error::other(error);
    boot::log_fatal(mode, format_args!("this image cannot continue: {error}"));
    fault::by_panic();
    error
}

/// Reads the inbox file. It is shorter than an inbox if its memory could not be allocated.
fn bytes_of(inbox: &File) -> Vec<u8> {
    let mut bytes = vec![0; inbox::BYTES];
    let length = inbox.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(length);
    bytes
}

impl Init {
    /// Continues from the state store after an upgrade.
    pub(crate) fn resume(options: Options, mode: Mode, word: &str) -> io::Result<Init> {
        // Without this, the process would be named after the number of the descriptor that was
        // executed.
        let _ = process::set_name(c"init");
        let given: Resume = read_word(word)?;
        let previous = given.previous.and_then(inherited);
        let store = open_store(given.store).map_err(|why| execute_fallback(mode, why))?;
        if let Some(previous) = &previous {
            arm_fallback(previous, &given);
        }
        let state = State::read(&store).map_err(|why| execute_fallback(mode, why))?;
        let old_root = given.old.and_then(inherited);
        fd::close_rest();
        let mut init = Init::of(state, options, mode, Images::with(Some(store)))?;
        init.images.previous =
            previous.map(|binary| (binary, init.now.after(limit::UPGRADE_PROBATION)));
        #[cfg(debug_assertions)]
        crash_test::strike_in("resume", !given.gave_way);
        init.rewatch().map_err(|why| execute_fallback(mode, why))?;
        init.kill_again();
        signal::record_arrived(given.arrived);
        // Deliver the signals held back so far; their handlers are installed now.
        crate::sys::signal::unblock_all();
        // Until the first commit, a crash of this image loses the answer to the upgrade request.
        let asker = init.basics.upgraded.take();
        // The console writer starts before the commit, so that the next image knows it if it hangs.
        console_log::begin();
        init.commit();
        init.arm(0);
        init.answer_upgrade(asker, given.gave_way);
        if given.in_root {
            init.begin_in_new_root(old_root);
        }
        // Starts a load that waited for the upgrade. Otherwise only the exit of a loader starts the
        // next load, and perhaps no loader is in flight.
        init.next_load();
        Ok(init)
    }

    /// Answers the upgrade request, also when the new image crashed during its start.
    fn answer_upgrade(&mut self, asker: Option<Asker>, gave_way: bool) {
        let why = "the new binary crashed at startup";
        let answer = if gave_way {
            self.say(Level::Error, format_args!("upgrade failed: {why}"));
            Err(cannot(why))
        } else {
            self.say(Level::Info, format_args!("continuing with the previous state"));
            now(Told { schema: 1, ..Told::default() })
        };
        if let Some(asker) = asker {
            self.answer_later(asker, answer);
        }
    }

    /// Continues after a crash with the last committed state. An error says why that is impossible;
    /// init then becomes a caretaker ([`crate::crash`]).
    pub(crate) fn rescue(options: Options, mode: Mode, word: &str) -> io::Result<Init> {
        let _ = process::set_name(c"init");
        let given: Rescue = read_word(word)?;
        execute_newer_image(&given);
        let (crashes, row) = (given.crashes, given.row);
        let file = inherited(given.inbox).map(File::from);
        let Some(file) = file else { return Err(io::Error::other("no saved state")) };
        let bytes = bytes_of(&file);
        let store = open_store(given.store).map_err(|why| {
            signals::raise_shutdown_signals(Inbox::read(&bytes, 0).arrived);
            io::Error::other(why)
        })?;
        let (state, helpers) = state(&store).map_err(|why| execute_fallback(mode, why))?;
        let committed = state.components.pending.inputs;
        let found = Inbox::read(&bytes, committed);
        if row > limit::CRASHES_IN_A_ROW {
            std::mem::forget(state);
            signals::raise_shutdown_signals(found.arrived);
            return Err(io::Error::other(format!("crashed {row} times in a row")));
        }
        let is_same_version = given.newer.is_none();
        let images = Images::after_crash(store, file, given);
        fd::close_rest();
        let mut init = Init::of(state, options, mode, images)?;
        // Records of another version are written again: they may have fields that this one lacks.
        if is_same_version {
            init.forget_changes();
        }
        (init.basics.crashes, init.basics.resumed) = (crashes, Some(init.now));
        // Skips the log ids that the crashed image may have used since the commit, because the
        // logger already knows them.
        let reserved = u64::from(crashes).saturating_mul(limit::HELPER_LOG_IDS_OF_AN_IMAGE);
        init.basics.helper_outputs =
            init.basics.helper_outputs.min(u64::MAX.saturating_sub(reserved));
        init.arm(row);
        #[cfg(debug_assertions)]
        {
            crash_test::strike_in("rescue", row == 1);
            crash_test::strike_in("each rescue", true);
        }
        init.rewatch().map_err(|why| execute_fallback(mode, why))?;
        signal::record_arrived(found.arrived);
        let why = match found.signal {
            0 => "a panic".to_string(),
            signal => format!("signal {signal}"),
        };
        let suspect = event_in_progress::unit_of(found.about, init.machine.generation());
        let about =
            suspect.as_ref().map_or(String::new(), |unit| format!(", at an event of {unit}"));
        let text = format_args!("init crashed ({why}{about}): continuing with the saved state");
        init.say(Level::Error, text);
        let inbox = init.images.inbox.as_ref().map(AsFd::as_fd);
        if let Some(Err(error)) = inbox.map(|inbox| inbox::resume(inbox, &found, committed)) {
            let text = "cannot set up the inbox; the next crash loses the inputs of its turn";
            init.say(Level::Warning, format_args!("{text}: {error}"));
        }
        init.take_inputs(found.inputs, row, &helpers);
        init.kill_again();
        init.suspects.extend(suspect);
        // The console writer starts before the commit, so that the next image knows it if it hangs.
        console_log::begin();
        init.commit();
        crate::sys::signal::unblock_all();
        init.next_load();
        Ok(init)
    }

    /// Makes the uncommitted inputs of the crashed image the inputs of the first turn, and carries
    /// out the effects of the committed state. All inputs are part of the state before anything
    /// here commits or clones.
    fn take_inputs(&mut self, inputs: Vec<Input>, row: u32, helpers: &[Helper]) {
        #[cfg(debug_assertions)]
        let inputs = if crash_test::makes("finish-before-commit") { Vec::new() } else { inputs };
        #[cfg(debug_assertions)]
        if crash_test::makes("action-not-repeated") {
            self.pending.effects.queue.clear();
        }
        for input in &inputs {
            if let Input::Ended { pid, .. } = input {
                wait::note_reaped(Pid::from_raw(*pid));
            }
        }
        let serials: Vec<u64> = self.pending.effects.serials().collect();
        let starting: BTreeSet<i32> =
            serials.into_iter().filter_map(|serial| self.spawner.reserve(serial)).collect();
        end_helpers(helpers, &starting);
        self.logger.reconcile();
        if let Some(control) = &mut self.control {
            // The requests of all other clients may be half done. Their connections are closed, so
            // that they do not wait in vain.
            let waits = |client: &Client| client.follows.is_some() || !client.waits.is_empty();
            close_without_linger(|| control.clients.retain(|_, client| waits(client)));
        }
        self.tracker.look_again();
        let mut ended = Vec::new();
        for input in inputs {
            match input {
                // From the second crash in a row on, messages are dropped: one of them may be the
                // cause.
                Input::Message { .. } if row > 1 => {}
                Input::Message { pid, bytes } => {
                    let notify = self.notify.iter_mut();
                    notify.for_each(|notify| notify.take_over_datagram(pid, &bytes));
                }
                Input::Ended { pid, exit } => {
                    let one = Ended { pid: Pid::from_raw(pid), exit };
                    self.remove_from_tables(&one);
                    ended.push(one);
                }
                Input::Ready(run) => self.ready_before(run),
            }
        }
        // Needed without inputs too: the crashed image may have committed an exit without looking
        // for the orphans of that process.
        self.tracker.adopt_left();
        // A loader may bring a generation that starts units: all other exits come before that.
        ended.sort_by_key(|ended| self.loader.is_loader(ended.pid));
        for Ended { pid, exit } in ended {
            self.child_ended(pid, exit);
        }
        self.settle();
        self.look_at_pid_files_again();
        self.check_awaited_runs();
        self.settle();
    }

    /// Kills runs again that were killed and still have processes. A run whose grace period after
    /// the last signal has not ended is left alone.
    fn kill_again(&mut self) {
        let mut killed = self.machine.killed();
        killed.retain(|run| {
            self.runs.get(*run).is_none_or(|running| {
                let has_time = running.alarms.contains_key(&Alarm::Kill);
                !has_time && running.procedure.may_kill_all()
            })
        });
        self.tracker.kill_again(killed);
    }

    fn of(state: State, options: Options, mode: Mode, images: Images) -> io::Result<Init> {
        let kernel = if mode == Mode::Machine { KernelLine::read() } else { KernelLine::default() };
        let poll = Poll::new().map_err(|why| execute_fallback(mode, why))?;
        let (signals, _) =
            Signals::listen(poll.registry()).map_err(|why| execute_fallback(mode, why))?;
        let null = Null::open().map_err(|why| execute_fallback(mode, why))?;
        let (paths, _) = Paths::find(&options.paths);
        let voice = ConsoleLog::of(mode, options.least(kernel.level));
        let settings = state.machine.generation().settings.clone();
        let own = Own { options, mode, paths, voice, poll, signals, null, images };
        let mut init = Init::with(own, state);
        init.apply_settings(&settings);
        Ok(init)
    }

    /// Registers everything with the kernel that an earlier image had registered.
    fn rewatch(&mut self) -> io::Result<()> {
        self.tracker.rewatch();
        self.watch_tracker()?;
        self.watch_logger();
        self.runs.store.rewatch(self.poll.registry(), &mut self.tokens);
        let registry = self.poll.registry();
        if let Some(control) = &mut self.control {
            control.rewatch(registry, self.now)?;
        }
        if let Some(notify) = &mut self.notify {
            notify.rewatch(registry)?;
        }
        self.triggers.rewatch(registry)?;
        for (_, running) in self.runs.iter() {
            for started in &running.reports {
                if let Some(pipe) = started.report.pipe() {
                    token::watch(registry, pipe, started.token)?;
                }
            }
            if let Some(ready) = &running.ready_pipe {
                token::watch(registry, &*ready.pipe, ready.token)?;
            }
            if let Some(Main::Other { pidfd, token, .. }) = &running.main {
                token::watch(registry, &**pidfd, *token)?;
            }
        }
        Ok(())
    }
}
