//! Children that have ended: reaped and at once taken out of the tables, for from that moment
//! the pid may be somebody else's (nothing is cloned in between). Orphans that came to init are
//! reaped like all others and belong to nobody.

use super::run_table::Runs;
use super::sequence::Part;
use crate::spawn::ExecResult;
use crate::sys::Pid;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use groundstate_units::text::name::Name;
use serde::{Deserialize, Serialize};

/// A process of a run that was reaped. It is part of the state until the run is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reaped {
    pub(crate) name: Name,
    pub(crate) pid: i32,
    pub(crate) run: RunId,
    pub(crate) part: Part,
    pub(crate) exit: Exit,
    pub(crate) verdict: Option<ExecResult>,
    /// To another process, before it was reaped.
    pub(crate) has_handed_on: bool,
}

impl Runs {
    /// Takes the process out of the tables; nothing if it is no unit's.
    pub(crate) fn reap(&mut self, pid: Pid, exit: Exit) -> Option<Reaped> {
        let run = self.of(pid.as_raw())?;
        let running = self.get_mut(run)?;
        let started = running.reported(|started| started.pid == pid.as_raw());
        if let Some(started) = &started {
            self.unwatch(started.token);
        }
        let verdict = started.map(|mut started| started.report.at_exit());
        let (run, part) = self.disown(pid.as_raw())?;
        let has_handed_on = self.has_handed_on(run, part);
        let name = self.get(run)?.name.clone();
        self.has_ended(pid.as_raw(), run, part);
        Some(Reaped { name, pid: pid.as_raw(), run, part, exit, verdict, has_handed_on })
    }
}
