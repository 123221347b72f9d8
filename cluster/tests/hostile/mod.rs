//! Sends hostile bytes to a stand and checks that they are refused. The attacks are in
//! `fleet/api_hostile.rs` and `bodies.rs`.

use crate::stand::{Reply, Stand};
use std::io::Write;

pub(crate) const PUT: &str =
    "PUT /fleet/v1/units/a.service HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
pub(crate) const GOOD: &str =
    r#"{"options":[{"section":"Service","name":"ExecStart","value":"/bin/a"}]}"#;

/// Returns the answer, or `None` if the server disconnected.
pub(crate) fn reply(stand: &Stand, bytes: &[u8]) -> Option<Reply> {
    let mut stream = stand.connect();
    let _ = stream.write_all(bytes);
    Reply::read(&mut stream)
}

/// Checks that the bytes get a 4xx or a disconnect, that the next client is served, and that
/// nothing was created.
pub(crate) fn refused(stand: &Stand, what: &str, bytes: &[u8]) {
    let reply = reply(stand, bytes);
    let status = reply.as_ref().map(|reply| reply.status);
    assert!(status.is_none_or(|status| (400..500).contains(&status)), "{what}: {reply:?}");
    assert_eq!(stand.get("/fleet/v1/units").body, "{}", "{what}: nothing is made of it");
}
