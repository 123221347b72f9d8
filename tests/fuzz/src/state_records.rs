//! Checks of the fuzz target `state_records` for any bytes as the records of an earlier image of
//! init: they are refused, or init can continue with them.
//!
//! The input damages the records of a minimal state.

use super::composed::Composed;
use crate::restore::records::Parts;
use crate::state::kind::Kind;
use crate::state::store::Store;
use groundstate_units::machine::Machine;
use groundstate_units::text::fields;
use groundstate_units::unit::settings::Echo;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

/// The descriptors below this number belong to the target.
const DESCRIPTORS: i32 = 64;

/// The kinds with a single record, and one entry of each table that is part of a run.
const KINDS: [Kind; 16] = [
    Kind::Head,
    Kind::Machine,
    Kind::Tracker,
    Kind::ChildMemory,
    Kind::Store,
    Kind::Control,
    Kind::Notify,
    Kind::Logger,
    Kind::Loader,
    Kind::Triggers,
    Kind::Ending,
    Kind::Looks,
    Kind::Suspects,
    Kind::Pending,
    Kind::Tracked,
    Kind::ProcessTree,
];

/// Returns `Some` if all records can be read. Panics if a promise is broken.
pub fn state_records(bytes: &[u8]) -> Option<()> {
    let mut parts = read(&composed(bytes)).ok()?;
    let notify = parts.components.notify.take();
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

fn read(bodies: &[Vec<u8>]) -> Result<Parts, String> {
    let mut store = Store::new().map_err(|error| error.to_string())?;
    // A missing component has no record.
    for (kind, body) in KINDS.into_iter().zip(bodies).filter(|(_, body)| !body.is_empty()) {
        let is_entry = [Kind::Tracked, Kind::ProcessTree].contains(&kind);
        let entry: &[u8] = if is_entry { &7u64.to_be_bytes() } else { &[] };
        let key = [&kind.key()[..], entry].concat();
        store.put_bytes(&key, body);
    }
    store.commit().map_err(|error| error.to_string())?;
    Parts::read(&store)
}

/// The required fields of all kinds of records. The decoder of a kind ignores the fields of the
/// other kinds.
#[derive(Serialize)]
struct Least {
    generation: u32,
    basics: BTreeMap<(), ()>,
    inputs: u64,
    kept: u64,
    memory: i32,
    listener: (i32, u64),
    socket: (i32, u64),
    path: &'static str,
    own_uid: u32,
    settings: Settings,
    stash: Stash,
}

#[derive(Serialize)]
struct Settings {
    log_dir: &'static str,
    log_size: u64,
    log_keep: u32,
    log_readers: &'static str,
    echo: Echo,
}

#[derive(Serialize)]
struct Stash {
    into: (i32, u64),
    out: (i32, u64),
    most: usize,
}

/// The least of each kind that can be read, and a machine without units.
fn least() -> &'static Vec<Vec<u8>> {
    static LEAST: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    LEAST.get_or_init(|| {
        let fd = (0, 0);
        let settings =
            Settings { log_dir: "", log_size: 0, log_keep: 0, log_readers: "", echo: Echo::No };
        let least = Least {
            generation: 0,
            basics: BTreeMap::new(),
            inputs: 0,
            kept: 0,
            memory: 0,
            listener: fd,
            socket: fd,
            path: "",
            own_uid: 0,
            settings,
            stash: Stash { into: fd, out: fd, most: 0 },
        };
        let others = [
            (
                Kind::Machine,
                fields::encode(&Machine::new(Duration::from_secs(90)).machine_record()),
            ),
            (Kind::Suspects, fields::encode(&[(); 0])),
            (Kind::Looks, fields::encode(&BTreeMap::<(), ()>::new())),
        ];
        let body = |kind| match others.iter().find(|(other, _)| *other == kind) {
            Some((_, body)) => body.clone(),
            None => fields::encode(&least),
        };
        let bodies: Vec<_> =
            KINDS.into_iter().map(|kind| body(kind).expect("it can be written")).collect();
        assert!(read(&bodies).is_ok(), "the least cannot be read: {:?}", read(&bodies).err());
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
