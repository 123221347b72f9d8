//! Passes descriptors that services store to the fd store, and tells it which units are over.

use crate::event_loop::Init;
use crate::fd;
use crate::fd::Foreign;
use crate::notify::Statement;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Keep;
use groundstate_units::text::name::Name;

/// The name of descriptors stored without a name.
const UNNAMED: &str = "stored";

impl Init {
    /// Applies the fd store statements of a datagram. Descriptors that are not stored are closed.
    pub(crate) fn keep_descriptors(
        &mut self,
        run: RunId,
        said: &[Statement],
        passed: Vec<Foreign>,
    ) {
        let (stores, removes) =
            (said.contains(&Statement::Store), said.contains(&Statement::StoreRemove));
        let Some(unit) = self.runs.get(run).map(|running| running.name.clone()) else { return };
        let named = said.iter().find_map(|statement| {
            let Statement::StoreName(name) = statement else { return None };
            (!name.is_empty()).then_some(name.as_str())
        });
        let name = named.unwrap_or(UNNAMED);
        if removes {
            self.runs.store.remove(&unit, name);
        } else if stores && !passed.is_empty() {
            let spec = self.runs.get(run).and_then(|running| running.spec());
            let asked = spec.and_then(|spec| spec.particular.as_ref().map(|all| all.fd_store));
            let Init { runs, poll, tokens, .. } = self;
            let is_watched = !said.contains(&Statement::StoreUnwatched);
            let watch = is_watched.then_some((poll.registry(), tokens));
            return runs.store.keep(&unit, run, asked.unwrap_or_default(), name, passed, watch);
        }
        fd::dropped(passed.len());
    }

    /// Handles a readiness event of a stored descriptor.
    pub(crate) fn stored_descriptor_ready(&mut self, token: usize) {
        if self.runs.store.is_watched_by(token) {
            self.runs.store.close_ended();
        }
    }

    /// At the end of a turn, closes the descriptors whose unit is over.
    pub(crate) fn tidy_store(&mut self) {
        let (machine, runs) = (&self.machine, &self.runs);
        let is_over = |unit: &Name, keep: Keep, of: RunId| {
            let Some(id) = machine.generation().find_unit(unit.as_str()) else {
                // A unit that left the generation may return while its run is still up.
                let run = runs.latest(unit);
                return match keep {
                    Keep::No => run != Some(of),
                    Keep::Yes | Keep::Restart => run.is_none(),
                };
            };
            let run = machine.run(id);
            match keep {
                Keep::Yes => false,
                Keep::No => run != Some(of),
                Keep::Restart => {
                    run.is_none() && (!machine.is_needed(id) || machine.has_failed_for_good(id))
                }
            }
        };
        let over = self.runs.store.units_where(is_over);
        for unit in over {
            self.runs.store.forget(&unit);
        }
    }
}
