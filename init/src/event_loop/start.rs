//! Starts the first image of init: prepares everything before the first turn of the loop. Init
//! continues without a resource that is missing and reports it.

use crate::base::kernel_cmdline::KernelLine;
use crate::base::own_limits::OwnLimits;
use crate::base::paths::Paths;
use crate::base::retry::{retry_now, retry_with_backoff};
use crate::base::signals::Signals;
use crate::base::{Level, Mode, clock, limit, token};
use crate::control::Control;
use crate::event_loop::loader::log_settings;
use crate::event_loop::{Init, Own};
use crate::loader::Purpose;
use crate::loader::child::LoadRequest;
use crate::notify::Notify;
use crate::options::Options;
use crate::output::console_log::ConsoleLog;
use crate::output::event_log::Record;
use crate::output::oom_score;
use crate::process_tracking::Tracker;
use crate::restore::records::{Basics, State};
use crate::spawn::{Null, Spawner};
use crate::state::store::Store;
use crate::state::table::Watched;
use crate::sys::{device, signal};
use crate::upgrade::Images;
use crate::{boot, control, loader, logger};
use groundstate_units::control::place;
use groundstate_units::machine::Machine;
use groundstate_units::unit::settings::Settings;
use mio::Poll;
use nix::sys::socket::{Backlog, listen};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

impl Init {
    /// Fails only without memory, a poll, unix sockets or descriptors.
    pub(crate) fn new(options: Options, mode: Mode, mut own_limits: OwnLimits) -> io::Result<Init> {
        let mut complaints: Vec<String> =
            options.unknown.iter().map(|unknown| format!("unknown argument: {unknown}")).collect();
        complaints.extend(boot::duties(mode));
        if options.paths.command.is_some() && mode == Mode::Container {
            // Releases the terminal for the command. This fails without a terminal.
            let _ = device::release(io::stdin());
        }
        let no_score = oom_score::begin(mode, options.oom_score, &mut own_limits).err();
        let reserve = File::open("/dev/null").ok();
        let kernel = if mode == Mode::Machine { KernelLine::read() } else { KernelLine::default() };
        let voice = ConsoleLog::of(mode, options.least(kernel.level));
        let (paths, no_runtime) = Paths::find(&options.paths);
        // Most containers with a command have no use for the socket.
        let no_runtime = no_runtime.filter(|_| options.paths.command.is_none());
        complaints.extend(no_runtime.map(|why| format!("no control socket: {why}")));
        let poll = retry_with_backoff(Poll::new)?;
        // Start the loader first; init prepares the rest while the loader works.
        let wanted = [&options.target, &kernel.target].into_iter().flatten().cloned().collect();
        let request = LoadRequest::of(&paths, mode, &Purpose::Boot);
        let loading = loader::fork(&LoadRequest { wanted, ..request });
        let (signals, deaf) = retry_with_backoff(|| Signals::listen(poll.registry()))?;
        // The parent may have blocked signals, and the mask survives an exec.
        signal::unblock_all();
        complaints
            .extend(deaf.iter().map(|(n, error)| format!("cannot handle signal {n}: {error}")));
        let record = options.record.as_ref().and_then(|path| match File::create(path) {
            Ok(file) => Some(Record::new(file)),
            Err(error) => {
                complaints.push(format!("cannot record to {path}: {error}"));
                None
            }
        });
        let (tracker, no_cgroups) = Tracker::new(mode == Mode::Machine);
        let basics = Basics {
            booted: clock::now(),
            own_limits,
            helper_outputs: u64::MAX,
            kernel_target: kernel.target,
            ..Basics::default()
        };
        let spawner = retry_with_backoff(Spawner::new)?;
        let log = log_settings(&paths, mode, &Settings::default());
        let logger = retry_with_backoff(|| logger::Handle::new(log.clone(), None))?;
        let machine = Machine::new(match mode {
            Mode::Machine => limit::SHUTDOWN_MACHINE,
            Mode::Container | Mode::Supervisor => limit::SHUTDOWN_CONTAINER,
        });
        let state = State::initial(basics, machine, tracker, spawner, logger, record);
        let null = retry_with_backoff(Null::open)?;
        let images = Images::with(Store::new().ok());
        let own = Own { options, mode, paths, voice, poll, signals, null, images };
        let mut init = Init::with(own, state);
        init.reserve = reserve;
        init.ending.tell_at = Some(init.now.after(limit::SLOW_BOOT));
        for complaint in complaints {
            init.say(Level::Warning, format_args!("{complaint}"));
        }
        if let Some(why) = no_score {
            // A failure matters if the user asked for a score. Without one it is normal in a
            // container that lacks the privilege.
            let asked = init.options.oom_score != oom_score::Own::default();
            let level = if asked { Level::Warning } else { Level::Debug };
            init.say(level, format_args!("cannot set init's own OOM score: {why}"));
        }
        if let Some(why) = no_cgroups {
            init.say(Level::Info, format_args!("no cgroups, tracking processes by descent: {why}"));
        }
        retry_with_backoff(|| init.watch_tracker())?;
        init.make_sockets();
        init.load_started(Purpose::Boot, loading);
        // The logger is a fork of this process, so it is cheaper before init grows.
        if let Err(error) = init.logger.start(init.now) {
            init.say(Level::Error, format_args!("cannot start the logger: {error}"));
        }
        init.watch_logger();
        // The next image needs a committed state.
        init.commit();
        init.arm(0);
        Ok(init)
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
            Some(control) => control.listen_again(registry),
            None => retry_now(|| Control::listen(registry, &path, || reserve.take()))
                .map(|control| self.control = Some(control.into())),
        };
        if let Err(error) = made {
            self.say(Level::Error, format_args!("cannot listen at {path}: {error}"));
        }
        let path = format!("{dir}/notify.sock");
        let registry = self.poll.registry();
        let made = match &mut self.notify {
            Some(notify) if notify.path() == path => notify.bind_again(registry),
            other => retry_now(|| Notify::bind(registry, &path))
                .map(|notify| *other = Some(notify.into())),
        };
        if let Err(error) = made {
            self.say(Level::Error, format_args!("cannot listen at {path}: {error}"));
        }
        if let Some(listener) = self.log_listener(&dir) {
            self.logger.listen(listener);
        }
    }

    /// Opens `log.sock` for the logger.
    fn log_listener(&mut self, dir: &str) -> Option<OwnedFd> {
        let path = place::log_socket(dir);
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
