//! What the API is told by the daemon it is part of, when it begins and as it goes on. How it
//! answers is [`super::server`]'s.

use super::logs::Logs;
use super::page;
use std::sync::Arc;
use tokio::sync::watch;

/// What the API is told when it begins.
#[derive(Clone)]
pub struct Settings {
    /// Items on a page.
    pub token_limit: u16,
    /// Of fleetd, for the header `Server`.
    pub version: String,
    /// More lines for `/metrics`.
    pub more_metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// Where what units wrote is read.
    pub logs: Option<Logs>,
    /// Why the cluster does not let this machine in, while it does not: then nothing is
    /// answered in the cluster's name.
    pub turned_away: Option<watch::Receiver<Option<String>>>,
    /// Why etcd is not safe; `None`: it was not looked at yet.
    pub insecure: Option<watch::Receiver<Option<Vec<String>>>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            token_limit: page::LIMIT,
            version: format!("v{}", env!("CARGO_PKG_VERSION")),
            more_metrics: None,
            logs: None,
            turned_away: None,
            insecure: None,
        }
    }
}
