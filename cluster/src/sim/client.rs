//! Simulated clients: operators' requests through the API of some machine, and the answers.
//! [`crate::sim::plan`] draws the requests; invariant C14 checks the answers.

use crate::api::answer::Answer;
use crate::api::caller::Caller;
use crate::api::request::Request;
use crate::machine::MachineId;
use crate::signature::Signature;
use crate::sim::invariant::Moment;
use crate::sim::plan::UNITS;
use crate::sim::world::{Shared, World, lock};
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use serde_json::json;

/// An answered request.
pub struct Asked {
    /// The method.
    pub method: &'static str,
    /// The unit; `None` for a request about a machine.
    pub unit: Option<UnitName>,
    /// The requested state; empty if none.
    pub desired: &'static str,
    /// The hash of the file sent along.
    pub hash: Option<String>,
    /// The machine and the value of requested metadata.
    pub patch: Option<(MachineId, Option<String>)>,
    /// The machine, and the run of its fleetd.
    pub at: (usize, u64),
    /// The revision when the request was sent.
    pub from: i64,
    /// True if its fleetd knew its cluster then.
    pub knew: bool,
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// The fields of [`Asked`] that are known when a request is sent.
#[derive(Clone, Copy)]
struct At {
    at: (usize, u64),
    from: i64,
    knew: bool,
}

/// The subject of a request.
pub(super) enum About {
    /// A unit, the requested state, and the hash of the file.
    Unit(UnitName, &'static str, Option<String>),
    /// A machine's metadata and the new value.
    Metadata(MachineId, Option<String>),
    /// Draining of a machine.
    Drain,
}

impl About {
    fn answered(&self, method: &'static str, at: At, answer: &Answer) -> Asked {
        let (unit, desired, hash) = match self {
            About::Unit(unit, desired, hash) => (Some(unit.clone()), *desired, hash.clone()),
            About::Metadata(..) | About::Drain => (None, "", None),
        };
        let patch = match self {
            About::Metadata(id, value) => Some((id.clone(), value.clone())),
            About::Unit(..) | About::Drain => None,
        };
        let body = String::from_utf8_lossy(&answer.body).to_string();
        let At { at, from, knew } = at;
        Asked { method, unit, desired, hash, patch, at, from, knew, status: answer.status, body }
    }

    /// A GET of the same subject.
    fn read(&self) -> About {
        match self {
            About::Unit(unit, ..) => About::Unit(unit.clone(), "", None),
            About::Metadata(id, value) => About::Metadata(id.clone(), value.clone()),
            About::Drain => About::Drain,
        }
    }
}

/// A unit file with this `[X-Fleet]` section.
pub(super) fn file(asks: &str, seed: usize) -> UnitFile {
    let text = format!("[Service]\nExecStart=/bin/x {seed}\nTimeoutStopSec=1\n\n[X-Fleet]\n{asks}");
    UnitFile::parse(&text).unwrap_or_default()
}

impl World {
    /// Sends a request about a unit.
    pub(super) fn ask(
        &mut self,
        world: &Shared,
        method: &'static str,
        unit: usize,
        desired: &'static str,
        file: Option<(UnitFile, Option<Signature>)>,
        at: usize,
    ) {
        let Ok(name) = UnitName::new(UNITS[unit]) else { return };
        let mut body = json!({});
        if !desired.is_empty() {
            body["desiredState"] = json!(desired);
        }
        if let Some((file, signature)) = &file {
            body["signature"] = json!(signature);
            let options = file.options.iter();
            let options = options.map(|option| json!({"section": option.section, "name": option.name, "value": option.value}));
            body["options"] = options.collect();
        }
        let body = if method == "PUT" { body.to_string() } else { String::new() };
        let path = format!("/fleet/v1/units/{name}");
        let hash = file.map(|(file, _)| file.hash());
        self.send_request(world, at, method, (path, body), About::Unit(name, desired, hash));
    }

