//! A stand-in for a client of the control socket with another identity: run it as another user or
//! in other namespaces. [`HELP`] lists what it can do.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "a program of the tests"
)]

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

const HELP: &str = "\
caller hold SOCKET N   connects N times, asks each time whether init answers, prints the number
                       of answers, and keeps all connections until stdin ends
caller silent SOCKET N connects N times, says nothing, prints N, and keeps them as well
caller flood SOCKET N M LINE
                       connects N times, sends the line M times on each, prints N, and reads nothing
                       until stdin ends; then prints how many answers have come so far
caller storm SOCKET LINE
                       prints 0 as it starts; until stdin ends: connects, sends the line and goes,
                       again and again
caller ask SOCKET      sends each line of stdin, and prints the line that answers it
caller pass SOCKET     connects, and passes the connection on over the socket that is stdin
";

const PING: &[u8] = b"{\"v\":1,\"id\":1,\"verb\":\"ping\"}\n";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["hold", socket, count] => hold(socket, count.parse().expect("a number"), true),
        ["silent", socket, count] => hold(socket, count.parse().expect("a number"), false),
        ["flood", socket, count, times, line] => {
            flood(socket, count.parse().expect("a number"), times.parse().expect("a number"), line);
        }
        ["storm", socket, line] => storm(socket, line),
        ["ask", socket] => ask(socket),
        ["pass", socket] => pass(socket),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(64);
        }
    }
    ExitCode::SUCCESS
}

fn answer(from: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|count| *count > 0).map(|_| line)
}

fn flood(socket: &str, count: usize, times: usize, line: &str) {
    let text = format!("{line}\n").repeat(times);
    let mut streams: Vec<UnixStream> = (0..count)
        .map(|_| {
            let mut stream = UnixStream::connect(socket).expect("it listens");
            // The socket buffer has room for it. A connection that was turned away may be closed
            // already.
            let _ = stream.write_all(text.as_bytes());
            stream.set_nonblocking(true).expect("it can be set");
            stream
        })
        .collect();
    println!("{count}");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let mut came = Vec::new();
    for stream in &mut streams {
        // Reads everything that has arrived so far.
        let _ = stream.read_to_end(&mut came);
    }
    println!("{}", came.iter().filter(|byte| **byte == b'\n').count());
}

fn storm(socket: &str, line: &str) {
    let is_over = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let line = format!("{line}\n");
    println!("0");
    while !is_over.is_finished() {
        // A connection that was turned away may be closed already.
        let _ = UnixStream::connect(socket).and_then(|mut it| it.write_all(line.as_bytes()));
    }
}

fn hold(socket: &str, count: usize, asks: bool) {
    let mut held = Vec::new();
    let mut answered = 0;
    for _ in 0..count {
        let mut stream = UnixStream::connect(socket).expect("it listens");
        if asks {
            // A connection that was turned away may be closed already.
            let _ = stream.write_all(PING);
        }
        let mut stream = BufReader::new(stream);
        let mut heard = || answer(&mut stream).is_some_and(|line| line.contains("\"ok\""));
        answered += usize::from(!asks || heard());
        held.push(stream);
    }
    println!("{answered}");
    std::io::stdout().flush().expect("stdout has a reader");
    let _ = std::io::stdin().read(&mut [0]);
    drop(held);
}

fn ask(socket: &str) {
    let mut stream = BufReader::new(UnixStream::connect(socket).expect("it listens"));
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let _ = stream.get_mut().write_all(format!("{line}\n").as_bytes());
        match answer(&mut stream) {
            Some(line) => print!("{line}"),
            None => println!("closed"),
        }
    }
}

fn pass(socket: &str) {
    let stream = UnixStream::connect(socket).expect("it listens");
    let fds = [stream.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&fds)];
    let stdin = std::io::stdin().as_raw_fd();
    sendmsg::<()>(stdin, &[IoSlice::new(b"x")], &rights, MsgFlags::empty(), None)
        .expect("stdin is a socket");
}
