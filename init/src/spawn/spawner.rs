//! Clones children, and keeps what they may still look at.

use super::command_builder::{Prepared, Work};
use super::exec_result::{Ground, Report};
use super::request::Said;
use crate::process_tracking::Place;
use crate::state::carried::KeptFd;
use crate::sys::child_setup::Frame;
use crate::sys::child_setup::Step;
use crate::sys::launch::Shared;
use crate::sys::spawn_slots::{SlotId, SpawnSlots, Stack};
use crate::sys::{Pid, inherit, launch, wait};
use groundstate_units::machine::event::ExecFailure;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// A child that was cloned. It is reaped by whoever runs the loop.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its pid: not to be used by anybody else before it is reaped.
    pub pid: Pid,
    /// Whether it became its program.
    pub report: Report,
}

/// How a child gets its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It shares PID 1's until it execs; where that is not safe, [`Way::Copied`].
    Shared,
    /// It has a copy.
    Copied,
}

/// What an init that goes on as another image keeps of it: the memory, and the children of
/// which no report tells any more.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    memory: RawFd,
    #[serde(default)]
    orphans: Vec<(SlotId, i32)>,
}

/// Starts processes. One in PID 1.
#[derive(Debug)]
pub(crate) struct Spawner {
    ground: Rc<RefCell<Ground>>,
    way: Way,
    /// /proc/sys/fs/suid_dumpable.
    dumpable: Option<File>,
}

impl Spawner {
    /// Maps the shared memory (ENOMEM) and finds out what the kernel can do.
    pub(crate) fn new() -> io::Result<Spawner> {
        let way = if kernel_can_share() { Way::Shared } else { Way::Copied };
        Spawner::with(way)
    }

    /// What is to be kept; None: it can not be (there are no memfds here).
    pub(crate) fn keep(&self) -> Option<Kept> {
        let ground = self.ground.borrow();
        let memory = ground.board.memory()?.as_raw_fd();
        let orphans = ground.orphans.iter().map(|(slot, pid, _)| (*slot, pid.as_raw())).collect();
        Some(Kept { memory, orphans })
    }

