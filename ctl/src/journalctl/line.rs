//! Formats a log line as journalctl(1) does.

use super::boots::Boots;
use super::fields::Fields;
use super::words::{Asked, Form};
use crate::machine::Origin;
use crate::session;
use groundstate_units::control::log_line::{ShownLine, printable};
use groundstate_units::text::encoding::visible_json;
use groundstate_units::text::wall_clock::WallTime;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The output format.
pub(super) struct Printer {
    form: Form,
    boots: Boots,
    zone: TimeZone,
    host: String,
    shows_host: bool,
}

impl Printer {
    /// The requested format.
    pub(super) fn new(asked: &Asked, boots: Boots) -> Printer {
        Printer {
            form: asked.form,
            boots,
            zone: if asked.utc { TimeZone::UTC } else { TimeZone::system() },
            host: session::hostname(),
            shows_host: !asked.no_hostname,
        }
    }

    /// Formats a line with its newline.
    pub(super) fn render(&self, line: &ShownLine) -> String {
        let text = printable(Fields::of(line).message.as_bytes());
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
        let host = if self.shows_host { format!("{} ", self.host) } else { String::new() };
        let fields = Fields::of(line);
        let pid = fields.pid.map(|pid| format!("[{pid}]")).unwrap_or_default();
        let sender = printable(fields.identifier.as_bytes());
        format!("{} {host}{sender}{pid}: {text}\n", self.time(line, form))
    }

    fn time(&self, line: &ShownLine, form: &str) -> String {
        match line.time.parse::<Timestamp>() {
            Ok(at) => at.to_zoned(self.zone.clone()).strftime(form).to_string(),
            Err(_) => line.time.clone(),
        }
    }

