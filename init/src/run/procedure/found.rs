//! A run whose processes were there before init knew of it: its state was lost. Nothing is begun; it
//! goes on from where it is: from how far it was when that was written last ([`Course`]), or as far as
//! anybody can tell.

use super::{Deed, Deeds, Part, Procedure, Step};
use groundstate_units::machine::event::Event;
use groundstate_units::machine::there::Ends;
use groundstate_units::spec::{Exit, Kind, MainPid};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How far a run is, in few bytes ([`crate::journal::standing`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Course {
    step: Step,
    main_alive: bool,
    headless: bool,
    was_ready: bool,
    posted: bool,
    executed: bool,
    exit_told: bool,
    ends: Ends,
    closing: bool,
    abandoned: bool,
    exit: Option<Exit>,
    last: usize,
}

impl Default for Course {
    /// Of one that begins.
    fn default() -> Course {
        Course {
            step: Step::Up,
            main_alive: false,
            headless: false,
            was_ready: false,
            posted: false,
            executed: false,
            exit_told: false,
            ends: Ends::No,
            closing: false,
            abandoned: false,
            exit: None,
            last: 0,
        }
    }
}

impl Course {
    /// What had been decided about its end; told: it was being stopped, or what it left was being ended.
    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// It is to be stopped, whether it was told or not.
    pub(crate) fn is_due(&mut self) {
        if self.ends == Ends::No {
            self.ends = Ends::Due;
        }
    }

    fn is_stopping(&self) -> bool {
        self.ends == Ends::Told
    }

    /// There is more to do for it, whatever lives: its end is not over.
    pub(crate) fn is_to_go_on(&self) -> bool {
        self.is_stopping() || self.closing || matches!(self.step, Step::Draining(_))
    }

    /// It has ended by itself, so.
    pub(crate) fn has_ended(&self) -> Option<Exit> {
        self.exit.filter(|_| self.exit_told && !self.is_to_go_on())
    }

    /// No process of it is known as its main one, and some live.
    pub(crate) fn is_headless(&self) -> bool {
        self.headless
    }

    /// Its main process lived.
    pub(crate) fn has_main(&self) -> bool {
        self.main_alive
    }

    /// The line it waits for.
    pub(crate) fn line(&self) -> Option<Part> {
        match self.step {
            Step::Line(part) => Some(part),
            Step::StopLine(n) => Some(Part::Stop(n)),
            Step::Idle
            | Step::Seeking
            | Step::Draining(_)
            | Step::Up
            | Step::StopMain
            | Step::StopRest
            | Step::Last => None,
        }
    }

    /// More lines of its start are to be run; `last` is the last of them.
    pub(crate) fn has_lines_to_start(&self, last: usize) -> bool {
        matches!(self.step, Step::Line(part)
            if !matches!(part, Part::Post(_)) && part != Part::Start(last))
    }

    /// The line that is over as this one begins: what follows from its end is that.
    pub(crate) fn line_before(&self, part: Part) -> Option<Part> {
        let is_beside = matches!(part, Part::Ready | Part::Reload(_) | Part::Main | Part::Look);
        let ends = matches!(part, Part::Stop(_) | Part::StopPost(_));
        // The main process, as far as is known; what is run beside it may be cut short.
        let lives_on = |before: &Part| {
            let is_cut = ends && matches!(before, Part::Post(_));
            self.main_alive && (is_cut || matches!(before, Part::Start(_)))
        };
        self.line().filter(|before| !is_beside && !lives_on(before))
    }

    /// This line was begun since.
    pub(crate) fn goes_on(&mut self, part: Part) {
        if matches!(part, Part::Stop(_) | Part::StopPost(_) | Part::Clean) {
            self.is_ended();
        }
        match part {
            Part::Condition(_) | Part::Pre(_) | Part::Start(_) | Part::Post(_) | Part::Unlink => {
                self.step = Step::Line(part);
            }
            Part::Stop(n) => self.step = Step::StopLine(n),
            Part::StopPost(n) => (self.step, self.last) = (Step::Last, n.saturating_add(1)),
            Part::Clean => self.step = Step::Last,
            Part::Ready | Part::Reload(_) | Part::Main | Part::Look => {}
        }
        self.main_alive |= matches!(part, Part::Start(_));
    }

    /// By itself, where it is a script that was at its last line and leaves nothing behind; else it was to be
    /// stopped.
    fn is_ended(&mut self) {
        let is_script = self.executed && !self.main_alive && !self.exit_told;
        let was_at_it = matches!(self.step, Step::Line(Part::Start(_) | Part::Post(_)));
        if is_script && was_at_it && !self.is_stopping() {
            (self.closing, self.was_ready) = (true, true);
            self.exit = self.exit.or(Some(Exit::Code(0)));
        }
        if !self.closing {
            self.ends = Ends::Told;
        }
    }
}

impl Procedure {
    /// How far it is.
    pub(crate) fn standing(&self) -> Course {
        // What could not begin, or was not to, is on its way out.
        let unbegun = self.failure.is_some() || self.skipped.is_some();
        Course {
            step: if unbegun { Step::StopRest } else { self.step },
            main_alive: self.main_alive,
            headless: self.headless,
            was_ready: self.was_ready,
            posted: self.posted,
            executed: self.executed_told,
            exit_told: self.exit_told,
            ends: if self.stopping || unbegun { Ends::Told } else { Ends::No },
            closing: self.closing,
            abandoned: self.abandoned,
            exit: self.exit,
            last: self.last,
        }
    }

    /// It was as far as that. `has_main`: its main process lives. `is_ready`: it has said so since.
    pub(crate) fn found(&mut self, course: &Course, has_main: bool, is_ready: bool) -> Deeds {
        self.step = course.step;
        self.main_alive = course.main_alive && has_main;
        (self.headless, self.posted) = (course.headless, course.posted);
        self.was_ready = course.was_ready;
        (self.exit_told, self.stopping) = (course.exit_told, course.is_stopping());
        (self.closing, self.abandoned) = (course.closing, course.abandoned);
        (self.exit, self.last) = (course.exit, course.last);
        self.ended = course.exit.filter(|_| course.exit_told);
        // What follows from its exec follows once more where it is not ready yet.
        let is_on_its_way = self.is_foreground() && !self.was_ready && !self.posted;
        self.executed_told = course.executed && !(is_on_its_way && has_main);
        let mut deeds = Vec::new();
        if self.executed_told {
            deeds.push(Deed::Tell(Event::Executed(self.run)));
        }
        if self.main_alive && self.executed_told {
            deeds.extend(self.first_ping());
        }
        if self.stopping || self.exit_told || self.closing {
            deeds.push(Deed::Look);
            return deeds;
        }
        if self.headless && self.is_script() {
            deeds.extend(self.left_alone());
        } else if self.was_ready && !self.is_script() {
            deeds.extend(self.told_ready());
        } else if is_ready {
            deeds.extend(self.ready());
        }
        deeds.extend(match self.step {
            Step::Seeking => self.seek(),
            Step::Draining(_) => self.drained(),
            Step::Idle
            | Step::Line(_)
            | Step::Up
            | Step::StopLine(_)
            | Step::StopMain
            | Step::StopRest
            | Step::Last => vec![Deed::Look],
        });
        deeds
    }

    /// The launcher has ended well: which process is the main one? It may have been named (MAINPID=).
    pub(super) fn seek(&mut self) -> Deeds {
        self.step = Step::Seeking;
        if self.main_alive {
            return self.main_found();
        }
        match self.particular().map(|p| p.main_pid).unwrap_or_default() {
            MainPid::File => vec![Deed::SeekPidFile],
            MainPid::Guess => vec![Deed::GuessMain],
            MainPid::None => self.main_unknown(),
        }
    }

    /// This line is running: what follows, follows from its end, or from what it says.
    pub(crate) fn found_at(&mut self, part: Part) {
        self.step = Step::Line(part);
    }

    /// Its main process lives, and had been ready.
    pub(crate) fn found_up(&mut self) -> Deeds {
        self.step = Step::Up;
        self.main_alive = true;
        let mut deeds = self.begun_already();
        deeds.extend(self.first_ping());
        deeds.extend(self.told_ready());
        deeds
    }

    /// Nobody knows how far it is: it is up, or on its way, as long as anything of it lives, and nothing
    /// is done to it before that unless somebody says so.
    pub(crate) fn found_somewhere(&mut self) -> Deeds {
        let mut deeds = self.begun_already();
        deeds.extend(match self.plan.kind {
            Kind::BackgroundPidfile => self.seek(),
            Kind::Oneshot | Kind::BackgroundScripted => {
                (self.step, self.headless, self.was_ready) = (Step::Up, true, false);
                self.left_alone()
            }
            // Which process is the main one is not known.
            Kind::ForegroundNotified | Kind::ForegroundSupervised => {
                (self.step, self.headless) = (Step::Up, true);
                let mut deeds = self.told_ready();
                deeds.push(Deed::Look);
                deeds
            }
            Kind::Virtual | Kind::Socket | Kind::Timer | Kind::Path => Vec::new(),
        });
        deeds
    }

    fn left_alone(&self) -> Deeds {
        let text = "nobody knows how far it is: it is left alone until it ends".to_string();
        let told = [Event::ExtendTimeout(self.run, AGES), Event::Status(self.run, text)];
        told.map(Deed::Tell).into_iter().chain([Deed::Look]).collect()
    }

    /// It is a run that ended well before the crash, and of which nothing lives. A foreground run
    /// was noted only when its end was over: nothing is left to do for it.
    pub(crate) fn found_over(&mut self, exit: Exit) -> Deeds {
        let mut deeds = self.begun_already();
        if !self.is_script() {
            (self.closing, self.cleaned, self.last) = (true, true, usize::MAX);
        }
        deeds.extend(self.told_exit(exit));
        deeds
    }

    fn begun_already(&mut self) -> Deeds {
        (self.executed_told, self.posted, self.was_ready) = (true, true, true);
        vec![Deed::Tell(Event::Executed(self.run))]
    }
}

/// Nothing is to be over before.
const AGES: Duration = Duration::from_secs(u32::MAX as u64);
