//! The local init as the unit runner uses it: revision and contents of fleetd's source, and unit
//! states. [`super::init_socket`] is the transport; the simulation supplies its own.

use super::init_socket::{InitFault, InitSocket};
use groundstate_units::control::answer::{Pong, Put, Sources, Status, System, UnitStatus};
use groundstate_units::control::request::Verb;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::text::name::Name;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Delay between attempts to follow events.
const AGAIN: Duration = Duration::from_millis(250);

/// The states of our units.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Units of our source, and runs without a unit file, which may be ours.
    pub units: Vec<UnitStatus>,
    /// Revision of our source, if it was ever put.
    pub revision: Option<u64>,
    /// True if init is shutting down.
    pub ending: bool,
}

/// A pending answer.
pub type Answered<T> = Pin<Box<dyn Future<Output = Result<T, InitFault>> + Send>>;

/// An init simulated by another component.
pub trait DrivenInit: Send + Sync {
    /// The revision of our source.
    fn revision(&self) -> Answered<Option<u64>>;
    /// Puts a source.
    fn put(&self, set: &SourceSet) -> Answered<Put>;
    /// Returns the unit states.
    fn look(&self) -> Answered<Look>;
    /// Returns true if there is no init.
    fn is_absent(&self) -> bool {
        false
    }
}

/// An init with our source; clones share it.
#[derive(Clone)]
pub struct Init {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Socket(InitSocket, Name),
    Driven(Arc<dyn DrivenInit>),
}

impl Init {
    /// The init at a socket.
    pub fn at(socket: InitSocket, source: Name) -> Init {
        Init { kind: Kind::Socket(socket, source) }
    }

    /// A simulated init.
    pub fn driven(driven: Arc<dyn DrivenInit>) -> Init {
        Init { kind: Kind::Driven(driven) }
    }

    /// Returns the revision of our source, or `None` if init does not know the source.
    ///
    /// # Errors
    /// Init did not answer.
    pub async fn revision(&self) -> Result<Option<u64>, InitFault> {
        let (socket, source) = match &self.kind {
            Kind::Socket(socket, source) => (socket, source),
            Kind::Driven(driven) => return driven.revision().await,
        };
        let list = socket.ask::<Sources>(Verb::SourceList {}).await?;
        let ours = list.sources.into_iter().find(|one| one.source == source.as_str());
        Ok(ours.map(|one| one.revision))
    }

    /// Puts the contents of our source.
    ///
    /// # Errors
    /// Init did not answer or refused.
    pub async fn put(&self, set: &SourceSet) -> Result<Put, InitFault> {
        match &self.kind {
            Kind::Socket(socket, source) => socket.put(source, set).await,
            Kind::Driven(driven) => driven.put(set).await,
        }
    }

    /// Returns true if there is no init.
    pub async fn is_absent(&self) -> bool {
        match &self.kind {
            Kind::Socket(socket, _) => socket.is_absent().await,
            Kind::Driven(driven) => driven.is_absent(),
        }
    }

    /// Returns the states of our units.
    ///
    /// # Errors
    /// Init did not answer.
    pub async fn look(&self) -> Result<Look, InitFault> {
        let (socket, source) = match &self.kind {
            Kind::Socket(socket, source) => (socket, source),
            Kind::Driven(driven) => return driven.look().await,
        };
        let status = socket.ask::<Status>(Verb::Status { targets: Vec::new() }).await?;
        // Before its first load, init reports no units, whatever runs.
        if status.generation == 0 {
            return Err(InitFault::Gone("init is still reading its unit files".to_string()));
        }
        // A run without a unit file has no source, but may still be ours.
        let ours = |unit: &UnitStatus| {
            unit.source.as_deref() == Some(source.as_str())
                || (unit.source.is_none() && unit.file.is_empty())
        };
        let put = status.sources.iter().find(|one| one.source == source.as_str());
        Ok(Look {
            revision: put.map(|one| one.revision),
            ending: status.system == System::Stopping,
            units: status.units.into_iter().filter(ours).collect(),
        })
    }
}

/// Signals events of init, and when init answers (again).
pub async fn listen(init: InitSocket, happened: mpsc::Sender<()>) {
    loop {
        let after = init.ask::<Pong>(Verb::Ping {}).await;
        if let Ok(pong) = after
            && let Ok(mut events) = init.events(pong.seq).await
        {
            let mut sent = happened.try_send(());
            while !matches!(sent, Err(mpsc::error::TrySendError::Closed(()))) {
                match events.next().await {
                    Ok(_) => sent = happened.try_send(()),
                    Err(_) => break,
                }
            }
        }
        if happened.is_closed() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic fails the test")]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;

    /// Returns what fleetd reads from an init with this generation number.
    async fn look_with_generation(generation: u32) -> Result<Look, InitFault> {
        let name = format!("look-{}-{generation}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let overlay = serde_json::json!({ "with": [], "without": [] });
        let status = serde_json::json!({
            "generation": generation, "overlay": overlay, "system": "starting", "units": [],
        });
        let answer = serde_json::json!({ "v": 1, "id": 1, "ok": status });
        let says = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let _ = BufReader::new(&stream).read_line(&mut String::new());
            let _ = writeln!(&stream, "{answer}");
        });
        let init = Init::at(InitSocket::new(path.clone()), Name::new("fleet").unwrap());
        let look = init.look().await;
        says.join().unwrap();
        std::fs::remove_file(&path).unwrap();
        look
    }

    #[tokio::test]
    async fn states_of_init_before_its_first_load_do_not_count() {
        assert!(matches!(look_with_generation(0).await, Err(InitFault::Gone(_))));
        assert!(look_with_generation(1).await.unwrap().units.is_empty());
    }
}
