//! Timers and paths of trigger units: what their watcher was told, and what it has reported.

use super::Triggers;
use super::message::By;
use super::watcher_process::Post;
use crate::base::limit;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::flood::Flood;
use groundstate_units::trigger::timer::{Due, History};
use groundstate_units::trigger::{Timer, Watch};
use serde::{Deserialize, Serialize};

/// What one of them waits for.
#[derive(Serialize, Deserialize)]
pub(crate) enum Aim {
    /// A timer, with its past.
    Timer(Box<Timer>, Box<History>),
    /// Paths; whether its lookout was told to look.
    Paths(Watch, bool),
}

/// One of them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) unit: Name,
    pub(crate) aim: Aim,
    #[serde(default)]
    pub(crate) flood: Flood,
    /// Of a timer.
    #[serde(default)]
    pub(crate) due: Due,
    /// Of paths at which a look may block.
    pub(crate) apart: Option<Post>,
    /// Its paths have not answered.
    #[serde(skip)]
    pub(crate) asked: Option<Asked>,
}

/// Paths that were asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// Since when they have not answered.
    pub(crate) at: Time,
    /// By which order last.
    pub(crate) by: By,
    /// That they do not was said.
    pub(crate) is_said: bool,
}

impl Watched {
    pub(crate) fn post(&self) -> Post {
        match self.aim {
            Aim::Timer(_, _) => Post::Clock,
            Aim::Paths(_, _) => self.apart.unwrap_or(Post::Paths),
        }
    }

    /// The next order to look is sent although one was sent before.
    pub(super) fn look_again(&mut self) {
        if let Aim::Paths(_, looking) = &mut self.aim {
            *looking = false;
        }
    }

    /// The answer to this order is the one that counts.
    pub(crate) fn asked_by(&mut self, by: By, now: Time) {
        match &mut self.asked {
            Some(asked) => asked.by = by,
            // To rest asks for nothing.
            None if by == By::Rest => {}
            None => self.asked = Some(Asked { at: now, by, is_said: false }),
        }
    }
}

/// All of them, for people.
pub(crate) fn paths(watch: &Watch) -> String {
    let paths: Vec<&str> = watch.looks.iter().map(|(_, path)| path.as_str()).collect();
    paths.join(", ")
}

impl Triggers {
    /// Path units whose paths have not answered in time, each once, with those paths.
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

    /// When it is to be said of one that it does not answer.
    pub(crate) fn silent_at(&self) -> Option<Time> {
        let asked = self.watched.values().filter_map(|watched| watched.asked);
        asked.filter(|asked| !asked.is_said).map(|asked| asked.at.after(limit::PATHS_ANSWER)).min()
    }

    pub(crate) fn watched_at(&self, post: Post) -> Vec<RunId> {
        let at = self.watched.iter().filter(|(_, watched)| watched.post() == post);
        at.map(|(run, _)| *run).collect()
    }
}
