//! Rewrites argv before clap parses it: `+x` and `-y` become `--want=x` and `--drop=y`, and a
//! missing verb becomes `status`. Program names such as `poweroff` and `telinit` become their
//! verbs. A verb of another init system is refused with a hint.

use crate::exit::{Error, Exit};
use crate::session;
use crate::spelling::nearest;
use crate::verb::runlevel;

/// Flags of [`crate::arguments::Common`] whose value may be the next word.
const WITH_VALUE: [&str; 2] = ["--socket", "--color"];

/// Verbs of other systems, with their replacement here.
const FOREIGN: &[(&str, &str)] = &[
    (
        "start",
        "state follows from the goal: `initctl want NAME` makes it wanted until the next boot",
    ),
    (
        "stop",
        "state follows from the goal: `initctl unwant NAME` ends a want, `initctl set-target GOAL -NAME` drops the unit from the goal, `initctl mask NAME` prevents its start",
    ),
    ("try-restart", "`initctl restart NAME`"),
    ("condrestart", "`initctl restart NAME`"),
    ("reload-or-restart", "`initctl reload-unit NAME` or `initctl restart NAME`"),
    ("daemon-reload", "`initctl reload`"),
    ("reload-configuration", "`initctl reload`"),
    ("daemon-reexec", "`initctl upgrade`"),
    ("isolate", "`initctl set-target TARGET`"),
    ("runlevel", "`initctl status`, or call the program as `runlevel`"),
    ("init", "`initctl set-target TARGET`"),
    ("default", "`initctl set-target TARGET --persist`"),
    ("set-default", "`initctl set-target TARGET --persist`"),
    ("get-default", "`initctl status`"),
    ("reset-failed", "`initctl retry NAME`"),
    ("clear", "`initctl retry NAME`"),
    ("list", "`initctl status --all`"),
    ("list-units", "`initctl status --all`"),
    ("list-unit-files", "`initctl status --all`"),
    ("list-jobs", "`initctl status`"),
    ("list-dependencies", "`initctl tree NAME`"),
    ("is-active", "`initctl status --check NAME`"),
    ("is-failed", "`initctl status NAME` (exit code 1)"),
    ("is-enabled", "`initctl status NAME`"),
    ("is-system-running", "`initctl status --check`"),
    ("show", "`initctl status NAME --json`"),
    ("show-log", "`initctl logs NAME`"),
    ("log", "`initctl logs NAME`"),
    ("journal", "`initctl logs NAME`"),
    ("edit", "`$EDITOR \"$(initctl cat NAME --json | jq -r .file)\"`, then `initctl reload`"),
    ("emit", "`initctl want TARGET`"),
    ("add", "`initctl enable NAME`"),
    ("del", "`initctl disable NAME`"),
    ("up", "`initctl want NAME`"),
    ("down", "`initctl unwant NAME`"),
    ("once", "`initctl want NAME`"),
    ("verify", "`initctl check`"),
    ("lint", "`initctl check`"),
    ("dump", "`initctl graph`"),
    ("shutdown", "`initctl poweroff`"),
    ("kexec", "no kernel that kexec has loaded can be booted; `initctl reboot`"),
    ("soft-reboot", "`initctl reboot` restarts the machine, `initctl upgrade` init alone"),
    ("rescue", "`initctl set-target emergency`"),
    ("emergency", "`initctl set-target emergency`"),
];

