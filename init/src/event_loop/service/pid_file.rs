//! Looks for the pid files of runs and takes the main process from them.

use crate::base::{Level, limit, mount_table};
use crate::event_loop::Init;
use crate::service::pid_file::{Look, Question, Said, look, removal_status, remove};
use crate::service::run_table::{Main, Running, Search};
use crate::service::sequence::{CommandKind, CommandSequence, Effect};
use crate::sys::{Pid, process};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Exit;
use groundstate_units::text::fields;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

impl Init {
    /// Removes the pid file of an earlier run, then starts the first command.
    pub(crate) fn remove_pid_file(&mut self, run: RunId) -> Vec<Effect> {
        let Some(running) = self.runs.get(run) else { return Vec::new() };
        let Some(path) = running.pid_file.clone() else { return Vec::new() };
        let removed = if mount_table::is_in_memory(&path) {
            remove(&path, false)
        } else {
            let work = || removal_status(remove(&path, true));
            match process::fork(&[], work) {
                Ok(pid) => {
                    self.runs.own(pid.as_raw(), run, CommandKind::Unlink);
                    if let Some(running) = self.runs.get_mut(run) {
                        running.current = Some(pid.as_raw());
                    }
                    return Vec::new();
                }
                Err(error) => Err(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EAGAIN))),
            }
        };
        self.pid_file_removed(run, removal_status(removed));
        let running = self.runs.get_mut(run);
        let ended = |it: &mut Running| it.procedure.exited(CommandKind::Unlink, Exit::Code(0));
        running.map(ended).unwrap_or_default()
    }

    fn pid_file_removed(&mut self, run: RunId, status: u8) {
        let Some(running) = self.runs.get(run).filter(|_| status != 0) else { return };
        let name = running.name.clone();
        let path = running.pid_file.clone().unwrap_or_default();
        let error = Errno::from_raw(i32::from(status)).desc();
        self.say(
            Level::Warning,
            format_args!("{name}: cannot remove the stale pid file {path}: {error}"),
        );
    }

    pub(crate) fn seek_pid_file(&mut self, run: RunId) {
        let at = self.now;
        if let Some(running) = self.runs.get_mut(run) {
            running.current = None;
            let pause = Duration::from_millis(5);
            running.search = Some(Box::new(Search { at, pause, wrong_since: None }));
            self.runs.note_deadline(run);
        }
        self.look_for_pid_file(run);
    }

    /// Looks for the pid file once.
    pub(crate) fn look_for_pid_file(&mut self, run: RunId) {
        let until = self.now.after(limit::PID_FILE_ANSWER);
        let Some(running) = self.runs.get_mut(run) else { return };
        let Some(search) = &mut running.search else { return };
        // The answer determines the time of the next look.
        search.at = until;
        if let Some(said) = self.ask_pid_file(run, Question::First) {
            self.pid_file_says(run, said);
        }
    }

    /// Handles the result of a look for the first main process.
    fn pid_file_says(&mut self, run: RunId, said: Said) {
        let now = self.now;
        let Some(running) = self.runs.get_mut(run) else { return };
        let Some(search) = &mut running.search else { return };
        search.at = now.after(search.pause);
        search.pause = (search.pause * 2).min(limit::PID_FILE_PAUSE);
        let since = search.wrong_since;
        let silent = said == Said::SILENT;
        let wrong = match self.take_main(run, said) {
            Ok(false) => return self.advance(run, |_| vec![Effect::Look]),
            Ok(true) => return self.advance(run, CommandSequence::main_found),
            Err(wrong) => wrong,
        };
        // A file that is being written may be invalid for a moment.
        let since = since.unwrap_or(now);
        if silent || now.since(since) >= limit::PID_FILE_WAIT {
            if let Some(running) = self.runs.get_mut(run) {
                running.search = None;
            }
            self.advance(run, |procedure| procedure.main_not_found(wrong));
        } else if let Some(search) = self.runs.get_mut(run).and_then(|r| r.search.as_mut()) {
            search.wrong_since = Some(since);
        }
    }

    /// Makes the process in the pid file the main process. Returns false if there is none yet, and
    /// says what is wrong as an error.
    fn take_main(&mut self, run: RunId, said: Said) -> Result<bool, String> {
        let path = self.runs.get(run).and_then(|running| running.pid_file.clone());
        let path = path.unwrap_or_default();
        match said {
            Said::Nothing => Ok(false),
            Said::Wrong(how) => Err(format!("pid file {path} {how}")),
            Said::Pid(pid) => match self.adopt(run, pid) {
                Ok(()) => Ok(true),
                Err(how) => Err(format!("process {pid} in pid file {path} {how}")),
            },
        }
    }

    /// Handles the end of the main process. A daemon that re-executes itself may have written the
    /// pid of its successor to the pid file; then the run continues with that process.
    pub(crate) fn handle_main_end(&mut self, run: RunId, exit: Exit) {
        let question = Question::Next(exit);
        if let Some(Look { question: Question::Reloaded(well), .. }) = self.runs.looks.get(&run) {
            // The look for the next main process replaces the look of the reload, so the reload is
            // settled here.
            let well = *well;
            self.advance(run, |procedure| procedure.reload_settled(well));
        }
        let is_named = self.runs.get(run).is_some_and(|running| running.pid_file.is_some());
        let said = if is_named { self.ask_pid_file(run, question) } else { Some(Said::Nothing) };
        if let Some(said) = said {
            self.continue_with(run, said, exit);
        }
    }

    fn continue_with(&mut self, run: RunId, said: Said, exit: Exit) {
        let Some(running) = self.runs.get(run) else { return };
        // Another main process may have been announced meanwhile.
        if running.main.is_none() && self.take_main(run, said) != Ok(true) {
            self.advance(run, |procedure| procedure.exited(CommandKind::Main, exit));
        }
    }

    /// Rereads the pid file after a reload: the daemon may have replaced its process.
    pub(crate) fn reread_pid_file(&mut self, run: RunId, well: bool) -> Vec<Effect> {
        // A run has one look at a time. The look for the next main process answers this question
        // too.
        if matches!(self.runs.looks.get(&run), Some(Look { question: Question::Next(_), .. })) {
            let running = self.runs.get_mut(run);
            return running.map(|of| of.procedure.reload_settled(well)).unwrap_or_default();
        }
        let said = self.ask_pid_file(run, Question::Reloaded(well));
        said.map(|said| self.main_after_reload(run, said, well)).unwrap_or_default()
    }

    fn main_after_reload(&mut self, run: RunId, said: Said, well: bool) -> Vec<Effect> {
        let Some(running) = self.runs.get(run) else { return Vec::new() };
        let name = running.name.clone();
        let main = running.main.as_ref().filter(|main| main.lives()).map(Main::pid);
        let is_same = main.is_some_and(|main| said == Said::Pid(main));
        let found = if is_same { Ok(false) } else { self.take_main(run, said) };
        if let Err(wrong) = &found {
            self.say(Level::Warning, format_args!("{name}: after a reload: {wrong}"));
        }
        let Some(running) = self.runs.get_mut(run) else { return Vec::new() };
        let mut effects = match found {
            Ok(true) => running.procedure.main_changed(),
            Ok(false) | Err(_) => Vec::new(),
        };
        effects.extend(running.procedure.reload_settled(well));
        effects
    }

    /// Reads the pid file. Returns `None` if a child does it and the answer comes later.
    fn ask_pid_file(&mut self, run: RunId, question: Question) -> Option<Said> {
        let path = self.runs.get(run)?.pid_file.clone()?;
        if mount_table::is_in_memory(&path) {
            return Some(look(&path, false));
        }
        match child(&path) {
            Ok((pid, answer)) => {
                let (pid, until) = (pid.as_raw(), self.now.after(limit::PID_FILE_ANSWER));
                self.runs.own(pid, run, CommandKind::Look);
                let look = Look { question, pid, answer: answer.into(), until };
                if let Some(before) = self.runs.looks.insert(run, look) {
                    before.give_up();
                }
                None
            }
            Err(_) => Some(Said::SILENT),
        }
    }

    /// Handles the end of a process of the run, according to the command that it was.
    pub(crate) fn part_ended(&mut self, run: RunId, pid: i32, part: CommandKind, exit: Exit) {
        match (part, exit) {
            (CommandKind::Start(_), _) if self.runs.has_handed_on(run, part) => return,
            (CommandKind::Main, _) => return self.handle_main_end(run, exit),
            (CommandKind::Unlink, Exit::Code(status)) => self.pid_file_removed(run, status),
            (CommandKind::Look, _) => self.look_ended(run, pid),
            _ => {}
        }
        self.advance(run, |procedure| procedure.exited(part, exit));
    }

    fn look_ended(&mut self, run: RunId, pid: i32) {
        if self.runs.looks.get(&run).is_some_and(|look| look.pid == pid)
            && let Some(look) = self.runs.looks.remove(&run)
        {
            let said = look.said();
            self.look_is_over(run, look.question, said);
        }
    }

    fn look_is_over(&mut self, run: RunId, question: Question, said: Said) {
        match question {
            Question::First => self.pid_file_says(run, said),
            Question::Reloaded(well) => {
                let effects = self.main_after_reload(run, said, well);
                self.advance(run, |_| effects);
            }
            // The stop that is in progress ends the rest of the run too.
            Question::Next(exit) if self.runs.is_told_to_stop(run) => {
                self.continue_with(run, Said::Nothing, exit);
            }
            Question::Next(exit) => self.continue_with(run, said, exit),
        }
    }

    /// Abandons looks that take too long.
    pub(crate) fn looks_due(&mut self) {
        let now = self.now;
        let late = self.runs.looks.iter().filter(|(_, look)| look.until <= now);
        let late: Vec<RunId> = late.map(|(run, _)| *run).collect();
        for run in late {
            let Some(look) = self.runs.looks.remove(&run) else { continue };
            let question = look.question;
            look.give_up();
            self.look_is_over(run, question, Said::SILENT);
        }
    }

    /// Repeats the looks in flight after a crash, because the crashed image may have read the
    /// answers.
    pub(crate) fn look_at_pid_files_again(&mut self) {
        let looks = std::mem::take(&mut *self.runs.looks);
        for (run, look) in looks {
            let question = look.question;
            look.give_up();
            if let Some(said) = self.ask_pid_file(run, question) {
                self.look_is_over(run, question, said);
            }
        }
    }
}

/// Forks a child that reads the pid file, writes the result to the returned pipe, and exits.
fn child(path: &str) -> io::Result<(Pid, OwnedFd)> {
    let (answer, theirs) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let pid = process::fork(&[theirs.as_fd()], || {
        // The answer is useless once PID 1 is gone.
        let _ = process::die_with_parent();
        let said = fields::encode(&look(path, true));
        u8::from(!said.is_ok_and(|said| write(&theirs, &said).is_ok()))
    })?;
    Ok((pid, answer))
}
