//! The progress line on stderr: what a command waits for. It is redrawn on changes and removed
//! before other output. Only on a terminal.

use super::table::plain;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// A shorter wait shows no line, because it would only flicker.
const GRACE: Duration = Duration::from_millis(300);
/// Interval between updates of the elapsed time.
const TICK: Duration = Duration::from_secs(1);
/// Returns to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";
/// Disables and enables line wrapping: a long line must not start a second one, which would stay.
const UNWRAPPED: (&str, &str) = ("\x1b[?7l", "\x1b[?7h");

/// The line on the terminal.
static SHOWN: Mutex<String> = Mutex::new(String::new());

/// Shows what the command waits for, and the elapsed time.
pub(super) fn show(unit: &str, waits: &str, began: Instant) {
    if began.elapsed() < GRACE || !can_redraw() {
        return;
    }
    let line = line(unit, waits, began.elapsed());
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if *shown == line {
        return;
    }
    put(&format!("{CLEAR}{}{line}{}", UNWRAPPED.0, UNWRAPPED.1));
    *shown = line;
}

/// Removes the line before other output.
pub(super) fn clear() {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if !std::mem::take(&mut *shown).is_empty() {
        put(CLEAR);
    }
}

/// Shows the line while a future is pending.
pub(super) async fn beside<T>(unit: &str, waits: &str, awaited: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let mut ticks = interval_at(began + GRACE, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut awaited = std::pin::pin!(awaited);
    loop {
        tokio::select! {
            there = &mut awaited => {
                clear();
                return there;
            }
            _ = ticks.tick() => show(unit, waits, began),
        }
    }
}

fn line(unit: &str, waits: &str, time: Duration) -> String {
    plain(&format!("{unit}: {waits}, {} s", time.as_secs()))
}

/// Returns true if stderr is a terminal, and the terminal can clear a line.
fn can_redraw() -> bool {
    let knows = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
    knows && std::io::stderr().is_terminal()
}

fn put(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_has_unit_awaited_state_and_elapsed_time() {
        let time = Duration::from_millis(12_900);
        assert_eq!(
            line("web.service", "loaded on 01234567..., to be launched", time),
            "web.service: loaded on 01234567..., to be launched, 12 s"
        );
        assert_eq!(line("a\n", "\x1b[2J", Duration::ZERO), "a\u{fffd}: \u{fffd}[2J, 0 s");
    }
}
