//! Clones children and keeps the memory that they still use.

#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::base::procfs;
use crate::process_tracking::Place;
use crate::spawn::command_builder::{Prepared, SetupError, Work, broken};
use crate::state::carried;
use crate::state::carried::KeptFd;
use crate::sys::child_setup::{Frame, Step};
use crate::sys::launch::Shared;
use crate::sys::spawn_slots::{SlotId, SpawnSlots, Stack};
use crate::sys::{Pid, inherit, launch, signal, wait};
use groundstate_units::text::comparison::compare_versions;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// The memory of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Shared with PID 1 until the exec; if that is unsafe, as [`Way::Copied`].
    Shared,
    /// A copy.
    Copied,
}

impl Way {
    /// The fastest safe way. Since Linux 5.16 a core dump kills only the dumping process; before,
    /// it killed all processes with the same memory, including PID 1.
    fn of_kernel() -> Way {
        let name = nix::sys::utsname::uname().ok();
        let release = name.as_ref().and_then(|name| name.release().to_str()).unwrap_or_default();
        if compare_versions(release, "5.16").is_ge() { Way::Shared } else { Way::Copied }
    }
}

/// The part of the spawner that survives a re-exec: the memory, and children without a report.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    memory: RawFd,
    #[serde(default)]
    orphans: Vec<(SlotId, i32)>,
}

/// Starts processes. PID 1 has one.
#[derive(Debug)]
pub(crate) struct Spawner {
    child_memory: Rc<RefCell<ChildMemory>>,
    way: Way,
    /// /proc/sys/fs/suid_dumpable.
    dumpable: Option<File>,
}

impl Spawner {
    /// Maps the shared memory (may fail with ENOMEM) and checks the kernel's abilities.
    pub(crate) fn new() -> io::Result<Spawner> {
        Spawner::with(Way::of_kernel())
    }

