//! systemd-escape(1): scripts of packages, such as ifupdown's for udev, make unit names with it.

use super::complain;
use super::mangle::escaped_path;
use crate::session;
use groundstate_units::text::unit_name::{UnitName, escape, unescape, unescape_path};

/// The command line.
#[derive(Debug, Default)]
struct Asked {
    template: Option<String>,
    suffix: Option<String>,
    path: bool,
    unescape: bool,
    words: Vec<String>,
}

/// Prints the names, separated by spaces. Returns the exit status.
pub(super) fn main(words: &[String]) -> u8 {
    let names = parsed(words).and_then(|asked| {
        asked.words.iter().map(|word| converted(&asked, word)).collect::<Result<Vec<_>, _>>()
    });
    match names {
        Ok(names) => session::print(&format!("{}\n", names.join(" "))).map_or(1, |()| 0),
        Err(complaint) => {
            complain(&complaint);
            1
        }
    }
}

fn parsed(words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut words = words.iter();
    let mut only_names = false;
    while let Some(word) = words.next() {
        let (option, value) = word
            .split_once('=')
            .map_or((word.as_str(), None), |(option, value)| (option, Some(value.to_string())));
        let mut value = || value.clone().or_else(|| words.next().cloned());
        match option {
            _ if only_names || !word.starts_with('-') => asked.words.push(word.clone()),
            "--" => only_names = true,
            "--template" => asked.template = value(),
            "--suffix" => asked.suffix = value(),
            "-p" | "--path" => asked.path = true,
            "-u" | "--unescape" => asked.unescape = true,
            _ => return Err(format!("systemd-escape: unknown option {word}")),
        }
    }
    if asked.words.is_empty() {
        return Err("systemd-escape: no text to escape".to_string());
    }
    Ok(asked)
}

fn converted(asked: &Asked, word: &str) -> Result<String, String> {
    if asked.unescape {
        let text = if asked.path { unescape_path(word) } else { unescape(word) };
        return text.ok_or(format!("systemd-escape: {word} is not escaped"));
    }
    let text = if asked.path { escaped_path(word) } else { escape(word) };
    let Some(template) = &asked.template else {
        return Ok(match &asked.suffix {
            Some(suffix) => format!("{text}.{suffix}"),
            None => text,
        });
    };
    let name = UnitName::of(template);
    if !name.is_template() {
        return Err(format!("systemd-escape: {template} is no template"));
    }
    Ok(UnitName { instance: Some(text), ..name }.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_string()).collect();
        let asked = parsed(&words)?;
        let names: Result<Vec<_>, _> =
            asked.words.iter().map(|word| converted(&asked, word)).collect();
        Ok(names?.join(" "))
    }

    // Expected values: systemd-escape of systemd 252.
    #[test]
    fn names_are_those_of_systemd() {
        let of = |words: &[&str]| escaped(words).unwrap();
        assert_eq!(of(&["--template", "ifup@.service", "eth0"]), "ifup@eth0.service");
        assert_eq!(of(&["--template=ifup@.service", "br-lan"]), "ifup@br\\x2dlan.service");
        assert_eq!(of(&["-p", "/srv/./my-data/"]), "srv-my\\x2ddata");
        assert_eq!(of(&["-p", "--suffix=mount", "/"]), "-.mount");
        assert_eq!(of(&["a/b", "--", "-c"]), "a-b \\x2dc");
        assert_eq!(of(&["-u", "a-b\\x2dc"]), "a/b-c");
        assert_eq!(of(&["-u", "-p", "srv-a"]), "/srv/a");
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for words in
            [&[] as &[&str], &["--template", "a.service", "b"], &["-u", "\\x"], &["-x", "a"]]
        {
            assert!(escaped(words).is_err(), "{words:?}");
        }
    }
}
