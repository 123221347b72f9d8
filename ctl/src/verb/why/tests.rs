//! Tests of `why` output, from literal answers.

use super::*;
use serde_json::{Value, json};

fn now() -> WallTime {
    WallTime::parse("2026-11-21T05:00:00.000Z").unwrap()
}

fn why(answer: Value) -> Why {
    serde_json::from_value(answer).unwrap()
}

#[test]
fn why_prints_the_chain_down_to_the_exit_status() {
    let on = json!({"kind": "dependency", "text": "network-online is failed",
        "target": "network-online", "unit": "network-online"});
    let dhcp = json!({"kind": "dependency", "text": "dhcp (unit dhcpcd) is failed",
        "target": "dhcp", "unit": "dhcpcd"});
    let exit = json!({"kind": "exit", "text": "its process exited with status 1", "code": 1});
    let answer = why(json!({
        "schema": 1, "target": "imapd", "unit": "maddy", "state": "failed", "degraded": false,
        "chain": [
            {"unit": "maddy", "target": "imapd", "state": "failed", "degraded": false, "reason": on, "next-try": null},
            {"unit": "network-online", "target": "network-online", "state": "failed", "degraded": false, "reason": dhcp, "next-try": null},
            {"unit": "dhcpcd", "target": "dhcp", "state": "failed", "degraded": false, "reason": exit, "next-try": null,
             "file": "/etc/groundstate/units/net.yaml", "line": 7},
        ],
        "needed-by": [
            {"unit": "multi-user", "target": "imapd", "kind": "waits-for"},
            {"unit": null, "target": "imapd", "kind": null},
        ],
        "affects": [{"unit": "multi-user", "state": "running", "degraded": true}],
        "detail": null,
    }));
    let tail = ["eth0: carrier lost".to_string()];
    let want = "\
imapd (maddy) is FAILED (DEPENDENCY) because network-online is failed
  x imapd (maddy)      failed (dependency)  network-online is failed
    x network-online   failed (dependency)  dhcp (unit dhcpcd) is failed
      x dhcp (dhcpcd)  failed               its process exited with status 1
  root cause   dhcp (dhcpcd), defined in /etc/groundstate/units/net.yaml:7
  last output  eth0: carrier lost
  needed by    multi-user (waits-for), the goal
  affects      multi-user (degraded)
  next         not retried automatically; `initctl logs dhcpcd` shows why, `initctl retry dhcpcd` retries
";
    assert_eq!(render(&answer, &tail, now(), &Style::PLAIN), want);
}

#[test]
fn why_prints_a_file_error_with_its_line() {
    let answer = why(json!({
        "schema": 1, "target": "web", "unit": "web", "state": "failed", "degraded": false,
        "chain": [{"unit": "web", "target": "web", "state": "failed", "degraded": false, "reason": {
            "kind": "config", "text": "/u/web.yaml:7:1: unknown key `depend-on`",
            "file": "/u/web.yaml", "line": 7, "column": 1, "message": "unknown key `depend-on`",
        }, "next-try": null}],
        "needed-by": [], "affects": [], "detail": null,
    }));
    let text = render(&answer, &[], now(), &Style::PLAIN);
    assert!(text.starts_with("web is FAILED: /u/web.yaml:7:1: unknown key"), "{text}");
    assert!(text.contains("next         correct /u/web.yaml:7, then `initctl reload`"), "{text}");
}

#[test]
fn why_of_a_healthy_target_lists_its_dependents() {
    let answer = why(json!({
        "schema": 1, "target": "db", "unit": "db", "state": "running", "degraded": false,
        "chain": [{"unit": "db", "target": "db", "state": "running", "degraded": false, "reason": null, "next-try": null}],
        "needed-by": [{"unit": "web", "target": "db", "kind": "depends-on"}],
        "affects": [], "detail": null,
    }));
    let want = "db is RUNNING because web needs db\n  needed by    web (depends-on)\n";
    assert_eq!(render(&answer, &[], now(), &Style::PLAIN), want);
}

