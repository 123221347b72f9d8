//! Takes requests from clients: how many in a turn, and in which order.

use crate::base::{clock, limit};
use crate::control::client::Line as Input;
use crate::control::failed;
use crate::event_loop::Init;
use crate::fd::Foreign;
use crate::loader::Asker;
use crate::{control, fd};
use groundstate_units::control::answer::Failure;
use groundstate_units::control::request::{Malformed, Request};

impl Init {
    /// Accepts connections and handles requests. Each client has its share of the turn.
    pub(crate) fn serve(&mut self) {
        self.serve_all();
        fd::close_left();
    }

    fn serve_all(&mut self) {
        let now = self.now;
        let settings = &self.machine.generation().settings;
        let owners: Vec<u32> = settings.sources.values().copied().collect();
        let Some(control) = self.control.as_mut().filter(|control| !control.is_idle()) else {
            return;
        };
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
        control::count_unused(&request, &passed);
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
