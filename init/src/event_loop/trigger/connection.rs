//! Connections of socket units with `accept`: each starts an instance.

use crate::base::{Level, limit};
use crate::event_loop::Init;
use crate::fd::Foreign;
use crate::sys::no_linger::close_without_linger;
use crate::sys::socket as raw;
use crate::trigger::connection::{Connection, Peer};
use crate::trigger::listening::Listening;
use groundstate_units::control::answer::BrokenOff;
use groundstate_units::machine::action::Note;
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::State;
use groundstate_units::text::name::Name;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

impl Init {
    /// Accepts pending connections, up to the share of one turn.
    pub(crate) fn accept_connections(&mut self, listening: &mut Listening) {
        for fd in listening.fds.iter().map(Foreign::share).collect::<Vec<_>>() {
            for _ in 0..limit::ACCEPTS_A_TURN {
                match raw::accept(fd.as_fd()) {
                    Ok(connection) => {
                        listening.counts.accepted = listening.counts.accepted.saturating_add(1);
                        let admitted = close_without_linger(|| self.admit(listening, connection));
                        if let Err(why) = admitted {
                            listening.counts.refused = listening.counts.refused.saturating_add(1);
                            let unit = &listening.unit;
                            self.say(Level::Warning, format_args!("{unit}: {why}"));
                        }
                        if listening.flood.fired(self.now) {
                            self.say_flooded(listening);
                            return;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // The connection was closed before it was accepted, or a signal arrived: try
                    // the next one.
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                        ) => {}
                    Err(error) => {
                        let unit = &listening.unit;
                        self.say(Level::Warning, format_args!("{unit}: cannot accept: {error}"));
                        listening.rests_until = Some(self.now.after(limit::ACCEPT_REST));
                        return;
                    }
                }
            }
        }
    }

    fn say_flooded(&mut self, listening: &Listening) {
        let (unit, rest) = (&listening.unit, listening.flood.rest().as_secs());
        let text = "too many connections";
        self.say(Level::Warning, format_args!("{unit}: {text}; pausing accept for {rest} s"));
    }

    /// Assigns an instance to a connection, or returns the reason for rejecting it.
    fn admit(&mut self, listening: &Listening, connection: OwnedFd) -> Result<(), String> {
        let peer = Peer::of(&connection);
        let of_it = |one: &&Connection| one.socket == listening.unit;
        let of_peer = |one: &&Connection| of_it(one) && one.peer.is_of_one_source(peer);
        let all = &self.triggers.connections;
        let most = usize::try_from(listening.socket.max_per_source).unwrap_or(usize::MAX);
        if most > 0 && all.values().filter(of_peer).count() >= most {
            return Err(format!("rejected {peer}: it has {most} open connections"));
        }
        let held = all.values().filter(|one| one.fd.is_some()).count();
        if held >= limit::CONNECTIONS_HELD {
            return Err(format!("rejected {peer}: too many connections wait for a start"));
        }
        let generation = self.machine.generation();
        let place = generation.find_unit(listening.unit.as_str()).and_then(|socket| {
            let names = self.machine.free_places(socket);
            let mut names = names.filter_map(|unit| Some(&generation.unit(unit)?.name));
            names.find(|name| !all.contains_key(*name)).cloned()
        });
        let Some(place) = place else {
            let open = all.values().filter(of_it).count();
            return Err(format!("rejected {peer}: {open} connections are open"));
        };
        let fd_name = listening.socket.fd_name.clone();
        let one = Connection {
            socket: listening.unit.clone(),
            peer,
            fd_name: fd_name.unwrap_or_else(|| "connection".to_string()),
            fd: Some(Rc::new(connection).into()),
        };
        self.triggers.connections.insert(place.clone(), one);
        self.facts.push_back(Event::Fire(place));
        Ok(())
    }

    /// Closes connections whose unit does not run for them any more, or never will.
    pub(crate) fn forget_connections(&mut self) {
        let (machine, generation) = (&self.machine, self.machine.generation());
        let stays = |place: &Name| {
            generation.find_unit(place.as_str()).is_some_and(|unit| machine.has_connection(unit))
        };
        if !self.triggers.connections.keys().all(stays) {
            let connections = &mut self.triggers.connections;
            close_without_linger(|| connections.retain(|place, _| stays(place)));
        }
    }

    /// Counts a connection as broken off if its run failed.
    pub(crate) fn connections_noted(&mut self, note: &Note) {
        let (State::Disabled, Some(reason)) = (note.to, &note.reason) else { return };
        let Some(one) = self.triggers.connections.get(&note.unit) else { return };
        let broken = BrokenOff {
            unit: note.unit.to_string(),
            peer: one.peer.to_string(),
            time: self.shown_by().wall_of(self.now),
            reason: reason.to_string(),
        };
        let socket = one.socket.clone();
        let all = self.triggers.listening.values_mut();
        for listening in all.filter(|listening| listening.unit == socket) {
            listening.counts.failed = listening.counts.failed.saturating_add(1);
            listening.counts.last_failure = Some(broken.clone());
        }
    }

    /// Returns true if the unit exists only to serve a connection.
    pub(crate) fn is_place(&self, unit: &Name) -> bool {
        let unit = self.machine.generation().find_unit(unit.as_str());
        unit.is_some_and(|unit| self.machine.is_place(unit))
    }
}
