//! Finds which file of a crate imports which from the text: circles between files, and imports that
//! run upwards in a table of layers. Unit tests in the sources are left out.
//!
//! A path is followed through child modules, `use` aliases and re-exports to the file that defines
//! the item. Imports between a module and its own submodules count in neither check.

use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of aliases that a path may lead through.
const ALIASES: usize = 8;

/// The imports between the files of one crate.
#[derive(Debug)]
pub struct Imports {
    /// Module → its file, below the crate's `src`. The crate's root is the module "".
    files: BTreeMap<String, String>,
    /// Module → the modules that it imports from.
    edges: BTreeMap<String, BTreeSet<String>>,
}

/// The contents of one file.
#[derive(Debug, Default)]
struct Module {
    /// Each path in the code, as written.
    paths: Vec<Vec<String>>,
    /// Name → the path that a `use` gave it.
    aliases: BTreeMap<String, Vec<String>>,
    /// Submodules that exist only under test.
    tests: Vec<String>,
}

impl Imports {
    /// Reads a crate: each file with its path below `src`. Programs in `bin` are other crates.
    pub fn of<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>) -> Imports {
        let mut files = BTreeMap::new();
        let mut modules = BTreeMap::new();
        for (path, text) in sources.filter(|(path, _)| !path.starts_with("bin/")) {
            let name = module_of(path);
            modules.insert(name.clone(), Module::read(text));
            files.insert(name, path.to_owned());
        }
        let tests: Vec<String> = modules
            .iter()
            .flat_map(|(name, module)| module.tests.iter().map(|test| join(name, test)))
            .collect();
        let is_test = |name: &str| {
            name.split("::").any(|part| part.ends_with("tests"))
                || tests.iter().any(|test| is_within(name, test))
        };
        modules.retain(|name, _| !is_test(name));
        files.retain(|name, _| !is_test(name));
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, module) in &modules {
            let found = module.paths.iter().filter_map(|path| resolve(&modules, name, path, 0));
            let targets = found.filter(|to| !is_within(to, name) && !is_within(name, to));
            edges.insert(name.clone(), targets.collect());
        }
        Imports { files, edges }
    }

    /// The files that import each other in a circle, one list for each circle.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|name| (name.as_str(), self.reachable(name))).collect();
        let mut circles = Vec::new();
        let mut seen = BTreeSet::new();
        for (name, targets) in &reach {
            if !targets.contains(name) || seen.contains(name) {
                continue;
            }
            let members: Vec<&str> =
                targets.iter().copied().filter(|to| reach[to].contains(name)).collect();
            seen.extend(members.iter().copied());
            circles.push(members.into_iter().map(|name| self.files[name].as_str()).collect());
        }
        circles
    }

    /// Every module that `from` imports, directly or through others.
    fn reachable(&self, from: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut next = vec![from];
        while let Some(name) = next.pop() {
            for to in self.edges.get(name).into_iter().flatten() {
                if found.insert(to.as_str()) {
                    next.push(to);
                }
            }
        }
        found
    }

    /// The imports that do not run downwards in `layers`, and the modules that are in no layer.
    /// A layer is a line of top-level modules, which import only from later lines.
    pub fn upward(&self, layers: &[&str]) -> Vec<String> {
        let layer = |module: &str| {
            let top = module.split("::").next().unwrap_or_default();
            layers.iter().position(|line| line.split_whitespace().any(|name| name == top))
        };
        let mut complaints = Vec::new();
        for (from, targets) in self.edges.iter().filter(|(from, _)| !from.is_empty()) {
            let Some(own) = layer(from) else {
                complaints.push(format!("{}: its module is in no layer", self.files[from]));
                continue;
            };
            let top = |name: &str| name.split("::").next().map(str::to_owned);
            let others = targets.iter().filter(|to| top(to) != top(from));
            let upward = others.filter(|to| layer(to).is_none_or(|layer| layer <= own));
            complaints.extend(
                upward.map(|to| format!("{}: imports {}", self.files[from], self.files[to])),
            );
        }
        complaints
    }
}

