//! The command line of journalctl(1), as far as it applies here.

use super::fields::Fields;
use super::when;
use crate::machine::Origin;
use crate::machine::boot_mark::is_id;
use groundstate_units::control::log_line::ShownLine;
use groundstate_units::text::log_level;
use groundstate_units::text::wall_clock::WallTime;

/// `--help`.
pub(super) const HELP: &str = "journalctl [OPTIONS…]: the logs of Groundstate's units.\n\n\
    -u UNIT  -t IDENTIFIER  -k  -b [BOOT]  --list-boots  -f  -n LINES  -r  -e  -q\n\
    --since WHEN  --until WHEN  --grep TEXT  -p LEVEL  --no-pager  --no-hostname  --utc\n\
    -o short|short-iso|short-precise|cat|json|json-pretty|json-sse|verbose\n\n\
    `initctl logs` is the native command.\n";

/// The value of `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// `Nov 21 08:20:40 host ident: text`.
    #[default]
    Short,
    /// With an ISO 8601 time.
    ShortIso,
    /// With microseconds.
    ShortPrecise,
    /// Seconds since 1970.
    ShortUnix,
    /// The message without time and identifier.
    Cat,
    /// A JSON object on a line.
    Json,
    /// A JSON object on several lines.
    JsonPretty,
    /// JSON objects as server-sent events.
    JsonSse,
    /// A line for each field.
    Verbose,
}

/// The value of `-b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Boot {
    /// All boots.
    All,
    /// A boot by its distance from the boot with this id. Without an id, 1 is the first boot of the
    /// log, and 0 is the present one.
    Of { id: Option<String>, offset: i64 },
}

/// The parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// `-u`, and `_SYSTEMD_UNIT=`.
    pub(super) units: Vec<String>,
    /// `-n`.
    pub(super) lines: Option<u64>,
    /// `-f`.
    pub(super) follow: bool,
    /// `-e`.
    pub(super) end: bool,
    /// `-r`.
    pub(super) reverse: bool,
    /// `-t`, and `SYSLOG_IDENTIFIER=`.
    pub(super) identifiers: Vec<String>,
    /// `-k`.
    pub(super) kernel: bool,
    /// `-b`.
    pub(super) boot: Option<Boot>,
    /// `--list-boots`.
    pub(super) list_boots: bool,
    /// `-q`.
    pub(super) quiet: bool,
    /// `--no-hostname`.
    pub(super) no_hostname: bool,
    /// `--utc`.
    pub(super) utc: bool,
    /// `--since`.
    pub(super) since: Option<WallTime>,
    /// `--until`.
    pub(super) until: Option<WallTime>,
    /// `--grep`: a text, matched case-insensitively if it is all lower case.
    pub(super) grep: Option<String>,
    /// `-p`: the lowest and highest level.
    pub(super) priorities: Option<(u8, u8)>,
    /// `-o`.
    pub(super) form: Form,
    /// `--help`.
    pub(super) help: bool,
    /// Maintenance that the logger does by itself (`--flush`, `--rotate`, `--vacuum-size` …).
    pub(super) is_maintenance: bool,
    /// Ignored options that would filter lines; the user is warned.
    pub(super) ignored: Vec<String>,
}

const WITH_VALUE: [&str; 22] = [
    "--unit",
    "--lines",
    "--output",
    "--since",
    "--until",
    "--grep",
    "--priority",
    "--identifier",
    "--facility",
    "--cursor",
    "--after-cursor",
    "--cursor-file",
    "--output-fields",
    "--directory",
    "--file",
    "--root",
    "--machine",
    "--field",
    "--user-unit",
    "--namespace",
    "--case-sensitive",
    "--boot",
];
const LETTERS: [(char, &str); 26] = [
    ('u', "--unit"),
    ('n', "--lines"),
    ('o', "--output"),
    ('S', "--since"),
    ('U', "--until"),
    ('g', "--grep"),
    ('p', "--priority"),
    ('t', "--identifier"),
    ('c', "--cursor"),
    ('D', "--directory"),
    ('F', "--field"),
    ('M', "--machine"),
    ('f', "--follow"),
    ('e', "--pager-end"),
    ('r', "--reverse"),
    ('b', "--boot"),
    ('q', "--quiet"),
    ('a', "--all"),
    ('x', "--catalog"),
    ('k', "--dmesg"),
    ('l', "--full"),
    ('m', "--merge"),
    ('h', "--help"),
    ('N', "--fields"),
    ('T', "--no-tail"),
    ('i', "--file"),
];

