//! A recording of fleetctl 1.0: its requests byte for byte and in order, and its polling each 250
//! ms, first after 250 ms. Its output is not included.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Polling interval, and the delay before the first poll.
const LOOK: Duration = Duration::from_millis(250);
/// Number of polls that counts as endless; fleetctl itself has no limit.
const FOR_EVER: usize = 80;

/// One call; all its requests use one connection.
pub(crate) struct Original {
    stream: UnixStream,
    /// The requests in short form.
    pub(crate) asked: Vec<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The head in lower case, with the status.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Escapes a name as fleetctl does.
fn escaped(unit: &str) -> String {
    unit.replace('@', "%40")
}

impl Original {
    pub(crate) fn at(socket: &Path) -> Original {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Original { stream, asked: Vec::new() }
    }

    fn ask(&mut self, method: &str, path: &str, body: Option<&str>) -> Answer {
        self.ask_with(method, path, "alt=json", body)
    }

    fn ask_with(&mut self, method: &str, path: &str, query: &str, body: Option<&str>) -> Answer {
        self.asked.push(format!("{method} {path}{}", body.unwrap_or_default().trim_end()));
        let length = |body: &str| {
            format!("Content-Length: {}\r\nContent-Type: application/json\r\n", body.len())
        };
        let request = format!(
            "{method} /fleet/v1/{path}?{query} HTTP/1.1\r\nHost: domain-sock\r\n\
             User-Agent: google-api-go-client/0.5\r\n{}Accept-Encoding: gzip\r\n\r\n{}",
            body.map(length).unwrap_or_default(),
            body.unwrap_or_default()
        );
        self.stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            bytes.extend(byte);
        }
        let head = String::from_utf8(bytes).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |text| text.parse().unwrap())];
        self.stream.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: String::from_utf8(body).unwrap() }
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    pub(crate) fn unit(&mut self, unit: &str) -> Answer {
        self.get(&format!("units/{}", escaped(unit)))
    }

    /// Returns the unit's state in fleetctl's words.
    fn state(&mut self, unit: &str) -> String {
        self.unit(unit).json()["currentState"].as_str().unwrap_or_default().to_string()
    }

    pub(crate) fn create(&mut self, unit: &str, options: &str) -> Answer {
        let body = format!("{{\"name\":\"{unit}\",\"options\":{options}}}\n");
        self.ask("PUT", &format!("units/{}", escaped(unit)), Some(&body))
    }

    pub(crate) fn wish(&mut self, unit: &str, state: &str) -> Answer {
        let body = format!("{{\"desiredState\":\"{state}\",\"name\":\"{unit}\"}}\n");
        self.ask("PUT", &format!("units/{}", escaped(unit)), Some(&body))
    }

    /// Polls the unit until it has the wanted state.
    fn wait(&mut self, unit: &str, wanted: &str) {
        self.looks(&format!("{unit} to be {wanted}"), |own| own.state(unit) == wanted);
    }

    fn looks(&mut self, what: &str, mut so: impl FnMut(&mut Original) -> bool) {
        for _ in 0..FOR_EVER {
            std::thread::park_timeout(LOOK);
            if so(self) {
                return;
            }
        }
        panic!("it waited too long for {what}: {:?}", self.asked);
    }

    /// Returns a list from all pages, and the number of pages.
    pub(crate) fn list(&mut self, what: &str) -> (Vec<Value>, usize) {
        let (mut all, mut pages) = (Vec::new(), 1);
        let mut page = self.get(what).json();
        loop {
            // The key is the resource's name, and missing if the list is empty.
            let items = if what == "state" { &page["states"] } else { &page[what] };
            all.extend(items.as_array().into_iter().flatten().cloned());
            let token = page["nextPageToken"].as_str().unwrap_or_default().to_string();
            if token.is_empty() {
                return (all, pages);
            }
            let query = format!("alt=json&nextPageToken={}", token.replace('=', "%3D"));
            let reply = self.ask_with("GET", what, &query, None);
            assert_eq!(reply.status, 200, "{}", reply.body);
            (page, pages) = (reply.json(), pages + 1);
        }
    }

    /// findUnits: fetches all units.
    fn find(&mut self, unit: &str) -> Option<Value> {
        self.list("units").0.into_iter().find(|one| one["name"] == unit)
    }

    /// `fleetctl submit UNIT` of a new unit.
    pub(crate) fn submit(&mut self, unit: &str, options: &str) {
        assert_eq!(self.unit(unit).status, 404);
        assert_eq!(self.create(unit, options).status, 201);
        self.wait(unit, "inactive");
    }

    /// `fleetctl submit UNIT` of an existing unit, which compares the files.
    pub(crate) fn submit_again(&mut self, unit: &str) -> Value {
        let there = self.unit(unit);
        assert_eq!(there.status, 200);
        there.json()["options"].clone()
    }

    /// `fleetctl submit UNIT` of an instance without a file, which uses its template's.
    pub(crate) fn submit_instance(&mut self, unit: &str, template: &str) {
        assert_eq!(self.unit(unit).status, 404);
        let there = self.unit(template);
        assert_eq!(there.status, 200);
        let options = there.json()["options"].to_string();
        assert_eq!(self.create(unit, &options).status, 201);
        self.wait(unit, "inactive");
    }

    /// `fleetctl start --replace UNIT` with another file from disk.
    pub(crate) fn replace(&mut self, unit: &str, options: &str) {
        assert_ne!(self.submit_again(unit).to_string(), options);
        assert_eq!(self.create(unit, options).status, 201);
        self.wait(unit, "inactive");
        assert_eq!(self.unit(unit).status, 200);
        assert_eq!(self.wish(unit, "launched").status, 204);
        self.arrive(unit);
    }

    /// `fleetctl start UNIT` of a launched unit, which does nothing.
    pub(crate) fn start_again(&mut self, unit: &str) {
        assert_eq!(self.unit(unit).status, 200);
        assert_eq!(self.unit(unit).json()["currentState"], "launched");
    }

    /// `fleetctl start UNIT` of a new global unit: without a current state it checks the desired
    /// state and waits for no machine.
    pub(crate) fn start_global(&mut self, unit: &str, options: &str) {
        assert_eq!(self.unit(unit).status, 404);
        assert_eq!(self.create(unit, options).status, 201);
        self.looks("its desired state to be inactive", |own| {
            own.unit(unit).json()["desiredState"] == "inactive"
        });
        assert_eq!(self.unit(unit).json()["currentState"], Value::Null);
        assert_eq!(self.wish(unit, "launched").status, 204);
    }

    /// The requests of `cat UNIT`, and of `status` and `journal` before they use ssh.
    pub(crate) fn look_at(&mut self, unit: &str) -> Value {
        let reply = self.unit(unit);
        assert_eq!(reply.status, 200);
        reply.json()
    }

    /// `fleetctl load UNIT` of a submitted unit.
    pub(crate) fn load(&mut self, unit: &str) {
        assert_eq!(self.unit(unit).status, 200);
        assert_eq!(self.unit(unit).status, 200);
        assert_eq!(self.wish(unit, "loaded").status, 204);
        self.wait(unit, "loaded");
        self.get("machines");
    }

    /// `fleetctl start UNIT` of a submitted unit.
    pub(crate) fn start(&mut self, unit: &str) {
        assert_eq!(self.unit(unit).status, 200);
        assert_eq!(self.unit(unit).status, 200);
        assert_eq!(self.wish(unit, "launched").status, 204);
        self.arrive(unit);
    }

    /// Waits for launched, then for active.
    fn arrive(&mut self, unit: &str) {
        self.wait(unit, "launched");
        self.get("machines");
        let path = format!("state/{}", escaped(unit));
        self.looks("it to be active", |own| {
            let state = own.get(&path).json();
            state["systemdLoadState"] == "loaded" && state["systemdActiveState"] == "active"
        });
    }

    /// `fleetctl stop UNIT`. Returns false if it reports the unit as inactive.
    pub(crate) fn stop(&mut self, unit: &str) -> bool {
        let found = self.find(unit).unwrap();
        match found["currentState"].as_str() {
            Some("inactive") | None => return false,
            Some("loaded") => return true,
            Some(_) => {}
        }
        assert_eq!(self.wish(unit, "loaded").status, 204);
        self.wait(unit, "loaded");
        self.get("machines");
        true
    }

    /// `fleetctl unload UNIT`.
    pub(crate) fn unload(&mut self, unit: &str) {
        if self.find(unit).unwrap()["currentState"] == "inactive" {
            return;
        }
        assert_eq!(self.wish(unit, "inactive").status, 204);
        self.wait(unit, "inactive");
    }

    /// `fleetctl restart UNIT` with its bug: it waits for launched after setting loaded, too.
    pub(crate) fn restart(&mut self, unit: &str) {
        let found = self.find(unit).unwrap();
        assert_eq!(self.unit(unit).status, 200);
        let steps: &[&str] = match found["currentState"].as_str() {
            Some("inactive") | None => return,
            Some("loaded") => &["launched"],
            Some(_) => &["loaded", "launched"],
        };
        for state in steps {
            assert_eq!(self.wish(unit, state).status, 204);
            self.wait(unit, "launched");
        }
        self.get("machines");
    }

    /// `fleetctl destroy UNIT`, which does not wait.
    pub(crate) fn destroy_and_go(&mut self, unit: &str) {
        self.find(unit).unwrap();
        let path = format!("units/{}", escaped(unit));
        let reply = self.ask("DELETE", &path, None);
        assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    }

    /// `fleetctl destroy --no-block UNIT`, which does wait.
    pub(crate) fn destroy(&mut self, unit: &str) {
        self.find(unit).unwrap();
        let path = format!("units/{}", escaped(unit));
        assert_eq!(self.ask("DELETE", &path, None).status, 204);
        self.looks("it to be gone", |own| own.unit(unit).status == 404);
    }
}
