//! API v1 over a real socket: statuses, headers, bytes and words as in fleet 1.0, and the
//! improvements where fleet failed.

use crate::stand::{Plan, Reply, Stand};
use cluster::api::logs::Logs;
use cluster::api::server::{LARGEST_BODY, Settings};
use cluster::machine::MachineId;
use cluster::unit_file::UnitFile;

const SLEEP: &str = r#"[{"name":"ExecStart","section":"Service","value":"/bin/sleep 1000"}]"#;
const OTHER: &str = r#"[{"name":"ExecStart","section":"Service","value":"/bin/sleep 2000"}]"#;

fn body(options: Option<&str>, desired: Option<&str>) -> String {
    let mut fields = Vec::new();
    fields.extend(desired.map(|desired| format!("\"desiredState\":\"{desired}\"")));
    fields.extend(options.map(|options| format!("\"options\":{options}")));
    format!("{{{}}}", fields.join(","))
}

#[test]
fn connection_is_kept_open_for_the_next_request() {
    use std::io::Write;
    let stand = Stand::new(Plan::of(&[]));
    let mut stream = stand.connect();
    for _ in 0..3 {
        stream.write_all(b"GET /fleet/v1/units HTTP/1.1\r\nHost: domain-sock\r\n\r\n").unwrap();
        let reply = Reply::read(&mut stream).unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (200, "{}"));
    }
}

#[test]
fn every_path_and_method_has_its_answer() {
    let stand = Stand::new(Plan::of(&["m1"]));
    assert_eq!(stand.put("a.service", &body(Some(SLEEP), None)).status, 201);
    let only_get = "only GET supported against this resource";
    let item = "only GET, PUT and DELETE supported against this resource";
    let table = [
        ("GET", "/", 405, ""),
        ("PUT", "/fleet/v1", 405, ""),
        ("GET", "/v1-alpha", 405, ""),
        ("GET", "/fleet/v1/", 404, ""),
        ("GET", "/fleet", 404, ""),
        ("GET", "/bogus", 404, ""),
        ("GET", "/fleet/v1/units/", 404, ""),
        ("GET", "/fleet/v1/units/a.service/", 404, ""),
        ("GET", "/fleet/v1/units/x/y", 404, ""),
        ("GET", "/fleet/v1/machines/m1", 404, ""),
        ("GET", "/fleet/v1/units/foo%2Fbar.service", 404, ""),
        ("POST", "/fleet/v1/units", 405, only_get),
        ("POST", "/fleet/v1/units/a.service", 405, item),
        ("PATCH", "/fleet/v1/units/a.service", 405, item),
        ("OPTIONS", "/fleet/v1/units/a.service", 405, item),
        ("PUT", "/fleet/v1/state", 405, only_get),
        ("DELETE", "/fleet/v1/state/a.service", 405, only_get),
        ("GET", "/fleet/v1/state/a.service", 404, "unit state does not exist"),
        ("DELETE", "/fleet/v1/machines", 405, "only GET and PATCH supported against this resource"),
        ("PUT", "/fleet/v1/discovery", 400, "only HTTP GET supported against this resource"),
        ("DELETE", "/v1-alpha/units/none.service", 404, "unit does not exist"),
        ("GET", "/fleet/v1/units/%00", 404, "unit does not exist"),
    ];
    for (method, path, status, words) in table {
        let reply = stand.ask(method, path, None);
        assert_eq!(reply.fault(), (status, words.to_string()), "{method} {path}");
        assert_eq!(reply.headers["content-type"], "application/json", "{method} {path}");
    }
    let moved = stand.get("/fleet//v1/units/../units");
    assert_eq!((moved.status, moved.headers["location"].as_str()), (301, "/fleet/v1/units"));
    let moved = stand.get("//fleet/v1/state?alt=json&unitName=a%22");
    let place = "/fleet/v1/state?alt=json&unitName=a%22";
    assert_eq!((moved.status, moved.headers["location"].as_str()), (301, place));
    let link = "<a href=\"/fleet/v1/state?alt=json&amp;unitName=a%22\">Moved Permanently</a>.\n\n";
    assert_eq!(moved.body, link);
    let head = "HEAD /fleet/v1/units HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(stand.send(head.as_bytes()).status, 405);
    let described = stand.get("/v1-alpha/discovery");
    assert_eq!(described.json()["baseUrl"], "$ENDPOINT/fleet/v1/");
}

