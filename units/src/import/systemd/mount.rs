//! `.mount` and `.swap`: a oneshot that runs mount(8) or swapon(8), and undoes it.

use super::conversion::Conversion;
use super::implied::edge;
use super::import_outcome::Outcome;
use super::unit_name::escape_path;
use super::word::quote;
use crate::spec::Kind;

/// File systems that need the network.
const REMOTE: [&str; 12] = [
    "afs",
    "ceph",
    "cifs",
    "gfs",
    "gfs2",
    "glusterfs",
    "ncp",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
    "sshfs",
];

/// Returns true for a type of file system that needs the network.
pub(crate) fn is_remote(kind: &str) -> bool {
    REMOTE.contains(&kind.trim_start_matches("fuse."))
}

/// Converts the common parts of both.
fn oneshot(this: &mut Conversion<'_>, section: &str) {
    this.kind = Kind::Oneshot;
    this.put_default("type", Kind::Oneshot.as_str());
    this.put_default("remain", "yes");
    this.put_default("restart", "never");
    if this.last(section, "TimeoutSec").is_none() {
        this.put_default("start-timeout", "90s");
    }
    this.put_default("stop-timeout", "90s");
}

/// Returns a value with specifiers replaced, for use in commands.
fn value(this: &mut Conversion<'_>, section: &str, name: &str, key: &str) -> Option<String> {
    let option = this.last(section, name)?;
    let text = this.expand(option, &option.value)?;
    this.record_outcome(option, Outcome::Kept(key.to_string()));
    Some(text)
}

pub(super) fn mount(this: &mut Conversion<'_>) {
    oneshot(this, "Mount");
    let what = value(this, "Mount", "What", "exec-start");
    let place = value(this, "Mount", "Where", "exec-start");
    let kind = value(this, "Mount", "Type", "exec-start");
    let given = value(this, "Mount", "Options", "exec-start").unwrap_or_default();
    let (Some(what), Some(place)) = (what, place) else {
        return this.refuse_unit("a mount needs What= and Where=");
    };
    let name = this.name.stem();
    if !this.name.is_template() && escape_path(&place) != name {
        let message = format!("a mount of {place} is named {}.mount", escape_path(&place));
        if let Some(option) = this.last("Mount", "Where") {
            return this.refuse(option, &message, "systemd refuses this too");
        }
    }
    let mut line = vec!["/bin/mount".to_string()];
    if let Some(kind) = &kind {
        line.extend(["-t".to_string(), quote(kind)]);
    }
    for (name, flag) in [("SloppyOptions", "-s"), ("ReadWriteOnly", "-w")] {
        if this.flag("Mount", name, false) {
            line.push(flag.to_string());
            value(this, "Mount", name, "exec-start");
        }
    }
    // Options of fstab(5) for the boot, not for mount(8).
    let words = given.split(',').map(str::trim);
    let words = words
        .filter(|word| !word.is_empty() && !word.starts_with("x-systemd.") && *word != "nofail");
    let kept: Vec<&str> = words.collect();
    let options = kept.join(",");
    let netdev = kept.contains(&"_netdev");
    if !options.is_empty() {
        line.extend(["-o".to_string(), quote(&options)]);
    }
    line.extend([quote(&what), quote(&place)]);
    let mode = value(this, "Mount", "DirectoryMode", "exec-start-pre");
    let mode = mode.map(|mode| format!("-m {} ", quote(&mode))).unwrap_or_default();
    this.put_default("exec-start-pre", &format!("/bin/mkdir -p {mode}{}", quote(&place)));
    this.put_default("exec-start", &line.join(" "));
    let mut undo = vec!["/bin/umount".to_string()];
    for (name, flag) in [("LazyUnmount", "-l"), ("ForceUnmount", "-f")] {
        if this.flag("Mount", name, false) {
            undo.push(flag.to_string());
        }
        value(this, "Mount", name, "exec-stop");
    }
    undo.push(quote(&place));
    this.put_default("exec-stop", &undo.join(" "));
    let kind = kind.as_deref().unwrap_or_default();
    edges(this, netdev || is_remote(kind));
}

fn edges(this: &mut Conversion<'_>, remote: bool) {
    if !this.flag("Unit", "DefaultDependencies", true) {
        return;
    }
    if remote {
        edge(this, "after", "remote-fs-pre.target");
        edge(this, "after", "network.target");
        edge(this, "waits-for", "network-online.target?");
        edge(this, "before", "remote-fs.target");
    } else {
        edge(this, "after", "local-fs-pre.target");
        edge(this, "before", "local-fs.target");
    }
}

pub(super) fn swap(this: &mut Conversion<'_>) {
    oneshot(this, "Swap");
    let Some(what) = value(this, "Swap", "What", "exec-start") else {
        return this.refuse_unit("a swap unit needs What=");
    };
    let mut line = vec!["/sbin/swapon".to_string()];
    if let Some(priority) = value(this, "Swap", "Priority", "exec-start") {
        line.extend(["-p".to_string(), quote(&priority)]);
    }
    if let Some(options) = value(this, "Swap", "Options", "exec-start") {
        line.extend(["-o".to_string(), quote(&options)]);
    }
    line.push(quote(&what));
    this.put_default("exec-start", &line.join(" "));
    this.put_default("exec-stop", &format!("/sbin/swapoff {}", quote(&what)));
    if this.flag("Unit", "DefaultDependencies", true) {
        edge(this, "before", "swap.target");
    }
}
