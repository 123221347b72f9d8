//! The command line of the stand-in. [`HELP`] describes each flag.

use std::path::PathBuf;
use std::time::Duration;

/// The output of `daemon --help`.
pub const HELP: &str = "\
daemon [FLAG…]: a scriptable stand-in for a service

  --name NAME          how it calls itself in its output (default: daemon)
  --notify             send READY=1 to $NOTIFY_SOCKET when ready
  --ready-after MS     become ready after that long
  --ready-when FILE    become ready once FILE exists
  --ready-on-order     become ready at the order `ready` only
  --say LINE           print LINE on stdout when ready
  --say-err LINE       print LINE on stderr when ready
  --pid-file FILE      go to the background; FILE gets the pid before the parent exits
  --pid TEXT           what --pid-file writes instead of the pid
  --fail-unless FILE   exit 1 at once while FILE does not exist
  --exit CODE          exit with CODE when ready (or --exit-after MS later)
  --exit-after MS      see --exit (default code 0)
  --die SIGNAL         like --exit, by that signal
  --ignore SIGNAL      do not end at it (TERM, INT, HUP, USR1; may be repeated)
  --reload SIGNAL      at it: RELOADING=1, then READY=1 (HUP, USR1)
  --children N         start N children that stay
  --orphans N          start N processes whose parent exits
  --adopts LINE        adopt what is left below it (PR_SET_CHILD_SUBREAPER), then run LINE in a shell
  --multiply           start copies of itself for ever, which do the same; end at no signal but KILL
  --watchdog           send WATCHDOG=1 twice per $WATCHDOG_USEC
  --output N           print N numbered lines when ready
  --mute-mount DIR     before all else, mount a file system there that never answers
  --control FIFO       take orders, one a line; made where missing
  --trace FILE         append what happens, one word a line: start PID, ready, term …

orders: ready · exit N · die SIGNAL · say TEXT · err TEXT · notify TEXT (\\n is a newline)
        flood N TEXT (as notify, N times)
        store PATH|- TEXT (a datagram with that file, or with one end of a pair)
        pass N EACH PATH (N datagrams, each with EACH copies of that file)
        fork N · orphan N · pings on|off · lines N · ignore SIGNAL
";

/// The parsed flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--name`.
    pub name: String,
    /// `--notify`.
    pub notify: bool,
    /// When it becomes ready.
    pub ready: Ready,
    /// `--say`.
    pub say: Vec<String>,
    /// `--say-err`.
    pub say_err: Vec<String>,
    /// `--pid-file`.
    pub pid_file: Option<PathBuf>,
    /// `--pid`.
    pub pid_text: Option<String>,
    /// `--fail-unless`.
    pub fail_unless: Option<PathBuf>,
    /// How it ends by itself.
    pub end: Option<End>,
    /// `--exit-after`.
    pub end_after: Duration,
    /// `--ignore`.
    pub ignore: Vec<String>,
    /// `--reload`.
    pub reload: Option<String>,
    /// `--children`.
    pub children: usize,
    /// `--orphans`.
    pub orphans: usize,
    /// `--adopts`.
    pub adopts: Option<String>,
    /// `--multiply`.
    pub multiply: bool,
    /// `--watchdog`.
    pub watchdog: bool,
    /// `--output`.
    pub output: usize,
    /// `--mute-mount`.
    pub mute_mount: Option<PathBuf>,
    /// `--control`.
    pub control: Option<PathBuf>,
    /// `--trace`.
    pub trace: Option<PathBuf>,
    /// Set by the stand-in itself for the process that it starts: the second half of a double fork.
    pub background: bool,
}

/// When it becomes ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// At its start.
    #[default]
    AtOnce,
    /// After this time.
    After(Duration),
    /// When this file exists.
    When(PathBuf),
    /// At an order from `--control`.
    OnOrder,
}

/// How it ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By exit(2).
    Exit(i32),
    /// By a signal, named without SIG.
    Signal(String),
}

impl Flags {
    /// Parses the words after the program's name.
    ///
    /// # Errors
    /// An unknown flag, or a value that is missing or not a number.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Flags, String> {
        let mut flags = Flags { name: "daemon".to_owned(), ..Flags::default() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--name" => flags.name = value()?,
                "--notify" => flags.notify = true,
                "--ready-after" => flags.ready = Ready::After(millis(&value()?)?),
                "--ready-when" => flags.ready = Ready::When(value()?.into()),
                "--ready-on-order" => flags.ready = Ready::OnOrder,
                "--say" => flags.say.push(value()?),
                "--say-err" => flags.say_err.push(value()?),
                "--pid-file" => flags.pid_file = Some(value()?.into()),
                "--pid" => flags.pid_text = Some(value()?),
                "--fail-unless" => flags.fail_unless = Some(value()?.into()),
                "--exit" => flags.end = Some(End::Exit(number(&value()?)?)),
                "--die" => flags.end = Some(End::Signal(value()?)),
                "--exit-after" => {
                    flags.end_after = millis(&value()?)?;
                    flags.end = flags.end.or(Some(End::Exit(0)));
                }
                "--ignore" => flags.ignore.push(value()?),
                "--reload" => flags.reload = Some(value()?),
                "--children" => flags.children = number(&value()?)?,
                "--orphans" => flags.orphans = number(&value()?)?,
                "--adopts" => flags.adopts = Some(value()?),
                "--multiply" => flags.multiply = true,
                "--watchdog" => flags.watchdog = true,
                "--output" => flags.output = number(&value()?)?,
                "--mute-mount" => flags.mute_mount = Some(value()?.into()),
                "--control" => flags.control = Some(value()?.into()),
                "--trace" => flags.trace = Some(value()?.into()),
                "--background" => flags.background = true,
                _ => return Err(format!("no flag {word}; see --help")),
            }
        }
        Ok(flags)
    }
}

/// Parses a number. Returns a message with the word otherwise.
pub(super) fn number<N: std::str::FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("`{word}` is no number that fits here"))
}

fn millis(word: &str) -> Result<Duration, String> {
    Ok(Duration::from_millis(number(word)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, String> {
        Flags::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn exit_code_does_not_depend_on_the_order_of_the_flags() {
        let one = parse("--exit 3 --exit-after 50").unwrap();
        let other = parse("--exit-after 50 --exit 3").unwrap();
        assert_eq!(one, other);
        assert_eq!(one.end, Some(End::Exit(3)));
    }

    #[test]
    fn flag_without_its_value_is_named() {
        assert_eq!(parse("--say").unwrap_err(), "--say needs a value");
        assert!(parse("--sya x").unwrap_err().contains("--sya"));
    }

    #[test]
    fn every_flag_of_the_help_is_accepted() {
        for line in HELP.lines().filter(|l| l.starts_with("  --")) {
            let words: Vec<&str> = line.split_whitespace().take(2).collect();
            let takes_value = words[1].chars().all(|c| c.is_ascii_uppercase());
            let value = if takes_value { " 1" } else { "" };
            assert!(parse(&format!("{}{value}", words[0])).is_ok(), "{line}");
        }
    }
}
