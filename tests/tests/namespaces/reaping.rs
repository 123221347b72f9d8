//! Many orphans: init reaps them promptly, without delaying clients or affecting units. Reused pids
//! of units are in [`super::pid_reuse`].

use super::hierarchy::BARE;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::client::Client;
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::lateness::Lateness;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::{Duration, Instant};

/// The most exits that init reaps in one turn.
const REAPS_A_TURN: usize = 1024;

/// A script that leaves `$1` processes to init and keeps running. Each is a forked shell that
/// blocks in the open of a pipe, which is cheap.
const LEAVES: &str =
    "i=0; while [ $i -lt $1 ]; do i=$((i+1)); ( ( exec 3<$2/never ) & ); done; exec \"$3\"\n";

/// A script with a child that has `$1` such processes and never waits for them.
const BREEDS: &str = "( i=0; while [ $i -lt $1 ]; do i=$((i+1)); ( exec 3<$2/never ) & done; exec sleep 1000000 ) &\nexec \"$3\"\n";

/// Runs init without cgroups.
const WITHOUT_CGROUPS: [&str; 4] = ["/bin/sh", "-c", BARE, "sh"];

/// An init with one unit, `parent`, which runs this script for that many processes.
fn beside(script: &str, count: usize, through: &[&str]) -> Init {
    let files = Sandbox::new();
    nix::unistd::mkfifo(&files.path("never"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    files.put("parent.sh", script);
    files.unit("parent", &format!("exec-start: /bin/sh DIR/parent.sh {count} DIR DAEMON"));
    Boot::new(files).through(through).start("parent")
}

/// An init with that many orphans of its unit, and the orphans.
fn among_orphans(count: usize, through: &[&str]) -> (Init, Vec<Process>) {
    let init = beside(LEAVES, count, through);
    let ours = || init.process().children().len();
    until("they are children of init", || (ours() > count).then_some(()));
    let main = init.main_of("parent");
    until("the parent has executed its program", || {
        main.link("exe").filter(|exe| exe.ends_with("daemon"))
    });
    let orphans = init.processes_of("parent").into_iter().filter(|process| *process != main);
    let orphans: Vec<Process> = orphans.collect();
    assert_eq!(orphans.len(), count);
    (init, orphans)
}

/// Returns `Some` once none of them is a child of init, alive or dead.
fn are_gone(init: &Init, orphans: &[Process]) -> Option<()> {
    let its = init.process().0;
    orphans.iter().all(|orphan| orphan.stat_field(1) != Some(its)).then_some(())
}

/// Kills them while init is stopped.
fn die_at_once(init: &Init, crowd: &[Process]) {
    init.process().signal(Signal::SIGSTOP);
    until("init is stopped", || (init.process().state() == Some('T')).then_some(()));
    crowd.iter().for_each(|process| process.signal(Signal::SIGKILL));
    until("all are dead", || crowd.iter().all(|process| !process.is_alive()).then_some(()));
}

fn turns_of(client: &mut Client) -> u64 {
    client.ask("stats", &json!({})).expect("an answer")["wakeups"].as_u64().expect("a number")
}

#[test]
fn many_orphans_that_die_while_init_is_stopped_are_reaped_at_once() {
    let count = turns(1_500, 10_000);
    let (init, crowd) = among_orphans(count, &[]);
    let main = init.status().main_pid("parent");
    let mut client = init.client().expect("a connection");
    let before = turns_of(&mut client);
    die_at_once(&init, &crowd);
    // A client that asks while init is stopped, or right after it continues, is answered.
    let mut asked = 0;
    loop {
        let late = Lateness::of(init.process());
        client.send("ping", &json!({}));
        let begin = Instant::now();
        if asked == 0 {
            init.process().signal(Signal::SIGCONT);
        }
        client.answer().expect("an answer").expect("a pong");
        late.check("an answer", begin.elapsed(), Duration::from_millis(100));
        asked += 1;
        if are_gone(&init, &crowd).is_some() {
            break;
        }
    }
    let took = turns_of(&mut client) - before;
    let most = count.div_ceil(REAPS_A_TURN) + 2 * asked + 4;
    assert!(took <= most as u64, "{took} turns for {count} orphans and {asked} clients");
    assert_eq!(init.status().main_pid("parent"), main);
    init.finish();
}

/// Calls `done`, after which the orphans are dead children of init. Checks that init reaps them
/// within a second, and logs no event, because they belong to no unit.
fn are_reaped(init: &Init, orphans: &[Process], done: impl Fn()) {
    let seq = || init.tell("ping", &json!({}))["seq"].clone();
    let (before, last) = (init.status(), seq());
    done();
    let (late, begin) = (Lateness::of(init.process()), Instant::now());
    until("they are reaped", || are_gone(init, orphans));
    late.check("the reaping", begin.elapsed(), Duration::from_secs(1));
    assert_eq!(init.status().main_pid("parent"), before.main_pid("parent"));
    assert_eq!(seq(), last, "{:?}", init.initctl_json_lines(&["events"]));
}

#[test]
fn orphans_are_reaped_and_affect_no_unit() {
    let count = turns(1_000, 10_000);
    for through in [&[][..], &WITHOUT_CGROUPS] {
        let (init, orphans) = among_orphans(count, through);
        let die = || orphans.iter().for_each(|orphan| orphan.signal(Signal::SIGKILL));
        are_reaped(&init, &orphans, die);
        init.finish();
    }
}

#[test]
fn zombies_whose_parent_exits_are_reaped_and_affect_no_unit() {
    let count = turns(1_000, 10_000);
    let init = beside(BREEDS, count, &[]);
    let main = init.main_of("parent");
    let breeder = until("all children have started", || {
        let sleeps = |child: &Process| child.read("comm").as_deref() == Some("sleep\n");
        main.children().into_iter().find(sleeps)
    });
    let children = breeder.children();
    assert_eq!(children.len(), count);
    children.iter().for_each(|child| child.signal(Signal::SIGKILL));
    let are_dead = || children.iter().all(|child| child.state() == Some('Z')).then_some(());
    until("all are zombies", are_dead);
    are_reaped(&init, &children, || {
        breeder.signal(Signal::SIGKILL);
        until("they are children of init", || (!breeder.is_alive()).then_some(()));
    });
    assert!(children.iter().all(|child| child.state().is_none()), "they were children of init");
    init.finish();
}

/// Units that have had a process, which recorded its pid. Only the last one has a process now, with
/// another pid.
const ONCE: [(&str, &str, &str); 4] = [
    ("done", "type: oneshot", "exited"),
    ("scripted", "type: background-scripted", "running"),
    ("broken", "restart: never\nsuccess-status: [9]", "failed"),
    ("again", "restart: always\nrestart-delay: 1ms", "running"),
];
/// The script of each of them; `$0` is its name.
const LIVES: &str =
    "echo $$ >>$1/$0.pid; [ $0 != again ] || [ $(wc -l <$1/$0.pid) = 1 ] || exec sleep 1000000\n";

/// Starts an orphan with the requested pid, unless another process takes the pid first.
const LEAVES_ONE: &str = "while read pid; do\n\
    ( echo $((pid-1)) >/proc/sys/kernel/ns_last_pid; ( echo $(exec sh -c 'echo $PPID') >>$1/left; exec sleep 1000000 ) & )\n\
    done 0<>$1/pids\n";

#[test]
fn exit_of_an_orphan_with_the_old_pid_of_a_unit_changes_no_unit() {
    if !can_be_chosen() {
        return groundstate_tests::not_run!("the next pid cannot be chosen here");
    }
    let files = Sandbox::new();
    files.put("live.sh", LIVES);
    for (unit, how, _) in ONCE {
        files.unit(unit, &format!("{how}\nexec-start: /bin/sh -c '. DIR/live.sh' {unit} DIR"));
    }
    nix::unistd::mkfifo(&files.path("pids"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    files.put("leave.sh", LEAVES_ONE);
    files.unit("parent", "exec-start: /bin/sh DIR/leave.sh DIR");
    let names = ONCE.map(|(unit, ..)| unit).join(", ");
    files.unit("all", &format!("type: virtual\nwaits-for: parent, {names}"));
    let init = Boot::new(files).start("all");
    init.when("all units are in their expected states", |s| {
        s.state("parent") == "running"
            && init.sandbox.trace("again.pid").len() == 2
            && ONCE.iter().all(|(unit, _, state)| s.state(unit) == *state)
    });
    let orphan = |pid: i32| {
        let given = init.sandbox.trace("left").len();
        init.sandbox.order("pids", &pid.to_string());
        let left = || init.sandbox.trace("left").get(given)?.parse().ok();
        let orphan =
            init.process().neighbour(until("the process exists", left)).expect("the process runs");
        let its = init.process().0;
        until("the orphan is a child of init", || {
            (orphan.stat_field(1) == Some(its)).then_some(())
        });
        orphan
    };
    for (unit, ..) in ONCE {
        let pid = init.sandbox.trace(&format!("{unit}.pid"))[0].parse().expect("a pid");
        let orphan = until("an orphan has its pid", || {
            let orphan = orphan(pid);
            if orphan.inner_pid() == Some(pid) {
                return Some(orphan);
            }
            orphan.end();
            None
        });
        are_reaped(&init, &[orphan], || orphan.signal(Signal::SIGKILL));
    }
    init.finish();
}

/// The processor time in which init reaps this many orphans that die at once. A scan of all
/// children for each exit would make the time per orphan grow with their number.
fn time_of_reaping(count: usize) -> Duration {
    let (mut init, crowd) = among_orphans(count, &WITHOUT_CGROUPS);
    die_at_once(&init, &crowd);
    let before = init.process().processor_time();
    init.process().signal(Signal::SIGCONT);
    until("all are reaped", || are_gone(&init, &crowd));
    let took = init.process().processor_time() - before;
    assert_eq!(init.status().state("parent"), "running");
    init.may_keep_this_much();
    init.finish();
    took
}

#[test]
fn reaping_time_is_linear_in_the_number_of_orphans_without_cgroups() {
    let (few, many) = (250, 1000);
    let each = |count: u32| time_of_reaping(count as usize) / count;
    let (of_few, of_many) = (each(few), each(many));
    assert!(of_many < of_few * 2, "{of_few:?} each of {few}, {of_many:?} each of {many}");
}

/// Returns true if the kernel lets the test choose the next pid.
pub(super) fn can_be_chosen() -> bool {
    nix::unistd::geteuid().is_root()
        && std::path::Path::new("/proc/sys/kernel/ns_last_pid").exists()
}
