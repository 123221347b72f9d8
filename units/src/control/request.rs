//! Requests of the control socket: the verbs, their arguments, and the role each verb needs.
//!
//! A request is one line `{"v":1,"id":n,"verb":"status",…}`. The answer is one line
//! `{"v":1,"id":n,"ok":{…}}` or `{"v":1,"id":n,"error":{"kind","message","hint"}}`;
//! streams (`events` with `follow`) send many `ok` lines with the same id. Unknown
//! fields are passed over, so that an older init understands a newer initctl.
//!
//! [`super::answer`] defines the answers.

use crate::limit;
use crate::text::name::Name;
use crate::unit::policy::Policy;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the protocol spoken here.
pub const VERSION: u32 = 1;

/// The role that a caller needs for a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Any uid.
    Read,
    /// Root, init's uid, the group `log-readers`.
    Logs,
    /// Root, init's uid, and the uid that owns the source.
    Source,
    /// Root and init's uid.
    Control,
}

/// Declares the verbs once. The enum, the table of names and roles, and the role of one verb follow
/// from it, so that no verb can lack a rule.
macro_rules! verbs {
    ($($(#[$doc:meta])* $variant:ident $word:literal $role:ident {
        $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)?
    })*) => {
        /// A verb with its arguments.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "verb", rename_all_fields = "kebab-case")]
        pub enum Verb {
            $($(#[$doc])* #[serde(rename = $word)] $variant { $($(#[$field_doc])* $field: $type),* },)*
        }

        /// Each verb with the role it needs, in the order of the documentation.
        pub const TABLE: &[(&str, Role)] = &[$(($word, Role::$role)),*];

        impl Verb {
            /// The word on the wire.
            pub fn word(&self) -> &'static str {
                match self { $(Verb::$variant { .. } => $word),* }
            }

            /// Returns the role that the verb needs.
            pub fn role(&self) -> Role {
                match self { $(Verb::$variant { .. } => Role::$role),* }
            }
        }
    };
}

