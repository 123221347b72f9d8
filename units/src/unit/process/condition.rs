//! Parses the conditions of a unit file. Init evaluates them at the start.

use crate::limit;
use crate::spec::value::{self, Mistake, mistake};
use crate::spec::{Condition, ConditionKind};
use crate::text::capability;
use crate::text::comparison::Comparison;
use crate::unit::semantics::Reader;

impl Reader<'_> {
    pub(super) fn conditions(&mut self) -> Vec<Condition> {
        let mut all = Vec::new();
        for (class, assert) in [("condition", false), ("assert", true)] {
            // Most units have no condition, and looking for dozens of keys takes time.
            if !self.keys().iter().any(|key| key.starts_with(class)) {
                continue;
            }
            for kind in ConditionKind::ALL {
                let key = format!("{class}-{}", kind.as_str());
                let read = |text: &str| condition(kind, text, assert);
                all.extend(self.words(&key, read).unwrap_or_default());
            }
        }
        all
    }
}

fn condition(kind: ConditionKind, text: &str, assert: bool) -> Result<Condition, Mistake> {
    let (any, rest) = match text.strip_prefix('|') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let (negated, argument) = match rest.strip_prefix('!') {
        Some(argument) => (true, argument.trim_start()),
        None => (false, rest),
    };
    let argument = argument.trim();
    if argument.is_empty() || argument.len() > limit::PATH || argument.contains('\0') {
        return mistake(
            format!("`{text}` is not a condition"),
            "give one value after the marks, of at most 4095 bytes",
        );
    }
    check(kind, argument)?;
    Ok(Condition { kind, argument: argument.to_string(), negated, any, assert })
}

/// Reports arguments that are wrong on every machine.
fn check(kind: ConditionKind, argument: &str) -> Result<(), Mistake> {
    match kind {
        ConditionKind::PathExists
        | ConditionKind::PathExistsGlob
        | ConditionKind::PathIsDirectory
        | ConditionKind::PathIsSymlink
        | ConditionKind::PathIsMountPoint
        | ConditionKind::PathWritable
        | ConditionKind::DirectoryNotEmpty
        | ConditionKind::FileNotEmpty
        | ConditionKind::FileExecutable => value::path(argument).map(drop),
        ConditionKind::AcPower | ConditionKind::FirstBoot => value::boolean(argument).map(drop),
        ConditionKind::Capability => match capability::number(argument) {
            Some(_) => Ok(()),
            None => mistake(format!("`{argument}` is not a capability"), "see capabilities(7)"),
        },
        ConditionKind::Cpus => match Comparison::parse(argument) {
            (Some(_), number) | (None, number) => value::count(number, 0, u32::MAX).map(drop),
        },
        ConditionKind::Memory => {
            let (_, size) = Comparison::parse(argument);
            value::size(size).map(drop)
        }
        ConditionKind::KernelCmdline
        | ConditionKind::Virtualization
        | ConditionKind::Security
        | ConditionKind::Host
        | ConditionKind::Architecture
        | ConditionKind::User
        | ConditionKind::Group
        | ConditionKind::KernelVersion
        | ConditionKind::Environment => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_marks_are_parsed_before_the_value() {
        let read = |text| {
            condition(ConditionKind::PathExists, text, false)
                .map(|c| (c.any, c.negated, c.argument))
        };
        let path = || "/x".to_string();
        assert_eq!(read("/x"), Ok((false, false, path())));
        assert_eq!(read("!/x"), Ok((false, true, path())));
        assert_eq!(read("|/x"), Ok((true, false, path())));
        assert_eq!(read("|! /x"), Ok((true, true, path())));
        for bad in ["", "!", "|", "!|/x", "x", "!!/x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn condition_argument_that_never_holds_is_refused() {
        for (kind, bad) in [
            (ConditionKind::AcPower, "maybe"),
            (ConditionKind::Capability, "CAP_NOTHING"),
            (ConditionKind::Cpus, ">= many"),
            (ConditionKind::Memory, "512Q"),
        ] {
            assert!(condition(kind, bad, true).is_err(), "{bad}");
        }
        for (kind, good) in [
            (ConditionKind::Cpus, ">=2"),
            (ConditionKind::Memory, "> 512M"),
            (ConditionKind::KernelVersion, ">= 5.10"),
        ] {
            assert!(condition(kind, good, true).is_ok(), "{good}");
        }
    }
}
