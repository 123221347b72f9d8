//! The lookout of timers, a process of its own. It reads the clocks, the time zones and the stamps
//! of persistent timers, and reports timers that are due to PID 1. A jump of the wall clock wakes
//! it (TFD_TIMER_CANCEL_ON_SET of timerfd_create(2)); without a timerfd it checks periodically.
//! [`Timer::due`](groundstate_units::trigger::Timer::due) computes when a timer is due.

use super::message::{Alarm, Link, Order, Report};
use crate::base::clock as clocks;
use crate::base::limit;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::calendar::ZoneName;
use groundstate_units::trigger::timer::{Due, micros};
use groundstate_units::trigger::zone::{self, Zone};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// How long a zone that was read stays valid.
const ZONE_AGE: Duration = Duration::from_secs(60);
/// The longest sleep without a due timer, in seconds: a month.
const FAR: i64 = 30 * 86_400;

/// Without a timerfd, a larger change of the clocks' offset counts as a jump of the wall clock, in
/// microseconds.
const JUMP: u64 = 500_000;

/// The offset of the wall clock from the monotonic clock, in microseconds.
fn clock_offset() -> i64 {
    micros(clocks::wall()).saturating_sub(micros(clocks::now().since(Time::ZERO)))
}

/// Runs the process.
pub(super) fn run(orders: &OwnedFd) -> u8 {
    let link = Link::begin(c"groundstate-clk", orders);
    u8::from(Clock::new(link).run().is_err())
}

struct Kept {
    alarm: Alarm,
    due: Due,
}

struct Clock<'o> {
    link: Link<'o>,
    /// `None` if the last attempt to create it failed.
    wall: Option<TimerFd>,
    /// The last offset of the wall clock from the monotonic clock, in microseconds.
    apart: i64,
    timers: BTreeMap<RunId, Kept>,
    zones: BTreeMap<ZoneName, (Time, Option<Zone>)>,
}

impl<'o> Clock<'o> {
    fn new(link: Link<'o>) -> Clock<'o> {
        let (timers, zones) = (BTreeMap::new(), BTreeMap::new());
        Clock { link, wall: None, apart: clock_offset(), timers, zones }
    }

    /// Runs until PID 1 closes its end, which is an error.
    fn run(mut self) -> io::Result<()> {
        loop {
            while let Some(order) = self.link.hear()? {
                self.obey(order)?;
            }
            self.fire()?;
            self.wait()?;
        }
    }

    fn obey(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Keep(run, mut alarm) => {
                if let Some(stamp) = alarm.stamp.clone().filter(|_| alarm.history.fired.is_none()) {
                    match read_stamp(&stamp) {
                        Ok(fired) => alarm.history.fired_wall = Some(fired),
                        // It has never fired, so only firings missed from now on are made up for.
                        Err(_) => self.stamp(&stamp, micros(clocks::wall())),
                    }
                }
                self.timers.insert(run, Kept { alarm: *alarm, due: Due::default() });
                self.renew(run)?;
            }
            Order::Past(run, history) => {
                let Some(kept) = self.timers.get_mut(&run) else { return Ok(()) };
                // PID 1 may have sent this before it handled the last firing, or it crashed while
                // it handled the firing. It ignores a firing that it knows.
                let before = std::mem::replace(&mut kept.alarm.history, history);
                let history = &mut kept.alarm.history;
                let unknown = before.fired.filter(|at| history.fired < Some(*at));
                history.fired = history.fired.max(before.fired);
                history.fired_wall = history.fired_wall.max(before.fired_wall);
                if let (Some(at), Some(wall)) = (unknown, before.fired_wall) {
                    self.link.say(&Report::Elapsed(run, at, wall))?;
                }
                self.renew(run)?;
            }
            Order::End(run) => drop(self.timers.remove(&run)),
            Order::Watch(_, _) | Order::Look(_, _) | Order::Rest(_) => {}
        }
        Ok(())
    }

    /// Computes again when a timer is due, and reports that.
    fn renew(&mut self, run: RunId) -> io::Result<()> {
        let (wall, now) = (micros(clocks::wall()), clocks::now());
        let Some(kept) = self.timers.get(&run) else { return Ok(()) };
        let names: Vec<ZoneName> =
            kept.alarm.timer.calendar.iter().map(|calendar| calendar.zone.clone()).collect();
        for name in names {
            if self.look_up(now, &name).is_none() {
                let file = file_of(&name);
                self.timers.remove(&run);
                return self.link.say(&Report::Broken(run, file, libc::ENOENT));
            }
        }
        let zones = &self.zones;
        let Some(kept) = self.timers.get_mut(&run) else { return Ok(()) };
        let Alarm { timer, history, unit, seed, .. } = &kept.alarm;
        let seed = if timer.jitter_fixed { machine_seed() } else { *seed };
        let seed = seed ^ groundstate_units::unit::assembly::hash(unit.as_str().as_bytes());
        let zone = |name: &ZoneName| zones.get(name).and_then(|(_, zone)| zone.as_ref());
        kept.due = timer.due(wall, history, zone, seed);
        let report = Report::Due(run, kept.due, history.fired_wall);
        self.link.say(&report)
    }

