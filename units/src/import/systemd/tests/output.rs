//! Where output goes, and what is told of where it no longer does.

use super::{clean, said, service, values};
use crate::diagnostic::Severity;

#[test]
fn output_that_no_longer_goes_to_the_console_is_told() {
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
