//! The life cycle of the daemon: it starts the tasks and handles signals. On SIGTERM it stops the
//! units and leaves the cluster, unless init only restarts it.

use super::config::Config;
use super::daemon::{self, Daemon, Wiring};
use super::examination::{examine, log_etcd_faults};
use super::identity::{self, Identity};
use super::init::{self, Init};
use super::init_socket::InitSocket;
use super::machine_lease::MachineLease;
use super::memory;
use super::saved_state::StateFiles;
use super::shutdown_policy::Fate;
use super::trusted_keys::TrustKeeper;
use super::unit_runner::Stops;
use crate::api::listener::{self, Listener, Security};
use crate::api::reloaded_files::ReloadedFiles;
use crate::api::server::{ApiState, Settings};
use crate::api::{logs::Logs, peer_session, tls};
use crate::clock::Clock;
use crate::etcd_cache::EtcdCache;
use crate::fence;
use crate::key::Keys;
use crate::log;
use crate::record::MachineRecord;
use crate::store::Store;
use crate::transaction::MOST_OPERATIONS;
use groundstate_units::text::name::Name;
use sd_notify::NotifyState;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Timeout for requests to etcd and init at exit.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Keepalives per watchdog interval of init.
const KEEPALIVES: u32 = 3;

/// How the daemon ends.
#[derive(Debug)]
pub enum End {
    /// The daemon exits.
    Stopped,
    /// The daemon re-executes its program with a new configuration, and keeps units, leases and these
    /// sockets, which init passed.
    Reexec(Vec<OwnedFd>),
}

