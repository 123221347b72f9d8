//! Settings and live inputs of the API from its daemon. [`super::server`] uses them.

use super::logs::Logs;
use super::page;
use std::sync::Arc;
use tokio::sync::watch;

/// Settings of the API.
#[derive(Clone)]
pub struct Settings {
    /// Items on a page.
    pub token_limit: u16,
    /// The version of fleetd, for the `Server` header.
    pub version: String,
    /// Extra lines for `/metrics`.
    pub more_metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// The sources of logs.
    pub logs: Option<Logs>,
    /// Why the cluster refuses this machine, if it does; the API then answers nothing for the
    /// cluster.
    pub machine_refusal: Option<watch::Receiver<Option<String>>>,
    /// Why etcd is insecure; `None` if it was not checked yet.
    pub insecure: Option<watch::Receiver<Option<Vec<String>>>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            token_limit: page::LIMIT,
            version: format!("v{}", env!("CARGO_PKG_VERSION")),
            more_metrics: None,
            logs: None,
            machine_refusal: None,
            insecure: None,
        }
    }
}
