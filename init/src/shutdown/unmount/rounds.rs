//! Runs tasks that may block in the kernel for ever, each in a child of its own. It tracks the
//! running children and whether anything moves. A blocked task is not started twice and delays no
//! other; its child is reaped whenever it exits.
//!
//! The tasks are defined in [`super`].

use crate::base::{clock, limit};
use crate::sys::{Pid, process, signal, wait};
use groundstate_units::spec::Exit;
use groundstate_units::text::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const KILL: u8 = 9;

/// The task of one child.
pub(super) struct Task {
    /// The id of its object: two tasks with one id never run at the same time.
    pub(super) id: String,
    /// The name of its object in messages.
    pub(super) of: String,
    /// Returns true if it has released something, so that other tasks may now succeed.
    pub(super) work: Box<dyn FnOnce() -> bool>,
}

/// A running child.
struct Child {
    pid: Pid,
    since: Time,
    of: String,
}

/// Indicators of progress.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Progress if it is lower than ever before.
    pub(super) unwritten: u64,
    /// Progress if it differs from the previous value.
    pub(super) done: u64,
}

/// Time limits.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// A running child counts against the parallel limit for this long …
    pub(super) least: Duration,
    /// … and is waited for before the next step for this long.
    pub(super) own: Duration,
    /// The whole work ends when nothing has moved for this long …
    pub(super) still: Duration,
    /// … or after this total time.
    pub(super) longest: Duration,
}

impl Patience {
    /// The limits of a machine.
    pub(super) const USUAL: Patience = Patience {
        least: limit::UNMOUNT_LEAST,
        own: limit::UNMOUNT_ONE,
        still: limit::FINAL_STILL,
        longest: limit::UNMOUNT_LONGEST,
    };
}

/// The whole work.
pub(super) struct Rounds {
    patience: Patience,
    begun: Time,
    under_way: BTreeMap<String, Child>,
    /// Tasks started since something was last released: a repeat would fail again.
    tried: BTreeSet<String>,
    read: Box<dyn Fn() -> Reading>,
    reading: Reading,
    moved: Time,
}

impl Rounds {
    /// Starts the clock.
    pub(super) fn begin(patience: Patience, read: impl Fn() -> Reading + 'static) -> Rounds {
        let (reading, now) = (read(), clock::now());
        Rounds {
            patience,
            begun: now,
            under_way: BTreeMap::new(),
            tried: BTreeSet::new(),
            read: Box::new(read),
            reading,
            moved: now,
        }
    }

    /// Starts all tasks that are not running and reaps finished ones. Asks for tasks again whenever
    /// one has released something, as long as `waits` returns true.
    pub(super) fn go_on(&mut self, tasks: impl Fn() -> Vec<Task>, waits: impl Fn(&Rounds) -> bool) {
        self.tried.clear();
        let mut is_due = true;
        loop {
            is_due |= self.collect();
            // Not for each of many small changes.
            if is_due && self.room() > limit::UNMOUNT_AT_ONCE / 2 {
                is_due = self.begin_some(tasks());
            }
            if !(waits(self) || (is_due && !self.is_over())) {
                return;
            }
            super::pause();
        }
    }

    /// Starts tasks. Returns true if there was no room for all.
    fn begin_some(&mut self, mut tasks: Vec<Task>) -> bool {
        tasks.retain(|task| !self.tried.contains(&task.id) && !self.is_under_way(&task.id));
        let room = self.room();
        let is_too_many = tasks.len() > room;
        for Task { id, of, work } in tasks.into_iter().take(room) {
            self.tried.insert(id.clone());
            if let Ok(pid) = process::fork(&[], || u8::from(!work())) {
                self.under_way.insert(id, Child { pid, since: clock::now(), of });
            }
        }
        is_too_many
    }

    /// Reaps children. Returns true if one has exited.
    fn collect(&mut self) -> bool {
        let (before, now) = (self.under_way.len(), clock::now());
        let mut has_gone = false;
        self.under_way.retain(|_, child| match wait::reap(child.pid) {
            Ok(None) => true,
            Ok(Some(ended)) => {
                has_gone |= ended.exit == Exit::Code(0);
                false
            }
            Err(_) => false,
        });
        if has_gone {
            self.tried.clear();
        }
        let Reading { unwritten, done } = (self.read)();
        if has_gone || unwritten < self.reading.unwritten || done != self.reading.done {
            self.moved = now;
        }
        self.reading = Reading { unwritten: unwritten.min(self.reading.unwritten), done };
        self.under_way.len() < before
    }

