//! What the fuzz target `kept_init` holds of any bytes as what init has kept of itself: they are
//! refused, or are things init can go on with, whatever their descriptors have become; and the
//! machine among them is kept and read again.
//!
//! A first byte below 32: the rest is the journal. Else the rest damages a journal that says as
//! little as there is to say, whose sums are right.

use super::composed::Composed;
use crate::journal::frame::{Kind, Writer};
use crate::journal::state::Parts;
use groundstate_units::machine::Machine;
use serde::ser::{Serialize, SerializeTuple, Serializer};
use std::sync::OnceLock;
use std::time::Duration;

/// Where what is read opens nothing more.
const DESCRIPTORS: i32 = 64;

/// Whether the machine fits, if all can be read. Panics where one of the promises is broken.
pub fn kept_init(bytes: &[u8]) -> Option<bool> {
    let mut parts = Parts::read(&meant(bytes)?).ok()?;
    if let Some(notify) = parts.notify.take() {
        // It would unlink whatever file it names.
        std::mem::forget(notify);
        for number in 3..DESCRIPTORS {
            let _ = nix::unistd::close(number);
        }
    }
    let Ok((generation, machine)) = parts.machine() else { return Some(false) };
    assert!(Machine::from_kept(&machine.keep(), generation).is_some(), "kept again it is refused");
    Some(true)
}

/// The journal an input stands for.
pub fn meant(input: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = input.split_first()?;
    Some(if *first < 32 { rest.to_vec() } else { composed(rest) })
}

/// Bytes without their number before them.
struct Plain(Vec<u8>);

impl Serialize for Plain {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut to = to.serialize_tuple(self.0.len())?;
        self.0.iter().try_for_each(|byte| to.serialize_element(byte))?;
        to.end()
    }
}

const KINDS: [Kind; 14] = [
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
    Kind::Timings,
    Kind::Triggers,
    Kind::Ending,
    Kind::Run,
];

fn journal(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut to = Writer::new();
    for (kind, body) in KINDS.into_iter().zip(bodies) {
        assert!(to.put(kind, &Plain(body.clone())));
    }
    to.bytes()
}

/// Of each kind the least that can be read: nothing but zeros, and a machine without units.
fn least() -> &'static Vec<Vec<u8>> {
    static LEAST: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    LEAST.get_or_init(|| {
        let mut bodies = vec![Vec::new(); KINDS.len()];
        let machine = Machine::new(Duration::from_secs(90)).keep();
        bodies[1] = postcard::to_allocvec(&machine).expect("it can be written");
        while let Err(wrong) = Parts::read(&journal(&bodies)) {
            let begins = |kind: &Kind| wrong.starts_with(&format!("{kind:?}"));
            let at = KINDS.iter().position(begins).unwrap_or(KINDS.len() - 1);
            bodies[at].push(0);
            assert!(bodies[at].len() < 4096, "{wrong}");
        }
        bodies
    })
}

fn composed(by: &[u8]) -> Vec<u8> {
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
    journal(&bodies)
}
