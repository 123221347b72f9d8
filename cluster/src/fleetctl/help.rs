//! The help texts: examples for each command, and the global options once.

use clap::Command;

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

/// Adds the examples, and shows the global options only in the top-level help.
pub(super) fn with_examples(mut command: Command) -> Command {
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
    command
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
        let command = with_examples(Line::command());
        let whole = command.clone().render_help().to_string();
        assert!(whole.contains("--endpoint"), "{whole}");
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let (name, help) = (one.get_name(), one.clone().render_long_help().to_string());
            assert!(!help.contains("--endpoint") && !help.contains("FLEETCTL_"), "{name}: {help}");
            assert!(help.contains(COMMON), "{name}: {help}");
            let known = EXAMPLES.iter().any(|(own, _)| *own == name);
            assert!(known || ["help", "version"].contains(&name), "{name} has no example");
        }
        for line in EXAMPLES.iter().flat_map(|(_, lines)| *lines) {
            let words = line.split(' ');
            assert!(with_examples(Line::command()).try_get_matches_from(words).is_ok(), "{line}");
        }
    }
}
