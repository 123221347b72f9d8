//! The machine's answers to status, why and graph, as JSON for other programs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::control::answer::{Failure, Status};
use groundstate_units::control::view::{self, Facts};
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::{Event, ExecFailure, Goal, RunId, Stage};
use groundstate_units::spec::Exit;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::text::wall_clock::WallTime;
use groundstate_units::unit::generation::Generation;
use groundstate_units::unit::policy::Policy;
use memory::{Memory, told};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn at(seconds: u64) -> Time {
    Time::ZERO.after(Duration::from_secs(seconds))
}

fn facts(seconds: u64) -> Facts {
    let wall = WallTime::parse("2026-11-21T05:00:00.000Z").unwrap().as_millis() + 1000 * seconds;
    Facts { now: at(seconds), wall: Duration::from_millis(wall), ..Facts::default() }
}

const SET: [(&str, &str); 4] = [
    ("/u/all.yaml", "unit: all\nwaits-for: site, tools\n"),
    ("/u/web.yaml", "unit: web\nprovides: site, shop\ndepends-on: db\nexec-start: /bin/x\n"),
    ("/u/db.yaml", "unit: db\nexec-start: /bin/x\n"),
    ("/u/tools.yaml", "unit: tools\nwants: nowhere\n"),
];

/// Boots into `all` at second 1; run 1 belongs to db.
fn booted() -> Machine {
    let generation: Generation = Memory::new(&SET).check("/u");
    assert_eq!(told(&generation), ["tools.yaml:2:8 warning missing-target"]);
    let mut machine = Machine::new(Duration::from_secs(90));
    let boot = Event::Boot { generation: Arc::new(generation), targets: vec![name("all")] };
    machine.step(at(1), boot);
    machine
}

fn run_of(machine: &Machine, unit: &str) -> RunId {
    machine.run(machine.generation().find_unit(unit).unwrap()).unwrap()
}

fn status(machine: &Machine, seconds: u64, names: &[&str]) -> Value {
    let names: Vec<Name> = names.iter().map(|text| name(text)).collect();
    let status: Status = view::status(machine, &facts(seconds), &names).unwrap();
    serde_json::to_value(status).unwrap()
}

fn find<'a>(status: &'a Value, list: &str, key: &str, name: &str) -> &'a Value {
    status[list].as_array().unwrap().iter().find(|item| item[key] == name).unwrap()
}

#[test]
fn waiting_unit_names_the_targets_it_waits_for() {
    let machine = booted();
    let status = status(&machine, 4, &[]);
    assert_eq!(status["system"], "starting");
    assert_eq!(status["settled"], false);
    let web = find(&status, "units", "unit", "web");
    assert_eq!(web["state"], "waiting");
    assert_eq!(web["reason"]["kind"], "on");
    assert_eq!(web["reason"]["targets"], json!(["db"]));
    assert_eq!(web["provides"], json!(["shop", "site"]));
    assert_eq!(web["main-pid"], Value::Null);
    assert_eq!(web["since"], "2026-11-21T05:00:01.000Z");
    let site = find(&status, "targets", "target", "site");
    assert_eq!((&site["unit"], &site["coincidental"]), (&json!("web"), &json!(false)));
    assert_eq!(find(&status, "targets", "target", "shop")["coincidental"], true);
    let nowhere = find(&status, "targets", "target", "nowhere");
    assert_eq!(nowhere["unit"], Value::Null);
    assert_eq!(nowhere["reason"]["kind"], "missing");
    assert_eq!(site["reason"], Value::Null);
}

#[test]
fn status_of_a_target_lists_only_its_unit() {
    let machine = booted();
    let status = status(&machine, 4, &["site"]);
    assert_eq!(status["units"].as_array().unwrap().len(), 1);
    assert_eq!(status["units"][0]["unit"], "web");
    let unknown = view::status(&machine, &facts(4), &[name("sight")]).unwrap_err();
    assert_eq!(unknown.kind, Failure::UNKNOWN_TARGET);
}

#[test]
fn status_shows_the_main_pid_of_the_present_run() {
    let mut machine = booted();
    let run = run_of(&machine, "db");
    machine.step(at(2), Event::Executed(run));
    let mut facts = facts(3);
    facts.main_pids.insert(run, 42);
    facts.main_pids.insert(RunId(999), 43);
    let status = view::status(&machine, &facts, &[name("db")]).unwrap();
    assert_eq!(status.units[0].main_pid, Some(42));
}

