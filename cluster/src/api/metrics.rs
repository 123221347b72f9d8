//! `/metrics` for Prometheus. The daemon adds the engine's lines.

use crate::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

const METHODS: [&str; 7] = ["GET", "PUT", "DELETE", "PATCH", "POST", "HEAD", "OPTIONS"];

/// Counters of requests.
#[derive(Debug, Default)]
pub struct Counters {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl Counters {
    /// Counts a request.
    pub fn count(&self, method: &str, status: u16) {
        // Clients choose the method, so unknown methods share one entry.
        let method = METHODS.iter().find(|own| **own == method).copied().unwrap_or("other");
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((method, status)).or_default() += 1;
    }

    /// Writes the metrics in Prometheus' format.
    pub fn text(&self, snapshot: &Snapshot, healthy: bool) -> String {
        let mut text = String::new();
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(text, "# TYPE fleet_api_requests_total counter");
        for ((method, status), count) in requests.iter() {
            let _ = writeln!(
                text,
                "fleet_api_requests_total{{method=\"{method}\",code=\"{status}\"}} {count}"
            );
        }
        let unplaced = snapshot.whys.len();
        let gauges: [(&str, i64); 6] = [
            ("fleet_registry_up", i64::from(healthy)),
            ("fleet_registry_revision", snapshot.revision),
            ("fleet_units", i64::try_from(snapshot.units.len()).unwrap_or(i64::MAX)),
            ("fleet_units_unplaceable", i64::try_from(unplaced).unwrap_or(i64::MAX)),
            ("fleet_machines", i64::try_from(snapshot.machines.len()).unwrap_or(i64::MAX)),
            (
                "fleet_records_unreadable",
                i64::try_from(snapshot.set_aside.len()).unwrap_or(i64::MAX),
            ),
        ];
        for (name, value) in gauges {
            let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
        }
        text
    }
}

/// The metric for insecure access to etcd; empty while it is unknown.
pub fn safety(insecure: Option<&[String]>) -> String {
    let Some(why) = insecure else { return String::new() };
    let name = "fleet_registry_insecure";
    format!("# TYPE {name} gauge\n{name} {}\n", u8::from(!why.is_empty()))
}
