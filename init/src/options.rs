//! The command line of init. The kernel command line is in [`crate::base::kernel_cmdline`].
//!
//! As PID 1 no mistake here is fatal, because an exiting PID 1 panics the kernel. Kernels pass on
//! words that they do not know (`single`, `5`, `foo=bar`).

use crate::base::paths::PathOptions;
use crate::base::{Level, Mode};
use crate::output::oom_score::Own;
use groundstate_units::load::command::Command as Sole;
use groundstate_units::text::name::Name;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The parsed options; `None` if not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) paths: PathOptions,
    /// `--target T`.
    pub(crate) target: Option<Name>,
    /// `--container`.
    pub(crate) container: bool,
    /// `--exit-with T`.
    pub(crate) exit_with: Option<Name>,
    /// `--oom-score SCORE`.
    pub(crate) oom_score: Own,
    /// `--record FILE`.
    pub(crate) record: Option<String>,
    /// `--resume=JSON`: continue from the state of the previous image.
    pub(crate) resume: Option<String>,
    /// `--rescue=JSON`: continue after a crash of the previous image.
    pub(crate) rescue: Option<String>,
    /// `--check-resume=JSON`: only check that the state can be read.
    pub(crate) check: Option<String>,
    /// `--end=HOW`: carry out the last steps of a shutdown.
    pub(crate) end: Option<String>,
    /// Unknown words, each with an error message.
    pub(crate) unknown: Vec<String>,
    /// `--version` or `--help`: print this and exit.
    pub(crate) say: Option<String>,
}

const HELP: &str = "\
Usage: init [OPTION]…
       init [OPTION]… -- CMD [ARG]…
Groundstate's init: PID 1 of a machine or a container, or a supervisor.

  --config FILE       settings (init.yaml)
  --units DIR         unit directory; may be given again, earlier hides later
  --target TARGET     the goal at start
  --runtime-dir DIR   sockets and files that last until the next boot
  --log-dir DIR       log files
  --policy FILE       masks, enablement, preferences (policy.yaml)
  --container         act as the init of a container, even on a machine
  --exit-with TARGET  exit with its exit code when its run has ended for good
  --oom-score SCORE   init's own oom_score_adj in a container or as a supervisor, if
                      permitted (default -1000; keep: do not change it)
  --record FILE       write each event and its actions, one JSON object a line
  --version           print the version
  --help              print this
  -- CMD [ARG]…       run only this command, without unit files; forward signals to it,
                      exit with its exit status, 128 + n for signal n, 127 if it is not
                      found, 126 if it cannot be executed; not as PID 1 of a machine

If it is not PID 1, `init 0` to `init 6`, `init S`, `init q` and `init u` are telinit(8).
";