/// Status for API clients.
struct ApiStatus {
    /// Why the cluster refuses this machine, if it does.
    machine_refusal: watch::Receiver<Option<String>>,
    /// Why etcd is insecure; `None` if it was not checked yet.
    insecure: watch::Receiver<Option<Vec<String>>>,
    /// Extra lines for `/metrics`.
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Runs until a signal ends it. `read` reads the configuration again.
///
/// # Errors
/// Why it cannot start.
pub async fn run(config: Config, read: impl Fn() -> Option<Config>) -> Result<End, String> {
    let identity = Identity::of(&config)?;
    let source = Name::new(&config.source).map_err(|error| format!("source: {error}"))?;
    let store = Store::etcd(config.etcd.clone()).map_err(|fault| fault.to_string())?;
    let trust_keeper = TrustKeeper::of(&config)?;
    let state_files = StateFiles::of(&config, &identity);
    let recalled = state_files.recall();
    let init = InitSocket::new(config.init_socket.clone());
    let (daemon, tasks) = Daemon::new(Wiring {
        store,
        keys: Keys::under(&config.etcd_key_prefix),
        clock: Clock::system(),
        identity: identity.clone(),
        record: identity.record(&config),
        init: Init::at(init.clone(), source),
        ttl: config.agent_ttl,
        engine: (!config.disable_engine).then_some(config.engine_reconcile_interval),
        grace: config.reschedule_grace,
        room: MOST_OPERATIONS,
        trust_keeper,
        recalled,
        keep: state_files.clone().keeper(),
    });
    let cache = daemon.cache.clone();
    let (stop_api, stopped) = watch::channel(false);
    let (insecure_sender, insecure) = watch::channel(None);
    let (metrics, clock) = (daemon.metrics.clone(), cache.clock().clone());
    let metrics = Arc::new(move || metrics.text(clock.now()));
    let status = ApiStatus { machine_refusal: daemon.machine_refusal.clone(), insecure, metrics };
    let passed = serve(&config, &identity, &cache, &status, stopped).await?;
    let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let logging_faults = tokio::spawn(log_etcd_faults(cache.clone()));
    let examining = tokio::spawn(examine(cache.clone(), insecure_sender));
    let listening = tokio::spawn(init::listen(init.clone(), daemon.happened.clone()));
    let ready = tokio::spawn(notify_when_ready(daemon.machine_lease.clone()));
    // The keepalives continue during the stop of the units, which may take long.
    let life =
        send_keepalives(cache.clock().clone(), config.agent_ttl, daemon.give_up_deadline.clone());
    drop(tokio::spawn(life));
    drop(tokio::spawn(memory::give_back_for_ever(cache.clock().clone())));
    let reconfigured =
        handle_signals(&config, &identity, &cache, &status, &daemon.record, read).await?;
    ready.abort();
    if !reconfigured {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
    }
    let fate =
        if reconfigured { Fate::Restarted } else { Fate::from_init(&init, LAST_WORDS).await };
    let leases = if fate == Fate::Over && config.leave_on_stop {
        log::info(format_args!("leaving the cluster: stopping the units of this machine"));
        let down = daemon::stop_units(daemon.leave.clone(), Stops::All).await;
        tasks.iter().for_each(|task| task.abort());
        if down {
            state_files.forget();
        }
        daemon.leases(down).collect()
    } else {
        if fate != Fate::Restarted {
            daemon::stop_units(daemon.leave.clone(), Stops::Exclusive).await;
        }
        log::info(format_args!("exiting: the units of this machine keep running"));
        tasks.iter().for_each(|task| task.abort());
        (*daemon.leads.borrow()).into_iter().collect()
    };
    daemon::revoke_leases(&cache, leases, LAST_WORDS).await;
    listening.abort();
    [examining, logging_faults].iter().for_each(|task| task.abort());
    stop_api.send_replace(true);
    Ok(if reconfigured { End::Reexec(passed) } else { End::Stopped })
}

/// Handles signals until the daemon ends. Returns true if it re-executes itself.
async fn handle_signals(
    config: &Config,
    identity: &Identity,
    cache: &EtcdCache,
    status: &ApiStatus,
    record: &watch::Sender<MachineRecord>,
    read: impl Fn() -> Option<Config>,
) -> Result<bool, String> {
    let on = |kind| signal(kind).map_err(|error| format!("signals: {error}"));
    let mut terminate = on(SignalKind::terminate())?;
    let mut interrupt = on(SignalKind::interrupt())?;
    let mut hangup = on(SignalKind::hangup())?;
    let mut show = on(SignalKind::user_defined1())?;
    let mut current = config.clone();
    let mut address_checks = cache.clock().every(identity::ADDRESS_CHECK);
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(false),
            _ = interrupt.recv() => return Ok(false),
            // The machine's address may change.
            () = address_checks.tick() => identity.publish(&current, record),
            _ = hangup.recv() => {
                log::info(format_args!("Reloading configuration"));
                let Some(fresh) = read() else { continue };
                log::set_debug(fresh.debug);
                identity.publish(&fresh, record);
                current = fresh.clone();
                let applied = Config {
                    metadata: fresh.metadata.clone(),
                    public_ip: fresh.public_ip.clone(),
                    advertise: fresh.advertise.clone(),
                    debug: fresh.debug,
                    ..config.clone()
                };
                if applied == fresh {
                    continue;
                }
                match check_startable(&fresh) {
                    Ok(()) => return Ok(true),
                    Err(why) => log::error(format_args!("cannot apply the other new settings, keeping the old ones: {why}")),
                }
            }
            _ = show.recv() => {
                let snapshot = cache.snapshot();
                let scheduled = snapshot.schedules.get(&identity.id);
                let units: Vec<String> =
                    scheduled.into_iter().flat_map(|of| of.keys().map(ToString::to_string)).collect();
                let line = serde_json::json!({
                    "machine": identity.id.as_str(),
                    "revision": snapshot.revision,
                    "leader": snapshot.leader.as_ref().map(|kept| kept.record.machine.to_string()),
                    "units": units,
                    "insecure": status.insecure.borrow().clone(),
                    "healthy": cache.health().borrow().fault.is_none(),
                });
                use std::io::Write;
                let _ = writeln!(std::io::stdout().lock(), "{line}");
            }
        }
    }
}

/// Checks that a new image would not fail at once with this configuration.
///
/// # Errors
/// The fault.
fn check_startable(config: &Config) -> Result<(), String> {
    Name::new(&config.source).map_err(|error| format!("source: {error}"))?;
    Store::etcd(config.etcd.clone()).map_err(|fault| fault.to_string())?;
    TrustKeeper::of(config)?;
    let (security, _) = security(config)?;
    for at in listener::listen_addresses(&config.listen)? {
        security.permits(&at)?;
    }
    Ok(())
}

