//! Units with the same name at init: only one of them runs.

use crate::placed::{Cluster, name};
use cluster::agent::{self, Goal};
use cluster::desired::Desired;
use cluster::native_unit;
use cluster::registry;
use cluster::unit_file::UnitFile;
use std::collections::BTreeSet;

#[test]
fn of_two_units_with_one_name_at_init_one_runs_and_one_is_refused() {
    let mut cluster = Cluster::new();
    let native = |text: &str| native_unit::read("web.yaml", text).unwrap();
    let service = native("unit: web\nexec-start: /bin/serve\n");
    let timer = native("unit: web\ntype: timer\nactivates: x\n");
    let odd = native("unit: z.service\nexec-start: /bin/serve\n");
    let plain = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
    let mut put = |own: &str, file: &UnitFile| {
        let write = registry::create(&cluster.snapshot(), &name(own), file, Desired::Launched);
        cluster.commit(&write);
        cluster.put_on(own, Some("m1"));
    };
    put("web.timer", &timer);
    put("z.service.service", &odd);
    put("z.service", &plain);
    let mut first = cluster.goal(&Goal::new());
    agent::refuse_namesakes(&mut first, &Goal::new());
    let write =
        registry::create(&cluster.snapshot(), &name("web.service"), &service, Desired::Launched);
    cluster.commit(&write);
    cluster.put_on("web.service", Some("m1"));
    let parted = |cluster: &Cluster, before: &Goal| {
        let mut goal = cluster.goal(before);
        agent::refuse_namesakes(&mut goal, before);
        let set = agent::source_set(&goal, &BTreeSet::new());
        assert_eq!(set.files.len(), 2, "{:?}", set.files);
        (goal, set.files["web.yaml"].contains("timer"))
    };
    let (goal, timer_runs) = parted(&cluster, &first);
    assert!(timer_runs, "the running timer is not displaced");
    let why = |goal: &Goal, own: &str| goal[own].refusal.clone().unwrap_or_default();
    assert!(why(&goal, "web.service").contains("web.timer"), "{goal:?}");
    assert!(why(&goal, "z.service.service").contains("z.service,"), "{goal:?}");
    let (_, timer_runs) = parted(&cluster, &Goal::new());
    assert!(!timer_runs, "if neither ran, the first by name runs");
    cluster.put_on("web.timer", None);
    cluster.put_on("web.timer", Some("m2"));
    let (goal, timer_runs) = parted(&cluster, &goal);
    assert!(!timer_runs && why(&goal, "web.service").is_empty(), "the service has the name now");
}

