//! A client of the control socket that relies only on the wire protocol: one JSON object per line.
//! It does not use the product's own types on purpose.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    next: u64,
}

impl Client {
    /// Connects. Returns `None` if no process listens there.
    pub fn connect(socket: &Path) -> Option<Client> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(crate::deadline::patience())).ok()?;
        Some(Client { stream: BufReader::new(stream), next: 1 })
    }

    /// Sends `verb` with `fields` and returns the `ok` of the answer, or its `error`.
    ///
    /// # Errors
    /// The `error` object of the answer.
    pub fn ask(&mut self, verb: &str, fields: &Value) -> Result<Value, Value> {
        self.send(verb, fields);
        self.answer().expect("an answer to each request")
    }

    /// Sends a request and does not wait for the answer.
    pub fn send(&mut self, verb: &str, fields: &Value) {
        let mut request = Map::new();
        request.insert("v".to_owned(), json!(1));
        request.insert("id".to_owned(), json!(self.next));
        request.insert("verb".to_owned(), json!(verb));
        for (key, value) in fields.as_object().into_iter().flatten() {
            request.insert(key.clone(), value.clone());
        }
        self.next += 1;
        self.raw(format!("{}\n", Value::Object(request)).as_bytes());
    }

    /// Sends bytes as they are. A closed connection is no failure here.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Returns true if bytes of an answer can be read.
    pub fn has_answer(&self) -> bool {
        let mut wait = [PollFd::new(self.stream.get_ref().as_fd(), PollFlags::POLLIN)];
        !self.stream.buffer().is_empty() || poll(&mut wait, PollTimeout::ZERO).is_ok_and(|n| n > 0)
    }

    /// The next answer. Returns `None` if the connection ended or nothing came in time.
    pub fn answer(&mut self) -> Option<Result<Value, Value>> {
        let mut line = String::new();
        if !self.stream.read_line(&mut line).is_ok_and(|count| count > 0) {
            return None;
        }
        let answer: Value = serde_json::from_str(&line).expect("an answer is JSON");
        assert_eq!(answer["v"], 1, "{line}");
        Some(match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["ok"].clone()),
        })
    }
}
