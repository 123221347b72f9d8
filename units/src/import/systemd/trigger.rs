//! `.socket`, `.timer` and `.path`: the activated unit, and directives that need more than a row of
//! the table. A trigger without anything to wait for is an error.

use super::conversion::Conversion;
use super::implied::edge;
use super::span::{self, Span};
use super::table::partly;
use super::unit_name::Suffix;
use crate::spec::Kind;

/// Converts the activated unit of any trigger.
fn activation(this: &mut Conversion<'_>, kind: Kind, section: &str, directive: &str) {
    this.kind = kind;
    this.put_default("type", kind.as_str());
    let accept = kind == Kind::Socket && this.flag("Socket", "Accept", false);
    let said = this.last(section, directive);
    if let Some(option) = said.filter(|_| accept) {
        let hint =
            "systemd does not load this unit either; the service is the template of its name";
        this.refuse(option, "Service= beside Accept=yes", hint);
    }
    let target = match said {
        Some(option) => this.expand(option, &option.value),
        None if accept => {
            // One instance per connection: the template of the same name.
            Some(this.name.with_instance("").with_suffix(Suffix::Service).to_string())
        }
        None => Some(this.own().with_suffix(Suffix::Service).to_string()),
    };
    let Some(target) = target else { return };
    this.put_said("activates", &target, said);
    if !accept {
        edge(this, "before", &target);
    }
    // A trigger does not give up; the activated unit has its own policy.
    this.put_default("restart", "on-failure");
}

pub(super) fn socket(this: &mut Conversion<'_>) {
    activation(this, Kind::Socket, "Socket", "Service");
    let listens = [
        "ListenStream",
        "ListenDatagram",
        "ListenSequentialPacket",
        "ListenFIFO",
        "ListenSpecial",
        "ListenNetlink",
        "ListenMessageQueue",
        "ListenUSBFunction",
    ];
    if listens.iter().all(|name| this.last("Socket", name).is_none()) {
        this.refuse_unit("a socket unit without a Listen…= line");
    }
    let single = ["ListenDatagram", "ListenFIFO", "ListenSpecial", "ListenNetlink"];
    if this.flag("Socket", "Accept", false)
        && let Some(option) = this.last("Socket", "Accept")
        && single.iter().any(|name| !this.all("Socket", name).is_empty())
    {
        let hint =
            "systemd does not load this unit either; put these into a socket unit of their own";
        this.refuse(option, &format!("Accept=: {}", partly::ACCEPTED), hint);
    }
    if let Some(option) = this.last("Socket", "BindIPv6Only") {
        match option.value.as_str() {
            "default" => this.leave_out(option, "this value requests nothing"),
            "both" | "ipv6-only" => this.put("socket-v6only", &option.value, option),
            _ => this.lose(option, "no such value"),
        }
    }
}

pub(super) fn timer(this: &mut Conversion<'_>) {
    activation(this, Kind::Timer, "Timer", "Unit");
    let mut any = this.last("Timer", "OnCalendar").is_some();
    for (name, key) in [
        ("OnBootSec", "timer-boot"),
        ("OnStartupSec", "timer-startup"),
        ("OnActiveSec", "timer-active"),
        ("OnUnitActiveSec", "timer-unit-active"),
        ("OnUnitInactiveSec", "timer-unit-inactive"),
    ] {
        let options = this.all("Timer", name);
        any |= !options.is_empty();
        for option in &options {
            match span::parse(&option.value) {
                Some(Span::Micros(micros)) if options.len() == 1 => {
                    this.put(key, &span::native(micros), option);
                }
                Some(Span::Micros(micros)) => {
                    this.add_line(key, &span::native(micros), option);
                }
                _ => this.lose(option, "it is not a span of time"),
            }
        }
    }
    for (name, usual, how) in
        [("WakeSystem", false, partly::NOT_WOKEN), ("RemainAfterElapse", true, partly::STAYS)]
    {
        match this.last("Timer", name) {
            Some(option) if span::boolean(&option.value) != Some(usual) => this.lose(option, how),
            Some(option) => this.leave_out(option, "init always does that"),
            None => {}
        }
    }
    let changes = ["OnClockChange", "OnTimezoneChange"];
    any |= changes.iter().any(|name| this.flag("Timer", name, false));
    if !any {
        this.refuse_unit("a timer without an On…= line");
    }
}

pub(super) fn path(this: &mut Conversion<'_>) {
    activation(this, Kind::Path, "Path", "Unit");
    let kinds =
        ["PathExists", "PathExistsGlob", "PathChanged", "PathModified", "DirectoryNotEmpty"];
    if kinds.iter().all(|name| this.last("Path", name).is_none()) {
        this.refuse_unit("a path unit without a Path…= line");
    }
}
