//! Starts the first image of init: prepares everything before the first turn of the loop. Init
//! continues without a resource that is missing and reports it.

use crate::base::kernel_cmdline::KernelLine;
use crate::base::own_limits::OwnLimits;
use crate::base::paths::Paths;
use crate::base::retry::{retry_now, retry_with_backoff};
use crate::base::signals::Signals;
use crate::base::{Level, Mode, clock, limit, token};
use crate::control::Control;
use crate::event_loop::{Init, Own};
use crate::loader::failed_load::LeftOut;
use crate::notify::Notify;
use crate::options::Options;
use crate::output::console_log::ConsoleLog;
use crate::output::event_log::Record;
use crate::output::oom_score;
use crate::process_tracking::Tracker;
use crate::restore::records::{Head, State};
use crate::spawn::{Null, Spawner};
use crate::state::table::Watched;
use crate::sys::signal;
use crate::upgrade::Images;
use crate::{boot, control, loader};
use groundstate_units::control::place;
use groundstate_units::machine::Machine;
use mio::Poll;
use nix::sys::socket::{Backlog, listen};
use std::borrow::Cow;
use std::fs::File;
use std::io;

impl Init {
    /// Fails only without memory, a poll or descriptors.
    pub(crate) fn new(options: Options, mode: Mode, mut own_limits: OwnLimits) -> io::Result<Init> {
        let mut complaints: Vec<String> =
            options.unknown.iter().map(|unknown| format!("unknown argument: {unknown}")).collect();
        complaints.extend(boot::duties(mode));
        let no_score = oom_score::begin(mode, options.oom_score, &mut own_limits).err();
        let reserve = File::open("/dev/null").ok();
        let kernel = if mode == Mode::Machine { KernelLine::read() } else { KernelLine::default() };
        let voice = ConsoleLog::of(mode, kernel.level);
        let (paths, no_runtime) = Paths::find(&options.paths);
        complaints.extend(no_runtime.map(|why| format!("no control socket: {why}")));
        let poll = retry_with_backoff(Poll::new)?;
        // Start the loader first; init prepares the rest while the loader works.
        let targets = [options.target.as_ref(), kernel.target.as_ref()];
        let loading = loader::send_without(&paths, mode, targets, LeftOut::default());
        let (signals, deaf) = retry_with_backoff(|| Signals::listen(poll.registry()))?;
        // The parent may have blocked signals, and the mask survives an exec.
        signal::unblock_all();
        complaints
            .extend(deaf.iter().map(|(n, error)| format!("cannot handle signal {n}: {error}")));
        let (record, no_record) = record(&options);
        complaints.extend(no_record);
        let (tracker, no_cgroups) = Tracker::new(mode == Mode::Machine);
        let head = Head {
            booted: clock::now(),
            own_limits: Cow::Owned(own_limits),
            helper_outputs: u64::MAX,
            kernel_target: Cow::Owned(kernel.target),
            ..Head::default()
        };
        let spawner = retry_with_backoff(Spawner::new)?;
        let state = State::begins(head, new_machine(mode), tracker, spawner, record);
        let null = retry_with_backoff(Null::open)?;
        let images = Images::begins();
        let own = Own { options, mode, paths, voice, poll, signals, null, images };
        let mut init = Init::with(own, state);
        init.reserve = reserve;
        init.ending.tell_at = Some(init.now.after(limit::SLOW_BOOT));
        init.complain(&complaints, no_score.as_deref(), no_cgroups.as_deref());
        retry_with_backoff(|| init.watch_tracker())?;
        init.make_sockets();
        init.loading_at_boot(loading);
        init.start_logger_early();
        init.arm(0);
        Ok(init)
    }

    fn complain(
        &mut self,
        complaints: &[String],
        no_score: Option<&str>,
        no_cgroups: Option<&str>,
    ) {
        for complaint in complaints {
            self.say(Level::Warning, format_args!("{complaint}"));
        }
        if let Some(why) = no_score {
            // A failure matters if the user asked for a score. Without one it is normal in a
            // container that lacks the privilege.
            let asked = self.options.oom_score != oom_score::Own::default();
            let level = if asked { Level::Warning } else { Level::Debug };
            self.say(level, format_args!("cannot set init's own OOM score: {why}"));
        }
        if let Some(why) = no_cgroups {
            self.say(Level::Info, format_args!("no cgroups, tracking processes by descent: {why}"));
        }
    }

    pub(crate) fn watch_tracker(&self) -> io::Result<()> {
        let Some(descriptor) = self.tracker.descriptor() else { return Ok(()) };
        token::watch(self.poll.registry(), descriptor, token::TRACKER)
    }

    /// Creates the sockets in the runtime directory again. Existing connections stay open.
    pub(crate) fn make_sockets(&mut self) {
        let Some(dir) = self.paths.runtime_dir.clone() else {
            if self.notify.is_none() {
                let bind = || Notify::bind_abstract(self.poll.registry());
                self.notify = retry_now(bind).ok().map(Watched::from);
            }
            return;
        };
        let registry = self.poll.registry();
        let path = place::control_socket(&dir);
        let reserve = &mut self.reserve;
        let made = match &mut self.control {
            Some(control) => control.listen_anew(registry),
            None => retry_now(|| Control::listen(registry, &path, || reserve.take()))
                .map(|control| self.control = Some(control.into())),
        };
        if let Err(error) = made {
            self.say(Level::Error, format_args!("cannot listen at {path}: {error}"));
        }
        let path = format!("{dir}/notify.sock");
        let registry = self.poll.registry();
        let made = match &mut self.notify {
            Some(notify) if notify.path() == path => notify.bind_anew(registry),
            other => retry_now(|| Notify::bind(registry, &path))
                .map(|notify| *other = Some(notify.into())),
        };
        if let Err(error) = made {
            self.say(Level::Error, format_args!("cannot listen at {path}: {error}"));
        }
        if self.logger.is_some()
            && let Some(listener) = self.log_listener()
            && let Some(logger) = &mut self.logger
        {
            logger.listen(listener);
        }
    }

    /// Opens `log.sock` for the logger.
    pub(crate) fn log_listener(&mut self) -> Option<std::os::fd::OwnedFd> {
        let path = place::log_socket(self.paths.runtime_dir.as_deref()?);
        // Connections are accepted in order, so a long backlog would delay root.
        let listen_at = || {
            let listener = control::listen(&path)?;
            listen(&listener, Backlog::new(limit::LOG_BACKLOG)?)?;
            Ok::<_, io::Error>(listener)
        };
        match retry_now(listen_at) {
            Ok(listener) => Some(listener),
            Err(error) => {
                self.say(Level::Error, format_args!("cannot listen at {path}: {error}"));
                None
            }
        }
    }
}

fn new_machine(mode: Mode) -> Machine {
    Machine::new(match mode {
        Mode::Machine => limit::SHUTDOWN_MACHINE,
        Mode::Container | Mode::Supervisor => limit::SHUTDOWN_CONTAINER,
    })
}

/// Opens the file of `--record`, or says why it cannot be opened.
fn record(options: &Options) -> (Option<Record>, Option<String>) {
    let Some(path) = &options.record else { return (None, None) };
    match Record::create(path) {
        Ok(record) => (Some(record), None),
        Err(error) => (None, Some(format!("cannot record to {path}: {error}"))),
    }
}