    fn younger_than(&self, age: Duration) -> usize {
        let now = clock::now();
        self.under_way.values().filter(|child| now.since(child.since) < age).count()
    }

    /// The number of tasks that may be started.
    fn room(&self) -> usize {
        limit::UNMOUNT_AT_ONCE.saturating_sub(self.younger_than(self.patience.least))
    }

    /// Returns true if a child has not used up its time, which is short once the total time is
    /// over.
    pub(super) fn has_young(&self) -> bool {
        let own = if self.is_over() { self.patience.least } else { self.patience.own };
        self.younger_than(own) > 0
    }

    /// Returns true if the total time is over.
    pub(super) fn is_over(&self) -> bool {
        self.age() >= self.patience.longest
    }

    /// The time since the start.
    pub(super) fn age(&self) -> Duration {
        clock::now().since(self.begun)
    }

    /// Returns true if a child is running and waiting for it is worthwhile.
    pub(super) fn moves(&self) -> bool {
        let is_still = clock::now().since(self.moved) >= self.patience.still;
        !self.under_way.is_empty() && !is_still && !self.is_over()
    }

    /// Returns true if the task with this id is running.
    pub(super) fn is_under_way(&self, id: &str) -> bool {
        self.under_way.contains_key(id)
    }

    /// The objects of running tasks.
    pub(super) fn left(&self) -> impl Iterator<Item = &str> {
        self.under_way.values().map(|child| child.of.as_str())
    }