#[test]
fn put_has_the_result_in_the_table_for_each_state() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let state = |name: &str| stand.get(&format!("/fleet/v1/units/{name}")).json();
    let put = |name: &str, options, desired| stand.put(name, &body(options, desired)).status;
    // The unit does not exist.
    assert_eq!(put("a.service", None, None), 409);
    assert_eq!(put("a.service", None, Some("launched")), 409);
    assert_eq!(put("a.service", Some(SLEEP), Some("flying")), 400);
    assert_eq!(put("a.service", Some(SLEEP), None), 201);
    assert_eq!(state("a.service")["desiredState"], "inactive");
    assert_eq!(put("b.service", Some(SLEEP), Some("launched")), 201);
    assert_eq!(state("b.service")["desiredState"], "launched");
    // The unit exists.
    assert_eq!(put("a.service", None, None), 409);
    assert_eq!(put("a.service", Some(SLEEP), None), 409);
    assert_eq!(put("a.service", Some(SLEEP), Some("loaded")), 204);
    assert_eq!(put("a.service", None, Some("launched")), 204);
    assert_eq!(put("a.service", None, Some("flying")), 400);
    assert_eq!(state("a.service")["desiredState"], "launched");
    // Another file means destroy and create.
    assert_eq!(put("a.service", Some(OTHER), Some("flying")), 400);
    assert_eq!(put("a.service", Some(OTHER), None), 201);
    assert_eq!(state("a.service")["desiredState"], "inactive");
    assert_eq!(state("a.service")["options"][0]["value"], "/bin/sleep 2000");
    // The required file is not stored.
    let instead = |name: &str, hash: &str| {
        let body = format!(r#"{{"options":{SLEEP},"desiredState":"loaded","insteadOf":"{hash}"}}"#);
        stand.put(name, &body).status
    };
    let hash = UnitFile { options: serde_json::from_str(OTHER).unwrap() }.hash();
    assert_eq!((instead("a.service", "other"), instead("gone.service", &hash)), (412, 412));
    assert_eq!(state("a.service")["options"][0]["value"], "/bin/sleep 2000");
    assert_eq!((instead("a.service", &hash), instead("a.service", &hash)), (201, 412));
    // The required desired state is not stored.
    let while_desired = |desired: &str| {
        let body = format!(
            r#"{{"options":{OTHER},"desiredState":"{desired}","insteadOfState":"{desired}"}}"#
        );
        stand.put("a.service", &body).status
    };
    assert_eq!(while_desired("launched"), 412);
    assert_eq!(state("a.service")["desiredState"], "loaded");
    assert_eq!((while_desired("loaded"), while_desired("inactive")), (201, 412));
    assert_eq!(state("a.service")["desiredState"], "loaded");
    // A template never runs.
    assert_eq!(put("t@.service", Some(SLEEP), Some("launched")), 400);
    assert_eq!(put("t@.service", Some(SLEEP), Some("inactive")), 201);
    let refused = stand.put("t@.service", &body(None, Some("loaded")));
    assert_eq!(refused.fault(), (400, "cannot activate template \"t@.service\"".to_string()));
    assert_eq!(put("t@.service", Some(OTHER), Some("launched")), 400);
    assert_eq!(put("t@1.service", None, Some("launched")), 409);
    // Desired state and machines cannot change in one request.
    let global = r#"[{"section":"X-Fleet","name":"Global","value":"true"}]"#;
    assert_eq!(put("g.service", Some(global), Some("loaded")), 201);
    let both = |desired: &str| format!(r#"{{"desiredState":"{desired}","machines":["m9"]}}"#);
    assert_eq!(stand.put("g.service", &both("launched")).status, 400);
    assert_eq!(state("g.service")["desiredState"], "loaded");
    assert_eq!(stand.put("g.service", &both("loaded")).status, 204);
    assert_eq!(state("g.service")["machines"], serde_json::json!(["m9"]));
    // A file that is not global would remove the unit from all machines.
    let local = format!(r#"{{"options":{SLEEP},"desiredState":"loaded","machines":["m9"]}}"#);
    let expected = "machines is only valid for a global unit: the new file is not global";
    assert_eq!(stand.put("g.service", &local).fault(), (400, expected.to_string()));
    assert_eq!(state("g.service")["machines"], serde_json::json!(["m9"]));
    // The unit is gone.
    assert_eq!(stand.ask("DELETE", "/fleet/v1/units/a.service", None).status, 204);
    assert_eq!(stand.ask("DELETE", "/fleet/v1/units/a.service", None).status, 404);
}

#[test]
fn refused_put_has_fleets_error_message() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let fleet = |lines: &[(&str, &str)]| {
        let option = |(name, value): &(&str, &str)| {
            format!(r#"{{"name":"{name}","section":"X-Fleet","value":"{value}"}}"#)
        };
        format!("{{\"options\":[{}]}}", lines.iter().map(option).collect::<Vec<_>>().join(","))
    };
    let table = [
        ("a.service", String::new(), "unable to decode body: EOF"),
        ("a.service", "{".to_string(), "unable to decode body: unexpected EOF"),
        (
            "a.service",
            r#"{"name":"b.service"}"#.to_string(),
            "name in URL \"a.service\" differs from unit name in request body \"b.service\"",
        ),
        ("foo", body(Some(SLEEP), None), "unit name must contain \".\""),
        ("foo.bar", body(Some(SLEEP), None), "invalid unit type: \"bar\""),
        (
            "a.service",
            fleet(&[("MachineID", "m1"), ("MachineOf", "b.service")]),
            "MachineID cannot be used with Peers",
        ),
        (
            "a.service",
            fleet(&[("MachineID", "m1"), ("Conflicts", "b.service")]),
            "MachineID cannot be used with Conflicts",
        ),
        (
            "a.service",
            fleet(&[("MachineID", "m1"), ("Global", "true")]),
            "MachineID cannot be used with Global",
        ),
        (
            "a.service",
            fleet(&[("MachineID", "m1"), ("Replaces", "b.service")]),
            "MachineID cannot be used with Replaces",
        ),
        (
            "a.service",
            fleet(&[("Global", "true"), ("MachineOf", "b.service")]),
            "Global cannot be used with Peers",
        ),
        (
            "a.service",
            fleet(&[("Global", "true"), ("Replaces", "b.service")]),
            "Global cannot be used with Replaces",
        ),
        (
            "a.service",
            fleet(&[("Conflicts", "c.service"), ("Replaces", "b.service")]),
            "Conflicts cannot be used with Replaces",
        ),
        (
            "a.service",
            fleet(&[("MachineOf", "b.service"), ("Conflicts", "b.*")]),
            "unresolvable requirements: peer \"b.service\" matches conflict \"b.*\"",
        ),
        (
            "a.service",
            fleet(&[("MachineOf", "b.service"), ("Replaces", "b.*")]),
            "unresolvable requirements: peer \"b.service\" matches replace \"b.*\"",
        ),
    ];
    for (name, body, words) in table {
        assert_eq!(stand.put(name, &body).fault(), (400, words.to_string()), "{name} {body}");
    }
}

#[test]
fn too_large_unit_is_refused_before_it_is_processed() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let put = |count: usize, section: &dyn Fn(usize) -> String, value: &str| {
        let option = |n| {
            let section = section(n);
            format!(r#"{{"name":"A","section":"{section}","value":"{value}"}}"#)
        };
        let options: Vec<String> = (0..count).map(option).collect();
        stand.put("a.service", &format!("{{\"options\":[{}]}}", options.join(",")))
    };
    let words = "unit file too large (max 4096 options and 262144 bytes)";
    let one = |_: usize| "Service".to_string();
    let wide = |n: usize| format!("{n:0>200}");
    assert_eq!(put(4097, &one, "b").fault(), (400, words.to_string()), "options");
    assert_eq!(put(4096, &one, &"b".repeat(100)).fault(), (400, words.to_string()), "lines");
    assert_eq!(put(4096, &wide, "b").fault(), (400, words.to_string()), "sections");
    assert_eq!(put(4096, &|n| format!("S{n}"), "b").status, 201, "each in a section of its own");
    assert_eq!(put(4096, &one, "b").status, 201);
}

/// fleet's client escapes `&`, `<` and `>` like this.
#[test]
fn largest_unit_fits_into_a_body_with_any_escaping() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let value = r"\u0026".repeat(2000);
    let option = format!(r#"{{"name":"A","section":"Service","value":"{value}"}}"#);
    let body = format!("{{\"options\":[{}]}}", vec![option; 130].join(","));
    assert!(body.len() > 1024 * 1024 && body.len() < LARGEST_BODY, "{}", body.len());
    assert_eq!(stand.put("a.service", &body).status, 201);
    let file = &stand.get("/fleet/v1/units/a.service").json()["options"];
    assert_eq!(file[129]["value"], "&".repeat(2000));
}

#[test]
fn option_value_adds_no_second_option_and_unknown_fields_are_ignored() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let smuggled = body(Some(r#"[{"name":"A","section":"Service","value":"b\nUser=root"}]"#), None);
    assert_eq!(stand.put("a.service", &smuggled).status, 400);
    // Empty values are kept.
    let empty =
        r#"[{"name":"","section":"Service","value":"x"},{"name":"A","section":"","value":""}]"#;
    assert_eq!(stand.put("empty.service", &body(Some(empty), None)).status, 201);
    let kept = &stand.get("/fleet/v1/units/empty.service").json()["options"];
    assert_eq!(*kept, serde_json::from_str::<serde_json::Value>(empty).unwrap());
    // Text after the first value and unknown fields are ignored.
    let lenient = format!("{{\"options\":{SLEEP},\"new\":[1],\"machineID\":\"x\"}} trailing");
    assert_eq!(stand.put("a.service", &lenient).status, 201);
}

#[test]
fn the_content_type_is_enforced() {
    let stand = Stand::new(Plan::of(&[]));
    let body = body(Some(SLEEP), None);
    let put = |headers: &str| {
        let length = body.len();
        let head = "PUT /fleet/v1/units/a.service HTTP/1.1\r\nHost: x\r\n";
        stand.send(format!("{head}{headers}Content-Length: {length}\r\n\r\n{body}").as_bytes())
    };
    let only = "only acceptable Content-Type is application/json";
    assert_eq!(put("").fault(), (415, "expected 1 Content-Type, got 0".to_string()));
    assert_eq!(put("Content-Type: text/plain\r\n").fault(), (415, only.to_string()));
    assert_eq!(put("Content-Type: Application/JSON\r\n").fault(), (415, only.to_string()));
    let two = "Content-Type: application/json\r\nContent-Type: application/json\r\n";
    assert_eq!(put(two).fault(), (415, "expected 1 Content-Type, got 2".to_string()));
    assert_eq!(put("Content-Type: application/json; charset=utf-8\r\n").status, 201);
}

#[test]
fn a_ring_of_replaces_is_refused_and_named() {
    let stand = Stand::new(Plan::of(&["m1", "m2"]));
    let replacing = |other: &str| {
        body(
            Some(&format!(
                r#"[{{"name":"ExecStart","section":"Service","value":"/bin/a"}},{{"name":"Replaces","section":"X-Fleet","value":"{other}"}}]"#
            )),
            None,
        )
    };
    assert_eq!(stand.put("a.service", &replacing("b.service")).status, 201);
    assert_eq!(stand.put("b.service", &replacing("c.service")).status, 201);
    let refused = stand.put("c.service", &replacing("a.*")).fault();
    assert_eq!(
        refused,
        (
            400,
            "circular replacement is not allowed: c.service -> a.service -> b.service -> c.service"
                .to_string()
        )
    );
    assert_eq!(stand.put("d.service", &replacing("d.service")).status, 201);
}

#[test]
fn pages_come_from_one_snapshot() {
    let settings = Settings { token_limit: 3, ..Settings::default() };
    let stand = Stand::new(Plan { settings, ..Plan::of(&[]) });
    for number in 1..=9 {
        assert_eq!(stand.put(&format!("u{number}.service"), &body(Some(SLEEP), None)).status, 201);
    }
    let names = |page: &serde_json::Value| -> Vec<String> {
        let units = page["units"].as_array().cloned().unwrap_or_default();
        units.iter().map(|unit| unit["name"].as_str().unwrap().replace(".service", "")).collect()
    };
    let next = |page: &serde_json::Value| page["nextPageToken"].as_str().unwrap().to_string();
    let first = stand.get("/fleet/v1/units").json();
    assert_eq!(names(&first), ["u1", "u2", "u3"]);
    // Changes between the pages do not show.
    assert_eq!(stand.ask("DELETE", "/fleet/v1/units/u4.service", None).status, 204);
    assert_eq!(stand.put("u45.service", &body(Some(SLEEP), None)).status, 201);
    let second = stand.get(&format!("/fleet/v1/units?nextPageToken={}", next(&first))).json();
    assert_eq!(names(&second), ["u4", "u5", "u6"]);
    let third = stand.get(&format!("/fleet/v1/units?nextPageToken={}", next(&second))).json();
    assert_eq!(names(&third), ["u7", "u8", "u9"]);
    assert!(third.get("nextPageToken").is_none(), "no empty page after a full one");
    // A token of fleet 1.0 is accepted; one beyond the end gives an empty page.
    assert_eq!(names(&stand.get("/fleet/v1/units?nextPageToken=AwABAA==").json()).len(), 3);
    assert_eq!(stand.get("/fleet/v1/units?nextPageToken=AwD__w==").body, "{}");
    let bad = |token: &str| stand.get(&format!("/fleet/v1/machines?nextPageToken={token}")).fault();
    assert_eq!(bad("EwBMLg=="), (400, "token limit must be 3".to_string()));
    assert_eq!(bad(""), (400, "EOF".to_string()));
    assert_eq!(bad("a&nextPageToken=b"), (400, "too many values for page token".to_string()));
}

#[test]
fn states_are_filtered_before_they_are_paged() {
    let stand = Stand::new(Plan::of(&["m1", "m2"]));
    for name in ["a.service", "b.service", "c.service"] {
        stand.put(name, &body(Some(SLEEP), Some("launched")));
    }
    let count = |query: &str| {
        let page = stand.get(&format!("/fleet/v1/state{query}")).json();
        page["states"].as_array().map_or(0, Vec::len)
    };
    stand.until("three states", |_| count("") == 3);
    assert_eq!(count("?unitName=a.service"), 1);
    assert_eq!(count("?machineID=m1") + count("?machineID=m2"), 3);
    assert_eq!(count("?machineID=m3"), 0);
    assert_eq!(count("?machineID=&unitName="), 3);
    assert_eq!(count("?unitName=a.service&unitName=b.service"), 1);
}

#[test]
fn too_large_request_is_refused() {
    let stand = Stand::new(Plan::of(&[]));
    let size = LARGEST_BODY + 1;
    let head = format!(
        "PUT /fleet/v1/units/a.service HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {size}\r\n\r\n"
    );
    assert_eq!(stand.send(head.as_bytes()).status, 413);
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    let mut stream = stand.connect();
    let _ = std::io::Write::write_all(&mut stream, long.as_bytes());
    let reply = Reply::read(&mut stream);
    assert!(reply.is_none_or(|reply| (400..500).contains(&reply.status)));
}

#[test]
fn log_request_with_an_invalid_machine_id_is_refused() {
    let logs = Logs {
        machine: MachineId::new("m1").unwrap(),
        socket: "/nonexistent/logger.sock".into(),
        tls: None,
    };
    let settings = Settings { logs: Some(logs), ..Settings::default() };
    let stand = Stand::new(Plan { settings, ..Plan::of(&["m1"]) });
    assert_eq!(stand.put("a.service", &body(Some(SLEEP), Some("launched"))).status, 201);
    stand.until("it is there", |stand| {
        stand.get("/fleet/v1/units/a.service").json()["machineID"] == "m1"
    });
    let logs = |query: &str| stand.get(&format!("/fleet/v1/logs/a.service{query}")).status;
    // The logger of m1 is asked and does not answer.
    assert_eq!([logs(""), logs("?machineID="), logs("?machineID=m1")], [503, 503, 503]);
    assert_eq!([logs("?machineID=a%2Fb"), logs("?machineID=000")], [400, 400]);
}
