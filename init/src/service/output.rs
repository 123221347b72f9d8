//! Where the output of a run goes: to the logger by a pipe, to nobody, to init's own output. How it is
//! read is [`crate::logger`]; which line writes where is [`super::command`].

use crate::event_loop::Init;
use crate::logger;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::{Log, Run};
use groundstate_units::text::name::Name;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

impl Init {
    /// Where a run's output goes.
    pub(super) fn output(
        &mut self,
        run: RunId,
        name: &Name,
        targets: &Arc<[Name]>,
        spec: &Run,
    ) -> std::io::Result<Rc<OwnedFd>> {
        self.output_to(run, name, targets, spec, spec.log)
    }

    pub(super) fn output_to(
        &mut self,
        run: RunId,
        name: &Name,
        targets: &Arc<[Name]>,
        spec: &Run,
        log: Log,
    ) -> std::io::Result<Rc<OwnedFd>> {
        match (log, &mut self.logger) {
            (Log::File | Log::Kmsg | Log::Syslog | Log::Console, Some(logger)) => {
                let told = run_log(run, name, targets, spec, log);
                let pipe = logger.pipe_for(told)?;
                logger.hold();
                Ok(Rc::new(pipe))
            }
            (Log::Inherit, _) => Ok(Rc::new(std::io::stdout().as_fd().try_clone_to_owned()?)),
            (Log::Null | Log::File | Log::Kmsg | Log::Syslog | Log::Console, _) => {
                Ok(self.null.output.clone())
            }
        }
    }
}

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
