//! Native units in the cluster: a `web.yaml` with an `x-fleet:` map becomes a fleet unit and comes
//! out byte for byte unchanged.
//! Its requirements become `[X-Fleet]` options, so that the engine places it by the same rules. Its
//! text is stored line by line, each as a JSON string, so that indentation and comments survive.
//! [`groundstate_units`] interprets the text.

use crate::requirement;
use crate::unit_file::{UnitFile, UnitOption};
use groundstate_units::text::yaml::{self, Limits, Node};
use std::sync::OnceLock;

/// The section that holds the text of the native unit.
pub const SECTION: &str = "X-Native";
/// The option that holds one line of the text.
pub const LINE: &str = "Line";
/// The key of a native unit with its requirements.
const KEY: &str = "x-fleet";
/// Types of native units that have a suffix in fleet.
const TYPES: [&str; 3] = ["socket", "timer", "path"];
/// The keys allowed in `x-fleet`.
const ASKS: [&str; 7] =
    ["MachineID", "MachineOf", "MachineMetadata", "Conflicts", "Global", "Replaces", "Exclusive"];

/// Returns `web` for `web.yaml`, or `None` if it is not a native file.
pub fn stem(base: &str) -> Option<&str> {
    let stem = base.strip_suffix(".yaml").or_else(|| base.strip_suffix(".yml"))?;
    (!stem.is_empty()).then_some(stem)
}

/// Returns the unit's suffix from the `type:` in the text.
pub fn suffix(text: &str) -> &'static str {
    let documents = documents("", text).unwrap_or_default();
    let written = documents.first().and_then(|root| root.get("type")?.scalar().cloned());
    let found = TYPES.iter().find(|own| written.as_ref().is_some_and(|word| word.text == **own));
    found.copied().unwrap_or("service")
}

/// A parsed native unit.
#[derive(Clone, Debug)]
pub struct Native {
    /// The text, byte for byte.
    pub text: String,
    /// The root node, or `None` if the text is not YAML.
    root: Option<Node>,
}

impl Native {
    /// Reads the native unit in a unit file, or returns `None` if there is none.
    pub fn of(file: &UnitFile) -> Option<Native> {
        let text = text(file)?;
        let root = documents("", &text).unwrap_or_default().into_iter().next();
        Some(Native { text, root })
    }

    /// Returns the value of a scalar key.
    pub fn scalar(&self, key: &str) -> Option<String> {
        self.root.as_ref()?.get(key)?.scalar().map(|word| word.text.clone())
    }

    /// Returns the words of a key that holds a list or a single word.
    pub fn words(&self, key: &str) -> Vec<String> {
        self.root.as_ref().and_then(|root| values(root.get(key)?)).unwrap_or_default()
    }
}

/// A native unit that is parsed on first use. Comparisons ignore it, because it is derived from the
/// file next to it.
#[derive(Clone, Debug, Default)]
pub struct LazyNative(OnceLock<Option<Box<Native>>>);

impl LazyNative {
    /// Returns the native unit. The caller passes the same file each time.
    pub fn of(&self, file: &UnitFile) -> Option<&Native> {
        self.0.get_or_init(|| Native::of(file).map(Box::new)).as_deref()
    }
}

impl PartialEq for LazyNative {
    fn eq(&self, _: &LazyNative) -> bool {
        true
    }
}

impl Eq for LazyNative {}

/// Reads a native unit file.
///
/// # Errors
/// The faults of the text or its `x-fleet:`, one per line.
pub fn read(place: &str, text: &str) -> Result<UnitFile, String> {
    let roots = documents(place, text)?;
    let [root] = roots.as_slice() else {
        return Err(format!("one unit per file: this file has {} documents", roots.len()));
    };
    let mut file = UnitFile::default();
    if let Some(asks) = root.get(KEY) {
        let pairs = asks.map().ok_or_else(|| format!("{KEY}: must be a map"))?;
        for pair in pairs {
            let known = ASKS.iter().find(|own| plain(own) == plain(&pair.key));
            let key = known.ok_or_else(|| {
                format!("{KEY}: unknown key {:?}: use one of {}", pair.key, ASKS.join(", "))
            })?;
            let values = values(&pair.node).ok_or_else(|| {
                format!("{KEY}: {}: must be a word, a list, or a map of words", pair.key)
            })?;
            let option = |value: &String| UnitOption::new(requirement::SECTION, key, value);
            file.options.extend(values.iter().map(option));
        }
    }
    for line in text.split('\n') {
        let quoted = serde_json::to_string(line).map_err(|error| error.to_string())?;
        file.options.push(UnitOption::new(SECTION, LINE, &quoted));
    }
    file.check().map_err(|error| error.to_string())?;
    Ok(file)
}

