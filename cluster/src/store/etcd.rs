//! [`super::Store`] on etcd's v3 API.
//! Each call has the configured timeout. A write without an answer is `Unknown`, unless etcd says
//! that it was not done.
//! One member is asked at a time, starting with the first endpoint; when it does not answer, later
//! calls use the next one. Spreading calls over all members would lose one call of three to an
//! unreachable member.

mod fault;
mod findings;
mod members;
mod tls;
mod watch;

pub(super) use watch::EtcdWatch;

use super::membership::Membership;
use super::{Fault, Lease, Remainder};
use crate::secret::Secret;
use crate::transaction::{Condition, Entry, Operation, Reading, Transaction};
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, DeleteOptions, Error, GetOptions, KeyValue,
    PutOptions, Txn, TxnOp, WatchOptions,
};
use fault::{Why, is_about_the_write, refused, why};
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, OnceLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Maximum size of an answer. etcd limits only the size of requests. A page of the largest units
/// stays below this limit.
const LARGEST_ANSWER: usize = 1024 * 1024 * 1024;
/// Keys per read request.
const PAGE: i64 = 2000;
/// Error when the leader changed between two readings of the term.
const ANOTHER_LEADER: &str = "etcd's leader changed during the request";
/// Interval of HTTP/2 pings. A member that does not answer one within [`PING_ANSWERED`] is replaced
/// by the next member.
const PING: Duration = Duration::from_secs(5);
const PING_ANSWERED: Duration = Duration::from_secs(3);

/// Connection settings of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdConfig {
    /// Endpoint URLs.
    pub endpoints: Vec<String>,
    /// User and password.
    pub user: Option<(String, Secret)>,
    /// PEM file with the CA of the members' certificates.
    pub ca_file: Option<PathBuf>,
    /// PEM file with our certificate.
    pub cert_file: Option<PathBuf>,
    /// PEM file with its key.
    pub key_file: Option<PathBuf>,
    /// Timeout of each request.
    pub request_timeout: Duration,
}

/// A connection, and the turn at which its member was chosen (see [`Etcd::turn`]).
struct Link {
    client: Client,
    turn: usize,
}

#[derive(Clone)]
pub(super) struct Etcd {
    config: Arc<EtcdConfig>,
    options: ConnectOptions,
    client: Arc<Mutex<Option<Client>>>,
    /// Number of switches from one member to the next.
    turn: Arc<AtomicUsize>,
    /// The first prefix that was read; our etcd user has the right to read it.
    root: Arc<OnceLock<String>>,
    /// The most recent member list.
    members: Arc<Lock<Option<Membership>>>,
}

impl Etcd {
    pub(super) fn new(config: EtcdConfig) -> Result<Etcd, Fault> {
        if config.endpoints.is_empty() {
            return Err(Fault::Unavailable(
                "no etcd endpoint is configured: set etcd_servers".to_string(),
            ));
        }
        let mut options = ConnectOptions::new()
            .with_keep_alive(PING, PING_ANSWERED)
            .with_connect_timeout(config.request_timeout)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((name, password)) = &config.user {
            options = options.with_user(name, password.reveal());
        }
        // Reports faulty files now rather than on first use.
        tls::tls(&config)?;
        let client = Arc::new(Mutex::new(None));
        let (turn, root, members) = (Arc::default(), Arc::default(), Arc::default());
        Ok(Etcd { config: Arc::new(config), options, client, turn, root, members })
    }

    pub(super) fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// Reads the TLS files for each connection, because certificates are renewed while fleetd runs.
    fn options(&self) -> Result<ConnectOptions, Fault> {
        let options = self.options.clone();
        Ok(match tls::tls(&self.config)? {
            Some(tls) => options.with_tls(tls),
            None => options,
        })
    }

    fn member(&self, turn: usize) -> &str {
        let at = turn.checked_rem(self.config.endpoints.len()).unwrap_or(0);
        self.config.endpoints.get(at).map_or("", String::as_str)
    }

    async fn client(&self) -> Result<Link, Fault> {
        let mut client = self.client.lock().await;
        let turn = self.turn();
        if let Some(client) = &*client {
            return Ok(Link { client: client.clone(), turn });
        }
        let connecting = Client::connect([self.member(turn)], Some(self.options()?));
        let connected = match timeout(self.config.request_timeout, connecting).await {
            Ok(Ok(connected)) => connected,
            failed => {
                self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
                return Err(match failed {
                    Ok(Err(error)) => refused(&error),
                    Ok(Ok(_)) | Err(_) => self.late(turn),
                });
            }
        };
        *client = Some(connected.clone());
        Ok(Link { client: connected, turn })
    }

