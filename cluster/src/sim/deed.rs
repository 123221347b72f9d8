//! Executes deeds: operators' requests ([`crate::sim::client`]) and faults, each of which ends at a
//! set time.

use crate::fleetd::daemon;
use crate::fleetd::lead::lease;
use crate::fleetd::unit_runner::Stops;
use crate::sim::client::{About, file};
use crate::sim::invariant::AFTER_A_LEASE;
use crate::sim::plan::{Deed, UNITS};
use crate::sim::watch::WatchFault;
use crate::sim::world::{Event, Fleetd, Machine, NEVER, Shared, World, lock};
use crate::unit_name::UnitName;
use std::time::Duration;

/// Maximum time for a machine to leave.
const FAREWELL: Duration = Duration::from_secs(3);

impl World {
    /// Executes a deed; `number` distinguishes two of one kind.
    pub fn act(&mut self, world: &Shared, number: usize) {
        let Some((_, deed)) = self.plan.deeds.get(number).cloned() else { return };
        self.say(|| format!("{deed:?}"));
        match deed {
            Deed::Put { unit, asks, desired, at } => {
                let file = file(&asks, number % 3);
                self.ask(world, "PUT", unit, desired, Some((file, None)), at);
            }
            Deed::PutSigned { unit, asks, by, serial, at } => {
                let file = file(&asks, number % 3);
                let Ok(name) = UnitName::new(UNITS[unit]) else { return };
                let signature = by.sign(&name, &file, serial);
                self.note_signature(by, &name, file.text(), signature.as_ref());
                self.ask(world, "PUT", unit, "launched", Some((file, signature)), at);
            }
            Deed::Wish { unit, desired, at } => self.ask(world, "PUT", unit, desired, None, at),
            Deed::Destroy { unit, at } => self.ask(world, "DELETE", unit, "", None, at),
            Deed::Get { unit, at } => self.ask(world, "GET", unit, "", None, at),
            Deed::Metadata { of, value, at } => self.set_metadata(world, of, value, at),
            Deed::Drain { of, on, at } => {
                let method = if on { "PUT" } else { "DELETE" };
                let path = format!("/fleet/v1/drain/{}", self.machines[of].id);
                self.coverage.count("machine drained");
                self.send_request(world, at, method, (path, String::new()), About::Drain);
            }
            Deed::Leave { machine, time } => self.leave(world, machine, time),
            fault => self.harm(fault),
        }
    }

    fn harm(&mut self, deed: Deed) {
        let now = self.now;
        match deed {
            Deed::Cut { machine, requests, answers, time } => {
                let kind = match (requests, answers) {
                    (true, true) => "machine cut off",
                    (true, false) => "requests lost, one way",
                    _ => "answers lost, one way",
                };
                self.coverage.count(kind);
                let one = &mut self.machines[machine];
                if requests {
                    one.requests_lost_until = one.requests_lost_until.max(now + time);
                }
                if answers {
                    one.answers_lost_until = one.answers_lost_until.max(now + time);
                }
            }
            Deed::Pause { machine, time } => self.pause(machine, time),
            Deed::CrashFleetd { machine, time } => {
                self.coverage.count("fleetd crashed");
                self.kill(machine, time);
            }
            Deed::CrashMachine { machine, time } => {
                self.coverage.count("machine crashed");
                self.power_off(machine, time);
            }
            Deed::Clone { of, time } => self.clone_machine(of, time),
            Deed::QuorumLoss { time } => {
                self.coverage.count("quorum lost");
                let back = self.etcd.no_quorum_until.max(now + time);
                self.etcd.no_quorum_until = back;
                self.plan_in(time, Event::QuorumBack);
                // If an operator has just revoked the machine's lease, the machine learns of that
                // after the outage.
                let heard = self.plan.ttl * 2;
                let lately =
                    |one: &&mut Machine| one.ended > Duration::ZERO && one.ended + heard > now;
                for one in self.machines.iter_mut().filter(lately) {
                    one.ended = one.ended.max(back);
                }
            }
            Deed::Hide { machine, what, time } => self.hide(machine, what, time),
            Deed::Garble { kind, which, time } => self.garble(kind, which, time),
            other => self.harm_etcd(other),
        }
    }

    fn harm_etcd(&mut self, deed: Deed) {
        let now = self.now;
        match deed {
            Deed::BreakWatches { machine } => {
                self.trouble(machine, now);
                if self.each_watch(machine, WatchFault::Broken) > 0 {
                    self.coverage.count("watch broken");
                }
            }
            Deed::SilenceWatches { machine } => {
                // The cache notices by a full reading, at most twice a minute.
                self.trouble(machine, now + Duration::from_secs(36));
                if self.each_watch(machine, WatchFault::Silent) > 0 {
                    self.coverage.count("watch silent");
                }
            }
            Deed::RepeatWatches { machine } => {
                let back = i64::try_from(self.chance.between(1, 20)).unwrap_or(1);
                let count = i64::try_from(self.chance.between(1, 20)).unwrap_or(1);
                self.each_watch(machine, WatchFault::Again(back, count.min(back)));
            }
            Deed::Compact => {
                self.coverage.count("compacted");
                self.etcd.store.compact();
            }
            Deed::InitAway { machine, time } => {
                self.coverage.count("init away");
                self.machines[machine].away_until = now + time;
            }
            Deed::EndLease { machine } => {
                let id = self.machines[machine].id.clone();
                if let Some(lease) = self.truth.machines.get(&id).map(|kept| kept.lease) {
                    self.coverage.count("lease revoked by operator");
                    let twins = self.machines.iter_mut().filter(|one| one.id == id);
                    twins.for_each(|one| one.ended = now);
                    self.end_lease(lease);
                }
            }
            Deed::Foreign { machine, time } => {
                // A fleetd that has just started accepts any cluster: nothing is guaranteed for it.
                let knows = |one: &Fleetd| one.daemon.cache.snapshot().cluster.is_some();
                if !self.machines[machine].fleetd.as_ref().is_some_and(knows) {
                    return;
                }
                self.coverage.count("another etcd answered");
                self.machines[machine].foreign_until = now + time;
                self.each_watch(machine, WatchFault::Broken);
                self.plan_in(time, Event::Rouse(machine));
            }
            _ => {}
        }
    }

