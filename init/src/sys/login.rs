//! Writes utmp(5) records with the C library's functions. They read and lock a file, so only
//! children of PID 1 use them.

/// Writes a record: a terminal waits for a login (`begins`), or the login has ended.
pub(crate) fn record(id: &str, line: &str, pid: i32, begins: bool) {
    // SAFETY: utmpx is plain data; all zeroes is a value of it.
    let mut entry: libc::utmpx = unsafe { std::mem::zeroed() };
    entry.ut_type = if begins { libc::INIT_PROCESS } else { libc::DEAD_PROCESS };
    entry.ut_pid = pid;
    fill(&mut entry.ut_id, id);
    fill(&mut entry.ut_line, line);
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = seconds.map(|since| since.as_secs()).unwrap_or_default();
    entry.ut_tv.tv_sec = seconds.try_into().unwrap_or_default();
    // SAFETY: `entry` is a whole record; this process has one thread.
    unsafe {
        libc::setutxent();
        libc::pututxline(&raw const entry);
        libc::endutxent();
    }
}

fn fill(to: &mut [libc::c_char], from: &str) {
    for (to, from) in to.iter_mut().zip(from.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
}
