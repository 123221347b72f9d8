//! Interprets the keys of a trigger as a [`Trigger`]. The other half of [`crate::unit::semantics`],
//! as [`crate::unit::process`] is for units with a process.

use crate::limit;
use crate::spec::value;
use crate::spec::{Credentials, DependencyKind, Kind};
use crate::text::diagnostic::Diagnostic;
use crate::text::name::Name;
use crate::text::unit_name::UnitName;
use crate::trigger::address::{self, Address, Sort};
use crate::trigger::calendar::ZoneName;
use crate::trigger::zone::Zone;
use crate::trigger::{Look, Socket, Timer, Trigger, Watch, calendar, zone};
use crate::unit::assembly::{Draft, Edge};
use crate::unit::field::Field;
use crate::unit::semantics::{Outside, Reader};
use std::time::Duration;

impl Reader<'_> {
    /// Returns the trigger of the unit.
    pub(crate) fn trigger(&mut self, kind: Kind) -> Option<Trigger> {
        let trigger = match kind {
            Kind::Socket => Trigger::Socket(Box::new(self.socket())),
            Kind::Timer => Trigger::Timer(self.timer()),
            Kind::Path => Trigger::Path(self.watch()),
            Kind::ForegroundNotified
            | Kind::ForegroundSupervised
            | Kind::BackgroundPidfile
            | Kind::BackgroundScripted
            | Kind::Oneshot
            | Kind::Virtual => return None,
        };
        Some(trigger)
    }

    /// Returns each value of a key that accepts one or a list.
    fn several<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, value::Mistake>,
    ) -> Vec<(T, Field<'_>)> {
        let Some(field) = self.field(key) else { return Vec::new() };
        let nodes = field.one_or_list();
        if nodes.is_empty() || nodes.len() > limit::TRIGGER_VALUES {
            let message = format!("`{key}` has {} values", nodes.len());
            field.error(&mut self.found, "value", message, "1 to 64");
            return Vec::new();
        }
        let mut values = Vec::new();
        for node in nodes {
            let field = field.within(node);
            values.extend(field.value(&mut self.found, &parse).map(|value| (value, field)));
        }
        values
    }

    fn needs_one(&mut self, empty: bool, kind: Kind, keys: &[&str]) {
        // An invalid value was reported already.
        if empty && keys.iter().all(|key| self.field(key).is_none()) {
            let message = format!("a {} unit needs one of {}", kind.as_str(), keys.join(", "));
            self.found.push(Diagnostic::error("missing-key", self.place(), message));
        }
    }

    fn yes(&mut self, key: &str, default: bool) -> bool {
        self.value(key, default, value::boolean)
    }

    fn optional<T>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, value::Mistake>,
    ) -> Option<T> {
        self.value(key, None, |text| parse(text).map(Some))
    }

    fn socket(&mut self) -> Socket {
        let mut listen = Vec::new();
        for key in self.keys() {
            if let Some(sort) = Sort::ALL.into_iter().find(|sort| sort.as_str() == key) {
                let found = self.several(key, |text| address::parse(sort, text));
                listen.extend(found.into_iter().map(|(listen, _)| listen));
            }
        }
        self.needs_one(listen.is_empty(), Kind::Socket, &Sort::WORDS);
        if listen.len() > limit::TRIGGER_VALUES {
            let message = format!("{} listeners", listen.len());
            self.found.push(Diagnostic::error("too-large", self.place(), message));
            listen.truncate(limit::TRIGGER_VALUES);
        }
        let count = |text: &str| value::count(text, 0, u32::MAX);
        let socket = Socket {
            listen,
            owner: self.owner(),
            mode: self.value("socket-mode", 0o666, value::mode),
            directory_mode: self.value("socket-directory-mode", 0o755, value::mode),
            backlog: self.value("socket-backlog", 4096, count),
            v6only: self.word("socket-v6only").unwrap_or_default(),
            fd_name: self.optional("socket-fd-name", fd_name),
            accept: self.yes("socket-accept", false),
            max_connections: self
                .value("socket-max-connections", 64, |text| value::count(text, 1, 65_536)),
            max_per_source: self.value("socket-max-connections-per-source", 0, |text| {
                value::count(text, 0, 65_536)
            }),
            keepalive: self.yes("socket-keepalive", false),
            keepalive_time: self.optional("socket-keepalive-time", value::duration),
            keepalive_interval: self.optional("socket-keepalive-interval", value::duration),
            keepalive_probes: self
                .optional("socket-keepalive-probes", |text| value::count(text, 1, 127)),
            nodelay: self.yes("socket-nodelay", false),
            reuse_port: self.yes("socket-reuse-port", false),
            free_bind: self.yes("socket-free-bind", false),
            transparent: self.yes("socket-transparent", false),
            broadcast: self.yes("socket-broadcast", false),
            device: self.optional("socket-device", device),
            defer_accept: self.optional("socket-defer-accept", value::duration),
            priority: self.optional("socket-priority", count),
            mark: self.optional("socket-mark", count),
            tos: self.optional("socket-tos", tos),
            ttl: self.optional("socket-ttl", |text| value::count(text, 1, 255)),
            congestion: self.optional("socket-congestion", congestion),
            receive_buffer: self.optional("socket-receive-buffer", value::size),
            send_buffer: self.optional("socket-send-buffer", value::size),
            pipe_size: self.optional("socket-pipe-size", value::size),
            pass_credentials: self.yes("socket-pass-credentials", false),
            pass_security: self.yes("socket-pass-security", false),
            pass_packet_info: self.yes("socket-pass-packet-info", false),
            timestamping: self.word("socket-timestamping").unwrap_or_default(),
            writable: self.yes("socket-writable", false),
            flush: self.yes("socket-flush", false),
            remove: self.yes("socket-remove", false),
            symlinks: self.symlinks(),
        };
        self.check_socket(&socket);
        socket
    }

    fn check_socket(&mut self, socket: &Socket) {
        let paths = socket.listen.iter().filter(|one| matches!(one.address, Address::Path(_)));
        let paths = paths.count();
        if let Some(field) = self.field("socket-symlinks")
            && paths != 1
        {
            let message = format!("`socket-symlinks` with {paths} paths to link to");
            field.error(
                &mut self.found,
                "value",
                message,
                "the links lead to the unit's only path",
            );
        }
        for key in ["socket-max-connections", "socket-max-connections-per-source"] {
            if let Some(field) = self.field(key).filter(|_| !socket.accept) {
                let message = format!("`{key}` without `socket-accept` changes nothing");
                self.found.push(Diagnostic::warning("value", field.place(), message));
            }
        }
        if let Some(field) = self.field("socket-max-connections")
            && socket.accept
            && socket.max_connections > limit::CONNECTION_INSTANCES
        {
            let most = limit::CONNECTION_INSTANCES;
            let message = format!("no more than {most} connections are served at once");
            self.found.push(Diagnostic::warning("value", field.place(), message));
        }
        if let Some(field) = self.field("socket-accept")
            && socket.accept
            && socket.listen.iter().any(|one| !one.sort.connects())
        {
            let message = "`socket-accept` without connections to accept".to_string();
            let hint = "listen-stream and listen-seqpacket have connections";
            field.error(&mut self.found, "value", message, hint);
        }
    }

    /// Replaces the activated template of an accepting socket by its instances, one for each
    /// connection that may be open at once.
    pub(crate) fn connection_instances(&mut self, draft: &mut Draft, socket: &Socket) {
        let (Some(field), Some(template)) = (self.field("activates"), draft.activates.take())
        else {
            return;
        };
        let name = UnitName::of(template.as_str());
        if !name.is_template() {
            let message =
                format!("`{template}` is not a template, and each connection needs an instance");
            let hint = "with `socket-accept`, `activates` names a template: `activates: echo@`";
            return field.error(&mut self.found, "value", message, hint);
        }
        let line = field.place().line;
        for number in 0..socket.max_connections.min(limit::CONNECTION_INSTANCES) {
            let Ok(target) = Name::new(&name.with_instance(&number.to_string()).to_string()) else {
                continue;
            };
            // A missing template is reported once.
            let (kind, optional) = (DependencyKind::Accepts, number > 0);
            draft.dependencies.push(Edge { kind, target, optional, imported: false, line });
        }
    }

    fn symlinks(&mut self) -> Vec<String> {
        self.several("socket-symlinks", value::path).into_iter().map(|(path, _)| path).collect()
    }

    fn owner(&mut self) -> Option<Credentials> {
        let fields = [self.field("socket-user"), self.field("socket-group")];
        let first = fields.into_iter().flatten().next()?;
        let [user, group] = fields.map(|field| self.account(field?));
        let ids = self.accounts.resolve(user.as_ref(), group.as_ref(), &[]);
        Some(self.resolved(ids, first, "until it exists, the socket cannot listen"))
    }

    fn timer(&mut self) -> Timer {
        const KEYS: [&str; 6] = [
            "timer-calendar",
            "timer-boot",
            "timer-startup",
            "timer-active",
            "timer-unit-active",
            "timer-unit-inactive",
        ];
        let mut calendars = Vec::new();
        let (mut zones, mut never) = (Vec::new(), Vec::new());
        for (calendar, field) in self.several("timer-calendar", calendar::parse) {
            if let ZoneName::Named(name) = &calendar.zone {
                zones.push((field.place(), Outside::File(format!("{}/{name}", zone::DIRECTORY))));
            }
            // Searches from before the first possible year, so that a calendar that is over is not
            // reported here.
            if calendar.next(-1, &Zone::utc()).is_none() {
                let message = "no date matches: this calendar expression never fires";
                never.push(Diagnostic::warning("value", field.place(), message));
            }
            calendars.push(calendar);
        }
        self.outside.append(&mut zones);
        self.found.append(&mut never);
        let timer = Timer {
            calendar: calendars,
            boot: self.spans("timer-boot"),
            startup: self.spans("timer-startup"),
            active: self.spans("timer-active"),
            unit_active: self.spans("timer-unit-active"),
            unit_inactive: self.spans("timer-unit-inactive"),
            jitter: self.value("timer-jitter", Duration::ZERO, value::duration),
            jitter_fixed: self.yes("timer-jitter-fixed", false),
            accuracy: self.value("timer-accuracy", Duration::ZERO, value::duration),
            persistent: self.yes("timer-persistent", false),
        };
        let spans =
            [&timer.boot, &timer.startup, &timer.active, &timer.unit_active, &timer.unit_inactive];
        let empty = timer.calendar.is_empty() && spans.iter().all(|spans| spans.is_empty());
        self.needs_one(empty, Kind::Timer, &KEYS);
        if let Some(field) = self.field("timer-persistent")
            && timer.persistent
            && timer.calendar.is_empty()
        {
            let message = "`timer-persistent` without a `timer-calendar` changes nothing";
            self.found.push(Diagnostic::warning("value", field.place(), message));
        }
        timer
    }

    fn spans(&mut self, key: &str) -> Vec<Duration> {
        self.several(key, value::duration).into_iter().map(|(span, _)| span).collect()
    }

    fn watch(&mut self) -> Watch {
        let mut looks = Vec::new();
        for key in self.keys() {
            if let Some(look) = Look::ALL.into_iter().find(|look| look.as_str() == key) {
                let found = self.several(key, value::path);
                looks.extend(found.into_iter().map(|(path, _)| (look, path)));
            }
        }
        self.needs_one(looks.is_empty(), Kind::Path, &Look::WORDS);
        if looks.len() > limit::TRIGGER_VALUES {
            let message = format!("{} paths to watch", looks.len());
            self.found.push(Diagnostic::error("too-large", self.place(), message));
            looks.truncate(limit::TRIGGER_VALUES);
        }
        Watch {
            looks,
            make_directory: self.yes("path-make-directory", false),
            directory_mode: self.value("path-directory-mode", 0o755, value::mode),
        }
    }
}

