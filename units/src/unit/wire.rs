//! Encodes generations and runs as bytes, and validates decoded generations.
//!
//! The loader is a child of PID 1, and a bug in it may hand over anything. Decoding is total.
//! [`Generation::prove`] checks every index, order and limit that the machine relies on. Only rings
//! and double claims remain, which depend on the policy and are checked by the machine.

use crate::limit;
use crate::spec::{Kind, Run};
use crate::text::fields;
use crate::trigger::Trigger;
use crate::unit::generation::{Generation, TargetId, Unit};
use std::fmt;

/// The error of bytes that are no generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// More than [`limit::GENERATION`].
    TooLarge,
    /// The bytes are truncated, too long, or do not match the types.
    Form,
    /// The content is inconsistent; in words.
    Unsound(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::TooLarge => f.write_str("an encoded generation that is too large"),
            WireError::Form => f.write_str("an encoded generation that is damaged"),
            WireError::Unsound(what) => write!(f, "an unsound generation: {what}"),
        }
    }
}

impl Generation {
    /// Encodes the generation; empty if it is larger than the decoder accepts.
    pub fn encode(&self) -> Vec<u8> {
        let encoded = fields::encode(self).unwrap_or_default();
        if encoded.len() > limit::GENERATION { Vec::new() } else { encoded }
    }

    /// Decodes and validates the bytes of [`Generation::encode`].
    ///
    /// # Errors
    /// The bytes are anything else.
    pub fn decode(bytes: &[u8]) -> Result<Generation, WireError> {
        if bytes.len() > limit::GENERATION {
            return Err(WireError::TooLarge);
        }
        let generation: Generation = fields::decode(bytes).map_err(|_| WireError::Form)?;
        generation.prove()?;
        Ok(generation)
    }

    /// Checks that all ids are in range, all lists are sorted and within their limits, and both
    /// directions of "provides" agree.
    ///
    /// # Errors
    /// The first violation.
    pub fn prove(&self) -> Result<(), WireError> {
        let ensure = |fine: bool, what| if fine { Ok(()) } else { Err(WireError::Unsound(what)) };
        ensure(self.units.len() <= limit::UNITS, "too many units")?;
        ensure(u32::try_from(self.targets.len()).is_ok(), "too many targets")?;
        ensure(self.units.is_sorted_by(|a, b| a.name < b.name), "units out of order")?;
        ensure(self.targets.is_sorted_by(|a, b| a.name < b.name), "targets out of order")?;
        ensure(self.files.is_sorted_by(|a, b| a.path < b.path), "files out of order")?;
        let mut claims = 0usize;
        for (index, unit) in self.units.iter().enumerate() {
            self.prove_unit(unit)?;
            claims = claims.saturating_add(unit.provides.len());
            for target in &unit.provides {
                let found = self.targets.get(target.0 as usize).is_some_and(|target| {
                    target.candidates.binary_search_by_key(&index, |id| id.0 as usize).is_ok()
                });
                ensure(found, "a target does not know its provider")?;
            }
        }
        let mut candidates = 0usize;
        for target in &self.targets {
            candidates = candidates.saturating_add(target.candidates.len());
            ensure(target.candidates.is_sorted_by(|a, b| a < b), "candidates out of order")?;
        }
        ensure(candidates == claims, "a target has a provider that does not know it")?;
        ensure(self.roots.is_sorted_by(|a, b| a.0 < b.0), "sources out of order")?;
        ensure(self.revisions.is_sorted_by(|a, b| a.0 < b.0), "revisions out of order")?;
        for (_, roots) in &self.roots {
            ensure(roots.iter().all(|root| self.has(*root)), "a root out of range")?;
        }
        ensure(self.settings.failure_verdict >= 1, "a failure-verdict of 0")?;
        ensure(self.diagnostics.len() <= limit::DIAGNOSTICS, "too many diagnostics")
    }

    fn has(&self, target: TargetId) -> bool {
        (target.0 as usize) < self.targets.len()
    }

    fn prove_unit(&self, unit: &Unit) -> Result<(), WireError> {
        let ensure = |fine: bool, what| if fine { Ok(()) } else { Err(WireError::Unsound(what)) };
        let in_order = |ids: &[TargetId]| {
            ids.is_sorted_by(|a, b| a < b) && ids.iter().all(|target| self.has(*target))
        };
        ensure(!unit.provides.is_empty() && in_order(&unit.provides), "provides")?;
        ensure(in_order(&unit.wanted_by) && in_order(&unit.required_by), "wanted-by")?;
        ensure(in_order(&unit.pulled_by), "pulled-by")?;
        ensure(unit.activates.is_none_or(|target| self.has(target)), "activates")?;
        ensure(unit.dependencies.len() <= limit::DEPENDENCIES, "too many dependencies")?;
        let known = unit.dependencies.iter().all(|edge| self.has(edge.target));
        ensure(known, "a dependency out of range")?;
        ensure(unit.live.failure_verdict >= 1, "a failure-verdict of 0")?;
        if unit.fault.is_some() {
            return Ok(());
        }
        if unit.kind.is_trigger() {
            return self.prove_trigger(unit);
        }
        if unit.kind == Kind::Virtual {
            return ensure(unit.run.is_empty(), "a run of a unit without a process");
        }
        let run = Run::decode(&unit.run).ok_or(WireError::Unsound("a run"))?;
        ensure(run.kind == unit.kind && run.readiness == unit.readiness, "another unit's run")?;
        // A oneshot may have commands only before its start or at its stop.
        let idle = run.exec_start.is_empty() && run.kind != Kind::Oneshot;
        ensure(!idle, "a process without a command")
    }

