//! What services say on the notify socket, put to their runs.
//!
//! The sender is known by its pid alone, as the kernel gives it: it is looked up among
//! the processes init started, which works even when the sender has ended (a pid is
//! not used again before it is reaped), and else among the members of the cgroups.

use super::procedure::{Part, Procedure};
use super::table::Main;
use crate::event_loop::Init;
use crate::limit;
use crate::notify::Datagram;
use crate::notify::message::Statement;
use crate::sys::Pid;
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::spec::NotifyAccess;

impl Init {
    /// Reads what has been said, up to a turn's worth; puts it to the runs by unit name.
    pub(crate) fn hear(&mut self) {
        let mut heard = Vec::new();
        for _ in 0..limit::NOTIFICATIONS_A_TURN {
            let Some(datagram) = self.notify.as_mut().and_then(|notify| notify.receive()) else {
                break;
            };
            match self.speaker(&datagram) {
                Some(run) => {
                    let name = self.runs.get(run).map(|running| running.name.clone());
                    heard.push((name, run, datagram));
                }
                None => self.unheard = self.unheard.saturating_add(1),
            }
        }
        heard.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        for (_, run, datagram) in heard {
            for statement in &datagram.statements {
                self.understand(run, statement);
            }
            // Here the descriptors that came with it are closed: what BARRIER=1 waits for.
        }
    }

    /// For which run the sender may speak.
    fn speaker(&self, datagram: &Datagram) -> Option<RunId> {
        let pid = datagram.pid;
        if pid <= 0 {
            return None;
        }
        let known = self.runs.of(pid);
        let run = known.or_else(|| self.tracker.whose(Pid::from_raw(pid)))?;
        let running = self.runs.get(run)?;
        let is_main = running.main.as_ref().is_some_and(|main| main.pid() == pid);
        let part = running.line(pid);
        let may = match running.notify_access {
            NotifyAccess::None => false,
            NotifyAccess::Main => is_main || matches!(part, Some(Part::Start(_))),
            NotifyAccess::Exec => is_main || part.is_some(),
            NotifyAccess::All => true,
        };
        may.then_some(run)
    }

    fn understand(&mut self, run: RunId, statement: &Statement) {
        let tell = match statement {
            Statement::Ready => return self.ready(run),
            Statement::Reloading => return self.course(run, Procedure::reloading),
            Statement::MainPid(pid) => return self.main_named(run, *pid),
            Statement::Stopping => Event::Stopping(run),
            Statement::Status(text) => Event::Status(run, text.clone()),
            Statement::WatchdogPing => Event::WatchdogPing(run),
            Statement::WatchdogTrigger => Event::WatchdogTrigger(run),
            Statement::WatchdogEvery(span) => Event::WatchdogEvery(run, *span),
            Statement::ExtendTimeout(span) => Event::ExtendTimeout(run, *span),
            // Its exit will say what went wrong.
            Statement::Errno(_) => return,
        };
        self.facts.push_back(tell);
    }

    fn main_named(&mut self, run: RunId, pid: i32) {
        let same = |main: &Main| main.pid() == pid;
        let Some(running) = self.runs.get(run) else { return };
        if running.main.as_ref().is_some_and(same) || running.procedure.has_ended() {
            return;
        }
        match self.adopt(run, pid) {
            Ok(()) => {
                if let Some(running) = self.runs.get_mut(run) {
                    running.procedure.main_changed();
                }
            }
            Err(_) => self.unheard = self.unheard.saturating_add(1),
        }
    }
}
