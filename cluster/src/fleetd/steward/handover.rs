//! What init is told, and what it says: the set of files and roots is put when it is another than init has,
//! and what becomes of it is looked at. What follows from that is [`super::report`]'s.

use super::{Hashes, Steward};
use crate::agent;
use crate::fleetd::init_socket::InitFault;
use crate::fleetd::voice;
use crate::mutant::{Mutant, planted};
use crate::unit_name::UnitName;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::diagnostic::Severity;
use std::collections::{BTreeMap, BTreeSet};

impl Steward {
    pub(super) async fn put(&mut self) {
        let mut set = agent::source_set(&self.goal, &self.held);
        let same = |put: &SourceSet| put.files == set.files && put.roots == set.roots;
        let hash =
            |(name, one): (&UnitName, &agent::Wanted)| (name.clone(), one.content.hash.clone());
        let hashes: Hashes = self.goal.iter().map(hash).collect();
        if self.put.as_ref().is_some_and(same) {
            self.giving_up.clear();
            self.refused = None;
            match &mut self.fresh {
                Some(fresh) => *fresh = hashes,
                None => self.hashes = hashes,
            }
            return;
        }
        if self.revision.is_none() {
            match self.of_init(self.init.revision()).await {
                Ok(revision) => self.revision = revision,
                Err(fault) => return self.failed(&fault),
            }
        }
        self.remember_claims();
        set.expected = self.revision;
        match self.of_init(self.init.put(&set)).await {
            Ok(put) => {
                voice::debug(format_args!(
                    "init has {} units, revision {}",
                    set.files.len(),
                    put.revision
                ));
                self.revision = Some(put.revision);
                let wrong =
                    put.diagnostics.into_iter().filter(|said| said.severity == Severity::Error);
                let base = |file: &str| file.rsplit('/').next().unwrap_or_default().to_string();
                self.complaints = wrong.map(|said| (base(&said.file), said.message)).collect();
                set.expected = None;
                self.put = Some(set);
                self.fresh = Some(hashes);
                self.refused = None;
                self.giving_up.clear();
                self.look().await;
            }
            Err(fault) if fault.lasting().is_some() => {
                // What it took before it has still.
                self.failed(&fault);
                self.take_back().await;
            }
            Err(fault) => {
                // Another put came before, or init began anew: what it holds is not known.
                self.revision = None;
                self.put = None;
                self.failed(&fault);
            }
        }
    }

    /// What is given up is stopped though init does not take all that is to be: it is taken out of what
    /// init has.
    async fn take_back(&mut self) {
        let Some(had) = self.put.clone().filter(|_| !self.giving_up.is_empty()) else { return };
        let files: BTreeSet<String> = self.giving_up.iter().flat_map(agent::files).collect();
        let names: BTreeSet<String> = self.giving_up.iter().flat_map(agent::targets).collect();
        let mut set = had.clone();
        set.files.retain(|file, _| !files.contains(file));
        set.roots.retain(|root| !names.contains(root.as_str()));
        if set != had {
            set.expected = self.revision;
            match self.of_init(self.init.put(&set)).await {
                Ok(put) => self.revision = Some(put.revision),
                Err(fault) => return self.failed(&fault),
            }
            set.expected = None;
        }
        self.put = Some(set);
        self.giving_up.clear();
        self.look().await;
    }

    pub(super) fn failed(&mut self, fault: &InitFault) {
        self.again = true;
        self.silent = matches!(fault, InitFault::Gone(_));
        self.refused = fault.lasting().or(self.refused.take());
        let fault = fault.to_string();
        if self.fault != fault {
            voice::error(format_args!("{fault}"));
            self.fault = fault;
        }
    }

    pub(super) async fn look(&mut self) {
        match self.of_init(self.init.look()).await {
            Ok(look) => {
                self.fault.clear();
                self.silent = false;
                self.ending = look.ending;
                self.blind = false;
                self.units = by_names(look.units);
                self.hashes = self.fresh.take().unwrap_or_else(|| std::mem::take(&mut self.hashes));
                // init began anew and has forgotten, or never had, what we put.
                if let (Some(revision), Some(now)) = (self.revision, look.revision)
                    && now != revision
                {
                    self.revision = None;
                    self.put = None;
                }
            }
            Err(fault) => {
                self.blind = !planted(Mutant::LooksOnce);
                self.failed(&fault);
            }
        }
    }
}

/// Each under all of its names: under one that is its own, whoever else answers to that.
fn by_names(units: Vec<UnitStatus>) -> BTreeMap<String, UnitStatus> {
    let aliases = units.iter().flat_map(|unit| unit.provides.iter().map(move |name| (name, unit)));
    let aliases = aliases.map(|(name, unit)| (name.clone(), unit.clone()));
    let mut all: BTreeMap<String, UnitStatus> = aliases.collect();
    all.extend(units.into_iter().map(|unit| (unit.unit.clone(), unit)));
    all
}