impl Asked {
    /// Parses the arguments.
    ///
    /// # Errors
    /// The fault of the command line.
    pub(super) fn parse(words: &[String], now: WallTime) -> Result<Asked, String> {
        let mut asked = Asked::default();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            if word.starts_with("--") {
                let (flag, given) = match word.split_once('=') {
                    Some((flag, value)) => (flag, Some(value.to_string())),
                    None => (word.as_str(), None),
                };
                let wants = WITH_VALUE.contains(&flag) && !matches!(flag, "--lines" | "--boot");
                let value = match given {
                    None if wants => words.next().cloned(),
                    None if flag == "--lines" => words.next_if(|next| is_count(next)).cloned(),
                    None if flag == "--boot" => words.next_if(|next| is_boot(next)).cloned(),
                    other => other,
                };
                asked.flag(flag, value, wants, now)?;
            } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                for (at, letter) in letters.char_indices() {
                    let Some((_, flag)) = LETTERS.iter().find(|(known, _)| *known == letter) else {
                        return Err(format!("journalctl: invalid option -- '{letter}'"));
                    };
                    if !WITH_VALUE.contains(flag) {
                        asked.flag(flag, None, false, now)?;
                        continue;
                    }
                    let rest = letters.get(at + 1..).unwrap_or_default();
                    let optional = matches!(*flag, "--lines" | "--boot");
                    let value = match rest.is_empty() {
                        false => Some(rest.to_string()),
                        true if *flag == "--boot" => words.next_if(|next| is_boot(next)).cloned(),
                        true if optional => words.next_if(|next| is_count(next)).cloned(),
                        true => words.next().cloned(),
                    };
                    asked.flag(flag, value, !optional, now)?;
                    break;
                }
            } else if let Some((field, value)) = word.split_once('=')
                && let Some(flag) = flag_of(field)
            {
                if flag == "--boot" && !is_id(value) {
                    return Err(format!("Failed to parse boot id '{value}'"));
                }
                asked.flag(flag, Some(value.to_string()), true, now)?;
            } else {
                asked.ignored.push(word.clone());
            }
        }
        // As in systemd, the kernel's messages are those of one boot.
        if asked.kernel && asked.boot.is_none() {
            asked.boot = Some(Boot::Of { id: None, offset: 0 });
        }
        Ok(asked)
    }

    fn flag(
        &mut self,
        flag: &str,
        value: Option<String>,
        wants: bool,
        now: WallTime,
    ) -> Result<(), String> {
        if wants && value.is_none() {
            return Err(format!("journalctl: option '{flag}' requires an argument"));
        }
        let text = value.clone().unwrap_or_default();
        let point =
            || when::point(&text, now).ok_or_else(|| format!("Failed to parse timestamp: {text}"));
        match flag {
            "--unit" | "--user-unit" => self.units.push(text),
            "--identifier" => self.identifiers.push(text),
            "--lines" => self.lines = lines(value.as_deref())?,
            "--output" => self.form = form(&text)?,
            "--since" => self.since = Some(point()?),
            "--until" => self.until = Some(point()?),
            "--grep" => self.grep = Some(text),
            "--follow" => self.follow = true,
            "--pager-end" => self.end = true,
            "--reverse" => self.reverse = true,
            "--boot" => self.boot = Some(boot(value.as_deref())?),
            "--dmesg" => self.kernel = true,
            "--list-boots" => self.list_boots = true,
            "--quiet" => self.quiet = true,
            "--no-hostname" => self.no_hostname = true,
            "--utc" => self.utc = true,
            "--help" | "--version" => self.help = true,
            "--flush"
            | "--sync"
            | "--rotate"
            | "--relinquish-var"
            | "--smart-relinquish-var"
            | "--vacuum-size"
            | "--vacuum-time"
            | "--vacuum-files"
            | "--update-catalog"
            | "--setup-keys"
            | "--verify" => self.is_maintenance = true,
            "--priority" => self.priorities = Some(priorities(&text)?),
            "--facility" => self.ignored.push(format!("{flag}={text}")),
            // Options about paging and merging.
            "--no-pager" | "--all" | "--catalog" | "--full" | "--no-full" | "--merge"
            | "--no-tail" | "--system" | "--user" | "--output-fields" | "--namespace"
            | "--case-sensitive" | "--truncate-newline" | "--show-cursor" => {}
            _ => return Err(format!("journalctl: {flag} is not supported")),
        }
        Ok(())
    }

    /// Returns true if an option selects lines by something else than unit, number and earliest
    /// time.
    pub(super) fn has_filters(&self) -> bool {
        self.grep.is_some()
            || self.until.is_some()
            || self.priorities.is_some()
            || self.kernel
            || !self.identifiers.is_empty()
    }

    /// Returns true if the line passes the filters.
    pub(super) fn fits(&self, line: &ShownLine) -> bool {
        let fields = Fields::of(line);
        let found = |text: &String| match text.chars().any(char::is_uppercase) {
            true => fields.message.contains(text),
            false => fields.message.to_lowercase().contains(text),
        };
        let time = WallTime::parse(&line.time);
        let early = |until: WallTime| time.is_none_or(|time| time <= until);
        let late = |since: WallTime| time.is_none_or(|time| time >= since);
        let level = line.priority();
        let is_of = |(least, most): (u8, u8)| (least..=most).contains(&level);
        self.grep.as_ref().is_none_or(found)
            && self.until.is_none_or(early)
            && self.since.is_none_or(late)
            && (!self.kernel || matches!(Origin::of(line), Some(Origin::Kernel | Origin::Kmsg)))
            && (self.identifiers.is_empty()
                || self.identifiers.iter().any(|it| it == fields.identifier))
            && self.priorities.is_none_or(is_of)
    }

    /// Returns true for formats that programs read: they contain only lines.
    pub(super) fn is_for_programs(&self) -> bool {
        matches!(self.form, Form::Cat | Form::Json | Form::JsonPretty | Form::JsonSse)
    }
}

