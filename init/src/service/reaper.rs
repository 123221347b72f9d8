//! Children that have ended: reaped and at once taken out of the tables, for from that moment
//! the pid may be somebody else's (nothing is cloned in between). Orphans that came to init are
//! reaped like all others and belong to nobody.

use super::sequence::Part;
use crate::spawn::ExecResult;
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
