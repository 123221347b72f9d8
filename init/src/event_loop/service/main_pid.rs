//! The main process of a run: finds it where init did not start it, and sends signals to it and to the rest of the
//! run.

use crate::base::{Level, procfs, token};
use crate::event_loop::Init;
use crate::service::main_pid::{kill_line, kill_main};
use crate::service::run_table::Main;
use crate::service::sequence::{Effect, Whom};
use crate::sys::{Pid, inherit, signal, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// SIGCONT: a stopped process can not act on any other signal but KILL.
const CONT: u8 = 18;

/// Why a process is not made a main process.
const FOREIGN: &str = "does not belong to the unit";

impl Init {
    pub(crate) fn signal_run(&mut self, run: RunId, whom: Whom, number: u8) {
        match whom {
            Whom::All => {
                self.tracker.signal(run, number, None);
                self.tracker.signal(run, CONT, None);
            }
            Whom::Main => {
                self.tell_stray(run);
                self.runs.signal_main(run, number);
                self.runs.signal_main(run, CONT);
            }
        }
    }

    /// The main process may have left its cgroup. It is ended all the same; what it starts out there is
    /// nobody's.
    fn tell_stray(&mut self, run: RunId) {
        let Some(running) = self.runs.get(run) else { return };
        let Some(main) = running.main.as_ref().filter(|main| main.lives()) else { return };
        let pid = main.pid();
        if self.tracker.has_strayed(run, Pid::from_raw(pid)) {
            let (name, what) =
                (running.name.clone(), "has left its cgroup, what it starts is lost");
            self.say(Level::Warning, format_args!("{name}: its main process, pid {pid}, {what}"));
        }
    }

    pub(crate) fn kill_run(&mut self, run: RunId) {
        self.tracker.kill(run);
        let Some(running) = self.runs.get(run) else { return };
        // Those that are still on their way into the cgroup.
        running.lines.iter().for_each(|(pid, _)| kill_line(*pid));
        running.main.as_ref().inspect(|main| kill_main(main));
    }

    /// The launcher has ended: the one child it has left to init is the main process.
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

    /// Makes a process that init did not start the run's main process, if it belongs to
    /// the run; asked again once a descriptor holds it, for pids are used again.
    pub(crate) fn adopt(&mut self, run: RunId, pid: i32) -> Result<(), &'static str> {
        self.adopt_if(run, pid, |init| init.tracker.whose(Pid::from_raw(pid)) == Some(run))
    }

    /// The same of one that belongs to it where this says so.
    pub(crate) fn adopt_if(
        &mut self,
        run: RunId,
        pid: i32,
        belongs: impl Fn(&Init) -> bool,
    ) -> Result<(), &'static str> {
        if pid <= 1 || Pid::from_raw(pid) == nix::unistd::getpid() {
            return Err(FOREIGN);
        }
        let of = Pid::from_raw(pid);
        // Where none can be had (no such system call, no room), the pid of init's own child is its own until
        // it is reaped: such a one needs none.
        let pidfd = match signal::pidfd(of) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err("is not there"),
            Err(_) if !wait::is_child(of) => return Err("can not be watched"),
            pidfd => pidfd.ok(),
        };
        if self.runs.is_anothers(run, pid) || !belongs(self) {
            return Err(FOREIGN);
        }
        // Who has ended and is not reaped is still found where it was. Of init's child it will be
        // known how it ended; another's may never be reaped.
        let is_over = |pidfd: &OwnedFd| {
            let ours =
                || wait::is_child_behind(pidfd.as_fd()).unwrap_or_else(|| wait::is_child(of));
            signal::has_ended(pidfd.as_fd()) && !ours()
        };
        if pidfd.as_ref().is_some_and(is_over) {
            return Err("has ended");
        }
        self.has_main(run, pid, pidfd)
    }

    /// It has it from now on. Without a descriptor: it is init's child.
    fn has_main(
        &mut self,
        run: RunId,
        pid: i32,
        pidfd: Option<OwnedFd>,
    ) -> Result<(), &'static str> {
        let token = self.tokens.next();
        if self.runs.get(run).is_none() {
            return Err(FOREIGN);
        }
        let Some(running) = self.runs.get_mut(run) else { return Err(FOREIGN) };
        running.search = None;
        let before = running.main.take();
        let pidfd = pidfd.filter(|_| running.line(pid).is_none());
        let is_watched = pidfd.is_some();
        running.main = Some(match pidfd {
            None => Main::Child(pid),
            Some(pidfd) => {
                // Where it can not be watched, its end is seen when it is reaped.
                let _ = token::watch(self.poll.registry(), &pidfd, token.0);
                Main::Other { pid, pidfd: pidfd.into(), token: token.0 }
            }
        });
        match before {
            Some(Main::Other { pid, token, .. }) => self.runs.abandon(pid, token, run),
            Some(Main::Child(before)) if before != pid => self.runs.own_main_no_more(before, run),
            Some(Main::Child(_)) | None => {}
        }
        if is_watched {
            self.runs.adopt(pid, token.0, run);
        } else {
            if wait::is_child(Pid::from_raw(pid)) {
                wait::made_before([pid]);
            }
            self.runs.own_main(pid, run);
            self.effects.is_ahead = true;
        }
        Ok(())
    }

    /// In the turn in which these were ready: what was said before counts before.
    pub(crate) fn tell_mains_ended(&mut self) {
        let ended = std::mem::take(&mut self.runs.mains_ended);
        if ended.is_empty() {
            return;
        }
        self.hear_out();
        self.settle();
        ended.into_iter().for_each(|token| self.watched_main_ended(token));
    }

    /// A child of ours is left to the reaping, which knows how it ended; of another's child nobody tells us.
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
            // Where the descriptor could not be kept over a crash it says nothing of a living one.
            let tells = inherit::is_process(number);
            let is_left = |stat: procfs::Stat| stat.parent == own && (stat.ended || !tells);
            !wait::is_made(of) && procfs::stat(of).is_some_and(is_left)
        });
        if !ours && self.runs.lose_main(run, token) {
            self.main_has_ended(run, Exit::Code(0));
        }
    }
}
