//! Snapshots for the next pages of a list: how long the API keeps them.

use cluster::api::caller::Caller;
use cluster::api::request::Request;
use cluster::api::server::{ApiState, Settings};
use cluster::clock::{Clock, Sleep, Time};
use cluster::desired::Desired;
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::registry;
use cluster::store::Store;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// A clock that runs a thousand times as fast.
struct Fast(Instant);

const PACE: u32 = 1_000;

impl Time for Fast {
    fn now(&self) -> Duration {
        self.0.elapsed() * PACE
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(at.saturating_sub(self.now()) / PACE))
    }
}

#[test]
fn snapshot_of_a_list_is_freed_without_a_further_list() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = Clock::of(Arc::new(Fast(Instant::now())));
        let store = Store::memory();
        let (cache, follower) = EtcdCache::new(store.clone(), Keys::under("/f"), clock);
        tokio::spawn(follower.follow());
        let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
        let mut last = 0;
        for number in 0..3 {
            let name = UnitName::new(&format!("a{number}.service")).unwrap();
            let snapshot = cache.read().await.unwrap();
            let create = registry::create(&snapshot, &name, &file, Desired::Inactive);
            last = store.commit(&create).await.unwrap().unwrap();
        }
        cache.changes().wait_for(|snapshot| snapshot.revision >= last).await.unwrap();
        let api = ApiState::new(cache.clone(), Settings { token_limit: 2, ..Settings::default() });
        let list = Request {
            method: "GET".to_string(),
            path: "/fleet/v1/units".to_string(),
            caller: Caller::local(),
            ..Request::default()
        };
        let snapshot = Arc::downgrade(&cache.snapshot());
        let answer = api.answer(&list).await;
        assert!(String::from_utf8_lossy(&answer.body).contains("nextPageToken"), "{answer:?}");
        // The cache moves on, and the API keeps the old snapshot.
        let gone = UnitName::new("a0.service").unwrap();
        let destroy = registry::destroy(&cache.snapshot(), &gone);
        store.commit(&destroy.unwrap()).await.unwrap().unwrap();
        let freed = async {
            while snapshot.upgrade().is_some() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), freed).await.expect("the snapshot is freed");
        drop(api);
    });
}
