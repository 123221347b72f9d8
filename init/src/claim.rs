//! What an image before this one had started when it crashed, and the run it is of: a line that is ordered
//! again takes up its process, and what nobody orders again is ended. What is put again is
//! [`crate::replay`]'s.

use crate::event_loop::Init;
use crate::journal::learnt::Learnt;
use crate::journal::notes::{self, Note, What};
use crate::journal::started::One;
use crate::process;
use crate::run::output::run_log;
use crate::run::procedure::Part;
use crate::run::running::Running;
use crate::sys::wait;
use crate::sys::{Pid, signal};
use crate::voice::Level;
use groundstate_units::machine::event::{ExecFailure, RunId};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

const KILL: u8 = 9;
const STOP: u8 = 19;
const GO_ON: u8 = 18;

/// It has become its program; or it never will do anything as that, for it is stopped before the
/// program's first instruction: whoever asks ends it then. `was_held`: an image before this one has stopped it
/// to ask, and may have crashed before it let it go on. Who was stopped by others, or by itself, stays so.
fn has_its_program(pid: Pid, was_held: bool) -> bool {
    if process::has_executed(pid) {
        if was_held && wait::is_stopped(pid) {
            goes_on(pid);
        }
        return true;
    }
    if !wait::is_child(pid) {
        return false;
    }
    Learnt::Held(pid.as_raw(), true).note();
    // No way out of the kernel leads past a pending stop: an exec that ends from now on has begun
    // nothing. Looked at without it, the program could begin between the look and the end.
    let has_begun = signal::kill(pid, STOP).is_ok() && process::has_executed(pid);
    if has_begun {
        goes_on(pid);
    }
    has_begun
}

fn goes_on(pid: Pid) {
    let _ = signal::kill(pid, GO_ON);
    Learnt::Held(pid.as_raw(), false).note();
}

/// For an image that takes nothing up by these notes: who was stopped by one before it goes on.
pub(crate) fn let_go_on(notes: &[Note]) {
    let mut held = BTreeSet::new();
    for note in notes {
        match note.what {
            What::Learnt(Learnt::Held(pid, true)) => _ = held.insert(pid),
            What::Learnt(Learnt::Held(pid, false)) => _ = held.remove(&pid),
            What::Ended(_) => _ = held.remove(&note.pid),
            What::Begun(_)
            | What::Heard(_)
            | What::Wished(_)
            | What::Seen(_)
            | What::Opened(_)
            | What::Learnt(_) => {}
        }
    }
    held.into_iter().map(Pid::from_raw).filter(|pid| wait::is_stopped(*pid)).for_each(goes_on);
}

impl Init {
    /// The line was begun by the image before this one: its process is the run's, or there is none again.
    /// None: it was not, and nothing of what was begun for the unit instead is left beside it.
    pub(crate) fn take_up(&mut self, run: RunId, part: Part) -> Option<Result<(), ExecFailure>> {
        if self.lineage.started.is_empty() {
            return None;
        }
        let running = self.runs.get_mut(run)?;
        let (name, unit) = (running.name.clone(), notes::unit(running.name.as_str()));
        let found = self.lineage.started.take(run, part, unit);
        if let Some(why) = found.as_ref().and_then(|one| one.begun.more.refused.clone()) {
            running.begun = true;
            return Some(Err(why));
        }
        let (spec, targets) = (running.spec(), running.targets.clone());
        let is_clear = found.as_ref().is_some_and(|one| self.is_clear(one));
        let (true, Some(spec)) = (is_clear, spec) else {
            let others = self.lineage.started.others_of(unit);
            found.into_iter().chain(others).for_each(|one| self.kill_one(&one));
            return None;
        };
        let mut one = found?;
        if let Some(running) = self.runs.get_mut(run) {
            running.begun = true;
            if part == Part::Start(spec.exec_start.len().saturating_sub(1)) {
                (running.output, running.spec) = (None, None);
                self.connection_handed(&name);
            }
        }
        let others = self.lineage.started.all().filter(|one| !one.is_given_up);
        let others: BTreeSet<String> = others.filter_map(|one| one.cgroup(&self.tracker)).collect();
        let slice = spec.particular.as_ref().map_or("", |it| it.cgroup.slice.as_str());
        self.tracker.take_up(run, one.pid, (name.as_str(), slice, one.begun.ahead), &others);
        for aside in &one.begun.asides {
            if let Some(logger) = &mut self.logger {
                let told = run_log(aside.run, &name, &targets, &spec, aside.log);
                logger.take_up(told, one.asides.remove(&aside.run));
            }
        }
        let child = if one.ended {
            self.tracker.had_started(run, one.pid, one.begun.born);
            self.spawner.take_up_gone(one.pid, one.begun.slot, name.as_str())
        } else {
            self.spawner.take_up(one.pid, one.begun.slot, name.as_str())
        };
        self.keep(run, part, &spec, child);
        if let Some(ready) = one.ready.take() {
            self.hear_ready_again(run, ready);
        }
        Some(Ok(()))
    }

