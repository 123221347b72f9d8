//! The answers of the control socket, which `initctl --json` prints too. A field without a value is
//! `null`; a field is absent only where its comment says so. Fields may be added, but not renamed or
//! removed.
//! [`crate::control::view`] makes the answers from a machine; `request` has the requests.
//!
//! Points in time are strings (RFC 3339 in UTC with milliseconds) and names are plain strings, so
//! that an old `initctl` can read the answers of a newer init.

mod blame;
mod doctor;
mod event;
mod graph;
mod init;
mod line;
mod plan;
mod reason;
mod report;
mod status;
mod trigger;
mod why;

pub use crate::machine::reason::System;
pub use blame::{Blame, Timing};
pub use doctor::{Doctor, Finding, Level};
pub use event::Event;
pub use graph::{Edge, Graph, Node};
pub use init::{
    Commits, Dropped, Located, Paths, Pong, Put, Settled, Source, Sources, Stats, Whose,
};
pub use line::{End, Failure, Line};
pub use plan::{Changed, Plan, Told};
pub use reason::{Cause, Reason};
pub use report::{Report, Said, Spot};
pub use status::{Overlay, SourceStatus, Status, TargetStatus, UnitStatus};
pub use trigger::{Accepts, BrokenOff, Connection, SocketStatus, Sockets, TimerStatus, Timers};
pub use why::{Affected, Link, Need, Why};

/// The number in every answer's `schema`.
pub const SCHEMA: u32 = 1;
/// The number in every line's `v`.
pub const PROTOCOL: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::reason::State;
    use crate::spec::Kind;

    #[test]
    fn reason_is_serialized_as_one_flat_object_with_its_kind() {
        let reason =
            Reason { text: "its process exited 3".to_string(), cause: Cause::Exit { code: 3 } };
        let json = serde_json::to_string(&reason).unwrap();
        assert_eq!(json, r#"{"text":"its process exited 3","kind":"exit","code":3}"#);
        assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), reason);
    }

    #[test]
    fn reason_kind_of_a_later_release_is_read_as_other() {
        let json = r#"{"kind":"eaten-by-grue","text":"it was dark"}"#;
        let reason: Reason = serde_json::from_str(json).unwrap();
        assert_eq!(reason.text, "it was dark");
        assert_eq!(reason.cause, Cause::Other);
    }

    #[test]
    fn state_of_an_idle_unit_is_read_by_both_names() {
        for name in [r#""disabled""#, r#""idle""#] {
            assert_eq!(serde_json::from_str::<State>(name).unwrap(), State::Disabled);
        }
        assert_eq!((State::Disabled.as_str(), State::Disabled.word()), ("disabled", "idle"));
    }

    #[test]
    fn status_of_a_unit_without_values_has_its_fields() {
        let unit = UnitStatus {
            unit: "a".to_string(),
            kind: Kind::Virtual,
            description: String::new(),
            provides: vec![],
            state: State::Disabled,
            idle: true,
            degraded: false,
            main_pid: None,
            run: None,
            since: "1970-01-01T00:00:00.000Z".to_string(),
            attempt: 0,
            next_try: None,
            verdict: false,
            stale: false,
            needed: false,
            needed_by: vec![],
            status: String::new(),
            reason: None,
            can_reload: false,
            reload_failed: false,
            remains: true,
            file: String::new(),
            source: None,
        };
        let json = serde_json::to_value(&unit).unwrap();
        for field in ["unit", "type", "provides", "state", "degraded", "main-pid", "since"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        for field in ["attempt", "stale", "reason"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(json.get("main-pid").is_some_and(serde_json::Value::is_null));
        assert_eq!((&json["state"], &json["idle"]), (&"disabled".into(), &true.into()));
    }
}
