//! What the kernel weighs processes by where memory or processors are short: the score of proc(5),
//! oom_score_adj, and nice. Init takes the score of who is killed last; its children do not have it
//! from init. On a machine they get 0 and 0, whatever PID 1 has. Elsewhere they get what init
//! was started with: by that a container's runtime says what it wants of the workload. Each image
//! tells the next, which finds the other score. What a unit itself asks for: [`crate::spawn`].
//!
//! All who share memory have one score (but after vfork(2)): a child that shares init's can not have
//! another than init. So init takes its children's before it clones such a child ([`rise`]), and its
//! own again as a state is kept and there is none ([`sink`]). A crash between them changes nothing.

use crate::boot::Mode;
use crate::sys::schedule;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

const FILE: &str = "/proc/self/oom_score_adj";
/// OOM_SCORE_ADJ_MIN of linux/oom.h: never.
const LAST: i32 = -1000;
/// In a word to the next image numbers have no sign: this is added to them.
const SCORE_ZERO: i32 = 1000;
const NICE_ZERO: i8 = 20;

/// What children get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    /// None: nobody could say (there is no /proc), and it is left alone.
    pub(crate) score: Option<i32>,
    pub(crate) nice: i8,
}

static OF_CHILDREN: OnceLock<Weight> = OnceLock::new();
/// The score this process has now, as far as it has set it itself.
static OWN: AtomicI32 = AtomicI32::new(0);
/// It may not be set lower (CAP_SYS_RESOURCE), and is not tried again.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

impl Weight {
    /// As [`word`] has it, in the numbers of the words to this image. None: it is not there.
    pub(crate) fn of(numbers: &[u64], at: usize) -> Option<Weight> {
        let nice = numbers.get(at.checked_add(1)?)?;
        let nice = i8::try_from(*nice).ok()?.checked_sub(NICE_ZERO)?;
        let score = numbers.get(at).and_then(|score| i32::try_from(*score).ok());
        let score = score.map(|score| score.saturating_sub(SCORE_ZERO));
        Some(Weight { score: score.filter(|score| *score >= LAST && *score <= -LAST), nice })
    }
}

/// For the next image.
pub(crate) fn word() -> String {
    let Some(weight) = OF_CHILDREN.get() else { return String::new() };
    let score = weight.score.map_or(-1, |score| score.saturating_add(SCORE_ZERO));
    format!(",{score},{}", weight.nice.saturating_add(NICE_ZERO))
}

/// Before the first child, once. `told`: by the image before this one.
pub(crate) fn begin(mode: Mode, told: Option<Weight>) {
    let score = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse().ok());
    OWN.store(score.unwrap_or(0), Ordering::Relaxed);
    OF_CHILDREN.get_or_init(|| match mode {
        Mode::Machine => Weight { score: score.map(|_| 0), nice: 0 },
        Mode::Container | Mode::Supervisor => {
            told.unwrap_or_else(|| Weight { score, nice: schedule::nice() })
        }
    });
    sink();
}

/// This process is killed last from now on, as far as it may say so. Nobody else shares its memory. For a
/// child of init that runs our own code, too.
pub(crate) fn sink() {
    let is_known = OF_CHILDREN.get().is_some_and(|weight| weight.score.is_some());
    if !is_known || OWN.load(Ordering::Relaxed) == LAST || IS_REFUSED.load(Ordering::Relaxed) {
        return;
    }
    if !set(LAST) {
        IS_REFUSED.store(true, Ordering::Relaxed);
    }
}

/// This process has the score its children are to have. False: it has not, and they have to see to it
/// themselves.
pub(crate) fn rise() -> bool {
    score_to_set().is_none_or(set)
}

/// What a child is to set, for it has another from init.
pub(crate) fn score_to_set() -> Option<i32> {
    let score = OF_CHILDREN.get()?.score?;
    (OWN.load(Ordering::Relaxed) != score).then_some(score)
}

/// What children are to have.
pub(crate) fn nice() -> Option<i8> {
    OF_CHILDREN.get().map(|weight| weight.nice)
}

fn set(score: i32) -> bool {
    let is_set = std::fs::write(FILE, score.to_string()).is_ok();
    if is_set {
        OWN.store(score, Ordering::Relaxed);
    }
    is_set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_image_is_told_what_this_one_was_started_with() {
        let child = crate::sys::process::fork(&[], || {
            begin(Mode::Container, Some(Weight { score: Some(300), nice: -5 }));
            let numbers = |word: &str| -> Vec<u64> {
                let words = word.split(',').skip(1);
                words.map(|word| word.parse().unwrap_or(u64::MAX)).collect()
            };
            let told = Weight::of(&numbers(&word()), 0);
            u8::from(told != Some(Weight { score: Some(300), nice: -5 }))
        });
        let exit = crate::sys::wait::await_end(child.unwrap()).unwrap();
        assert_eq!(exit, groundstate_units::spec::Exit::Code(0));
        assert_eq!(Weight::of(&[u64::MAX, 20], 0), Some(Weight { score: None, nice: 0 }));
        assert_eq!(Weight::of(&[1000], 0), None);
        assert_eq!(Weight::of(&[1, 2, 5000, 20], 2), Some(Weight { score: None, nice: 0 }));
    }
}