verbs! {
    /// Checks that init answers: [`super::answer::Pong`].
    Ping "ping" Read {}
    /// The whole system, or the units of these targets.
    Status "status" Read {
        /// The targets; empty means all.
        #[serde(default)] targets: Vec<Name>,
    }
    /// The chain of reasons of one target.
    Why "why" Read {
        /// The target.
        target: Name,
    }
    /// The plan of a `set-target` or a `reload`.
    Plan "plan" Read {
        /// As in `set-target`; empty: the targets of the present goal.
        #[serde(default)] targets: Vec<Name>,
        /// `+x`.
        #[serde(default)] want: Vec<Name>,
        /// `-y`.
        #[serde(default)] drop: Vec<Name>,
        /// Plan a reload instead.
        #[serde(default)] reload: bool,
    }
    /// Units, targets and edges of the present generation with states. `tree`, `graph` and
    /// `critical-chain` are drawn from it.
    Graph "graph" Read {}
    /// For each unit, the start time of its last start and the time at which it was ready.
    Blame "blame" Read {}
    /// Timer units with their next and last firing.
    Timers "timers" Read {}
    /// Socket units with their addresses.
    Sockets "sockets" Read {}
    /// The event log; with `follow` a stream.
    Events "events" Read {
        /// Continue with new events as they occur.
        #[serde(default)] follow: bool,
        /// Only events with a greater `seq`.
        #[serde(default)] after: u64,
    }
    /// Waits until nothing is starting, stopping or waiting, except for retries after a verdict:
    /// `{"system":…}`.
    Wait "wait" Read {}
    /// The place of a unit's text: [`super::answer::Located`]. The client reads the file.
    Cat "cat" Read {
        /// A target or a unit.
        target: Name,
    }
    /// The unit of a process:
    /// `{"pid","unit":name|null,"run":n|null,"role":"main|helper|child"|null}`.
    Whose "whose" Read {
        /// The pid in init's pid namespace.
        pid: i32,
    }
    /// Figures about init itself.
    Stats "stats" Read {}
    /// Sets a new goal, which replaces the overlay.
    SetTarget "set-target" Control {
        /// At least one target.
        targets: Vec<Name>,
        /// `+x`.
        #[serde(default)] want: Vec<Name>,
        /// `-y`.
        #[serde(default)] drop: Vec<Name>,
    }
    /// Adds a wish to the overlay.
    Want "want" Control {
        /// The target.
        target: Name,
        /// Milliseconds from now until the wish ends by itself.
        #[serde(default)] for_ms: Option<u64>,
    }
    /// Removes a wish from the overlay.
    Unwant "unwant" Control {
        /// The target.
        target: Name,
    }
    /// Applies the complete policy at once, as it is now in the files.
    Policy "policy" Control {
        /// The merged policy.
        policy: Policy,
    }
    /// Reloads the unit files.
    Reload "reload" Control {
        /// Changed units keep their run and are shown as stale.
        #[serde(default)] no_restart: bool,
    }
    /// Replaces the runs of these units.
    Restart "restart" Control {
        /// Targets or units.
        targets: Vec<Name>,
    }
    /// Makes these units reload their own configuration.
    ReloadUnit "reload-unit" Control {
        /// Targets or units.
        targets: Vec<Name>,
    }
    /// Sends a signal to processes of these units.
    Kill "kill" Control {
        /// Targets or units.
        targets: Vec<Name>,
        /// The signal number; TERM if absent.
        #[serde(default)] signal: Option<u8>,
        /// Signals all processes of the unit instead of the main process only.
        #[serde(default)] all: bool,
    }
    /// Forgets failures and retries now.
    Retry "retry" Control {
        /// Targets or units.
        targets: Vec<Name>,
    }
    /// Replaces the units of a source. The new set is in a sealed memfd that is passed with this
    /// line (SCM_RIGHTS): see [`super::source_set`].
    SourcePut "source-put" Source {
        /// The source.
        source: Name,
        /// Include the plan in the answer, at the cost of a `plan` request.
        #[serde(default)] plan: bool,
    }
    /// Lists sources: `{"sources":[{"source","uid","revision","files":[…],"roots":[…]}]}`. Root and
    /// init's uid see all of them, the owner of a source its own.
    SourceList "source-list" Source {}
    /// Forgets the units of a source. Its revision continues to count.
    SourceDrop "source-drop" Source {
        /// The source.
        source: Name,
        /// As in `source-put`.
        #[serde(default)] plan: bool,
    }
    /// Stops everything and powers off.
    Poweroff "poweroff" Control {}
    /// Stops everything and reboots.
    Reboot "reboot" Control {}
    /// Stops everything and halts the machine.
    Halt "halt" Control {}
    /// Stops everything and exits with this status.
    Exit "exit" Control {
        /// The exit status; 0 if absent.
        #[serde(default)] code: u8,
    }
    /// Cuts a shutdown in progress short: the remaining processes are killed, and file systems are
    /// synced and unmounted. Refused if no shutdown is in progress.
    Hasten "hasten" Control {
        /// Skip these steps too: the kernel ends everything at once.
        #[serde(default)] at_once: bool,
    }
    /// Re-executes init from a binary.
    Upgrade "upgrade" Control {
        /// The binary; the running one if absent.
        #[serde(default)] binary: Option<String>,
    }
    /// Continues as the init of another root, from an initramfs.
    SwitchRoot "switch-root" Control {
        /// A mount point.
        root: String,
        /// The path of init in that root; `/sbin/init` if absent.
        #[serde(default)] init: Option<String>,
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Chosen by the caller, repeated in each answer.
    pub id: u64,
    /// The verb.
    pub verb: Verb,
}

/// The error of a malformed request; `id` is set if it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The caller's id, if it could be read.
    pub id: Option<u64>,
    /// `protocol`, `version` or `unknown-verb`.
    pub kind: &'static str,
    /// The message.
    pub message: String,
    /// The hint.
    pub hint: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    v: Option<u32>,
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    verb: Option<String>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    v: u32,
    id: u64,
    #[serde(flatten)]
    verb: &'a Verb,
}

