//! Memory: an init that cannot allocate restarts itself, or finishes its shutdown. Which process
//! the kernel kills when memory runs out: [`super::oom_score`].

use super::restricted_environments::pair;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
#[cfg(target_arch = "x86_64")]
use groundstate_tests::injector::{Fault, Injector};
use nix::sys::signal::Signal;
use serde_json::json;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// ENOMEM at these calls of brk(2) and mmap(2), the two ways in which malloc(3) gets memory.
#[cfg(target_arch = "x86_64")]
fn none(brk: std::ops::RangeInclusive<usize>, mmap: std::ops::RangeInclusive<usize>) -> Vec<Fault> {
    let fault = |call, at| Fault { call, error: nix::errno::Errno::ENOMEM, at, done: false };
    let brk = brk.map(|at| fault(libc::SYS_brk, at));
    brk.chain(mmap.map(|at| fault(libc::SYS_mmap, at))).collect()
}

/// Sends partial requests on many connections, which init has to store.
fn needs_memory(init: &Init) {
    let callers: Vec<UnixStream> = (0..24)
        .filter_map(|_| {
            let mut caller = UnixStream::connect(init.sandbox.path("run/control.sock")).ok()?;
            caller.set_write_timeout(Some(std::time::Duration::from_secs(5))).ok()?;
            caller.write_all(&[b' '; 60_000]).ok()?;
            Some(caller)
        })
        .collect();
    // Init reads in order, so this answer comes after it has read them.
    if let Some(mut client) = init.client() {
        client.send("status", &json!({}));
        client.answer();
    }
    drop(callers);
}

fn crashes(init: &Init) -> u64 {
    until("init answers", || {
        let mut client = init.client()?;
        client.send("stats", &json!({}));
        client.answer()?.ok()?["crashes"].as_u64()
    })
}

#[cfg(target_arch = "x86_64")]
#[test]
fn init_without_memory_restarts_itself() {
    let mut init = Boot::new(pair()).start("web");
    init.expect_crashes();
    init.when_system("running");
    let (mut reached, mut crashed) = (0, 0);
    let mut injector = Injector::attach(&init, &[]);
    for first in [1, 2, 3, 4, 6, 9] {
        let before = init.status();
        injector.arm(&none(first..=first + 3, 1..=1));
        needs_memory(&init);
        reached += usize::from(!injector.disarm().fired.is_empty());
        let survived = crashes(&init);
        assert!(survived <= crashed + 1, "{survived} crashes, {crashed} before");
        if survived > crashed {
            // A crash detaches the tracer.
            injector = Injector::attach(&init, &[]);
        }
        crashed = survived;
        let after = init.when_system("running");
        for unit in ["db", "web"] {
            assert_eq!(before.main_pid(unit), after.main_pid(unit), "{unit} is as before");
        }
        init.main_of("db").signal(Signal::SIGKILL);
        init.when("db is replaced", |s| {
            s.system() == "running" && s.main_pid("db") != after.main_pid("db")
        });
    }
    assert!(reached >= 3 && crashed >= 1, "{reached} reached, {crashed} crashes");
    init.finish_after_crash();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn shutdown_needs_no_further_memory() {
    let mut init = Boot::new(pair()).start("web");
    init.when_system("running");
    let injector = Injector::attach(&init, &none(1..=500, 1..=500));
    init.tell("exit", &json!({}));
    assert_eq!(init.ended().code(), Some(0), "output: {}", init.output());
    drop(injector);
}
