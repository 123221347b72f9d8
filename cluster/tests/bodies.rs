//! Request bodies with a false length or without an end are refused and not kept in memory. The
//! tests measure the memory of the whole process, so they are separate from `fleet`, whose tests
//! run in parallel. Other attacks are in `fleet/api_hostile.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod hostile;
mod stand;

use cluster::api::server::LARGEST_BODY;
use hostile::{GOOD, PUT, refused, reply};
use stand::{Plan, Reply, Stand};
use std::io::Write;

/// More than the other test needs, and far less than the endless body or the length of 1 GiB.
const MOST_GROWN: usize = 32 * 1024 * 1024;

/// Returns the resident memory of this process, which includes the server.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn request_with_a_false_body_length_is_refused() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let before = memory();
    let length = GOOD.len();
    let lies = [
        ("a length below zero", format!("{PUT}Content-Length: -1\r\n\r\n{GOOD}")),
        ("a length of words", format!("{PUT}Content-Length: many\r\n\r\n{GOOD}")),
        ("a length beyond all", format!("{PUT}Content-Length: 99999999999999999999\r\n\r\n{GOOD}")),
        (
            "two lengths",
            format!("{PUT}Content-Length: 5\r\nContent-Length: {length}\r\n\r\n{GOOD}"),
        ),
        (
            "a length and chunks",
            format!(
                "{PUT}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
                 PUT /fleet/v1/units/b.service HTTP/1.1\r\nHost: x\r\n\r\n"
            ),
        ),
        (
            "chunks of words",
            format!("{PUT}Transfer-Encoding: chunked\r\n\r\nzz\r\n{GOOD}\r\n0\r\n\r\n"),
        ),
        ("chunks in gzip", format!("{PUT}Transfer-Encoding: gzip\r\n\r\n{GOOD}")),
        ("a blank in a name", format!("{PUT}Content-Length : {length}\r\n\r\n{GOOD}")),
    ];
    for (what, bytes) in &lies {
        refused(&stand, what, bytes.as_bytes());
    }
    // The server does not decompress gzip: the bytes are not JSON.
    let bomb = [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &[0; 4096]].concat();
    let head = format!("{PUT}Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", bomb.len());
    refused(&stand, "gzip", &[head.as_bytes(), &bomb].concat());
    let huge = format!("{PUT}Content-Length: {}\r\n\r\n{GOOD}", 1 << 30);
    assert_eq!(reply(&stand, huge.as_bytes()).map(|reply| reply.status), Some(413));
    let half = format!("{PUT}Content-Length: {length}\r\n\r\n{}", &GOOD[..20]);
    let mut stream = stand.connect();
    stream.write_all(half.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(Reply::read(&mut stream).is_none_or(|reply| reply.status == 400));
    assert_eq!(stand.get("/fleet/v1/units").body, "{}", "an incomplete body creates no unit");
    let grown = memory().saturating_sub(before);
    assert!(grown < MOST_GROWN, "the server keeps {grown} bytes of these bodies");
}

#[test]
fn endless_body_is_refused_at_the_size_limit() {
    let stand = Stand::new(Plan::of(&["m1"]));
    let mut stream = stand.connect();
    stream.write_all(format!("{PUT}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    let before = memory();
    let mut sent = 0;
    while sent < 64 * LARGEST_BODY && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 8 * LARGEST_BODY, "the server read {sent} bytes of an endless body");
    let reply = Reply::read(&mut stream);
    assert!(reply.is_none_or(|reply| reply.status == 413));
    let grown = memory().saturating_sub(before);
    assert!(grown < MOST_GROWN, "the server keeps {grown} bytes of this body");
    assert_eq!(stand.get("/healthz").status, 200);
}
