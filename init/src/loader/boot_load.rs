//! The first load, with which a boot goes on. One that failed for want of something is done again:
//! there is nothing to fall back on. What the others do is in the parent module.

use super::child::Errand;
use super::failed_load::LeftOut;
use super::transfer::Parcel;
use super::{Purpose, send};
use crate::base::Level;
use crate::base::Mode;
#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::base::limit;
use crate::base::paths::Paths;
use crate::event_loop::Init;
use crate::sys::Pid;
use groundstate_units::graph::Provider;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use mio::Registry;
use std::io;
use std::sync::Arc;

/// Forks the loader of a boot; `targets` may be instances of templates.
pub(crate) fn send_first(
    registry: &Registry,
    paths: &Paths,
    mode: Mode,
    targets: [Option<&Name>; 2],
) -> io::Result<(Pid, Parcel)> {
    send_without(registry, paths, mode, targets, LeftOut::default())
}

/// The same again, without the files that earlier loaders did not come past.
fn send_without(
    registry: &Registry,
    paths: &Paths,
    mode: Mode,
    targets: [Option<&Name>; 2],
    left_out: LeftOut,
) -> io::Result<(Pid, Parcel)> {
    let wanted: Vec<Name> = targets.into_iter().flatten().cloned().collect();
    let identity = mode == Mode::Machine;
    send(registry, &Errand { identity, wanted, left_out, ..Errand::of(paths, mode) })
}

impl Init {
    /// The first load has begun, or could not. Without a child there is an empty generation, and
    /// so the emergency.
    pub(crate) fn loading_at_boot(&mut self, sent: io::Result<(Pid, Parcel)>) {
        self.loader.since.get_or_insert(self.now);
        self.loading(Purpose::Boot, sent);
    }

    /// The same once more, in another root.
    pub(crate) fn boot_anew(&mut self) {
        self.loader.boots = 0;
        self.loader.left_out = LeftOut::default();
        self.loader.since = None;
        self.first_load_again();
    }

    fn targets(&self) -> [Option<&Name>; 2] {
        [self.options.target.as_ref(), self.kernel_target.as_ref()]
    }

    /// It brought nothing.
    pub(super) fn not_booted(&mut self) {
        // One that took all its time would take it again.
        let late = self.loader.since.is_some_and(|since| self.now.since(since) >= limit::LOADER);
        let often = self.loader.boots >= limit::BOOT_LOADS;
        if late || often {
            return self.boot(Generation::default());
        }
        self.loader.boots += 1;
        self.first_load_again();
    }

    pub(super) fn first_load_again(&mut self) {
        let (registry, paths) = (self.poll.registry(), &self.paths);
        let left_out = self.loader.left_out.clone();
        let sent = send_without(registry, paths, self.mode, self.targets(), left_out);
        self.loading_at_boot(sent);
    }

    /// The first generation: the logger, and the goal.
    pub(super) fn boot(&mut self, generation: Generation) {
        let generation = Arc::new(generation);
        self.settle_with(&generation);
        let targets = self.options.target.clone().or_else(|| self.kernel_target.clone());
        let asked = targets.as_ref().unwrap_or(&generation.settings.default_target).clone();
        let targets = targets.into_iter().collect();
        // Of another root's nothing is known any more.
        self.timings.keep(&generation);
        self.facts.push_back(Event::Boot { generation, targets });
        self.settle();
        #[cfg(debug_assertions)]
        crash_test::strike_in("boot", self.lineage.crashes == 0);
        if !self.machine.wish().goal.contains(&asked) {
            let why = self.why_not(&asked);
            let emergency = self.machine.generation().settings.emergency_target.clone();
            self.say(
                Level::Error,
                format_args!("the goal {asked} can not be had ({why}): {emergency} instead"),
            );
        }
    }

    /// Why a target can not be the goal.
    pub(crate) fn why_not(&self, target: &Name) -> &'static str {
        match self.machine.graph().meant(self.machine.generation(), target) {
            Provider::Nobody => "nobody provides it",
            Provider::Masked => "it is masked",
            Provider::Unit(_) => "its unit can not be used",
        }
    }
}
