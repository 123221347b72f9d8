//! The command line of systemctl(1): flags before, between or after the names, values after `=` or
//! as the next word.

/// The parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The verb; default `list-units`.
    pub(super) verb: String,
    /// Units, or patterns of them.
    pub(super) names: Vec<String>,
    /// `--all`.
    pub(super) all: bool,
    /// `--quiet`.
    pub(super) quiet: bool,
    /// `--no-legend`.
    pub(super) no_legend: bool,
    /// `--plain`.
    pub(super) plain: bool,
    /// `--now`.
    pub(super) now: bool,
    /// `--runtime`.
    pub(super) runtime: bool,
    /// `--no-block`.
    pub(super) no_block: bool,
    /// `--no-reload`.
    pub(super) no_reload: bool,
    /// `--value`.
    pub(super) value: bool,
    /// `--full`.
    pub(super) full: bool,
    /// `--wait`.
    pub(super) wait: bool,
    /// `--reverse`.
    pub(super) reverse: bool,
    /// `--after`, for list-dependencies.
    pub(super) after: bool,
    /// `--before`, for list-dependencies.
    pub(super) before: bool,
    /// `--preset-mode`.
    pub(super) preset_mode: Option<String>,
    /// `--force`, once or twice.
    pub(super) force: u8,
    /// `--dry-run`.
    pub(super) dry_run: bool,
    /// `--user`, or `--system`.
    pub(super) user: Option<bool>,
    /// `--when`.
    pub(super) when: Option<String>,
    /// `--type`.
    pub(super) types: Vec<String>,
    /// `--state`, and `--failed`.
    pub(super) states: Vec<String>,
    /// `--property`; empty: all.
    pub(super) properties: Vec<String>,
    /// `--output=json` or `json-pretty`.
    pub(super) json: bool,
    /// `--lines`.
    pub(super) lines: Option<u64>,
    /// `--signal`.
    pub(super) signal: Option<String>,
    /// `--kill-who`.
    pub(super) kill_who: Option<String>,
    /// `--root`, without the slash at its end.
    pub(super) root: Option<String>,
}

/// Flags whose value may be the next word.
const WITH_VALUE: [&str; 20] = [
    "--type",
    "--state",
    "--property",
    "--output",
    "--lines",
    "--signal",
    "--kill-who",
    "--kill-whom",
    "--root",
    "--job-mode",
    "--host",
    "--machine",
    "--preset-mode",
    "--what",
    "--message",
    "--timestamp",
    "--when",
    "--image",
    "--legend",
    "--check-inhibitors",
];
/// Short options and their long names.
const LETTERS: [(char, &str); 17] = [
    ('t', "--type"),
    ('p', "--property"),
    ('P', "--property-value"),
    ('o', "--output"),
    ('n', "--lines"),
    ('s', "--signal"),
    ('H', "--host"),
    ('M', "--machine"),
    ('a', "--all"),
    ('l', "--full"),
    ('q', "--quiet"),
    ('r', "--recursive"),
    ('f', "--force"),
    ('i', "--ignore-inhibitors"),
    ('T', "--show-transaction"),
    ('h', "--help"),
    ('V', "--version"),
];

impl Asked {
    /// Parses the arguments; a call as `poweroff` and the like means that verb.
    ///
    /// # Errors
    /// The fault of the command line.
    pub(super) fn parse(called: &str, words: &[String]) -> Result<Asked, String> {
        let mut asked = Asked::default();
        let mut bare = Vec::new();
        let mut words = words.iter();
        let mut flags = true;
        while let Some(word) = words.next() {
            if word == "--" {
                flags = false;
            } else if !flags || !word.starts_with('-') || word == "-" {
                bare.push(word.clone());
            } else if word.starts_with("--") {
                let (flag, given) = match word.split_once('=') {
                    Some((flag, value)) => (flag, Some(value.to_string())),
                    None => (word.as_str(), None),
                };
                asked.flag(flag, given, || words.next().cloned())?;
            } else {
                asked.letters(word, || words.next().cloned())?;
            }
        }
        let mut bare = bare.into_iter();
        if asked.verb.is_empty() {
            asked.verb = match called {
                "poweroff" | "reboot" | "halt" => called.to_string(),
                _ => bare.next().unwrap_or_else(|| "list-units".to_string()),
            };
        }
        asked.names = bare.collect();
        Ok(asked)
    }

    fn letters(
        &mut self,
        word: &str,
        mut next: impl FnMut() -> Option<String>,
    ) -> Result<(), String> {
        let letters = word.trim_start_matches('-');
        for (at, letter) in letters.char_indices() {
            let Some((_, flag)) = LETTERS.iter().find(|(known, _)| *known == letter) else {
                return Err(format!("systemctl: invalid option -- '{letter}'"));
            };
            if *flag != "--property-value" && !WITH_VALUE.contains(flag) {
                self.flag(flag, None, &mut next)?;
                continue;
            }
            let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            let value = if rest.is_empty() { next() } else { Some(rest.to_string()) };
            if *flag == "--property-value" {
                self.value = true;
                return self.flag("--property", value, &mut next);
            }
            return self.flag(flag, value, &mut next);
        }
        Ok(())
    }

