//! What an image before this one had found out of runs ([`crate::journal::learnt`]), put to them again
//! after a crash ([`crate::replay`]). Meanwhile nobody looks: what a look gives is of now.

use super::procedure::{Deed, Part, Procedure};
use super::running::Main;
use crate::clock;
use crate::event_loop::Init;
use crate::journal::learnt::{Done, Learnt};
use crate::process::{self, Stat};
use crate::sys::{Pid, inherit, signal};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use std::os::fd::OwnedFd;

impl Init {
    /// What was noted is being put again.
    pub(super) fn goes_back(&self) -> bool {
        self.lineage.known.is_some()
    }

    /// What a look would give is of now, and not of then.
    pub(super) fn looks_in_vain(&self) -> bool {
        self.lineage.known.as_ref().is_some_and(|known| !known.looks)
    }

    /// False: it is not begun again yet.
    pub(crate) fn executed_before(&mut self, pid: i32) -> bool {
        let Some(run) = self.runs.of(pid) else { return false };
        let Some(running) = self.runs.get_mut(run) else { return false };
        let Some(started) = running.reports.iter_mut().find(|one| one.pid == pid) else {
            return false;
        };
        let (token, part) = (started.token, started.part);
        // Its slot is free.
        let _ = started.report.at_exit();
        self.executed(run, part, token);
        true
    }

    /// What followed from that may have been begun again already, in the same turn.
    fn emptied_before(&mut self, run: RunId) {
        if self.lineage.known.as_ref().is_some_and(|known| known.emptied.contains(&run)) {
            self.course(run, |_| vec![Deed::Look]);
        }
    }

    /// What is found out from now on is found out once more in another crash, and noted for that.
    pub(crate) fn all_is_put(&mut self) {
        if let Some(known) = &mut self.lineage.known {
            known.is_put = true;
        }
        self.looks_from_now_on();
    }

    /// As it is put again.
    fn looks_from_now_on(&mut self) {
        if let Some(known) = &mut self.lineage.known {
            known.looks = true;
        }
        self.look_at_all();
    }

    /// Whether something of the run lives, or did then, or will be found.
    pub(super) fn has_something(&mut self, run: RunId) -> bool {
        let lives = !self.tracker.is_empty(run);
        match &self.lineage.known {
            Some(known) if known.emptied.contains(&run) => false,
            Some(known) if !known.looks => true,
            Some(_) | None => !self.was_gone(run) && (lives || self.will_be_found(run)),
        }
    }

    /// In the turn in which it was noted.
    pub(crate) fn learnt_before(&mut self, learnt: Learnt) {
        match learnt {
            Learnt::Drained(run) => self.drained(run),
            Learnt::Found(run, pid) => self.found_before(run, pid),
            Learnt::Unfound(run, why) => self.unfound_before(run, why),
            Learnt::Over(run, exit) => self.over_before(run, exit),
            // It is asked for when it is to be done, heard or taken up.
            Learnt::Spoke(..) | Learnt::GaveUp(_) | Learnt::Held(..) | Learnt::Executed(_) => {}
            Learnt::Done(run, part, _) => self.done_before(run, part),
            Learnt::Emptied(run) => self.emptied_before(run),
            Learnt::Unnoted => self.looks_from_now_on(),
            Learnt::Left(left) => self.tracker.left_before(&left, clock::ticks_at(self.now)),
        }
    }

    /// Its line was read, in its output or in its `ready-fd`, which is of no use any more.
    pub(crate) fn seen_before(&mut self, run: RunId) {
        let pipe = self.runs.get_mut(run).and_then(|running| running.ready_pipe.take());
        if let Some(pipe) = pipe {
            self.runs.unwatch(pipe.token);
        }
        self.ready(run);
    }

    /// Who was named by a message has been heard already.
    fn found_before(&mut self, run: RunId, pid: i32) {
        if !self.finds(run, pid) || self.adopt(run, pid).is_err() {
            return;
        }
        self.give_up_look(run);
        let known = self.lineage.known.as_mut();
        let goes_on = known.is_some_and(|known| known.unanswered.remove(&run).is_some());
        if !goes_on {
            self.course(run, Procedure::main_changed);
        }
    }

    fn unfound_before(&mut self, run: RunId, why: String) {
        self.give_up_look(run);
        let search = self.runs.get_mut(run).and_then(|running| running.search.take());
        if search.is_some() {
            self.course(run, |procedure| procedure.main_not_found(why));
        }
    }

