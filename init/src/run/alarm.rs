//! What runs wait for in time, and with each other: `ready-wait` before an exec-start-post,
//! the next ready-exec, run-timeout, a last signal's patience, start-idle. And the line a
//! program writes to its `ready-fd`.

use super::procedure::{Alarm, Procedure};
use crate::event_loop::Init;
use groundstate_units::machine::event::RunId;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

impl Init {
    pub(super) fn set_alarm(&mut self, run: RunId, alarm: Alarm, span: Duration) {
        let at = self.now.after(span);
        if alarm == Alarm::Idle {
            self.idle.insert(run);
        }
        if let Some(running) = self.runs.get_mut(run) {
            running.alarms.insert(alarm, at);
            self.runs.time(run);
        }
    }

    /// Those that have come, and those that let others start first where none does any more.
    pub(super) fn alarms_due(&mut self) {
        let now = self.now;
        let mut due = Vec::new();
        for run in self.runs.due(now) {
            let Some(running) = self.runs.get(run) else { continue };
            let come = running.alarms.iter().filter(|(_, at)| **at <= now);
            due.extend(come.map(|(alarm, _)| (run, *alarm)));
        }
        due.extend(self.idle_due());
        for (run, alarm) in due {
            if let Some(running) = self.runs.get_mut(run) {
                running.alarms.remove(&alarm);
            }
            if alarm == Alarm::Idle {
                self.idle.remove(&run);
            }
            self.course(run, |procedure| procedure.alarm(alarm));
        }
    }

    /// Some run waits for others to start first, and none does any more.
    pub(super) fn nobody_is_before_the_idle(&self) -> bool {
        !self.idle_due().is_empty()
    }

    fn idle_due(&self) -> Vec<(RunId, Alarm)> {
        let idle = self
            .idle
            .iter()
            .filter(|run| self.runs.get(**run).is_some_and(|running| running.procedure.is_idle()));
        let idle: Vec<_> = idle.map(|run| (*run, Alarm::Idle)).collect();
        let busy = || self.runs.iter().any(|(_, running)| running.procedure.is_starting());
        if idle.is_empty() || busy() { Vec::new() } else { idle }
    }

    /// Something stands in the pipe of a ready-fd, or it was closed.
    pub(crate) fn ready_pipe(&mut self, token: usize) {
        let Some(run) = self.runs.watched(token) else { return };
        let Some(running) = self.runs.get_mut(run) else { return };
        let Some((at, pipe)) = running.ready_pipe.take() else { return };
        if at != token {
            running.ready_pipe = Some((at, pipe));
            return;
        }
        match line_in(&pipe) {
            Some(true) => {
                self.runs.unwatch(token);
                self.course(run, Procedure::ready);
            }
            // Closed without a line: it will never be ready by this, and its timeout tells.
            Some(false) => self.runs.unwatch(token),
            None => running.ready_pipe = Some((at, pipe)),
        }
    }
}

/// Whether there was the end of a line; None: not yet.
fn line_in(pipe: &OwnedFd) -> Option<bool> {
    let mut bytes = [0u8; 256];
    let mut file = std::fs::File::from(pipe.try_clone().ok()?);
    match file.read(&mut bytes) {
        Ok(0) => Some(false),
        Ok(length) if bytes.get(..length).is_some_and(|read| read.contains(&b'\n')) => Some(true),
        Ok(_) | Err(_) => None,
    }
}