impl Options {
    /// Parses the words after the program's name.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Options {
        let mut options = Options::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let word = word.to_string_lossy().into_owned();
            let (key, given) = match word.split_once('=') {
                Some((key, value)) if key.starts_with("--") => (key, Some(value.to_string())),
                _ => (word.as_str(), None),
            };
            match key {
                "--" => {
                    options.take_command(words);
                    break;
                }
                "--container" if given.is_none() => options.container = true,
                "--version" if given.is_none() => {
                    options.say = Some(format!("groundstate init {}\n", env!("CARGO_PKG_VERSION")));
                }
                "--help" | "-h" if given.is_none() => options.say = Some(HELP.to_string()),
                key => {
                    let Some(set) = Options::setter(key) else {
                        options.unknown.push(format!("unknown option {word:?}"));
                        continue;
                    };
                    let next = || words.next().map(|word| word.to_string_lossy().into_owned());
                    match given.or_else(next) {
                        Some(value) => set(&mut options, value),
                        None => options.unknown.push(format!("{key} needs a value")),
                    }
                }
            }
        }
        options
    }

    /// Takes the words after `--`.
    fn take_command(&mut self, words: impl Iterator<Item = OsString>) {
        let paths = &self.paths;
        let without_use = [
            ("--units", !paths.units.is_empty()),
            ("--policy", paths.policy.is_some()),
            ("--target", self.target.is_some()),
            ("--exit-with", self.exit_with.is_some()),
        ];
        let refused = without_use.into_iter().filter(|(_, is_given)| *is_given);
        self.unknown.extend(refused.map(|(key, _)| format!("{key} has no use with a command")));
        let words: Result<Vec<String>, OsString> = words.map(OsString::into_string).collect();
        let words = words.unwrap_or_else(|word| {
            self.unknown.push(format!("{word:?} is not UTF-8"));
            Vec::new()
        });
        if words.first().is_none_or(String::is_empty) {
            self.unknown.push("a command is missing after --".to_string());
        }
        self.paths.command = Some(words);
    }

    /// Makes the command the goal, and its exit that of init. Drops it on a machine: PID 1 must not
    /// exit there.
    pub(crate) fn for_mode(mut self, mode: Mode) -> Options {
        if mode == Mode::Machine && self.paths.command.take().is_some() {
            self.unknown.push("-- CMD is for containers".to_string());
        }
        if self.paths.command.is_some() {
            self.target = Name::new(Sole::UNIT).ok();
            self.exit_with.clone_from(&self.target);
        }
        self
    }

    /// The least level of init's log lines. A command shares init's stderr, so init keeps quiet.
    pub(crate) fn least(&self, given: Option<Level>) -> Option<Level> {
        given.or(self.paths.command.is_some().then_some(Level::Warning))
    }

    /// Handles what ends the program at once: `--version`, `--help`, a telinit(8) argument, and an
    /// unknown word if init has a command or is not PID 1 (64, EX_USAGE of sysexits(3)).
    #[allow(clippy::print_stdout, clippy::print_stderr, reason = "nothing runs yet")]
    pub(crate) fn answer(&self, mode: Mode) -> Option<ExitCode> {
        if let Some(text) = &self.say {
            print!("{text}");
            return Some(ExitCode::SUCCESS);
        }
        if mode == Mode::Supervisor
            && let Some(level) = run_level(std::env::args_os().skip(1))
        {
            return Some(telinit(&level));
        }
        let may_refuse = mode == Mode::Supervisor || self.paths.command.is_some();
        if may_refuse && !self.unknown.is_empty() {
            self.unknown.iter().for_each(|wrong| eprintln!("init: {wrong}"));
            eprintln!("Try 'init --help'.");
            return Some(ExitCode::from(64));
        }
        None
    }

    /// The function that sets an option that takes a value.
    fn setter(key: &str) -> Option<fn(&mut Options, String)> {
        Some(match key {
            "--config" => |options, value| options.paths.config = Some(value),
            "--units" => |options, value| options.paths.units.push(value),
            "--target" => |options, value| {
                options.target = options.name("--target", &value).or(options.target.take());
            },
            "--runtime-dir" => |options, value| options.paths.runtime_dir = Some(value),
            "--log-dir" => |options, value| options.paths.log_dir = Some(value),
            "--policy" => |options, value| options.paths.policy = Some(value),
            "--exit-with" => |options, value| {
                options.exit_with =
                    options.name("--exit-with", &value).or(options.exit_with.take());
            },
            "--oom-score" => |options, value| match Own::read(&value) {
                Some(own) => options.oom_score = own,
                None => options.unknown.push(format!("--oom-score: {value:?} is not a score")),
            },
            "--record" => |options, value| options.record = Some(value),
            "--resume" => |options, value| options.resume = Some(value),
            "--rescue" => |options, value| options.rescue = Some(value),
            "--check-resume" => |options, value| options.check = Some(value),
            "--end" => |options, value| options.end = Some(value),
            _ => return None,
        })
    }

    fn name(&mut self, key: &str, value: &str) -> Option<Name> {
        let name = Name::new(value);
        self.unknown.extend(name.as_ref().err().map(|error| format!("{key}: {error}")));
        name.ok()
    }
}

/// The single argument of a command line like `init 6`, as telinit(8) has it.
fn run_level(mut words: impl Iterator<Item = OsString>) -> Option<String> {
    let word = words.next()?.into_string().ok()?;
    let is_level =
        matches!(word.as_bytes(), [b'0'..=b'6' | b's' | b'S' | b'q' | b'Q' | b'u' | b'U']);
    (is_level && words.next().is_none()).then_some(word)
}

/// The installed path of initctl, for a PATH that lacks it.
const INITCTL: &str = "/usr/bin/initctl";