/// Parses a descriptor name as in sd_listen_fds_with_names(3).
fn fd_name(text: &str) -> Result<String, value::Mistake> {
    let fits = |c: char| c.is_ascii_graphic() && c != ':';
    if (1..=255).contains(&text.len()) && text.chars().all(fits) {
        return Ok(text.to_string());
    }
    let hint = "1 to 255 printable ASCII characters, without a colon";
    value::mistake(format!("`{text}` is not a valid name of a descriptor"), hint)
}

/// Parses the IP type of service, by number or by the names in systemd.socket(5).
fn tos(text: &str) -> Result<u32, value::Mistake> {
    match text {
        "low-delay" => Ok(0x10),
        "throughput" => Ok(0x08),
        "reliability" => Ok(0x04),
        "low-cost" => Ok(0x02),
        _ => value::count(text, 0, 255),
    }
}

/// Parses the name of an algorithm (TCP_CA_NAME_MAX is 16 with the trailing NUL).
fn congestion(text: &str) -> Result<String, value::Mistake> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=15).contains(&text.len()) && text.chars().all(fits) {
        return Ok(text.to_string());
    }
    let hint = "the available ones are in /proc/sys/net/ipv4/tcp_available_congestion_control";
    value::mistake(format!("`{text}` is not an algorithm's name"), hint)
}

/// Parses the name of a network interface (IFNAMSIZ is 16 with the trailing NUL).
fn device(text: &str) -> Result<String, value::Mistake> {
    let fits = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
    if (1..=15).contains(&text.len()) && text.chars().all(fits) {
        return Ok(text.to_string());
    }
    value::mistake(format!("`{text}` is not a network interface"), "such as `eth0`")
}
