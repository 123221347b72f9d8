//! Runs requests: reads one within its limits, lets [`super::route`] decide, commits the write and
//! answers. [`super::listener`] owns the sockets.

use super::answer::{Answer, NO_REGISTRY, Outcome, into_response};
use super::body;
pub use super::body::{BODY_TIME, LARGEST_BODY};
use super::caller::Caller;
use super::change_stream::{self, StreamSlots};
use super::connection_limits::Peer;
use super::first_look::{self, FirstLook};
use super::metrics::{self, Counters};
use super::page::{Pages, Start};
use super::request::Request;
use super::route::{self, Resource};
use super::seen::Seen;
pub use super::settings::Settings;
use super::uncertain_write::UncertainWrite;
use super::view::View;
use crate::clock::Clock;
use crate::desired::Desired;
use crate::etcd_cache::EtcdCache;
use crate::mutant::{Mutant, planted};
use crate::registry;
use crate::snapshot::Snapshot;
use crate::store::Fault;
use crate::wire;
use axum::body::Body;
use axum::extract::State;
use axum::http::{self, HeaderValue, Response, header};
use axum::response::IntoResponse;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// A store without an answer for this long counts as unavailable.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time to wait until the cache shows this daemon's own write.
const SIGHT: Duration = Duration::from_secs(1);
/// Delay between attempts while the store is unavailable.
const BREATHER: Duration = Duration::from_millis(250);
/// Number of attempts for one write.
const TRIES: u32 = 8;
/// Snapshots kept for paged lists, and for how long.
const PINS: usize = 16;
const PINNED: Duration = Duration::from_secs(60);
/// Content-Security-Policy of answers: a browser may only show them.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";
/// State shared by all requests; clones share it.
#[derive(Clone)]
pub struct ApiState {
    inner: Arc<Inner>,
}

struct Inner {
    cache: EtcdCache,
    settings: Settings,
    pins: Mutex<VecDeque<(Duration, Arc<Snapshot>)>>,
    seen: Seen,
    counters: Counters,
    streams: StreamSlots,
    first_look: FirstLook,
}

impl ApiState {
    /// Creates the state for a cluster.
    pub fn new(cache: EtcdCache, settings: Settings) -> ApiState {
        let inner = Inner {
            cache,
            settings,
            pins: Mutex::default(),
            seen: Seen::default(),
            counters: Counters::default(),
            streams: StreamSlots::default(),
            first_look: FirstLook::default(),
        };
        ApiState { inner: Arc::new(inner) }
    }

    /// Returns true if the registry answers.
    pub fn is_healthy(&self) -> bool {
        let health = self.inner.cache.health();
        let health = health.borrow();
        let clock = self.inner.cache.clock();
        let recently = |at: Duration| clock.since(at) < PATIENCE;
        health.last_contact.is_some()
            && (health.fault.is_none() || health.last_contact.is_some_and(recently))
    }

    /// Returns why etcd is insecure, if known.
    fn insecure(&self) -> Option<Vec<String>> {
        self.inner.settings.insecure.as_ref().and_then(|why| why.borrow().clone())
    }

    fn view<'p>(&self, now: &'p Snapshot, then: Option<&'p Snapshot>) -> View<'p> {
        let insecure = !self.insecure().unwrap_or_default().is_empty();
        View { now, then, limit: self.inner.settings.token_limit, insecure }
    }

    /// Returns the answer while this daemon cannot answer for the cluster.
    fn inability(&self) -> Option<Answer> {
        self.machine_refusal().or_else(|| (!self.is_healthy()).then(|| self.unavailable()))
    }

    /// 503; with a hint if etcd's contents are not accepted.
    fn unavailable(&self) -> Answer {
        let health = self.inner.cache.health();
        match health.borrow().doubt() {
            Some(doubt) => Answer {
                retry_after: Some(5),
                ..Answer::refusal(503, format!("{NO_REGISTRY}: {doubt}"))
            },
            None => Answer::no_registry(),
        }
    }

    /// Returns the answer while the cluster refuses this machine.
    fn machine_refusal(&self) -> Option<Answer> {
        let why = self.inner.settings.machine_refusal.as_ref()?.borrow().clone()?;
        // Clients recognize the first words, which are those of any daemon without a registry.
        let message = format!("{NO_REGISTRY}: the cluster refuses this machine: {why}");
        Some(Answer { retry_after: Some(5), ..Answer::refusal(503, message) })
    }

    /// The cache of the cluster.
    pub fn cache(&self) -> &EtcdCache {
        &self.inner.cache
    }

    fn pinned(&self, request: &Request) -> Option<Arc<Snapshot>> {
        let pages = Pages {
            list: route::resource(&request.path).list()?,
            limit: self.inner.settings.token_limit,
        };
        let start = pages.start(&request.values("nextPageToken")).ok()?;
        let Start::After { revision, .. } = start else { return None };
        let pins = self.inner.pins.lock().unwrap_or_else(PoisonError::into_inner);
        pins.iter()
            .find(|(_, snapshot)| snapshot.revision == revision)
            .map(|(_, kept)| kept.clone())
    }

