//! What the machine is at: its goal, its overlay and the end that was asked for, and when it was booted.
//! An init whose state is lost boots with it. Written behind the notes ([`super::notes::INTENT`]), in
//! a place of its own and each time it has become another: no later note takes that, and a wish with
//! which init has crashed is not in it.
//!
//! The place holds `check: u32, length: u32` and what [`Meant`] is as bytes; all of the machine's byte
//! order. Reading is total: any bytes may be there.

use super::frame::crc;
use groundstate_units::machine::event::Intent;
use groundstate_units::machine::need::Wish;
use groundstate_units::time::Time;
use serde::{Deserialize, Serialize};

/// Bytes of it.
pub(crate) const BYTES: usize = 64 * 1024;
/// Before the text.
const HEAD: usize = 8;

/// What is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meant {
    /// By the machine.
    pub(crate) intent: Intent,
    /// When init began.
    pub(crate) booted: Time,
}

impl Meant {
    /// As bytes. An overlay that finds no room is left out: what lives of it is wished for all the same.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Meant { intent, booted } = self;
        let goal = Wish { goal: intent.wish.goal.clone(), ..Wish::default() };
        let short = Meant { intent: Intent { wish: goal, end: intent.end }, booted: *booted };
        let texts = [self, &short].map(|meant| postcard::to_allocvec(meant).unwrap_or_default());
        let text = texts.into_iter().find(|text| text.len() <= BYTES - HEAD).unwrap_or_default();
        let length = u32::try_from(text.len()).unwrap_or(0).to_ne_bytes();
        let rest = [&length[..], &text].concat();
        [&crc(&rest).to_ne_bytes()[..], &rest].concat()
    }

    /// None: it is not there, or damaged.
    pub(crate) fn read(bytes: &[u8]) -> Option<Meant> {
        let (check, rest) = bytes.split_first_chunk::<4>()?;
        let (length, text) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
        let (whole, text) = (rest.get(..length.checked_add(4)?)?, text.get(..length)?);
        if length == 0 || crc(whole) != u32::from_ne_bytes(*check) {
            return None;
        }
        postcard::from_bytes(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::machine::event::Shutdown;
    use groundstate_units::name::Name;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn meant(wishes: usize) -> Meant {
        let want = (0..wishes).map(|n| (name(&format!("{}-{n}", "a".repeat(200))), None));
        let wish =
            Wish { goal: vec![name("rescue")], want: want.collect(), drop: [name("web")].into() };
        let intent = Intent { wish, end: Some(Shutdown::Reboot) };
        Meant { intent, booted: Time::from_nanos(7) }
    }

    #[test]
    fn what_the_machine_is_at_is_read_as_it_was_written_or_not_at_all() {
        for wishes in [0, 3, 200] {
            let mut bytes = meant(wishes).bytes();
            bytes.resize(BYTES, 0);
            assert_eq!(Meant::read(&bytes), Some(meant(wishes)));
            for at in [0, 4, 8, 12] {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(Meant::read(&damaged), None);
            }
            assert_eq!(Meant::read(&bytes[..20]), None);
        }
        // Without the overlay, where that is too long.
        let bytes = meant(1000).bytes();
        assert!(bytes.len() < 100);
        let short = Meant::read(&bytes).unwrap();
        assert_eq!(
            (short.intent.wish.goal, short.intent.end),
            (vec![name("rescue")], Some(Shutdown::Reboot))
        );
        assert!(short.intent.wish.want.is_empty());
        assert_eq!(Meant::read(&[0; BYTES]), None);
        assert_eq!(Meant::read(&[255; BYTES]), None);
    }
}
