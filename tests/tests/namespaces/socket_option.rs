//! Socket options, as the service that receives the socket sees them, or by their effect.

use super::child_setup::is_root;
use super::command::drop_all;
use super::imported::{systemd, wants};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use serde_json::json;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

/// A script that prints a line for each word `NAME,LEVEL,OPTION,FORM`: the value of getsockopt(2)
/// for the descriptor with that name, unpacked by that form. LEVEL `fcntl` uses fcntl(2), `name`
/// the address.
const LOOK: &str = r#"
my @names = split /:/, $ENV{LISTEN_FDNAMES};
for my $number (0 .. $#names) {
  open(my $socket, "+<&=", 3 + $number) or die;
  for my $word (@ARGV) {
    my ($name, $level, $option, $form) = split /,/, $word;
    next if $name ne $names[$number];
    my $value = $level eq "fcntl" ? fcntl($socket, $option, 0)
      : unpack($form, $level eq "name" ? getsockname($socket) : getsockopt($socket, $level, $option));
    print "$word=$value\n";
  }
}
print "end\n";
$| = 1; print ""; exec "sleep", "1000";
"#;

/// Each directive, where its option is found, and the expected value. The numbers are Linux's own:
/// asm-generic/socket.h, linux/in.h, linux/in6.h, linux/tcp.h, linux/fcntl.h. The kernel doubles
/// the sizes of buffers, socket(7).
const OPTIONS: &[(&str, &str, &str, &str)] = &[
    ("tcp", "Backlog=17", "6,11,x28L", "17"),
    ("tcp", "KeepAlive=yes", "1,9,i", "1"),
    ("tcp", "KeepAliveTimeSec=100", "6,4,i", "100"),
    ("tcp", "KeepAliveIntervalSec=7", "6,5,i", "7"),
    ("tcp", "KeepAliveProbes=3", "6,6,i", "3"),
    ("tcp", "NoDelay=yes", "6,1,i", "1"),
    ("tcp", "DeferAcceptSec=3", "6,9,i", "3"),
    ("tcp", "TCPCongestion=reno", "6,13,Z*", "reno"),
    ("tcp", "Priority=3", "1,12,i", "3"),
    ("tcp", "ReceiveBuffer=64K", "1,8,i", "131072"),
    ("tcp", "SendBuffer=32K", "1,7,i", "65536"),
    ("tcp", "IPTTL=7", "0,2,i", "7"),
    ("tcp", "Mark=42", "1,36,i", "42"),
    ("tcp", "ReusePort=yes", "1,15,i", "1"),
    ("tcp", "Transparent=yes", "0,19,i", "1"),
    ("tcp", "BindToDevice=lo", "1,25,Z*", "lo"),
    ("tcp", "Timestamping=us", "1,29,i", "1"),
    ("free", "FreeBind=yes", "0,15,i", "1"),
    ("udp", "IPTOS=low-delay", "0,1,i", "16"),
    ("udp", "Broadcast=yes", "1,6,i", "1"),
    ("udp", "PassPacketInfo=yes", "0,8,i", "1"),
    ("local", "PassCredentials=yes", "1,16,i", "1"),
    ("local", "PassSecurity=yes", "1,34,i", "1"),
    ("local", "SocketUser=nobody", "1,3,i", "2"),
    ("local", "SocketGroup=nogroup", "1,3,i", "2"),
    ("packets", "ListenSequentialPacket=DIR/packets", "1,3,i", "5"),
    ("pipe", "PipeSize=128K", "fcntl,1032,", "131072"),
    ("link", "ListenNetlink=route 1", "name,,x8L", "1"),
    ("six", "BindIPv6Only=ipv6-only", "41,26,i", "1"),
];

fn free_port() -> u16 {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    probe.local_addr().expect("its address").port()
}

/// The listen directive of each socket unit of [`OPTIONS`].
fn listens(name: &str) -> String {
    match name {
        "tcp" => format!("ListenStream=127.0.0.1:{}\n", free_port()),
        // An address for documentation (RFC 5737).
        "free" => format!("ListenStream=192.0.2.7:{}\n", free_port()),
        "udp" => {
            let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            format!("ListenDatagram=127.0.0.1:{}\n", probe.local_addr().unwrap().port())
        }
        "local" => "ListenDatagram=DIR/local\n".to_owned(),
        "pipe" => "ListenFIFO=DIR/pipe\n".to_owned(),
        "six" => format!("ListenStream=[::1]:{}\n", free_port()),
        _ => String::new(),
    }
}