/// Returns the words for clap, with the program name first.
///
/// # Errors
/// An unknown verb, with a hint.
pub(crate) fn words(typed: Vec<String>, verbs: &[String]) -> Result<Vec<String>, Error> {
    let mut typed = typed.into_iter();
    let program = typed.next().unwrap_or_default();
    let rest: Vec<String> = typed.collect();
    let called = program.rsplit('/').next().unwrap_or_default();
    let rest = match called {
        "poweroff" | "reboot" | "halt" => power_alias(called, rest)?,
        "shutdown" => shutdown(rest)?,
        "telinit" | "init" => telinit(rest)?,
        _ => rest,
    };
    let mut words = vec!["initctl".to_string()];
    let Some(at) = verb_at(&rest) else {
        if !rest.iter().any(|word| matches!(word.as_str(), "-h" | "--help" | "-V" | "--version")) {
            words.push("status".to_string());
        }
        words.extend(rest);
        return Ok(words);
    };
    let (before, from) = rest.split_at(at);
    let Some((verb, after)) = from.split_first() else { return Ok(words) };
    if verb == "help" {
        words.extend(after.first().cloned());
        words.push("--help".to_string());
        return Ok(words);
    }
    if !verbs.contains(verb) {
        return Err(unknown(verb, after, verbs));
    }
    words.extend(before.iter().cloned());
    words.push(verb.clone());
    match verb.as_str() {
        "set-target" | "plan" => {
            // No name starts with `-`, so dropping the `--` loses nothing.
            let (flags, names) =
                after.split_at(after.iter().take_while(|word| *word != "--").count());
            let names = names.iter().skip(1);
            words.extend(flags.iter().chain(names).map(|word| overlay_flag(word)));
        }
        _ => words.extend(after.iter().cloned()),
    }
    Ok(words)
}

/// Finds the verb: the first word that is neither a flag nor a flag's value.
fn verb_at(rest: &[String]) -> Option<usize> {
    let mut value = false;
    for (at, word) in rest.iter().enumerate() {
        if value {
            value = false;
        } else if WITH_VALUE.contains(&word.as_str()) {
            value = true;
        } else if !word.starts_with('-') {
            return Some(at);
        }
    }
    None
}

/// Rewrites `+x` and `-y`; `-h` keeps its usual meaning.
fn overlay_flag(word: &str) -> String {
    if let Some(name) = word.strip_prefix('+') {
        return format!("--want={name}");
    }
    match word.strip_prefix('-') {
        Some(name) if !name.is_empty() && !name.starts_with('-') && name != "h" => {
            format!("--drop={name}")
        }
        _ => word.to_string(),
    }
}

fn unknown(verb: &str, after: &[String], verbs: &[String]) -> Error {
    if let Some((_, ours)) = FOREIGN.iter().find(|(word, _)| *word == verb) {
        let name = after.iter().find(|word| !word.starts_with('-'));
        let hint = name.map_or_else(|| ours.to_string(), |name| ours.replace("NAME", name));
        return Error::usage(format!("`{verb}` is not a verb here"), hint);
    }
    if let Some(verb_after) = after.first().filter(|word| verbs.contains(word)) {
        let hint = format!("the verb comes first: `initctl {verb_after} {verb}`");
        return Error::usage(format!("`{verb}` is not a verb"), hint);
    }
    let hint = match nearest(verb, verbs.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`initctl --help` lists the verbs".to_string(),
    };
    Error::usage(format!("`{verb}` is not a verb"), hint)
}

/// Handles calls as `poweroff`, `reboot` or `halt`, which ask for no confirmation. `-p`,
/// `--poweroff`, `--reboot` and `--halt` select the verb. Flags about records, messages, sync and
/// devices are ignored.
fn power_alias(called: &str, rest: Vec<String>) -> Result<Vec<String>, Error> {
    let mut verb = called.to_string();
    let mut kept = Vec::new();
    for word in rest {
        match word.as_str() {
            "-p" | "--poweroff" => verb = "poweroff".to_string(),
            "--reboot" => verb = "reboot".to_string(),
            "--halt" => verb = "halt".to_string(),
            "-d" | "-n" | "--no-wtmp" | "--no-wall" | "-i" | "-h" => {}
            "-w" | "--wtmp-only" => {
                let hint = "the boot set records each shutdown in wtmp";
                return Err(Error::usage(format!("{called} writes no record for `{word}`"), hint));
            }
            "-f" | "--force" => kept.push("--force".to_string()),
            "-ff" => kept.extend(["--force".to_string(), "--force".to_string()]),
            _ => kept.push(word),
        }
    }
    let mut words = vec![verb, "--yes".to_string()];
    words.extend(kept);
    Ok(words)
}

