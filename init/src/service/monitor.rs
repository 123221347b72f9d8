//! The MONITOR_ variables of a unit that `on-failure` or `on-success` brings in:
//! systemd.exec(5), `$MONITOR_SERVICE_RESULT` and those beside it.

use super::sequence::Outcome;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;

/// How the last run of a unit ended that brings others in by its end.
pub(crate) struct LastEnd {
    pub(crate) run: RunId,
    pub(crate) outcome: Outcome,
}

/// `$EXIT_CODE` and `$EXIT_STATUS` of systemd.exec(5).
pub(crate) fn exit_words(exit: Exit) -> (&'static str, String) {
    match exit {
        Exit::Code(code) => ("exited", code.to_string()),
        Exit::Signal { signal, core } => {
            let name = groundstate_units::text::signal::name(signal);
            (if core { "dumped" } else { "killed" }, name)
        }
    }
}
