//! A request granted while a loader runs still holds after the load. Concurrent loads are in
//! [`super::race`].

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::held::Held;
use groundstate_tests::sandbox::Sandbox;
use serde_json::{Value, json};

/// The file that a loader reads after the settings and the policy, and before any unit.
const ACCOUNTS: &str = "/etc/passwd";

fn two() -> Init {
    let files = Sandbox::new();
    files.unit("base", "wants: cron, other\nexec-start: DAEMON");
    files.unit("cron", "exec-start: DAEMON");
    files.unit("other", "exec-start: DAEMON");
    files.put("policy.yaml", "mask: []\n");
    let init = Boot::new(files).start("base");
    init.when_system("running");
    init
}

fn edit(init: &Init, words: &[&str]) {
    let (code, said) = init.initctl_json(words);
    assert_eq!(code, 0, "{words:?}: {said}");
}

#[test]
fn mask_set_during_a_reload_holds_after_it() {
    let init = two();
    let hang_up = || init.process().signal(nix::sys::signal::Signal::SIGHUP);
    let mut client = init.client().unwrap();
    for round in 0..4 {
        let generation = init.status().0["generation"].clone();
        let held = Held::behind(ACCOUNTS, &init, || match round {
            0 => client.send("plan", &json!({"reload": true})),
            1 => hang_up(),
            _ => client.send("reload", &json!({})),
        });
        edit(&init, &["mask", "cron"]);
        init.when_state("cron", "disabled");
        if round == 3 {
            init.tell("upgrade", &json!({}));
        }
        drop(held);
        match round {
            0 => {
                let plan = client.answer().unwrap().unwrap();
                assert_eq!(plan["start"], json!([]), "{plan}");
            }
            1 => {
                init.when("the reload is done", |s| s.0["generation"] != generation);
            }
            _ => {
                client.answer().unwrap().unwrap();
            }
        }
        assert_eq!(init.status().state("cron"), "disabled", "round {round}");
        init.tell("reload", &json!({}));
        assert_eq!(init.status().state("cron"), "disabled", "round {round}");
        edit(&init, &["unmask", "cron"]);
        init.when_state("cron", "running");
    }
    drop(client);
    init.finish();
}

#[test]
fn manual_policy_edit_is_read_by_a_reload_that_spans_an_upgrade() {
    let init = two();
    init.sandbox.put("policy.yaml", "mask: [other]\n");
    let mut client = init.client().unwrap();
    let held = Held::behind(ACCOUNTS, &init, || client.send("reload", &json!({})));
    init.tell("upgrade", &json!({}));
    drop(held);
    client.answer().unwrap().unwrap();
    init.when_state("other", "disabled");
    // The mask is set after the manual edit and the upgrade.
    let held = Held::behind(ACCOUNTS, &init, || client.send("reload", &json!({})));
    edit(&init, &["mask", "cron"]);
    drop(held);
    client.answer().unwrap().unwrap();
    let status = init.when_state("cron", "disabled");
    assert_eq!(status.state("other"), "disabled", "the earlier edit is loaded too");
    drop(client);
    init.finish();
}

/// Starts an init where an instance was wanted and then unwanted. Its definition stays until the
/// next load.
fn one_left() -> Init {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    files.unit("job@", "exec-start: DAEMON --name %i");
    let init = Boot::new(files).start("base");
    init.when_system("running");
    init.tell("want", &json!({"target": "job@x"}));
    init.when_state("job@x", "running");
    leave(&init);
    init
}

fn leave(init: &Init) {
    init.tell("unwant", &json!({"target": "job@x"}));
    init.when_state("job@x", "disabled");
}

/// Requests the instance while a load is in progress. Returns the answers to both requests.
fn request_during_a_load(init: &Init, verb: &str, fields: &Value) -> [Result<Value, Value>; 2] {
    let (mut one, mut other) = (init.client().unwrap(), init.client().unwrap());
    let held = Held::behind(ACCOUNTS, init, || one.send(verb, fields));
    other.send("want", &json!({"target": "job@x"}));
    other.send("ping", &json!({}));
    let mut answers = vec![other.answer().unwrap().unwrap()];
    drop(held);
    answers.push(other.answer().unwrap().unwrap());
    let wanted = answers.into_iter().find(|answer| answer["plan"].is_object());
    [one.answer().unwrap(), Ok(wanted.expect("it is granted"))]
}

#[test]
fn instance_wanted_during_a_load_without_it_exists_after_the_load() {
    let init = one_left();
    let [other, wanted] = request_during_a_load(&init, "want", &json!({"target": "job@y"}));
    other.unwrap();
    assert!(wanted.unwrap()["plan"]["start"].to_string().contains("job@x"));
    init.when("both are up", |s| s.state("job@x") == "running" && s.state("job@y") == "running");
    init.when_system("running");
    leave(&init);
    let [reload, _] = request_during_a_load(&init, "reload", &json!({}));
    reload.unwrap();
    init.when_state("job@x", "running");
    init.when_system("running");
    // A refused load leaves the definition.
    leave(&init);
    init.sandbox.unit("base", "exec-strat: DAEMON");
    let [refused, _] = request_during_a_load(&init, "reload", &json!({}));
    refused.unwrap_err();
    init.when_state("job@x", "running");
    init.finish();
}
