//! Targets that the settings name (`exit-with`, what a machine's keys do) and nobody provides: it is told,
//! nothing is refused for it. What comes of them when they are there is [`crate::shutdown`]'s.

use crate::base::log_level::Level;
use crate::base::mode::Mode;
use crate::event_loop::Init;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;

impl Init {
    /// Settings that name nobody's target are told: init whose end is to be that of one goes on for
    /// ever, and a key does nothing.
    pub(super) fn mind_targets(&mut self, generation: &Generation) {
        let settings = &generation.settings;
        let is_missing = |name: &Name| {
            let target = generation.find_target(name.as_str()).and_then(|id| generation.target(id));
            target.is_none_or(|target| target.candidates.is_empty())
                && generation.find_unit(name.as_str()).is_none()
        };
        if let Some(name) = settings.exit_with.as_ref().filter(|name| is_missing(name)) {
            let what = "nobody provides it, so nothing ends init by itself";
            self.say(Level::Warning, format_args!("exit-with {name}: {what}"));
        }
        if self.mode != Mode::Machine {
            return;
        }
        for (setting, name) in settings.reactions.goals().filter(|(_, name)| is_missing(name)) {
            let what = "nobody provides it, so the key does nothing";
            self.say(Level::Warning, format_args!("{setting} {name}: {what}"));
        }
    }
}
