//! Tests of `status` output, from literal answers.

use super::*;
use serde_json::{Value, json};

fn now() -> WallTime {
    WallTime::parse("2026-11-21T05:00:00.000Z").unwrap()
}

/// The resources of every unit, in bare mode.
fn unknown(_: &UnitStatus) -> Resources {
    Resources::default()
}

/// A unit with defaults that `with` overrides.
fn unit(name: &str, with: Value) -> Value {
    let mut unit = json!({
        "unit": name, "type": "foreground-supervised", "description": "", "provides": [name],
        "state": "running", "degraded": false, "main-pid": 7, "run": 1,
        "since": "2026-11-18T01:00:00.000Z", "attempt": 0, "next-try": null, "verdict": false,
        "stale": false, "needed": true, "needed-by": [], "status": "", "reason": null,
        "file": "/u/x.yaml", "source": null,
    });
    for (key, value) in with.as_object().unwrap() {
        unit[key] = value.clone();
    }
    unit
}

fn status(system: &str, units: Vec<Value>) -> Status {
    serde_json::from_value(json!({
        "schema": 1, "generation": 17, "goal": ["multi-user"],
        "overlay": {
            "want": ["tcpdump"], "drop": ["cron"], "until": ["2026-11-21T05:47:00.000Z"],
        },
        "system": system, "settled": true, "crashes": 0, "resumed": null,
        "booted": "2026-11-18T01:00:00.000Z", "now": "2026-11-21T05:00:00.000Z",
        "units": units, "targets": [],
    }))
    .unwrap()
}

fn troubled() -> Status {
    let exit = json!({"kind": "exit", "text": "its process exited with status 1", "code": 1});
    status(
        "degraded",
        vec![
            unit(
                "dhcpcd",
                json!({
                    "provides": ["dhcp"], "state": "failed", "attempt": 5, "verdict": true,
                    "reason": exit, "next-try": "2026-11-21T05:00:03.200Z",
                    "needed-by": ["network-online"], "main-pid": null,
                }),
            ),
            unit("ntpd", json!({"degraded": true})),
            unit(
                "web",
                json!({
                    "state": "failed",
                    "reason": {"kind": "dependency", "text": "dhcp (unit dhcpcd) is failed",
                        "target": "dhcp", "unit": "dhcpcd"},
                }),
            ),
            unit("sshd", json!({})),
            unit("getty", json!({})),
            unit("tools", json!({"state": "disabled", "needed": false})),
        ],
    )
}

#[test]
fn status_lists_problems_first_and_folds_healthy_units() {
    let want = "\
multi-user  degraded   5 needed: 2 failed, 1 degraded, 2 running   up 3d 4h   generation 17
overlay    +tcpdump (47m left) -cron
  x dhcp (dhcpcd)  failed               its process exited with status 1, failed 5 times, next try in 3.2s, needed by network-online
  x web            failed (dependency)  dhcp (unit dhcpcd) is failed, for 3d 4h
  ~ ntpd           degraded             up 3d 4h
hint: initctl why dhcp   3 healthy or idle units hidden, --all shows them
";
    assert_eq!(render(&troubled(), now(), &Style::PLAIN, false, true, &unknown), want);
}

#[test]
fn status_with_all_lists_healthy_and_unneeded_units() {
    let text = render(&troubled(), now(), &Style::PLAIN, true, false, &unknown);
    assert_eq!(text.lines().count(), 6);
    assert!(text.starts_with("  x dhcp"), "{text}");
    assert!(text.ends_with("  - tools          idle\n"), "{text}");
}

#[test]
fn idle_instances_of_a_template_are_folded_to_a_few_lines() {
    let idle = json!({"state": "disabled", "needed": false});
    let mut units: Vec<Value> = (0..64).map(|n| unit(&format!("echo@{n}"), idle.clone())).collect();
    units.push(unit("getty@tty1", idle));
    units.push(unit("echo@busy", json!({})));
    let text = render(&status("running", units), now(), &Style::PLAIN, true, true, &unknown);
    let rows: Vec<&str> = text.lines().skip(2).collect();
    let want = [
        "  + echo@busy   running  up 3d 4h",
        "  - echo@0      idle",
        "  - echo@1      idle",
        "  - echo@10     idle",
        "  - getty@tty1  idle",
        "  - 61 more instances of echo@  idle",
    ];
    assert_eq!(rows, want);
}

#[test]
fn coloured_status_has_the_same_text_as_the_plain_one() {
    let colours = Style { colour: true, width: None };
    let painted = render(&troubled(), now(), &colours, true, true, &unknown);
    let painted = crate::style::escaped(&painted);
    let mut plain = String::new();
    let mut rest = &*painted;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_ne!(plain, painted);
    assert_eq!(plain, render(&troubled(), now(), &Style::PLAIN, true, true, &unknown));
}