    /// The part to keep over a re-exec. Returns `None` if the kernel has no memfds.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let child_memory = self.child_memory.borrow();
        let memory = child_memory.slots.memory()?.as_raw_fd();
        let orphans =
            child_memory.orphans.iter().map(|(slot, pid, _)| (*slot, pid.as_raw())).collect();
        Some(Kept { memory, orphans })
    }

    /// The spawner of an earlier image, with the reports of its children.
    pub(crate) fn restored<'a>(
        kept: Kept,
        reports: impl Iterator<Item = &'a mut Report>,
    ) -> io::Result<Spawner> {
        let reports: Vec<&mut Report> = reports.collect();
        let orphans: Vec<_> =
            kept.orphans.into_iter().map(|(slot, pid)| (slot, Pid::from_raw(pid), None)).collect();
        let used: Vec<SlotId> = orphans
            .iter()
            .map(|(slot, _, _)| *slot)
            .chain(reports.iter().map(|report| report.slot))
            .collect();
        let slots = SpawnSlots::restored(inherit::take(kept.memory)?, &used)?;
        let spawner = Spawner::on(slots, orphans, Way::of_kernel());
        let child_memory = &spawner.child_memory;
        reports.into_iter().for_each(|report| report.child_memory = Some(child_memory.clone()));
        spawner.dumpable.iter().for_each(|file| inherit::mark_as_new(file.as_fd()));
        Ok(spawner)
    }

    /// Creates a spawner with the given way.
    pub(crate) fn with(way: Way) -> io::Result<Spawner> {
        Ok(Spawner::on(SpawnSlots::new()?, Vec::new(), way))
    }

    fn on(slots: SpawnSlots, orphans: Vec<(SlotId, Pid, Option<Shared>)>, way: Way) -> Spawner {
        launch::look_for_clone3();
        let child_memory =
            Rc::new(RefCell::new(ChildMemory { slots, stacks: Vec::new(), orphans }));
        Spawner { child_memory, way, dumpable: File::open("/proc/sys/fs/suid_dumpable").ok() }
    }

    /// The child that a crashed image has cloned for the start with this serial number. Returns
    /// `None` if that clone did not happen or failed.
    pub(crate) fn adopt(&mut self, serial: u64) -> Option<Report> {
        #[cfg(debug_assertions)]
        if crash_test::makes("slot-ignored") {
            return None;
        }
        let (slot, pid) = self.child_memory.borrow_mut().slots.find_child(serial)?;
        let pid = Pid::from_raw(pid);
        wait::count_as_made([pid.as_raw()]);
        let child_memory = Some(self.child_memory.clone());
        Some(Report {
            child_memory,
            slot,
            pid,
            memory: None,
            pipe: None,
            decided: false,
            in_unlimited_cgroup: false,
        })
    }

    /// The pid of the child that [`Spawner::adopt`] will find. Reserves its slot.
    pub(crate) fn reserve(&mut self, serial: u64) -> Option<i32> {
        self.child_memory.borrow_mut().slots.find_child(serial).map(|(_, pid)| pid)
    }

    /// Frees the stacks kept after a burst, except one.
    pub(crate) fn give_back(&mut self) {
        let mut child_memory = self.child_memory.borrow_mut();
        child_memory.stacks.truncate(1);
        child_memory.stacks.shrink_to_fit();
    }

    /// Clones the child and returns at once. An error means that there is no child: no processes,
    /// memory or descriptors left (stage `fork`), or the cgroup refused it (stage `cgroup`). All
    /// other failures are in the report. After a crash, [`Spawner::adopt`] finds the child by
    /// `serial`, unless that is 0.
    pub(crate) fn spawn(&mut self, prepared: Prepared, serial: u64) -> Result<Report, SetupError> {
        let begin = |error: io::Error| broken(Step::Begin, &error, 0);
        let share = self.may_share(&prepared);
        let (pipe, write) = match prepared.is_awaited || !share {
            true => nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
                .map(|(pipe, write)| (Some(File::from(pipe)), Some(write)))
                .map_err(|error| begin(error.into()))?,
            false => (None, None),
        };
        let (frame, _open) = frame(&prepared, write).map_err(begin)?;
        let Some(slot) = self.child_memory.borrow_mut().take(serial) else {
            return Err(begin(io::Error::from_raw_os_error(libc::EAGAIN)));
        };
        let placed = frame.cgroup.is_some();
        let is_unlimited = |place: &Place| !place.bounded && !place.killed;
        let in_unlimited_cgroup = matches!(prepared.work, Work::Settled(_))
            && prepared.place.as_ref().is_some_and(is_unlimited);
        match self.clone_child(slot, frame, prepared.work, share) {
            Ok((pid, memory)) => {
                let (child_memory, pipe) =
                    (Some(self.child_memory.clone()), pipe.map(KeptFd::from));
                Ok(Report {
                    child_memory,
                    slot,
                    pid,
                    memory,
                    pipe,
                    decided: false,
                    in_unlimited_cgroup,
                })
            }
            Err(error) => {
                self.child_memory.borrow_mut().slots.give_back(slot);
                let step =
                    if placed && is_about_cgroup(&error) { Step::Cgroup } else { Step::Begin };
                Err(broken(step, &error, 0))
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
        let mut child_memory = self.child_memory.borrow_mut();
        match work {
            Work::Forked(draft) => {
                let pid = launch::preparing(&child_memory.slots, slot, &frame, || draft.finish())?;
                Ok((pid, None))
            }
            Work::Settled(orders) if share => {
                let stack = child_memory.stacks.pop().map_or_else(Stack::new, Ok)?;
                match launch::shared(&child_memory.slots, slot, stack, frame, *orders) {
                    Ok((pid, memory)) => Ok((pid, Some(memory))),
                    Err((error, stack)) => {
                        child_memory.stacks.push(stack);
                        Err(error)
                    }
                }
            }
            Work::Settled(orders) => {
                Ok((launch::copied(&child_memory.slots, slot, &frame, &orders)?, None))
            }
        }
    }

    /// Returns true if the child may share PID 1's memory. All of this must hold:
    ///
    /// - It runs only [`crate::sys::child`], alone in its cgroup and with PID 1's OOM score.
    /// - It has no memory limit: the OOM killer kills all processes that share a victim's memory,
    ///   except the init of a machine.
    /// - `fs.suid_dumpable` is 0 if the child changes its user. Otherwise that user could trace it
    ///   or make it dump core.
    fn may_share(&self, prepared: &Prepared) -> bool {
        let Work::Settled(orders) = &prepared.work else { return false };
        let changes = orders.uid.is_some() || orders.gid.is_some() || orders.groups.is_some();
        self.way == Way::Shared
            && launch::has_clone3()
            && prepared.place.as_ref().is_none_or(|place| place.fresh && !place.bounded)
            && prepared.score.is_none()
            && (!changes || self.is_never_dumpable())
    }

    fn is_never_dumpable(&self) -> bool {
        let mut text = [0; 1];
        let read = self.dumpable.as_ref().map(|file| file.read_at(&mut text, 0));
        matches!(read, Some(Ok(1))) && text == *b"0"
    }
}

/// Returns true if the error of clone3 is about the cgroup (clone(2), CLONE_INTO_CGROUP).
fn is_about_cgroup(error: &io::Error) -> bool {
    let about = [libc::EBUSY, libc::EOPNOTSUPP, libc::EACCES, libc::ENODEV, libc::EBADF];
    error.raw_os_error().is_some_and(|errno| about.contains(&errno))
}

/// The frame of a child, and the descriptors that must stay open until the clone. These are
/// duplicates of descriptors in the range of the targets, so that the child can install them in
/// order.
fn frame(prepared: &Prepared, report: Option<OwnedFd>) -> io::Result<(Frame, Vec<OwnedFd>)> {
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
        // A child with init's score is never an OOM victim and would wait for memory for ever.
        // It joins the cgroup only after it has its own score.
        joins_by_itself: prepared
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
    };
    lifted.extend(report);
    Ok((frame, lifted))
}

