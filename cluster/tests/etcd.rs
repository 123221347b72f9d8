//! The store on a real etcd: an unresponsive member, compaction, TLS, users with passwords.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod authority;
mod member;

use authority::{Issued, WRONG, authorities, issue, show};
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::secret::Secret;
use cluster::store::{Batch, EtcdConfig, Fault, Store};
use cluster::transaction::{Condition, Transaction};
use member::{Etcd, PATIENCE, ROOT, folder, run, when_there};
use nix::sys::signal::Signal;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, SockaddrIn6};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::timeout;

async fn put(store: &Store, key: &str) -> i64 {
    let write = Transaction::default().put(format!("{ROOT}{key}"), b"x".to_vec());
    store.commit(&write).await.unwrap().unwrap()
}

/// An IPv6 address that drops connections: its accept queue is full.
struct Blackhole {
    url: String,
    _socket: OwnedFd,
    _waiting: Vec<TcpStream>,
}

impl Blackhole {
    fn open() -> Blackhole {
        let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
        let socket = socket::socket(AddressFamily::Inet6, kind, flags, None).unwrap();
        let any = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0, 0, 0);
        socket::bind(socket.as_raw_fd(), &SockaddrIn6::from(any)).unwrap();
        socket::listen(&socket, Backlog::new(1).unwrap()).unwrap();
        let at: SockaddrIn6 = socket::getsockname(socket.as_raw_fd()).unwrap();
        let at = SocketAddr::from(SocketAddrV6::from(at));
        let connect = || TcpStream::connect_timeout(&at, Duration::from_millis(300)).ok();
        let waiting: Vec<TcpStream> = std::iter::from_fn(connect).take(16).collect();
        assert!(waiting.len() < 16, "it accepts any number of connections");
        Blackhole { url: format!("http://{at}"), _socket: socket, _waiting: waiting }
    }
}

#[test]
fn unresponsive_etcd_member_is_replaced_by_the_next_one() {
    run(async {
        let etcd = Etcd::start();
        when_there(&Store::etcd(etcd.config()).unwrap()).await;
        let black = Blackhole::open();
        // Accepts connections and sends nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mute = format!("http://{}", silent.local_addr().unwrap());
        let closed = "http://127.0.0.1:1".to_string();
        let nameless = "http://no-such-host.invalid:2379".to_string();
        for dead in [mute, closed, nameless, black.url.clone()] {
            let endpoints = vec![dead.clone(), etcd.url.clone()];
            let request_timeout = Duration::from_secs(3);
            let config = EtcdConfig { endpoints, request_timeout, ..etcd.config() };
            let store = Store::etcd(config).unwrap();
            let first = store.turn();
            assert!(matches!(store.read(ROOT).await, Err(Fault::Unavailable(_))), "{dead}");
            assert_ne!(store.turn(), first, "{dead}");
            let second = store.turn();
            for n in 0..20 {
                put(&store, &n.to_string()).await;
            }
            assert_eq!(
                store.turn(),
                second,
                "the store leaves a member that answers, after {dead}"
            );
        }
    });
}

#[test]
fn condition_on_no_newer_key_fails_if_one_exists_in_etcd_and_in_memory() {
    run(async {
        let etcd = Etcd::start();
        let real = Store::etcd(etcd.config()).unwrap();
        when_there(&real).await;
        for store in [real, Store::memory()] {
            let lands = async |since| {
                let condition = Condition::NoneSince(format!("{ROOT}unit/"), since);
                let write = Transaction::default().when(condition);
                store.commit(&write.put(format!("{ROOT}seen"), b"x".to_vec())).await.unwrap()
            };
            let elsewhere = put(&store, "unit").await;
            assert!(lands(elsewhere - 1).await.is_some(), "no key exists under the prefix");
            let first = put(&store, "unit/a").await;
            assert!(lands(first - 1).await.is_none());
            assert!(lands(first).await.is_some());
            let second = put(&store, "unit/b").await;
            assert!(lands(first).await.is_none());
            assert!(lands(second).await.is_some());
        }
    });
}

#[test]
fn compacted_watch_is_reported_and_the_cache_reads_again() {
    run(async {
        let etcd = Etcd::start();
        let store = Store::etcd(etcd.config()).unwrap();
        let first = when_there(&store).await;
        put(&store, "a").await;
        let (cache, _task) = EtcdCache::start(store.clone(), Keys::under("/fleet"));
        let mut news = cache.news();
        let last = put(&store, "b").await;
        etcd.client().await.compact(last, None).await.unwrap();
        let mut watch = store.watch(ROOT, first - 1).await.unwrap();
        assert_eq!(watch.next().await, Ok(Batch::Compacted));
        let newest = put(&store, "c").await;
        assert!(cache.reached(newest, PATIENCE).await);
        assert!(news.recv().await.is_ok());
    });
}

