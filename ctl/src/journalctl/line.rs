//! Formats a log line as journalctl(1) does.

use super::words::{Asked, Form};
use crate::session;
use groundstate_units::control::log_line::{ShownLine, printable};
use groundstate_units::text::encoding::visible_json;
use groundstate_units::text::wall_clock::WallTime;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

/// The output format.
pub(super) struct Printer {
    form: Form,
    zone: TimeZone,
    host: Option<String>,
}

impl Printer {
    /// The requested format.
    pub(super) fn new(asked: &Asked) -> Printer {
        Printer {
            form: asked.form,
            zone: if asked.utc { TimeZone::UTC } else { TimeZone::system() },
            host: if asked.no_hostname { None } else { Some(session::hostname()) },
        }
    }

    /// Formats a line with its newline.
    pub(super) fn render(&self, line: &ShownLine) -> String {
        let text = printable(line.line.as_bytes());
        match self.form {
            Form::Short => self.short(line, &text, "%b %d %H:%M:%S"),
            Form::ShortIso => self.short(line, &text, "%Y-%m-%dT%H:%M:%S%z"),
            Form::ShortPrecise => self.short(line, &text, "%b %d %H:%M:%S%.6f"),
            Form::ShortUnix => self.short(line, &text, "%s%.6f"),
            Form::Cat => format!("{text}\n"),
            Form::Json => format!("{}\n", visible_json(&self.fields(line).to_string())),
            Form::JsonSse => {
                format!("data: {}\n\n", visible_json(&self.fields(line).to_string()))
            }
            Form::JsonPretty => visible_json(&format!("{:#}\n", self.fields(line))).into_owned(),
            Form::Verbose => {
                let time = self.time(line, "%a %Y-%m-%d %H:%M:%S%.6f %Z");
                let mut text = format!("{time}\n");
                for (name, value) in self.fields(line).as_object().into_iter().flatten() {
                    text.push_str(&format!("    {name}={}\n", value.as_str().unwrap_or_default()));
                }
                text
            }
        }
    }

    fn short(&self, line: &ShownLine, text: &str, form: &str) -> String {
        let host = self.host.as_ref().map(|host| format!("{host} ")).unwrap_or_default();
        format!("{} {host}{}: {text}\n", self.time(line, form), identifier(&line.unit))
    }

    fn time(&self, line: &ShownLine, form: &str) -> String {
        match line.time.parse::<Timestamp>() {
            Ok(at) => at.to_zoned(self.zone.clone()).strftime(form).to_string(),
            Err(_) => line.time.clone(),
        }
    }

    fn fields(&self, line: &ShownLine) -> serde_json::Value {
        let micros =
            WallTime::parse(&line.time).map_or(0, WallTime::as_millis).saturating_mul(1000);
        let unit = match line.unit.rsplit_once('.') {
            Some((_, suffix)) if crate::systemctl::SUFFIXES.contains(&suffix) => line.unit.clone(),
            _ => format!("{}.service", line.unit),
        };
        json!({
            "__REALTIME_TIMESTAMP": micros.to_string(),
            "_HOSTNAME": self.host.clone().unwrap_or_default(),
            "_SYSTEMD_UNIT": unit,
            "_TRANSPORT": "stdout",
            "SYSLOG_IDENTIFIER": identifier(&line.unit),
            "PRIORITY": line.priority().to_string(),
            "INVOCATION_ID": line.run.map(|run| format!("{:032x}", run.0)).unwrap_or_default(),
            "MESSAGE": line.line,
        })
    }
}

/// Returns the unit's name without its suffix.
fn identifier(unit: &str) -> &str {
    match unit.rsplit_once('.') {
        Some((stem, suffix)) if crate::systemctl::SUFFIXES.contains(&suffix) => stem,
        _ => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::machine::event::RunId;

    #[test]
    fn line_is_printed_as_in_journalctl() {
        let line = ShownLine {
            time: "2026-11-21T05:12:26.123Z".to_string(),
            unit: "web.service".to_string(),
            run: Some(RunId(1)),
            stream: "output".into(),
            level: Some(3),
            line: "hello \"you\"".to_string(),
            continued: false,
        };
        let asked = |form| Asked { form, utc: true, no_hostname: true, ..Asked::default() };
        let text = |form| Printer::new(&asked(form)).render(&line);
        assert_eq!(text(Form::Short), "Nov 21 05:12:26 web: hello \"you\"\n");
        assert_eq!(text(Form::ShortIso), "2026-11-21T05:12:26+0000 web: hello \"you\"\n");
        assert_eq!(text(Form::Cat), "hello \"you\"\n");
        let json: serde_json::Value = serde_json::from_str(&text(Form::Json)).unwrap();
        assert_eq!(json["MESSAGE"], "hello \"you\"");
        assert_eq!(
            (&json["_SYSTEMD_UNIT"], &json["PRIORITY"]),
            (&"web.service".into(), &"3".into())
        );
        assert_eq!(json["__REALTIME_TIMESTAMP"], "1795237946123000");
    }
}