#[test]
fn why_chain_ends_in_the_exec_error() {
    let mut machine = booted();
    let run = run_of(&machine, "db");
    let failure = ExecFailure { stage: Stage::Execve, errno: 2, path: "/bin/gone".to_string() };
    machine.step(at(2), Event::StartFailed(run, failure));
    let why = view::why(&machine, &facts(3), &name("all")).unwrap();
    let why = serde_json::to_value(why).unwrap();
    assert_eq!(why["degraded"], true);
    let last = why["chain"].as_array().unwrap().last().unwrap();
    assert_eq!(last["unit"], "db");
    assert_eq!(last["reason"]["kind"], "exec");
    assert_eq!(last["reason"]["stage"], "execve");
    let text = last["reason"]["text"].as_str().unwrap();
    assert_eq!(text, "cannot run /bin/gone (execve): No such file or directory");

    let why = view::why(&machine, &facts(3), &name("site")).unwrap();
    let why = serde_json::to_value(why).unwrap();
    assert_eq!((&why["state"], &why["unit"]), (&json!("failed"), &json!("web")));
    assert_eq!(why["chain"][0]["target"], "site");
    assert_eq!(why["chain"][0]["reason"]["kind"], "dependency");
    assert_eq!(why["needed-by"][0]["unit"], "all");
    assert_eq!(why["needed-by"][0]["kind"], "waits-for");
    assert_eq!(why["affects"][0]["unit"], "all");

    let why = view::why(&machine, &facts(3), &name("db")).unwrap();
    let why = serde_json::to_value(why).unwrap();
    let web = find(&why, "affects", "unit", "web");
    assert_eq!((&web["state"], &web["reason"]["kind"]), (&json!("failed"), &json!("dependency")));
}

#[test]
fn status_of_a_failed_unit_has_the_time_of_the_next_try() {
    let mut machine = booted();
    let run = run_of(&machine, "db");
    machine.step(at(2), Event::Executed(run));
    machine.step(at(3), Event::Ended(run, Exit::Code(3)));
    let status = status(&machine, 3, &["db"]);
    let db = &status["units"][0];
    assert_eq!(db["attempt"], 1);
    assert_eq!(db["reason"]["kind"], "backoff");
    assert_eq!(db["next-try"], "2026-11-21T05:00:03.200Z");
    assert_eq!(db["reason"]["at"], db["next-try"]);
}

/// The dependency starts `job`, but no dependency starts `fw`.
#[test]
fn why_distinguishes_a_finished_provider_from_one_that_is_never_started() {
    let generation = Memory::new(&[
        ("/u/all.yaml", "unit: all\nwaits-for: web, net\n"),
        ("/u/web.yaml", "unit: web\ndepends-on: data\nexec-start: /bin/x\n"),
        (
            "/u/job.yaml",
            "unit: job\nprovides: data\ntype: oneshot\nremain: no\nexec-start: /bin/x\n",
        ),
        ("/u/net.yaml", "unit: net\nrequires-active: fw\nexec-start: /bin/x\n"),
        ("/u/fw.yaml", "unit: fw\nexec-start: /bin/x\n"),
    ])
    .check("/u");
    let mut machine = Machine::new(Duration::from_secs(90));
    let boot = Event::Boot { generation: Arc::new(generation), targets: vec![name("all")] };
    machine.step(at(1), boot);
    let run = run_of(&machine, "job");
    machine.step(at(2), Event::Ended(run, Exit::Code(0)));
    let text = |asked: &str| {
        let why = view::why(&machine, &facts(3), &name(asked)).unwrap();
        serde_json::to_value(why).unwrap()["chain"][0]["reason"]["text"].clone()
    };
    assert_eq!(
        text("web"),
        "data (unit job) has finished; it stays active only with `remain: yes`"
    );
    assert_eq!(text("net"), "fw is not active, and no dependency starts it");
}

#[test]
fn status_of_a_masked_target_has_no_unit_and_the_reason_masked() {
    let mut machine = booted();
    let policy = Policy { mask: [name("db")].into(), ..Policy::default() };
    machine.step(at(2), Event::SetPolicy(policy));
    let why = view::why(&machine, &facts(3), &name("db")).unwrap();
    assert_eq!(why.unit, None);
    let why = serde_json::to_value(why).unwrap();
    assert_eq!(why["chain"][0]["reason"]["kind"], "masked");
    let status = status(&machine, 3, &["db"]);
    assert_eq!(find(&status, "targets", "target", "db")["unit"], Value::Null);
    assert_eq!(find(&status, "targets", "target", "db")["reason"]["kind"], "masked");
    assert_eq!(find(&status, "units", "unit", "db")["unit"], "db");
}

#[test]
fn unknown_name_of_a_template_gets_its_own_hint() {
    let hint = |text: &str| view::why(&booted(), &facts(3), &name(text)).unwrap_err().hint;
    assert_eq!(hint("job@"), "a template is not a unit yet: name an instance, as `job@x`");
    assert_eq!(hint("dbb"), "did you mean `db`?");
}

