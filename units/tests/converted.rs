//! A systemd unit file and the native file printed from it define the same unit.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::import::systemd::{Surroundings, UnitName, convert, unit_text};
use groundstate_units::spec::Run;
use groundstate_units::unit::generation::{Generation, Unit};
use groundstate_units::unit::yaml_writer;
use memory::{Memory, told};

const UNITS: &str = "/etc/groundstate/units";
const GOAL: &str = "unit: multi-user\nwants: [web.service, front.socket, dump@main.timer, \
                    cluster@main.service, spool.path, srv.mount]\n";
const FILES: &[(&str, &str)] = &[
    (
        "web.service",
        "[Unit]\nDescription=A web: server # of its own\nAfter=cluster@main.service\nWants=cluster@main.service\n\
         ConditionPathExists=!/no\n[Service]\nType=notify\nEnvironment=A=1 \"B=x: y\"\n\
         EnvironmentFile=-/etc/default/web\nExecStartPre=-/bin/x \"a b\" $C\nExecStart=/bin/x ${B} '%%'\n\
         ExecReload=/bin/kill -HUP $MAINPID\nRestart=on-failure\nRestartSec=3\nLimitNOFILE=1024:4096\n\
         TimeoutStopSec=infinity\nKillMode=mixed\nRuntimeDirectory=web\nMemoryMax=1G\n",
    ),
    ("front.socket", "[Socket]\nListenStream=80\nListenStream=/run/f.sock\nService=web.service\n"),
    (
        "cluster@.service",
        "[Unit]\nDescription=Cluster %i\nPartOf=all.service\n[Service]\nType=forking\n\
         PIDFile=/run/%i.pid\nExecStart=-/bin/ctl %I start\nExecStop=/bin/ctl %i stop\n\
         [Install]\nAlias=group@.service\n",
    ),
    ("dump@.timer", "[Timer]\nOnCalendar=weekly\nRandomizedDelaySec=1h\nPersistent=yes\n"),
    ("dump@.service", "[Service]\nType=oneshot\nExecStart=/bin/dump %i\n"),
    ("spool.path", "[Path]\nDirectoryNotEmpty=/var/spool/x\nUnit=web.service\n"),
    ("srv.mount", "[Mount]\nWhat=tmpfs\nWhere=/srv\nType=tmpfs\nOptions=size=1M\n"),
];

fn native(name: &str, text: &str) -> String {
    let texts = [unit_text::parse(&name.into(), text.as_bytes()).unwrap()];
    let imported = convert(&UnitName::of(name), &name.into(), &texts, &Surroundings::default());
    yaml_writer::write(&imported.manifest)
}

/// Returns the unit's own properties, with names instead of numbers.
fn told_of(generation: &Generation, unit: &Unit) -> String {
    let name = |id: &_| generation.target(*id).unwrap().name.to_string();
    let edges = unit.dependencies.iter().map(|edge| (edge.kind, name(&edge.target)));
    let edges: std::collections::BTreeSet<_> = edges.collect();
    let provides: Vec<String> = unit.provides.iter().map(name).collect();
    let activates = unit.activates.as_ref().map(name);
    format!("{:?} {provides:?} {activates:?} {edges:?} {:?}", unit.kind, unit.live)
}

/// Returns the unit's run. An imported unit starts without a cgroup limit that cannot be set; a
/// native one fails.
fn run_of(unit: &Unit) -> Option<Run> {
    let mut run = Run::decode(&unit.run)?;
    run.particular.get_or_insert_with(Default::default).lenient = false;
    Some(run)
}

#[test]
fn printed_native_form_defines_the_same_unit() {
    let goal = ("multi-user.yaml", GOAL);
    let mut memories = [Memory::new(&[]), Memory::new(&[])];
    for memory in &mut memories {
        memory.put(&format!("{UNITS}/{}", goal.0), goal.1);
    }
    for (name, text) in FILES {
        memories[0].put(&format!("{UNITS}/{name}"), text);
        memories[1].put(&format!("{UNITS}/{name}.yaml"), native(name, text));
    }
    let [imported, printed] = memories.map(|memory| memory.load(None).generation);
    let errors = |generation: &Generation| -> Vec<String> {
        told(generation)
            .iter()
            .filter(|line| line.contains("error"))
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(errors(&printed), [""; 0]);
    for name in [
        "web.service",
        "front.socket",
        "dump@main.timer",
        "dump@main.service",
        "cluster@main.service",
        "spool.path",
        "srv.mount",
    ] {
        let of = |generation: &Generation| {
            let unit = generation.units.iter().find(|unit| unit.name.as_str() == name);
            let unit = unit.unwrap_or_else(|| panic!("{name} is not there"));
            (told_of(generation, unit), run_of(unit))
        };
        let (was, is) = (of(&imported), of(&printed));
        assert_eq!(was.0, is.0, "{name}");
        assert_eq!(was.1, is.1, "{name}: what runs");
    }
}

#[test]
fn printed_native_form_marks_names_that_may_be_missing() {
    let text = "[Unit]\nWants=b.service c.service\nOnFailure=@d.service\nOnSuccess=e.service\n\
                [Service]\nExecStart=/bin/x\n";
    let mut memory = Memory::new(&[]);
    memory.put(&format!("{UNITS}/web.yaml"), native("web.service", text));
    assert_eq!(told(&memory.check(UNITS)), [""; 0]);
}
