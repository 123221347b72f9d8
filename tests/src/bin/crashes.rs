//! `tests/soak crashes`: crashes of a real init after each system call of a fixed script
//! ([`groundstate_tests::sweep`]), or beside two hundred or a thousand services
//! ([`groundstate_tests::storm`]), or upgrades beside those.
//!
//! `crashes calls|crowd|thousand|upgrades [ROUNDS [FIRST]]` (default 1000, from the first) prints a
//! line for each failure, then the time in which init did not answer, then `N passed, N failed`.
#![allow(clippy::print_stdout, reason = "a program of the tests")]

#[cfg(target_arch = "x86_64")]
mod kinds {
    pub(crate) use groundstate_tests::storm::Blow;
    use groundstate_tests::storm::Storm;
    use groundstate_tests::sweep;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    /// The gaps without an answer, and the number of failures.
    type Counted = (Vec<Duration>, usize);

    /// Runs many rounds with one `Init`. After a failure the next round starts a new one.
    fn rounds<Init>(
        numbers: impl Iterator<Item = usize>,
        begin: impl Fn() -> Init,
        round: impl Fn(&mut Init, usize) -> Duration,
        end: impl Fn(Init),
    ) -> Counted {
        let (mut gaps, mut failed, mut init) = (Vec::new(), 0, None);
        for number in numbers {
            let mut one = init.take().unwrap_or_else(&begin);
            let done = catch_unwind(AssertUnwindSafe(|| {
                let gap = round(&mut one, number);
                (one, gap)
            }));
            match done {
                Ok((one, gap)) => {
                    gaps.push(gap);
                    init = Some(one);
                }
                Err(_) => {
                    failed += 1;
                    println!("FAIL in round {number}");
                }
            }
        }
        if catch_unwind(AssertUnwindSafe(|| init.map(end))).is_err() {
            failed += 1;
            println!("FAIL at the end");
        }
        (gaps, failed)
    }

    pub(crate) fn calls(numbers: impl Iterator<Item = usize>) -> Counted {
        let round = |init: &mut _, number| sweep::round(init, number, 1 + number % sweep::CALLS);
        rounds(numbers, sweep::begin, round, drop)
    }

    /// Rounds with this many times two hundred services.
    pub(crate) fn crowd(numbers: impl Iterator<Item = usize>, blow: Blow, times: usize) -> Counted {
        rounds(
            numbers,
            || Storm::begin(times),
            |storm: &mut Storm, _| storm.round(blow),
            Storm::end,
        )
    }
}

#[cfg(target_arch = "x86_64")]
fn main() -> std::process::ExitCode {
    let word = |at: usize| std::env::args().nth(at);
    let number = |at: usize| word(at).and_then(|word| word.parse::<usize>().ok());
    let numbers = (number(3).unwrap_or(0)..).take(number(2).unwrap_or(1000));
    let (mut gaps, failed) = match word(1).as_deref() {
        Some("calls") => kinds::calls(numbers),
        Some("crowd") => kinds::crowd(numbers, kinds::Blow::Crash, 1),
        Some("thousand") => kinds::crowd(numbers, kinds::Blow::Crash, 4),
        Some("upgrades") => kinds::crowd(numbers, kinds::Blow::Upgrade, 1),
        _ => {
            println!("crashes calls|crowd|thousand|upgrades [ROUNDS [FIRST]]");
            return std::process::ExitCode::from(64);
        }
    };
    gaps.sort();
    let part = |thousandth: usize| gaps.get(gaps.len() * thousandth / 1000).or(gaps.last());
    let [half, p99, p999] = [500, 990, 999].map(part);
    println!(
        "no answer for: half {half:?}, p99 {p99:?}, p99.9 {p999:?}, longest {:?}",
        gaps.last()
    );
    println!("{} passed, {failed} failed", gaps.len());
    std::process::ExitCode::from(u8::from(failed > 0))
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("0 passed, 0 failed");
}
