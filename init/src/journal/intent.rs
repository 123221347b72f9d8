//! What the machine is at: its goal, its overlay and the end that was asked for, and when it was booted.
//! An init whose state is lost boots with it. Written behind the notes ([`super::notes::INTENT`]), in
//! a place of its own and each time it has become another: no later note takes that, and a wish with
//! which init has crashed is not in it.
//!
//! The place is as [`super::frame::placed`] has it, with what [`Meant`] is as bytes. Reading is total: any
//! bytes may be there.

use super::frame;
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
    /// As bytes, and whether that is all of it. Of an overlay that finds no room what is wished for is left
    /// out first: what lives of that is wished for all the same, but what is dropped would begin.
    pub(crate) fn bytes(&self) -> (Vec<u8>, bool) {
        let Meant { intent, booted } = self;
        let with = |wish: Wish| Meant { intent: Intent { wish, end: intent.end }, booted: *booted };
        let goal = Wish { goal: intent.wish.goal.clone(), ..Wish::default() };
        let unwanted = with(Wish { drop: intent.wish.drop.clone(), ..goal.clone() });
        let goal = with(goal);
        let texts = [self, &unwanted, &goal].into_iter();
        let mut texts = texts.map(|meant| postcard::to_allocvec(meant).unwrap_or_default());
        let found = texts.by_ref().enumerate().find(|(_, text)| text.len() <= BYTES - HEAD);
        let (left_out, text) = found.unwrap_or((1, Vec::new()));
        (frame::placed(&text), left_out == 0)
    }

    /// None: it is not there, or damaged.
    pub(crate) fn read(bytes: &[u8]) -> Option<Meant> {
        postcard::from_bytes(frame::in_place(bytes)?).ok()
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
            let (mut bytes, is_whole) = meant(wishes).bytes();
            assert!(is_whole);
            bytes.resize(BYTES, 0);
            assert_eq!(Meant::read(&bytes), Some(meant(wishes)));
            for at in [0, 4, 8, 12] {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(Meant::read(&damaged), None);
            }
            assert_eq!(Meant::read(&bytes[..20]), None);
        }
        // Without what is wished for, where that is too long, and then without what is dropped.
        let mut long = meant(1000);
        for drops in [1, 1000] {
            let text = |n| name(&format!("{}-{n}", "b".repeat(200)));
            long.intent.wish.drop = (0..drops).map(text).collect();
            let (bytes, is_whole) = long.bytes();
            assert!(!is_whole && bytes.len() < 1000);
            let short = Meant::read(&bytes).unwrap();
            assert_eq!(
                (short.intent.wish.goal, short.intent.end),
                (vec![name("rescue")], Some(Shutdown::Reboot))
            );
            assert!(short.intent.wish.want.is_empty());
            assert_eq!(short.intent.wish.drop.len(), drops % 1000);
        }
        assert_eq!(Meant::read(&[0; BYTES]), None);
        assert_eq!(Meant::read(&[255; BYTES]), None);
    }
}