impl Request {
    /// Reads one line, with or without its newline.
    pub fn parse(line: &[u8]) -> Result<Request, Malformed> {
        let protocol = |id, message: String| Malformed {
            id,
            kind: "protocol",
            message,
            hint: r#"a request is one line {"v":1,"id":1,"verb":"status"}"#.to_string(),
        };
        if line.len() > limit::REQUEST_LINE {
            return Err(protocol(None, format!("longer than {} bytes", limit::REQUEST_LINE)));
        }
        if depth(line) > limit::JSON_DEPTH {
            return Err(protocol(None, format!("nested deeper than {}", limit::JSON_DEPTH)));
        }
        let head: Head =
            serde_json::from_slice(line).map_err(|error| protocol(None, format!("{error}")))?;
        match head.v {
            Some(VERSION) => {}
            Some(other) => {
                return Err(Malformed {
                    id: head.id,
                    kind: "version",
                    message: format!("version {other} is not spoken here"),
                    hint: format!("this init speaks version {VERSION}"),
                });
            }
            None => return Err(protocol(head.id, "no version (`v`)".to_string())),
        }
        let Some(id) = head.id else { return Err(protocol(None, "no `id`".to_string())) };
        let Some(word) = head.verb else {
            return Err(protocol(Some(id), "no `verb`".to_string()));
        };
        if !TABLE.iter().any(|(known, _)| *known == word) {
            return Err(Malformed {
                id: Some(id),
                kind: "unknown-verb",
                message: "this init does not know that verb".to_string(),
                hint: "initctl and init may be of different versions".to_string(),
            });
        }
        let verb = serde_json::from_slice(line)
            .map_err(|error| protocol(Some(id), format!("{word}: {error}")))?;
        Ok(Request { id, verb })
    }

    /// The line to send, newline included.
    pub fn line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(&Envelope { v: VERSION, id: self.id, verb: &self.verb })?;
        line.push(b'\n');
        Ok(line)
    }
}

/// Returns the greatest depth of brackets in a JSON text. Brackets within strings do not count.
fn depth(text: &[u8]) -> usize {
    let (mut deepest, mut now, mut quoted, mut escaped) = (0usize, 0usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn encoded_request_is_parsed_back_unchanged() {
        let asked = Request {
            id: 7,
            verb: Verb::SetTarget {
                targets: vec![name("web")],
                want: vec![name("tcpdump")],
                drop: Vec::new(),
            },
        };
        let line = asked.line().expect("a line");
        assert!(line.ends_with(b"\n"));
        assert_eq!(Request::parse(&line), Ok(asked));
    }

    #[test]
    fn missing_request_field_gets_its_default_and_unknown_field_is_ignored() {
        let read = Request::parse(br#"{"v":1,"id":1,"verb":"status","later":{"x":1}}"#);
        assert_eq!(read, Ok(Request { id: 1, verb: Verb::Status { targets: Vec::new() } }));
    }

    #[test]
    fn malformed_request_is_refused_with_a_specific_error() {
        let deep = format!(r#"{{"v":1,"id":1,"verb":"status","x":{}"#, "[".repeat(1_000_000));
        let long = format!(r#"{{"v":1,"id":1,"verb":"{}"}}"#, "x".repeat(limit::REQUEST_LINE));
        let cases: [(&[u8], Option<u64>, &str); 12] = [
            (b"", None, "protocol"),
            (b"null", None, "protocol"),
            (b"{}", None, "protocol"),
            (b"\0\xff", None, "protocol"),
            (br#"{"v":1,"verb":"ping"}"#, None, "protocol"),
            (br#"{"v":1,"id":-1,"verb":"ping"}"#, None, "protocol"),
            (br#"{"v":0,"id":3,"verb":"ping"}"#, Some(3), "version"),
            (br#"{"v":1,"id":3,"verb":"format-disk"}"#, Some(3), "unknown-verb"),
            (br#"{"v":1,"id":3,"verb":"why"}"#, Some(3), "protocol"),
            (br#"{"v":1,"id":3,"verb":"why","target":"../x"}"#, Some(3), "protocol"),
            (deep.as_bytes(), None, "protocol"),
            (long.as_bytes(), None, "protocol"),
        ];
        for (line, id, kind) in cases {
            let said = Request::parse(line).expect_err("no request");
            assert_eq!((said.id, said.kind), (id, kind), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn brackets_within_json_strings_do_not_count_as_depth() {
        assert_eq!(depth(br#"{"a":"[[[[\"[","b":[1]}"#), 2);
    }

    #[test]
    fn only_query_verbs_have_the_role_read() {
        let open: Vec<&str> =
            TABLE.iter().filter(|(_, role)| *role == Role::Read).map(|(word, _)| *word).collect();
        assert_eq!(
            open,
            [
                "ping", "status", "why", "plan", "graph", "blame", "timers", "sockets", "events",
                "wait", "cat", "whose", "stats"
            ]
        );
        assert!(TABLE.iter().all(|(_, role)| *role != Role::Logs), "logs are the logger's");
    }
}
