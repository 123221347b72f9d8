//! One line of a unit becomes a process: prepared, cloned, watched until it is known
//! whether the program was executed.

use crate::logger;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::{Log, Run};
use groundstate_units::text::name::Name;
use std::sync::Arc;

/// What the logger is told of a pipe.
pub(crate) fn run_log(
    run: RunId,
    name: &Name,
    targets: &Arc<[Name]>,
    spec: &Run,
    log: Log,
) -> logger::RunLog {
    let stdio = spec.particular.as_ref().map(|p| &p.stdio);
    logger::RunLog {
        run,
        unit: name.clone(),
        targets: targets.clone(),
        log,
        tag: stdio.map(|stdio| stdio.log_tag.clone()).unwrap_or_default(),
        priority: stdio.map(|stdio| stdio.log_priority).unwrap_or_default(),
        blocks: stdio.is_some_and(|stdio| stdio.log_blocks),
        ready_grep: spec.ready_grep.clone(),
    }
}