    /// Sends a request to override metadata.
    pub(super) fn set_metadata(
        &mut self,
        world: &Shared,
        of: usize,
        value: Option<&'static str>,
        at: usize,
    ) {
        let id = self.machines[of].id.clone();
        let path = format!("/{id}/metadata/k");
        let patch = match value {
            Some(value) => json!([{"op": "add", "path": path, "value": {"value": value}}]),
            None => json!([{"op": "remove", "path": path}]),
        };
        self.coverage.count("metadata changed");
        let path = "/fleet/v1/machines".to_string();
        let about = About::Metadata(id, value.map(str::to_string));
        self.send_request(world, at, "PATCH", (path, patch.to_string()), about);
    }

    /// Sends a request to the API of a machine, and reads back after a PUT.
    pub(super) fn send_request(
        &mut self,
        world: &Shared,
        at: usize,
        method: &'static str,
        (path, body): (String, String),
        about: About,
    ) {
        let run = self.run_of(at);
        let Some(fleetd) = &self.machines[at].fleetd else { return };
        let (api, shared) = (fleetd.api.clone(), world.clone());
        let knew = fleetd.daemon.cache.snapshot().cluster.is_some();
        let request = Request {
            method: method.to_string(),
            path,
            body: body.into_bytes(),
            content_types: vec!["application/json".to_string()],
            caller: Caller::local(),
            ..Request::default()
        };
        if let About::Metadata(id, value) = &about {
            *self.book.patches.entry((id.clone(), value.clone())).or_default() += 1;
        }
        let task = async move {
            let asking =
                |world: &Shared| At { at: (at, run), from: lock(world).truth.revision, knew };
            let asked_at = asking(&shared);
            let answer = api.answer(&request).await;
            let asked = about.answered(method, asked_at, &answer);
            lock(&shared).heard(&asked);
            if method == "PUT" && asked.unit.is_some() {
                let request = Request { method: "GET".to_string(), body: Vec::new(), ..request };
                let asked_at = asking(&shared);
                let answer = api.answer(&request).await;
                let asked = about.read().answered("GET", asked_at, &answer);
                lock(&shared).heard(&asked);
            }
        };
        self.starting.push((at, Box::pin(task)));
    }

    fn heard(&mut self, asked: &Asked) {
        let words = || {
            let name = asked.unit.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{} {name} {}: {}", asked.method, asked.desired, asked.status)
        };
        self.say(words);
        match (asked.method, asked.status) {
            ("PUT", 201) if asked.unit.is_some() => {
                let shapes = asked.unit.as_ref().and_then(|unit| self.book.history.get(unit));
                let new = shapes.is_none_or(|shapes| shapes.len() < 2);
                self.coverage.count(if new { "unit created" } else { "unit replaced" });
            }
            ("PUT", 204) if asked.unit.is_some() => self.coverage.count("desired state changed"),
            ("DELETE", 204) if asked.unit.is_some() => self.coverage.count("unit destroyed"),
            ("PUT", 400) if asked.unit.as_ref().is_some_and(UnitName::is_template) => {
                self.coverage.count("template refused");
            }
            _ => {}
        }
        // A failed request may still land.
        if let Some(patch) = asked.patch.as_ref().filter(|_| asked.status < 500)
            && let Some(open) = self.book.patches.get_mut(patch)
        {
            *open = open.saturating_sub(1);
        }
        self.judge(&Moment::Answered(asked));
        self.remember_answer(asked);
    }

    /// Records an answer: later answers of the same daemon must not be older.
    fn remember_answer(&mut self, asked: &Asked) {
        let Some(unit) = &asked.unit else { return };
        if asked.method == "PUT" && matches!(asked.status, 201 | 204) {
            let now = self.truth.revision;
            let so = |shape: &crate::sim::book::Shape| {
                shape.as_ref().is_some_and(|(desired, _)| {
                    asked.desired.is_empty() || desired.as_str() == asked.desired
                })
            };
            if let Some(since) = self.book.first(unit, (asked.from, now), so) {
                let last = self.book.answered.entry(asked.at).or_default();
                *last = since.max(*last);
            }
        }
    }
}
