//! The sockets of the API: unix sockets (0660, group `fleet` if it exists), TCP with TLS and client
//! certificates, and sockets passed by init. Limits keep slow or numerous clients from blocking
//! others. [`super::server`] answers the requests.

use super::caller::Caller;
use super::connection_limits::{ConnectionLimits, MOST_CONNECTIONS, MOST_OF_ONE, Peer};
use super::handshakes::Handshakes;
use super::peer_session::TlsAccess;
use super::server::{ApiState, router};
use super::tls::ServerFiles;
use super::write_timeout::WriteTimeout;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use groundstate_units::unit::account::Accounts;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::unistd::Gid;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Maximum time until the head of a request has arrived, and for an idle connection.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Maximum time of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum size of a request's head in bytes.
const LARGEST_HEAD: usize = 64 * 1024;
/// Time for open requests to finish at shutdown.
const FAREWELL: Duration = Duration::from_secs(2);
/// Delay after a failed accept, such as for too many open files.
const BREATHER: Duration = Duration::from_millis(100);

/// A listen address from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `unix:///PATH`
    Unix(PathBuf),
    /// `tcp://ADDRESS:PORT`
    Tcp(SocketAddr),
}

/// Access control for TCP.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The TLS files; `None` disables TLS.
    pub tls: Option<ServerFiles>,
    /// `api_roles_file`: the rights of names.
    pub roles_file: Option<PathBuf>,
    /// Allows TCP without TLS on loopback addresses only; every local user then has all rights.
    pub insecure_loopback_only: bool,
}

/// A listening socket.
pub struct Listener {
    socket: Socket,
    gate: AccessControl,
}

enum Socket {
    /// The `accept` of tokio's own listener panics when the peer's path has 108 bytes (mio).
    Unix(AsyncFd<UnixListener>),
    Tcp(TcpListener),
}

/// Access control of a socket.
#[derive(Clone)]
enum AccessControl {
    /// The mode of the socket file.
    File,
    /// Any local user.
    Loopback,
    /// A client certificate.
    Tls(Arc<TlsAccess>),
}

/// Parses `listen`: a comma-separated list.
///
/// # Errors
/// The first part that is not a listen address.
pub fn listen_addresses(text: &str) -> Result<Vec<ListenAddress>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let place = |part: &str| {
        if let Some(path) = part.strip_prefix("unix://")
            && path.starts_with('/')
        {
            return Ok(ListenAddress::Unix(PathBuf::from(path)));
        }
        let address = part.strip_prefix("tcp://").and_then(|address| address.parse().ok());
        let hint = "unix:///PATH or tcp://ADDRESS:PORT";
        address
            .map(ListenAddress::Tcp)
            .ok_or_else(|| format!("listen: invalid address {part:?}: use {hint}"))
    };
    parts.map(place).collect()
}

impl Security {
    /// Checks whether a socket may be opened there.
    ///
    /// # Errors
    /// The missing settings.
    pub fn permits(&self, at: &ListenAddress) -> Result<(), String> {
        match at {
            ListenAddress::Unix(_) => Ok(()),
            ListenAddress::Tcp(address) => self.gate(*address).map(|_| ()),
        }
    }

    fn gate(&self, address: SocketAddr) -> Result<AccessControl, String> {
        match &self.tls {
            Some(files) => {
                Ok(AccessControl::Tls(Arc::new(TlsAccess::of(files, self.roles_file.as_ref())?)))
            }
            None if self.insecure_loopback_only && address.ip().is_loopback() => {
                Ok(AccessControl::Loopback)
            }
            None => Err(format!(
                "listen: tcp://{address} needs tls_cert_file, tls_key_file and \
                 tls_client_ca_file: any client of this port could run anything on every machine"
            )),
        }
    }
}

