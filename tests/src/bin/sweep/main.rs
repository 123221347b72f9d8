//! `tests/soak sweep`, and a sample in `tests/run`: each system call of a real init fails once with
//! each of its errors (`tests/sweep.tsv`). It does so at each of its first twenty occurrences in
//! each part of init's life. Init must recover completely. A life meets one fault at boot, some at
//! work, and one at the end. A life that fails is repeated for each of its faults alone.
//!
//! `sweep --sample N --seed HEX`: N faults: those that did harm once, and others chosen by the
//! seed. `sweep --ledger FILE --commit C`: all faults that are not in the file, with a line for
//! each pair of a call and an error. `--threads N`, `--only CALL[,ERROR]`. Only faults that were
//! met count. Prints `FAIL WHAT` for each failure, the faults met, and last `N passed, N failed`.
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a program of the tests"
)]

#[cfg(target_arch = "x86_64")]
mod life;

#[cfg(target_arch = "x86_64")]
mod sweep {
    use super::life::{Life, Usual, counts};
    use groundstate_tests::faults::{
        Case, Outcome, Part, cases, is_found, is_known, number, pairs,
    };
    use groundstate_tests::injector::Seen;
    use std::collections::{BTreeMap, BTreeSet, VecDeque, hash_map::DefaultHasher};
    use std::hash::{Hash, Hasher};
    use std::io::Write;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};

    /// Lives without faults that show which calls there are.
    const SURVEYED: usize = 2;
    /// Faults of one boot …
    const AT_BOOT: usize = 4;
    /// … rounds of work in one life …
    const ROUNDS: usize = 4;
    /// … faults of one such round …
    const AT_WORK: usize = 3;
    /// … and faults of one end.
    const AT_END: usize = 2;
    /// The number of pairs of a call and an error whose faults share lives.
    const TOGETHER: usize = 8;
    /// At least one in this many faults of the sample must be met.
    const MET: usize = 2;

    /// The words of the command line.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Options {
        pub(crate) sample: Option<usize>,
        pub(crate) seed: String,
        pub(crate) ledger: Option<String>,
        pub(crate) commit: String,
        pub(crate) threads: usize,
        pub(crate) only: Option<String>,
    }

    impl Options {
        pub(crate) fn read() -> Options {
            let mut options = Options { threads: 2, ..Options::default() };
            let mut words = std::env::args().skip(1);
            while let Some(word) = words.next() {
                let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
                match word.as_str() {
                    "--sample" => options.sample = value().parse().ok(),
                    "--seed" => options.seed = value(),
                    "--ledger" => options.ledger = Some(value()),
                    "--commit" => options.commit = value(),
                    "--threads" => options.threads = value().parse().expect("a number"),
                    "--only" => options.only = Some(value()),
                    _ => panic!("no option {word}"),
                }
            }
            options
        }
    }

    /// Counters of the results.
    #[derive(Debug, Default)]
    struct Score {
        met: AtomicUsize,
        failed: AtomicUsize,
        missed: AtomicUsize,
        lives: AtomicUsize,
    }

    /// Runs lives with these faults. Returns how many of each name were met, and which failed.
    fn lives(
        cases: Vec<Case>,
        usual: &Usual,
        score: &Score,
    ) -> (BTreeMap<String, usize>, Vec<Case>) {
        let (mut met, mut failed) = (BTreeMap::<String, usize>::new(), Vec::new());
        let mut parts: BTreeMap<Part, VecDeque<Case>> = BTreeMap::new();
        let (alone, together): (Vec<Case>, Vec<Case>) =
            cases.into_iter().partition(|case| case.outcome != Outcome::Well);
        for case in together {
            parts.entry(case.part).or_default().push_back(case);
        }
        // A call at one position can fail in only one way.
        let mut take = |part: Part, most: usize| -> Vec<Case> {
            let queue = parts.entry(part).or_default();
            let mut taken: Vec<Case> = Vec::new();
            queue.retain(|case| {
                let place = |other: &Case| (other.fault.call, other.fault.at);
                let fits = taken.len() < most && !taken.iter().any(|t| place(t) == place(case));
                fits.then(|| taken.push(case.clone())).is_none()
            });
            taken
        };
        let mut note = |fired: Vec<Case>| {
            for case in fired {
                *met.entry(case.pair()).or_default() += 1;
            }
        };
        let one_by_one =
            |cases: &[Case], failed: &mut Vec<Case>, note: &mut dyn FnMut(Vec<Case>)| {
                for case in cases {
                    let alone = std::slice::from_ref(case);
                    match catch_unwind(AssertUnwindSafe(|| life(alone, usual, score))) {
                        Ok(fired) => note(fired),
                        Err(_) => failed.push(case.clone()),
                    }
                }
            };
        one_by_one(&alone, &mut failed, &mut note);
        loop {
            let mut these = take(Part::Boot, AT_BOOT);
            these.extend(take(Part::Work, ROUNDS * AT_WORK));
            these.extend(take(Part::End, AT_END));
            if these.is_empty() {
                return (met, failed);
            }
            match catch_unwind(AssertUnwindSafe(|| life(&these, usual, score))) {
                Ok(fired) => note(fired),
                // Finds the fault that caused the failure, and whether it recurs.
                Err(_) => one_by_one(&these, &mut failed, &mut note),
            }
        }
    }

    /// Runs one life and returns the faults it has met.
    fn life(cases: &[Case], usual: &Usual, score: &Score) -> Vec<Case> {
        score.lives.fetch_add(1, Ordering::Relaxed);
        let of = |part: Part| -> Vec<Case> {
            cases.iter().filter(|case| case.part == part).cloned().collect()
        };
        let mut met = Vec::new();
        let mut count = |cases: &[Case], seen: &Seen| {
            let fired = cases.iter().filter(|case| seen.fired.contains(&case.fault));
            met.extend(fired.cloned());
        };
        let (first, last) = (of(Part::Boot), of(Part::End));
        match Life::begin(&first, Some(usual)) {
            Some(mut life) => {
                count(&first, &life.seen());
                let work = of(Part::Work);
                let quiet: [&[Case]; 1] = [&[]];
                let rounds: Vec<&[Case]> = work.chunks(AT_WORK).collect();
                for round in if rounds.is_empty() { quiet.to_vec() } else { rounds } {
                    count(round, &life.work(round));
                }
                count(&last, &life.end(&last));
            }
            None => met.extend(first),
        }
        score.met.fetch_add(met.len(), Ordering::Relaxed);
        score.missed.fetch_add(cases.len() - met.len(), Ordering::Relaxed);
        met
    }

    fn draw(seed: &str, what: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (seed, what).hash(&mut hasher);
        hasher.finish()
    }

    /// All work, in pieces: pairs of a call and an error, and the faults of each pair. The faults
    /// of one life are chosen at random.
    fn work(options: &Options, counts: &BTreeMap<(Part, i64), usize>) -> Vec<Piece> {
        let known = options.ledger.as_deref().map(std::fs::read_to_string);
        let known = known.and_then(Result::ok).unwrap_or_default();
        let done = |pair: &str| {
            known
                .lines()
                .any(|line| line.starts_with(&format!("{pair}\t")) && line.ends_with("\tok"))
        };
        let only = options.only.clone().unwrap_or_default().replace(',', " ");
        let mut pairs: Vec<(String, Vec<Case>)> = pairs()
            .into_iter()
            .map(|(call, error)| (format!("{call} {error:?}"), cases(call, error, counts)))
            .filter(|(pair, cases)| !cases.is_empty() && !done(pair) && pair.starts_with(&only))
            .collect();
        let size = options.sample.map(|size| {
            let mut all: Vec<Case> = pairs.drain(..).flat_map(|(_, cases)| cases).collect();
            all.sort_by_cached_key(|case| (!is_found(case), draw(&options.seed, &case.label())));
            all.truncate(size);
            pairs = all.into_iter().map(|case| (case.pair(), vec![case])).collect();
            size.div_ceil(options.threads.max(1)).max(1)
        });
        pairs.sort_by_cached_key(|(pair, _)| draw(&options.seed, pair));
        let piece = |pairs: &[(String, Vec<Case>)]| {
            let mut cases: Vec<Case> = pairs.iter().flat_map(|(_, cases)| cases.clone()).collect();
            cases.sort_by_cached_key(|case| draw(&options.seed, &case.label()));
            Piece { pairs: pairs.iter().map(|(pair, _)| pair.clone()).collect(), cases }
        };
        pairs.chunks(size.unwrap_or(TOGETHER)).map(piece).collect()
    }

    struct Piece {
        pairs: Vec<String>,
        cases: Vec<Case>,
    }

    pub(crate) fn run() -> bool {
        let options = Options::read();
        let (usual, counts) = counts(SURVEYED);
        let unknown: BTreeSet<i64> =
            counts.keys().map(|(_, call)| *call).filter(|call| !is_known(*call)).collect();
        for call in &unknown {
            println!("FAIL call {call} has no row in tests/sweep.tsv");
        }
        let made: BTreeSet<i64> = counts.keys().map(|(_, call)| *call).collect();
        let listed: BTreeSet<&str> = pairs().into_iter().map(|(name, _)| name).collect();
        let unmade = |name: &&str| !made.contains(&number(name));
        let unmade: Vec<&str> = listed.iter().copied().filter(unmade).collect();
        let (all, lost) = (listed.len(), unmade.len());
        println!("of {all} calls {lost} are not made in this life: {}", unmade.join(" "));
        let work = work(&options, &counts);
        let all: usize = work.iter().map(|piece| piece.cases.len()).sum();
        let queue = Mutex::new(VecDeque::from(work));
        let (score, output) = (Score::default(), Mutex::new(std::io::stdout()));
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        std::thread::scope(|scope| {
            for _ in 0..options.threads {
                scope.spawn(|| {
                    while let Some(piece) = next() {
                        let (met, failed) = lives(piece.cases, &usual, &score);
                        score.failed.fetch_add(failed.len(), Ordering::Relaxed);
                        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                        for one in &failed {
                            let _ = writeln!(output, "FAIL {}", one.label());
                        }
                        for pair in &piece.pairs {
                            let failed = failed.iter().filter(|case| case.pair() == *pair).count();
                            let met = met.get(pair).copied().unwrap_or(0);
                            let _ = note(&options, pair, met, failed);
                        }
                    }
                });
            }
        });
        let at = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (met, failed) = (at(&score.met), at(&score.failed));
        let (missed, lives) = (at(&score.missed), at(&score.lives));
        println!("of {all} faults {met} were met, {missed} were not, in {lives} lives");
        let failed = failed + unknown.len();
        let enough = options.sample.is_none_or(|size| met >= size / MET);
        if enough && failed == 0 {
            println!("ok each_call_that_fails_once_changes_nothing");
        } else if !enough {
            println!("FAIL too few faults were met");
        }
        println!("{met} passed, {failed} failed");
        enough && failed == 0
    }

    /// Appends a line to the ledger.
    fn note(options: &Options, label: &str, met: usize, failed: usize) -> std::io::Result<()> {
        let Some(path) = &options.ledger else { return Ok(()) };
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        let result = if failed == 0 { "ok" } else { "FAIL" };
        writeln!(file, "{label}\t{}\t{met} met, {failed} failed\t{result}", options.commit)
    }
}

#[cfg(target_arch = "x86_64")]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(u8::from(!sweep::run()))
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("0 passed, 0 failed");
}
