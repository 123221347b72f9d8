//! The caller of a request and its rights. A client of the unix socket has all rights; the socket's
//! mode limits these clients. On TCP, `api_roles_file` maps the name in the client's certificate to
//! a role; other names have no rights.

use crate::unit_name::UnitName;
use groundstate_units::text::yaml::{self, Limits, Node};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rights of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// No rights.
    #[default]
    Nothing,
    /// Another machine of the cluster: may read, also the logs of this machine.
    Machine,
    /// A caller that may read.
    Reader,
    /// A caller that may read and change.
    Operator,
}

/// The caller of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The caller's role.
    pub role: Role,
    /// Prefixes of the units that the caller may see and change; `None` for all units.
    pub prefixes: Option<Vec<String>>,
}

/// The effect of a request, for the check of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Reads units, states, machines or events.
    Read,
    /// Reads the output of a unit.
    Logs,
    /// Creates, changes or destroys a unit.
    ChangeUnit,
    /// Changes the metadata of a machine, or drains it.
    ChangeMachine,
}

impl Caller {
    /// A caller on the unix socket.
    pub fn local() -> Caller {
        Caller { role: Role::Operator, prefixes: None }
    }

    /// Checks the role; [`Caller::sees`] checks the unit.
    pub fn may(&self, action: Action) -> bool {
        match (self.role, action) {
            (Role::Nothing, _) => false,
            (Role::Operator, Action::ChangeMachine) => self.prefixes.is_none(),
            (Role::Operator, _) => true,
            (Role::Reader | Role::Machine, Action::Read | Action::Logs) => true,
            (Role::Reader | Role::Machine, Action::ChangeUnit | Action::ChangeMachine) => false,
        }
    }

    /// Returns true if the caller may see the unit.
    pub fn sees(&self, unit: &str) -> bool {
        let within = |prefixes: &Vec<String>| {
            prefixes.iter().any(|prefix| unit.starts_with(prefix.as_str()))
        };
        self.prefixes.as_ref().is_none_or(within)
    }

    /// Returns true if every unit that the pattern can match starts with one of the caller's
    /// prefixes. Such a pattern in a new unit moves or blocks only the caller's units.
    pub fn reaches(&self, pattern: &str) -> bool {
        let literal = pattern.split(['*', '?', '[', '\\']).next().unwrap_or_default();
        self.sees(literal)
    }

    /// Replaces the names of units that the caller may not see in a text.
    pub fn conceal(&self, text: &str) -> String {
        let ends = |c: char| c.is_whitespace() || "()=,;\"'".contains(c);
        let unseen = |word: &str| {
            let name = word.replace(['*', '?', '[', ']', '^', '!'], "x");
            UnitName::new(&name).is_ok() && !self.reaches(word)
        };
        let mut concealed = String::new();
        for part in text.split_inclusive(ends) {
            let word = part.trim_end_matches(|c| ends(c) || c == ':' || c == '.');
            let rest = part.strip_prefix(word).unwrap_or_default();
            concealed.push_str(if unseen(word) { "another unit" } else { word });
            concealed.push_str(rest);
        }
        concealed
    }

    /// Like [`Caller::sees`], for a unit name.
    pub fn sees_unit(&self, unit: &UnitName) -> bool {
        self.sees(unit.as_str())
    }
}

/// `api_roles_file`: maps common names of certificates to callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    by_name: BTreeMap<String, Caller>,
}

impl Roles {
    /// Parses YAML: `{CN: reader | operator | machine | {role: …, prefix: […]}}`.
    ///
    /// # Errors
    /// All faults with their places, one per line.
    pub fn parse(file: &str, text: &str) -> Result<Roles, String> {
        let all = |diagnostics: Vec<groundstate_units::text::diagnostic::Diagnostic>| {
            let messages = diagnostics.iter().map(|one| one.message.clone());
            messages.map(|message| format!("{file}: {message}")).collect::<Vec<_>>().join("\n")
        };
        let limits = Limits { whole_lines: false, ..Limits::UNIT_FILE };
        let documents = yaml::parse(file, text.as_bytes(), &limits).map_err(all)?;
        let file: Arc<str> = Arc::from(file);
        let mut roles = Roles::default();
        let mut faults = Vec::new();
        for document in &documents {
            let Some(pairs) = document.root.map() else {
                faults.push(format!("{file}: must be a map of names to roles"));
                continue;
            };
            for pair in pairs {
                match caller(&pair.node) {
                    Ok(caller) => {
                        roles.by_name.insert(pair.key.clone(), caller);
                    }
                    Err(why) => faults.push(format!("{file}: {}: {why}", pair.key)),
                }
            }
        }
        if faults.is_empty() { Ok(roles) } else { Err(faults.join("\n")) }
    }