impl Listener {
    /// Opens the socket.
    ///
    /// # Errors
    /// The address and the reason.
    pub async fn bind(at: &ListenAddress, security: &Security) -> Result<Listener, String> {
        match at {
            ListenAddress::Unix(path) => {
                Ok(Listener { socket: bind_unix(path)?, gate: AccessControl::File })
            }
            ListenAddress::Tcp(address) => {
                let gate = security.gate(*address)?;
                let bound = TcpListener::bind(address).await;
                let socket = bound.map_err(|error| format!("listen: tcp://{address}: {error}"))?;
                Ok(Listener { socket: Socket::Tcp(socket), gate })
            }
        }
    }

    /// Returns the sockets passed by init (`LISTEN_FDS`), and their descriptors for re-executing
    /// this program, because the variable can be read only once.
    ///
    /// # Errors
    /// A descriptor is not a listening socket, or is TCP without TLS.
    pub fn passed(security: &Security) -> Result<(Vec<Listener>, Vec<OwnedFd>), String> {
        let mut passed = listenfd::ListenFd::from_env();
        let (mut listeners, mut kept) = (Vec::new(), Vec::new());
        for at in 0..passed.len() {
            let bad = |error: std::io::Error| format!("socket {at} of LISTEN_FDS: {error}");
            if let Ok(Some(unix)) = passed.take_unix_listener(at) {
                let own = unix.try_clone().map_err(bad)?;
                kept.push(OwnedFd::from(unix));
                let socket = watched(own).map_err(bad)?;
                listeners.push(Listener { socket, gate: AccessControl::File });
            } else if let Some(tcp) = passed.take_tcp_listener(at).map_err(bad)? {
                let gate = security.gate(tcp.local_addr().map_err(bad)?)?;
                tcp.set_nonblocking(true).map_err(bad)?;
                let own = tcp.try_clone().map_err(bad)?;
                kept.push(OwnedFd::from(tcp));
                let socket = Socket::Tcp(TcpListener::from_std(own).map_err(bad)?);
                listeners.push(Listener { socket, gate });
            }
        }
        Ok((listeners, kept))
    }

    /// The address of a TCP listener.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(tcp) => tcp.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// Accepts connections until `stop` is true or its sender is dropped, then shuts down
    /// gracefully.
    pub async fn serve(self, state: ApiState, stop: watch::Receiver<bool>) {
        let free = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let limits = ConnectionLimits::with(MOST_OF_ONE);
        let handshakes = Handshakes::default();
        let mut stopped = stop.clone();
        loop {
            let Ok(permit) = free.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            let Ok(connection) = accepted else {
                tokio::time::sleep(BREATHER).await;
                continue;
            };
            // Drops a connection beyond the peer's limit without an answer.
            let Some(peer) = connection.peer() else { continue };
            let Some(slot) = limits.enter(peer) else { continue };
            let (state, gate, stop) = (state.clone(), self.gate.clone(), stop.clone());
            let handshakes = handshakes.clone();
            tokio::spawn(async move {
                let _held = (permit, slot);
                match connection {
                    Connection::Unix(stream) => {
                        let from = Origin { caller: Caller::local(), peer };
                        serve_connection(stream, state, from, None, stop).await
                    }
                    Connection::Tcp(stream) => {
                        serve_tcp((stream, peer), state, (gate, handshakes), stop).await
                    }
                }
            });
        }
    }

    async fn accept(&self) -> std::io::Result<Connection> {
        match &self.socket {
            Socket::Unix(unix) => {
                let (stream, _) = unix.async_io(Interest::READABLE, UnixListener::accept).await?;
                stream.set_nonblocking(true)?;
                Ok(Connection::Unix(tokio::net::UnixStream::from_std(stream)?))
            }
            Socket::Tcp(tcp) => Ok(Connection::Tcp(tcp.accept().await?.0)),
        }
    }
}

enum Connection {
    Unix(tokio::net::UnixStream),
    Tcp(tokio::net::TcpStream),
}

impl Connection {
    /// Returns `None` if the peer has already disconnected.
    fn peer(&self) -> Option<Peer> {
        match self {
            Connection::Unix(stream) => Some(Peer::User(stream.peer_cred().ok()?.uid())),
            Connection::Tcp(stream) => Some(Peer::of(stream.peer_addr().ok()?.ip())),
        }
    }
}

