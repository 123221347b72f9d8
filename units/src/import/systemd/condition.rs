//! Conditions and assertions: one native key per kind. `!` and `|` stay in front of the value.

use super::conversion::Conversion;
use super::span;
use super::unit_text::UnitOption;

/// All assignments of one kind of condition.
pub(super) fn convert<'a>(this: &mut Conversion<'a>, key: &str, options: &[&'a UnitOption]) {
    for option in options {
        let Some(text) = this.expand(option, &option.value) else { continue };
        let marks = text.len() - text.trim_start_matches(['|', '!']).len();
        let Some((marks, value)) = text.split_at_checked(marks) else { continue };
        // systemd reads them as `|!`, and so does the native key.
        let any = if marks.contains('|') { "|" } else { "" };
        let not = if marks.matches('!').count() % 2 == 1 { "!" } else { "" };
        let value = match (key.split_once('-').map(|(_, kind)| kind), value.trim()) {
            // `1` and `t` are booleans of systemd, not of native files.
            (Some("ac-power" | "first-boot" | "virtualization"), value) => {
                match span::boolean(value) {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => value,
                }
            }
            (_, value) => value,
        };
        this.add(key, &format!("{any}{not}{value}"), Some(option), option.value_at());
    }
}