/// The client certificate for other machines.
type ClientTls = Option<Arc<ReloadedFiles<Arc<rustls::ClientConfig>>>>;

/// Returns the access control for TCP and the client certificate for other machines.
///
/// # Errors
/// A file cannot be read or is invalid.
fn security(config: &Config) -> Result<(Security, ClientTls), String> {
    let server = match (&config.tls_cert_file, &config.tls_key_file, &config.tls_client_ca_file) {
        (Some(cert), Some(key), Some(client_ca)) => Some(tls::ServerFiles {
            cert: cert.clone(),
            key: key.clone(),
            client_ca: client_ca.clone(),
            client_crl: config.tls_client_crl_file.clone(),
        }),
        _ => None,
    };
    if let Some(path) = &config.api_roles_file {
        peer_session::read_roles(path)?;
    }
    let client = match &server {
        Some(files) => {
            let own = Some((files.cert.clone(), files.key.clone()));
            let all = vec![files.cert.clone(), files.key.clone(), files.client_ca.clone()];
            let files = tls::ClientFiles { ca: Some(files.client_ca.clone()), own };
            Some(Arc::new(ReloadedFiles::of(all, move || tls::client(&files))?))
        }
        None => None,
    };
    let insecure_loopback_only = config.insecure_loopback;
    let roles_file = config.api_roles_file.clone();
    Ok((Security { tls: server, roles_file, insecure_loopback_only }, client))
}

/// Opens the API at all addresses.
async fn serve(
    config: &Config,
    identity: &Identity,
    cache: &EtcdCache,
    status: &ApiStatus,
    stopped: watch::Receiver<bool>,
) -> Result<Vec<OwnedFd>, String> {
    let (security, client) = security(config)?;
    let logs =
        Logs { machine: identity.id.clone(), socket: config.log_socket.clone(), tls: client };
    let settings = Settings {
        token_limit: config.token_limit,
        logs: Some(logs),
        machine_refusal: Some(status.machine_refusal.clone()),
        insecure: Some(status.insecure.clone()),
        more_metrics: Some(status.metrics.clone()),
        ..Settings::default()
    };
    let state = ApiState::new(cache.clone(), settings);
    let (mut listeners, passed) = Listener::passed(&security)?;
    for at in listener::listen_addresses(&config.listen)? {
        listeners.push(Listener::bind(&at, &security).await?);
    }
    if listeners.is_empty() {
        log::info(format_args!("the API is disabled: `listen` is empty and init passed no socket"));
    }
    for listener in listeners {
        tokio::spawn(listener.serve(state.clone(), stopped.clone()));
    }
    Ok(passed)
}

async fn notify_when_ready(mut machine_lease: watch::Receiver<MachineLease>) {
    if machine_lease.wait_for(|state| state.lease.is_some()).await.is_err() {
        return;
    }
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    log::info(format_args!("ready"));
}

/// Sends watchdog keepalives to init, which kills and restarts a hanging fleetd. The new one gives
/// up the exclusive units before the machine's lease expires and other machines may start them.
/// Each keepalive sets the next deadline; before READY=1 there is none.
async fn send_keepalives(
    clock: Clock,
    ttl: Duration,
    mut give_up_deadline: watch::Receiver<Option<Duration>>,
) {
    loop {
        let last = *give_up_deadline.borrow_and_update();
        let left = last.map(|at| at.saturating_sub(clock.now()));
        let pause = match fence::watchdog_interval(ttl, left) {
            Some(watch) => {
                let micros = u32::try_from(watch.as_micros()).unwrap_or(u32::MAX);
                let every = NotifyState::WatchdogUsec(micros);
                let _ = sd_notify::notify(&[every, NotifyState::Watchdog]);
                watch / KEEPALIVES
            }
            None => ttl,
        };
        // The sender is dropped when the unit runner ends, shortly before this process exits.
        if matches!(clock.within(pause, give_up_deadline.changed()).await, Some(Err(_))) {
            clock.sleep(pause).await;
        }
    }
}
