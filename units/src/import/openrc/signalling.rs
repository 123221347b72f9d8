//! Stop and reload of a declarative script's daemon: `stopsig`, `retry`, and a `reload()` that only
//! sends a signal.

use super::declaration::Declaration;
use super::expansion::expand;
use super::reading::is_harmless;
use super::script::Command;
use crate::import::import_outcome::Outcome;
use crate::text::diagnostic::Place;
use crate::text::signal;

/// A signal and the wait after it; `None` waits for ever.
type Step = (Option<u8>, Option<u32>);

/// Converts `stopsig` and `retry`.
pub(super) fn stop(this: &mut Declaration<'_>) {
    if let Some(word) = this.word("stopsig") {
        let at = this.place("stopsig");
        match signal::number(&word) {
            Some(number) => {
                this.unit.put("stop-signal", &signal::name(number), &at);
                this.kept("stopsig", "stop-signal");
            }
            None => this.reason(at, format!("stopsig: `{word:.40}` is not a signal")),
        }
    }
    let Some(word) = this.word("retry") else { return };
    let at = this.place("retry");
    match schedule(&word).as_deref() {
        Some([(first, span), rest @ ..]) => {
            if let Some(first) = first {
                this.unit.put("stop-signal", &signal::name(*first), &at);
            }
            match span {
                Some(0) => this.unit.put("stop-timeout", "1ms", &at),
                Some(span) => this.unit.put("stop-timeout", &format!("{span}s"), &at),
                None => this.unit.put("stop-timeout", "none", &at),
            }
            match rest {
                [] => this.kept("retry", "stop-signal, stop-timeout"),
                [(Some(last), _)] => {
                    this.unit.put("stop-final-signal", &signal::name(*last), &at);
                    this.kept("retry", "stop-signal, stop-timeout, stop-final-signal");
                }
                _ => this.lost("retry", "after its first signal and span KILL follows at once"),
            }
        }
        _ => this.reason(at, format!("retry: `{word:.40}` is not a schedule")),
    }
}

/// Parses `5`, `TERM/5` or `TERM/60/KILL/10`. Returns `None` if it is no schedule.
pub(super) fn schedule(text: &str) -> Option<Vec<Step>> {
    let span = |text: &str| match text {
        "forever" => Some(None),
        _ => text.parse::<u32>().ok().map(Some),
    };
    if !text.contains('/') {
        return Some(vec![(None, span(text)?)]);
    }
    let mut steps = Vec::new();
    let mut parts = text.split('/');
    while let Some(first) = parts.next() {
        let number = signal::number(first.strip_prefix('-').unwrap_or(first))?;
        steps.push((Some(number), span(parts.next()?)?));
    }
    Some(steps)
}

/// Converts `reload()`: a key can express one signal to the main process.
pub(super) fn reload(this: &mut Declaration<'_>, body: &[&Command<'_>], at: &Place) -> Outcome {
    let lost = || {
        let how = "`initctl reload-unit` is refused: it does more than send one signal";
        Outcome::Lost(how.to_string())
    };
    let mut acts = body.iter().filter(|command| {
        let first = command.words.first().map_or("", |word| word.raw);
        !is_harmless(first) && first != "return"
    });
    let (Some(act), None) = (acts.next(), acts.next()) else { return lost() };
    let mut words = Vec::new();
    for word in &act.words {
        match expand(word.raw, &mut this.reading.variables) {
            Ok(expanded) => words.extend(expanded.fields()),
            Err(_) => return lost(),
        }
    }
    let name = this.unit.name.clone();
    match signal_of(&words, &name).filter(|_| act.certain && this.unit.takes("reload-signal")) {
        Some(number) => {
            this.unit.put("reload-signal", &signal::name(number), at);
            Outcome::Kept("reload-signal".to_string())
        }
        None => lost(),
    }
}

/// Returns the only signal that a call of start-stop-daemon or supervise-daemon sends.
fn signal_of(words: &[String], name: &str) -> Option<u8> {
    let (program, rest) = words.split_first()?;
    let mut rest = rest.iter();
    if program == "supervise-daemon" {
        rest.next().filter(|word| *word == name)?;
    } else if program != "start-stop-daemon" {
        return None;
    }
    let mut found = None;
    while let Some(word) = rest.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (word.as_str(), None),
        };
        match option {
            "--signal" | "-s" => {
                let value = value.map(str::to_string).or_else(|| rest.next().cloned())?;
                found = Some(signal::number(&value)?);
            }
            "--pidfile" | "-p" | "--exec" | "-x" | "--name" | "-n" | "--user" | "-u" => {
                if value.is_none() {
                    rest.next()?;
                }
            }
            "--quiet" | "-q" | "--verbose" | "-v" | "--oknodo" | "-o" => {}
            _ => return None,
        }
    }
    found
}