#[test]
fn dropped_target_is_distinguished_from_a_masked_one() {
    let mut machine = booted();
    let goal = |drop: &[&str]| {
        let drop = drop.iter().map(|text| name(text)).collect();
        Event::SetGoal(Goal { targets: vec![name("all")], want: Vec::new(), drop })
    };
    machine.step(at(2), goal(&["db"]));
    let why = |machine: &Machine, target: &str| {
        let why = serde_json::to_value(view::why(machine, &facts(3), &name(target)).unwrap());
        why.unwrap()["chain"][0]["reason"].clone()
    };
    for target in ["db", "site"] {
        let reason = why(&machine, target);
        assert_eq!(reason["text"], "db is dropped from the goal (-db)", "{target}");
        assert_eq!((&reason["kind"], &reason["dropped"]), (&json!("masked"), &json!("db")));
    }
    let refused = machine.step(at(3), Event::Restart(vec![name("db")])).refused.unwrap();
    assert_eq!(refused.hint, "`initctl unwant db` takes that back");
    let policy = Policy { mask: [name("db")].into(), ..Policy::default() };
    machine.step(at(4), Event::SetPolicy(policy));
    let reason = why(&machine, "site");
    assert_eq!((&reason["text"], &reason["dropped"]), (&json!("db is masked"), &Value::Null));
}

#[test]
fn graph_contains_every_unit_and_edges_without_a_provider() {
    let machine = booted();
    let graph = serde_json::to_value(view::graph(&machine, &facts(3))).unwrap();
    assert_eq!(graph["goal"], json!(["all"]));
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 4);
    let edges = graph["edges"].as_array().unwrap();
    let wanted = json!({"from": "tools", "target": "nowhere", "to": null, "kind": "wants",
        "optional": false});
    assert!(edges.contains(&wanted), "{graph}");
    let web = find(&graph, "nodes", "unit", "web");
    assert_eq!((&web["state"], &web["reason"]["kind"]), (&json!("waiting"), &json!("on")));
}

#[test]
fn cat_returns_the_file_and_line_of_a_unit() {
    let located = view::located(&booted(), &name("shop")).unwrap();
    assert_eq!((located.file.as_str(), located.line), ("/u/web.yaml", 1));
}

#[test]
fn reason_of_a_unit_in_backoff_includes_the_last_failure() {
    let mut machine = booted();
    let run = run_of(&machine, "db");
    machine.step(at(2), Event::Executed(run));
    machine.step(at(2), Event::Ended(run, Exit::Code(3)));
    let status = status(&machine, 2, &["db"]);
    let reason = &find(&status, "units", "unit", "db")["reason"];
    assert_eq!(reason["kind"], "backoff");
    let text = reason["text"].as_str().unwrap();
    assert!(text.starts_with("its process exited with status 3; retry pending after "), "{text}");
}

#[test]
fn reason_of_a_start_timeout_includes_the_limit_of_the_unit() {
    let text = "unit: db\ntype: foreground-notified\nexec-start: /bin/x\nstart-timeout: 90s\n";
    let generation = Arc::new(Memory::new(&[("/u/db.yaml", text)]).check("/u"));
    let mut machine = Machine::new(Duration::from_secs(90));
    machine.step(at(1), Event::Boot { generation, targets: vec![name("db")] });
    let text_of = |machine: &Machine| {
        let why = view::why(machine, &facts(92), &name("db")).unwrap();
        why.chain[0].reason.as_ref().unwrap().text.clone()
    };
    let run = run_of(&machine, "db");
    machine.step(at(1), Event::Executed(run));
    machine.step(at(91), Event::Tick);
    machine.step(at(92), Event::Ended(run, Exit::Code(0)));
    let limit = "it was not ready within its start-timeout (90s)";
    assert!(text_of(&machine).starts_with(limit), "{}", text_of(&machine));
}

#[test]
fn why_names_the_trigger_that_activates_a_unit() {
    let mut memory = Memory::new(&[]);
    memory.put("/u/job.yaml", "unit: job\ntype: oneshot\nexec-start: /bin/job\n");
    memory.put("/u/tick.yaml", "unit: tick\ntype: timer\ntimer-boot: 1h\nactivates: job\n");
    let mut machine = Machine::new(Duration::from_secs(90));
    let generation = Arc::new(memory.check("/u"));
    machine.step(at(1), Event::Boot { generation, targets: vec![name("tick")] });
    let why = serde_json::to_value(view::why(&machine, &facts(3), &name("job")).unwrap()).unwrap();
    assert_eq!(why["state"], "disabled");
    assert_eq!(why["activated-by"][0]["unit"], "tick");
}

#[test]
fn why_lists_a_dependent_once_even_if_it_names_two_targets() {
    let files = [
        ("/u/all.yaml", "unit: all\nwaits-for: site, shop\n"),
        ("/u/web.yaml", "unit: web\nprovides: site, shop\nexec-start: /bin/x\n"),
    ];
    let generation: Generation = Memory::new(&files).check("/u");
    let mut machine = Machine::new(Duration::from_secs(90));
    let boot = Event::Boot { generation: Arc::new(generation), targets: vec![name("all")] };
    machine.step(at(1), boot);
    let why = serde_json::to_value(view::why(&machine, &facts(2), &name("shop")).unwrap()).unwrap();
    assert_eq!(why["needed-by"].as_array().unwrap().len(), 1, "{why}");
}
