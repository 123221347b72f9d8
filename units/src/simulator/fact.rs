//! Prepares a fact for the [`RunLedger`], before the machine receives it: it adds the rules for
//! that run at this moment. [`super::invariant`] checks how the machine reacts to the fact.

use crate::machine::event::Event;
use crate::simulator::oracle::Oracle;
use crate::simulator::run_ledger::{RunLedger, Times};
use crate::simulator::unit_model;
use crate::spec::Kind;
use crate::text::time::Time;

/// Records a fact; `late` means that its run is over.
pub(super) fn hear(ledger: &mut RunLedger, oracle: &Oracle, now: Time, event: &Event, late: bool) {
    let about = event.run().and_then(|run| ledger.runs.get(&run)).map(|run| run.unit);
    let ends = match event {
        Event::Exited(_, exit) | Event::Ended(_, exit) => Some(*exit),
        _ => None,
    };
    let live = about.and_then(|unit| oracle.unit(unit)).map(|unit| unit.live.clone());
    let live = live.unwrap_or_else(|| unit_model::live(Kind::Virtual).into());
    let stops = about.is_some_and(|unit| oracle.must_stop().has(unit));
    // A run that serves a connection ends with the connection. The next start does not depend on
    // how this run ended.
    let served = about.is_some_and(|unit| oracle.is_connected(unit));
    let expected = stops || served || ends.is_some_and(|end| live.success_status.lists(end));
    let over = about.and_then(|unit| ledger.of(unit)).is_none_or(|run| run.died || late);
    if ends.is_some_and(|exit| live.restart_except.lists(exit)) && !over && !(stops || served) {
        ledger.bar(event);
    }
    // The keys of the run's own definition; those of a newer one do not apply to it yet.
    let run = about.and_then(|unit| oracle.run(unit));
    let times = Times {
        delay: live.restart_delay.min(live.restart_delay_max),
        stop_timeout: run.and_then(|run| run.unit.live.stop_timeout),
    };
    ledger.fact(now, event, expected, &times);
}