    fn flag(
        &mut self,
        flag: &str,
        given: Option<String>,
        next: impl FnOnce() -> Option<String>,
    ) -> Result<(), String> {
        if WITH_VALUE.contains(&flag) {
            let value = given.or_else(next);
            let value =
                value.ok_or_else(|| format!("systemctl: option '{flag}' requires an argument"))?;
            return self.valued(flag, value);
        }
        match flag {
            "--all" => self.all = true,
            "--quiet" => self.quiet = true,
            "--no-legend" => self.no_legend = true,
            "--plain" => self.plain = true,
            "--now" => self.now = true,
            "--runtime" => self.runtime = true,
            "--no-block" => self.no_block = true,
            "--no-reload" => self.no_reload = true,
            "--value" => self.value = true,
            "--full" => self.full = true,
            "--wait" => self.wait = true,
            "--reverse" => self.reverse = true,
            "--force" => self.force = self.force.saturating_add(1),
            "--dry-run" => self.dry_run = true,
            "--after" => self.after = true,
            "--before" => self.before = true,
            "--firmware-setup" => {
                return Err("systemctl: --firmware-setup is not supported: init does not write \
                            EFI variables"
                    .to_string());
            }
            "--failed" => self.states.push("failed".to_string()),
            "--help" => self.verb = "help".to_string(),
            "--version" => self.verb = "version".to_string(),
            "--user" => self.user = Some(true),
            "--system" => self.user = Some(false),
            "--global" => {
                return Err("systemctl: --global is not supported: enable the unit for each user"
                    .to_string());
            }
            // Options about output, confirmation and messages that do not apply here.
            "--no-pager"
            | "--no-ask-password"
            | "--no-wall"
            | "--recursive"
            | "--ignore-inhibitors"
            | "--show-types"
            | "--no-warn"
            | "--show-transaction"
            | "--with-dependencies"
            | "--mkdir"
            | "--marked"
            | "--read-only" => {}
            _ => return Err(format!("systemctl: unrecognized option '{flag}'")),
        }
        Ok(())
    }

    fn valued(&mut self, flag: &str, value: String) -> Result<(), String> {
        let list = |into: &mut Vec<String>| {
            into.extend(value.split(',').filter(|word| !word.is_empty()).map(str::to_string));
        };
        match flag {
            "--type" => list(&mut self.types),
            "--state" => list(&mut self.states),
            "--property" => list(&mut self.properties),
            "--output" => self.json = value.starts_with("json"),
            "--lines" => match value.parse() {
                Ok(lines) => self.lines = Some(lines),
                Err(_) => return Err(format!("Failed to parse lines '{value}'")),
            },
            "--signal" => self.signal = Some(value),
            "--kill-who" | "--kill-whom" => self.kill_who = Some(value),
            "--root" => self.root = Some(value.trim_end_matches('/').to_string()),
            "--when" => self.when = Some(value),
            "--preset-mode" => match value.as_str() {
                "full" | "enable-only" | "disable-only" => self.preset_mode = Some(value),
                _ => return Err(format!("Failed to parse preset mode: {value}.")),
            },
            "--job-mode" => return job_mode(&value),
            "--legend" => self.no_legend = matches!(value.as_str(), "no" | "false" | "0"),
            "--host" | "--machine" | "--image" => {
                return Err(format!(
                    "systemctl: {flag} is not supported: only this machine's init"
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Checks a job mode. init has no jobs, so modes that differ only in queueing are equal.
fn job_mode(mode: &str) -> Result<(), String> {
    match mode {
        "replace" | "replace-irreversibly" | "fail" => Ok(()),
        _ => Err(format!("systemctl: --job-mode={mode} is not supported: init has no jobs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Asked::parse("systemctl", &words)
    }

    #[test]
    fn flags_are_accepted_anywhere_with_values_after_equals_sign_or_space() {
        let asked =
            parse("--no-pager show nginx -p MainPID,ActiveState --value -tservice").unwrap();
        assert_eq!((asked.verb.as_str(), asked.names.as_slice()), ("show", &["nginx".into()][..]));
        assert_eq!(asked.properties, ["MainPID", "ActiveState"]);
        assert!(asked.value && asked.types == ["service"]);
        let asked = parse("kill -s HUP rsyslog.service").unwrap();
        assert_eq!(asked.signal.as_deref(), Some("HUP"));
        assert_eq!(parse("is-enabled -- -x.service").unwrap().names, ["-x.service"]);
        assert_eq!(parse("show -PId a").unwrap().properties, ["Id"]);
    }

    #[test]
    fn missing_verb_lists_units_and_a_program_alias_selects_its_verb() {
        assert_eq!(parse("--failed").unwrap().verb, "list-units");
        assert_eq!(Asked::parse("reboot", &["-f".into()]).unwrap().verb, "reboot");
    }

    #[test]
    fn unknown_systemctl_option_or_value_is_refused() {
        for line in [
            "--no-such",
            "-Z",
            "show -p",
            "-n x status",
            "--global enable x",
            "-M c status",
            "reboot --firmware-setup",
            "start --job-mode=isolate x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
