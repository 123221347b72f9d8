//! Checks etcd at the first contact and then periodically. Logs each finding
//! ([`crate::store::findings`]) once and keeps it for the API.

use crate::etcd_cache::EtcdCache;
use crate::log;
use crate::store::findings::EtcdFindings;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::watch;

/// Interval between checks; etcd's rights or version may change while fleetd runs.
const AGAIN: Duration = Duration::from_secs(300);
/// Maximum number of distinct faults logged until etcd works again.
const MOST_FAULTS: usize = 16;
/// Delay after a check without an answer.
const SOON: Duration = Duration::from_secs(1);

/// Runs forever. `insecure` gets why etcd is insecure, or `None` before the first check.
pub async fn examine(cache: EtcdCache, insecure: watch::Sender<Option<Vec<String>>>) {
    let clock = cache.clock().clone();
    let mut health = cache.health();
    let mut last = EtcdFindings::default();
    loop {
        if health.wait_for(|health| health.fault.is_none()).await.is_err() {
            return;
        }
        match cache.store().findings().await {
            Ok(Some(findings)) => {
                log_findings(&last, &findings);
                insecure.send_replace(Some(findings.insecure()));
                last = findings;
                clock.sleep(AGAIN).await;
            }
            Ok(None) => return,
            Err(fault) => {
                log::debug(format_args!("cannot check etcd: {fault}"));
                clock.sleep(SOON).await;
            }
        }
    }
}

fn log_findings(last: &EtcdFindings, now: &EtcdFindings) {
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
        log::info(format_args!("etcd connection is secure now"));
    }
}

/// Logs why etcd does not answer, each reason once until it works again. Runs forever.
pub async fn log_etcd_faults(cache: EtcdCache) {
    let mut health = cache.health();
    let mut logged: BTreeSet<String> = BTreeSet::new();
    // A missing first answer is not reported.
    let mut answered = false;
    loop {
        let fault = health.borrow_and_update().fault.as_ref().map(ToString::to_string);
        match fault {
            None => {
                if !logged.is_empty() {
                    log::info(format_args!("etcd answers again"));
                }
                (answered, logged) = (true, BTreeSet::new());
            }
            Some(fault) if answered && logged.len() < MOST_FAULTS && !logged.contains(&fault) => {
                log::error(format_args!("no updates from etcd: {fault}"));
                logged.insert(fault);
            }
            Some(_) => {}
        }
        if health.changed().await.is_err() {
            return;
        }
    }
}