    /// Who is under way is not waited for any more.
    pub(super) fn give_up(&mut self) {
        for child in std::mem::take(&mut self.under_way).into_values() {
            // One that can not be killed is left.
            let _ = signal::kill(child.pid, KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::tests::is_alone;
    use nix::sys::stat::Mode;
    use nix::unistd::{mkfifo, pause};
    use std::cell::Cell;
    use std::fs::{self, File};
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::rc::Rc;
    use std::time::Instant;

    /// A directory whose files stand for objects; removed at the end.
    struct Place(PathBuf);

    impl Place {
        fn with(name: &str, files: impl Iterator<Item = String>) -> Place {
            let place = std::env::temp_dir().join(format!("gs-{name}-{}", std::process::id()));
            fs::create_dir_all(&place).unwrap();
            files.for_each(|file| drop(File::create(place.join(file)).unwrap()));
            Place(place)
        }

        fn holds(&self, name: &str) -> bool {
            self.0.join(name).exists()
        }

        /// A task for each of these files, which removes it if `work` returns true.
        fn tasks(&self, names: &[String], work: fn(&Path, &str) -> bool) -> Vec<Task> {
            let task = |name: &String| {
                let (place, name) = (self.0.clone(), name.clone());
                let (id, of) = (name.clone(), name.clone());
                let goes = move || {
                    // A failing test leaves no child behind.
                    process::die_with_parent(KILL).unwrap();
                    work(&place, &name) && fs::remove_file(place.join(&name)).is_ok()
                };
                Task { id, of, work: Box::new(goes) }
            };
            names.iter().filter(|name| self.holds(name)).map(task).collect()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(100);
    const USUAL: Patience = Patience { least: SHORT, own: SHORT, still: LONG, longest: LONG };

    #[test]
    fn who_is_slow_holds_up_no_other_is_begun_once_and_is_waited_for() {
        let names = ["slow", "quick", "upon"].map(String::from);
        let place = Place::with("slow", names.iter().cloned());
        let gate = place.0.join("gate");
        mkfifo(&gate, Mode::S_IRWXU).unwrap();
        let work = |place: &Path, name: &str| match name {
            "slow" => {
                let begun = File::options().append(true).create(true).open(place.join("begun"));
                begun.unwrap().write_all(b"x").unwrap();
                File::open(place.join("gate")).is_ok()
            }
            "upon" => !place.join("slow").exists(),
            _ => true,
        };
        let (looks, opened, last) = (Cell::new(0), Cell::new(None), Rc::new(Cell::new(None)));
        let is_last = last.clone();
        let read = move || {
            looks.set(looks.get() + 1);
            // Its child is awaited by then.
            if last.get().is_some_and(|begun: Instant| begun.elapsed() > SHORT * 2) {
                last.take();
                // Both ends, so that no open blocks.
                opened.set(Some(File::options().read(true).write(true).open(&gate).unwrap()));
            }
            Reading { unwritten: 0, done: looks.get() }
        };
        let mut rounds = Rounds::begin(USUAL, read);
        let tasks = || place.tasks(&names, work);
        rounds.go_on(tasks, Rounds::has_young);
        assert!(rounds.is_under_way("slow") && place.holds("upon") && !place.holds("quick"));
        rounds.go_on(tasks, Rounds::has_young);
        assert!(rounds.is_under_way("slow"), "it is gone on from at once");
        is_last.set(Some(Instant::now()));
        rounds.go_on(tasks, Rounds::moves);
        assert_eq!(rounds.left().next(), None);
        assert!(!place.holds("slow") && !place.holds("upon"), "that one waited for it");
        assert_eq!(fs::read(place.0.join("begun")).unwrap(), b"x");
    }

    #[test]
    fn where_nothing_moves_nobody_is_waited_for_and_who_is_left_is_named() {
        for (still, longest) in [(SHORT, LONG), (LONG, SHORT)] {
            let names = ["hung".to_owned()];
            let place = Place::with("still", names.iter().cloned());
            let patience = Patience { still, longest, ..USUAL };
            let looks = Cell::new(0);
            let read = move || {
                looks.set(looks.get() + 1);
                // More unwritten data is no progress; constant movement ends with the total time.
                let done = if longest < still { looks.get() } else { 7 };
                Reading { unwritten: looks.get(), done }
            };
            let mut rounds = Rounds::begin(patience, read);
            let hangs = |_: &Path, _: &str| {
                pause();
                true
            };
            let begun = Instant::now();
            rounds.go_on(|| place.tasks(&names, hangs), Rounds::moves);
            assert!(begun.elapsed() >= SHORT && begun.elapsed() < LONG);
            assert!(rounds.left().eq(["hung"]));
            rounds.give_up();
            assert_eq!(rounds.left().next(), None);
        }
    }

    #[test]
    fn who_is_begun_after_all_of_the_time_has_a_moment() {
        let names = ["late".to_owned()];
        let place = Place::with("late", names.iter().cloned());
        let own = Duration::from_secs(10);
        let patience = Patience { own, longest: Duration::ZERO, ..USUAL };
        let mut rounds = Rounds::begin(patience, || Reading { unwritten: 0, done: 0 });
        let hangs = |_: &Path, _: &str| {
            pause();
            true
        };
        let begun = Instant::now();
        rounds.go_on(|| place.tasks(&names, hangs), Rounds::has_young);
        assert!(begun.elapsed() >= SHORT && begun.elapsed() < own, "{:?}", begun.elapsed());
        assert!(rounds.left().eq(["late"]));
        rounds.give_up();
    }

    #[test]
    fn however_many_hang_none_takes_the_time_of_another() {
        // Each fork copies the page tables of all parallel tests.
        let own =
            "shutdown::unmount::rounds::tests::however_many_hang_none_takes_the_time_of_another";
        if !is_alone(own) {
            return;
        }
        let names: Vec<String> = (0..600).map(|number| number.to_string()).collect();
        let place = Place::with("many", names.iter().cloned());
        let is_even = |name: &str| name.ends_with(['0', '2', '4', '6', '8']);
        let work = |_: &Path, name: &str| {
            if name.ends_with(['0', '2', '4', '6', '8']) {
                pause();
            }
            true
        };
        let begun = Instant::now();
        let mut rounds = Rounds::begin(USUAL, || Reading { unwritten: 0, done: 0 });
        rounds.go_on(|| place.tasks(&names, work), Rounds::has_young);
        assert_eq!(rounds.left().count(), 300);
        assert!(names.iter().all(|name| place.holds(name) == is_even(name)));
        assert!(begun.elapsed() >= SHORT * 2, "each has its moment: {:?}", begun.elapsed());
        assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
        rounds.give_up();
    }
}
