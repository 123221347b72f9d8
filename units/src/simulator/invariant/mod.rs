//! The invariants, checked after every event: one function each, named by its number and its rule.
//! They use the simulator's own record ([`crate::simulator::run_ledger`]) and the machine's public
//! answers; providers and needed units come from the oracle's brute-force sets. L15–L17 concern
//! whole schedules ([`whole`]). The program `mutants` shows that each invariant finds something.

pub mod bound;
pub mod run;
pub mod start;
pub mod state;
pub mod stop;
pub mod whole;
pub mod witness;

use crate::simulator::view::{Verdict, View};

/// An invariant of one moment.
pub type Check = fn(&View) -> Verdict;

/// The invariants by name, in order.
pub const ALL: &[(&str, Check)] = &[
    ("L1 start gate", start::l01_start_gate),
    ("L2 minimal set", start::l02_minimal_set),
    ("L3 single instance", run::l03_single_instance),
    ("L4 stop order", stop::l04_stop_order),
    ("L5 start bound", start::l05_start_bound),
    ("L6 propagation", stop::l06_propagation),
    ("L7 total table", state::l07_total_table),
    ("L8 no orphan wait", state::l08_no_orphan_wait),
    ("L9 cause", state::l09_cause),
    ("L10 degraded", state::l10_degraded),
    ("L11 coincidental", state::l11_coincidental),
    ("L12 unique provider", state::l12_unique_provider),
    ("L13 no ABA", run::l13_no_aba),
    ("L14 limiter", bound::l14_limiter),
    ("L18 no needless action", stop::l18_no_needless_action),
    ("L19 crash-consistent", run::l19_crash_consistent),
    ("L20 conservation", run::l20_conservation),
    ("L21 read-only", run::l21_read_only),
    ("L22 cost", bound::l22_cost),
    ("L23 shutdown", stop::l23_shutdown),
    ("L24 time", bound::l24_time),
    ("L25 run limit", bound::l25_run_limit),
    ("L26 restart-except", bound::l26_barred),
    ("L27 outcome pulls in", state::l27_outcome_pulls_in),
    ("L28 reload-with", run::l28_reload_with),
    ("L29 one run a connection", start::l29_one_run_a_connection),
    ("L30 one thing masked", start::l30_one_thing_masked),
    ("L31 skipped has no stop", stop::l31_skipped_has_no_stop),
    ("L32 told", state::l32_told),
    ("L33 prompt stop", stop::l33_prompt_stop),
    ("L36 leaves", bound::l36_leaves),
    ("L37 over", stop::l37_over),
    ("L38 handlers finish", stop::l38_handlers_finish),
    ("L39 records", run::l39_records),
];

/// Returns the names of all invariants, including those over whole schedules ([`whole`]).
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = ALL.iter().map(|(name, _)| *name).collect();
    names.extend([whole::L15, whole::L16, whole::L17]);
    names.sort_by_key(|name| {
        let number = name.split(' ').next().and_then(|word| word.strip_prefix('L'));
        number.and_then(|number| number.parse::<u32>().ok())
    });
    names
}

/// Returns the violated invariants, in order.
pub fn broken(view: &View) -> impl Iterator<Item = (&'static str, String)> {
    ALL.iter().filter_map(|(name, check)| Some((*name, check(view).err()?)))
}
