//! Specifiers such as `%i` in templates and imported files (systemd.unit(5), "SPECIFIERS"). Their
//! values come in as data; nothing here asks the machine.

use crate::limit;
use crate::text::unit_name::{self, UnitName};

/// Values of the machine's specifiers; `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `%m`.
    pub machine_id: Option<String>,
    /// `%b`, without dashes.
    pub boot_id: Option<String>,
    /// `%H`.
    pub host: Option<String>,
    /// `%v`.
    pub kernel: Option<String>,
    /// `%a` in systemd's spelling: `x86-64`, `arm64`.
    pub architecture: Option<String>,
    /// Fields of os-release(5): `ID`, `VERSION_ID`, `BUILD_ID`, `VARIANT_ID`, `IMAGE_ID`,
    /// `IMAGE_VERSION`; and of machine-info(5): `PRETTY_HOSTNAME`.
    pub os: Vec<(String, String)>,
}

/// Replaces every specifier. An unknown one stays in the text, as in systemd.
///
/// # Errors
/// A specifier whose value is unknown, or a text that grows too long.
pub fn expand(text: &str, name: &UnitName, facts: &Facts) -> Result<String, String> {
    if !text.contains('%') {
        return Ok(text.to_string());
    }
    let mut expanded = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            expanded.push(character);
            continue;
        }
        let Some(letter) = characters.next() else {
            expanded.push('%');
            break;
        };
        match value(letter, name, facts) {
            Ok(Some(value)) => expanded.push_str(&value),
            Ok(None) => expanded.extend(['%', letter]),
            Err(what) => return Err(format!("%{letter}: {what}")),
        }
        if expanded.len() > limit::IMPORTED_FILE {
            return Err("a text that grows too long".to_string());
        }
    }
    Ok(expanded)
}

/// Returns true if the text has one of these specifiers.
pub fn has(text: &str, letters: &str) -> bool {
    let is_one = |behind: &str| behind.starts_with(|letter| letters.contains(letter));
    text.replace("%%", "").split('%').skip(1).any(is_one)
}

/// The field of machine-info(5) with the host name for people.
const PRETTY: &str = "PRETTY_HOSTNAME";

/// Returns the value of a specifier, or `None` for text that is none.
///
/// # Errors
/// A specifier whose value is unknown here.
fn value(letter: char, name: &UnitName, facts: &Facts) -> Result<Option<String>, &'static str> {
    const NOT_ESCAPED: &str = "the name is not valid escaped text";
    const NO_HOST: &str = "the machine's name is not known here";
    let last = name.prefix.rsplit('-').next().unwrap_or_default();
    let instance = name.instance.as_deref().unwrap_or_default();
    let text = match letter {
        '%' => "%".to_string(),
        'i' => instance.to_string(),
        'I' => unit_name::unescape(instance).ok_or(NOT_ESCAPED)?,
        'p' => name.prefix.clone(),
        'P' => unit_name::unescape(&name.prefix).ok_or(NOT_ESCAPED)?,
        'j' => last.to_string(),
        'J' => unit_name::unescape(last).ok_or(NOT_ESCAPED)?,
        'n' => name.to_string(),
        'N' => name.stem(),
        'f' => {
            let part = if name.is_instance() { instance } else { &name.prefix };
            unit_name::unescape_path(part).ok_or(NOT_ESCAPED)?
        }
        'd' => format!("/run/credentials/{name}"),
        'm' => facts.machine_id.clone().ok_or("the machine has no id")?,
        'b' => facts.boot_id.clone().ok_or("the boot has no id here")?,
        'H' => facts.host.clone().ok_or(NO_HOST)?,
        'q' if !field(facts, PRETTY).is_empty() => field(facts, PRETTY),
        'l' | 'q' => {
            let host = facts.host.as_deref().ok_or(NO_HOST)?;
            host.split('.').next().unwrap_or(host).to_string()
        }
        'y' | 'Y' => return Err("the path of the unit file is not available"),
        'v' => facts.kernel.clone().ok_or("the kernel's release is not known here")?,
        'a' => facts.architecture.clone().ok_or("the architecture is not known here")?,
        'o' => field(facts, "ID"),
        'w' => field(facts, "VERSION_ID"),
        'B' => field(facts, "BUILD_ID"),
        'W' => field(facts, "VARIANT_ID"),
        'M' => field(facts, "IMAGE_ID"),
        'A' => field(facts, "IMAGE_VERSION"),
        letter => return Ok(fixed(letter).map(str::to_string)),
    };
    Ok(Some(text))
}

/// Returns the value of a specifier that is the same on every machine, for system units.
fn fixed(letter: char) -> Option<&'static str> {
    let text = match letter {
        't' => "/run",
        'S' => "/var/lib",
        'C' => "/var/cache",
        'L' => "/var/log",
        'E' => "/etc",
        'T' => "/tmp",
        'V' => "/var/tmp",
        'u' | 'g' => "root",
        'U' | 'G' => "0",
        'h' => "/root",
        's' => "/bin/sh",
        _ => return None,
    };
    Some(text)
}

/// Returns a field of os-release or machine-info; empty if it is not set.
fn field(facts: &Facts, name: &str) -> String {
    let found = facts.os.iter().find(|(known, _)| known == name);
    found.map(|(_, text)| text.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_specifier_of_a_name_is_replaced() {
        let name = UnitName::of("a-b\\x2dc@d-e\\x2df.service");
        let text = "%i %I %p %P %j %J %n %N %f %%i %t %S %C %L %E %T %V %u%U%g%G %h %s %";
        let expected = "d-e\\x2df d/e-f a-b\\x2dc a/b-c b\\x2dc b-c a-b\\x2dc@d-e\\x2df.service \
                        a-b\\x2dc@d-e\\x2df /d/e-f %i /run /var/lib /var/cache /var/log /etc /tmp \
                        /var/tmp root0root0 /root /bin/sh %";
        assert_eq!(expand(text, &name, &Facts::default()).unwrap(), expected);
    }

    #[test]
    fn machine_specifiers_are_replaced_from_the_facts() {
        let name = UnitName::of("a.service");
        let facts = Facts {
            machine_id: Some("m".into()),
            boot_id: Some("b".into()),
            host: Some("web.example".into()),
            kernel: Some("6.1".into()),
            architecture: Some("x86-64".into()),
            os: vec![("ID".into(), "debian".into())],
        };
        assert_eq!(
            expand("%m%b%H%l%v%a%o%w", &name, &facts).unwrap(),
            "mbweb.exampleweb6.1x86-64debian"
        );
        assert_eq!(expand("%q", &name, &facts).unwrap(), "web");
        let pretty = Facts { os: vec![(PRETTY.into(), "The web".into())], ..facts };
        assert_eq!(expand("%q", &name, &pretty).unwrap(), "The web");
        let mistake = expand("ab%m", &name, &Facts::default()).unwrap_err();
        assert_eq!(mistake, "%m: the machine has no id");
    }

    #[test]
    fn text_that_is_no_specifier_stays_unchanged() {
        let name = UnitName::of("a.service");
        assert_eq!(expand("100%, %z%", &name, &Facts::default()).unwrap(), "100%, %z%");
        assert_eq!(expand("%i|%f", &name, &Facts::default()).unwrap(), "|/a");
    }
}
