//! The paths of this init: defaults of the user, the command line, and a usable runtime directory.

use crate::base::retry::retry_with_backoff;
use groundstate_units::control::place::{self, Places};
use groundstate_units::unit::settings::Settings;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt,
};
use nix::unistd::geteuid;
use std::fs::{DirBuilder, symlink_metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// The paths on the command line; `None` if not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathOptions {
    /// `--config FILE`.
    pub(crate) config: Option<String>,
    /// `--units DIR`, in the order given.
    pub(crate) units: Vec<String>,
    /// `--runtime-dir DIR`.
    pub(crate) runtime_dir: Option<String>,
    /// `--log-dir DIR`.
    pub(crate) log_dir: Option<String>,
    /// `--policy FILE`.
    pub(crate) policy: Option<String>,
    /// The words after `--`, instead of unit files.
    pub(crate) command: Option<Vec<String>>,
}

/// The paths in use.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// `init.yaml`, and true if the command line named it.
    pub(crate) config: (String, bool),
    /// `--units`, may be empty.
    pub(crate) units: Vec<String>,
    /// `--log-dir`.
    pub(crate) log_dir: Option<String>,
    /// `policy.yaml`.
    pub(crate) policy: String,
    /// `-- CMD`.
    pub(crate) command: Option<Vec<String>>,
    /// `None` if no runtime directory is usable.
    pub(crate) runtime_dir: Option<String>,
    defaults: Places,
    runtime_asked: String,
}

impl Paths {
    /// Finds the paths and creates the runtime directory. Also returns why that failed, if it did.
    pub(crate) fn find(options: &PathOptions) -> (Paths, Option<String>) {
        let uid = geteuid().as_raw();
        let variable = |name: &str| std::env::var(name).ok();
        let is_first = std::process::id() == 1;
        let mut defaults = match is_first {
            true => Places::of_first(uid, variable),
            false => Places::of(uid, variable),
        };
        let asked = options.runtime_dir.clone();
        let is_asked = asked.is_some();
        let mut runtime = absolute(asked.unwrap_or_else(|| defaults.runtime_dir.clone()));
        let mut made = retry_with_backoff(|| make_usable(&runtime, uid));
        if made.is_err() && is_first && !is_asked {
            let private = place::private_dir(uid, variable);
            if make_usable(&private, uid).is_ok() {
                (runtime, made) = (private, Ok(()));
            }
        }
        if let Some(second) = defaults.unit_dirs.get_mut(1) {
            *second = place::runtime_units(&runtime);
        }
        let why = made.as_ref().err().map(|error| format!("cannot use {runtime}: {error}"));
        let paths = Paths {
            config: (
                options.config.clone().unwrap_or(defaults.config.clone()),
                options.config.is_some(),
            ),
            units: options.units.clone(),
            log_dir: options.log_dir.clone(),
            policy: options.policy.clone().unwrap_or(defaults.policy.clone()),
            command: options.command.clone(),
            runtime_dir: made.ok().map(|()| runtime.clone()),
            defaults,
            runtime_asked: runtime,
        };
        (paths, why)
    }

    /// Unit directories in order of precedence: those of the command line, else of the settings,
    /// else the defaults. The runtime directory is always included.
    pub(crate) fn unit_dirs(&self, settings: &Settings) -> Vec<String> {
        let given = Some(&self.units).filter(|units| !units.is_empty());
        let Some(given) = given.or(settings.unit_dirs.as_ref()) else {
            return self.defaults.unit_dirs.clone();
        };
        let (mut dirs, runtime) = (given.clone(), place::runtime_units(&self.runtime_asked));
        if !dirs.contains(&runtime) {
            dirs.insert(dirs.len().min(1), runtime);
        }
        dirs
    }

    /// The runtime directory, even if it is not writable.
    pub(crate) fn runtime(&self) -> &str {
        &self.runtime_asked
    }

    /// The policy file of this boot. It is never the file of `--policy`: otherwise removing a mask
    /// from one of the two policies would remove it from the other.
    pub(crate) fn runtime_policy(&self) -> String {
        let usual = place::runtime_policy(&self.runtime_asked);
        match is_same(&usual, &self.policy) {
            true => format!("{}/policy-of-boot.yaml", self.runtime_asked),
            false => usual,
        }
    }

    /// The default unit directories without the runtime one.
    pub(crate) fn standard_units(&self) -> Vec<String> {
        let runtime = place::runtime_units(&self.runtime_asked);
        self.defaults.unit_dirs.iter().filter(|dir| **dir != runtime).cloned().collect()
    }

    /// The directory of state that survives a reboot.
    pub(crate) fn state_dir(&self, settings: &Settings) -> String {
        settings.state_dir.clone().unwrap_or_else(|| self.defaults.state_dir.clone())
    }

    /// The directory of log files.
    pub(crate) fn log_dir(&self, settings: &Settings) -> String {
        self.log_dir
            .clone()
            .or_else(|| settings.log_dir.clone())
            .unwrap_or_else(|| self.defaults.log_dir.clone())
    }
}