const SHUTDOWN: &str = "shutdown [-h | -P | -r | -H] [now | +MINUTES | HH:MM [MESSAGE…]] | -c";
const SHUTDOWN_HELP: &str = "\
-h, -P, --poweroff  stop everything, then power off (the default)
-r, --reboot        stop everything, then reboot
-H, --halt          stop everything, then halt the machine
without a time      do it at once, after a question at a terminal
now, +0             do it at once, without a question
+MINUTES, HH:MM     do it then; logged-in users are warned, with the message
-c                  cancel the planned shutdown
";
const TELINIT: &str = "telinit LEVEL";
const TELINIT_LEVELS: &str = "0 poweroff, 6 reboot, 1 or S rescue, 2-4 multi-user, 5 graphical or multi-user, q reload, u upgrade";

/// Prints the help of an alias.
fn help(usage: &str, text: &str) -> Error {
    match session::print(&format!("Usage: {usage}\n\n{text}\n")) {
        Ok(()) => Error::Printed(Exit::Done),
        Err(error) => error,
    }
}

/// Handles `shutdown [-h|-P|-r|-H] [now|+MINUTES|HH:MM] [message…]` and `shutdown -c`. Without a
/// time, it asks a user at a terminal.
fn shutdown(rest: Vec<String>) -> Result<Vec<String>, Error> {
    let mut verb = "poweroff";
    let (mut kept, mut message) = (Vec::new(), Vec::new());
    let (mut time, mut cancels) = (None, false);
    let mut left = rest.iter();
    while let Some(word) = left.next() {
        match word.as_str() {
            "-h" | "-P" | "--poweroff" => verb = "poweroff",
            "-r" | "--reboot" => verb = "reboot",
            "-H" | "--halt" => verb = "halt",
            "-c" => cancels = true,
            "--help" => return Err(help(SHUTDOWN, SHUTDOWN_HELP.trim_end())),
            "--json" | "--version" => kept.push(word.clone()),
            "--socket" => kept.extend([word].into_iter().chain(left.next()).cloned()),
            _ if word.starts_with("--socket=") => kept.push(word.clone()),
            _ if word.starts_with('-') => {
                return Err(Error::usage(format!("shutdown: unknown option {word}"), SHUTDOWN));
            }
            _ if time.is_none() => time = Some(word.as_str()),
            _ => message.push(word.as_str()),
        }
    }
    let mut words = vec![verb];
    let message = message.join(" ");
    match time {
        _ if cancels => words.push("--cancel"),
        None => {}
        Some("now" | "+0") => words.push("--yes"),
        Some(time) => {
            words.extend(["--yes", "--at", time]);
            if !message.is_empty() {
                words.extend(["--message", &message]);
            }
        }
    }
    Ok(words.into_iter().map(str::to_string).chain(kept).collect())
}