#[test]
fn deposed_etcd_leader_that_missed_the_election_renews_no_lease() {
    run(async {
        let members = Etcd::three(8_000);
        let end = Instant::now() + 2 * PATIENCE;
        let leader = 'found: loop {
            for (at, member) in members.iter().enumerate() {
                if member.leads().await {
                    break 'found at;
                }
            }
            assert!(Instant::now() < end, "no member leads");
            tokio::task::yield_now().await;
        };
        // This timeout is shorter than an election of etcd.
        let store = Store::etcd(members[leader].impatient()).unwrap();
        when_there(&store).await;
        let lease = store.grant(Duration::from_secs(120)).await.unwrap();
        assert_eq!(store.keep_alive(lease.id).await, Ok(true));
        let others = members.iter().enumerate().filter(|(at, _)| *at != leader);
        let others: Vec<&Etcd> = others.map(|(_, member)| member).collect();
        others.iter().for_each(|other| other.signal(Signal::SIGSTOP));
        let alone = store.keep_alive(lease.id).await;
        others.iter().for_each(|other| other.signal(Signal::SIGCONT));
        assert!(matches!(alone, Err(Fault::Unavailable(_))), "{alone:?}");
        let end = Instant::now() + 2 * PATIENCE;
        while store.keep_alive(lease.id).await != Ok(true) {
            assert!(Instant::now() < end, "the lease is not renewed after the election");
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn etcd_user_with_a_wrong_password_is_refused() {
    run(async {
        let etcd = Etcd::of(folder(), "http", &["--bcrypt-cost", "4"]);
        when_there(&Store::etcd(etcd.config()).unwrap()).await;
        let mut client = etcd.client().await;
        client.user_add("root", "secret", None).await.unwrap();
        client.role_add("root").await.unwrap();
        client.user_grant_role("root", "root").await.unwrap();
        client.auth_enable().await.unwrap();
        let of = |user: Option<(&str, &str)>| {
            let user = user.map(|(name, word)| (name.to_string(), Secret::new(word)));
            Store::etcd(EtcdConfig { user, ..etcd.config() }).unwrap()
        };
        let store = of(Some(("root", "secret")));
        put(&store, "a").await;
        let lease = store.grant(Duration::from_secs(5)).await.unwrap();
        assert_eq!(store.keep_alive(lease.id).await, Ok(true));
        for stranger in [None, Some(("root", "guess"))] {
            let refused = of(stranger).read(ROOT).await;
            assert!(matches!(refused, Err(Fault::Unavailable(_))), "{refused:?}");
        }
    });
}

#[test]
fn write_access_of_other_programs_to_etcd_is_detected() {
    run(async {
        let etcd = Etcd::of(folder(), "http", &["--max-txn-ops", "64", "--bcrypt-cost", "4"]);
        let open = Store::etcd(etcd.config()).unwrap();
        when_there(&open).await;
        let findings = open.findings().await.unwrap().unwrap();
        assert!(findings.has_all_rights && findings.limit_is_too_low && !findings.logs_in);
        assert_eq!((findings.versions.len(), findings.without_tls.len()), (1, 0), "{findings:?}");
        let mut client = etcd.client().await;
        client.role_add("reader").await.unwrap();
        let all = etcd_client::Permission::read(ROOT).with_prefix();
        client.role_grant_permission("reader", all).await.unwrap();
        for (user, role) in [("root", "root"), ("m1", "reader")] {
            client.user_add(user, "secret", None).await.unwrap();
            let _ = client.role_add(role).await;
            client.user_grant_role(user, role).await.unwrap();
        }
        // A user that may read a part of the prefix.
        let part = etcd_client::Permission::read(format!("{ROOT}unit/")).with_prefix();
        client.role_add("part").await.unwrap();
        client.role_grant_permission("part", part).await.unwrap();
        client.user_add("m2", "secret", None).await.unwrap();
        client.user_grant_role("m2", "part").await.unwrap();
        client.auth_enable().await.unwrap();
        let user = Some(("m2".to_string(), Secret::new("secret")));
        let store = Store::etcd(EtcdConfig { user, ..etcd.config() }).unwrap();
        let end = Instant::now() + PATIENCE;
        while !store.read(ROOT).await.is_err_and(|fault| fault.is_denied()) {
            assert!(Instant::now() < end, "a user who may read only a part gets an answer");
            tokio::task::yield_now().await;
        }
        for (name, is_root) in [("root", true), ("m1", false)] {
            let user = Some((name.to_string(), Secret::new("secret")));
            let store = Store::etcd(EtcdConfig { user, ..etcd.config() }).unwrap();
            when_there(&store).await;
            let findings = store.findings().await.unwrap().unwrap();
            assert!(findings.logs_in);
            assert_eq!(findings.insecure().len(), usize::from(is_root), "{findings:?}");
        }
    });
}

/// Starts an etcd with TLS and client certificates. Returns it with a client configuration.
fn secured(folder: &Path) -> (Etcd, EtcdConfig) {
    let words = ["--cert-file", "server.crt", "--key-file", "server.key"];
    let asks = ["--trusted-ca-file", "ca.crt", "--client-cert-auth"];
    let etcd = Etcd::of(folder.to_path_buf(), "https", &[&words[..], &asks].concat());
    let at = |name: &str| Some(folder.join(name));
    let own = EtcdConfig {
        ca_file: at("ca.crt"),
        cert_file: at("client.crt"),
        key_file: at("client.key"),
        ..etcd.config()
    };
    (etcd, own)
}

#[test]
fn etcd_connection_requires_a_client_certificate_and_the_right_ca() {
    run(async {
        let folder = folder();
        authorities(&folder, &[("server", "ca"), ("client", "ca")]);
        let (etcd, own) = secured(&folder);
        let store = Store::etcd(own.clone()).unwrap();
        when_there(&store).await;
        put(&store, "a").await;
        let nameless = EtcdConfig { cert_file: None, key_file: None, ..own.clone() };
        let mistrusting = EtcdConfig { ca_file: Some(folder.join("other.crt")), ..own.clone() };
        for config in [nameless, mistrusting] {
            let refused = Store::etcd(config).unwrap().read(ROOT).await;
            assert!(matches!(refused, Err(Fault::Unavailable(_))), "{refused:?}");
        }
        let lost = Store::etcd(EtcdConfig { ca_file: Some(folder.join("nowhere.crt")), ..own });
        let message = lost.err().map(|fault| fault.to_string()).unwrap_or_default();
        assert!(message.contains("nowhere.crt"), "{message}");
        drop(etcd);
    });
}

#[test]
fn etcd_with_a_wrong_certificate_is_refused() {
    run(async {
        let folder = folder();
        authorities(&folder, &[("server", "ca"), ("client", "ca")]);
        let (_etcd, own) = secured(&folder);
        when_there(&Store::etcd(own.clone()).unwrap()).await;
        for (why, issued) in WRONG {
            issue(&folder, "127.0.0.1", &issued);
            show(&folder, "127.0.0.1", "server");
            let refused = Store::etcd(own.clone()).unwrap().read(ROOT).await;
            let message = refused.err().map(|fault| fault.to_string()).unwrap_or_default();
            assert!(message.contains(why), "{why} {}: {message:?}", issued.extensions);
        }
        // Everything else was valid.
        issue(&folder, "127.0.0.1", &Issued::GOOD);
        show(&folder, "127.0.0.1", "server");
        put(&Store::etcd(own).unwrap(), "a").await;
    });
}

#[test]
fn running_etcd_client_uses_renewed_certificates() {
    run(async {
        let folder = folder();
        let issued =
            [("server", "ca"), ("client", "ca"), ("server2", "other"), ("client2", "other")];
        authorities(&folder, &issued);
        let (mut etcd, own) = secured(&folder);
        let store = Store::etcd(own).unwrap();
        when_there(&store).await;
        let (cache, _task) = EtcdCache::start(store.clone(), Keys::under("/fleet"));
        assert!(cache.reached(put(&store, "a").await, PATIENCE).await);
        // A new CA for both sides: old certificates are invalid.
        etcd.kill();
        show(&folder, "server2", "server");
        show(&folder, "client2", "client");
        std::fs::copy(folder.join("other.crt"), folder.join("ca.crt")).unwrap();
        etcd.restart();
        when_there(&store).await;
        assert!(cache.reached(put(&store, "b").await, PATIENCE).await, "the watch is back too");
    });
}

#[test]
fn running_etcd_client_replaces_expired_certificates() {
    run(async {
        let folder = folder();
        authorities(&folder, &[("server", "ca"), ("client", "ca"), ("fresh", "ca")]);
        let past = "-startdate 20200101000000Z -enddate 20200201000000Z";
        issue(&folder, "ended", &Issued { dates: past, ..Issued::GOOD });
        let (mut etcd, own) = secured(&folder);
        let of = |name: &str| Some(folder.join(name));
        let other =
            EtcdConfig { cert_file: of("fresh.crt"), key_file: of("fresh.key"), ..own.clone() };
        let (store, other) = (Store::etcd(own).unwrap(), Store::etcd(other).unwrap());
        when_there(&store).await;
        let (cache, _task) = EtcdCache::start(store.clone(), Keys::under("/fleet"));
        assert!(cache.reached(put(&store, "a").await, PATIENCE).await);
        for side in ["server", "client"] {
            let known = cache.snapshot().revision;
            show(&folder, "ended", side);
            // Open connections stay; a restart of the member ends them.
            etcd.kill();
            etcd.restart();
            if side == "client" {
                when_there(&other).await;
            }
            let ended = |health: &cluster::etcd_cache::Health| {
                let why = health.fault.as_ref().map(ToString::to_string).unwrap_or_default();
                if side == "server" { why.contains("expired") } else { !why.is_empty() }
            };
            timeout(PATIENCE, cache.health().wait_for(ended)).await.unwrap().unwrap();
            assert!(matches!(store.read(ROOT).await, Err(Fault::Unavailable(_))), "{side}");
            assert_eq!(cache.snapshot().revision, known, "what was known stays");
            show(&folder, "fresh", side);
            when_there(&store).await;
            assert!(cache.reached(put(&store, side).await, PATIENCE).await, "{side}");
        }
    });
}
