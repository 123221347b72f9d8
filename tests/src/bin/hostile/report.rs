//! What has become of the inputs: how many each decoder had and took, what it asked for at most, and
//! which have failed. What fails is [`super::decoder`]'s; here it is that a decoder took too few.

use super::decoder::{Decoder, Outcome};
use super::input::Input;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

/// From so many inputs on a fifth of them has to be taken.
const ENOUGH: u64 = 200;
/// Failures that are shown.
const SHOWN: usize = 10;

/// Characters of what each says.
const SAID_AT_MOST: usize = 500;

thread_local! {
    /// Of the last panic.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What a panic says is kept, and not printed.
pub fn hear_panics() {
    std::panic::set_hook(Box::new(|panic| {
        SAID.with_borrow_mut(|said| *said = panic.to_string());
    }));
}

#[derive(Clone, Copy, Default)]
struct Counts {
    all: u64,
    taken: u64,
    /// The most bytes of memory it has asked for …
    asked: usize,
    /// … and the most for each byte of an input.
    times: usize,
}

/// See the module.
#[derive(Default)]
pub struct Report {
    counts: BTreeMap<Decoder, Counts>,
    failures: Vec<String>,
}

impl Report {
    pub fn count(&mut self, input: &Input, outcome: Outcome) {
        let counts = self.counts.entry(input.decoder).or_default();
        counts.all += 1;
        counts.taken += u64::from(outcome.is_taken);
        counts.asked = counts.asked.max(outcome.asked);
        counts.times = counts.times.max(outcome.asked / input.bytes.len().max(1));
    }

    pub fn count_failure(&mut self, number: u64, input: &Input) {
        self.counts.entry(input.decoder).or_default().all += 1;
        let said: String = SAID.with_borrow(|said| said.chars().take(SAID_AT_MOST).collect());
        self.failures.push(format!(
            "{number}: {:?}, base {}, right {}, {:?}: {said}",
            input.decoder, input.base, input.is_right, input.mutations
        ));
    }

    /// Decoders past whose parser too little came.
    fn blind(&self) -> impl Iterator<Item = Decoder> {
        let is_blind = |counts: &Counts| counts.all >= ENOUGH && counts.taken * 5 < counts.all;
        self.counts.iter().filter(move |(_, counts)| is_blind(counts)).map(|(decoder, _)| *decoder)
    }

    pub fn failed(&self) -> usize {
        self.failures.len() + self.blind().count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for what in self.failures.iter().take(SHOWN) {
            let number = what.split(':').next().unwrap_or_default();
            writeln!(f, "FAILED {what}\n       hostile --replay {number}")?;
        }
        let (mut all, mut taken) = (0, 0);
        for (decoder, counts) in &self.counts {
            (all, taken) = (all + counts.all, taken + counts.taken);
            let name = format!("{decoder:?}");
            writeln!(
                f,
                "{name:10} {:9} inputs, {:9} taken, {:7} bytes of memory, {:5} times an input",
                counts.all, counts.taken, counts.asked, counts.times
            )?;
        }
        for decoder in self.blind() {
            writeln!(f, "FAILED {decoder:?}: less than a fifth of its inputs is taken")?;
        }
        let failed = self.failed();
        writeln!(f, "hostile: {all} executions, {taken} taken, {} refused", all - taken)?;
        writeln!(f, "{} passed, {failed} failed", all.saturating_sub(failed as u64))
    }
}
