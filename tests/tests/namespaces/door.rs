//! Sockets of units whose file is away, or can not be used, as init begins anew: nobody who connects is
//! turned away, and none is kept from whoever listens there now. Processes of such units are in
//! [`super::away`], sockets whose file is there in [`super::beside`].

use super::away::{WEB, moves, running};
use super::beside::{answer, begins_anew, is_steady, with};
use super::crash::{crashes, has_survived};
use super::socket::free_port;
use groundstate_tests::boot::Init;
use groundstate_tests::crash::Fault;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// A socket of both kinds, and what answers there as soon as somebody has connected.
fn with_a_door(port: u16) -> Sandbox {
    let files = with(&[("web", WEB)]);
    let door =
        format!("type: socket\nlisten-stream: [DIR/door.sock, 127.0.0.1:{port}]\nactivates: echo");
    files.unit("door", &door).unit("echo", "exec-start: LISTENER");
    files.unit("all", "type: virtual\nwaits-for: web, tick, door?");
    files
}

fn connections(init: &Init, port: u16) -> (UnixStream, TcpStream) {
    let unix = UnixStream::connect(init.sandbox.path("door.sock"));
    let tcp = TcpStream::connect(("127.0.0.1", port));
    (unix.expect("it listens"), tcp.expect("it listens"))
}

#[test]
fn who_waits_at_a_socket_whose_file_is_away_or_broken_is_answered_when_that_is_back() {
    for is_away in [true, false] {
        let port = free_port();
        let init = running(with_a_door(port), &[]);
        init.when_state("door", "running");
        is_steady(&init);
        fs::copy(init.sandbox.path("units/door.yaml"), init.sandbox.path("hidden")).unwrap();
        match is_away {
            true => drop(init.sandbox.remove_unit("door")),
            false => drop(init.sandbox.put("units/door.yaml", "unit: door\ntype: [\n")),
        }
        let before = connections(&init, port);
        begins_anew(&init);
        init.when_state("web", "running");
        assert!(init.output().contains("left alone until its file"), "{}", init.output());
        let meanwhile = connections(&init, port);
        if is_away {
            // Nor do they go with an image, or with a load that does not bring it.
            is_steady(&init);
            init.tell("upgrade", &json!({}));
            is_steady(&init);
            let times = crashes(&init);
            Fault::ALL[0].strike(&init);
            has_survived(&init, times + 1);
            init.tell("reload", &json!({}));
            begins_anew(&init);
            init.when_state("web", "running");
        }
        let late = connections(&init, port);
        moves(&init, "hidden", "units/door.yaml");
        init.tell("reload", &json!({}));
        init.when_state("door", "running");
        for (unix, tcp) in [before, meanwhile, late] {
            assert!(answer(unix).contains("hello") && answer(tcp).contains("hello"));
        }
        init.finish_after_crash();
    }
}

#[test]
fn an_address_whose_unit_is_away_is_another_units_that_listens_there() {
    let port = free_port();
    let init = running(with_a_door(port), &[]);
    init.when_state("door", "running");
    is_steady(&init);
    moves(&init, "units/door.yaml", "hidden");
    begins_anew(&init);
    init.when_state("web", "running");
    let unix = UnixStream::connect(init.sandbox.path("door.sock")).expect("it listens");
    // One that has it all, and one that has a part of it.
    let gate = "type: socket\nlisten-stream: DIR/door.sock\nactivates: echo";
    init.sandbox.unit("gate", gate);
    let other =
        format!("type: socket\nlisten-stream: [DIR/new.sock, 127.0.0.1:{port}]\nactivates: echo");
    init.sandbox.unit("other", &other);
    init.sandbox.unit("all", "type: virtual\nwaits-for: web, tick, gate, other");
    init.tell("reload", &json!({}));
    init.when("both listen", |s| s.state("gate") == "running" && s.state("other") == "running");
    assert!(answer(unix).contains("hello"));
    TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    init.finish_after_crash();
}