    /// Keeps the snapshot of a list for its next pages.
    fn pin(&self, snapshot: &Arc<Snapshot>) {
        let clock = self.inner.cache.clock();
        let mut pins = self.inner.pins.lock().unwrap_or_else(PoisonError::into_inner);
        if pins.iter().any(|(_, kept)| kept.revision == snapshot.revision) {
            return;
        }
        if pins.len() >= PINS {
            pins.pop_front();
        }
        // The simulation has no runtime and is short.
        if pins.is_empty()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(unpin(Arc::downgrade(&self.inner), clock.clone()));
        }
        pins.push_back((clock.now(), snapshot.clone()));
    }

    /// Like [`ApiState::answer`], with the workaround for fleetctl 1.0.
    async fn answer_for_client(&self, request: &Request, resource: &Resource) -> Answer {
        let Resource::Unit(name) = resource else { return self.answer(request).await };
        let desired = |snapshot: &Snapshot| {
            snapshot
                .desired
                .get(name.as_str())
                .map_or(Desired::Inactive, |kept| kept.record.desired)
        };
        let before = desired(&self.inner.cache.snapshot());
        let answer = self.answer(request).await;
        let now = self.inner.cache.clock().now();
        self.inner.first_look.answer_for(request, name, before, now, answer)
    }

    /// Answers a request from the registry.
    pub async fn answer(&self, request: &Request) -> Answer {
        if let Some(answer) = self.inability() {
            return answer;
        }
        let Ok(latest) = self.inner.seen.latest(&self.inner.cache).await else {
            return Answer::no_registry();
        };
        // Released before each wait, because the cache copies a snapshot that is still held when it
        // changes.
        let mut next = Some(latest);
        let mut lost: Option<UncertainWrite> = None;
        let mut proved = request.method == "GET" || planted(Mutant::StaleSnapshotAnswers);
        let clock = self.inner.cache.clock();
        let began = clock.now();
        for _ in 0..TRIES {
            let snapshot = next.take().unwrap_or_else(|| {
                proved = false;
                self.inner.cache.snapshot()
            });
            let then = self.pinned(request);
            let view = self.view(&snapshot, then.as_deref());
            let (transaction, answer) = match route::decide(request, &view) {
                Outcome::Answer(answer) if !proved && reports_no_change(&answer) => {
                    // The cache may lag behind writes of others.
                    match self.inner.seen.newest(&self.inner.cache).await {
                        Ok(newest) => (next, proved) = (Some(newest), true),
                        Err(_) if clock.since(began) < PATIENCE => clock.sleep(BREATHER).await,
                        Err(_) => return Answer::no_registry(),
                    }
                    continue;
                }
                Outcome::Answer(answer) => {
                    if holds_token(request, &answer) {
                        self.pin(then.as_ref().unwrap_or(&snapshot));
                    }
                    let Some(lost) = lost else { return answer };
                    return lost.final_answer(request, &answer);
                }
                Outcome::Write(transaction, answer) => (transaction, answer),
            };
            let decided_on = snapshot.revision;
            let again = |lost: &UncertainWrite| lost.may_be_repeated(&transaction, decided_on);
            if lost.as_ref().is_some_and(|lost| !again(lost)) {
                return Answer::no_registry();
            }
            let bound = registry::of_this_cluster(&snapshot, transaction.clone());
            drop((snapshot, then));
            match self.inner.cache.store().commit(&bound).await {
                Ok(Some(revision)) => {
                    if !planted(Mutant::AnsweredUnseen) {
                        self.inner.seen.written(revision);
                        self.inner.cache.reached(revision, SIGHT).await;
                    }
                    return answer;
                }
                Err(Fault::Unknown(_)) => {
                    lost = UncertainWrite::first(lost, transaction, answer, decided_on);
                }
                Err(fault) if fault.is_denied() => return Answer::not_ours_to_write(),
                Err(Fault::Refused(why)) => return Answer::refusal(400, why),
                Ok(None) | Err(Fault::Unavailable(_)) => {}
            }
            match self.inner.cache.read().await {
                Ok(fresh) => (next, proved) = (Some(self.inner.seen.keep(fresh)), true),
                // etcd's members may elect a leader, or another member may answer.
                Err(_) if clock.since(began) < PATIENCE => clock.sleep(BREATHER).await,
                Err(_) => return Answer::no_registry(),
            }
        }
        Answer::no_registry()
    }
}

/// Returns true if the answer has a next page.
fn holds_token(request: &Request, answer: &Answer) -> bool {
    let key = b"\"nextPageToken\":";
    request.method == "GET"
        && answer.status == 200
        && answer.body.len() > key.len()
        && route::resource(&request.path).list().is_some()
        && answer.body.windows(key.len()).any(|part| part == key)
}

/// Returns true if the answer says that no change is needed or possible. A lagging cache could make
/// such an answer wrong.
fn reports_no_change(answer: &Answer) -> bool {
    matches!(answer.status, 204 | 404 | 409 | 412)
}

/// The API for one listener, which passes the caller as an extension.
pub fn router(state: ApiState) -> axum::Router {
    axum::Router::new().fallback(handle).with_state(state)
}

