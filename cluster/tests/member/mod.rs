//! An etcd member for a test, which can be killed, restarted and restored to an older state.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use cluster::store::{EtcdConfig, Store};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit for an expected event on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Prefix of everything that the tests write.
pub(crate) const ROOT: &str = "/fleet/v3/";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// An etcd that ends with the test.
pub(crate) struct Etcd {
    child: Child,
    pub(crate) folder: PathBuf,
    pub(crate) url: String,
    words: Vec<String>,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Creates a new folder, which is deleted with its [`Etcd`].
pub(crate) fn folder() -> PathBuf {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("fleet-etcd.{}.{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn spawn(folder: &Path, words: &[String]) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new("etcd");
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

impl Etcd {
    pub(crate) fn start() -> Etcd {
        Etcd::of(folder(), "http", &[])
    }

    pub(crate) fn of(folder: PathBuf, scheme: &str, more: &[&str]) -> Etcd {
        let (url, peer) = (
            format!("{scheme}://127.0.0.1:{}", free_port()),
            format!("http://127.0.0.1:{}", free_port()),
        );
        let words = [
            ["--data-dir", "data"],
            ["--listen-client-urls", &url],
            ["--advertise-client-urls", &url],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &format!("default={peer}")],
        ];
        let words = words.as_flattened().iter().chain(more);
        let words: Vec<String> = words.map(ToString::to_string).collect();
        Etcd { child: spawn(&folder, &words), folder, url, words }
    }

    /// Starts three members of one etcd, with this election timeout in milliseconds.
    pub(crate) fn three(election: u32) -> [Etcd; 3] {
        let peers = Etcd::urls();
        Etcd::three_advertised_at(election, &peers, &peers)
    }

    /// Returns free URLs for three members.
    pub(crate) fn urls() -> [String; 3] {
        [(); 3].map(|()| format!("http://127.0.0.1:{}", free_port()))
    }

    /// Like [`three`]; members reach each other at the advertised addresses, not where they listen.
    pub(crate) fn three_advertised_at(
        election: u32,
        peers: &[String; 3],
        advertised: &[String; 3],
    ) -> [Etcd; 3] {
        let clients = Etcd::urls();
        let named = |at: usize| format!("n{at}={}", advertised[at]);
        let all = [0, 1, 2].map(named).join(",");
        [0, 1, 2].map(|at| {
            let (folder, url) = (folder(), clients[at].clone());
            let words = [
                ["--name", &format!("n{at}")],
                ["--data-dir", "data"],
                ["--listen-client-urls", &url],
                ["--advertise-client-urls", &url],
                ["--listen-peer-urls", &peers[at]],
                ["--initial-advertise-peer-urls", &advertised[at]],
                ["--initial-cluster", &all],
                ["--election-timeout", &election.to_string()],
            ];
            let words: Vec<String> = words.as_flattened().iter().map(ToString::to_string).collect();
            Etcd { child: spawn(&folder, &words), folder, url, words }
        })
    }

    /// Returns true if it says that it leads.
    pub(crate) async fn leads(&self) -> bool {
        let Ok(mut client) = etcd_client::Client::connect([&self.url], None).await else {
            return false;
        };
        let status = client.status().await;
        status.is_ok_and(|now| Some(now.leader()) == now.header().map(|one| one.member_id()))
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// A configuration with a long timeout: a busy disk may delay etcd for seconds.
    pub(crate) fn config(&self) -> EtcdConfig {
        EtcdConfig {
            endpoints: vec![self.url.clone()],
            request_timeout: Duration::from_secs(10),
            ..EtcdConfig::default()
        }
    }

    /// A configuration for tests in which etcd does not answer.
    pub(crate) fn impatient(&self) -> EtcdConfig {
        EtcdConfig { request_timeout: Duration::from_secs(1), ..self.config() }
    }

    /// etcd's own client, for operations that a store lacks.
    pub(crate) async fn client(&self) -> etcd_client::Client {
        etcd_client::Client::connect([&self.url], None).await.unwrap()
    }

    /// Its listen address.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.url.rsplit('/').next().unwrap().parse().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Restarts it at the same address with its disk.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.folder, &self.words);
    }

    /// Restarts it as a new member of the others.
    pub(crate) fn rejoin_as_new_member(&mut self) {
        self.words.extend(["--initial-cluster-state", "existing"].map(str::to_string));
        self.restart();
    }

    /// Saves its disk under a name; it must not be running.
    pub(crate) fn save_disk(&self, name: &str) {
        copy(&self.folder.join("data"), &self.folder.join(name));
    }

    /// Restores a saved disk, or empties it for an unknown name; it must not be running.
    pub(crate) fn restore_disk(&self, name: &str) {
        let _ = std::fs::remove_dir_all(self.folder.join("data"));
        let kept = self.folder.join(name);
        if kept.exists() {
            copy(&kept, &self.folder.join("data"));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp {}", from.display());
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// Returns the current revision once it answers.
pub(crate) async fn when_there(store: &Store) -> i64 {
    let end = Instant::now() + PATIENCE;
    loop {
        match store.read(ROOT).await {
            Ok(reading) => return reading.revision,
            Err(fault) => assert!(Instant::now() < end, "no answer in time: {fault}"),
        }
        tokio::task::yield_now().await;
    }
}