/// Handles `telinit 0|1|2…6|S|q|u`, as in sysvinit's init(8).
fn telinit(rest: Vec<String>) -> Result<Vec<String>, Error> {
    let (levels, flags): (Vec<String>, Vec<String>) =
        rest.into_iter().partition(|word| !word.starts_with('-') && !word.contains('/'));
    if flags.iter().any(|flag| matches!(flag.as_str(), "-h" | "--help")) {
        return Err(help(TELINIT, TELINIT_LEVELS));
    }
    let Some(level) = levels.first().map(String::as_str) else {
        return Err(Error::usage("telinit needs a level", TELINIT_LEVELS));
    };
    let target: String;
    let ours: &[&str] = match level {
        "0" => &["poweroff", "--yes"],
        "6" => &["reboot", "--yes"],
        "1" | "s" | "S" | "2" | "3" | "4" | "5" => {
            target = runlevel::target(level, &flags);
            &["set-target", &target, "--no-wait"]
        }
        "q" | "Q" => &["reload", "--no-wait"],
        "u" | "U" => &["upgrade"],
        _ => {
            let message = format!("telinit does not know `{level}`");
            return Err(Error::usage(message, TELINIT_LEVELS));
        }
    };
    Ok(ours.iter().map(|word| (*word).to_string()).chain(flags).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let verbs =
            ["status", "set-target", "plan", "poweroff", "reboot", "halt", "logs", "reload"];
        let verbs: Vec<String> = verbs.iter().map(|verb| (*verb).to_string()).collect();
        let typed = line.split_whitespace().map(str::to_string).collect();
        match words(typed, &verbs) {
            Ok(words) => words.join(" "),
            Err(Error::Failed(Exit::Usage, failure)) => format!("! {}", failure.hint),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_with_plus_or_minus_become_flags_for_any_first_letter() {
        for (typed, want) in [
            ("initctl set-target web +x -y", "initctl set-target web --want=x --drop=y"),
            ("initctl plan -json --json", "initctl plan --drop=json --json"),
            ("initctl set-target web --wait -h", "initctl set-target web --wait -h"),
            ("initctl logs -f web", "initctl logs -f web"),
            ("initctl plan --json -- -web +x y", "initctl plan --json --drop=web --want=x y"),
        ] {
            assert_eq!(rewritten(typed), want);
        }
    }

    #[test]
    fn missing_verb_means_status_and_a_leading_flag_is_no_verb() {
        for (typed, want) in [
            ("initctl", "initctl status"),
            ("/sbin/initctl --json", "initctl status --json"),
            ("initctl --socket /x", "initctl status --socket /x"),
            ("initctl --socket /x logs", "initctl --socket /x logs"),
            ("initctl --version", "initctl --version"),
            ("initctl help logs", "initctl logs --help"),
        ] {
            assert_eq!(rewritten(typed), want);
        }
    }

    #[test]
    fn program_alias_selects_its_verb() {
        for (typed, want) in [
            ("/sbin/poweroff", "initctl poweroff --yes"),
            ("halt -p", "initctl poweroff --yes"),
            ("reboot --socket /x", "initctl reboot --yes --socket /x"),
            ("reboot -f", "initctl reboot --yes --force"),
            ("poweroff -ff -n", "initctl poweroff --yes --force --force"),
            ("halt --force --force", "initctl halt --yes --force --force"),
            ("shutdown -h now", "initctl poweroff --yes"),
            ("shutdown -r now for a new kernel", "initctl reboot --yes"),
            ("shutdown", "initctl poweroff"),
            ("shutdown -r", "initctl reboot"),
            ("shutdown +5", "initctl poweroff --yes --at +5"),
            (
                "shutdown -r 23:00 a new kernel",
                "initctl reboot --yes --at 23:00 --message a new kernel",
            ),
            ("shutdown +5 /var is full", "initctl poweroff --yes --at +5 --message /var is full"),
            ("shutdown --socket x -r now", "initctl reboot --yes --socket x"),
            ("shutdown -c", "initctl poweroff --cancel"),
            (
                "shutdown -k +5",
                "! shutdown [-h | -P | -r | -H] [now | +MINUTES | HH:MM [MESSAGE…]] | -c",
            ),
            (
                "telinit",
                "! 0 poweroff, 6 reboot, 1 or S rescue, 2-4 multi-user, 5 graphical or multi-user, q reload, u upgrade",
            ),
            ("telinit 6", "initctl reboot --yes"),
            ("telinit q", "initctl reload --no-wait"),
            ("telinit 3", "initctl set-target multi-user --no-wait"),
        ] {
            assert_eq!(rewritten(typed), want);
        }
    }

    #[test]
    fn unknown_verb_is_refused_with_a_suggestion() {
        for (typed, want) in [
            ("initctl is-active web", "! `initctl status --check web`"),
            ("initctl daemon-reload", "! `initctl reload`"),
            ("initctl stauts", "! did you mean `status`?"),
            ("initctl web status", "! the verb comes first: `initctl status web`"),
            ("initctl xyzzy", "! `initctl --help` lists the verbs"),
        ] {
            assert_eq!(rewritten(typed), want);
        }
        assert!(rewritten("initctl start web").contains("`initctl want web`"));
    }
}
