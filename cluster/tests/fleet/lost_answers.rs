//! Answers of the API for writes with unknown result, if other clients wrote in between. In-memory
//! store; `tests/api_history.rs` uses a real etcd.

use cluster::api::caller::Caller;
use cluster::api::request::Request;
use cluster::api::server::{ApiState, Settings};
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::store::driven::{Answered, Call, Driven, DrivenWatch, Reply};
use cluster::store::{Batch, Fault, Store, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PATH: &str = "/fleet/v1/units/a.service";
const FILE: &str =
    r#"{"desiredState":"inactive","options":[{"section":"S","name":"N","value":"1"}]}"#;
const OTHER: &str =
    r#"{"desiredState":"inactive","options":[{"section":"S","name":"N","value":"2"}]}"#;
const WISH: &str = r#"{"desiredState":"loaded"}"#;

/// A request of another client between a write and its check.
type Between = (&'static str, &'static str);

/// An in-memory store that loses the answer to the next write.
struct Losing {
    memory: Store,
    /// An API through which other clients write.
    beside: ApiState,
    armed: AtomicBool,
    /// True if the lost write is executed.
    done: bool,
    between: Option<Between>,
}

struct Seeing(Watch);

impl DrivenWatch for Seeing {
    fn next(&mut self) -> Answered<'_, Batch> {
        Box::pin(self.0.next())
    }
}

impl Losing {
    async fn lose(self: Arc<Self>, transaction: cluster::transaction::Transaction) -> Fault {
        if self.done {
            assert!(self.memory.commit(&transaction).await.unwrap().is_some());
        }
        if let Some((method, body)) = self.between {
            let answer = self.beside.answer(&request(method, body)).await;
            assert!(answer.status < 300, "{}", answer.status);
        }
        Fault::Unknown("lost".to_string())
    }
}

/// Shares the store: the futures of a [`Driven`] outlive the call.
struct Handle(Arc<Losing>);

impl Driven for Handle {
    fn call(&self, call: Call) -> Answered<'static, Reply> {
        let losing = self.0.clone();
        Box::pin(async move {
            match call {
                Call::Commit(transaction) if losing.armed.swap(false, Ordering::SeqCst) => {
                    Err(losing.lose(transaction).await)
                }
                Call::Commit(transaction) => {
                    losing.memory.commit(&transaction).await.map(Reply::Committed)
                }
                Call::Read(prefix) => losing.memory.read(&prefix).await.map(Reply::Read),
                Call::Grant(_)
                | Call::KeepAlive(_)
                | Call::Remainder(_)
                | Call::Revoke(_)
                | Call::Leaderless => panic!("no lease is asked for"),
            }
        })
    }

    fn watch(&self, prefix: &str, after: i64) -> Answered<'static, Box<dyn DrivenWatch>> {
        let (memory, prefix) = (self.0.memory.clone(), prefix.to_string());
        Box::pin(async move {
            let watch = memory.watch(&prefix, after).await?;
            Ok(Box::new(Seeing(watch)) as Box<dyn DrivenWatch>)
        })
    }
}

fn request(method: &str, body: &str) -> Request {
    Request {
        method: method.to_string(),
        path: PATH.to_string(),
        content_types: vec!["application/json".to_string()],
        body: body.as_bytes().to_vec(),
        caller: Caller::local(),
        ..Request::default()
    }
}

async fn api(store: Store) -> ApiState {
    let (cache, _) = EtcdCache::start(store, Keys::under("/fleet"));
    cache.health().wait_for(|health| health.last_contact.is_some()).await.unwrap();
    ApiState::new(cache, Settings::default())
}

/// Returns the answer to a write with unknown result on an existing unit, and the state after it.
fn result_for_existing(asked: Between, done: bool, between: Option<Between>) -> (u16, String) {
    result_for(true, asked, done, between)
}

/// Like [`result_for_existing`], for a unit that may not exist.
fn result_for(there: bool, asked: Between, done: bool, between: Option<Between>) -> (u16, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let memory = Store::memory();
        let beside = api(memory.clone()).await;
        if there {
            assert_eq!(beside.answer(&request("PUT", FILE)).await.status, 201);
        }
        let armed = AtomicBool::new(false);
        let losing = Arc::new(Losing { memory, beside: beside.clone(), armed, done, between });
        let api = api(Store::driven(Arc::new(Handle(losing.clone())))).await;
        losing.armed.store(true, Ordering::SeqCst);
        let asked = request(asked.0, asked.1);
        let answer = tokio::time::timeout(Duration::from_secs(20), api.answer(&asked)).await;
        assert!(!losing.armed.load(Ordering::SeqCst), "nothing was written");
        // A new API sees everything that was written.
        let there = self::api(losing.memory.clone()).await.answer(&request("GET", "")).await;
        let wish = match there.status {
            200 => {
                let unit: serde_json::Value = serde_json::from_slice(&there.body).unwrap();
                unit["desiredState"].as_str().unwrap().to_string()
            }
            _ => "gone".to_string(),
        };
        (answer.unwrap().status, wish)
    })
}

#[test]
fn write_with_a_lost_answer_takes_effect_once() {
    for done in [true, false] {
        assert_eq!(result_for_existing(("PUT", WISH), done, None), (204, "loaded".to_string()));
        assert_eq!(result_for_existing(("PUT", OTHER), done, None), (201, "inactive".to_string()));
        assert_eq!(result_for_existing(("DELETE", ""), done, None), (204, "gone".to_string()));
    }
}

#[test]
fn unit_created_by_a_lost_write_and_destroyed_since_is_not_recreated() {
    for done in [true, false] {
        assert_eq!(result_for(false, ("PUT", OTHER), done, None), (201, "inactive".to_string()));
    }
    let gone = Some(("DELETE", ""));
    assert_eq!(result_for(false, ("PUT", OTHER), true, gone), (503, "gone".to_string()));
}

#[test]
fn write_undone_by_another_client_is_reported_as_unknown() {
    let gone = Some(("DELETE", ""));
    for done in [true, false] {
        assert_eq!(result_for_existing(("PUT", WISH), done, gone), (503, "gone".to_string()));
        assert_eq!(result_for_existing(("PUT", OTHER), done, gone), (503, "gone".to_string()));
    }
    // An equal write of another client counts too.
    for done in [true, false] {
        let between = if done { None } else { gone };
        assert_eq!(result_for_existing(("DELETE", ""), done, between), (204, "gone".to_string()));
    }
}
