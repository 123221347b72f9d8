//! Checks of the fuzz target `state_records` for any bytes as the records of an earlier image of
//! init: they are refused, or init can continue with them.
//!
//! The input damages the records of a minimal state.

use super::composed::Composed;
use crate::restore::records::Parts;
use crate::state::kind::Kind;
use crate::state::store::Store;
use groundstate_units::machine::Machine;
use serde::ser::{Serialize, SerializeTuple, Serializer};
use std::sync::OnceLock;
use std::time::Duration;

/// The descriptors below this number belong to the target.
const DESCRIPTORS: i32 = 64;

/// The kinds with a single record, and one entry of each table that is part of a run.
const KINDS: [Kind; 18] = [
    Kind::Head,
    Kind::Machine,
    Kind::Tracker,
    Kind::Ground,
    Kind::Store,
    Kind::Control,
    Kind::Notify,
    Kind::Logger,
    Kind::Loader,
    Kind::History,
    Kind::Triggers,
    Kind::Ending,
    Kind::Looks,
    Kind::Suspects,
    Kind::Pending,
    Kind::Tracked,
    Kind::ProcessTree,
    Kind::LastEvent,
];

/// Whether all records can be read. Panics if a promise is broken.
pub fn state_records(bytes: &[u8]) -> Option<()> {
    let mut parts = read(&composed(bytes)).ok()?;
    let notify = parts.notify.take();
    // Refused or built, without a panic.
    let _ = parts.machine();
    if let Some(notify) = notify {
        // Its drop would unlink the file that it names.
        std::mem::forget(notify);
        for number in 3..DESCRIPTORS {
            let _ = nix::unistd::close(number);
        }
    }
    Some(())
}

/// Bytes without a length prefix.
struct Plain<'a>(&'a [u8]);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut to = to.serialize_tuple(self.0.len())?;
        self.0.iter().try_for_each(|byte| to.serialize_element(byte))?;
        to.end()
    }
}

fn read(bodies: &[Vec<u8>]) -> Result<Parts, String> {
    let mut store = Store::new().map_err(|error| error.to_string())?;
    // A missing component has no record.
    for (kind, body) in KINDS.into_iter().zip(bodies).filter(|(_, body)| !body.is_empty()) {
        let is_entry = [Kind::Tracked, Kind::ProcessTree, Kind::LastEvent].contains(&kind);
        let entry: &[u8] = if is_entry { &7u64.to_be_bytes() } else { &[] };
        let key = [&kind.key()[..], entry].concat();
        assert!(store.put(&key, &Plain(body)));
    }
    store.commit().map_err(|error| error.to_string())?;
    Parts::read(&store)
}

/// The minimal readable record of each kind: only zeros, and a machine without units.
fn least() -> &'static Vec<Vec<u8>> {
    static LEAST: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    LEAST.get_or_init(|| {
        let mut bodies = vec![Vec::new(); KINDS.len()];
        let machine = Machine::new(Duration::from_secs(90));
        bodies[1] = postcard::to_allocvec(&machine.machine_record()).expect("it can be written");
        while let Err(wrong) = read(&bodies) {
            let begins = |kind: &Kind| wrong.starts_with(&format!("{kind:?}:"));
            let at = KINDS.iter().position(begins).expect("the error names a kind");
            bodies[at].push(0);
            assert!(bodies[at].len() < 4096, "{wrong}");
        }
        bodies
    })
}

fn composed(by: &[u8]) -> Vec<Vec<u8>> {
    let mut from = Composed::of(by);
    let mut bodies = least().clone();
    for _ in 0..from.byte() % 4 {
        let at = usize::from(from.byte()) % bodies.len();
        let body = &mut bodies[at];
        let place = usize::from(from.byte()) % (body.len() + 1);
        match from.byte() % 4 {
            0 => drop(body.splice(place..place, from.raw(64).iter().copied())),
            1 => body.truncate(place),
            _ => {
                let raw = from.raw(16);
                let end = body.len().min(place + raw.len());
                body[place..end].copy_from_slice(&raw[..end - place]);
            }
        }
    }
    bodies
}
