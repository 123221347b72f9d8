//! The help texts: the commands in groups, examples for each, and the global options once.
//! clap cannot group subcommands, so the groups are text of the template.

use clap::Command;
use std::fmt::Write;

/// The groups of commands, for the help and the man page.
pub(super) const GROUPS: [(&str, &[&str]); 6] = [
    ("State", &["list-units", "list-unit-files", "list-machines", "status", "why", "cat"]),
    ("Units", &["start", "stop", "restart", "rollout", "submit", "load", "unload", "destroy"]),
    ("Output and events", &["logs", "journal", "events"]),
    ("Machines", &["drain", "undrain", "ssh"]),
    ("Backup", &["backup", "restore"]),
    ("Others", &["fd-forward", "completions", "version", "help"]),
];

/// Commands for a start, each with its effect.
const FIRST: [(&str, &str); 5] = [
    ("fleetctl list-units", "show where units run"),
    ("fleetctl start web.service", "place a unit on a machine and start it"),
    ("fleetctl why web.service", "explain why a unit runs there, or nowhere"),
    ("fleetctl rollout web.service", "replace the file of a unit"),
    ("fleetctl drain --wait 282f949f", "move units off a machine and wait"),
];

const VARIABLES: &str =
    "Options from --endpoint to --json have variables, such as FLEETCTL_ENDPOINT.";

/// Appended to the help of each command.
const COMMON: &str = "Options of all commands: fleetctl --help";

/// Examples by command.
const EXAMPLES: [(&str, &[&str]); 24] = [
    ("backup", &["fleetctl backup /var/backups/fleet.json"]),
    ("cat", &["fleetctl cat web.service"]),
    ("destroy", &["fleetctl destroy web.service", "fleetctl destroy web@1 web@2"]),
    ("drain", &["fleetctl drain 282f949f", "fleetctl drain --wait --timeout=600 --yes 282f949f"]),
    ("events", &["fleetctl events", "fleetctl --json events"]),
    ("fd-forward", &["fleetctl fd-forward /run/fleet.sock"]),
    ("journal", &["fleetctl journal --lines=50 -f web.service"]),
    (
        "list-machines",
        &["fleetctl list-machines -l", "fleetctl list-machines --fields=machine,draining"],
    ),
    ("list-unit-files", &["fleetctl list-unit-files --fields=unit,dstate,state,reason"]),
    ("list-units", &["fleetctl list-units", "fleetctl list-units --watch"]),
    ("load", &["fleetctl load web.service"]),
    ("logs", &["fleetctl logs -n 100 -f web.service"]),
    ("restart", &["fleetctl restart web.service"]),
    ("restore", &["fleetctl restore /var/backups/fleet.json"]),
    ("rollout", &["fleetctl rollout --batch=2 web@.service"]),
    ("ssh", &["fleetctl ssh web.service", "fleetctl ssh --machine=282f949f uptime"]),
    ("start", &["fleetctl start web.service", "fleetctl start --no-block web@1 web@2"]),
    ("status", &["fleetctl status web.service"]),
    ("stop", &["fleetctl stop web.service"]),
    ("submit", &["fleetctl submit web.service", "fleetctl submit --replace web@.service"]),
    ("undrain", &["fleetctl undrain 282f949f"]),
    ("unload", &["fleetctl unload web.service"]),
    ("why", &["fleetctl why web.service"]),
    ("completions", &["fleetctl completions bash"]),
];

/// Groups the commands, adds the examples, and shows the global options only in the top-level help.
pub(super) fn with_groups(mut command: Command) -> Command {
    // `build` copies the global options into each command.
    command.build();
    let names: Vec<String> =
        command.get_subcommands().map(|one| one.get_name().to_string()).collect();
    for name in names {
        command = command.mut_subcommand(name, |one| {
            let examples = examples_of(one.get_name());
            let hidden = one.mut_args(|arg| {
                let is_common =
                    arg.is_global_set() || arg.get_help_heading() == Some("Global options");
                if is_common { arg.hide(true) } else { arg }
            });
            hidden.after_help(examples)
        });
    }
    let template = template(&command);
    command.help_template(template).mut_args(|arg| arg.hide_env(true))
}

fn template(command: &Command) -> String {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut text = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{title}:{header:#}");
        for one in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{:<17}{literal:#}{about}", one.get_name());
        }
    }
    let _ = writeln!(text, "\n{header}Options:{header:#}\n{{options}}\n\n{VARIABLES}");
    let _ = writeln!(text, "\n{header}Examples:{header:#}");
    for (line, effect) in FIRST {
        let _ = writeln!(text, "  {line:<32}{effect}");
    }
    text.trim_end().to_string() + "{after-help}"
}

fn examples_of(name: &str) -> String {
    let own = EXAMPLES.iter().find(|(own, _)| *own == name);
    let lines: String =
        own.iter().flat_map(|(_, lines)| *lines).map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() { COMMON.to_string() } else { format!("Examples:\n{lines}\n{COMMON}") }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Line;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_of_each_command_has_examples_that_parse_and_no_common_options() {
        let command = with_groups(Line::command());
        let whole = command.clone().term_width(80).render_help().to_string();
        assert!(whole.contains("--endpoint"), "{whole}");
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let (name, help) = (one.get_name(), one.clone().render_long_help().to_string());
            assert!(!help.contains("--endpoint") && !help.contains("FLEETCTL_"), "{name}: {help}");
            assert!(help.contains(COMMON), "{name}: {help}");
            let known = EXAMPLES.iter().any(|(own, _)| *own == name);
            assert!(known || ["help", "version"].contains(&name), "{name} has no example");
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "{name}");
        }
        assert_eq!(whole.lines().find(|line| line.chars().count() > 80), None, "{whole}");
        let first = FIRST.iter().map(|(line, _)| line);
        for line in EXAMPLES.iter().flat_map(|(_, lines)| *lines).chain(first) {
            let words = line.split(' ');
            assert!(with_groups(Line::command()).try_get_matches_from(words).is_ok(), "{line}");
        }
    }
}