/// The caller and its peer.
pub struct Origin {
    /// The rights of the caller.
    pub caller: Caller,
    /// The peer whose limits apply.
    pub peer: Peer,
}

/// Serves a TCP connection, after a TLS handshake where the gate requires one.
async fn serve_tcp(
    (stream, peer): (tokio::net::TcpStream, Peer),
    state: ApiState,
    (gate, handshakes): (AccessControl, Handshakes),
    stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    match gate {
        AccessControl::Tls(access) => {
            let identity = access.identity();
            let acceptor = TlsAcceptor::from(identity.config.clone());
            let mut handshake = handshakes.begin(peer);
            let agreed = tokio::select! {
                agreed = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)) => agreed,
                () = handshake.until_displaced() => return,
            };
            drop(handshake);
            let Ok(Ok(stream)) = agreed else { return };
            let names = identity.names.clone();
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let session = access.session(shown);
            let from = Origin { caller: session.caller.clone(), peer };
            tokio::select! {
                () = serve_connection(stream, state, from, Some(names), stop) => {}
                () = session.until_invalid(access) => {}
            }
        }
        AccessControl::File | AccessControl::Loopback => {
            let from = Origin { caller: Caller::local(), peer };
            serve_connection(stream, state, from, Some(Arc::default()), stop).await;
        }
    }
}

/// Serves a connection over any transport until the peer closes it or `stop` is true. `names` are
/// the host names of this server, for TCP.
pub async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    state: ApiState,
    from: Origin,
    names: Option<Arc<Vec<String>>>,
    mut stop: watch::Receiver<bool>,
) {
    let guard = axum::middleware::from_fn(
        move |request: axum::extract::Request, next: axum::middleware::Next| {
            let names = names.clone();
            async move {
                match refusal_of_headers(
                    request.headers(),
                    names.as_ref().map(|names| names.as_slice()),
                ) {
                    Some((status, words)) => super::answer::into_response(
                        super::answer::Answer::refusal(status.as_u16(), words),
                    )
                    .into_response(),
                    None => next.run(request).await,
                }
            }
        },
    );
    let Origin { caller, peer } = from;
    let service = router(state).layer(axum::Extension(caller));
    let service = service.layer(axum::Extension(peer)).layer(guard);
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(LARGEST_HEAD);
    let io = TokioIo::new(WriteTimeout::new(stream));
    let connection = builder.serve_connection(io, TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(FAREWELL, connection).await;
}

/// Returns the refusal of a request that a browser sent for another site's page. On TCP, a Host
/// that is not a name of this server is refused too: DNS rebinding points another site's name here.
fn refusal_of_headers(
    headers: &HeaderMap,
    names: Option<&[String]>,
) -> Option<(StatusCode, &'static str)> {
    let text =
        |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let from = origin.split_once("://").map_or("", |(_, from)| from);
        if from != host || from.is_empty() {
            return Some((
                StatusCode::FORBIDDEN,
                "requests from pages of another origin are not allowed",
            ));
        }
    }
    let names = names?;
    let bare = host.rsplit_once(':').filter(|(_, port)| port.chars().all(|c| c.is_ascii_digit()));
    let bare = bare.map_or(host, |(bare, _)| bare).to_ascii_lowercase();
    let is_address = bare.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    if is_address || bare == "localhost" || names.contains(&bare) {
        return None;
    }
    Some((StatusCode::MISDIRECTED_REQUEST, "the Host header is not a name of this server"))
}

fn bind_unix(path: &Path) -> Result<Socket, String> {
    let bad = |error: &dyn std::fmt::Display| format!("listen: unix://{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| bad(&error))?;
    }
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(bad(&"another daemon is listening there"));
        }
        std::fs::remove_file(path).map_err(|error| bad(&error))?;
    }
    let socket = UnixListener::bind(path).map_err(|error| bad(&error))?;
    let mode = std::fs::Permissions::from_mode(0o660);
    std::fs::set_permissions(path, mode).map_err(|error| bad(&error))?;
    let groups = std::fs::read("/etc/group").unwrap_or_default();
    let accounts = Accounts::parse("", &String::from_utf8_lossy(&groups));
    if let Some(group) = accounts.group("fleet") {
        // Without the right to change the group, the group stays that of fleetd.
        let _ = nix::unistd::chown(path, None, Some(Gid::from_raw(group.gid)));
    }
    watched(socket).map_err(|error| bad(&error))
}

