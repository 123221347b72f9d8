//! Timers and paths of trigger units: the orders sent to their lookout, and its reports.

use super::Triggers;
use super::lookout::Post;
use super::message::By;
use crate::base::limit;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::flood::Flood;
use groundstate_units::trigger::timer::{Due, History};
use groundstate_units::trigger::{Timer, Watch};
use serde::{Deserialize, Serialize};

/// The object of a trigger.
#[derive(Serialize, Deserialize)]
pub(crate) enum Aim {
    /// A timer, with its past.
    Timer(Box<Timer>, Box<History>),
    /// Paths, and true if the lookout was told to look.
    Paths(Watch, bool),
}

/// One trigger at a lookout.
#[derive(Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) unit: Name,
    pub(crate) aim: Aim,
    #[serde(default)]
    pub(crate) flood: Flood,
    /// When a timer is due.
    #[serde(default)]
    pub(crate) due: Due,
    /// The separate lookout of paths where a look may block.
    pub(crate) apart: Option<Post>,
    /// The unanswered order about its paths.
    #[serde(skip)]
    pub(crate) asked: Option<Asked>,
}

/// An unanswered order.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// The time since which no answer has come.
    pub(crate) at: Time,
    /// The last order.
    pub(crate) by: By,
    /// True if the silence was reported.
    pub(crate) is_said: bool,
}

impl Watched {
    pub(crate) fn post(&self) -> Post {
        match self.aim {
            Aim::Timer(_, _) => Post::Clock,
            Aim::Paths(_, _) => self.apart.unwrap_or(Post::Paths),
        }
    }

    /// Makes init send [`Order::Look`](super::message::Order::Look) once more.
    pub(super) fn look_again(&mut self) {
        if let Aim::Paths(_, looking) = &mut self.aim {
            *looking = false;
        }
    }

    /// Records an order: only the answer to the last one counts.
    pub(crate) fn note_order(&mut self, by: By, now: Time) {
        match &mut self.asked {
            Some(asked) => asked.by = by,
            // Rest requests no look.
            None if by == By::Rest => {}
            None => self.asked = Some(Asked { at: now, by, is_said: false }),
        }
    }
}

/// The paths as text.
pub(crate) fn paths(watch: &Watch) -> String {
    let paths: Vec<&str> = watch.looks.iter().map(|(_, path)| path.as_str()).collect();
    paths.join(", ")
}

impl Triggers {
    /// Path units whose paths have not answered in time, with these paths; each is returned once.
    pub(crate) fn newly_silent(&mut self, now: Time) -> Vec<(Name, String)> {
        let mut silent = Vec::new();
        for watched in self.watched.values_mut() {
            if let Some(asked) = &mut watched.asked
                && !asked.is_said
                && asked.at.after(limit::PATHS_ANSWER) <= now
                && let Aim::Paths(watch, _) = &watched.aim
            {
                asked.is_said = true;
                silent.push((watched.unit.clone(), paths(watch)));
            }
        }
        silent
    }

    /// The time at which the next silent path must be reported.
    pub(crate) fn silent_at(&self) -> Option<Time> {
        let asked = self.watched.values().filter_map(|watched| watched.asked);
        asked.filter(|asked| !asked.is_said).map(|asked| asked.at.after(limit::PATHS_ANSWER)).min()
    }

    pub(crate) fn watched_at(&self, post: Post) -> Vec<RunId> {
        let at = self.watched.iter().filter(|(_, watched)| watched.post() == post);
        at.map(|(run, _)| *run).collect()
    }
}