#[test]
fn unit_with_an_alias_equal_to_another_units_name_is_refused() {
    let service =
        |more: &str| UnitFile::parse(&format!("[Service]\nExecStart=/bin/true\n{more}\n")).unwrap();
    let timer = native_unit::read("backup.yaml", "type: timer\nactivates: x\n").unwrap();
    let other = native_unit::read("o.yaml", "exec-start: /bin/o\nprovides: [mail, c]\n").unwrap();
    let aliased = service("[Install]\nAlias=b.service");
    let instance = service("[Install]\nAlias=work@.service");
    let parted = |runs: &[(&str, &UnitFile)]| {
        let mut cluster = Cluster::new();
        for (own, file) in runs {
            let write = registry::create(&cluster.snapshot(), &name(own), file, Desired::Launched);
            cluster.commit(&write);
            cluster.put_on(own, Some("m1"));
        }
        let mut goal = cluster.goal(&Goal::new());
        agent::refuse_namesakes(&mut goal, &Goal::new());
        let refused = goal.iter().filter(|(_, one)| one.refusal.is_some());
        refused.map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    let plain = service("");
    let pairs: [(&str, &UnitFile, &str, &UnitFile); 6] = [
        ("backup.service", &plain, "backup.timer", &timer),
        ("a.service", &aliased, "b.service", &plain),
        ("a.service", &aliased, "b.timer", &native_unit::read("b.yaml", "type: timer\n").unwrap()),
        ("mail.service", &plain, "o.service", &other),
        ("job@1.service", &instance, "work@1.service", &plain),
        ("c.service", &plain, "o.service", &other),
    ];
    for (first, file, second, beside) in pairs {
        assert_eq!(parted(&[(first, file), (second, beside)]), [second]);
    }
    // A socket has no short name.
    let socket = UnitFile::parse("[Socket]\nListenStream=/run/z\n").unwrap();
    let beside = [("a.service", &aliased), ("z.socket", &socket), ("z.service", &plain)];
    assert!(parted(&beside).is_empty());
    assert!(parted(&[("job@1.service", &instance), ("work@2.service", &plain)]).is_empty());
    // Instances of one file have distinct names by their specifiers; specifiers of the machine are
    // equal for all.
    let of_web = |alias: &str| {
        let file = service(&format!("[Install]\nAlias={alias}.service"));
        parted(&[("web@1.service", &file), ("web@2.service", &file)])
    };
    for each in ["www-%i", "www-%I@%p", "%H-%i", "%o%m-%i"] {
        assert!(of_web(each).is_empty(), "{each}");
    }
    for all in ["main-%p", "main-%p@%%", "%H", "%p-%m-%w"] {
        assert_eq!(of_web(all), ["web@2.service"], "{all}");
    }
    let provides = "unit: web@\nexec-start: /bin/w\nprovides: [main-%p]\n";
    let both = native_unit::read("web.yaml", provides).unwrap();
    assert_eq!(parted(&[("web@1.service", &both), ("web@2.service", &both)]), ["web@2.service"]);
    let each = native_unit::read("web.yaml", &provides.replace("%p", "%i")).unwrap();
    assert!(parted(&[("web@1.service", &each), ("web@2.service", &each)]).is_empty());
    // An empty value resets the aliases.
    let back = service("[Install]\nAlias=b.service\nAlias=");
    assert!(parted(&[("a.service", &back), ("b.service", &plain)]).is_empty());
    let listed = native_unit::read("o.yaml", "exec-start: /bin/o\nprovides: mail, c\n").unwrap();
    assert_eq!(parted(&[("c.service", &plain), ("o.service", &listed)]), ["o.service"]);
}

#[test]
fn new_name_of_a_running_unit_displaces_no_other() {
    let mut cluster = Cluster::new();
    let text = "[Service]\nExecStart=/bin/true\n";
    let plain = UnitFile::parse(text).unwrap();
    for own in ["a.service", "b.service"] {
        let write = registry::create(&cluster.snapshot(), &name(own), &plain, Desired::Launched);
        cluster.commit(&write);
        cluster.put_on(own, Some("m1"));
    }
    let before = cluster.goal(&Goal::new());
    let aliased = UnitFile::parse(&format!("{text}[Install]\nAlias=b.service\n")).unwrap();
    let mut goal = before.clone();
    let mut content = (*goal[&name("a.service")].content).clone();
    content.file = aliased;
    goal.get_mut(&name("a.service")).unwrap().content = content.into();
    agent::refuse_namesakes(&mut goal, &before);
    assert!(
        goal[&name("a.service")].refusal.is_some() && goal[&name("b.service")].refusal.is_none()
    );
}

#[test]
fn unit_that_now_has_the_name_at_init_is_its_namesake() {
    let mut cluster = Cluster::new();
    let native = native_unit::read("web.yaml", "exec-start: /bin/serve\n").unwrap();
    let own = "web.service";
    let write = registry::create(&cluster.snapshot(), &name(own), &native, Desired::Launched);
    cluster.commit(&write);
    cluster.put_on(own, Some("m1"));
    let goal = cluster.goal(&Goal::new());
    assert!(agent::has_namesake(&goal, &name("web.timer")));
    assert!(!agent::has_namesake(&goal, &name(own)));
    assert!(!agent::has_namesake(&goal, &name("other.service")));
}

#[test]
fn running_unit_with_a_changed_name_is_not_displaced_by_a_stopped_one() {
    let mut cluster = Cluster::new();
    let timer = native_unit::read("backup.yaml", "type: timer\nactivates: x\n").unwrap();
    let write =
        registry::create(&cluster.snapshot(), &name("backup.timer"), &timer, Desired::Launched);
    cluster.commit(&write);
    cluster.put_on("backup.timer", Some("m1"));
    let runs = cluster.goal(&Goal::new());
    let plain = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
    let write =
        registry::create(&cluster.snapshot(), &name("backup.service"), &plain, Desired::Launched);
    cluster.commit(&write);
    cluster.put_on("backup.service", Some("m1"));
    let mut before = cluster.goal(&runs);
    agent::refuse_namesakes(&mut before, &runs);
    let mut goal = cluster.goal(&before);
    let mut content = (*goal[&name("backup.timer")].content).clone();
    let more = "type: timer\nactivates: x\nprovides: [nightly]\n";
    content.file = native_unit::read("backup.yaml", more).unwrap();
    goal.get_mut(&name("backup.timer")).unwrap().content = content.into();
    agent::refuse_namesakes(&mut goal, &before);
    let is_refused = |goal: &Goal, own: &str| goal[own].refusal.is_some();
    for goal in [&before, &goal] {
        assert!(!is_refused(goal, "backup.timer") && is_refused(goal, "backup.service"));
    }
}