    /// Of init's own child the end is noted too.
    fn over_before(&mut self, run: RunId, exit: Exit) {
        let main = self.runs.get(run).and_then(|running| running.main.as_ref());
        let others = match main {
            Some(Main::Other { token, .. }) => Some(*token),
            Some(Main::Child(_)) | None => None,
        };
        let has_lost = others.is_some_and(|token| self.runs.lose_main(run, token));
        let known = self.lineage.known.as_mut();
        let was_asked = known.is_some_and(|known| known.unanswered.remove(&run).is_some());
        if has_lost || was_asked {
            self.give_up_look(run);
            self.course(run, |procedure| procedure.exited(Part::Main, exit));
        }
    }

    /// It was this run's main process at a time, though it may be gone by now.
    pub(super) fn finds(&self, run: RunId, pid: i32) -> bool {
        self.lineage.known.as_ref().is_some_and(|known| known.finds(run, pid))
    }

    /// The descriptor of such a one, or what stands in for that: it has ended.
    pub(super) fn found_then(&self, run: RunId, pid: i32) -> Option<OwnedFd> {
        if !self.finds(run, pid) {
            return None;
        }
        let of = Pid::from_raw(pid);
        let pidfd = signal::pidfd(of).ok();
        // Asked once a descriptor holds it: who has begun since has only its pid.
        let is_it = |stat: Stat| !stat.ended && stat.began <= clock::ticks_at(self.now);
        let there = pidfd.filter(|_| process::stat(of).is_some_and(is_it));
        there.or_else(|| inherit::stand_in().ok())
    }

    /// Nothing is left of it that can be seen now, but then there was a main process, or init had
    /// not given up the search.
    fn will_be_found(&self, run: RunId) -> bool {
        let seeks = self.runs.get(run).is_some_and(|running| running.search.is_some());
        seeks && self.lineage.known.as_ref().is_some_and(|known| known.has_sought(run))
    }

    /// By then nothing was left of it, for what is run when nothing is was begun. What is in its cgroup now is
    /// that, or comes of it.
    pub(super) fn was_gone(&self, run: RunId) -> bool {
        let name = self.runs.get(run).map(|running| running.name.as_str());
        let was_begun = |name| self.lineage.started.has_last(run, name);
        self.goes_back() && name.is_some_and(was_begun)
    }

    /// For whom it spoke then, whoever has its pid by now.
    pub(super) fn spoke_for(&self, pid: i32) -> Option<RunId> {
        self.lineage.known.as_ref()?.speaker(pid)
    }

    /// It is found out, by this image or by one before it.
    pub(super) fn note_learnt(&self, learnt: &Learnt) {
        match &self.lineage.known {
            Some(known) => known.note_new(learnt),
            None => learnt.note(),
        }
    }

    /// A look has told it, and no other may tell it so soon.
    pub(super) fn note_told(&self, learnt: &Learnt) {
        match &self.lineage.known {
            Some(known) => known.note_told(learnt),
            None => learnt.note(),
        }
    }

    /// What this one says is heard as the run's: after a crash nobody may find out any more whose it was.
    pub(super) fn note_speaker(&mut self, run: RunId, pid: i32) {
        match &mut self.lineage.known {
            Some(known) => known.has_spoken(run, pid),
            None => Learnt::Spoke(run, pid).note(),
        }
    }

    /// What init does itself for the run was done, and is not done once more under the next one.
    pub(super) fn was_done(&mut self, run: RunId, part: Part) -> Option<Done> {
        self.lineage.known.as_mut()?.take_done(run, part)
    }

    fn done_before(&mut self, run: RunId, part: Part) {
        let known = self.lineage.known.as_mut();
        if let Some(exit) = known.and_then(|known| known.take_awaited(run, part)) {
            self.course(run, |procedure| procedure.exited(part, exit));
        }
    }

    /// A process of it that init has made was at work then, or is now.
    pub(super) fn has_lines(&self, run: RunId) -> bool {
        let awaits = self.lineage.known.as_ref().is_some_and(|known| known.awaits(run));
        awaits || self.runs.get(run).is_some_and(|running| !running.lines.is_empty())
    }

    /// Once all that was noted is put: what had not been found out is asked now.
    pub(crate) fn ask_what_is_left(&mut self) {
        let known = self.lineage.known.take().unwrap_or_default();
        for (run, exit) in known.unanswered {
            self.main_has_ended(run, exit);
        }
        self.settle();
    }
}