    /// Switches to the next member after the one of `turn` did not answer.
    async fn leave(&self, turn: usize) {
        let mut client = self.client.lock().await;
        if self.turn() == turn {
            self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
            *client = None;
        }
    }

    fn late(&self, turn: usize) -> Fault {
        let (time, etcd) = (self.config.request_timeout, self.member(turn));
        Fault::Unavailable(format!("etcd at {etcd} did not answer within {time:?}"))
    }

    async fn ask<T>(
        &self,
        turn: usize,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, Fault> {
        let Ok(answer) = timeout(self.config.request_timeout, call).await else {
            self.leave(turn).await;
            return Err(self.late(turn));
        };
        if let Err(error) = &answer
            && matches!(why(error), Why::Lost)
            && !matches!(error, Error::LeaseKeepAliveError(_))
        {
            self.leave(turn).await;
        }
        Ok(answer)
    }

    pub(super) async fn read(&self, prefix: &str) -> Result<Reading, Fault> {
        let Link { client, turn } = self.client().await?;
        self.root.get_or_init(|| prefix.to_string());
        let mut kv = client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
        let mut reading = Reading::default();
        let (mut from, end) = (prefix.as_bytes().to_vec(), after_all(prefix));
        loop {
            let options = GetOptions::new().with_range(end.clone()).with_limit(PAGE);
            // All pages are of the first page's revision.
            let options = match reading.revision {
                0 => options,
                revision => options.with_revision(revision),
            };
            let answer =
                self.ask(turn, kv.get(from, Some(options))).await?.map_err(|e| refused(&e))?;
            if reading.revision == 0 {
                reading.revision = answer.header().map_or(0, |header| header.revision());
            }
            reading.entries.extend(answer.kvs().iter().filter_map(entry));
            match answer.kvs().last() {
                Some(last) if answer.more() => from = [last.key(), b"\0"].concat(),
                _ => return Ok(reading),
            }
        }
    }

    pub(super) async fn commit(&self, transaction: &Transaction) -> Result<Option<i64>, Fault> {
        let Link { client, turn } = self.client().await?;
        let mut kv = client.kv_client();
        let conditions: Vec<Compare> = transaction.conditions.iter().map(compare).collect();
        let operations: Vec<TxnOp> = transaction.operations.iter().map(operation).collect();
        let txn = Txn::new().when(conditions).and_then(operations);
        match self.ask(turn, kv.txn(txn)).await {
            Ok(Ok(answer)) => {
                let revision = answer.header().map_or(0, |header| header.revision());
                Ok(answer.succeeded().then_some(revision))
            }
            Ok(Err(error)) => match why(&error) {
                Why::NoSuchLease => Ok(None),
                Why::Refused if is_about_the_write(&error) => {
                    Err(Fault::Refused(error.to_string()))
                }
                Why::Refused => Err(refused(&error)),
                Why::Lost => Err(Fault::Unknown(error.to_string())),
            },
            Err(late) => Err(Fault::Unknown(late.to_string())),
        }
    }

    pub(super) async fn grant(&self, ttl: Duration) -> Result<Lease, Fault> {
        let Link { client, turn } = self.client().await?;
        let mut leases = client.lease_client();
        // Whole seconds, rounded up.
        let seconds = ttl.as_millis().div_ceil(1000).max(1);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let answer = self.ask(turn, leases.grant(seconds, None)).await?.map_err(|e| refused(&e))?;
        let ttl = Duration::from_secs(u64::try_from(answer.ttl()).unwrap_or(0));
        Ok(Lease { id: answer.id(), ttl })
    }

    /// Returns the term of etcd's leader, confirmed by a quorum.
    async fn term(&self, turn: usize, client: &Client) -> Result<u64, Fault> {
        let key = self.root.get().map_or("/", String::as_str);
        let (mut kv, options) = (client.kv_client(), GetOptions::new().with_keys_only());
        let answer = self.ask(turn, kv.get(key, Some(options))).await?.map_err(|e| refused(&e))?;
        Ok(answer.header().map_or(0, |header| header.raft_term()))
    }

    /// A former leader that has not noticed the election of another confirms every lease. So an
    /// answer counts only between two readings of the same term.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<bool, Fault> {
        let Link { client, turn } = self.client().await?;
        let mut leases = client.lease_client();
        let before = self.term(turn, &client).await?;
        match self.ask(turn, leases.keep_alive(lease)).await? {
            Ok(_) if self.term(turn, &client).await? != before => {
                Err(Fault::Unavailable(ANOTHER_LEADER.to_string()))
            }
            Ok(_) => {
                self.learn_members(&client).await;
                Ok(true)
            }
            Err(Error::LeaseKeepAliveError(_)) => Ok(false),
            Err(error) => match why(&error) {
                Why::NoSuchLease => Ok(false),
                Why::Refused | Why::Lost => Err(refused(&error)),
            },
        }
    }

