//! etcd is looked at when it answers first, and now and then while we run: what is to be said of
//! it ([`crate::store::standing`]) is said once, and kept for who asks this daemon.

use crate::etcd_cache::EtcdCache;
use crate::log;
use crate::store::standing::Standing;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::watch;

/// Between two looks; who changes etcd's rights, or its version, need not start us anew.
const AGAIN: Duration = Duration::from_secs(300);
/// Reasons that are told before all is well again.
const MOST_FAULTS: usize = 16;
/// After one that was not answered.
const SOON: Duration = Duration::from_secs(1);

/// Goes on for ever. `told`: why it is not safe; `None` before it has been looked at.
pub async fn examine(cache: EtcdCache, told: watch::Sender<Option<Vec<String>>>) {
    let clock = cache.clock().clone();
    let mut health = cache.health();
    let mut last = Standing::default();
    loop {
        if health.wait_for(|health| health.fault.is_none()).await.is_err() {
            return;
        }
        match cache.store().standing().await {
            Ok(Some(standing)) => {
                tell(&last, &standing);
                told.send_replace(Some(standing.insecure()));
                last = standing;
                clock.sleep(AGAIN).await;
            }
            Ok(None) => return,
            Err(fault) => {
                log::debug(format_args!("etcd was not looked at: {fault}"));
                clock.sleep(SOON).await;
            }
        }
    }
}

fn tell(last: &Standing, now: &Standing) {
    if now.versions != last.versions {
        log::info(format_args!("etcd is {}", now.versions.join(", ")));
    }
    let known = [last.insecure(), last.faults()].concat();
    for why in now.insecure().into_iter().filter(|why| !known.contains(why)) {
        log::error(format_args!("insecure: {why}"));
    }
    for fault in now.faults().into_iter().filter(|fault| !known.contains(fault)) {
        log::error(format_args!("{fault}"));
    }
    if !last.insecure().is_empty() && now.insecure().is_empty() {
        log::info(format_args!("what was insecure about etcd is so no more"));
    }
}

/// Says why nothing new comes from etcd, each reason once until all is well again: for ever.
pub async fn tell_faults(cache: EtcdCache) {
    let mut health = cache.health();
    let mut said: BTreeSet<String> = BTreeSet::new();
    // Before the first answer its absence is nothing to tell of.
    let mut answered = false;
    loop {
        let fault = health.borrow_and_update().fault.as_ref().map(ToString::to_string);
        match fault {
            None => {
                if !said.is_empty() {
                    log::info(format_args!("etcd answers again"));
                }
                (answered, said) = (true, BTreeSet::new());
            }
            Some(fault) if answered && said.len() < MOST_FAULTS && !said.contains(&fault) => {
                log::error(format_args!("nothing new comes from etcd: {fault}"));
                said.insert(fault);
            }
            Some(_) => {}
        }
        if health.changed().await.is_err() {
            return;
        }
    }
}