    fn look_up(&mut self, now: Time, name: &ZoneName) -> Option<&Zone> {
        let fresh = self.zones.get(name).is_some_and(|(read, _)| now.since(*read) < ZONE_AGE);
        if !fresh {
            let zone = match name {
                ZoneName::Utc => Some(Zone::utc()),
                // Without that file the local time is UTC (localtime(5)).
                ZoneName::Local => Some(read_zone(zone::LOCAL).unwrap_or_default()),
                ZoneName::Named(_) => read_zone(&file_of(name)).ok(),
            };
            self.zones.insert(name.clone(), (now, zone));
        }
        self.zones.get(name).and_then(|(_, zone)| zone.as_ref())
    }

    /// Reports all timers that are due.
    fn fire(&mut self) -> io::Result<()> {
        let (wall, now) = (micros(clocks::wall()), clocks::now());
        let is_due = |due: Due| {
            due.wall.is_some_and(|at| at <= wall) || due.mono.is_some_and(|at| at <= now)
        };
        let due: Vec<RunId> =
            self.timers.iter().filter(|(_, kept)| is_due(kept.due)).map(|(run, _)| *run).collect();
        for run in due {
            let Some(kept) = self.timers.get_mut(&run) else { continue };
            kept.alarm.history.fired = Some(now);
            kept.alarm.history.fired_wall = Some(wall);
            if let Some(stamp) = kept.alarm.stamp.clone() {
                self.stamp(&stamp, wall);
            }
            self.link.say(&Report::Elapsed(run, now, wall))?;
            self.renew(run)?;
        }
        Ok(())
    }

    /// Waits until a timer is due, an order arrives, or the clock jumps.
    fn wait(&mut self) -> io::Result<()> {
        let all = || self.timers.values().map(|kept| (kept.due, kept.alarm.timer.accuracy));
        let at_wall = |(due, most): (Due, Duration)| Some(due.wall?.saturating_add(micros(most)));
        let wall = all().filter_map(at_wall).min();
        let mono = all().filter_map(|(due, most)| Some(due.mono?.after(most))).min();
        let far = micros(clocks::wall()).saturating_add(FAR * 1_000_000);
        let at = wall.unwrap_or(far).clamp(1, far);
        self.set_timerfd(at);
        let now = clocks::now();
        let mut most = mono.map(|at| at.since(now));
        if self.wall.is_none() {
            let left = u64::try_from(at.saturating_sub(micros(clocks::wall()))).unwrap_or(0);
            let look = Duration::from_micros(left).min(limit::LOOK_AGAIN);
            most = Some(most.map_or(look, |most| most.min(look)));
        }
        let timeout = most.map_or(PollTimeout::NONE, |most| {
            // Rounded up, so that the process does not wake too early.
            let millis = most.as_nanos().div_ceil(1_000_000);
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.link.socket.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.wall.as_ref().map(|wall| PollFd::new(wall.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if self.has_jumped() {
            self.zones.clear();
            for run in self.timers.keys().copied().collect::<Vec<_>>() {
                self.renew(run)?;
            }
        }
        Ok(())
    }

    /// Sets the timerfd to that time of the wall clock, if the kernel has timerfds.
    fn set_timerfd(&mut self, at: i64) {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let fresh = || TimerFd::new(ClockId::CLOCK_REALTIME, flags).ok();
        let Some(wall) = self.wall.take().or_else(fresh) else { return };
        let at = || Expiration::OneShot(TimeSpec::microseconds(at));
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
        let told = flags | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        // If the kernel cannot report jumps, they are noticed when a timer is due.
        let is_set = wall.set(at(), told).or_else(|_| wall.set(at(), flags)).is_ok();
        self.wall = Some(wall).filter(|_| is_set);
    }

    /// Returns true if the wall clock was set since the last call.
    fn has_jumped(&mut self) -> bool {
        if let Some(wall) = &self.wall {
            return nix::unistd::read(wall, &mut [0; 8]) == Err(Errno::ECANCELED);
        }
        let before = std::mem::replace(&mut self.apart, clock_offset());
        self.apart.abs_diff(before) > JUMP
    }

    /// Writes a stamp. If the directory is not writable, the timer works but is not persistent.
    fn stamp(&self, path: &str, wall: i64) {
        let Some((dir, name)) = path.rsplit_once('/') else { return };
        let fresh = format!("{dir}/.{name}.new");
        let _ = std::fs::create_dir_all(dir)
            .and_then(|()| std::fs::write(&fresh, format!("{wall}\n")))
            .and_then(|()| std::fs::rename(&fresh, path));
    }
}

fn file_of(name: &ZoneName) -> String {
    match name {
        ZoneName::Local => zone::LOCAL.to_string(),
        ZoneName::Utc => "UTC".to_string(),
        ZoneName::Named(name) => format!("{}/{name}", zone::DIRECTORY),
    }
}

fn read_zone(path: &str) -> io::Result<Zone> {
    let mut bytes = Vec::new();
    let most = u64::try_from(zone::FILE).unwrap_or(u64::MAX);
    std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Zone::parse(&bytes).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn read_stamp(path: &str) -> io::Result<i64> {
    let mut text = String::new();
    std::fs::File::open(Path::new(path))?.take(64).read_to_string(&mut text)?;
    text.trim().parse().map_err(io::Error::other)
}

/// A number that is the same for every boot of this machine.
fn machine_seed() -> u64 {
    let id = std::fs::read("/etc/machine-id").unwrap_or_default();
    groundstate_units::unit::assembly::hash(&id)
}
