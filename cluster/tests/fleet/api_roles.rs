//! Access control: every role, resource and method, through the router. The expectations are
//! written independently of the code.

use axum::body::Body;
use axum::http::Request;
use cluster::api::caller::{Caller, Role};
use cluster::api::route::{PREFIXES, Resource, resource};
use cluster::api::server::{ApiState, router};
use cluster::api::settings::Settings;
use cluster::desired::Desired;
use cluster::etcd_cache::EtcdCache;
use cluster::key::Keys;
use cluster::registry;
use cluster::store::Store;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeSet;
use std::time::Duration;

const METHODS: [&str; 9] =
    ["GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE", "TRACE", "BREW"];
/// Two existing and two missing units; one of each has the prefix.
const NAMES: [&str; 4] = ["web1.service", "db1.service", "web2.service", "db2.service"];
const PREFIX: &str = "web";

/// The role that a change needs, and whether it is about one unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Needs a role that may change units.
    Units,
    /// Needs such a role for that unit.
    Unit,
    /// Needs a role that may change machines.
    Machines,
    /// Any method reads logs of that unit.
    Logs,
}

/// A number and a rule for each kind of resource; the match is exhaustive.
fn rule(resource: &Resource) -> (usize, Rule) {
    match resource {
        Resource::Root => (0, Rule::Units),
        Resource::Units => (1, Rule::Units),
        Resource::Unit(_) => (2, Rule::Unit),
        Resource::States => (3, Rule::Units),
        Resource::State(_) => (4, Rule::Unit),
        Resource::Machines => (5, Rule::Machines),
        Resource::Discovery => (6, Rule::Units),
        Resource::Why(_) => (7, Rule::Unit),
        Resource::Drain(_) => (8, Rule::Machines),
        Resource::Events => (9, Rule::Units),
        Resource::Logs(_) => (10, Rule::Logs),
        Resource::Metrics => (11, Rule::Units),
        Resource::Health => (12, Rule::Units),
        Resource::Page => (13, Rule::Units),
        Resource::Unknown => (14, Rule::Units),
    }
}
const KINDS: usize = 15;

fn paths() -> Vec<(String, Option<&'static str>)> {
    let mut all: Vec<(String, Option<&'static str>)> =
        ["/", "/metrics", "/healthz", "/ui", "/bogus"].map(|path| (path.to_string(), None)).into();
    for prefix in PREFIXES {
        let lists = ["", "/units", "/state", "/machines", "/discovery", "/events", "/drain/m1"];
        all.extend(lists.map(|rest| (format!("{prefix}{rest}"), None)));
        for name in NAMES {
            let items = ["units", "state", "why", "logs"];
            all.extend(items.map(|kind| (format!("{prefix}/{kind}/{name}"), Some(name))));
        }
    }
    all
}

fn callers() -> Vec<Caller> {
    let of = |role| Caller { role, prefixes: None };
    let within = |role| Caller { role, prefixes: Some(vec![PREFIX.to_string()]) };
    let roles = [Role::Nothing, Role::Machine, Role::Reader, Role::Operator];
    roles.into_iter().flat_map(|role| [of(role), within(role)]).collect()
}

/// The expected result.
fn may(caller: &Caller, method: &str, rule: Rule, name: Option<&str>) -> bool {
    let covered = name.is_none_or(|name| caller.prefixes.is_none() || name.starts_with(PREFIX));
    let reads = rule == Rule::Logs || matches!(method, "GET" | "HEAD" | "OPTIONS");
    let does = match caller.role {
        Role::Nothing => false,
        Role::Machine | Role::Reader => reads,
        Role::Operator => reads || rule != Rule::Machines || caller.prefixes.is_none(),
    };
    does && covered
}

/// A body that changes something if it is allowed.
fn body(rule: Rule, method: &str) -> &'static str {
    match (rule, method) {
        (Rule::Unit, "PUT") => {
            r#"{"desiredState":"inactive","options":[{"section":"Service","name":"ExecStart","value":"/x"}]}"#
        }
        (Rule::Machines, "PATCH") => {
            r#"[{"op":"add","path":"/m1/metadata/k","value":{"value":"v"}}]"#
        }
        _ => "",
    }
}

struct Stand {
    store: Store,
    keys: Keys,
    state: ApiState,
}

impl Stand {
    async fn new() -> Stand {
        let (store, keys) = (Store::memory(), Keys::under("/test"));
        let (cache, _following) = EtcdCache::start(store.clone(), keys.clone());
        for name in &NAMES[..2] {
            let file = UnitFile::parse("[Service]\nExecStart=/bin/a\n").unwrap();
            let (name, snapshot) = (UnitName::new(name).unwrap(), cache.read().await.unwrap());
            let write = registry::create(&snapshot, &name, &file, Desired::Inactive);
            let revision = store.commit(&write).await.unwrap().unwrap();
            assert!(cache.reached(revision, Duration::from_secs(10)).await);
        }
        Stand { store, keys, state: ApiState::new(cache, Settings::default()) }
    }

    async fn ask(&self, caller: &Caller, method: &str, path: &str, body: &'static str) -> u16 {
        let service = router(self.state.clone()).layer(axum::Extension(caller.clone()));
        let request = Request::builder().method(method).uri(path);
        let request = request.header("Content-Type", "application/json").body(Body::from(body));
        let response = TowerToHyperService::new(service).call(request.unwrap()).await.unwrap();
        response.status().as_u16()
    }

    /// The stored keys with their revisions.
    async fn written(&self) -> BTreeSet<(String, i64)> {
        let reading = self.store.read(self.keys.root()).await.unwrap();
        reading.entries.into_iter().map(|entry| (entry.key, entry.modified)).collect()
    }
}

#[test]
fn each_role_has_the_rights_in_the_table_for_each_resource_and_method() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let met: BTreeSet<usize> =
            paths().iter().map(|(path, _)| rule(&resource(path)).0).collect();
        assert_eq!(met, (0..KINDS).collect(), "no path leads to one of the resources");
        let (mut asked, mut changed) = (0, 0);
        for caller in callers() {
            // Each caller has a fresh cluster.
            let stand = Stand::new().await;
            for (path, name) in paths() {
                let (_, rule) = rule(&resource(&path));
                for method in METHODS {
                    let before = stand.written().await;
                    let status = stand.ask(&caller, method, &path, body(rule, method)).await;
                    let what = format!("{method} {path} by {caller:?}: {status}");
                    let expected = may(&caller, method, rule, name);
                    assert_eq!(status != 403, expected, "{what}");
                    let after = stand.written().await;
                    let differs: Vec<_> = before.symmetric_difference(&after).collect();
                    changed += usize::from(!differs.is_empty());
                    assert!(differs.is_empty() || caller.role == Role::Operator, "{what}");
                    if caller.prefixes.is_some() {
                        let own = |key: &str| key.contains(&format!("/{PREFIX}"));
                        assert!(differs.iter().all(|(key, _)| own(key)), "{what}: {differs:?}");
                    }
                    asked += 1;
                }
            }
        }
        assert_eq!(asked, callers().len() * paths().len() * METHODS.len());
        assert!(changed > 0, "no request has changed anything");
    });
}