/// As in journalctl(1), one level selects it and all more important ones, and `FROM..TO` selects a
/// range.
fn priorities(text: &str) -> Result<(u8, u8), String> {
    let unknown = || format!("Unknown log level {text}");
    let level = |text: &str| log_level::level(text).ok_or_else(unknown);
    match text.split_once("..") {
        Some((from, to)) => {
            let (from, to) = (level(from)?, level(to)?);
            Ok((from.min(to), from.max(to)))
        }
        None => Ok((0, level(text)?)),
    }
}

/// Returns the option for a match of a field, `FIELD=VALUE`.
fn flag_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "_SYSTEMD_UNIT" | "UNIT" => "--unit",
        "SYSLOG_IDENTIFIER" => "--identifier",
        "_BOOT_ID" => "--boot",
        _ => return None,
    })
}

fn boot(value: Option<&str>) -> Result<Boot, String> {
    let text = value.unwrap_or_default();
    if text == "all" {
        return Ok(Boot::All);
    }
    let failed = || format!("Failed to parse boot descriptor '{text}'");
    let (id, offset) = match text.split_at_checked(32) {
        Some((id, rest)) if is_id(id) => (Some(id.to_lowercase()), rest),
        _ => (None, text),
    };
    let has_sign = offset.starts_with(['+', '-']);
    let offset = match offset {
        "" => 0,
        // An id is followed by a sign.
        _ if id.is_some() && !has_sign => return Err(failed()),
        _ => offset.parse().map_err(|_| failed())?,
    };
    Ok(Boot::Of { id, offset })
}

fn is_boot(word: &str) -> bool {
    boot(Some(word)).is_ok()
}

fn is_count(word: &str) -> bool {
    word == "all" || word.trim_start_matches(['+', '-']).chars().all(|c| c.is_ascii_digit())
}

fn lines(value: Option<&str>) -> Result<Option<u64>, String> {
    match value {
        None => Ok(Some(10)),
        Some("all") => Ok(Some(u64::MAX)),
        Some(text) => match text.trim_start_matches('+').parse() {
            Ok(lines) => Ok(Some(lines)),
            Err(_) => Err(format!("Failed to parse lines '{text}'")),
        },
    }
}