    fn pause(&mut self, machine: Option<usize>, time: Duration) {
        let leads = self.leader();
        let Some(machine) = machine.or(leads) else { return };
        self.coverage.count("machine paused");
        if time > self.plan.ttl {
            self.coverage.count("machine paused beyond its lease");
        }
        if leads == Some(machine) && time > lease(self.plan.interval, self.plan.ttl) {
            self.coverage.count("leader paused beyond its lease");
        }
        let until = self.now + time;
        let one = &mut self.machines[machine];
        if self.now >= one.paused_until {
            one.paused_since = self.now;
        }
        one.paused_until = until.max(one.paused_until);
        if one.paused_until.saturating_sub(one.paused_since) > self.plan.ttl / 4 {
            one.slept_until = one.paused_until;
        }
        self.plan_at(until, Event::Rouse(machine));
        self.plan_at(until + AFTER_A_LEASE, Event::Fenced);
    }

    /// Kills fleetd.
    pub fn kill(&mut self, machine: usize, time: Duration) {
        self.note_heard(machine);
        self.machines[machine].down_until = self.now + time;
        self.machines[machine].leaving = false;
        self.ended.push(machine);
        self.plan_in(time, Event::Rouse(machine));
    }

    fn power_off(&mut self, machine: usize, time: Duration) {
        self.kill(machine, time);
        let now = self.now;
        let one = &mut self.machines[machine];
        one.off_until = now + time;
        one.paused_until = now.min(one.paused_until);
        one.boot += 1;
        one.init = Default::default();
    }

    /// Leaves the cluster as fleetd does on SIGTERM: stops the units, ends all tasks, and revokes
    /// the leases.
    fn leave(&mut self, world: &Shared, machine: usize, time: Duration) {
        let Some(fleetd) = &self.machines[machine].fleetd else { return };
        self.coverage.count("machine left");
        let (ask, shared) = (fleetd.daemon.leave.clone(), world.clone());
        self.machines[machine].leaving = true;
        self.book.ran_when_led.retain(|ran| ran.machine != machine);
        let task = async move {
            let down = daemon::stop_units(ask, Stops::All).await;
            lock(&shared).has_stopped(machine, down);
        };
        self.starting.push((machine, Box::pin(task)));
        let at = self.now + time + FAREWELL * 2;
        self.machines[machine].down_until = at;
        self.plan_at(at, Event::Rouse(machine));
    }

    fn has_stopped(&mut self, machine: usize, down: bool) {
        let Some(fleetd) = &self.machines[machine].fleetd else { return };
        let (leases, cache) = (fleetd.daemon.leases(down).collect(), fleetd.daemon.cache.clone());
        self.ended.push(machine);
        let task = async move { daemon::revoke_leases(&cache, leases, FAREWELL).await };
        self.starting.push((machine, Box::pin(task)));
    }

    fn clone_machine(&mut self, of: usize, time: Duration) {
        self.coverage.count("clone of a machine");
        let number = self.machines.len();
        let twin = Machine::new(self.machines[of].id.clone(), number, 0);
        let until = self.now;
        // A copy with the same disk, or only with the same id.
        let disk = match number.is_multiple_of(2) {
            true => self.machines[of].disk.clone(),
            false => twin.disk.clone(),
        };
        self.machines.push(Machine { is_clone: true, down_until: until, disk, ..twin });
        self.plan_in(Duration::ZERO, Event::Rouse(number));
        let end = self.now + time;
        self.machines[number].troubled = end + Duration::from_secs(60);
        self.plan_at(end, Event::Gone(number));
        let id = self.machines[of].id.clone();
        let twins = (0..number).filter(|at| self.machines[*at].id == id).collect::<Vec<_>>();
        twins.into_iter().for_each(|at| self.trouble(at, end));
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        let now = self.now;
        self.say(|| "all faults end".to_string());
        self.healed = now;
        for number in 0..self.machines.len() {
            let one = &mut self.machines[number];
            one.paused_until = now.min(one.paused_until);
            one.slept_until = now.min(one.slept_until);
            one.requests_lost_until = now.min(one.requests_lost_until);
            one.answers_lost_until = now.min(one.answers_lost_until);
            one.away_until = now.min(one.away_until);
            one.ended = now.min(one.ended);
            if one.foreign_until > now {
                one.foreign_until = now;
                self.each_watch(number, WatchFault::Broken);
            }
            self.hide_no_more(number);
            let one = &mut self.machines[number];
            if one.is_clone {
                self.power_off(number, NEVER - now);
            } else if one.fleetd.is_none() {
                one.off_until = now.min(one.off_until);
                one.down_until = now.min(one.down_until);
                self.plan_in(Duration::ZERO, Event::Rouse(number));
            }
        }
        self.ungarble_all();
        if self.etcd.no_quorum_until > now {
            self.etcd.no_quorum_until = now;
            self.quorum_back();
        }
    }

    /// Switches a twin off for good.
    pub fn gone(&mut self, machine: usize) {
        if !self.book.last_registered.contains_key(&machine) {
            self.coverage.count("clone refused");
        }
        let rest = NEVER - self.now;
        self.power_off(machine, rest);
    }
}
