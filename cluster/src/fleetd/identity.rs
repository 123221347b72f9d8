//! Who this machine is: its id, this boot of it, and a token made once a boot that tells
//! a restarted daemon from a second machine with the same id. And what it says of itself.

use super::config::Config;
use crate::machine::MachineId;
use crate::record::MachineRecord;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;

/// The machine's address is looked at that often.
pub const LOOKED_AT: Duration = Duration::from_secs(60);
/// A random number in words, new at each reading.
const RANDOM: &str = "/proc/sys/kernel/random/uuid";
/// The kernel's name for this boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
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
        Ok(Identity { id, instance: instance(directory, &boot)?, boot })
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
        let identity = Identity { id, boot: "b".to_string(), instance: "i".to_string() };
        let (told, mut heard) = watch::channel(identity.record(&at("192.0.2.1")));
        identity.tell(&at("192.0.2.1"), &told);
        assert!(!heard.has_changed().unwrap());
        identity.tell(&at("192.0.2.2"), &told);
        assert!(heard.has_changed().unwrap());
        assert_eq!(heard.borrow_and_update().ip, "192.0.2.2");
    }
}
