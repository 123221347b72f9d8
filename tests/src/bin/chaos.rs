//! `tests/soak chaos`: services and a real init under random failures
//! ([`groundstate_tests::chaos`]).
//!
//! `chaos cgroups|bare [ROUNDS [SEED [SERVICES]]]` (default 100, 1, 24) prints the actions and
//! their results, then `N passed, N failed`.
#![allow(clippy::print_stdout, reason = "a program of the tests")]

#[cfg(target_arch = "x86_64")]
fn main() -> std::process::ExitCode {
    use groundstate_tests::chaos::{Size, disorder};
    let word = |at: usize| std::env::args().nth(at);
    let number = |at: usize, otherwise: usize| {
        word(at).and_then(|word| word.parse().ok()).unwrap_or(otherwise)
    };
    let has_cgroups = match word(1).as_deref() {
        Some("cgroups") => true,
        Some("bare") => false,
        _ => {
            println!("chaos cgroups|bare [ROUNDS [SEED [SERVICES]]]");
            return std::process::ExitCode::from(64);
        }
    };
    let (rounds, seed, services) = (number(2, 100), number(3, 1) as u64, number(4, 24));
    let seen = std::panic::catch_unwind(|| disorder(Size { services, rounds, seed, has_cgroups }));
    match &seen {
        Ok(seen) => println!("{seen}"),
        Err(_) => println!("FAIL seed {seed}"),
    }
    let failed = seen.is_err();
    println!("{} passed, {} failed", usize::from(!failed) * rounds, u8::from(failed));
    std::process::ExitCode::from(u8::from(failed))
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("0 passed, 0 failed");
}