#[allow(deprecated, reason = "the replacement is unsafe")]
fn watched(socket: UnixListener) -> std::io::Result<Socket> {
    socket.set_nonblocking(true)?;
    AsyncFd::with_interest(socket, Interest::READABLE).map(Socket::Unix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_are_parsed() {
        assert_eq!(
            listen_addresses("unix:///run/fleet.sock, tcp://127.0.0.1:49153"),
            Ok(vec![
                ListenAddress::Unix(PathBuf::from("/run/fleet.sock")),
                ListenAddress::Tcp("127.0.0.1:49153".parse().unwrap())
            ])
        );
        for bad in ["unix://run/x", "http://1.2.3.4:5", "tcp://host:1", "x"] {
            assert!(listen_addresses(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tcp_without_tls_is_refused() {
        let open = Security::default();
        assert!(open.gate("127.0.0.1:1".parse().unwrap()).is_err());
        let local = Security { insecure_loopback_only: true, ..Security::default() };
        assert!(local.gate("127.0.0.1:1".parse().unwrap()).is_ok());
        assert!(local.gate("0.0.0.0:1".parse().unwrap()).is_err());
        assert!(local.gate("10.1.2.3:1".parse().unwrap()).is_err());
    }

    #[test]
    fn request_with_a_foreign_host_or_origin_is_refused() {
        let headers = |pairs: &[(header::HeaderName, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in pairs {
                map.insert(name, value.parse().unwrap());
            }
            map
        };
        let names = ["node.example".to_string()];
        let judged = |host: &str, origin: Option<&str>| {
            let mut pairs = vec![(header::HOST, host)];
            pairs.extend(origin.map(|origin| (header::ORIGIN, origin)));
            refusal_of_headers(&headers(&pairs), Some(&names)).map(|(status, _)| status.as_u16())
        };
        for host in ["127.0.0.1:49153", "[::1]:1", "localhost:9", "node.example", "NODE.example:1"]
        {
            assert_eq!(judged(host, None), None, "{host}");
        }
        assert_eq!(judged("evil.example:80", None), Some(421));
        assert_eq!(judged("", None), Some(421));
        assert_eq!(judged("localhost:9", Some("https://localhost:9")), None);
        assert_eq!(judged("localhost:9", Some("https://evil.example")), Some(403));
        assert_eq!(judged("localhost:9", Some("null")), Some(403));
        assert_eq!(refusal_of_headers(&headers(&[(header::HOST, "domain-sock")]), None), None);
    }

    /// No other program here can bind all 108 bytes of a path (unix(7)).
    const FROM_THE_LONGEST_PATH: &str = r#"
        socket(S, AF_UNIX, SOCK_STREAM, 0) or die; unlink $ARGV[0];
        bind(S, pack("S", AF_UNIX) . $ARGV[0]) or die; unlink $ARGV[0];
        connect(S, pack_sockaddr_un($ARGV[1])) or die; sysread(S, my $end, 1)"#;

    #[tokio::test]
    async fn peer_bound_to_a_path_of_108_bytes_is_accepted() {
        let folder = std::env::temp_dir();
        let at = folder.join(format!("gs-fleetd-{}", std::process::id()));
        let from = folder.join("x".repeat(108 - folder.as_os_str().len() - 1));
        let listener = Listener { socket: bind_unix(&at).unwrap(), gate: AccessControl::File };
        let mut perl = std::process::Command::new("perl");
        let perl = perl.args(["-MSocket", "-e", FROM_THE_LONGEST_PATH]).args([&from, &at]).spawn();
        let connection = listener.accept().await.unwrap();
        assert!(matches!(connection.peer(), Some(Peer::User(_))));
        drop(connection);
        assert!(perl.unwrap().wait().unwrap().success());
        std::fs::remove_file(&at).unwrap();
    }
}
