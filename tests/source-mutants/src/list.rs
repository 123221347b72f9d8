//! Parses the output of `cargo mutants --list --json`.

use serde_json::Value;

/// The kind of change, as named by cargo-mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Genre {
    /// A body replaced by a value.
    FnValue,
    /// `==` by `!=`, and so on.
    BinaryOperator,
    /// `!` left out.
    UnaryOperator,
    /// A removed arm.
    MatchArm,
    /// A guard that is always true or always false.
    MatchArmGuard,
    /// A field taken from the base.
    StructField,
}

/// An entry of the list.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// 1, 2, …
    pub number: u32,
    /// The file, relative to the repository.
    pub file: String,
    /// `FILE:LINE:COLUMN: change`.
    pub name: String,
    /// See [`Genre`].
    pub genre: Genre,
    /// Line and column of its first character, from 1.
    pub start: (usize, usize),
    /// The replacement text.
    pub replacement: String,
}

/// Parses the list; an unreadable entry is an error.
pub fn read(text: &str) -> Result<Vec<Mutant>, String> {
    let list: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let entries = list.as_array().ok_or("the list is no array")?;
    let one = |(at, entry): (usize, &Value)| {
        mutant(at, entry).ok_or_else(|| format!("entry {at} of the list is none: {entry}"))
    };
    entries.iter().enumerate().map(one).collect()
}

fn mutant(at: usize, entry: &Value) -> Option<Mutant> {
    let text = |key: &str| entry.get(key)?.as_str().map(str::to_string);
    let start = |key: &str| Some(entry.pointer(&format!("/span/start/{key}"))?.as_u64()? as usize);
    let genre = match entry.get("genre")?.as_str()? {
        "FnValue" => Genre::FnValue,
        "BinaryOperator" => Genre::BinaryOperator,
        "UnaryOperator" => Genre::UnaryOperator,
        "MatchArm" => Genre::MatchArm,
        "MatchArmGuard" => Genre::MatchArmGuard,
        "StructField" => Genre::StructField,
        _ => return None,
    };
    Some(Mutant {
        number: u32::try_from(at).ok()?.checked_add(1)?,
        file: text("file")?,
        name: text("name")?,
        genre,
        start: (start("line")?, start("column")?),
        replacement: text("replacement")?,
    })
}

impl Mutant {
    /// The name without the position, which moves with each edit.
    pub fn title(&self) -> String {
        let what = self.name.split_once(": ").map_or(self.name.as_str(), |(_, what)| what);
        format!("{}: {what}", self.file)
    }
}
