//! The whole machine as bytes, and back: for an init that goes on as another image of its
//! program. Everything goes along but the generation, which the shell keeps, and the graph,
//! which follows from it. How the bytes are kept is not decided here.

use super::Machine;
#[cfg(feature = "sim")]
use super::mutant::Mutant;
use crate::generation::Generation;
use crate::graph::Graph;
use std::sync::Arc;

impl Machine {
    /// All of it but its generation. Empty: it can not be written, which is a bug.
    pub fn keep(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The machine of [`Machine::keep`]'s bytes, with the generation it had then. None: the bytes
    /// are damaged, or are about another generation.
    pub fn from_kept(bytes: &[u8], generation: Arc<Generation>) -> Option<Machine> {
        let (mut machine, rest) = postcard::take_from_bytes::<Machine>(bytes).ok()?;
        let places = generation.units.len().checked_add(machine.ghosts.len())?;
        if !rest.is_empty() || (machine.booted && machine.cells.len() != places) {
            return None;
        }
        // As it was resolved: what the overlay drops is masked too.
        let effective = Machine::effective(&machine.policy, &machine.wish);
        let (graph, _) = Graph::resolve(&generation, &effective);
        // What is the same for most units is there once.
        for (unit, cell) in generation.units.iter().zip(&mut machine.cells) {
            if let Some(run) = cell.phase.run_mut()
                && run.definition.live == unit.live
                && let Some(definition) = Arc::get_mut(&mut run.definition)
            {
                definition.live = unit.live.clone();
            }
        }
        machine.generation = generation;
        machine.graph = Arc::new(graph);
        Some(machine)
    }

    /// The same after a crash or an upgrade, as the simulator has it; None: it can not be had.
    #[cfg(feature = "sim")]
    pub fn resumed(&self) -> Option<Machine> {
        let mut bytes = self.clone();
        if self.planted(Mutant::ResumeForgetsFailures) {
            bytes.cells.iter_mut().for_each(|cell| cell.failures = 0);
        }
        let mut machine = Machine::from_kept(&bytes.keep(), self.generation.clone())?;
        machine.mutant = self.mutant;
        Some(machine)
    }
}
