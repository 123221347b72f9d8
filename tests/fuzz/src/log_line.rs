//! Checks of the fuzz target `log_line` for any bytes. A stored line of a log is parsed and written
//! again unchanged. Text of a service becomes exactly one stored line, and no control sequence of
//! it is shown. After a first byte above 127 the bytes choose a time, a run and a text.

use super::composed::Composed;
use groundstate_units::control::log_line::{LogLine, ShownLine, printable};
use groundstate_units::machine::event::RunId;
use groundstate_units::text::wall_clock::WallTime;

/// The time of the line, if it is a stored one. Panics if a promise is broken.
pub fn log_line(bytes: &[u8]) -> Option<WallTime> {
    let shown = printable(bytes);
    let unprintable =
        |c: char| (c.is_control() && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}');
    assert!(!shown.chars().any(unprintable), "{shown:?}");
    let text = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let run = u64::try_from(bytes.len()).unwrap_or(0);
    let time = WallTime::from_millis(run.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16);
    let level = bytes.first().map(|byte| byte % 8);
    for (run, level, continued) in [
        (Some(RunId(run)), None, false),
        (Some(RunId(run)), level, false),
        (Some(RunId(run)), level, true),
        (None, None, false),
    ] {
        let line = LogLine { time, run, level, continued, text };
        let mut stored = Vec::new();
        line.render(&mut stored);
        assert_eq!(LogLine::parse(&stored), Some(line), "{stored:?}");
        assert_eq!(stored.iter().filter(|byte| **byte == b'\n').count(), 1, "more than a line");
        let shown = serde_json::to_string(&ShownLine::new("a", &line)).expect("it can be written");
        assert!(!shown.contains('\n'), "more than a line");
    }
    let stored = match bytes.split_first() {
        Some((first, rest)) if *first > 127 => composed(rest),
        Some(_) | None => bytes.to_vec(),
    };
    let line = LogLine::parse(&stored)?;
    let mut again = Vec::new();
    line.render(&mut again);
    assert_eq!(LogLine::parse(&again), Some(line), "{stored:?}");
    Some(line.time)
}

/// The parts of a date are sometimes out of range.
fn composed(bytes: &[u8]) -> Vec<u8> {
    let mut from = Composed::of(bytes);
    let mut up_to = |most: u16| u16::from(from.byte()) % (most + 1);
    let date =
        format!("{}{:02}-{:02}-{:02}", 19 + up_to(60), up_to(99), 1 + up_to(12), 1 + up_to(28));
    let time = format!("{:02}:{:02}:{:02}.{:03}", up_to(24), up_to(59), up_to(59), up_to(255));
    let run = from.pick(&[
        "-",
        "0",
        "17",
        "17+",
        "5",
        "12+",
        "18446744073709551615",
        "1",
        "-",
        "",
        "-1",
        "3",
    ]);
    let mut line = format!("{date}T{time}Z {run} ").into_bytes();
    line.extend_from_slice(from.raw(255));
    line
}
