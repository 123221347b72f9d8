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

/// The error of a text that cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The message.
    pub message: String,
    /// Number of bytes before the `%`.
    pub offset: usize,
}

/// Replaces every specifier. An unknown one stays in the text, as in systemd.
///
/// # Errors
/// A specifier whose value is unknown.
pub fn expand(text: &str, name: &UnitName, facts: &Facts) -> Result<String, Mistake> {
    if !text.contains('%') {
        return Ok(text.to_string());
    }
    let mut expanded = String::with_capacity(text.len());
    let mut characters = text.char_indices();
    while let Some((offset, character)) = characters.next() {
        if character != '%' {
            expanded.push(character);
            continue;
        }
        let Some((_, letter)) = characters.next() else {
            expanded.push('%');
            break;
        };
        match value(letter, name, facts) {
            Value::Text(value) => expanded.push_str(&value),
            Value::Literal => expanded.extend(['%', letter]),
            Value::Unknown(what) => {
                return Err(Mistake { message: format!("%{letter}: {what}"), offset });
            }
        }
        if expanded.len() > limit::IMPORTED_FILE {
            let message = "a text that grows too long".to_string();
            return Err(Mistake { message, offset });
        }
    }
    Ok(expanded)
}

/// The field of machine-info(5) with the host name for people.
const PRETTY: &str = "PRETTY_HOSTNAME";

enum Value {
    Text(String),
    /// No specifier; the text stays.
    Literal,
    /// A specifier whose value is unknown here.
    Unknown(&'static str),
}

fn value(letter: char, name: &UnitName, facts: &Facts) -> Value {
    let known = |text: &str| Value::Text(text.to_string());
    let unescaped = |text: &str| match unit_name::unescape(text) {
        Some(text) => Value::Text(text),
        None => Value::Unknown("the name is not valid escaped text"),
    };
    let last = name.prefix.rsplit('-').next().unwrap_or_default();
    let instance = name.instance.as_deref().unwrap_or_default();
    match letter {
        '%' => known("%"),
        'i' => known(instance),
        'I' => unescaped(instance),
        'p' => known(&name.prefix),
        'P' => unescaped(&name.prefix),
        'j' => known(last),
        'J' => unescaped(last),
        'n' => Value::Text(name.to_string()),
        'N' => Value::Text(name.stem()),
        'f' => {
            let part = if name.is_instance() { instance } else { &name.prefix };
            match unit_name::unescape_path(part) {
                Some(path) => Value::Text(path),
                None => Value::Unknown("the name is not valid escaped text"),
            }
        }
        'd' => Value::Text(format!("/run/credentials/{name}")),
        'm' => fact(facts.machine_id.as_ref(), "the machine has no id"),
        'b' => fact(facts.boot_id.as_ref(), "the boot has no id here"),
        'H' => fact(facts.host.as_ref(), "the machine's name is not known here"),
        'q' if !field(facts, PRETTY).is_empty() => known(field(facts, PRETTY)),
        'l' | 'q' => match &facts.host {
            Some(host) => known(host.split('.').next().unwrap_or(host)),
            None => Value::Unknown("the machine's name is not known here"),
        },
        'y' | 'Y' => Value::Unknown("the path of the unit file is not available"),
        'v' => fact(facts.kernel.as_ref(), "the kernel's release is not known here"),
        'a' => fact(facts.architecture.as_ref(), "the architecture is not known here"),
        'o' => system(facts, "ID"),
        'w' => system(facts, "VERSION_ID"),
        'B' => system(facts, "BUILD_ID"),
        'W' => system(facts, "VARIANT_ID"),
        'M' => system(facts, "IMAGE_ID"),
        'A' => system(facts, "IMAGE_VERSION"),
        letter => match fixed(letter) {
            Some(text) => known(text),
            None => Value::Literal,
        },
    }
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

fn fact(value: Option<&String>, otherwise: &'static str) -> Value {
    match value {
        Some(text) => Value::Text(text.clone()),
        None => Value::Unknown(otherwise),
    }
}

/// Returns a field of os-release or machine-info; empty if it is not set.
fn field<'a>(facts: &'a Facts, name: &str) -> &'a str {
    let found = facts.os.iter().find(|(known, _)| known == name);
    found.map(|(_, text)| text.as_str()).unwrap_or_default()
}

fn system(facts: &Facts, name: &str) -> Value {
    Value::Text(field(facts, name).to_string())
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
    fn what_the_machine_has_to_say_comes_from_its_facts() {
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
        assert_eq!((mistake.offset, mistake.message.as_str()), (2, "%m: the machine has no id"));
    }

    #[test]
    fn what_is_no_specifier_stays() {
        let name = UnitName::of("a.service");
        assert_eq!(expand("100%, %z%", &name, &Facts::default()).unwrap(), "100%, %z%");
        assert_eq!(expand("%i|%f", &name, &Facts::default()).unwrap(), "|/a");
    }
}
