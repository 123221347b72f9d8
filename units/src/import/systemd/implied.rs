//! Implied dependencies (`DefaultDependencies=`; systemd.service(5), systemd.socket(5) and others,
//! "AUTOMATIC DEPENDENCIES"), and the stop of units that a cluster runs on at most one machine.
//! Boot targets may be missing: a container has none.

use super::conversion::Conversion;
use super::unit_name::Suffix;

/// The edge that systemd adds to a unit of this kind besides the one to `sysinit.target`.
const IMPLIED: [(Suffix, &str, &str); 4] = [
    (Suffix::Service, "after", "basic.target"),
    (Suffix::Socket, "before", "sockets.target"),
    (Suffix::Timer, "before", "timers.target"),
    (Suffix::Path, "before", "paths.target"),
];

pub(super) fn convert(this: &mut Conversion<'_>, suffix: Suffix) {
    let usual = this.flag("Unit", "DefaultDependencies", true);
    if let Some(option) = this.last("Unit", "DefaultDependencies") {
        this.leave_out(option, "the implied dependencies are written out");
    }
    for (_, key, target) in IMPLIED.into_iter().filter(|(of, ..)| usual && *of == suffix) {
        edge(this, "depends-ms", "sysinit.target?");
        edge(this, key, target);
    }
    if usual && suffix == Suffix::Timer && this.last("Timer", "OnCalendar").is_some() {
        edge(this, "after", "time-set.target");
        edge(this, "after", "time-sync.target");
    }
    let writes = ["StateDirectory", "CacheDirectory", "LogsDirectory"];
    if !usual && writes.iter().any(|directory| this.last("Service", directory).is_some()) {
        edge(this, "after", "systemd-remount-fs.service");
    }
    if suffix == Suffix::Service {
        service(this);
    }
}

fn service(this: &mut Conversion<'_>) {
    if this.flag("X-Fleet", "Exclusive", false) {
        // The unit must be down before another machine may run it.
        this.put_default("stop-promptly", "yes");
    }
    let dbus = this
        .text("Service", "Type")
        .map_or_else(|| this.last("Service", "BusName").is_some(), |kind| kind == "dbus");
    if dbus {
        edge(this, "depends-ms", "dbus.socket?");
    }
}

/// Adds an implied edge; an existing edge of any strength stays.
pub(super) fn edge(this: &mut Conversion<'_>, key: &str, target: &str) {
    let bare = target.trim_end_matches('?');
    let stronger = ["depends-on", "depends-ms", "waits-for", "before", key];
    let known = stronger.iter().any(|key| {
        let list = this.manifest.entry(key).and_then(|entry| entry.node.list()).unwrap_or_default();
        list.iter().filter_map(|node| node.scalar()).any(|s| s.text.trim_end_matches('?') == bare)
    });
    if !known {
        let at = this.manifest.at;
        this.add(key, target, None, at);
    }
}