/// Returns true if the file holds a native unit.
pub fn is_one(file: &UnitFile) -> bool {
    let mut lines = file.values(SECTION, LINE).peekable();
    lines.peek().is_some() && lines.all(|line| serde_json::from_str::<String>(line).is_ok())
}

/// Returns the text of a native unit, or `None` for another unit.
pub fn text(file: &UnitFile) -> Option<String> {
    let lines = file.values(SECTION, LINE).map(|line| serde_json::from_str::<String>(line).ok());
    let lines: Option<Vec<String>> = lines.collect();
    lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n"))
}

/// Normalizes a key: `machine-id` is `MachineID`.
fn plain(key: &str) -> String {
    key.chars().filter(|c| *c != '-' && *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

fn values(node: &Node) -> Option<Vec<String>> {
    if let Some(scalar) = node.scalar() {
        return Some(vec![scalar.text.clone()]);
    }
    if let Some(list) = node.list() {
        return list.iter().map(|one| one.scalar().map(|word| word.text.clone())).collect();
    }
    let mut all = Vec::new();
    for pair in node.map()? {
        for value in values(&pair.node)? {
            all.push(format!("{}={value}", pair.key));
        }
    }
    Some(all)
}

fn documents(place: &str, text: &str) -> Result<Vec<Node>, String> {
    let limits = Limits { whole_lines: false, ..Limits::UNIT_FILE };
    let read = yaml::parse(place, text.as_bytes(), &limits);
    let messages = |all: Vec<groundstate_units::text::diagnostic::Diagnostic>| {
        let lines = all.iter().map(|one| one.message.clone());
        lines.collect::<Vec<_>>().join("\n")
    };
    Ok(read.map_err(messages)?.into_iter().map(|document| document.root).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::Requirement;

    const WEB: &str = "# the shop\nunit: web\nprovides: [web]\nexec-start: /bin/sleep 60   # long\nx-fleet:\n  machine-metadata: {region: [eu, us], disk: ssd}\n  Conflicts: [web@*.service]\n\n";

    #[test]
    fn native_unit_is_stored_byte_for_byte() {
        for own in
            [WEB, "unit: a\r\nexec-start: /bin/a\r\n", "unit: a", "unit: a\ntabs: \"\\t x \"\n\n\n"]
        {
            let file = read("web.yaml", own).unwrap();
            assert_eq!(text(&file).as_deref(), Some(own));
            let stored = UnitFile::parse(&file.text()).unwrap();
            assert_eq!(text(&stored).as_deref(), Some(own));
            assert_eq!(stored.hash(), file.hash());
        }
    }

    #[test]
    fn x_fleet_map_becomes_requirements() {
        let asks = Requirement::of(&read("web.yaml", WEB).unwrap(), None);
        assert_eq!(asks.metadata["region"].len(), 2);
        assert!(asks.metadata["disk"].contains("ssd"));
        assert_eq!(asks.conflicts, ["web@*.service"]);
        assert!(!asks.global);
        let global = read("a.yaml", "unit: a\nx-fleet: {global: yes}\n").unwrap();
        assert!(Requirement::of(&global, None).global);
    }

    #[test]
    fn type_of_a_native_unit_selects_its_suffix() {
        assert_eq!(stem("web.yaml"), Some("web"));
        assert_eq!(stem("web.service"), None);
        assert_eq!(stem(".yaml"), None);
        assert_eq!(suffix("unit: a\ntype: timer\n"), "timer");
        assert_eq!(suffix("unit: a\n"), "service");
    }

    #[test]
    fn invalid_native_file_is_refused() {
        assert!(read("a", "unit: a\nx-fleet: {Machine: m1}\n").is_err());
        assert!(read("a", "unit: a\nx-fleet: [m1]\n").is_err());
        assert!(read("a", "unit: a\n---\nunit: b\n").is_err());
        assert!(read("a", "unit: [\n").is_err());
        assert_eq!(text(&UnitFile::parse("[Service]\nExecStart=/bin/a\n").unwrap()), None);
    }
}
