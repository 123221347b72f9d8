//! Checks of the fuzz target `policy` for any bytes as policy.yaml: they are a policy, and all
//! mistakes are reported within the file; a written policy is read back unchanged, also merged with
//! another. The base file comes before the first NUL, the one of the runtime directory after it.
//! After a first byte above 127 the bytes choose lines.

use super::composed::Composed;
use groundstate_units::unit::policy::Policy;
use groundstate_units::unit::policy_file::{read, render};

/// The merged policy, if nothing is wrong. Panics if a promise is broken.
pub fn policy(bytes: &[u8]) -> Option<Policy> {
    let composed = bytes.split_first().filter(|(first, _)| **first > 127);
    let composed = composed.map(|(_, rest)| composed_of(rest));
    let bytes = composed.as_deref().unwrap_or(bytes);
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (base, base_is_fine) = one(bytes.get(..at)?);
    let (over, over_is_fine) = one(bytes.get(at + 1..).unwrap_or_default());
    let both = base.overlaid(&over);
    // A faulty file may enable and disable the same name, and the merge may keep both.
    if base_is_fine && over_is_fine {
        assert!(both.enable.is_disjoint(&both.disable), "{both:?}");
        assert_eq!(back(&both), both);
    }
    (base_is_fine && over_is_fine && both != Policy::default()).then_some(both)
}

fn one(text: &[u8]) -> (Policy, bool) {
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    let (policy, found) = read(&"policy.yaml".into(), text);
    for said in &found {
        assert!(said.at.line as usize <= lines, "{said}");
    }
    if found.is_empty() {
        assert_eq!(back(&policy), policy);
    }
    (policy, found.is_empty())
}

fn back(policy: &Policy) -> Policy {
    let written = render(policy);
    let (back, found) = read(&"policy.yaml".into(), written.as_bytes());
    assert!(found.is_empty(), "{found:?}\n{written}");
    back
}

/// One in four has values that may be wrong.
fn composed_of(bytes: &[u8]) -> Vec<u8> {
    let mut from = Composed::of(bytes);
    let is_odd = from.one_in(4);
    let mut text = String::new();
    for end in ["\0", ""] {
        for key in ["mask", "enable", "disable", "prefer"] {
            let value = match (from.byte() % 32, key) {
                (31, _) if is_odd => from.text(12),
                (28..31, _) if is_odd => {
                    from.pick(&["[a]", "{a: b}", "a", "[", "'a/b'", "~"]).to_string()
                }
                (16..32, _) => continue,
                (_, "prefer") => format!("{{a: {}, '1': c}}", from.pick(&["b", "x.y", "'on'"])),
                (_, "mask") => format!("[{}, b]", from.pick(&["a", "'null'", "c@d", "'1'"])),
                (_, "enable") => from.pick(&["a, b", "c", "[d]"]).to_string(),
                (_, _) => from.pick(&["e, f", "g", "[h, 'yes']", "c, g"]).to_string(),
            };
            text.push_str(&format!("{key}: {value}\n"));
        }
        text.push_str(end);
    }
    text.into_bytes()
}
