//! The operator's policy: masked, enabled and preferred units. `policy.yaml` has the persistent
//! policy, the runtime directory that of this boot.

use crate::text::fields::is_default;
use crate::text::name::Name;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::collections::{BTreeMap, BTreeSet};

/// The policy. Names in `mask`, `enable`, `disable` are targets, or units if there is no target of
/// that name.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Masked: never started, and provides no target.
    pub mask: BTreeSet<Name>,
    /// Units whose `wanted-by` and `required-by` count.
    pub enable: BTreeSet<Name>,
    /// Units whose `wanted-by` and `required-by` do not count.
    pub disable: BTreeSet<Name>,
    /// Target → preferred unit, if several provide it.
    pub prefer: BTreeMap<Name, Name>,
}