/// The module of a file: `agent/end.rs` is `agent::end`, `lib.rs` the root.
fn module_of(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { String::new() } else { path.replace('/', "::") }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// `module` is `of`, or one of its submodules.
fn is_within(module: &str, of: &str) -> bool {
    let rest = module.strip_prefix(of);
    of.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The module whose file defines what `path` names in `at`. Returns `None` for an item outside the
/// crate.
fn resolve(
    modules: &BTreeMap<String, Module>,
    at: &str,
    path: &[String],
    aliases: usize,
) -> Option<String> {
    let mut current = at.to_owned();
    for (position, part) in path.iter().enumerate() {
        match part.as_str() {
            "crate" => current.clear(),
            "self" => {}
            "super" => {
                current = current.rsplit_once("::").map_or("", |(parent, _)| parent).to_owned();
            }
            name => {
                let child = join(&current, name);
                let module = modules.get(&current)?;
                if modules.contains_key(&child) {
                    current = child;
                } else if let Some(alias) = module.aliases.get(name)
                    && aliases < ALIASES
                {
                    let rest = path.get(position + 1..).unwrap_or_default();
                    let whole = [alias.as_slice(), rest].concat();
                    return resolve(modules, &current, &whole, aliases + 1);
                } else if position == 0 {
                    return None;
                } else {
                    break;
                }
            }
        }
    }
    Some(current)
}

impl Module {
    fn read(text: &str) -> Module {
        let mut module = Module::default();
        let tokens = tokens(text);
        // The number of open braces at the start of each inline module.
        let mut inline: Vec<usize> = Vec::new();
        let mut depth = 0_usize;
        let mut at = 0;
        let word = |at: usize| tokens.get(at).copied().unwrap_or_default();
        while at < tokens.len() {
            match word(at) {
                "#" if word(at + 1) == "[" => {
                    let end = closing(&tokens, at + 1);
                    let mut names = tokens[at..end].iter();
                    if word(at + 2) == "cfg"
                        && names.any(|name| *name == "test")
                        && !tokens[at..end].contains(&"not")
                    {
                        at = module.skip_item(&tokens, end);
                    } else {
                        at = end;
                    }
                    continue;
                }
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    if inline.last() == Some(&depth) {
                        inline.pop();
                    }
                }
                "mod" if word(at + 2) == "{" => inline.push(depth),
                "use" => {
                    at = module.read_use(&tokens, at + 1, &mut Vec::new(), inline.len());
                    continue;
                }
                first if is_name(first) && word(at + 1) == "::" => {
                    let mut path = vec![first.to_owned()];
                    while word(at + 1) == "::" && is_name(word(at + 2)) {
                        at += 2;
                        path.push(word(at).to_owned());
                    }
                    module.paths.push(outside(path, inline.len()));
                }
                _ => {}
            }
            at += 1;
        }
        module
    }

    /// Reads the tree of a `use` from `at` on, below `prefix`, and returns its end.
    fn read_use(
        &mut self,
        tokens: &[&str],
        mut at: usize,
        prefix: &mut Vec<String>,
        inline: usize,
    ) -> usize {
        let own = prefix.len();
        while let Some(word) = tokens.get(at) {
            at += 1;
            match *word {
                "{" => {
                    while tokens.get(at).is_some_and(|word| *word != "}") {
                        at = self.read_use(tokens, at, prefix, inline);
                        if tokens.get(at) == Some(&",") {
                            at += 1;
                        }
                    }
                    prefix.truncate(own);
                    return at + 1;
                }
                "::" => {}
                name if is_name(name) && tokens.get(at) == Some(&"::") => {
                    prefix.push(name.to_owned());
                }
                name => {
                    if name != "*" && (name != "self" || own == 0) {
                        prefix.push(name.to_owned());
                    }
                    let mut alias = prefix.last().cloned().unwrap_or_default();
                    if tokens.get(at) == Some(&"as") {
                        alias = tokens.get(at + 1).copied().unwrap_or_default().to_owned();
                        at += 2;
                    }
                    let path = outside(prefix.clone(), inline);
                    if name != "*" {
                        self.aliases.insert(alias, path.clone());
                    }
                    self.paths.push(path);
                    prefix.truncate(own);
                    return at;
                }
            }
        }
        at
    }

    /// Skips an item that an attribute restricts to tests, and returns its end.
    fn skip_item(&mut self, tokens: &[&str], mut at: usize) -> usize {
        while tokens.get(at) == Some(&"#") {
            at = closing(tokens, at + 1);
        }
        let item = tokens.get(at..).unwrap_or_default();
        let end = item.iter().position(|word| matches!(*word, ";" | "{" | "," | "mod"));
        if let Some(end) = end
            && item.get(end) == Some(&"mod")
            && item.get(end + 2) == Some(&";")
        {
            self.tests.extend(item.get(end + 1).map(|name| (*name).to_owned()));
        }
        let is_use = item.iter().take(5).any(|word| *word == "use");
        while let Some(word) = tokens.get(at) {
            match *word {
                "{" | "(" | "[" => {
                    let is_body = *word == "{" && !is_use;
                    at = closing(tokens, at);
                    if is_body {
                        return at;
                    }
                }
                ";" => return at + 1,
                "}" => return at,
                _ => at += 1,
            }
        }
        at
    }
}

/// `path` in an inline module `depth` deep, as its file's own module would write it.
fn outside(path: Vec<String>, depth: usize) -> Vec<String> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    path.into_iter().skip(supers.min(depth)).collect()
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The position after the bracket that closes the one at `at`.
fn closing(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (position, word) in tokens.iter().enumerate().skip(at) {
        match *word {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return position + 1;
        }
    }
    tokens.len()
}

/// The words and signs of the code, without comments and literals.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = literal(rest).or_else(|| comment(rest));
        if let Some(length) = length {
            rest = &rest[length..];
            continue;
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            _ if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        if !first.is_whitespace() {
            found.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    found
}

/// The length of the comment that `text` begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| text.find("*/").map_or(text.len(), |end| end + 2))
}

/// The length of the string or character that `text` begins with, or of a lifetime.
fn literal(text: &str) -> Option<usize> {
    let after = text.trim_start_matches(['b', 'c', 'r']);
    let start = text.len() - after.len();
    let is_raw = text[..start].contains('r');
    let hashes = after.len() - after.trim_start_matches('#').len();
    if start <= 2 && is_raw && after[hashes..].starts_with('"') {
        let end = format!("\"{}", &after[..hashes]);
        let body = start + hashes + 1;
        return Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()));
    }
    if start <= 1 && after.starts_with('"') {
        return Some(quoted(text, start, '"'));
    }
    if start > 1 || !after.starts_with('\'') {
        return None;
    }
    let mut inside = after.chars().skip(1);
    let is_char = inside.next() == Some('\\') || inside.next() == Some('\'');
    let name = after[1..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
    Some(if is_char { quoted(text, start, '\'') } else { start + 1 + name })
}