async fn handle(
    State(state): State<ApiState>,
    caller: Option<axum::Extension<Caller>>,
    peer: Option<axum::Extension<Peer>>,
    incoming: http::Request<Body>,
) -> Response<Body> {
    let caller = caller.map(|axum::Extension(caller)| caller).unwrap_or_default();
    let (head, body) = incoming.into_parts();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let agent = head.headers.get(header::USER_AGENT).map(text).unwrap_or_default();
    let mut request = Request {
        method: head.method.as_str().to_string(),
        path: head.uri.path().to_string(),
        query: head.uri.query().unwrap_or_default().to_string(),
        content_types: head.headers.get_all(header::CONTENT_TYPE).iter().map(text).collect(),
        body: Vec::new(),
        caller,
        is_original: first_look::is_original(&agent),
    };
    let resource = route::resource(&request.path);
    let is_read = body::is_needed(&request, &resource) && state.inability().is_none();
    // An unread body costs the connection, and the answer tells the client so.
    let mut is_unread = !is_read && !hyper::body::Body::is_end_stream(&body);
    let read = if is_read { body::read(body).await } else { Ok(Vec::new()) };
    let mut response = match read {
        Err(answer) => {
            is_unread = true;
            into_response(answer)
        }
        Ok(body) => {
            request.body = body;
            let peer = peer.map(|axum::Extension(peer)| peer);
            match answer_outside_snapshot(&state, &request, &resource, peer).await {
                Some(response) => response,
                None => into_response(state.answer_for_client(&request, &resource).await),
            }
        }
    };
    state.inner.counters.count(&request.method, response.status().as_u16());
    let server = format!("fleetd/{}", state.inner.settings.version);
    if let Ok(value) = HeaderValue::from_str(&server) {
        response.headers_mut().insert(header::SERVER, value);
    }
    let is_refused = response.status().as_u16() >= 400;
    let headers = response.headers_mut();
    if is_unread && is_refused {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The page sets its own policy.
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(POLICY));
    response
}

/// Answers the resources that [`route::decide`] leaves to the server.
async fn answer_outside_snapshot(
    state: &ApiState,
    request: &Request,
    resource: &Resource,
    peer: Option<Peer>,
) -> Option<Response<Body>> {
    let known = matches!(
        resource,
        Resource::Events
            | Resource::Logs(_)
            | Resource::Metrics
            | Resource::Health
            | Resource::Page
    );
    if !known || super::request::cleaned(&request.path).is_some() {
        return None;
    }
    if let Some(refusal) = route::forbidden(request, resource) {
        return Some(into_response(refusal));
    }
    if request.method != "GET" {
        let words = "only GET supported against this resource";
        return Some(into_response(Answer::refusal(405, words)));
    }
    // Logs are readable while etcd is away, but not from a machine that uses another machine's id.
    let of_cluster = matches!(resource, Resource::Events | Resource::Logs(_));
    if let Some(answer) = state.machine_refusal().filter(|_| of_cluster) {
        return Some(into_response(answer));
    }
    Some(match resource {
        Resource::Events if !state.is_healthy() => into_response(state.unavailable()),
        Resource::Events => events(state, request, peer),
        Resource::Logs(name) => {
            super::logs::answer(&state.inner.settings.logs, &state.inner.cache, request, name).await
        }
        Resource::Metrics => {
            let snapshot = state.inner.cache.snapshot();
            let mut text = state.inner.counters.text(&snapshot, state.is_healthy());
            text.push_str(&metrics::safety(state.insecure().as_deref()));
            if let Some(more) = &state.inner.settings.more_metrics {
                text.push_str(&more());
            }
            into_response(Answer::with("text/plain; version=0.0.4", text.into_bytes()))
        }
        Resource::Page => super::page_response(),
        Resource::Health => {
            let well = wire::Health {
                insecure: state.insecure().unwrap_or_default(),
                ..wire::Health::default()
            };
            into_response(state.inability().unwrap_or_else(|| Answer::json(&well)))
        }
        Resource::Root
        | Resource::Units
        | Resource::Unit(_)
        | Resource::States
        | Resource::State(_)
        | Resource::Machines
        | Resource::Discovery
        | Resource::Why(_)
        | Resource::Drain(_)
        | Resource::Unknown => return None,
    })
}

/// Drops expired snapshots until none is left. A snapshot of many units is large, and the next list
/// may never come.
async fn unpin(inner: Weak<Inner>, clock: Clock) {
    loop {
        clock.sleep(PINNED).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut pins = inner.pins.lock().unwrap_or_else(PoisonError::into_inner);
        pins.retain(|(since, _)| clock.since(*since) < PINNED);
        if pins.is_empty() {
            return;
        }
    }
}

/// Opens a stream of changes if a slot is free.
fn events(state: &ApiState, request: &Request, peer: Option<Peer>) -> Response<Body> {
    let Some(slot) = state.inner.streams.enter(peer) else {
        let answer = Answer::refusal(503, "too many streams of changes");
        return into_response(Answer { retry_after: Some(5), ..answer });
    };
    change_stream::stream(&state.inner.cache, request.caller.clone(), slot).into_response()
}
