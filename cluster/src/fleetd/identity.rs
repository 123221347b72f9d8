//! Who this machine is: its id, this boot of it, a token made once a boot that tells a
//! restarted daemon from a second machine with the same id, and one made once for its disk that
//! tells a machine that was booted anew from that. And what it says of itself.

use super::config::Config;
use super::voice;
use crate::machine::MachineId;
use crate::record::MachineRecord;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;

/// The machine's address is looked at that often.
pub const LOOKED_AT: Duration = Duration::from_secs(60);
/// A random number in words, new at each reading.
const RANDOM: &str = "/proc/sys/kernel/random/uuid";
/// The kernel's name for this boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// In `state_directory`: the token of the disk.
const DISK: &str = "disk";
/// Bytes of one, and of the end of its line; far more than it ever has.
const LONGEST_TOKEN: u64 = 256;
/// An address to which the way leads over the default route (RFC 5737); nothing is sent.
const FAR_AWAY: &str = "192.0.2.1:9";

/// Which machine, and which run of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// From its file.
    pub id: MachineId,
    /// From the kernel.
    pub boot: String,
    /// Ours.
    pub instance: String,
    /// Of the disk; `None`: nothing can be kept there.
    pub disk: Option<String>,
}

impl Identity {
    /// Reads it; a token is made where there is none yet.
    ///
    /// # Errors
    /// What can not be read or written, and which file.
    pub fn of(config: &Config) -> Result<Identity, String> {
        let boot = read(Path::new(BOOT))?;
        let text = read(&config.machine_id_file)?;
        let told = |error: &dyn std::fmt::Display| {
            format!("{}: {error}", config.machine_id_file.display())
        };
        let id = MachineId::new(&text).map_err(|error| told(&error))?;
        let directory = config.units_directory.parent().unwrap_or(&config.units_directory);
        let disk = disk(&config.state_directory).map_err(|why| {
            voice::error(format_args!(
                "{why}: booted anew, this machine waits for the end of its old key"
            ));
        });
        Ok(Identity { id, instance: instance(directory, &boot)?, boot, disk: disk.ok() })
    }

    /// What the machine says of itself.
    pub fn record(&self, config: &Config) -> MachineRecord {
        let ip = match config.public_ip.as_str() {
            "" => default_address(),
            given => given.to_string(),
        };
        MachineRecord {
            ip,
            metadata: config.metadata.clone(),
            boot: self.boot.clone(),
            instance: self.instance.clone(),
            disk: self.disk.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            listen: config.advertise.clone(),
        }
    }

    /// Tells it to the cluster where it is another than was told before.
    pub fn tell(&self, config: &Config, told: &watch::Sender<MachineRecord>) {
        let now = self.record(config);
        told.send_if_modified(|told| {
            let is_news = *told != now;
            *told = now;
            is_news
        });
    }
}

fn read(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path);
    Ok(text.map_err(|error| format!("{}: {error}", path.display()))?.trim().to_string())
}

/// The token of this boot: one left from another boot, on a disk, does not count.
fn instance(directory: &Path, boot: &str) -> Result<String, String> {
    let path = directory.join("instance");
    if let Ok(text) = read(&path)
        && let Some((of, token)) = text.split_once(' ')
        && of == boot
        && !token.is_empty()
    {
        return Ok(token.to_string());
    }
    let token = read(Path::new(RANDOM))?;
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(directory).map_err(told)?;
    let fresh = directory.join(".instance.new");
    std::fs::write(&fresh, format!("{boot} {token}\n")).map_err(told)?;
    std::fs::rename(&fresh, &path).map_err(told)?;
    Ok(token)
}

/// The token of the disk, as it stands there or is made now.
fn disk(directory: &Path) -> Result<String, String> {
    let path = directory.join(DISK);
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    match File::open(&path) {
        Ok(file) => {
            file.take(LONGEST_TOKEN).read_to_string(&mut text).map_err(told)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(told(error)),
    }
    // A line that was cut off by a fall of the machine is none.
    if let Some(token) = text.strip_suffix('\n').filter(|token| !token.is_empty()) {
        return Ok(token.to_string());
    }
    let token = read(Path::new(RANDOM))?;
    std::fs::create_dir_all(directory).map_err(told)?;
    let fresh = directory.join(".disk.new");
    let mut open = File::options();
    let mut file =
        open.create(true).truncate(true).write(true).mode(0o600).open(&fresh).map_err(told)?;
    file.write_all(format!("{token}\n").as_bytes()).map_err(told)?;
    file.sync_data().map_err(told)?;
    std::fs::rename(&fresh, &path).map_err(told)?;
    Ok(token)
}

/// Of the interface with the default route; empty without one.
fn default_address() -> String {
    let found = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect(FAR_AWAY)?;
        socket.local_addr()
    });
    match found {
        Ok(address) if !address.ip().is_unspecified() => address.ip().to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_a_machine_says_of_itself_is_told_when_it_is_another() {
        let at = |ip: &str| {
            let text = format!("public_ip={ip}\n");
            Config::read(Some(("fleet.conf", &text)), &BTreeMap::new()).unwrap().0
        };
        let id = MachineId::new("m1").unwrap();
        let identity =
            Identity { id, boot: "b".to_string(), instance: "i".to_string(), disk: None };
        let (told, mut heard) = watch::channel(identity.record(&at("192.0.2.1")));
        identity.tell(&at("192.0.2.1"), &told);
        assert!(!heard.has_changed().unwrap());
        identity.tell(&at("192.0.2.2"), &told);
        assert!(heard.has_changed().unwrap());
        assert_eq!(heard.borrow_and_update().ip, "192.0.2.2");
    }

    #[test]
    fn the_token_of_a_disk_is_made_once_and_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("fleet-disk.{}", std::process::id()));
        let made = disk(&folder).unwrap();
        assert_eq!(disk(&folder).as_ref(), Ok(&made));
        let mode = std::fs::metadata(folder.join(DISK)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(folder.join(DISK), &made[..9]).unwrap();
        let anew = disk(&folder).unwrap();
        assert_ne!(anew, made, "half a line is none");
        std::fs::remove_file(folder.join(DISK)).unwrap();
        std::fs::create_dir(folder.join(DISK)).unwrap();
        assert!(disk(&folder).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