/// The end of the literal that a quote at `start` opens.
fn quoted(text: &str, start: usize, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip_while(|(at, _)| *at <= start) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of<'a>(sources: &[(&'a str, &'a str)]) -> Imports {
        Imports::of(sources.iter().copied())
    }

    #[test]
    fn planted_circle_is_found() {
        let imports = crate_of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use std::fmt;\npub struct A; fn f() -> crate::b::deep::B { todo!() }"),
            ("b.rs", "pub mod deep;"),
            ("b/deep.rs", "use crate::{a, c::{self, C as D}};\npub struct B(a::A, D);"),
            ("c.rs", "pub struct C;"),
        ]);
        assert_eq!(imports.circles(), [["a.rs", "b/deep.rs"]]);
    }

    #[test]
    fn circle_through_a_reexport_is_found_between_the_files() {
        let imports = crate_of(&[
            ("run/mod.rs", "mod table; mod line; pub use table::Table; pub(crate) use line::*;"),
            ("run/table.rs", "use super::line::Line;\npub struct Table(Line);"),
            ("run/line.rs", "pub struct Line; impl Line { fn of(_: super::Table) {} }"),
        ]);
        assert_eq!(imports.circles(), [["run/line.rs", "run/table.rs"]]);
    }

    #[test]
    fn submodule_tests_and_comments_make_no_circle() {
        let imports = crate_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod part; use part::P; //! [`crate::b::B`]\nconst T: &str = \"crate::b\";"),
            ("a/part.rs", "use super::T; pub struct P<'a>(&'a str, char); const C: char = '\"';"),
            ("a/tests.rs", "use crate::b::B;"),
            (
                "b.rs",
                "use crate::a;\n#[cfg(test)]\nuse crate::{b};\n\
                 #[cfg(test)]\nmod tests { use crate::b; }",
            ),
        ]);
        assert!(imports.circles().is_empty(), "{imports:?}");
        assert!(imports.upward(&["b", "a"]).is_empty(), "{imports:?}");
    }

    #[test]
    fn planted_upward_import_is_found() {
        let imports = crate_of(&[
            ("main.rs", "mod low; mod high; mod beside; fn main() { high::start() }"),
            ("high/mod.rs", "mod part; use crate::low::Low;"),
            ("high/part.rs", "pub struct Part;"),
            ("beside.rs", "use super::low;"),
            ("low.rs", "pub struct Low(crate::high::part::Part);"),
        ]);
        assert_eq!(imports.upward(&["high beside", "low"]), ["low.rs: imports high/part.rs"]);
        let level = imports.upward(&["high", "beside low"]);
        assert_eq!(level, ["beside.rs: imports low.rs", "low.rs: imports high/part.rs"]);
        assert_eq!(imports.upward(&["high", "low"])[0], "beside.rs: its module is in no layer");
    }

    #[test]
    fn inline_module_reaches_its_parents_siblings() {
        let imports = crate_of(&[
            ("a/mod.rs", "mod b; mod c;"),
            ("a/b.rs", "mod inner { use super::super::c::C; }"),
            ("a/c.rs", "fn f() { super::b::g() }"),
        ]);
        assert_eq!(imports.circles(), [["a/b.rs", "a/c.rs"]]);
    }
}
