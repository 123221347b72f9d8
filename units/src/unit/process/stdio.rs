//! Parses the standard descriptors of a unit file.

use crate::spec::value::{self, Mistake, mistake};
use crate::spec::{Input, Log, LogPriority, Opening, Output, Stdio, Terminal};
use crate::text::log_level::{self, FACILITIES, LEVELS};
use crate::text::yaml::Scalar;
use crate::unit::semantics::Reader;

/// The number of characters in `ut_id` (utmp(5)).
const UTMP_ID: usize = 4;

impl Reader<'_> {
    pub(super) fn stdio(&mut self) -> Stdio {
        let input = self.or_null("stdin", Input::Null, Input::Null, input);
        let given = match &input {
            Input::Terminal { .. } => Output::Terminal,
            Input::Socket => Output::Socket,
            Input::Null | Input::File(_) | Input::Inherit => Output::Log,
        };
        let null = Output::As(Log::Null);
        let out = self.or_null("stdout", given, null.clone(), output);
        let error = self.or_null("stderr", out.clone(), null, output);
        let stdio = Stdio {
            input,
            output: out,
            error,
            tty: Terminal {
                path: self.path("tty-path").unwrap_or_default(),
                reset: self.value("tty-reset", false, value::boolean),
                hangup: self.value("tty-hangup", false, value::boolean),
            },
            log_tag: self.short("log-tag", 64),
            log_priority: self.log_priority(),
            log_blocks: self.value("log-overflow", false, |word| Ok(word == "block")),
            utmp_id: last_characters(&self.short("utmp-id", 64), UTMP_ID),
        };
        let unused = !stdio.has_terminal() && !stdio.tty.path.is_empty();
        if let (true, Some(field)) = (unused && stdio.utmp_id.is_empty(), self.field("tty-path")) {
            let at = field.place();
            let message = "`tty-path` is named and none of stdin, stdout and stderr is `tty`";
            self.found.push(crate::text::diagnostic::Diagnostic::warning("value", at, message));
        }
        stdio
    }

    fn log_priority(&mut self) -> LogPriority {
        let level = self.choice("log-level", &LEVELS);
        let facility = self.choice("log-facility", &FACILITIES);
        LogPriority {
            prefix: self.value("log-level-prefix", false, value::boolean),
            level: level.and_then(|level| u8::try_from(level).ok()),
            facility: facility.and_then(log_level::facility_at),
        }
    }

    /// Parses a value for which YAML's null is valid and means `null`.
    fn or_null<T>(
        &mut self,
        key: &str,
        default: T,
        null: T,
        parse: impl FnOnce(&str) -> Result<T, Mistake>,
    ) -> T {
        let scalar = self.field(key).and_then(|field| field.node.scalar());
        if scalar.is_some_and(Scalar::is_null) { null } else { self.value(key, default, parse) }
    }

    /// Parses a text of up to `most` characters without control characters.
    fn short(&mut self, key: &str, most: usize) -> String {
        self.value(key, String::new(), |text| {
            let fits = !text.is_empty()
                && text.chars().count() <= most
                && !text.chars().any(char::is_control);
            if fits {
                return Ok(text.to_string());
            }
            mistake(format!("`{text}` is too long, or no text"), "a few plain characters")
        })
    }
}

fn last_characters(text: &str, most: usize) -> String {
    text.chars().skip(text.chars().count().saturating_sub(most)).collect()
}

fn input(text: &str) -> Result<Input, Mistake> {
    Ok(match text {
        "null" => Input::Null,
        "tty" => Input::Terminal { force: false },
        "tty-force" => Input::Terminal { force: true },
        "socket" => Input::Socket,
        _ => match text.strip_prefix("file:") {
            Some(path) => Input::File(value::path(path)?),
            None => {
                let hint = "null, tty, tty-force, socket, or `file:/path`";
                return mistake(format!("`{text}` is not an input"), hint);
            }
        },
    })
}

fn output(text: &str) -> Result<Output, Mistake> {
    let file = |path: &str, opening| -> Result<Output, Mistake> {
        Ok(Output::File { path: value::path(path)?, opening })
    };
    Ok(match text {
        "log" => Output::Log,
        "null" => Output::As(Log::Null),
        "inherit" => Output::As(Log::Inherit),
        "console" => Output::As(Log::Console),
        "kmsg" => Output::As(Log::Kmsg),
        "syslog" => Output::As(Log::Syslog),
        "tty" => Output::Terminal,
        "socket" => Output::Socket,
        _ => match text.split_once(':') {
            Some(("file", path)) => file(path, Opening::Over)?,
            Some(("append", path)) => file(path, Opening::Append)?,
            Some(("truncate", path)) => file(path, Opening::Truncate)?,
            _ => {
                let hint = "log, null, inherit, tty, console, kmsg, syslog, socket, or `file:`, `append:`, `truncate:` and a path";
                return mistake(format!("`{text}` is not an output"), hint);
            }
        },
    })
}
