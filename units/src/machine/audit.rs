//! A check of the machine on itself, for tests and the simulator: what was kept up
//! event by event is what would be derived from nothing. Not part of PID 1.

use super::Machine;
use crate::time::Time;

impl Machine {
    /// The first derived value that is not what it should be.
    pub fn audit(&self) -> Result<(), String> {
        let mut anew = self.clone();
        anew.ground(Time::ZERO);
        for ix in self.all() {
            let (is, should) = (self.cell(ix), anew.cell(ix));
            let name = self.name(ix);
            let pairs = [
                ("needed", u32::from(is.needed), u32::from(should.needed)),
                ("must stop", u32::from(is.phase.is_up() && is.must), u32::from(should.must)),
                ("closed gates", is.closed, should.closed),
                ("bad dependencies", is.bad, should.bad),
                ("dependents up", is.holding, should.holding),
                ("facets", u32::from(is.facets), u32::from(should.facets)),
                ("shown", self.shown(ix) as u32, anew.shown(ix) as u32),
            ];
            if let Some((what, is, should)) = pairs.into_iter().find(|(_, a, b)| a != b) {
                return Err(format!("{name}: {what} is {is}, should be {should}"));
            }
        }
        if self.may_stop != anew.may_stop
            || self.may_start != anew.may_start
            || self.may_start_freely != anew.may_start_freely
        {
            return Err("the lists of who may stop and start are not those of the cells".into());
        }
        let held = self.all().into_iter().filter(|ix| self.cell(*ix).phase.holds_slot()).count();
        if held != self.slots_used as usize {
            return Err(format!("{} slots are counted, {held} are held", self.slots_used));
        }
        if !self.queue.is_empty() || self.search_due {
            return Err("the step ended before its work was done".into());
        }
        Ok(())
    }
}
