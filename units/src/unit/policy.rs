//! The policy: what the operator masks, enables and prefers. Persistent in
//! `policy.yaml`, for this boot in the runtime directory; here only its meaning.

use crate::text::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// `policy.yaml`, as meant. Names in `mask`, `enable`, `disable` are targets; a
/// unit's name is taken where no target has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Never started; counts as nobody.
    pub mask: BTreeSet<Name>,
    /// `wanted-by`/`required-by` of these count.
    pub enable: BTreeSet<Name>,
    /// `wanted-by`/`required-by` of these do not count.
    pub disable: BTreeSet<Name>,
    /// target → unit, where several provide it.
    pub prefer: BTreeMap<Name, Name>,
}