    /// Validates the trigger of a unit. A trigger without a unit file, as in the simulator, waits
    /// for nothing and has no bytes.
    fn prove_trigger(&self, unit: &Unit) -> Result<(), WireError> {
        let ensure = |fine: bool, what| if fine { Ok(()) } else { Err(WireError::Unsound(what)) };
        if unit.run.is_empty() {
            return Ok(());
        }
        let (kind, values) = match Trigger::decode(&unit.run) {
            Some(Trigger::Socket(socket)) => (Kind::Socket, socket.listen.len()),
            Some(Trigger::Timer(timer)) => (Kind::Timer, timer.calendar.len()),
            Some(Trigger::Path(watch)) => (Kind::Path, watch.looks.len()),
            None => return Err(WireError::Unsound("a trigger")),
        };
        ensure(kind == unit.kind, "another unit's trigger")?;
        ensure(values <= limit::TRIGGER_VALUES, "a trigger that waits for too much")
    }
}

impl Run {
    /// Encodes the run.
    pub fn encode(&self) -> Vec<u8> {
        fields::encode(self).unwrap_or_default()
    }

    /// Decodes the bytes of [`Run::encode`]. Returns `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Run> {
        fields::decode(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{DependencyKind, ExecLine, Piece};
    use crate::text::diagnostic::Place;
    use crate::text::name::Name;
    use crate::unit::assembly::{Draft, Edge, assemble};
    use crate::unit::generation::UnitId;
    use crate::unit::reaction::Reaction;
    use crate::unit::settings::Settings;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn run() -> Run {
        let words = vec![vec![Piece::Literal("/bin/x".to_string())]];
        Run {
            exec_start: vec![ExecLine { words, ..ExecLine::default() }],
            env: vec![("A".to_string(), "b".to_string())],
            ..Run::of(Kind::ForegroundSupervised)
        }
    }

    fn generation() -> Generation {
        let at = |line| Place { file: "/etc/x.yaml".into(), line, column: 1 };
        let settings = Settings::default();
        let mut all = Draft::new(name("all"), at(1), Kind::Virtual, &settings);
        all.dependencies.push(Edge {
            kind: DependencyKind::WaitsFor,
            target: name("web"),
            optional: true,
            imported: false,
            line: 3,
        });
        let mut web = Draft::new(name("httpd"), at(9), Kind::ForegroundSupervised, &settings);
        web.provides = vec![name("web"), name("proxy")];
        web.set_run(&run());
        assemble(vec![all, web], [])
    }

    #[test]
    fn generation_is_decoded_from_its_bytes_unchanged() {
        let mut generation = generation();
        generation.settings.reactions.ctrl_alt_del = Reaction::Goal(name("rescue"));
        assert_eq!(Generation::decode(&generation.encode()), Ok(generation));
        assert_eq!(Run::decode(&run().encode()), Some(run()));
    }

    #[test]
    fn truncated_or_extended_generation_is_refused() {
        let mut bytes = generation().encode();
        for end in 0..bytes.len() {
            assert_eq!(Generation::decode(&bytes[..end]), Err(WireError::Form));
        }
        bytes.push(0);
        assert_eq!(Generation::decode(&bytes), Err(WireError::Form));
    }

    #[test]
    fn inconsistent_generation_is_refused() {
        type Damage = fn(&mut Generation);
        let damages: [(&str, Damage); 12] = [
            ("a target without its candidate", |g| g.targets[2].candidates.clear()),
            ("a candidate out of range", |g| g.targets[2].candidates.push(UnitId(9))),
            ("a candidate that claims nothing", |g| g.targets[0].candidates.push(UnitId(1))),
            ("units swapped", |g| g.units.swap(0, 1)),
            ("a target twice", |g| g.targets[1] = g.targets[0].clone()),
            ("an edge out of range", |g| g.units[0].dependencies[0].target = TargetId(99)),
            ("nothing provided", |g| g.units[0].provides.clear()),
            ("activates out of range", |g| g.units[0].activates = Some(TargetId(9))),
            ("a root out of range", |g| g.roots.push((name("s"), vec![TargetId(9)]))),
            ("no run", |g| g.units[1].run = std::sync::Arc::default()),
            ("a damaged run", |g| std::sync::Arc::make_mut(&mut g.units[1].run)[0] = 99),
            ("a verdict at none", |g| {
                std::sync::Arc::make_mut(&mut g.units[1].live).failure_verdict = 0
            }),
        ];
        for (what, damage) in damages {
            let mut generation = generation();
            assert_eq!(generation.prove(), Ok(()));
            damage(&mut generation);
            assert!(matches!(generation.prove(), Err(WireError::Unsound(_))), "{what}");
        }
        let mut many = generation();
        let edge = many.units[0].dependencies[0].clone();
        many.units[0].dependencies = vec![edge; limit::DEPENDENCIES + 1];
        assert!(many.prove().is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes: Vec<u8>) {
            let _ = Run::decode(&bytes);
            let _ = Generation::decode(&bytes);
        }

        #[test]
        fn damaged_generation_is_refused_or_consistent(
            damages in proptest::collection::vec((0usize..4096, proptest::prelude::any::<u8>()), 1..8),
        ) {
            let mut bytes = generation().encode();
            for (at, byte) in damages {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Ok(generation) = Generation::decode(&bytes) {
                proptest::prop_assert_eq!(generation.prove(), Ok(()));
            }
        }
    }
}