fn form(text: &str) -> Result<Form, String> {
    Ok(match text {
        "short" | "short-full" | "with-unit" | "short-monotonic" => Form::Short,
        "short-iso" | "short-iso-precise" => Form::ShortIso,
        "short-precise" => Form::ShortPrecise,
        "short-unix" => Form::ShortUnix,
        "cat" => Form::Cat,
        "json" | "json-seq" => Form::Json,
        "json-pretty" => Form::JsonPretty,
        "json-sse" => Form::JsonSse,
        "verbose" | "export" => Form::Verbose,
        _ => return Err(format!("Unknown output format '{text}'.")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Asked::parse(&words, WallTime::parse("2026-11-21T05:12:26.123Z").unwrap())
    }

    #[test]
    fn usual_journalctl_command_lines_are_parsed() {
        let asked = parse("-fu nginx -o cat --no-pager -n 5").unwrap();
        assert_eq!(
            (asked.units, asked.lines, asked.form),
            (vec!["nginx".into()], Some(5), Form::Cat)
        );
        assert!(asked.follow);
        let asked = parse("-xeu nginx.service -b -n").unwrap();
        assert!(asked.end && asked.boot.is_some() && asked.lines == Some(10));
        assert_eq!(parse("-n all -b -1").unwrap().lines, Some(u64::MAX));
        assert_eq!(parse("-t sshd SYSLOG_IDENTIFIER=su").unwrap().identifiers, ["sshd", "su"]);
        assert_eq!(parse("_SYSTEMD_UNIT=a.service").unwrap().units, ["a.service"]);
        let asked = parse("--since today --until=now -o json -r").unwrap();
        assert_eq!(asked.since.map(|w| w.to_string()).as_deref(), Some("2026-11-21T00:00:00.000Z"));
    }

    #[test]
    fn unsupported_filter_option_is_reported() {
        let asked = parse("-p err -k _PID=1 -u a --facility=kern").unwrap();
        assert_eq!(asked.ignored, ["_PID=1", "--facility=kern"]);
        assert_eq!(parse("-p debug -u a --no-pager -x").unwrap().ignored, [""; 0]);
    }

    #[test]
    fn boot_is_selected_by_number_or_id() {
        let id = "0123456789abcdef0123456789ABCDEF";
        let lower = id.to_lowercase();
        for (words, id, offset) in [
            ("-b", None, 0),
            ("-b -u ssh", None, 0),
            ("-b -1 -u ssh", None, -1),
            ("-b-1", None, -1),
            ("-b 2", None, 2),
            ("-b +2", None, 2),
            ("-b +1", None, 1),
            ("-b -0", None, 0),
            ("--boot", None, 0),
            ("--boot=-3", None, -3),
            ("--boot -3", None, -3),
            ("-k", None, 0),
            ("-k -b -1", None, -1),
            (&format!("-b {id}"), Some(&lower), 0),
            (&format!("--boot={id}-1"), Some(&lower), -1),
            (&format!("_BOOT_ID={id}"), Some(&lower), 0),
        ] {
            let want = Boot::Of { id: id.cloned(), offset };
            assert_eq!(parse(words).unwrap().boot, Some(want), "{words}");
        }
        for all in ["-b all", "--boot=all -k"] {
            assert_eq!(parse(all).unwrap().boot, Some(Boot::All), "{all}");
        }
        assert_eq!(parse("").unwrap().boot, None);
        assert!(parse("-b -1 -u ssh").unwrap().units == ["ssh"]);
        for bad in ["--boot=x", "-b12x", "--boot=9999999999999999999999", &format!("-b{id}1")]
            .into_iter()
            .chain(["_BOOT_ID=-1", "_BOOT_ID=all", "_BOOT_ID=", "_BOOT_ID=0"])
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let asked = parse("--list-boots -k --dmesg").unwrap();
        assert!(asked.list_boots && asked.kernel);
    }

    #[test]
    fn priority_selects_a_level_and_above_or_a_range() {
        let of = |line: &str| parse(line).unwrap().priorities;
        assert_eq!((of("-p err"), of("-p 4"), of("")), (Some((0, 3)), Some((0, 4)), None));
        assert_eq!((of("-p warning..err"), of("--priority=2..2")), (Some((3, 4)), Some((2, 2))));
        assert!(parse("-p loud").is_err() && parse("-p err..").is_err());
    }

    #[test]
    fn unknown_journalctl_option_or_value_is_refused() {
        for line in ["-Z", "--no-such", "-u", "--lines=x3", "-o pdf", "--since whenever"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