#[test]
fn service_finds_each_option_of_its_socket_units() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.put("look", LOOK);
    let has_six = !fs::read_to_string("/proc/net/if_inet6").unwrap_or_default().is_empty();
    let here = |name: &str| name != "six" || has_six;
    let mut names: Vec<&str> = OPTIONS.iter().map(|row| row.0).filter(|name| here(name)).collect();
    names.dedup();
    let mut words = Vec::new();
    for name in &names {
        let own = OPTIONS.iter().filter(|row| row.0 == *name);
        let lines: Vec<&str> = own.clone().map(|row| row.1).collect();
        words.extend(own.map(|(_, _, option, _)| format!("{name},{option}")));
        let text = format!(
            "[Socket]\nService=look.service\nFileDescriptorName={name}\n{}{}\n",
            listens(name),
            lines.join("\n")
        );
        systemd(&files, &format!("{name}.socket"), &text);
    }
    words.sort();
    words.dedup();
    let sockets: Vec<String> = names.iter().map(|name| format!("{name}.socket")).collect();
    systemd(
        &files,
        "look.service",
        &format!(
            "[Service]\nSockets={}\nStandardOutput=file:DIR/seen\nExecStart=perl DIR/look {}\n",
            sockets.join(" "),
            words.join(" ")
        ),
    );
    wants(&files, &["look.service"]);
    let init = Boot::new(files).start("all");
    let seen = until("it has looked at all", || {
        Some(init.sandbox.read("seen")).filter(|seen| seen.ends_with("end\n"))
    });
    for (name, directive, option, value) in OPTIONS.iter().filter(|row| here(row.0)) {
        let line = format!("{name},{option}={value}");
        assert!(seen.lines().any(|seen| seen == line), "{directive}: {line} is not in\n{seen}");
    }
    let local = fs::metadata(init.sandbox.path("local")).unwrap();
    assert_eq!((local.uid(), local.gid()), (65534, 65534), "SocketUser=, SocketGroup=");
    // Closes the descriptors that init keeps for it.
    drop_all(&init);
    init.when_state("tcp.socket", "disabled");
    init.finish();
}

/// The number of starts that the service has recorded in a file.
fn runs(init: &Init) -> usize {
    init.sandbox.read("runs").lines().count()
}

#[test]
fn unaccepted_connections_are_discarded_when_the_service_exits() {
    let files = Sandbox::new();
    systemd(&files, "front.socket", "[Socket]\nListenStream=DIR/front.sock\nFlushPending=yes\n");
    systemd(&files, "front.service", "[Service]\nExecStart=/bin/sh -c 'echo run >>DIR/runs'\n");
    let init = Boot::new(files).start("front.socket");
    init.when_state("front.socket", "running");
    for times in 1..=2 {
        let mut client = UnixStream::connect(init.sandbox.path("front.sock")).unwrap();
        let mut rest = Vec::new();
        assert_eq!(client.read_to_end(&mut rest).unwrap_or_default(), 0, "it is closed unread");
        assert_eq!(runs(&init), times, "a run for each connection, not one more");
        // The unit does not wait for a connection while the pending ones are discarded.
        until("it waits for the next", || {
            (init.tell("sockets", &json!({}))["sockets"][0]["waits"] == true).then_some(())
        });
    }
    init.finish();
}

#[test]
fn connection_without_data_starts_no_service() {
    let files = Sandbox::new();
    let port = free_port();
    systemd(
        &files,
        "shy.socket",
        &format!("[Socket]\nListenStream=127.0.0.1:{port}\nDeferAcceptSec=100\n"),
    );
    systemd(&files, "shy.service", "[Service]\nExecStart=/bin/sleep 1000\n");
    let init = Boot::new(files).start("shy.socket");
    init.when_state("shy.socket", "running");
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    // The kernel has acknowledged the connection; any event for init would be handled before the
    // second answer.
    init.status();
    assert_eq!(init.status().state("shy.service"), "disabled");
    client.write_all(b"hello\n").unwrap();
    init.when_state("shy.service", "running");
    init.finish();
}

#[test]
fn input_on_a_device_starts_a_service_that_answers_on_it() {
    let files = Sandbox::new();
    let pty = nix::pty::openpty(None, None).unwrap();
    let line = nix::unistd::ttyname(&pty.slave).unwrap();
    systemd(
        &files,
        "line.socket",
        &format!("[Socket]\nListenSpecial={}\nWritable=yes\n", line.display()),
    );
    systemd(
        &files,
        "line.service",
        "[Service]\nExecStart=/bin/sh -c 'read word <&3; echo \"heard $$word\" >&3; exec sleep 1000'\n",
    );
    let init = Boot::new(files).start("line.socket");
    init.when_state("line.socket", "running");
    assert_eq!(init.status().state("line.service"), "disabled");
    let mut master = File::from(pty.master);
    master.write_all(b"ping\n").unwrap();
    let mut shown = String::new();
    while !shown.contains("heard ping") {
        let mut bytes = [0; 256];
        let length = master.read(&mut bytes).unwrap();
        shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    init.when_state("line.service", "running");
    init.finish();
}