    /// A former leader receives no keepalives, so an answer counts only as in `keep_alive`.
    pub(super) async fn remainder(&self, lease: i64) -> Result<Option<Remainder>, Fault> {
        let Link { client, turn } = self.client().await?;
        let mut leases = client.lease_client();
        let before = self.term(turn, &client).await?;
        let asked = self.ask(turn, leases.time_to_live(lease, None)).await?;
        if self.term(turn, &client).await? != before {
            return Err(Fault::Unavailable(ANOTHER_LEADER.to_string()));
        }
        let seconds = |of: i64| u64::try_from(of).ok().map(Duration::from_secs);
        match asked {
            // etcd answers -1 for an expired lease.
            Ok(answer) => Ok(seconds(answer.granted_ttl())
                .zip(seconds(answer.ttl()))
                .map(|(granted, left)| Remainder { granted, left })),
            Err(error) => match why(&error) {
                Why::NoSuchLease => Ok(None),
                Why::Refused | Why::Lost => Err(refused(&error)),
            },
        }
    }

    pub(super) async fn revoke(&self, lease: i64) -> Result<(), Fault> {
        let Link { client, turn } = self.client().await?;
        let mut leases = client.lease_client();
        match self.ask(turn, leases.revoke(lease)).await? {
            Ok(_) => Ok(()),
            Err(error) => match why(&error) {
                Why::NoSuchLease => Ok(()),
                Why::Refused | Why::Lost => Err(refused(&error)),
            },
        }
    }

    pub(super) async fn watch(&self, prefix: &str, after: i64) -> Result<EtcdWatch, Fault> {
        let Link { client, turn } = self.client().await?;
        let mut watches = client.watch_client().max_decoding_message_size(LARGEST_ANSWER);
        let options = WatchOptions::new()
            .with_range(after_all(prefix))
            .with_start_revision(after.saturating_add(1))
            .with_progress_notify();
        let stream =
            self.ask(turn, watches.watch(prefix, Some(options))).await?.map_err(|e| refused(&e))?;
        Ok(EtcdWatch::of(stream))
    }
}

/// Returns `None` for a key that is not text, and thus not of the cluster.
fn entry(kv: &KeyValue) -> Option<Entry> {
    Some(Entry {
        key: kv.key_str().ok()?.to_string(),
        value: kv.value().to_vec(),
        created: kv.create_revision(),
        modified: kv.mod_revision(),
        lease: kv.lease(),
    })
}

fn compare(condition: &Condition) -> Compare {
    match condition {
        Condition::Absent(key) => Compare::create_revision(key.as_str(), CompareOp::Equal, 0),
        Condition::Unchanged(key, revision) => {
            Compare::mod_revision(key.as_str(), CompareOp::Equal, *revision)
        }
        Condition::Created(key, revision) => {
            Compare::create_revision(key.as_str(), CompareOp::Equal, *revision)
        }
        Condition::Has(key, value) => Compare::value(key.as_str(), CompareOp::Equal, value.clone()),
        Condition::NoneSince(prefix, revision) => {
            let newest = revision.saturating_add(1);
            Compare::mod_revision(prefix.as_str(), CompareOp::Less, newest).with_prefix()
        }
    }
}

fn operation(operation: &Operation) -> TxnOp {
    match operation {
        Operation::Put { key, value, lease } => {
            let options = (*lease != 0).then(|| PutOptions::new().with_lease(*lease));
            TxnOp::put(key.as_str(), value.clone(), options)
        }
        Operation::Delete(key) => TxnOp::delete(key.as_str(), None),
        Operation::DeletePrefix(prefix) => {
            let options = DeleteOptions::new().with_range(after_all(prefix));
            TxnOp::delete(prefix.as_str(), Some(options))
        }
    }
}

/// Returns the first key after all keys with the prefix. Our prefixes end in `/`.
fn after_all(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}
