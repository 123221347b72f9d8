//! Splits a group of moves that is too large for one transaction.
//! The first part has moves that can land without the rest. A unit lands before its followers. A
//! unit that clears a place lands before the unit that takes it. The engine decides the rest again
//! once that part has landed. Pure; [`crate::move_order`] makes the groups.

use crate::move_order::Move;
use crate::registry::{self, Epoch};
use crate::requirement::Requirement;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::unit_name::UnitName;
use std::collections::{BTreeMap, BTreeSet};

/// The part that lands first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The moves.
    pub moves: Vec<Move>,
    /// Their transaction.
    pub transaction: Transaction,
}

/// Returns the whole group if it fits, or `None` if no part of it fits.
pub fn cut(snapshot: &Snapshot, epoch: Epoch, group: &[Move], room: usize) -> Option<Piece> {
    // Each move takes at least one operation.
    if group.len() <= room
        && let Some(transaction) = registry::carry_out(snapshot, epoch, group)
        && transaction.fits_in(room)
    {
        return Some(Piece { moves: group.to_vec(), transaction });
    }
    let steps: BTreeMap<&UnitName, &Move> = group.iter().map(|step| (&step.unit, step)).collect();
    let waits_for = waits_for(snapshot, &steps);
    let mut taken: BTreeSet<&UnitName> = BTreeSet::new();
    let mut piece: Option<Piece> = None;
    for step in group {
        let more = with_all_before(&step.unit, &taken, &waits_for);
        if more.len() == taken.len() {
            continue;
        }
        let moves: Vec<Move> =
            more.iter().filter_map(|name| steps.get(name)).map(|step| (*step).clone()).collect();
        let fits = (moves.len() <= room)
            .then(|| registry::carry_out(snapshot, epoch, &moves))
            .flatten()
            .filter(|transaction| transaction.fits_in(room));
        match fits {
            Some(transaction) => {
                taken = more;
                piece = Some(Piece { moves, transaction });
            }
            None if piece.is_some() => break,
            None => {}
        }
    }
    piece
}

/// For each unit, the units of the group that must land before it or with it.
fn waits_for<'g>(
    snapshot: &Snapshot,
    steps: &BTreeMap<&'g UnitName, &'g Move>,
) -> BTreeMap<&'g UnitName, Vec<&'g UnitName>> {
    let asks = |name: &UnitName| snapshot.units.get(name).map(|kept| &*kept.record.asks);
    let mut waits_for: BTreeMap<&UnitName, Vec<&UnitName>> = BTreeMap::new();
    for (name, step) in steps {
        let Some(own) = asks(name) else { continue };
        let mut before: Vec<&UnitName> = own
            .peers
            .iter()
            .filter_map(|peer| {
                steps.get_key_value(&UnitName::new(peer).ok()?).map(|(peer, _)| *peer)
            })
            .collect();
        let leaves = |other: &&Move| other.from.is_some() && other.from == step.to;
        let clears = |other: &&Move| {
            other.unit != **name
                && (drives(own, &other.unit)
                    || asks(&other.unit).is_some_and(|theirs| drives(theirs, name)))
        };
        let cleared = steps.values().copied().filter(leaves).filter(clears);
        before.extend(cleared.map(|other| &other.unit));
        waits_for.insert(name, before);
    }
    waits_for
}

fn drives(asks: &Requirement, other: &UnitName) -> bool {
    asks.conflict_with(other.as_str()).is_some() || asks.drives_away(other.as_str())
}

/// Returns the units taken so far, `name`, and all units that it waits for.
fn with_all_before<'g>(
    name: &'g UnitName,
    taken: &BTreeSet<&'g UnitName>,
    waits_for: &BTreeMap<&'g UnitName, Vec<&'g UnitName>>,
) -> BTreeSet<&'g UnitName> {
    let mut all = taken.clone();
    let mut todo = vec![name];
    while let Some(name) = todo.pop() {
        if all.insert(name) {
            todo.extend(waits_for.get(name).into_iter().flatten());
        }
    }
    all
}