/// Creates the directory if it is missing. It must belong to init's user, because its owner
/// controls the sockets in it.
fn make_usable(dir: &str, uid: u32) -> io::Result<()> {
    let mode = if uid == 0 { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(dir)?;
    let found = symlink_metadata(dir)?;
    if !found.is_dir() && !std::fs::metadata(dir)?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    if found.is_dir() && found.uid() != uid && uid != 0 {
        return Err(io::Error::other("it belongs to another user"));
    }
    check_owners(Path::new(dir), uid)?;
    check_owners(&std::fs::canonicalize(dir)?, uid)?;
    nix::unistd::access(Path::new(dir), nix::unistd::AccessFlags::W_OK)?;
    match is_taken(dir) {
        true => Err(io::Error::other("another init uses it; name another one with --runtime-dir")),
        false => Ok(()),
    }
}

/// Returns true if another init listens at the control socket in this directory. The kernel has the
/// credentials of its listen(2); a process outside this pid namespace has pid 0. unix(7).
fn is_taken(dir: &str) -> bool {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let Ok(socket) = socket(AddressFamily::Unix, SockType::Stream, flags, None) else {
        return false;
    };
    let Ok(address) = UnixAddr::new(place::control_socket(dir).as_str()) else { return false };
    let own = nix::unistd::getpid().as_raw();
    connect(socket.as_raw_fd(), &address).is_ok()
        && getsockopt(&socket, sockopt::PeerCredentials).is_ok_and(|peer| peer.pid() != own)
}

/// Checks that no other user can replace the directory or its contents. Each directory and link on
/// its path must belong to root, to init's user or to the owner of `/`. In a user namespace that
/// owner may be neither of them. No other user may write to it, unless it has the sticky bit.
fn check_owners(dir: &Path, uid: u32) -> io::Result<()> {
    let owner_of_root = std::fs::metadata("/")?.uid();
    for step in dir.ancestors().filter(|step| step.is_absolute()) {
        let found = symlink_metadata(step)?;
        let refused = |fact: &str| {
            let hint = "use --runtime-dir to name a directory that only init's user can change";
            io::Error::other(format!("{} {fact}; {hint}", step.display()))
        };
        if ![0, uid, owner_of_root].contains(&found.uid()) {
            return Err(refused(&format!("belongs to uid {}", found.uid())));
        }
        if found.is_dir() && found.mode() & 0o1002 == 0o002 {
            return Err(refused("is writable by every user and has no sticky bit"));
        }
    }
    Ok(())
}

/// Returns true if both paths are, or would be, one file.
fn is_same(one: &str, other: &str) -> bool {
    let place = |path: &str| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        let in_directory = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(in_directory).unwrap_or(path)
    };
    place(one) == place(other)
}

/// Makes the path absolute, because services run in `/` and must find the notify socket.
fn absolute(path: String) -> String {
    let absolute = std::path::absolute(&path).ok();
    absolute.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::{absolute, check_owners, is_same};
    use std::fs::{Permissions, create_dir_all, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn runtime_directory_that_another_user_can_replace_is_refused() {
        let top = std::env::temp_dir().join(format!("groundstate-paths-{}", std::process::id()));
        let dir = top.join("parent/run");
        create_dir_all(&dir).unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        let mode = |path: &std::path::Path, mode| {
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        assert!(check_owners(&dir, uid).is_ok());
        for at in [&dir, &top.join("parent")] {
            mode(at, 0o777);
            assert!(check_owners(&dir, uid).unwrap_err().to_string().contains("sticky bit"));
            mode(at, 0o1777);
            assert!(check_owners(&dir, uid).is_ok());
            mode(at, 0o755);
        }
        let link = top.join("link");
        symlink(&dir, &link).unwrap();
        assert!(check_owners(&link, uid).is_ok());
        if uid == 0 {
            std::os::unix::fs::lchown(&link, Some(1000), None).unwrap();
            assert!(check_owners(&link, uid).unwrap_err().to_string().contains("uid 1000"));
            for at in [&dir, &top.join("parent")] {
                chown(at, Some(1000), None).unwrap();
                assert!(check_owners(&dir, uid).unwrap_err().to_string().contains("uid 1000"));
                chown(at, Some(0), None).unwrap();
            }
        }
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn two_paths_of_one_file_are_equal() {
        let top = std::env::temp_dir().join(format!("groundstate-same-{}", std::process::id()));
        create_dir_all(top.join("run")).unwrap();
        symlink(top.join("run"), top.join("link")).unwrap();
        let at = |name: &str| top.join(name).display().to_string();
        assert!(is_same(&at("run/policy.yaml"), &at("link/policy.yaml")));
        assert!(is_same(&at("run/policy.yaml"), &at("run/../run//policy.yaml")));
        assert!(!is_same(&at("run/policy.yaml"), &at("policy.yaml")));
        std::fs::write(at("run/policy.yaml"), "").unwrap();
        symlink(at("run/policy.yaml"), at("policy.yaml")).unwrap();
        assert!(is_same(&at("run/policy.yaml"), &at("policy.yaml")));
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn relative_runtime_directory_becomes_absolute() {
        let relative = absolute("run/groundstate".to_string());
        assert!(relative.starts_with('/') && relative.ends_with("/run/groundstate"), "{relative}");
        assert_eq!(absolute("/run/x".to_string()), "/run/x");
    }
}
