//! The first steps of a machine after a pause, or while it is cut off, with a simulated clock.

use crate::fake_init::{FakeInit, Fleetd, soon};
use cluster::clock::{Clock, Sleep, Time};
use cluster::desired::Desired;
use cluster::fence;
use cluster::fleetd::saved_state::SavedState;
use cluster::snapshot::Snapshot;
use cluster::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The default `agent_ttl`, with a timeout of 2.5 s for etcd requests.
const TTL: Duration = Duration::from_secs(30);
/// The machine's polling interval.
const PULSE: Duration = Duration::from_millis(250);

/// The boot time of a machine that is paused now and then. During a pause nothing runs, and at the
/// end of the pause the time jumps.
struct Pauses {
    /// Total duration of the pauses.
    whole: Duration,
    /// From this time on, only the test advances the clock.
    stopped: Option<Duration>,
}

#[derive(Clone)]
struct PausingClock(Arc<watch::Sender<Pauses>>);

impl PausingClock {
    fn new() -> PausingClock {
        PausingClock(Arc::new(watch::channel(Pauses { whole: Duration::ZERO, stopped: None }).0))
    }

    /// Ends a pause of this duration.
    fn pause(&self, time: Duration) {
        self.0.send_modify(|stood| stood.whole += time);
    }

    /// The same, and then stops the clock.
    fn pause_and_stop(&self, time: Duration) {
        let stopped = Some(Clock::system().now());
        self.0.send_modify(|stood| *stood = Pauses { whole: stood.whole + time, stopped });
    }

    /// Advances a stopped clock and lets all tasks run.
    async fn advance(&self, time: Duration) {
        self.pause(time);
        // The store and init answer at once, so all waiting tasks have run after these turns.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
}

impl Time for PausingClock {
    fn now(&self) -> Duration {
        let stood = self.0.borrow();
        stood.stopped.unwrap_or_else(|| Clock::system().now()) + stood.whole
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let time = self.0.clone();
        Box::pin(async move {
            let mut moves = time.subscribe();
            loop {
                let (awake, stopped) = {
                    let stood = moves.borrow_and_update();
                    (at.saturating_sub(stood.whole), stood.stopped)
                };
                match stopped {
                    Some(stopped) if stopped >= awake => return,
                    Some(_) => {
                        let _ = moves.changed().await;
                    }
                    None => tokio::select! {
                        () = Clock::system().sleep_until(awake) => return,
                        _ = moves.changed() => {}
                    },
                }
            }
        })
    }
}

/// Starts a fleetd with a running unit and an exclusive one.
async fn runs(store: &Store, init: &Arc<FakeInit>, time: &PausingClock) -> Fleetd {
    let clock = Clock::of(Arc::new(time.clone()));
    let fleetd = Fleetd::begin_as("m1", store, init, SavedState::default(), (TTL, clock));
    fleetd.cache.changes().wait_for(|snapshot| snapshot.machines.len() == 1).await.unwrap();
    fleetd.submit("a.service", "", Desired::Launched).await;
    fleetd.submit("x.service", "Exclusive=true", Desired::Launched).await;
    init.has(&["a.service", "x.service"]).await;
    // Once both states are published, fleetd sees later changes.
    let all_published = |snapshot: &Arc<Snapshot>| snapshot.states.len() == 2;
    fleetd.cache.changes().wait_for(all_published).await.unwrap();
    fleetd
}

/// A resuming machine may have no network. Its clock is stopped, so no timeout ends a wait: fleetd
/// must give the units up without waiting for any answer.
#[test]
fn machine_paused_beyond_its_lease_first_gives_up_exclusive_units() {
    assert!(
        fence::members_timeout(TTL) > Duration::from_secs(1),
        "the timeout is long enough to delay the machine"
    );
    soon(async {
        let (store, init, time) = (Store::memory(), FakeInit::new(), PausingClock::new());
        let fleetd = runs(&store, &init, &time).await;
        let puts = init.set.borrow().0;
        store.set_reachable(false);
        time.pause_and_stop(TTL * 2);
        init.has(&["a.service"]).await;
        assert_eq!(init.set.borrow().0, puts + 1, "init got another source first");
        fleetd.crash();
    });
}

#[test]
fn endless_events_of_init_do_not_delay_giving_up_exclusive_units() {
    soon(async {
        let (store, init, time) = (Store::memory(), FakeInit::new(), PausingClock::new());
        let fleetd = runs(&store, &init, &time).await;
        let happened = fleetd.happened.clone();
        let flood = tokio::spawn(async move { while happened.send(()).await.is_ok() {} });
        init.is_asked(3).await;
        store.set_reachable(false);
        time.pause(TTL * 2);
        init.has(&["a.service"]).await;
        flood.abort();
        fleetd.crash();
    });
}

/// A machine that is cut off reconciles again only after its next lease renewal: until then each
/// check would see the same state.
#[test]
fn machine_cut_off_from_etcd_reconciles_again_after_its_next_renewal() {
    soon(async {
        let (store, init, time) = (Store::memory(), FakeInit::new(), PausingClock::new());
        let fleetd = runs(&store, &init, &time).await;
        let has_it = || init.set.borrow().1.files.contains_key("x.service");
        store.set_reachable(false);
        time.pause_and_stop(Duration::ZERO);
        while has_it() {
            time.advance(PULSE).await;
        }
        // In this time fleetd tries to publish that it gave the unit up.
        time.advance(PULSE * 4).await;
        time.advance(PULSE * 4).await;
        let looked = fleetd.metrics.reconciled();
        for _ in 0..40 {
            time.advance(PULSE).await;
        }
        assert_eq!(fleetd.metrics.reconciled(), looked);
        store.set_reachable(true);
        while !has_it() {
            time.advance(PULSE).await;
        }
        fleetd.crash();
    });
}
