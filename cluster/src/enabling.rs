//! Checks whether the `[Install]` section of a unit can be applied, as `systemctl enable` does.
//! fleet refused to load a unit that could not be enabled. The importer in init applies the
//! section.

use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use groundstate_units::import::systemd::{self, Suffix};
use groundstate_units::text::name::Name;

/// Options that name the units which pull this one in.
const PULLED_IN_BY: [&str; 3] = ["WantedBy", "RequiredBy", "UpheldBy"];

/// Returns why the unit cannot be enabled, or `None` if it can or does not ask for it.
pub fn refusal(name: &UnitName, file: &UnitFile) -> Option<String> {
    let own = Suffix::of(name.as_str());
    let is_alias = |word: &str| suffix(word) == own && Name::new(word).is_ok();
    let pulls = |word: &str| {
        !matches!(suffix(word), None | Some(Suffix::Device)) && Name::new(word).is_ok()
    };
    let pulled = PULLED_IN_BY.into_iter().find_map(|option| {
        let words = words(file, option).find(|word| !pulls(word))?;
        Some(format!("{option}={words} does not name a unit that can pull it in"))
    });
    let alias = words(file, "Alias").find(|word| !is_alias(word));
    let alias = alias.map(|word| format!("Alias={word} is not a unit name of the same type"));
    pulled.or(alias).map(|why| format!("it cannot be enabled: in [Install] {why}"))
}

/// Skips words with specifiers: only init can expand them.
fn words<'f>(file: &'f UnitFile, option: &'f str) -> impl Iterator<Item = &'f str> {
    let values = file.values("Install", option);
    values.flat_map(str::split_whitespace).filter(|word| !word.contains('%'))
}

fn suffix(word: &str) -> Option<Suffix> {
    systemd::UnitName::of(word).suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_section_that_cannot_be_applied_is_refused_with_its_word() {
        let refusal_of = |lines: &str| {
            let file = UnitFile::parse(&format!("[Service]\nExecStart=/a\n[Install]\n{lines}\n"));
            refusal(&UnitName::new("a.service").unwrap(), &file.unwrap())
        };
        for fine in [
            "",
            "WantedBy=multi-user.target",
            "WantedBy=b.service c@1.service\nRequiredBy=d.timer",
            "Alias=b.service",
            "WantedBy=b@%i.service\nAlias=%p-b.service",
            "Also=c.socket\nDefaultInstance=1",
        ] {
            assert_eq!(refusal_of(fine), None, "{fine}");
        }
        for (bad, word) in [
            ("WantedBy=multi-user", "WantedBy=multi-user"),
            ("WantedBy=b.service dev-sda.device", "WantedBy=dev-sda.device"),
            ("RequiredBy=../b.service", "RequiredBy=../b.service"),
            ("Alias=b.socket", "Alias=b.socket"),
            ("Alias=b", "Alias=b"),
        ] {
            assert!(
                refusal_of(bad).is_some_and(|why| why.contains(word)),
                "{bad}: {:?}",
                refusal_of(bad)
            );
        }
    }
}
