//! `/events`: changes in the cluster as server-sent events. Each event is one batch with a list of
//! [`wire::Event`]; a `resync` means that events may have been missed.

use super::caller::Caller;
use super::connection_limits::{ConnectionLimits, ConnectionSlot, Peer};
use crate::etcd_cache::EtcdCache;
use crate::key::{Keys, Subject};
use crate::transaction::Change;
use crate::wire;
use axum::response::sse::{self, KeepAlive, Sse};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_stream::{Stream, StreamExt};

/// Keepalive interval of an idle stream.
const PULSE: Duration = Duration::from_secs(15);

/// Maximum number of streams of all callers, and of one address or user.
const STREAMS: usize = 256;
/// See [`STREAMS`].
pub const STREAMS_OF_ONE: usize = 32;

/// The limits on streams.
pub struct StreamSlots {
    all: Arc<Semaphore>,
    limits: ConnectionLimits,
}

/// A slot for one stream, freed on drop.
pub struct StreamSlot {
    _one: OwnedSemaphorePermit,
    _connection_slot: Option<ConnectionSlot>,
}

impl Default for StreamSlots {
    fn default() -> StreamSlots {
        StreamSlots {
            all: Arc::new(Semaphore::new(STREAMS)),
            limits: ConnectionLimits::with(STREAMS_OF_ONE),
        }
    }
}

impl StreamSlots {
    /// Takes a slot. Returns `None` if the peer has reached its limit or all slots are taken.
    /// `peer` is `None` for a request that no listener has received.
    pub fn enter(&self, peer: Option<Peer>) -> Option<StreamSlot> {
        let slot = match peer {
            Some(peer) => Some(self.limits.enter(peer)?),
            None => None,
        };
        Some(StreamSlot {
            _one: self.all.clone().try_acquire_owned().ok()?,
            _connection_slot: slot,
        })
    }
}

/// Streams changes from now on. The stream holds its slot.
pub fn stream(
    cache: &EtcdCache,
    caller: Caller,
    slot: StreamSlot,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>> + use<>> {
    let keys = cache.keys().clone();
    let batches = BroadcastStream::new(cache.news());
    let first = tokio_stream::once(Ok(Arc::new(Vec::new())));
    let events = first.chain(batches).filter_map(move |batch| {
        let _held = &slot;
        let events = batch_of(&keys, &caller, batch);
        let data = serde_json::to_string(&events).unwrap_or_default();
        (!events.is_empty()).then(|| Ok(sse::Event::default().data(data)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(PULSE))
}

fn batch_of(
    keys: &Keys,
    caller: &Caller,
    batch: Result<Arc<Vec<Change>>, BroadcastStreamRecvError>,
) -> Vec<wire::Event> {
    let resync = || vec![wire::Event { kind: "resync".to_string(), ..wire::Event::default() }];
    match batch {
        Ok(changes) if !changes.is_empty() => {
            let seen = |event: &wire::Event| event.name.is_empty() || caller.sees(&event.name);
            let unnamed = |mut event: wire::Event| {
                event.text = caller.conceal(&event.text);
                event
            };
            let events = changes.iter().filter_map(|change| event_of(keys, change));
            events.filter(seen).map(unnamed).collect()
        }
        Ok(_) | Err(BroadcastStreamRecvError::Lagged(_)) => resync(),
    }
}

/// Returns a change as clients see it, or `None` if it is not for clients.
pub fn event_of(keys: &Keys, change: &Change) -> Option<wire::Event> {
    let (key, revision, value) = match change {
        Change::Put(entry) => (&entry.key, entry.modified, Some(&entry.value)),
        Change::Delete { key, revision } => (key, *revision, None),
    };
    let (kind, name, machine) = match keys.subject(key)? {
        Subject::Leader => ("leader", String::new(), String::new()),
        Subject::Unit(name) => ("unit", name.to_string(), String::new()),
        Subject::Desired(name) => ("desired", name.to_string(), String::new()),
        Subject::Place(name) => ("place", name.to_string(), String::new()),
        Subject::Why(name) => ("why", name.to_string(), String::new()),
        Subject::Claim(id, name) => ("claim", name.to_string(), id.to_string()),
        Subject::Machine(id) => ("machine", String::new(), id.to_string()),
        Subject::Metadata(id, _) => ("metadata", String::new(), id.to_string()),
        Subject::Drain(id) => ("drain", String::new(), id.to_string()),
        Subject::State(id, name) => ("state", name.to_string(), id.to_string()),
        // Copies of other keys, for the machines.
        Subject::Schedule(..) | Subject::Global(_) => return None,
        Subject::Cluster => return None,
    };
    let mut event = wire::Event {
        kind: kind.to_string(),
        gone: value.is_none(),
        machine_id: machine,
        name,
        revision,
        text: String::new(),
    };
    let fields = value.and_then(|value| serde_json::from_slice::<serde_json::Value>(value).ok());
    let field = |name: &str| {
        let text = fields.as_ref().and_then(|fields| fields.get(name)?.as_str());
        text.unwrap_or_default().to_string()
    };
    match kind {
        "desired" => event.text = field("desired"),
        "why" => event.text = field("text"),
        "place" | "leader" => event.machine_id = field("machine"),
        "state" if !event.gone => {
            event.text = format!("{}/{}/{}", field("load"), field("active"), field("sub"));
        }
        _ => {}
    }
    Some(event)
}
