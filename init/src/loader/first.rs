//! The first load, with which a boot goes on. One that failed for want of something is done again:
//! there is nothing to fall back on. What the others do is in the parent module.

use super::child::Errand;
use super::parcel::Parcel;
use super::progress::LeftOut;
use super::{Purpose, send};
use crate::boot::Mode;
#[cfg(debug_assertions)]
use crate::crash_test;
use crate::event_loop::Init;
use crate::found::Found;
use crate::limit;
use crate::paths::Paths;
use crate::sys::{Pid, fault};
use crate::voice::Level;
use groundstate_units::generation::Generation;
use groundstate_units::graph::Provider;
use groundstate_units::machine::event::Event;
use groundstate_units::name::Name;
use mio::Registry;
use std::io;
use std::sync::Arc;

/// Forks its loader, for what may be asked for: the goal named first, or that of a machine that was lost,
/// and its overlay. That machine has its names, and they may have been changed since.
pub(crate) fn send_first(
    registry: &Registry,
    paths: &Paths,
    mode: Mode,
    targets: [Option<&Name>; 2],
    found: Option<&Found>,
) -> io::Result<(Pid, Parcel)> {
    send_without(registry, paths, mode, targets, found, LeftOut::default())
}

/// The same again, without the files that earlier loaders did not come past.
fn send_without(
    registry: &Registry,
    paths: &Paths,
    mode: Mode,
    targets: [Option<&Name>; 2],
    found: Option<&Found>,
    left_out: LeftOut,
) -> io::Result<(Pid, Parcel)> {
    let mut asked: Vec<Name> = targets.into_iter().flatten().cloned().collect();
    let wish = found.and_then(Found::intent).map(|intent| intent.wish).unwrap_or_default();
    asked.extend(wish.goal.into_iter().chain(wish.want.into_keys()));
    // Whatever lives is to have its unit, whoever had wished for the instance.
    asked.extend(found.into_iter().flat_map(Found::names));
    let identity = mode == Mode::Machine && !found.is_some_and(|found| found.remains.was_booted);
    send(registry, &Errand { identity, wanted: asked, left_out, ..Errand::of(paths, mode) })
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
        // Its end was asked for: it needs no units.
        let begins_anew = self.lineage.begins_anew && self.lineage.found.end.is_none();
        self.read_meanwhile();
        match (begins_anew, late, often) {
            (_, false, false) => {
                self.loader.boots += 1;
                self.first_load_again();
            }
            (false, _, _) => self.boot(Generation::default()),
            // What it wants for may come, and without units nobody knows whose what lives is.
            (true, false, true) => {
                let waits = u32::from(self.loader.boots - limit::BOOT_LOADS);
                let pause = limit::BOOT_PAUSE.saturating_mul(2u32.saturating_pow(waits));
                let pause = pause.min(limit::BOOT_PAUSE_LONGEST);
                self.loader.boots = self.loader.boots.saturating_add(1);
                self.loader.again_at = Some(self.now.after(pause));
            }
            (true, true, _) => {
                let text = "the unit files can not be had: what lives is left alone";
                self.say(Level::Error, format_args!("{text}"));
                self.voice.flush();
                // The next image is to do no more than reap.
                self.arm(limit::CRASHES_IN_A_ROW.saturating_add(1));
                fault::by_panic();
            }
        }
    }

    /// Its time has come.
    pub(super) fn first_load_due(&mut self) {
        let now = self.now;
        if self.loader.again_at.take_if(|at| *at <= now).is_some() {
            self.first_load_again();
        }
    }

    pub(super) fn first_load_again(&mut self) {
        let found = Some(&self.lineage.found);
        let (registry, paths) = (self.poll.registry(), &self.paths);
        let left_out = self.loader.left_out.clone();
        let sent = send_without(registry, paths, self.mode, self.targets(), found, left_out);
        self.loading_at_boot(sent);
    }

    /// The first generation: the logger, and the goal.
    pub(super) fn boot(&mut self, generation: Generation) {
        let generation = Arc::new(generation);
        self.settle_with(&generation);
        let targets = self.options.target.clone().or_else(|| self.kernel_target.clone());
        let before = self.lineage.found.intent();
        let of_before = before.as_ref().and_then(|intent| intent.wish.goal.first());
        let asked = of_before.or(targets.as_ref()).unwrap_or(&generation.settings.default_target);
        let (asked, before) = (asked.clone(), before.map(Box::new));
        let targets = targets.into_iter().collect();
        // Of another root's nothing is known any more.
        self.timings.keep(&generation);
        self.meet_found(&generation);
        self.facts.push_back(Event::Boot { generation, targets, before });
        self.settle();
        #[cfg(debug_assertions)]
        {
            crash_test::strike_in("boot", self.lineage.crashes == 0);
            crash_test::strike_in("each boot", true);
        }
        self.keep_found();
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