#[test]
fn why_of_a_unit_in_backoff_prints_the_time_of_the_next_try() {
    let answer = why(json!({
        "schema": 1, "target": "db", "unit": "db", "state": "waiting", "degraded": false,
        "chain": [{"unit": "db", "target": "db", "state": "waiting", "degraded": false, "reason": {
            "kind": "backoff", "text": "retry pending after 1 failure", "attempt": 1,
            "at": "2026-11-21T05:00:03.200Z",
        }, "next-try": "2026-11-21T05:00:03.200Z"}],
        "needed-by": [], "affects": [], "detail": null,
    }));
    let text = render(&answer, &[], now(), &Style::PLAIN);
    assert!(
        text.contains("next         retried in 3.2s; `initctl retry db` retries now"),
        "{text}"
    );
}

#[test]
fn dependent_of_a_masked_or_dropped_unit_is_not_called_masked_itself() {
    for (dropped, text, next) in [
        (Value::Null, "net is masked", "`initctl unmask net` allows its start"),
        (
            json!("net"),
            "net is dropped from the goal (-net)",
            "`initctl unwant net` removes -net from the goal",
        ),
    ] {
        let reason = json!({"kind": "masked", "text": text, "target": "net", "dropped": dropped});
        let link = |unit: Value, target: &str| {
            json!({"unit": unit, "target": target, "state": "failed", "degraded": false,
                "reason": reason, "next-try": null})
        };
        let mut answer = json!({
            "schema": 1, "target": "web", "unit": "web", "state": "failed", "degraded": false,
            "chain": [link(json!("web"), "web"), link(Value::Null, "net")],
            "needed-by": [], "affects": [], "detail": null,
        });
        let said = render(&why(answer.clone()), &[], now(), &Style::PLAIN);
        let first = format!("web is FAILED (DEPENDENCY) because {text}\n");
        assert!(said.starts_with(&first), "{said}");
        assert!(said.ends_with(&format!("  next         {next}\n")), "{said}");
        answer["target"] = json!("net");
        answer["unit"] = Value::Null;
        answer["chain"] = json!([link(Value::Null, "net")]);
        let said = render(&why(answer), &[], now(), &Style::PLAIN);
        let word = if dropped.is_null() { "MASKED" } else { "DROPPED from the goal" };
        assert_eq!(said, format!("net is {word}\n  next         {next}\n"));
    }
}

#[test]
fn why_of_a_masked_target_says_masked_and_not_failed() {
    let masked = json!({"kind": "masked", "text": "db is masked", "target": "db"});
    for state in ["failed", "disabled"] {
        let answer = why(json!({
            "schema": 1, "target": "db", "unit": "db", "state": state, "degraded": false,
            "chain": [{"unit": "db", "target": "db", "state": state, "degraded": false,
                "reason": masked, "next-try": null}],
            "needed-by": [], "affects": [], "detail": null,
        }));
        let want = "db is MASKED\n  next         `initctl unmask db` allows its start\n";
        assert_eq!(render(&answer, &[], now(), &Style::PLAIN), want);
    }
}

#[test]
fn why_of_a_stopping_unit_prints_the_reason_of_the_stop() {
    for (needed, because) in
        [(false, "the goal does not need it any more"), (true, "it is being restarted")]
    {
        let answer = why(json!({
            "schema": 1, "target": "db", "unit": "db", "state": "stopping", "degraded": false,
            "chain": [{"unit": "db", "target": "db", "state": "stopping", "degraded": false,
                "reason": null, "next-try": null}],
            "needed-by": [], "affects": [],
            "detail": {"unit": "db", "type": "oneshot", "provides": ["db"], "state": "stopping",
                "degraded": false, "main-pid": null, "since": "2026-11-21T05:00:00.000Z",
                "attempt": 0, "stale": false, "reason": null, "needed": needed},
        }));
        let text = render(&answer, &[], now(), &Style::PLAIN);
        assert!(text.starts_with(&format!("db is STOPPING (0ms) because {because}\n")), "{text}");
    }
}

#[test]
fn why_of_an_activated_unit_names_its_trigger() {
    let answer = why(json!({
        "schema": 1, "target": "echo", "unit": "echo", "state": "running", "degraded": false,
        "chain": [{"unit": "echo", "target": "echo", "state": "running", "degraded": false, "reason": null, "next-try": null}],
        "needed-by": [], "affects": [], "detail": null,
        "activated-by": [{"unit": "door", "state": "running", "degraded": false}],
    }));
    let text = render(&answer, &[], now(), &Style::PLAIN);
    assert!(text.starts_with("echo is RUNNING because door activated it\n"), "{text}");
}

