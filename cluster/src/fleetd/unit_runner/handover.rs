//! Puts the set of files and roots at init when it changes, and reads the resulting states.
//! [`super::report`] publishes them.

use super::{Hashes, UnitRunner};
use crate::agent;
use crate::fleetd::init_socket::InitFault;
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::unit_name::UnitName;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::text::diagnostic::Severity;
use groundstate_units::text::name::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// First delay until a permanently refused set is put again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest delay. The cause may be another source, whose change fleetd does not see.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A refused set, and when to put it again.
pub(super) struct PutOff {
    set: SourceSet,
    pause: Duration,
    until: Duration,
}

impl PutOff {
    /// Doubles the delay after each refusal of the same set; `before` is the previous refusal.
    fn after(before: Option<PutOff>, set: SourceSet, now: Duration) -> PutOff {
        let again = before.filter(|before| is_same(&before.set, &set));
        let longer = |before: PutOff| (before.pause * 2).min(LONGEST_PAUSE);
        let pause = again.map_or(FIRST_PAUSE, longer);
        PutOff { set, pause, until: now + pause }
    }

    fn holds(&self, set: &SourceSet, now: Duration) -> bool {
        now < self.until && is_same(&self.set, set)
    }
}

/// Returns true if both sets have the same files and roots, whatever their revision.
pub(super) fn is_same(one: &SourceSet, other: &SourceSet) -> bool {
    one.files == other.files && one.roots == other.roots
}

impl UnitRunner {
    /// Returns true if a refused set is due again.
    pub(super) fn is_retry_due(&self) -> bool {
        let now = self.cache.clock().now();
        self.put_off.as_ref().is_some_and(|put_off| put_off.until <= now)
    }

    pub(super) async fn put(&mut self) {
        let mut set = self.next_source();
        let now = self.cache.clock().now();
        let hash =
            |(name, one): (&UnitName, &agent::Wanted)| (name.clone(), one.content.hash.clone());
        let hashes: Hashes = self.goal.iter().map(hash).collect();
        if self.put.as_ref().is_some_and(|put| is_same(put, &set)) {
            self.giving_up.clear();
            (self.refused, self.put_off) = (None, None);
            match &mut self.fresh {
                Some(fresh) => *fresh = hashes,
                None => self.hashes = hashes,
            }
            return;
        }
        let put_off = self.put_off.as_ref().is_some_and(|put_off| put_off.holds(&set, now));
        if put_off && self.giving_up.is_empty() {
            return;
        }
        if self.revision.is_none() {
            match self.within_init_timeout(self.init.revision()).await {
                Ok(revision) => self.revision = revision,
                Err(fault) => return self.failed(&fault),
            }
        }
        self.remember_claims();
        set.expected = self.revision;
        match self.within_put_timeout(self.init.put(&set)).await {
            Ok(put) => {
                log::debug(format_args!(
                    "init has {} units, revision {}",
                    set.files.len(),
                    put.revision
                ));
                self.revision = Some(put.revision);
                let wrong = put
                    .diagnostics
                    .into_iter()
                    .filter(|diagnostic| diagnostic.severity == Severity::Error);
                let base = |file: &str| file.rsplit('/').next().unwrap_or_default().to_string();
                self.complaints =
                    wrong.map(|diagnostic| (base(&diagnostic.file), diagnostic.message)).collect();
                set.expected = None;
                self.put = Some(set);
                self.fresh = Some(hashes);
                self.refused = None;
                self.put_off = None;
                self.giving_up.clear();
                self.look().await;
            }
            Err(fault) if fault.lasting().is_some() => {
                // Init still has the previous set.
                set.expected = None;
                self.failed(&fault);
                if self.restore_source(&set).await {
                    self.put_off = Some(PutOff::after(self.put_off.take(), set, now));
                }
            }
            Err(fault) => {
                // Another put came first, or init was restarted.
                self.forget_source();
                self.failed(&fault);
            }
        }
    }