#[test]
fn status_lines_fit_a_narrow_terminal() {
    let narrow = Style { colour: false, width: Some(60) };
    let text = render(&troubled(), now(), &narrow, false, false, &unknown);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
}

#[test]
fn status_shows_the_crashes_that_init_survived() {
    let mut status = status("running", vec![]);
    status.crashes = 2;
    status.resumed = Some("2026-11-21T04:59:00.000Z".to_string());
    let text = render(&status, now(), &Style::PLAIN, false, true, &unknown);
    assert!(text.contains("survived 2 crashes, the last 1m ago"), "{text}");
}

#[test]
fn status_of_one_unit_shows_details_and_last_log_lines() {
    let mut status = troubled();
    status.units.truncate(1);
    let tail = |_: &str| vec!["eth0: carrier lost".to_string(), "timed out".to_string()];
    let want = "\
x dhcp (dhcpcd)  failed   for 3d 4h
  reason      its process exited with status 1
  next        retried in 3.2s
  failures    5 in a row
  targets     dhcp
  type        foreground-supervised
  needed by   network-online
  file        /u/x.yaml
  log         eth0: carrier lost
              timed out
";
    assert_eq!(details(&status, now(), &Style::PLAIN, &tail, &unknown), want);
}

#[test]
fn status_of_a_target_without_a_provider_says_masked_or_missing() {
    let target = |reason: Value| {
        let mut status = status("degraded", vec![]);
        status.targets = serde_json::from_value(json!([
            {"target": "db", "unit": null, "state": "failed", "reason": reason},
        ]))
        .unwrap();
        details(&status, now(), &Style::PLAIN, &|_| Vec::new(), &unknown)
    };
    let masked = json!({"kind": "masked", "text": "db is masked", "target": "db"});
    assert_eq!(target(masked), "db  failed (dependency)   db is masked\n");
    let missing = json!({"kind": "missing", "text": "no unit provides db", "target": "db"});
    assert_eq!(target(missing), "db  failed (dependency)   no unit provides db\n");
}

#[test]
fn status_of_a_masked_goal_has_its_reason_and_a_hint() {
    let mut status = status("failed", vec![unit("web", json!({"state": "disabled"}))]);
    status.targets = serde_json::from_value(json!([
        {"target": "multi-user", "unit": null, "state": "failed",
            "reason": {"kind": "masked", "text": "multi-user is masked", "target": "multi-user"}},
        {"target": "web", "unit": "web", "state": "disabled", "reason": null},
    ]))
    .unwrap();
    let text = render(&status, now(), &Style::PLAIN, false, true, &unknown);
    let line = "  x multi-user  failed (dependency)  multi-user is masked\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("hint: initctl why multi-user"), "{text}");
}

#[test]
fn resources_columns_that_do_not_fit_are_left_out() {
    let used = |unit: &UnitStatus| match unit.unit.as_str() {
        "sshd" => resources(Some(12_990_000), Some(3), Some(1_200)),
        "getty" => resources(Some(812 * 1024), Some(1), Some(20)),
        "ntpd" => resources(None, Some(12), None),
        _ => Resources::default(),
    };
    let text = |width| {
        let style = Style { colour: false, width };
        let text = render(&troubled(), now(), &style, true, false, &used);
        text.lines().skip_while(|line| !line.starts_with("  ~")).collect::<Vec<_>>().join("\n")
    };
    let whole = [
        "  ~ ntpd           degraded                       12 tasks            up 3d 4h",
        "  + getty          running               812 KiB   1 task   20ms CPU  up 3d 4h",
        "  + sshd           running              12.3 MiB   3 tasks  1.2s CPU  up 3d 4h",
        "  - tools          idle",
    ];
    assert_eq!(text(None), whole.join("\n"));
    let narrow = [
        "  ~ ntpd           degraded                       12 tasks  up 3d 4h",
        "  + getty          running               812 KiB   1 task   up 3d 4h",
        "  + sshd           running              12.3 MiB   3 tasks  up 3d 4h",
        "  - tools          idle",
    ];
    assert_eq!(text(Some(72)), narrow.join("\n"));
    assert_eq!(text(Some(40)).lines().last(), Some("  - tools          idle"));
    assert!(!text(Some(40)).contains("tasks"));
}

fn resources(memory: Option<u64>, tasks: Option<u64>, cpu_ms: Option<u64>) -> Resources {
    let cpu = cpu_ms.map(std::time::Duration::from_millis);
    Resources { cgroup: "/groundstate/x.1".to_string(), memory, tasks, cpu }
}
