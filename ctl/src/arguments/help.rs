//! The help of `initctl` as a whole: the verbs in groups, the common options once, and examples.
//! clap cannot group subcommands, so the groups are text of the template.

use clap::Command;
use std::fmt::Write;

/// The groups of verbs, for the help and the man page.
pub(crate) const GROUPS: [(&str, &[&str]); 8] = [
    ("State", &["status", "why", "tree", "timers", "sockets", "whose", "doctor"]),
    (
        "Goal and units",
        &["set-target", "want", "unwant", "plan", "restart", "reload-unit", "retry", "kill"],
    ),
    ("Policy: choices that outlast a reboot", &["mask", "unmask", "enable", "disable", "prefer"]),
    ("Unit files", &["check", "reload", "cat", "explain", "convert", "source"]),
    ("Logs and events", &["logs", "events"]),
    ("Boot time", &["blame", "critical-chain", "plot"]),
    ("Power", &["poweroff", "reboot", "halt", "exit"]),
    (
        "Init and scripts",
        &["ping", "stats", "graph", "upgrade", "switch-root", "completions", "man"],
    ),
];

/// Commands for a first session, each with its effect.
pub(crate) const EXAMPLES: [(&str, &str); 5] = [
    ("initctl status web", "show web in full, with its last output"),
    ("initctl why web", "explain why web is not running"),
    ("initctl logs -f web", "follow the output of web"),
    ("initctl check && initctl reload", "check changed unit files, then apply them"),
    ("initctl plan emergency", "show what another goal would stop and start"),
];

/// The exit codes.
pub(crate) const EXIT_CODES: &str = "0 done, 1 the result is bad, 2 timed out, 64 usage, \
    65 unit files or plan refused, 69 no init at the socket, 77 not allowed";

/// Appended to the help of each verb.
const COMMON: &str = "Options of all verbs: initctl --help";

/// Groups the verbs, and shows the common options only in the main help.
pub(super) fn with_groups(mut command: Command) -> Command {
    // Copies the common options into each verb.
    command.build();
    let names: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_string()).collect();
    for name in names {
        command = command.mut_subcommand(name, without_common);
    }
    let mut template = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (title, verbs) in GROUPS {
        let _ = writeln!(template, "\n{title}:\n{}", rows(&command, verbs).trim_end());
    }
    template.push_str("\nOptions:\n{options}\n\nExamples:\n");
    for (line, effect) in EXAMPLES {
        let _ = writeln!(template, "  {line:<33}{effect}");
    }
    command.help_template(template.trim_end().to_string() + "{after-help}")
}

/// One line for each verb; the descriptions are short enough not to be wrapped.
fn rows(command: &Command, verbs: &[&str]) -> String {
    let found = verbs.iter().filter_map(|name| command.find_subcommand(name));
    let row = |verb: &Command| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<16}{about}\n", verb.get_name())
    };
    found.map(row).collect()
}

fn without_common(verb: Command) -> Command {
    let names: Vec<String> =
        verb.get_subcommands().map(|inner| inner.get_name().to_string()).collect();
    let hidden = verb.mut_args(|arg| match arg.is_global_set() {
        true => arg.hide(true),
        false => arg,
    });
    let in_subcommand = |verb: Command, name| verb.mut_subcommand(name, without_common);
    names.into_iter().fold(hidden, in_subcommand).after_help(COMMON)
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::*;

    #[test]
    fn each_verb_is_in_exactly_one_help_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        let command = command();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut known: Vec<&str> = verbs.map(Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn no_line_of_the_help_is_wider_than_80_columns() {
        let help = command().term_width(80).render_help().to_string();
        let wide = help.lines().filter(|line| line.chars().count() > 80);
        assert_eq!(wide.collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn help_examples_are_valid_commands() {
        for line in EXAMPLES.iter().flat_map(|(line, _)| line.split(" && ")) {
            assert!(command().try_get_matches_from(line.split(' ')).is_ok(), "{line}");
        }
    }

    #[test]
    fn common_options_are_only_in_the_main_help() {
        assert!(command().render_help().to_string().contains("--socket"));
        for verb in command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            for one in [verb].into_iter().chain(verb.get_subcommands()) {
                let help = one.clone().render_long_help().to_string();
                assert!(!help.contains("--socket"), "{help}");
            }
        }
    }
}
