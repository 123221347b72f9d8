//! The machine under test, seen only through its public face. The one file of the
//! simulator that names [`crate::machine`]'s functions.

use crate::machine::action::Action;
use crate::machine::event::Event;
use crate::oracle::graph::Universe;
use crate::sim::view::Seen;
use crate::time::Time;

/// A machine.
#[derive(Clone)]
pub struct Subject {}

impl Subject {
    /// As it is.
    pub fn new() -> Subject {
        Subject {}
    }

    /// One event.
    pub fn step(&mut self, _now: Time, _event: Event) -> (Vec<Action>, bool) {
        (Vec::new(), false)
    }

    /// Its public answers.
    pub fn see(&self, universe: &Universe) -> Seen {
        Seen { states: vec![None; universe.units.len()], ..Seen::default() }
    }
}
