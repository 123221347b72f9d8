//! The connection to the server: a unix socket, TCP, TLS, or pipes through ssh. One HTTP/1.1
//! connection is kept, and reopened if the server has closed it.

use super::arguments::Globals;
use super::ssh::SshOptions;
use super::trouble::Trouble;
use crate::api::tls::{self, ClientFiles};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// The server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Unix(PathBuf),
    Tcp { host: String, port: u16, tls: bool },
}

impl Endpoint {
    /// Parses the text of `--endpoint`.
    pub(super) fn parse(text: &str) -> Result<Endpoint, Trouble> {
        let bad = |why: &str| Trouble::new(format!("Unable to initialize client: {text}: {why}"));
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| bad("use unix:///PATH, http://HOST:PORT or https://HOST:PORT"))?;
        let tls = scheme == "https";
        match scheme {
            "unix" | "file" if rest.starts_with('/') => Ok(Endpoint::Unix(PathBuf::from(rest))),
            "unix" | "file" => Err(bad("the path must start with /: use unix:///PATH")),
            "http" | "https" => {
                let authority = rest.split('/').next().unwrap_or_default();
                let port = |text: &str| text.parse().map_err(|_| bad("invalid port"));
                let (host, port) = match authority.rsplit_once(':') {
                    Some((host, text)) if !host.ends_with(':') => (host, port(text)?),
                    _ => (authority, if tls { 443 } else { 80 }),
                };
                if host.is_empty() {
                    return Err(bad("missing host"));
                }
                let host = host.trim_matches(['[', ']']).to_string();
                Ok(Endpoint::Tcp { host, port, tls })
            }
            _ => Err(bad("unknown scheme")),
        }
    }

    fn host_header(&self) -> String {
        match self {
            Endpoint::Unix(_) => "domain-sock".to_string(),
            Endpoint::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

/// A connection to the server.
pub(super) struct Connection {
    endpoint: Endpoint,
    tls: Option<Arc<rustls::ClientConfig>>,
    tunnel: Option<SshOptions>,
    patience: Duration,
    debug: bool,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// The last request was sent twice; the first one may have been executed.
    repeated: bool,
}

/// Why no answer arrived.
struct Unanswered {
    trouble: Trouble,
    /// True if the connection ended; otherwise the answer may still arrive.
    broken: bool,
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Bytes,
    /// The request was sent twice, and this may be the answer to the second one.
    pub(super) repeated: bool,
    /// The server's Retry-After.
    pub(super) retry_after: Option<Duration>,
}

/// Reads the Retry-After header.
pub(super) fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

impl Connection {
    /// Creates a connection without opening it.
    pub(super) fn new(globals: &Globals) -> Result<Connection, Trouble> {
        let mut parts = globals.endpoint.split(',').map(str::trim);
        let first = parts.next().unwrap_or_default();
        if parts.next().is_some() {
            super::output::warn(&format!("several endpoints: using only the first, {first}"));
        }
        let endpoint = Endpoint::parse(first)?;
        let tls = match endpoint {
            Endpoint::Tcp { tls: true, .. } => {
                let own = match (&globals.cert_file, &globals.key_file) {
                    (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
                    (None, None) => None,
                    _ => {
                        let words = "--cert-file and --key-file go together";
                        return Err(Trouble::new(format!("Unable to initialize client: {words}")));
                    }
                };
                let files = ClientFiles { ca: globals.ca_file.clone(), own };
                let bad = |why| Trouble::new(format!("Unable to initialize client: {why}"));
                Some(tls::client(&files).map_err(bad)?)
            }
            Endpoint::Unix(_) | Endpoint::Tcp { .. } => None,
        };
        let tunnel = globals.tunnel.as_ref().filter(|host| !host.is_empty());
        Ok(Connection {
            endpoint,
            tls,
            tunnel: tunnel.map(|host| SshOptions::to(globals, host)),
            patience: Duration::try_from_secs_f64(globals.request_timeout)
                .unwrap_or(Duration::from_secs(30)),
            debug: globals.debug,
            sender: None,
            repeated: false,
        })
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Reply, Trouble> {
        let response = self.send(method, path, body).await?;
        let (status, repeated) = (response.status().as_u16(), self.repeated);
        let retry_after = retry_after(&response);
        let whole = timeout(self.patience, response.into_body().collect()).await;
        match whole {
            Ok(Ok(whole)) => Ok(Reply { status, body: whole.to_bytes(), repeated, retry_after }),
            Ok(Err(error)) => Err(self.lost(&error)),
            Err(_) => Err(self.lost(&"no answer in time")),
        }
    }

    /// Sends a request and returns the answer as a stream.
    pub(super) async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, Trouble> {
        if self.debug {
            let now = jiff::Timestamp::now();
            super::output::warn(&format!("{now:.3} DEBUG {method} {path}"));
        }
        // The server may have closed a kept connection just now, so the request is sent once more.
        // A timeout is not retried: the request may have been executed.
        let kept = self.sender.is_some();
        self.repeated = false;
        match self.send_once(method, path, body.clone()).await {
            Err(Unanswered { broken: true, .. }) if kept => {
                self.sender = None;
                self.repeated = true;
                self.send_once(method, path, body).await.map_err(|why| why.trouble)
            }
            result => result.map_err(|why| why.trouble),
        }
    }

    async fn send_once(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let late = |trouble| Unanswered { trouble, broken: false };
        let broken = |trouble| Unanswered { trouble, broken: true };
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => match timeout(self.patience, self.open()).await {
                Ok(opened) => opened.map_err(broken)?,
                Err(_) => return Err(late(self.lost(&"no answer in time"))),
            },
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.endpoint.host_header())
            .header(header::USER_AGENT, concat!("fleetctl/", env!("CARGO_PKG_VERSION")));
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::from(body.unwrap_or_default()))
            .map_err(|error| late(Trouble::new(format!("{path}: {error}"))))?;
        if let Err(error) = sender.ready().await {
            return Err(broken(self.lost(&error)));
        }
        match timeout(self.patience, sender.send_request(request)).await {
            Ok(Ok(response)) => {
                self.sender = Some(sender);
                Ok(response)
            }
            Ok(Err(error)) => Err(broken(self.lost(&error))),
            Err(_) => Err(late(self.lost(&"no answer in time"))),
        }
    }

    fn lost(&self, error: &dyn std::fmt::Display) -> Trouble {
        let place = match &self.endpoint {
            Endpoint::Unix(path) => format!("unix://{}", path.display()),
            Endpoint::Tcp { .. } => self.endpoint.host_header(),
        };
        Trouble::passing(format!("no answer from the server at {place}: {error}"))
    }

    async fn open(&self) -> Result<SendRequest<Full<Bytes>>, Trouble> {
        match (&self.endpoint, &self.tunnel) {
            (Endpoint::Unix(path), Some(ssh)) => {
                let forward = format!("fleetctl fd-forward {}", path.display());
                let stream = ssh.stdio(&["--", &forward]).map_err(|error| self.lost(&error))?;
                self.shake(stream).await
            }
            (Endpoint::Unix(path), None) => {
                let stream = UnixStream::connect(path).await.map_err(|error| self.lost(&error))?;
                self.shake(stream).await
            }
            (Endpoint::Tcp { .. }, Some(ssh)) => {
                let target = self.endpoint.host_header();
                let stream = ssh.stdio(&["-W", &target]).map_err(|error| self.lost(&error))?;
                self.secure(stream).await
            }
            (Endpoint::Tcp { host, port, .. }, None) => {
                let connected = TcpStream::connect((host.as_str(), *port)).await;
                let stream = connected.map_err(|error| self.lost(&error))?;
                let _ = stream.set_nodelay(true);
                self.secure(stream).await
            }
        }
    }

    async fn secure<S>(&self, stream: S) -> Result<SendRequest<Full<Bytes>>, Trouble>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (Endpoint::Tcp { host, .. }, Some(tls)) = (&self.endpoint, &self.tls) else {
            return self.shake(stream).await;
        };
        let name = rustls::pki_types::ServerName::try_from(host.clone())
            .map_err(|error| self.lost(&error))?;
        let connector = tokio_rustls::TlsConnector::from(tls.clone());
        let stream = connector.connect(name, stream).await.map_err(|error| self.lost(&error))?;
        self.shake(stream).await
    }

    async fn shake<S>(&self, stream: S) -> Result<SendRequest<Full<Bytes>>, Trouble>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| self.lost(&error))?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_parsed() {
        let tcp = |host: &str, port, tls| Endpoint::Tcp { host: host.to_string(), port, tls };
        let table = [
            ("unix:///var/run/fleet.sock", Endpoint::Unix("/var/run/fleet.sock".into())),
            ("file:///x", Endpoint::Unix("/x".into())),
            ("http://127.0.0.1:49153", tcp("127.0.0.1", 49153, false)),
            ("https://node.example/", tcp("node.example", 443, true)),
            ("http://[::1]:80", tcp("::1", 80, false)),
        ];
        for (text, expected) in table {
            assert_eq!(Endpoint::parse(text), Ok(expected), "{text}");
        }
        for text in ["unix://var/run/x", "127.0.0.1:80", "ftp://a", "http://", "http://a:b"] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
    }
}
