//! Whose requests are taken in a turn of the loop, and how many. Who makes init work for an answer has no
//! more of it than a share: root comes first, and others go on in the next turn. What a request does is
//! [`super::handlers`]'s.

use super::client::{Caller, Client, Line as Input};
use super::handlers::failed;
use super::{Control, source};
use crate::base::{clock, limit};
use crate::event_loop::Init;
use crate::fd;
use crate::fd::Foreign;
use crate::loader::Asker;
use groundstate_units::control::answer::Failure;
use groundstate_units::control::request::{Malformed, Request};
use groundstate_units::text::time::Time;

impl Init {
    /// Takes connections and serves what they ask, each its share of the turn.
    pub(crate) fn serve(&mut self) {
        self.serve_all();
        fd::close_left();
    }

    fn serve_all(&mut self) {
        let now = self.now;
        let settings = &self.machine.generation().settings;
        let owners: Vec<u32> = settings.sources.values().copied().collect();
        let Some(control) = &mut self.control else { return };
        control.accept(self.poll.registry(), now);
        let mut until = None;
        for number in control.order() {
            for _ in 0..limit::REQUESTS_A_TURN {
                let Some(control) = &mut self.control else { return };
                let Some(caller) = control.clients.get(&number).map(|it| it.caller) else { break };
                if !control.has_room_for_answer(caller) {
                    break;
                }
                if until.is_some_and(|until| until <= clock::now()) && !caller.trusted {
                    return;
                }
                let Some(client) = control.clients.get_mut(&number) else { break };
                if !client.may_ask() {
                    break;
                }
                let takes = caller.trusted || owners.iter().any(|uid| caller.is_user(*uid));
                match client.line(now, takes) {
                    Input::None => break,
                    Input::Whole(line, _) if line.iter().all(u8::is_ascii_whitespace) => {}
                    Input::Whole(line, passed) => {
                        if !caller.trusted {
                            control.served = number;
                            let end = || clock::now().after(limit::SERVING_A_TURN);
                            until = until.or_else(|| Some(end()));
                        }
                        self.request(number, &line, passed);
                    }
                    Input::TooLong => {
                        let failure = Failure::new(
                            "protocol",
                            "the request is too long",
                            "a request is one line of at most 64 KiB",
                        );
                        client.queue(&failed(0, failure));
                        client.close();
                    }
                }
            }
        }
    }

    fn request(&mut self, number: usize, text: &[u8], passed: Vec<Foreign>) {
        let Some(caller) = self.caller(number) else { return };
        let request = Request::parse(text);
        source::count_unused(&request, &passed);
        let answer = match request {
            Err(Malformed { id, kind, message, hint }) => {
                Some(failed(id.unwrap_or(0), Failure::new(kind, message, hint)))
            }
            Ok(request) => {
                let asker = Asker { client: number, id: request.id };
                match self.answer(asker, caller, request.verb, passed) {
                    Ok(answer) => answer.map(|answer| answer.line(asker.id)),
                    Err(failure) => Some(failed(asker.id, self.too_early(failure))),
                }
            }
        };
        if let Some(answer) = answer {
            self.queue(number, &answer);
        }
    }
}

// Who goes first at the control socket, and how much of what was answered others than root may leave
// unread.

impl Control {
    /// In this order they are served: root first, then the others, who was served last at the end.
    pub(super) fn order(&self) -> Vec<usize> {
        let of = |trusted: bool| {
            let all = self.clients.iter().filter(move |(_, it)| it.caller.trusted == trusted);
            all.map(|(number, _)| *number)
        };
        let behind = of(false).filter(|number| *number > self.served);
        let others = behind.chain(of(false).filter(|number| *number <= self.served));
        of(true).chain(others).collect()
    }

    /// Who follows the events and leaves some unread, where others than root leave too much unread, goes: it
    /// would be more and more.
    pub(super) fn cuts_off(&mut self, number: usize) -> bool {
        let caller =
            self.clients.get(&number).filter(|it| it.unsent() > limit::UNREAD_OF_A_FOLLOWER);
        let goes = caller.is_some_and(|it| !self.has_room_for_answer(it.caller));
        if let Some(client) = self.clients.get_mut(&number).filter(|_| goes) {
            client.given_up = true;
        }
        goes
    }

    /// Others than root leave no more unread than that, all together and each uid's: what they asked is
    /// served when there is room for its answer. One long answer is not all that a uid may have.
    pub(super) fn has_room_for_answer(&self, caller: Caller) -> bool {
        let unread = |of: &dyn Fn(Caller) -> bool, most: usize| -> usize {
            let these = self.clients.values().filter(|it| of(it.caller));
            these.map(|it| it.unsent().min(most)).sum()
        };
        caller.trusted
            || (unread(&|it| it.uid == caller.uid, limit::UNREAD) < limit::UNREAD_OF_A_UID
                && unread(&|it| !it.trusted, usize::MAX) < limit::UNREAD_OF_OTHERS)
    }

    /// Who waits for others to make room, and not for itself, is not to blame for it.
    pub(super) fn forgive(&mut self, now: Time) {
        let is_late = |client: &Client| client.is_stuck(now) && client.unsent() == 0;
        let late = self.clients.iter().filter(|(_, client)| is_late(client));
        let callers: Vec<(usize, Caller)> = late.map(|(at, client)| (*at, client.caller)).collect();
        for (number, caller) in callers {
            if !self.has_room_for_answer(caller)
                && let Some(client) = self.clients.get_mut(&number)
            {
                client.moved = now;
            }
        }
    }
}