    /// The spawner of an earlier image, with the reports of its children.
    pub(crate) fn again<'a>(
        kept: Kept,
        reports: impl Iterator<Item = &'a mut Report>,
    ) -> io::Result<Spawner> {
        let reports: Vec<&mut Report> = reports.collect();
        let orphans: Vec<_> =
            kept.orphans.into_iter().map(|(slot, pid)| (slot, Pid::from_raw(pid), None)).collect();
        let used: Vec<SlotId> = orphans
            .iter()
            .map(|(slot, _, _)| *slot)
            .chain(reports.iter().map(|r| r.slot()))
            .collect();
        launch::look_for_clone3();
        let ground = Ground {
            board: SpawnSlots::again(inherit::take(kept.memory)?, &used)?,
            stacks: Vec::new(),
            orphans,
        };
        let ground = Rc::new(RefCell::new(ground));
        reports.into_iter().for_each(|report| report.attach(&ground));
        let dumpable = File::open("/proc/sys/fs/suid_dumpable").ok();
        dumpable.iter().for_each(|file| inherit::is_new(file.as_fd()));
        let way = if kernel_can_share() { Way::Shared } else { Way::Copied };
        Ok(Spawner { ground, way, dumpable })
    }

    /// The same with the way chosen.
    pub(crate) fn with(way: Way) -> io::Result<Spawner> {
        launch::look_for_clone3();
        let ground = Ground { board: SpawnSlots::new()?, stacks: Vec::new(), orphans: Vec::new() };
        let dumpable = File::open("/proc/sys/fs/suid_dumpable").ok();
        Ok(Spawner { ground: Rc::new(RefCell::new(ground)), way, dumpable })
    }

    /// The child that a crashed image has cloned for the start with this serial number. None: it has not come
    /// to the clone, or the clone failed.
    pub(crate) fn adopt(&mut self, serial: u64, unit: &str) -> Option<Child> {
        let (slot, pid) = self.ground.borrow_mut().board.find_child(serial)?;
        let pid = Pid::from_raw(pid);
        wait::made_before([pid.as_raw()]);
        let (ground, said) = (Some(self.ground.clone()), Said::of(unit));
        let (memory, pipe, decided, joins) = (None, None, false, false);
        Some(Child {
            pid,
            report: Report { ground, slot, pid, memory, pipe, said, decided, joins },
        })
    }

    /// The pid of the child that [`Spawner::adopt`] finds. No other child gets its slot from here on.
    pub(crate) fn reserve(&mut self, serial: u64) -> Option<i32> {
        self.ground.borrow_mut().board.find_child(serial).map(|(_, pid)| pid)
    }

    /// The stacks of a burst are not kept; one is, for the next child.
    pub(crate) fn give_back(&mut self) {
        let mut ground = self.ground.borrow_mut();
        ground.stacks.truncate(1);
        ground.stacks.shrink_to_fit();
    }

    /// Clones the child and returns at once. A failure here means that there is no child: a want
    /// of processes, memory or descriptors (stage `fork`), or the cgroup refuses it (stage
    /// `cgroup`). All else is in the report. `serial`: the number by which [`Spawner::adopt`] finds the child
    /// after a crash; 0: it is not to be found.
    pub(crate) fn spawn(&mut self, prepared: Prepared, serial: u64) -> Result<Child, ExecFailure> {
        let said = prepared.said.clone();
        let failed = |step, error: &io::Error| {
            said.failure((step, error.raw_os_error().unwrap_or(libc::EIO), 0))
        };
        let begin = |error: io::Error| failed(Step::Begin, &error);
        let share = self.may_share(&prepared);
        let (pipe, write) = match prepared.is_awaited || !share {
            true => nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
                .map(|(pipe, write)| (Some(File::from(pipe)), Some(write)))
                .map_err(|error| begin(error.into()))?,
            false => (None, None),
        };
        let descriptors = Descriptors::new(&prepared, write).map_err(begin)?;
        let Some(slot) = self.ground.borrow_mut().take(serial) else {
            return Err(begin(io::Error::from_raw_os_error(libc::EAGAIN)));
        };
        let placed = descriptors.frame.cgroup.is_some();
        let is_joined = |place: &Place| !place.bounded && !place.killed;
        let joins = matches!(prepared.work, Work::Settled(_))
            && prepared.place.as_ref().is_some_and(is_joined);
        match self.clone_child(slot, descriptors.frame.clone(), prepared.work, share) {
            Ok((pid, memory)) => {
                let ground = self.ground.clone();
                let report = Report {
                    ground: Some(ground),
                    slot,
                    pid,
                    memory,
                    pipe: pipe.map(KeptFd::from),
                    said,
                    decided: false,
                    joins,
                };
                Ok(Child { pid, report })
            }
            Err(error) => {
                self.ground.borrow_mut().board.give_back(slot);
                let step =
                    if placed && is_about_cgroup(&error) { Step::Cgroup } else { Step::Begin };
                Err(failed(step, &error))
            }
        }
    }

    fn clone_child(
        &self,
        slot: SlotId,
        frame: Frame,
        work: Work,
        share: bool,
    ) -> io::Result<(Pid, Option<Shared>)> {
        let mut ground = self.ground.borrow_mut();
        match work {
            Work::Forked(draft) => {
                let pid = launch::thinking(&ground.board, slot, &frame, || draft.finish())?;
                Ok((pid, None))
            }
            #[cfg(target_arch = "x86_64")]
            Work::Settled(orders) if share => {
                let stack = ground.stacks.pop().map_or_else(Stack::new, Ok)?;
                match launch::shared(&ground.board, slot, stack, frame, *orders) {
                    Ok((pid, memory)) => Ok((pid, Some(memory))),
                    Err((error, stack)) => {
                        ground.stacks.push(stack);
                        Err(error)
                    }
                }
            }
            Work::Settled(orders) => {
                Ok((launch::copied(&ground.board, slot, &frame, &orders)?, None))
            }
        }
    }

    /// The child may share PID 1's memory: it runs nothing but [`crate::sys::child`], nobody else
    /// is in its cgroup, it has PID 1's OOM score, and nobody gets at that memory through it. Who is killed for want of memory takes
    /// along all that share its own, but for the init of a machine: so not where that may be wanting. With `fs.suid_dumpable` set a
    /// child that has become another user could be traced, or made to dump core, by that user.
    fn may_share(&self, prepared: &Prepared) -> bool {
        let Work::Settled(orders) = &prepared.work else { return false };
        let changes = orders.uid.is_some() || orders.gid.is_some() || orders.groups.is_some();
        self.way == Way::Shared
            && launch::has_clone3()
            && is_alone(prepared)
            && prepared.score.is_none()
            && (!changes || self.is_never_dumpable())
    }

    fn is_never_dumpable(&self) -> bool {
        let mut text = [0; 1];
        let read = self.dumpable.as_ref().map(|file| file.read_at(&mut text, 0));
        matches!(read, Some(Ok(1))) && text == *b"0"
    }
}

