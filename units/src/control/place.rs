//! Default paths of init and initctl, so that both find the same socket. Nothing here reads the
//! environment: variables come in as arguments.

/// The directories and files of one init.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The file `init.yaml`.
    pub config: String,
    /// Unit directories; files of an earlier one hide those of a later one. `RUNTIME-DIR/units` is
    /// the second.
    pub unit_dirs: Vec<String>,
    /// Directory of sockets and of files that last until the next boot.
    pub runtime_dir: String,
    /// Directory of log files.
    pub log_dir: String,
    /// Directory of state that survives a boot: the last firing of persistent timers.
    pub state_dir: String,
    /// The file `policy.yaml`.
    pub policy: String,
}

/// Unit directory of the distribution, for the init of a machine or a container.
pub const VENDOR_UNITS: &str = "/usr/lib/groundstate/units";

/// Unit directory of the distribution for user instances. It is a separate one, so that a user
/// instance does not start the boot set of the machine.
pub const USER_VENDOR_UNITS: &str = "/usr/lib/groundstate/user-units";

/// Runtime directory of the init of this machine or container.
pub const SYSTEM_RUNTIME: &str = "/run/groundstate";

impl Places {
    /// The defaults of PID 1 of a machine or container: those of root, whatever its uid. A PID 1
    /// that is not root can rarely write to root's directories of logs and state, so these two stay
    /// in the directories of its user.
    pub fn of_first(uid: u32, variable: impl Fn(&str) -> Option<String>) -> Places {
        let system = Places::of(0, &variable);
        if uid == 0 {
            return system;
        }
        let Places { log_dir, state_dir, .. } = Places::of(uid, &variable);
        Places { log_dir, state_dir, ..system }
    }

    /// The defaults of a user. `variable` looks up the environment; empty counts as unset.
    ///
    /// Root: `/etc`, `/run`, `/var/log`. Others: `$XDG_CONFIG_HOME` (`~/.config`),
    /// `$XDG_RUNTIME_DIR` (else a private directory under `$TMPDIR`, `/tmp`),
    /// `$XDG_STATE_HOME` (`~/.local/state`), as the XDG base directory specification says;
    /// each `/groundstate`.
    pub fn of(uid: u32, variable: impl Fn(&str) -> Option<String>) -> Places {
        let set = |name: &str| variable(name).filter(|value| value.starts_with('/'));
        if uid == 0 {
            let (log, state) = ("/var/log/groundstate", "/var/lib/groundstate");
            let vendor = VENDOR_UNITS;
            return Places::under("/etc/groundstate", SYSTEM_RUNTIME, log, (state, vendor));
        }
        let private = private_dir(uid, &variable);
        let in_home = |below: &str| set("HOME").map(|home| format!("{home}/{below}"));
        let config = set("XDG_CONFIG_HOME")
            .or_else(|| in_home(".config"))
            .map_or_else(|| format!("{private}/config"), |dir| format!("{dir}/groundstate"));
        let runtime = set("XDG_RUNTIME_DIR")
            .map_or_else(|| private.clone(), |dir| format!("{dir}/groundstate"));
        let state = set("XDG_STATE_HOME")
            .or_else(|| in_home(".local/state"))
            .map_or_else(|| format!("{private}/log"), |dir| format!("{dir}/groundstate"));
        Places::under(&config, &runtime, &state, (&state, USER_VENDOR_UNITS))
    }

    fn under(
        config: &str,
        runtime_dir: &str,
        log_dir: &str,
        (state_dir, vendor): (&str, &str),
    ) -> Places {
        Places {
            config: format!("{config}/init.yaml"),
            unit_dirs: vec![
                format!("{config}/units"),
                runtime_units(runtime_dir),
                vendor.to_string(),
            ],
            runtime_dir: runtime_dir.to_string(),
            log_dir: log_dir.to_string(),
            state_dir: state_dir.to_string(),
            policy: format!("{config}/policy.yaml"),
        }
    }
}

/// A private directory of this uid below `$TMPDIR` (`/tmp`). Also the runtime directory of a PID 1
/// that cannot write to [`SYSTEM_RUNTIME`], as in a container with a read-only root.
pub fn private_dir(uid: u32, variable: impl Fn(&str) -> Option<String>) -> String {
    let set = variable("TMPDIR").filter(|value| value.starts_with('/'));
    format!("{}/groundstate-{uid}", set.unwrap_or_else(|| "/tmp".to_string()))
}

/// The runtime directory of the instance that a login of this uid starts.
pub fn login_runtime(uid: u32) -> String {
    format!("/run/user/{uid}/groundstate")
}

/// The unit directory that lasts until the next boot; always one of the unit directories.
pub fn runtime_units(runtime_dir: &str) -> String {
    format!("{runtime_dir}/units")
}

/// The policy that lasts until the next boot.
pub fn runtime_policy(runtime_dir: &str) -> String {
    format!("{runtime_dir}/policy.yaml")
}

/// The directory of the sources' units, which lasts until the next boot.
pub fn sources(runtime_dir: &str) -> String {
    format!("{runtime_dir}/sources")
}

/// The path of the control socket.
pub fn control_socket(runtime_dir: &str) -> String {
    format!("{runtime_dir}/control.sock")
}

/// The path of the logger's socket.
pub fn log_socket(runtime_dir: &str) -> String {
    format!("{runtime_dir}/log.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_gets_the_system_paths() {
        let places = Places::of(0, |_| Some("/elsewhere".to_string()));
        assert_eq!(places.config, "/etc/groundstate/init.yaml");
        assert_eq!(
            places.unit_dirs,
            ["/etc/groundstate/units", "/run/groundstate/units", "/usr/lib/groundstate/units"]
        );
        assert_eq!(control_socket(&places.runtime_dir), "/run/groundstate/control.sock");
    }

    #[test]
    fn pid_1_gets_the_system_paths_for_any_uid() {
        let nothing = |_: &str| None;
        assert_eq!(Places::of_first(0, nothing), Places::of(0, nothing));
        let (first, root) = (Places::of_first(65532, nothing), Places::of(0, nothing));
        let same = |of: &Places| (of.config.clone(), of.policy.clone(), of.unit_dirs.clone());
        assert_eq!(same(&first), same(&root));
        assert_eq!(first.runtime_dir, SYSTEM_RUNTIME);
        assert_eq!(first.log_dir, "/tmp/groundstate-65532/log");
    }

    #[test]
    fn other_users_get_private_paths_even_with_an_empty_environment() {
        let bare = Places::of(1000, |_| None);
        assert_eq!(bare.runtime_dir, "/tmp/groundstate-1000");
        let home = Places::of(1000, |name| (name == "HOME").then(|| "/home/u".to_string()));
        assert_eq!(home.policy, "/home/u/.config/groundstate/policy.yaml");
        assert_eq!(home.log_dir, "/home/u/.local/state/groundstate");
        assert_eq!(home.unit_dirs.last().map(String::as_str), Some(USER_VENDOR_UNITS));
        let relative = Places::of(1000, |_| Some("not/absolute".to_string()));
        assert_eq!(relative, bare);
    }
}
