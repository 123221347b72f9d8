//! Carries out what signals ask for.

use crate::base::log_level::Level;
use crate::base::mode::Mode;
use crate::base::signals::Asked;
use crate::event_loop::Init;
use crate::sys::fault::FAULTS;
use groundstate_units::machine::event::{Event, Goal, Shutdown};
use groundstate_units::unit::reaction::Reaction;

impl Init {
    /// What a signal asks for.
    pub(crate) fn obey(&mut self, asked: Asked) {
        // Before any settings are there, the defaults hold.
        let key = asked.key(&self.machine.generation().settings.reactions);
        if let Some((key, reaction)) = key.filter(|_| self.mode == Mode::Machine) {
            let reaction = reaction.clone();
            return self.react(asked, key, reaction);
        }
        match (asked, asked.end(self.mode)) {
            (Asked::Reload, _) => self.reload_by_signal(),
            (Asked::Sockets, _) => self.make_sockets(),
            (Asked::Noted(number), _) => {
                let (level, what) = match FAULTS.contains(&number) {
                    true => (Level::Warning, "somebody sent it, it is no fault of init's: "),
                    false => (Level::Debug, ""),
                };
                self.say(level, format_args!("signal {number}: {what}nothing to do"));
            }
            (Asked::Interrupt, Some(how)) => self.interrupted(how),
            (_, Some(how)) => self.shut_down(how),
            (_, None) => {}
        }
    }

    fn react(&mut self, asked: Asked, key: &str, reaction: Reaction) {
        let hastens = asked == Asked::Interrupt && self.ending.is_under_way();
        match reaction {
            Reaction::Nothing => {
                self.say(Level::Info, format_args!("{key}: nothing is to be done"));
            }
            // Whatever it was to do before.
            Reaction::End(_) | Reaction::Goal(_) if hastens => self.interrupted(Shutdown::Reboot),
            Reaction::End(how) => self.shut_down(how),
            Reaction::Goal(goal) => {
                self.say(Level::Info, format_args!("{key}: the goal is to be {goal}"));
                let wish = Event::SetGoal(Goal { targets: vec![goal], ..Goal::default() });
                if let Err(refusal) = self.wish(wish) {
                    self.say(Level::Error, format_args!("{key}: {}", refusal.message));
                }
            }
        }
    }
}