/// Becomes `telinit LEVEL`; returns if that fails.
#[allow(clippy::print_stderr, reason = "nothing runs yet")]
fn telinit(level: &str) -> ExitCode {
    let become_it = |program: &str| Command::new(program).arg0("telinit").arg(level).exec();
    let error = [become_it("initctl"), become_it(INITCTL)].into_iter().next_back();
    if let Some(error) = error {
        eprintln!("init: cannot run {INITCTL}: {error}");
    }
    ExitCode::from(69)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Options {
        Options::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn values_come_after_a_space_or_an_equals_sign() {
        let options = parse(&["--units", "/a", "--units=/b", "--target", "web", "--container"]);
        assert_eq!(options.paths.units, ["/a", "/b"]);
        assert_eq!(options.target.as_ref().map(Name::as_str), Some("web"));
        assert!(options.container && options.unknown.is_empty());
    }

    #[test]
    fn oom_score_option_takes_a_number_in_range_or_keep() {
        let score = |text| parse(&["--oom-score", text]);
        assert_eq!(score("-1000").oom_score, Own::default());
        assert_eq!(score("1000").oom_score, Own::At(1000));
        assert_eq!(score("keep").oom_score, Own::Kept);
        for wrong in ["-1001", "1001", "", "low", "99999999999"] {
            assert_eq!((score(wrong).oom_score, score(wrong).unknown.len()), (Own::default(), 1));
        }
    }

    #[test]
    fn only_a_single_run_level_argument_calls_telinit() {
        let level = |words: &[&str]| run_level(words.iter().map(OsString::from));
        assert_eq!(level(&["6"]).as_deref(), Some("6"));
        assert_eq!(level(&["S"]).as_deref(), Some("S"));
        for other in [&[][..], &["7"], &["66"], &["5", "foo"], &["--help"], &["single"]] {
            assert_eq!(level(other), None, "{other:?}");
        }
    }

    #[test]
    fn manual_page_has_each_option_of_the_help() {
        let page = include_str!("../../contrib/man/groundstate-init.8").replace('\\', "");
        let options = HELP.lines().filter_map(|line| line.trim_start().split_once("  "));
        let options: Vec<&str> = options.map(|(words, _)| words).collect();
        assert!(options.len() > 10, "{options:?}");
        for option in options.iter().filter_map(|words| words.split_whitespace().next()) {
            assert!(page.contains(&format!("fB{option}")), "{option}");
        }
    }

    #[test]
    fn words_after_two_dashes_are_the_only_unit_except_on_a_machine() {
        let options = parse(&["--log-dir", "/l", "--", "sh", "--units", "/x", "--"]);
        assert!(options.unknown.is_empty() && options.paths.units.is_empty());
        let words: Vec<String> = ["sh", "--units", "/x", "--"].map(String::from).into();
        assert_eq!(options.paths.command, Some(words));
        let in_container = options.for_mode(Mode::Container);
        assert_eq!(in_container.target.as_ref().map(Name::as_str), Some(Sole::UNIT));
        assert_eq!(in_container.exit_with, in_container.target);
        let on_machine = parse(&["--target", "rescue", "--", "sh"]).for_mode(Mode::Machine);
        assert_eq!((on_machine.paths.command, on_machine.exit_with), (None, None));
        assert_eq!(on_machine.target.as_ref().map(Name::as_str), Some("rescue"));
        assert_eq!(on_machine.unknown.len(), 2);
    }

    #[test]
    fn command_that_is_empty_or_beside_units_is_refused() {
        let refused = |words: &[&str]| {
            let options = parse(words);
            (options.unknown.len(), options.answer(Mode::Container).is_some())
        };
        assert_eq!(refused(&["--", "true"]), (0, false));
        let both = ["--units", "/u", "--policy=/p", "--target=a", "--exit-with", "a", "--", "true"];
        assert_eq!(refused(&both), (4, true));
        for words in [&["--"][..], &["--", ""], &["--what", "--", "true"]] {
            assert_eq!(refused(words), (1, true), "{words:?}");
        }
        let not_text = [OsString::from("--"), std::os::unix::ffi::OsStringExt::from_vec(vec![255])];
        assert_eq!(Options::parse(not_text).unknown.len(), 2);
    }

    #[test]
    fn unknown_words_of_a_kernel_are_recorded_and_change_nothing() {
        let options = parse(&["single", "5", "foo=bar", "-s", "--target", "/etc", "--config"]);
        assert_eq!(options.unknown.len(), 6);
        assert_eq!(Options { unknown: Vec::new(), ..options }, Options::default());
    }
}