    /// Stops units that must not run when init refuses the new set. It puts the previous set
    /// without them. Returns false if init did not answer and must be asked again.
    async fn restore_source(&mut self, set: &SourceSet) -> bool {
        let Some(had) = self.put.clone().or(self.had.clone()) else { return true };
        let files: BTreeSet<String> = self.giving_up.iter().flat_map(agent::files).collect();
        let roots: BTreeSet<&Name> = set.roots.iter().collect();
        let mut less = SourceSet { expected: None, ..had };
        less.files.retain(|file, text| {
            set.files.get(file).is_some_and(|now| now == text || !files.contains(file))
        });
        less.roots.retain(|root| roots.contains(root));
        if !self.put.as_ref().is_some_and(|put| is_same(put, &less)) {
            less.expected = self.revision;
            match self.within_put_timeout(self.init.put(&less)).await {
                Ok(put) => self.revision = Some(put.revision),
                Err(fault) => {
                    let is_refused = fault.lasting().is_some();
                    if !is_refused {
                        self.forget_source();
                    }
                    self.failed(&fault);
                    return is_refused;
                }
            }
            less.expected = None;
        }
        self.put = Some(less);
        self.giving_up.clear();
        self.look().await;
        true
    }

    /// Records that the contents of init are unknown.
    fn forget_source(&mut self) {
        self.revision = None;
        self.had = self.put.take().or(self.had.take());
        self.put_off = None;
    }

    pub(super) fn failed(&mut self, fault: &InitFault) {
        self.again = true;
        let gone = matches!(fault, InitFault::Gone(_));
        let now = self.cache.clock().now();
        self.silent = gone.then_some(self.silent.unwrap_or(now));
        self.refused = fault.lasting().or(self.refused.take());
        let fault = fault.to_string();
        if self.fault != fault {
            match gone {
                true => log::error(format_args!("init does not answer: {fault}")),
                false => log::error(format_args!("{fault}")),
            }
            self.fault = fault;
        }
    }

    pub(super) async fn look(&mut self) {
        self.asked_init = self.cache.clock().now();
        match self.within_init_timeout(self.init.look()).await {
            Ok(look) => {
                self.fault.clear();
                if self.silent.take().is_some() {
                    // Init may have been restarted.
                    self.put_off = None;
                }
                self.ending = look.ending;
                self.init_has_no_source = look.revision.unwrap_or_default() == 0;
                self.blind = false;
                self.units = by_names(look.units);
                self.hashes = self.fresh.take().unwrap_or_else(|| std::mem::take(&mut self.hashes));
                self.note_running_hashes();
                // Init was restarted, and has forgotten our source or never had it.
                if let (Some(revision), Some(now)) = (self.revision, look.revision)
                    && now != revision
                {
                    self.forget_source();
                }
            }
            Err(fault) => {
                self.blind = !planted(Mutant::LooksOnce);
                self.failed(&fault);
            }
        }
    }
}

impl UnitRunner {
    /// Records the file hashes of running processes. A stale unit keeps its old hash next to a
    /// newer file.
    fn note_running_hashes(&mut self) {
        if self.ran.is_some() {
            // The units of the previous fleetd are not taken over yet.
            return;
        }
        let goal = &self.goal;
        self.running.retain(|name, _| goal.contains_key(name));
        for (name, one) in goal {
            let stale = agent::find(name, one, &self.units).is_some_and(|unit| unit.stale);
            if let Some(hash) = self.hashes.get(name).filter(|_| !stale) {
                self.running.insert(name.clone(), hash.clone());
            }
        }
    }
}

/// Maps units by all their names. A unit's own name wins over another unit's alias.
fn by_names(units: Vec<UnitStatus>) -> BTreeMap<String, UnitStatus> {
    let aliases = units.iter().flat_map(|unit| unit.provides.iter().map(move |name| (name, unit)));
    let aliases = aliases.map(|(name, unit)| (name.clone(), unit.clone()));
    let mut all: BTreeMap<String, UnitStatus> = aliases.collect();
    all.extend(units.into_iter().map(|unit| (unit.unit.clone(), unit)));
    all
}
