//! Assigns notify messages to runs.
//!
//! The kernel gives the sender's pid. Init looks it up among the processes it started, then among
//! the members of the cgroups. The first lookup works even after the sender has exited: init keeps
//! the pid of a reaped process until its last messages are handled.

#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::base::limit;
use crate::event_loop::Init;
use crate::fd;
use crate::notify::{Datagram, Notify, Statement};
use crate::service::run_table::Main;
use crate::service::sequence::{CommandKind, CommandSequence};
use crate::sys::Pid;
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::spec::NotifyAccess;
use groundstate_units::text::name::Name;
use std::collections::BTreeSet;

/// A datagram and the run it speaks for.
struct Spoken {
    name: Option<Name>,
    run: RunId,
    datagram: Datagram,
    /// True if the datagram counts only once its sender has become the main process, as an earlier
    /// datagram announces.
    is_of_next: bool,
}

/// Datagrams that are handled together.
#[derive(Default)]
struct Heard {
    said: Vec<Spoken>,
    /// Processes announced as main processes.
    named: BTreeSet<(RunId, i32)>,
}

/// The sender of a datagram.
struct Sender {
    run: RunId,
    access: NotifyAccess,
    is_main: bool,
    is_started: bool,
}

impl Sender {
    /// Returns true if it may send, as the main process or as another one.
    fn may_speak(&self, is_main: bool) -> bool {
        match self.access {
            NotifyAccess::None => false,
            NotifyAccess::Main => is_main,
            NotifyAccess::Exec => is_main || self.is_started,
            NotifyAccess::All => true,
        }
    }
}

impl Init {
    /// Reads messages, up to one turn's share and the flood limits. If a deadline has passed, reads
    /// all messages, because one sent in time counts.
    pub(crate) fn receive_notifications(&mut self) {
        let now = self.now;
        let is_over = self.machine.next_deadline().is_some_and(|at| at <= now);
        if is_over && self.notify.as_ref().is_some_and(|notify| notify.holds_back(now)) {
            return self.receive_all();
        }
        self.receive_up_to(limit::NOTIFICATIONS_A_TURN, |notify| notify.receive_in_turn(now));
    }

    /// Reads all messages, because some senders have exited. This covers the messages read ahead
    /// and one turn's share of the socket's queue, which never holds more
    /// (net.unix.max_dgram_qlen).
    pub(crate) fn receive_all(&mut self) {
        let now = self.now;
        let ahead = self.notify.as_deref().map_or(0, Notify::waiting);
        let most = ahead.saturating_add(limit::NOTIFICATIONS_A_TURN);
        self.receive_up_to(most, |notify| notify.receive_at_once(now));
    }

    /// Reads up to `most` datagrams, including unusable ones.
    fn receive_up_to(
        &mut self,
        most: usize,
        mut receive: impl FnMut(&mut Notify) -> Option<Datagram>,
    ) {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let (mut heard, mut read) = (Heard::default(), 0u64);
        while let Some(notify) = self.notify.as_mut().filter(|_| read < most) {
            let useless = notify.dropped;
            let Some(datagram) = notify.watch(Notify::taken, &mut receive) else { break };
            read = read.saturating_add(notify.dropped.saturating_sub(useless)).saturating_add(1);
            self.assign_to_run(datagram, &mut heard);
        }
        #[cfg(debug_assertions)]
        if crash_test::makes("commit-before-compute") {
            self.commit();
        }
        self.apply_statements(heard);
    }

    fn refuse_message(&mut self) {
        let refused = &mut self.basics.messages_refused;
        *refused = refused.saturating_add(1);
    }

    fn refuse(&mut self, datagram: &Datagram) {
        self.refuse_message();
        fd::dropped(datagram.passed.len());
    }

    /// Assigns a datagram to its run. A datagram of no run is refused.
    fn assign_to_run(&mut self, datagram: Datagram, heard: &mut Heard) {
        let pid = datagram.pid;
        let is_named = |sender: &Sender| heard.named.contains(&(sender.run, pid));
        let counts = |sender: &Sender| sender.may_speak(sender.is_main || is_named(sender));
        let Some(sender) = self.sender(pid).filter(counts) else {
            return self.refuse(&datagram);
        };
        let (run, is_of_next) = (sender.run, !sender.may_speak(sender.is_main));
        for statement in &datagram.statements {
            if let Statement::MainPid(next) = statement {
                heard.named.insert((run, *next));
            }
        }
        let name = self.runs.get(run).map(|running| running.name.clone());
        heard.said.push(Spoken { name, run, datagram, is_of_next });
    }

    /// Applies the statements, ordered by unit name.
    fn apply_statements(&mut self, heard: Heard) {
        let mut said = heard.said;
        said.sort_by(|a, b| (&a.name, a.run).cmp(&(&b.name, b.run)));
        for Spoken { run, mut datagram, is_of_next, .. } in said {
            if is_of_next && !self.runs.is_main(run, datagram.pid) {
                self.refuse(&datagram);
                continue;
            }
            let passed = std::mem::take(&mut datagram.passed);
            // Closes descriptors that are not stored. BARRIER=1 waits for that.
            self.keep_descriptors(run, &datagram.statements, passed);
            for statement in &datagram.statements {
                self.apply_statement(run, statement);
            }
        }
        fd::close_left();
    }

    fn sender(&self, pid: i32) -> Option<Sender> {
        if pid <= 0 {
            return None;
        }
        let whose = || self.tracker.whose_without_marks(Pid::from_raw(pid));
        let (run, part) = self.runs.speaker(pid, whose)?;
        let access = self.runs.get(run)?.notify_access;
        let is_line = matches!(part, Some(CommandKind::Main | CommandKind::Start(_)));
        let is_main = is_line || self.runs.is_main(run, pid);
        Some(Sender { run, access, is_main, is_started: part.is_some() })
    }

    fn apply_statement(&mut self, run: RunId, statement: &Statement) {
        let tell = match statement {
            Statement::Ready => return self.make_ready(run),
            Statement::Reloading => return self.advance(run, CommandSequence::reloading),
            Statement::MainPid(pid) => return self.main_named(run, *pid),
            Statement::Stopping => Event::Stopping(run),
            Statement::Status(text) => Event::Status(run, text.clone()),
            Statement::WatchdogPing => Event::WatchdogPing(run),
            Statement::WatchdogTrigger => Event::WatchdogTrigger(run),
            Statement::WatchdogEvery(span) => Event::WatchdogEvery(run, *span),
            Statement::ExtendTimeout(span) => Event::ExtendTimeout(run, *span),
            // `keep_descriptors` has applied these for the whole datagram.
            Statement::Store
            | Statement::StoreRemove
            | Statement::StoreName(_)
            | Statement::StoreUnwatched => return,
        };
        self.pending.facts.push_back(tell);
    }

    fn main_named(&mut self, run: RunId, pid: i32) {
        let same = |main: &Main| main.pid() == pid && main.lives();
        let Some(running) = self.runs.get(run) else { return };
        if running.main.as_ref().is_some_and(same) || running.procedure.has_ended() {
            return;
        }
        match self.adopt(run, pid) {
            Ok(()) => self.advance(run, CommandSequence::main_changed),
            Err(_) => self.refuse_message(),
        }
    }
}