    fn hear_ready_again(&mut self, run: RunId, read: OwnedFd) {
        if let Err(error) = self.hear_ready_from(run, read) {
            let text = format_args!("nobody hears when run {} is ready: {error}", run.0);
            self.say(Level::Warning, text);
        }
    }

    /// It has become its program, or has ended: before that, it is ended and begun anew, and
    /// the program is started once all the same. Where it is to say that it is ready by a descriptor
    /// that is not noted, and has not, it says that to nobody any more.
    fn is_clear(&self, one: &One) -> bool {
        let spec = self.runs.get(one.begun.run).and_then(|running| running.spec());
        let by_descriptor = spec.is_some_and(|spec| {
            spec.particular.as_ref().is_some_and(|particular| particular.ready_fd.is_some())
        });
        let by_descriptor = by_descriptor && matches!(one.begun.part, Part::Start(_));
        let (_, noted) = one.begun.more.ready;
        let is_heard = !by_descriptor || noted != 0 || self.lineage.started.has_seen(one.begun.run);
        let has_ended = one.ended || process::stat(one.pid).is_some_and(|stat| stat.ended);
        has_ended || (is_heard && has_its_program(one.pid, one.is_held))
    }

    /// Of what was begun since the state was kept, what nobody noted: it is of no run.
    pub(crate) fn kill_what_nobody_noted(&mut self) {
        let noted = self.lineage.started.of_lines();
        let noted = self.tracker.unknown_cgroups_of(&noted);
        self.kill_unknown_cgroups(&noted);
    }

    /// What was noted as started, and the machine did not order again.
    pub(crate) fn kill_unclaimed(&mut self) {
        let left = std::mem::take(&mut self.lineage.started);
        left.all().for_each(|one| self.kill_one(one));
        self.tracker.knows_begun(BTreeSet::new());
    }

    fn kill_one(&mut self, one: &One) {
        if one.ended {
            return;
        }
        // What it has left to init may not have been killed as an image before this one crashed.
        let since = self.lineage.killed_since.get_or_insert(one.begun.born);
        *since = one.begun.born.min(*since);
        if one.is_replaced {
            return self.kill_alone(one);
        }
        if !one.is_given_up {
            Learnt::GaveUp(one.pid.as_raw()).note();
        }
        let run = one.begun.run;
        let of_unit =
            self.runs.get(run).filter(|it| notes::unit(it.name.as_str()) == one.begun.unit);
        // In the cgroup of the run too, where an earlier line of it was taken up.
        let is_in_its = || self.tracker.whose(one.pid) == Some(run);
        let is_its_units = of_unit.is_some_and(|it| !it.lines.is_empty() || is_in_its());
        // What is beside a main process, a reload, ends alone. So it does where none of those that are up is that.
        let is_up = |it: &Running| it.main.is_some() || it.procedure.is_headless();
        let ends_alone = of_unit.is_some_and(is_up);
        let what = format!("process {} (run {}) was begun in the crash", one.pid, run.0);
        self.say(Level::Warning, format_args!("{what} and can not be taken up: it is killed"));
        if is_its_units && !ends_alone {
            // What it has left in the run's cgroup can not be told from the rest of it.
            self.tracker.kill_and_go_on(run);
        } else if !is_its_units && let Some(name) = one.cgroup(&self.tracker) {
            self.tracker.kill_unknown(&name);
        }
        self.kill_alone(one);
    }

    fn kill_alone(&mut self, one: &One) {
        self.spawner.give_up(one.pid, one.begun.slot);
        if wait::is_child(one.pid) {
            // Not reaped, so the pid is its own.
            let _ = signal::kill(one.pid, KILL);
            self.tracker.is_dying(one.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::process as maker;
    use groundstate_units::spec::Exit;
    use groundstate_units::text::time::Time;

    #[test]
    fn who_was_stopped_by_an_image_before_goes_on_and_nobody_else() {
        let stopped = || {
            let child = maker::fork(&[], || {
                let _ = signal::kill(nix::unistd::getpid(), STOP);
                7
            });
            let child = child.unwrap();
            while !wait::is_stopped(child) {
                std::thread::yield_now();
            }
            child
        };
        let [held, other] = [stopped(), stopped()];
        let note = |pid: i32, what| Note { what, pid, at: Time::ZERO, turn: 1, reaped: None };
        let told = |pid: Pid, is| note(0, What::Learnt(Learnt::Held(pid.as_raw(), is)));
        // Who had its pid before has ended, or has been let go already.
        let ended = note(other.as_raw(), What::Ended(Exit::Code(0)));
        let_go_on(&[told(other, true), told(other, false), told(held, true)]);
        let_go_on(&[told(other, true), ended]);
        assert_eq!(wait::await_end(held).unwrap(), Exit::Code(7));
        assert!(wait::is_stopped(other));
        let_go_on(&[told(other, false), told(other, true)]);
        assert_eq!(wait::await_end(other).unwrap(), Exit::Code(7));
    }
}
