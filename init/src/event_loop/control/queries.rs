//! Answers that only read the state of init and of the machine.

use crate::control::{self, Control};
use crate::event_loop::Init;
use crate::fd;
use crate::service::run_table::Running;
use crate::state::event_in_progress;
use crate::sys::{Pid, listing};
use groundstate_units::control::answer::{
    Dropped, Failure, Paths, Plan, Pong, SCHEMA, Stats, Status, Whose,
};
use groundstate_units::control::view::{self, Facts};
use groundstate_units::graph::Provider;
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::UnitId;
use nix::unistd::{SysconfVar, sysconf};
use std::fs::File;
use std::os::fd::AsFd;

fn unknown(name: &Name) -> Failure {
    Failure::new(
        Failure::UNKNOWN_TARGET,
        format!("no target or unit is called {name}"),
        "`initctl status` lists them",
    )
}

impl Init {
    /// The unit that a target name or unit name means.
    pub(crate) fn unit_of(&self, name: &Name) -> Result<UnitId, Failure> {
        let generation = self.machine.generation();
        match self.machine.graph().meant(generation, name) {
            Provider::Unit(unit) => Ok(unit),
            Provider::Masked | Provider::NoUnit => {
                generation.find_unit(name.as_str()).ok_or_else(|| unknown(name))
            }
        }
    }

    /// Refuses a request that names no target.
    pub(crate) fn some_are_named(names: &[Name]) -> Result<(), Failure> {
        if names.is_empty() {
            return Err(Failure::new(Failure::USAGE, "no target is named", ""));
        }
        Ok(())
    }

    /// The names of the units that these names mean. Refuses the request if one is unknown.
    pub(crate) fn units_of(&self, names: &[Name]) -> Result<Vec<String>, Failure> {
        Self::some_are_named(names)?;
        let generation = self.machine.generation();
        let name_of = |unit| generation.unit(unit).map(|unit| unit.name.to_string());
        names.iter().map(|name| Ok(name_of(self.unit_of(name)?).unwrap_or_default())).collect()
    }

    pub(crate) fn pong(&self) -> Pong {
        let settings = &self.machine.generation().settings;
        Pong {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            pid: std::process::id(),
            boot: control::wall(self.basics.on_the_wall.at(self.basics.booted)).to_string(),
            mode: self.mode.as_str().to_string(),
            seq: self.history.last(),
            seq_mono_us: self.basics.booted.as_nanos() / 1000,
            paths: Paths {
                config: self.paths.config.0.clone(),
                policy: self.paths.policy.clone(),
                runtime_policy: self
                    .paths
                    .runtime_dir
                    .as_ref()
                    .map(|_| self.paths.runtime_policy()),
                runtime_dir: self.paths.runtime_dir.clone(),
                log_dir: self.paths.log_dir(settings),
                unit_dirs: self.paths.unit_dirs(settings),
            },
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        // The second number of /proc/self/statm counts the resident pages, proc_pid_statm(5).
        let pages = std::fs::read_to_string("/proc/self/statm")
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
            .unwrap_or(0);
        // A kernel for arm64 may have pages of 16 or 64 KiB.
        let page =
            sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|n| u64::try_from(n).ok());
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let mut fds = 0u64;
        let names = |entry: listing::Entry<'_>| fds += u64::from(!entry.name.starts_with(b"."));
        // Without /proc the count is 0.
        let _ = File::open("/proc/self/fd").and_then(|dir| listing::list(dir.as_fd(), names));
        // Init closes connections of disconnected clients at the end of this turn.
        let gone = count(self.control.as_deref().map_or(0, Control::closed_by_clients));
        Stats {
            schema: SCHEMA,
            crashes: self.basics.crashes,
            // Do not count the descriptor of the directory that is being read.
            fds: fds.saturating_sub(1).saturating_sub(gone),
            rss: pages.saturating_mul(page.unwrap_or(0)),
            wakeups: self.pending.wakeups,
            commits: self.images.commits,
            units: count(self.machine.generation().units.len()),
            runs: count(self.runs.len()),
            tracking: self.tracker.tracking().to_string(),
            dropped: self.dropped(),
        }
    }

    fn dropped(&self) -> Dropped {
        let control = self.control.as_ref();
        Dropped {
            callers_turned_away: control.map_or(0, |control| control.turned_away),
            callers_cut_off: control.map_or(0, |control| control.cut_off),
            messages_refused: self.basics.messages_refused,
            messages_unusable: self.notify.as_ref().map_or(0, |notify| notify.dropped),
            descriptors_closed: fd::all_dropped(),
            lines_not_said: self.voice.not_said,
            ..self.dropped.clone()
        }
    }

    pub(crate) fn show_plan(&self, wish: Event) -> Result<Plan, Failure> {
        self.show_plans(vec![wish])
    }

    /// The combined effect of these requests, applied one after the other.
    pub(crate) fn show_plans(&self, wishes: Vec<Event>) -> Result<Plan, Failure> {
        let mut brought = Vec::new();
        for wish in &wishes {
            if let Event::Reload { generation, .. } = wish {
                brought.push(generation.clone());
            }
        }
        let present = [self.machine.generation()];
        let generations: Vec<_> = present.into_iter().chain(&brought).map(AsRef::as_ref).collect();
        let plan = self.machine.plan_all(self.now, wishes).map_err(control::refused)?;
        Ok(view::plan(&plan, &generations))
    }

    pub(crate) fn show_status(&self, names: &[Name]) -> Result<Status, Failure> {
        let mut status = view::status(&self.machine, &self.view_facts(), names)?;
        event_in_progress::show(&self.suspects, &mut status);
        Ok(status)
    }

    /// The facts that the views need and the machine does not know.
    pub(crate) fn view_facts(&self) -> Facts {
        // Before its exec the process is a copy of init, so its pid is not shown.
        let main = |running: &Running| {
            let pid = running.main.as_ref()?.pid();
            let is_itself = !running.reports.iter().any(|started| started.pid == pid);
            u32::try_from(pid).ok().filter(|_| is_itself)
        };
        let mut facts = Facts {
            now: self.now,
            wall: self.basics.on_the_wall.at(self.now),
            booted: self.basics.booted,
            crashes: self.basics.crashes,
            resumed: self.basics.resumed,
            tracking: self.tracker.tracking().to_string(),
            main_pids: self.runs.iter().filter_map(|(run, r)| Some((run, main(r)?))).collect(),
            waits: std::collections::BTreeMap::new(),
        };
        facts.waits = self.trigger_words(&facts);
        facts
    }

    /// The run that this process belongs to.
    fn owner(&self, pid: i32) -> Option<RunId> {
        self.runs.run_of_process(pid).or_else(|| self.tracker.whose(Pid::from_raw(pid)))
    }

    pub(crate) fn whose(&self, pid: i32) -> Whose {
        let run = self.owner(pid);
        let running = run.and_then(|run| self.runs.get(run));
        let role = running.map(|running| {
            if running.main.as_ref().is_some_and(|main| main.pid() == pid) {
                "main"
            } else if running.line(pid).is_some() {
                "helper"
            } else {
                "child"
            }
        });
        let targets = running.into_iter().flat_map(|running| running.targets.iter());
        Whose {
            schema: 1,
            pid: u32::try_from(pid).unwrap_or(0),
            unit: running.map(|running| running.name.to_string()),
            targets: targets.map(Name::to_string).collect(),
            run: run.map(|run| run.0),
            role: role.map(str::to_string),
        }
    }
}