/// Nothing but the child is where it is put, and no bound of memory can be its end.
fn is_alone(prepared: &Prepared) -> bool {
    prepared.place.as_ref().is_none_or(|place| place.fresh && !place.bounded)
}

/// From Linux 5.16 on a core dump of a process ends that process alone; before, it killed
/// everyone with the same memory: PID 1 too.
fn kernel_can_share() -> bool {
    let release = nix::sys::utsname::uname().ok();
    let release = release.as_ref().and_then(|name| name.release().to_str()).unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return false };
    cfg!(target_arch = "x86_64") && (major, minor) >= (5, 16)
}

/// What clone3 says about a cgroup (clone(2), CLONE_INTO_CGROUP).
fn is_about_cgroup(error: &io::Error) -> bool {
    let about = [libc::EBUSY, libc::EOPNOTSUPP, libc::EACCES, libc::ENODEV, libc::EBADF];
    error.raw_os_error().is_some_and(|errno| about.contains(&errno))
}

/// The numbers of a [`Frame`], and what keeps them open until the clone.
struct Descriptors {
    frame: Frame,
    _lifted: Vec<OwnedFd>,
    _report: Option<OwnedFd>,
}

impl Descriptors {
    /// Lifts what is in the way of the targets: the child can then put each in place in turn.
    fn new(prepared: &Prepared, report: Option<OwnedFd>) -> io::Result<Descriptors> {
        let mut lifted = Vec::new();
        let place = prepared.ready.as_ref().map(|(_, place)| RawFd::from(*place));
        let floor = Frame::floor(prepared.listen.len(), place);
        let mut lift = |fd: &OwnedFd| -> io::Result<RawFd> {
            if fd.as_raw_fd() >= floor {
                return Ok(fd.as_raw_fd());
            }
            lifted.push(inherit::duplicate(fd.as_fd(), floor)?);
            Ok(lifted.last().map_or(-1, |fd: &OwnedFd| fd.as_raw_fd()))
        };
        let [input, output, error] = &prepared.stdio;
        let frame = Frame {
            cgroup: prepared.place.as_ref().map(|place| place.directory.as_raw_fd()),
            // Who has init's score is not killed where memory runs out, and can do nothing but wait for more.
            goes_in: prepared
                .place
                .as_ref()
                .is_some_and(|place| place.killed || (place.bounded && prepared.score.is_some())),
            score: prepared.score.map(|score| score.to_string().into_bytes()),
            stdio: [lift(input)?, lift(output)?, lift(error)?],
            passed: prepared.listen.iter().map(|fd| lift(fd)).collect::<io::Result<_>>()?,
            report: report.as_ref().map(&mut lift).transpose()?,
            placed: match &prepared.ready {
                Some((fd, place)) => Some((lift(fd)?, RawFd::from(*place))),
                None => None,
            },
            take_terminal: prepared.take_terminal,
        };
        Ok(Descriptors { frame, _lifted: lifted, _report: report })
    }
}
