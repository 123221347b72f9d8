//! Checks of the fuzz target `parcel` for any sealed bytes from a loader: they are refused, or
//! their contents are valid and packed again unchanged. A first byte above 127: the bytes are those
//! of a real delivery, damaged by the rest.

use super::composed::Composed;
use crate::loader::transfer::{LoadResult, fill, unwrap};
use crate::sys::memfd;
use groundstate_units::spec::Kind;
use groundstate_units::text::diagnostic::Place;
use groundstate_units::text::name::Name;
use groundstate_units::unit::assembly::{Draft, assemble};
use groundstate_units::unit::settings::Settings;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// Unpacks a delivery. Returns whether its load is refused, or `None` for other bytes. Panics if a
/// promise is broken.
pub fn parcel(bytes: &[u8]) -> Option<bool> {
    let delivery = unwrap(sealed(&meant(bytes)?)).ok()?;
    assert_eq!(delivery.generation.prove(), Ok(()));
    Some(packed_again(delivery))
}

/// Returns whether the load is refused. Checks that packing the delivery again, as the loader does,
/// gives the same.
pub(crate) fn packed_again(delivery: LoadResult) -> bool {
    let taken = delivery.generation.clone();
    // `unwrap` has packed the records of the files; the loader sends them unpacked.
    let delivery = LoadResult { generation: taken.unpacked(), ..delivery };
    let again = unwrap(wrapped(&delivery)).expect("what was taken is taken again");
    assert_eq!(again.generation, taken);
    assert_eq!((again.notes, again.refused), (delivery.notes, delivery.refused));
    delivery.refused
}

/// The delivery of an input.
pub fn meant(input: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = input.split_first()?;
    Some(if *first < 128 { rest.to_vec() } else { damaged(rest) })
}

pub fn sealed(bytes: &[u8]) -> OwnedFd {
    let mut file = File::from(memfd::create(c"parcel").expect("memory"));
    file.write_all(bytes).expect("there is room");
    memfd::seal(&file).expect("it can be sealed");
    file.into()
}

fn wrapped(delivery: &LoadResult) -> OwnedFd {
    let memory = memfd::create(c"parcel").expect("memory");
    fill(&memory, delivery).expect("it can be written");
    memory
}

fn damaged(by: &[u8]) -> Vec<u8> {
    static REAL: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let real = REAL.get_or_init(|| [real(false), real(true)]);
    let mut from = Composed::of(by);
    let mut bytes = real[usize::from(from.one_in(4))].clone();
    from.damage(&mut bytes, 2);
    bytes
}

/// Two units and a message about a host name.
fn real(refused: bool) -> Vec<u8> {
    let draft = |name: &str, kind| {
        let at = Place { file: "/etc/a.yaml".into(), line: 3, column: 1 };
        Draft::new(Name::new(name).expect("a name"), at, kind, &Settings::default())
    };
    let generation = assemble(vec![draft("a", Kind::Virtual), draft("b", Kind::Virtual)], []);
    let notes = vec!["a".to_string()];
    let delivery = LoadResult { notes, generation, refused, ..LoadResult::default() };
    let mut file = File::from(wrapped(&delivery));
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("it can be read");
    bytes
}