#[test]
fn why_of_a_degraded_unit_names_the_cause_and_the_time_since_it_is_up() {
    let masked = json!({"kind": "masked", "text": "web is masked", "target": "web"});
    let detail = json!({
        "unit": "all", "type": "virtual", "description": "", "provides": ["all"], "state": "running",
        "degraded": true, "main-pid": null, "run": 1, "since": "2026-11-21T04:59:00.000Z", "attempt": 0,
        "next-try": null, "verdict": false, "stale": false, "needed": true, "needed-by": ["the goal"],
        "status": "", "reason": null, "can-reload": false, "remains": true, "file": "", "source": null,
    });
    let answer = why(json!({
        "schema": 1, "target": "all", "unit": "all", "state": "running", "degraded": true,
        "chain": [
            {"unit": "all", "target": "all", "state": "running", "degraded": true, "reason": null, "next-try": null},
            {"unit": null, "target": "web", "state": "failed", "degraded": false, "reason": masked, "next-try": null},
        ],
        "needed-by": [], "affects": [], "detail": detail,
    }));
    let text = render(&answer, &[], now(), &Style::PLAIN);
    assert!(text.starts_with("all is DEGRADED (up 1m) because web is masked\n"), "{text}");
    assert!(text.ends_with("next         `initctl unmask web` allows its start\n"), "{text}");
}

#[test]
fn cause_at_the_end_of_the_chain_is_shown_whole_in_a_narrow_terminal() {
    let link = |target: &str, text: &str| {
        json!({"unit": target, "target": target, "state": "failed", "degraded": false,
            "reason": {"kind": "exit", "text": text, "code": 1}, "next-try": null})
    };
    let answer = why(json!({
        "schema": 1, "target": "srv-data.mount", "unit": "srv-data.mount", "state": "failed",
        "degraded": false,
        "chain": [
            link("srv-data.mount", "dev-disk-by-label-wrong.device is failed"),
            link("dev-disk-by-label-wrong.device", "it was not ready within its start-timeout"),
        ],
        "needed-by": [], "affects": [], "detail": null,
    }));
    let text = render(&answer, &[], now(), &Style { width: Some(60), ..Style::PLAIN });
    assert!(text.contains("failed  dev-disk-by-lab…\n"), "{text}");
    let cause = "failed\n        it was not ready within its start-timeout\n";
    assert!(text.contains(cause), "{text}");
}

#[test]
fn why_of_a_supervised_unit_that_exited_with_status_0_hints_at_the_type() {
    let hint = |kind: &str, code: u8, file: &str| {
        let exit = json!({"kind": "exit", "text": "its process exited", "code": code});
        let answer = why(json!({
            "schema": 1, "target": "web", "unit": "web", "state": "failed", "degraded": false,
            "chain": [{"unit": "web", "target": "web", "state": "failed", "degraded": false,
                "reason": exit, "next-try": null}],
            "detail": {"unit": "web", "type": kind, "state": "failed", "since": "2026-11-21T04:00:00.000Z",
                "needed": true, "reason": exit, "file": file},
        }));
        let text = render(&answer, &[], now(), &Style::PLAIN);
        text.lines().find_map(|line| line.strip_prefix("  hint         ")).map(str::to_string)
    };
    let native = "a program that ends or goes to the background by itself needs type: oneshot or background-pidfile, or an option that keeps it in the foreground";
    let imported = "a program that ends or goes to the background by itself needs Type=oneshot or Type=forking, or an option that keeps it in the foreground";
    assert_eq!(hint("foreground-supervised", 0, "/u/web.yaml").as_deref(), Some(native));
    assert_eq!(hint("foreground-notified", 0, "/u/web.service").as_deref(), Some(imported));
    assert_eq!(hint("foreground-supervised", 1, "/u/web.yaml"), None);
    assert_eq!(hint("background-pidfile", 0, "/u/web.yaml"), None);
}
