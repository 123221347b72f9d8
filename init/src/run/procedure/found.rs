//! A run whose processes were there before init knew of it: its state was lost. Nothing is begun; it
//! goes on from where it is, as far as anybody can tell.

use super::{Deed, Deeds, Part, Procedure, Step};
use groundstate_units::machine::event::Event;
use groundstate_units::spec::{Exit, Kind};

impl Procedure {
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

    /// Its lines have ended, and well; what they have left may live.
    pub(crate) fn found_done(&mut self, last: usize) -> Deeds {
        let mut deeds = self.begun_already();
        deeds.extend(match self.plan.kind {
            Kind::BackgroundPidfile => self.start_ended(last, Exit::Code(0)),
            Kind::Oneshot | Kind::BackgroundScripted => self.told_exit(Exit::Code(0)),
            // Which process is the main one is not known: it is up as long as any is.
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

    /// It is a script that has ended so, long ago, and of which nothing lives.
    pub(crate) fn found_over(&mut self, exit: Exit) -> Deeds {
        let mut deeds = self.begun_already();
        deeds.extend(self.told_exit(exit));
        deeds
    }

    fn begun_already(&mut self) -> Deeds {
        (self.executed_told, self.posted, self.was_ready) = (true, true, true);
        vec![Deed::Tell(Event::Executed(self.run))]
    }
}
