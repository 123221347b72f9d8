//! What an end waits for, told every few seconds: unit, process, its state, since when, and which
//! key ends the wait. The key itself is [`crate::shutdown`]'s.

use crate::base::limit;
use crate::base::log_level::Level;
use crate::base::mode::Mode;
use crate::base::procfs;
use crate::event_loop::Init;
use crate::service::running::{Main, Running};
use crate::sys::Pid;
use groundstate_units::unit::reaction::Reaction;

impl Init {
    /// When it is time, as long as units are waited for.
    pub(crate) fn name_blockers(&mut self) {
        let Some(at) = self.ending.tell_at.filter(|at| *at <= self.now) else { return };
        if self.ending.haste().is_some() || self.runs.len() == 0 {
            self.ending.tell_at = None;
            return;
        }
        self.ending.tell_at = Some(at.max(self.now).after(limit::BLOCKERS));
        let waited = self.ending.begun.map_or(0, |begun| self.now.since(begun).as_secs());
        let all: Vec<String> = self.runs.iter().map(|(_, running)| blocker(running)).collect();
        let reactions = &self.machine.generation().settings.reactions;
        let key = match (self.mode, &reactions.ctrl_alt_del) {
            (Mode::Machine, Reaction::Nothing) => "`initctl poweroff --force`",
            (Mode::Machine, Reaction::End(_) | Reaction::Goal(_)) => "Ctrl-Alt-Del",
            (Mode::Container | Mode::Supervisor, _) => "SIGINT",
        };
        for text in all.iter().take(limit::BLOCKERS_NAMED) {
            self.say(
                Level::Warning,
                format_args!("waiting for {waited} s for {text}; {key} ends the wait"),
            );
        }
        if let Some(more) = all.len().checked_sub(limit::BLOCKERS_NAMED).filter(|more| *more > 0) {
            self.say(Level::Warning, format_args!("… and for {more} more units"));
        }
    }
}

fn blocker(running: &Running) -> String {
    let name = &running.name;
    let pid = running.main.as_ref().map(Main::pid).or(running.current);
    let pid = pid.or_else(|| running.lines.first().map(|(pid, _)| *pid));
    let Some(pid) = pid.filter(|pid| *pid > 0) else { return name.to_string() };
    match procfs::shown(Pid::from_raw(pid)) {
        Some((command, state)) => format!("{name}: pid {pid} ({command}), {state}"),
        None => format!("{name}: what pid {pid} left"),
    }
}