    /// Returns the rights of a common name.
    pub fn of(&self, name: &str) -> Caller {
        self.by_name.get(name).cloned().unwrap_or_default()
    }
}

fn role(text: &str) -> Result<Role, String> {
    match text {
        "reader" => Ok(Role::Reader),
        "operator" => Ok(Role::Operator),
        "machine" => Ok(Role::Machine),
        other => Err(format!("unknown role {other:?}: use reader, operator or machine")),
    }
}

fn caller(node: &Node) -> Result<Caller, String> {
    if let Some(scalar) = node.scalar() {
        return Ok(Caller { role: role(&scalar.text)?, prefixes: None });
    }
    let mut made = Caller::default();
    for pair in node.map().ok_or("must be a role, or a map with role and prefix")? {
        match pair.key.as_str() {
            "role" => {
                let word = pair.node.scalar().ok_or("role: must be one word")?;
                made.role = role(&word.text)?;
            }
            "prefix" => {
                let one = std::slice::from_ref(&pair.node);
                let nodes = pair.node.list().unwrap_or(one).iter();
                let words = nodes.map(|node| node.scalar().map(|word| word.text.to_string()));
                let prefixes: Option<Vec<String>> = words.collect();
                made.prefixes = Some(prefixes.ok_or("prefix: must be a list of words")?);
            }
            other => return Err(format!("unknown key {other:?}: use role or prefix")),
        }
    }
    if made.role == Role::Nothing {
        return Err("role is missing: use reader, operator or machine".to_string());
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_a_prefix_does_not_cover_are_not_named() {
        let ci = Caller { role: Role::Reader, prefixes: Some(vec!["web".to_string()]) };
        for (text, expected) in [
            ("web1.service is on it, m1: e.g. so.", "web1.service is on it, m1: e.g. so."),
            ("db.service is on it", "another unit is on it"),
            (
                "of (Conflicts=db@*.service): db.socket.",
                "of (Conflicts=another unit): another unit.",
            ),
            (
                "web.service, which has Conflicts=[d]b.service",
                "web.service, which has Conflicts=another unit",
            ),
            ("its metadata has no disk=ssd\n", "its metadata has no disk=ssd\n"),
        ] {
            assert_eq!(ci.conceal(text), expected);
            assert_eq!(Caller::local().conceal(text), text);
        }
    }

    #[test]
    fn roles_file_maps_common_names_to_roles_and_prefixes() {
        let text = "ann: operator\nbob: reader\nci: {role: operator, prefix: [web, api@]}\n";
        let roles = Roles::parse("roles", text).unwrap();
        assert_eq!(roles.of("ann"), Caller::local());
        assert_eq!(roles.of("bob").role, Role::Reader);
        assert!(roles.of("ci").sees("web.service") && !roles.of("ci").sees("db.service"));
        assert_eq!(roles.of("unknown").role, Role::Nothing);
    }

    #[test]
    fn pattern_must_start_with_a_prefix_of_the_caller() {
        let roles = Roles::parse("roles", "ci: {role: operator, prefix: [web, api@]}\n").unwrap();
        let ci = roles.of("ci");
        for own in ["web.service", "web*", "web-[ab].service", "api@?.service"] {
            assert!(ci.reaches(own), "{own}");
        }
        for other in ["*", "db.service", "we*", "[w]eb*", "w?b.service", "\\web", ""] {
            assert!(!ci.reaches(other), "{other}");
            assert!(Caller::local().reaches(other), "{other}");
        }
    }

    #[test]
    fn roles_file_with_several_faults_reports_all_of_them() {
        let faults = Roles::parse("roles", "ann: boss\nbob: {prefix: [a]}\nci: [a]\n").unwrap_err();
        assert_eq!(faults.lines().count(), 3, "{faults}");
    }

    #[test]
    fn each_role_has_exactly_the_rights_in_the_table() {
        let actions = [Action::Read, Action::Logs, Action::ChangeUnit, Action::ChangeMachine];
        let table = [
            (Role::Nothing, None, [false, false, false, false]),
            (Role::Machine, None, [true, true, false, false]),
            (Role::Reader, None, [true, true, false, false]),
            (Role::Operator, None, [true, true, true, true]),
            (Role::Operator, Some(vec!["web".to_string()]), [true, true, true, false]),
        ];
        for (role, prefixes, expected) in table {
            let caller = Caller { role, prefixes };
            assert_eq!(actions.map(|action| caller.may(action)), expected, "{caller:?}");
        }
    }
}