// Reports whether a cloned child executed its program. The child writes its progress to its spawn
// slot. When it leaves PID 1's memory, by exec or exit, the kernel clears a word there. A child
// with its own memory, or whose exec is awaited, also holds the write end of a pipe that the exec
// closes.

/// The memory shared with children.
#[derive(Debug)]
pub(crate) struct ChildMemory {
    pub(super) slots: SpawnSlots,
    pub(super) stacks: Vec<Stack>,
    /// Slots of dropped reports that their child could still use.
    pub(super) orphans: Vec<(SlotId, Pid, Option<Shared>)>,
}

/// Stacks kept for later children.
const STACKS: usize = 64;

impl ChildMemory {
    /// Releases the slot of a dropped report.
    pub(super) fn close(&mut self, slot: SlotId, pid: Pid, memory: Option<Shared>, decided: bool) {
        if decided && memory.as_ref().is_none_or(Shared::is_over) {
            self.give_back(slot, memory);
        } else {
            self.orphans.push((slot, pid, memory));
        }
    }

    fn give_back(&mut self, slot: SlotId, memory: Option<Shared>) {
        // The stack first: the slot tells whether its child has left it.
        let stack = memory.and_then(Shared::into_stack);
        self.slots.give_back(slot);
        self.stacks.extend(stack.filter(|_| self.stacks.len() < STACKS));
    }

    /// Takes a free slot, after releasing those whose child has exited.
    pub(super) fn take(&mut self, serial: u64) -> Option<SlotId> {
        for (slot, pid, memory) in std::mem::take(&mut self.orphans) {
            let over = match &memory {
                Some(memory) => memory.is_over(),
                None => signal::kill(pid, 0).is_err_and(|e| e.raw_os_error() == Some(libc::ESRCH)),
            };
            if over {
                self.give_back(slot, memory);
            } else {
                self.orphans.push((slot, pid, memory));
            }
        }
        self.slots.take(serial)
    }
}

/// The result of a start: success if the program was executed. After an error, the child has
/// exited, or is about to, with a meaningless status.
pub(crate) type ExecResult<E = SetupError> = Result<(), E>;

/// The exec report of one child, which the event loop reaps. Poll its pipe and call
/// [`Report::verdict`] when it is readable; without a pipe, call it from time to time. If the child
/// exits first, call [`Report::at_exit`]. Then drop the report.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// `None` in a report of an earlier image that is not attached yet.
    #[serde(skip)]
    pub(super) child_memory: Option<Rc<RefCell<ChildMemory>>>,
    /// The slot that the child writes to.
    pub(super) slot: SlotId,
    /// Reserved until the child is reaped.
    #[serde(with = "carried::pid")]
    pub(crate) pid: Pid,
    #[serde(skip)]
    pub(super) memory: Option<Shared>,
    pub(super) pipe: Option<KeptFd<File>>,
    #[serde(default)]
    pub(super) decided: bool,
    /// True if it was cloned into a cgroup without a memory limit.
    #[serde(skip)]
    pub(super) in_unlimited_cgroup: bool,
}

impl Report {
    /// The pipe for the poll.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// The result, if it is known yet. Never blocks.
    pub(crate) fn verdict(&mut self) -> Option<ExecResult> {
        let has_left = match (&self.pipe, &self.child_memory) {
            (Some(pipe), _) => matches!((&**pipe).read(&mut [0; 1]), Ok(0)),
            (None, Some(child_memory)) => child_memory.borrow().slots.has_left(self.slot),
            (None, None) => false,
        };
        let decided = has_left || (self.pipe.is_none() && self.has_left_another());
        decided.then(|| self.at_exit())
    }

    /// Returns true if a child of an earlier image has executed. For such a child the kernel does
    /// not clear the word. It does so only while another process uses the same memory (mm_release
    /// in kernel/fork.c), and that image is gone.
    fn has_left_another(&self) -> bool {
        self.memory.is_none() && procfs::has_executed(self.pid)
    }

    /// The result after the child's exit.
    pub(crate) fn at_exit(&mut self) -> ExecResult {
        self.decided = true;
        let Some(child_memory) = &self.child_memory else { return Ok(()) };
        let progress = child_memory.borrow().slots.progress(self.slot);
        match (progress.errno, progress.step) {
            (Some(errno), step) => Err((step, errno, progress.detail)),
            (None, Step::Execve) => Ok(()),
            // Killed before its exec.
            (None, step) => {
                // Without a memory limit the OOM killer has not killed it; the kernel did, because
                // it was cloned into its cgroup.
                if step == Step::Begin && self.in_unlimited_cgroup {
                    launch::stop_cloning_into_cgroups();
                }
                Err((step, libc::EINTR, progress.detail))
            }
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let memory = self.memory.take();
        if let Some(child_memory) = &self.child_memory {
            child_memory.borrow_mut().close(self.slot, self.pid, memory, self.decided);
        }
    }
}
