//! The destinations of output, and the reports about unsupported ones.

use super::{clean, said, service, values};
use crate::text::diagnostic::Severity;

#[test]
fn dropped_console_output_is_reported() {
    for (text, key, value) in [
        ("StandardError=journal+console\n", "stderr", None),
        ("StandardOutput=null\nStandardError=syslog+console\n", "stderr", Some("log")),
        ("StandardOutput=kmsg+console\n", "stdout", Some("kmsg")),
    ] {
        let web = service(text);
        assert_eq!(values(&web, key), value.into_iter().collect::<Vec<_>>(), "{text}");
        let told = said(&web, Severity::Warning);
        assert!(
            matches!(told.as_slice(), [one] if one.1.contains("not to the console")),
            "{told:?}"
        );
    }
    clean(&service("StandardOutput=journal\nStandardError=kmsg\n"));
}

#[test]
fn log_priorities_and_job_modes_are_imported_or_reported() {
    for (text, prefix, level, facility) in [
        ("", Some("yes"), None, None),
        ("SyslogLevelPrefix=no\n", None, None, None),
        ("SyslogLevelPrefix=1\nSyslogLevel=err\n", Some("yes"), Some("err"), None),
        ("SyslogLevel=4\nSyslogFacility=16\n", Some("yes"), Some("warning"), Some("local0")),
        ("SyslogFacility=mail\n", Some("yes"), None, Some("mail")),
    ] {
        let web = service(text);
        let list = |value: Option<&str>| value.into_iter().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(values(&web, "log-level-prefix"), list(prefix), "{text}");
        assert_eq!(values(&web, "log-level"), list(level), "{text}");
        assert_eq!(values(&web, "log-facility"), list(facility), "{text}");
        clean(&web);
    }
    for text in [
        "SyslogLevel=loud\n",
        "SyslogFacility=13\n",
        "SyslogLevelPrefix=maybe\n",
        "[Unit]\nOnSuccess=cheer.service\n",
        "[Unit]\nOnFailureJobMode=isolate\n",
        "[Unit]\nOnSuccessJobMode=flush\n",
    ] {
        let told = service(text).manifest.diagnostics;
        assert_eq!(told.len(), 1, "{text}: {told:?}");
    }
    clean(&service("[Unit]\nOnFailureJobMode=replace\nOnSuccessJobMode=fail\n"));
}
