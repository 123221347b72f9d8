//! Answers that come later or do not end: the event log as it grows, and `wait`.

use super::answer::{Answered, line, now};
use super::show;
use crate::event_loop::Init;
use crate::loader::Asker;
use groundstate_units::control::answer::{End, Line, Settled};

impl Init {
    /// Answers go out; whoever reads one finds what was said before it already said.
    pub(crate) fn send_answers(&mut self) {
        let Some(control) = &mut self.control else { return };
        if control.has_unsent() {
            self.voice.flush();
        }
        control.flush(self.now);
    }

    pub(super) fn answer_events(&mut self, asker: Asker, follow: bool, after: u64) -> Answered {
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
        let facts = self.shown_by();
        let mut lines = Vec::new();
        for entry in self.history.after(after) {
            lines.extend(line(&Line::ok(id, show::event(&entry, &facts))));
        }
        lines
    }

    /// Sends new events to who follows them.
    pub(crate) fn stream_events(&mut self) {
        let last = self.history.last();
        let Some(control) = &self.control else { return };
        let behind: Vec<(usize, u64, u64)> = control
            .clients
            .iter()
            .filter_map(|(number, client)| client.follows.map(|(id, seq)| (*number, id, seq)))
            .filter(|(_, _, seq)| *seq < last)
            .collect();
        for (number, id, seq) in behind {
            let lines = self.event_lines(seq, id);
            if let Some(client) = self.client(number) {
                client.queue(&lines);
                client.follows = Some((id, last));
            }
        }
    }

    /// Answers `wait` once nothing is under way.
    pub(crate) fn answer_waits(&mut self) {
        if !self.has_waiting() || !self.machine.is_settled() || self.ending.is_under_way() {
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

    fn has_waiting(&self) -> bool {
        let clients = self.control.iter().flat_map(|control| control.clients.values());
        clients.into_iter().any(|client| !client.waits.is_empty())
    }
}