    /// Formats a time of `--list-boots`.
    pub(super) fn date(&self, time: WallTime) -> String {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let at = Timestamp::from_millisecond(millis).unwrap_or_default();
        at.to_zoned(self.zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
    }

    /// Returns the fields of a line. An unknown field is left out.
    fn fields(&self, line: &ShownLine) -> serde_json::Value {
        let fields = Fields::of(line);
        let time = WallTime::parse(&line.time);
        let texts = [
            (
                "__REALTIME_TIMESTAMP",
                time.map(|time| time.as_millis().saturating_mul(1000).to_string()),
            ),
            ("_SOURCE_MONOTONIC_TIMESTAMP", fields.monotonic.map(|micros| micros.to_string())),
            ("_BOOT_ID", time.and_then(|time| Some(self.boots.at(time)?.to_string()))),
            ("_HOSTNAME", Some(self.host.clone())),
            ("_TRANSPORT", Some(fields.transport.to_string())),
            ("_SYSTEMD_UNIT", fields.unit),
            ("_SYSTEMD_INVOCATION_ID", fields.run.map(|run| format!("{run:032x}"))),
            ("_PID", fields.pid.filter(|pid| *pid != 0).map(|pid| pid.to_string())),
            ("SYSLOG_IDENTIFIER", Some(fields.identifier.to_string())),
            (
                "SYSLOG_FACILITY",
                (Origin::of(line) == Some(Origin::Kernel)).then(|| "0".to_string()),
            ),
            ("PRIORITY", Some(line.priority().to_string())),
            ("MESSAGE", Some(fields.message.to_string())),
        ];
        let known =
            texts.into_iter().filter_map(|(name, text)| Some((name.to_string(), text?.into())));
        serde_json::Value::Object(known.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_source::attribute;
    use crate::machine::{LOG_UNIT, kmsg};
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
        let text = |form| Printer::new(&asked(form), Boots::default()).render(&line);
        assert_eq!(text(Form::Short), "Nov 21 05:12:26 web: hello \"you\"\n");
        assert_eq!(text(Form::ShortIso), "2026-11-21T05:12:26+0000 web: hello \"you\"\n");
        assert_eq!(text(Form::Cat), "hello \"you\"\n");
        let printer = Printer::new(&asked(Form::Short), Boots::default());
        assert_eq!(printer.date(session::now()).len(), "Sat 2026-11-21 05:12:26 UTC".len());
    }

    #[test]
    fn json_has_the_known_fields_of_journalctl_and_no_others() {
        let json = |unit: &str, run: Option<u64>, stream: &'static str, text: &str| {
            let line = ShownLine {
                time: "2026-11-21T05:12:26.123Z".to_string(),
                unit: unit.to_string(),
                run: run.map(RunId),
                stream: stream.into(),
                level: Some(3),
                line: text.to_string(),
                continued: false,
            };
            let asked = Asked { form: Form::Json, ..Asked::default() };
            let text = Printer::new(&asked, Boots::default()).render(&line);
            let mut fields: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&text).unwrap();
            assert_eq!(fields.remove("__REALTIME_TIMESTAMP").unwrap(), "1795237946123000");
            assert_eq!(fields.remove("_HOSTNAME").unwrap(), session::hostname());
            assert_eq!(fields.remove("PRIORITY").unwrap(), "3");
            let text = |(name, value): (String, serde_json::Value)| {
                format!("{name}={}", value.as_str().unwrap())
            };
            fields.into_iter().map(text).collect::<Vec<_>>().join(" ")
        };
        let id = format!("{:032x}", 17);
        assert_eq!(
            json("web", Some(17), "output", "a: b"),
            format!(
                "MESSAGE=a: b SYSLOG_IDENTIFIER=web _SYSTEMD_INVOCATION_ID={id} _SYSTEMD_UNIT=web.service _TRANSPORT=stdout"
            )
        );
        assert_eq!(
            json("web.socket", None, "logger", "lost"),
            "MESSAGE=lost SYSLOG_IDENTIFIER=web _SYSTEMD_UNIT=web.socket _TRANSPORT=driver"
        );
        assert_eq!(
            json("ssh.service", None, "syslog", "sshd[7]: a: b"),
            "MESSAGE=a: b SYSLOG_IDENTIFIER=sshd _PID=7 _SYSTEMD_UNIT=ssh.service _TRANSPORT=syslog"
        );
        assert_eq!(
            json("dev-log", None, "syslog", "su[0]: a"),
            "MESSAGE=a SYSLOG_IDENTIFIER=su _TRANSPORT=syslog"
        );
        assert_eq!(
            json("kernel-log", None, "kernel", "kernel: [    1.234567] usb: a"),
            "MESSAGE=usb: a SYSLOG_FACILITY=0 SYSLOG_IDENTIFIER=kernel _SOURCE_MONOTONIC_TIMESTAMP=1234567 _TRANSPORT=kernel"
        );
        for (text, want) in [
            ("init: a", "MESSAGE=a SYSLOG_IDENTIFIER=init"),
            ("hello", "MESSAGE=hello SYSLOG_IDENTIFIER=kmsg"),
            // The text of a process does not become an identifier that pretends to be the kernel.
            ("kernel: a", "MESSAGE=kernel: a SYSLOG_IDENTIFIER=kmsg"),
            ("kernel[1]: a", "MESSAGE=kernel[1]: a SYSLOG_IDENTIFIER=kmsg"),
        ] {
            assert_eq!(
                json("kernel-log", None, "kmsg", &format!("kmsg: [    1.234567] {text}")),
                format!("{want} _SOURCE_MONOTONIC_TIMESTAMP=1234567 _TRANSPORT=kernel")
            );
        }
    }

    #[test]
    fn printed_message_of_a_process_cannot_be_taken_for_one_of_the_kernel() {
        let short = |stored: &str, unit: &str| {
            let mut line = ShownLine {
                time: "2026-11-21T05:12:26.123Z".to_string(),
                unit: unit.to_string(),
                run: Some(RunId(1)),
                stream: "output".into(),
                level: Some(3),
                line: stored.to_string(),
                continued: false,
            };
            attribute(&mut line);
            let asked = Asked { utc: true, no_hostname: true, ..Asked::default() };
            let text = Printer::new(&asked, Boots::default()).render(&line);
            text.strip_prefix("Nov 21 05:12:26 ").unwrap().trim_end().to_string()
        };
        assert_eq!(short("kernel: [    1.000000] a", kmsg::UNIT), "kernel: a");
        for (unit, stored, printed) in [
            (kmsg::UNIT, "kmsg: [    1.000000] kernel: a", "kmsg: kernel: a"),
            (kmsg::UNIT, "kmsg: [    1.000000] kernel[0]: a", "kmsg: kernel[0]: a"),
            (
                kmsg::UNIT,
                "kmsg: [    1.000000] [    1.000000] kernel: a",
                "kmsg: [    1.000000] kernel: a",
            ),
            (LOG_UNIT, "- kernel[7]: a", "kernel[7]: a"),
            (LOG_UNIT, "- kernel[0]: a", "kernel[0]: a"),
            // Output of a unit.
            ("web", "kernel: [    1.000000] a", "web: kernel: [    1.000000] a"),
        ] {
            assert_eq!(short(stored, unit), printed);
        }
    }
}
