//! The main process of a run: finds it if init did not start it, and sends signals to it and to the
//! rest of the run.

use crate::base::{Level, procfs, token};
use crate::event_loop::Init;
use crate::service::run_table::Main;
use crate::service::sequence::{Effect, Whom};
use crate::sys::{Pid, inherit, signal, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// SIGCONT: a stopped process acts on no other signal except SIGKILL.
const CONT: u8 = 18;

/// The reason for refusing a main process.
const FOREIGN: &str = "does not belong to the unit";

impl Init {
    pub(crate) fn signal_run(&mut self, run: RunId, whom: Whom, number: u8) {
        match whom {
            Whom::All => {
                self.tracker.signal(run, number, None);
                self.tracker.signal(run, CONT, None);
            }
            Whom::Main => {
                self.warn_if_strayed(run);
                self.runs.signal_main(run, number);
                self.runs.signal_main(run, CONT);
            }
        }
    }

    /// Warns if the main process has left its cgroup. Init stops it nevertheless, but cannot track
    /// its children there.
    fn warn_if_strayed(&mut self, run: RunId) {
        let Some(running) = self.runs.get(run) else { return };
        let Some(main) = running.main.as_ref().filter(|main| main.lives()) else { return };
        let pid = main.pid();
        if running.reports.iter().any(|started| started.pid == pid) {
            // It joins its cgroup before it executes.
            return;
        }
        if self.tracker.has_strayed(run, Pid::from_raw(pid)) {
            let (name, what) =
                (running.name.clone(), "has left its cgroup; init cannot track its children");
            self.say(Level::Warning, format_args!("{name}: its main process, pid {pid}, {what}"));
        }
    }

    /// Finds the main process of a forking service after its launcher has exited: the only orphan
    /// of the run.
    pub(crate) fn guess_main(&mut self, run: RunId) -> Vec<Effect> {
        if let Some(running) = self.runs.get_mut(run) {
            running.current = None;
        }
        let own = nix::unistd::getpid().as_raw();
        let left = self.tracker.processes(run);
        let orphan = |pid: &&i32| {
            procfs::stat(Pid::from_raw(**pid)).is_some_and(|stat| stat.parent == own && !stat.ended)
        };
        let orphans: Vec<i32> = left.iter().filter(orphan).copied().collect();
        let found = match orphans.as_slice() {
            [one] => self.adopt(run, *one).is_ok(),
            _ => false,
        };
        let Some(running) = self.runs.get_mut(run) else { return Vec::new() };
        if found { running.procedure.main_found() } else { running.procedure.main_unknown() }
    }

    /// Makes a process that init did not start the run's main process, if it belongs to the run.
    /// The check is repeated once a pidfd holds the process, because pids are reused.
    pub(crate) fn adopt(&mut self, run: RunId, pid: i32) -> Result<(), &'static str> {
        if pid <= 1 || Pid::from_raw(pid) == nix::unistd::getpid() {
            return Err(FOREIGN);
        }
        let of = Pid::from_raw(pid);
        // Without a free descriptor, init's own child needs no pidfd: its pid stays reserved until
        // it is reaped.
        let pidfd = match signal::pidfd(of) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                return Err("does not exist");
            }
            Err(_) if !wait::is_child(of) => return Err("cannot be watched"),
            pidfd => pidfd.ok(),
        };
        if self.runs.belongs_to_another_run(run, pid) || self.tracker.whose(of) != Some(run) {
            return Err(FOREIGN);
        }
        // An exited process keeps its cgroup until it is reaped. Init reaps its own child and
        // learns the exit code; a foreign parent may never reap.
        let is_over = |pidfd: &OwnedFd| {
            signal::has_ended(pidfd.as_fd()) && wait::is_child_behind(pidfd.as_fd()) != Some(true)
        };
        if pidfd.as_ref().is_some_and(is_over) {
            return Err("has exited");
        }
        self.set_main(run, pid, pidfd)
    }

    /// Sets the main process of the run. Without a pidfd, it is a child of init.
    fn set_main(
        &mut self,
        run: RunId,
        pid: i32,
        pidfd: Option<OwnedFd>,
    ) -> Result<(), &'static str> {
        let token = self.tokens.next();
        let Some(running) = self.runs.get_mut(run) else { return Err(FOREIGN) };
        running.search = None;
        let before = running.main.take();
        let pidfd = pidfd.filter(|_| running.line(pid).is_none());
        let is_watched = pidfd.is_some();
        running.main = Some(match pidfd {
            None => Main::Child(pid),
            Some(pidfd) => {
                // Without a watch, init sees the end of the process when it is reaped.
                let _ = token::watch(self.poll.registry(), &pidfd, token.0);
                Main::Other { pid, pidfd: pidfd.into(), token: token.0 }
            }
        });
        match before {
            Some(Main::Other { pid, token, .. }) => self.runs.abandon(pid, token, run),
            Some(Main::Child(before)) if before != pid => self.runs.forget_own_main(before, run),
            Some(Main::Child(_)) | None => {}
        }
        if is_watched {
            self.runs.adopt(pid, token.0, run);
        } else {
            if wait::is_child(Pid::from_raw(pid)) {
                wait::count_as_made([pid]);
            }
            self.runs.own_main(pid, run);
            self.pending.effects.is_ahead = true;
        }
        Ok(())
    }

    /// Handles exited main processes after all messages that were sent before.
    pub(crate) fn report_exited_mains(&mut self) {
        let ended = std::mem::take(&mut self.runs.mains_ended);
        if ended.is_empty() {
            return;
        }
        self.receive_all();
        self.settle();
        ended.into_iter().for_each(|token| self.watched_main_ended(token));
    }

    /// Handles the end of a watched main process. A child of init is left to the reaper, which
    /// learns its exit code; another process's child has none for init.
    fn watched_main_ended(&mut self, token: usize) {
        let Some(run) = self.runs.watched(token) else { return };
        let (pid, ours, number) = match self.runs.get(run).and_then(|of| of.main.as_ref()) {
            Some(Main::Other { pid, pidfd, token: at }) if *at == token => {
                (*pid, wait::is_child_behind(pidfd.as_fd()), pidfd.as_raw_fd())
            }
            _ => return,
        };
        let ours = ours.unwrap_or_else(|| {
            let (own, of) = (nix::unistd::getpid().as_raw(), Pid::from_raw(pid));
            // If the pidfd was lost in a crash, its stand-in does not tell whether the process has
            // exited. Then a running child is left to the reaper too.
            let tells = inherit::pid_of(number).is_some();
            let is_left = |stat: procfs::Stat| stat.parent == own && (stat.ended || !tells);
            !wait::is_made(of) && procfs::stat(of).is_some_and(is_left)
        });
        if !ours && self.runs.lose_main(run, token) {
            self.handle_main_end(run, Exit::Code(0));
        }
    }
}
