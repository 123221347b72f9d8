//! Answers that are sent later or do not end: followed events, and `wait`.

use crate::base::{clock, limit};
use crate::control;
use crate::control::client::Client;
use crate::control::{Answered, line, now};
use crate::event_loop::Init;
use crate::loader::Asker;
use groundstate_units::control::answer::{End, Line, Settled};

impl Init {
    /// Sends the queued answers. Init's own log lines are written first, so that a client that
    /// reads an answer finds them already written.
    pub(crate) fn send_answers(&mut self) {
        let Some(control) = self.control.as_ref().filter(|control| !control.is_idle()) else {
            return;
        };
        if control.has_unsent() {
            self.voice.flush();
            // A crash after an answer does not lose the change that was answered.
            self.commit();
        }
        if let Some(control) = &mut self.control {
            control.flush(self.poll.registry(), self.now);
        }
    }

    pub(crate) fn answer_events(&mut self, asker: Asker, follow: bool, after: u64) -> Answered {
        let last = self.history.last();
        let lines = self.event_lines(after, asker.id);
        self.queue(asker.client, &lines);
        if !follow {
            return now(End { end: true });
        }
        if let Some(client) = self.client(asker.client) {
            client.follows = Some((asker.id, last));
        }
        Ok(None)
    }

    fn event_lines(&self, after: u64, id: u64) -> Vec<u8> {
        let facts = self.view_facts();
        let mut lines = Vec::new();
        for (seq, entry) in self.history.after(after) {
            lines.extend(line(&Line::ok(id, control::event(*seq, entry, &facts))));
        }
        lines
    }

    /// Sends new events to the clients that follow them. Root gets all events; the others share the
    /// turn as in [`crate::control`], those farthest behind first. The rest is sent in the next
    /// turn.
    pub(crate) fn stream_events(&mut self) {
        let last = self.history.last();
        let Some(control) = self.control.as_mut().filter(|control| !control.is_idle()) else {
            return;
        };
        control.owes_events = false;
        let follows = |(number, client): (&usize, &Client)| {
            client.follows.map(|(id, seq)| (!client.caller.trusted, seq, *number, id))
        };
        let mut behind: Vec<_> = control.clients.iter().filter_map(follows).collect();
        behind.retain(|(_, seq, _, _)| *seq < last);
        behind.sort_unstable();
        let mut until = None;
        for (is_other, seq, number, id) in behind {
            let now = clock::now();
            if is_other && *until.get_or_insert(now.after(limit::SERVING_A_TURN)) <= now {
                self.control.iter_mut().for_each(|control| control.owes_events = true);
                return;
            }
            if self.control.as_mut().is_some_and(|control| control.cut_off_follower(number)) {
                continue;
            }
            let lines = self.event_lines(seq, id);
            if let Some(client) = self.client(number) {
                client.queue(&lines);
                client.follows = Some((id, last));
            }
        }
    }

    /// Answers `wait` once no unit is starting, stopping or waiting.
    pub(crate) fn answer_waits(&mut self) {
        let mut clients = self.control.iter().flat_map(|control| control.clients.values());
        let none_waits = clients.all(|client| client.waits.is_empty());
        if none_waits || !self.machine.is_settled() || self.ending.is_under_way() {
            return;
        }
        let system = self.machine.system();
        let Some(control) = &mut self.control else { return };
        for client in control.clients.values_mut() {
            for id in std::mem::take(&mut client.waits) {
                client.queue(&line(&Line::ok(id, Settled { schema: 1, system })));
            }
        }
    }
}
