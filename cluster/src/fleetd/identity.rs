//! The machine's identity and its published record.
//! The identity has the machine id, the boot id, a token per boot and a token per disk. The boot
//! token distinguishes a restarted fleetd from a second machine with the same id. The disk token
//! distinguishes a rebooted machine from a second one.

use super::config::Config;
use crate::api::listener::{self, ListenAddress};
use crate::log;
use crate::machine::MachineId;
use crate::record::MachineRecord;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;

/// Interval between checks of the machine's address.
pub const ADDRESS_CHECK: Duration = Duration::from_secs(60);
/// A random UUID, new at each reading.
const RANDOM: &str = "/proc/sys/kernel/random/uuid";
/// The kernel's id of this boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// File with the disk token in `state_directory`.
const DISK: &str = "disk";
/// Maximum size of a token file in bytes.
const LONGEST_TOKEN: u64 = 256;
/// An address reached over the default route (RFC 5737); no packet is sent.
const FAR_AWAY: &str = "192.0.2.1:9";

/// The identity of a machine and its boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// From `machine_id_file`.
    pub id: MachineId,
    /// The kernel's boot id.
    pub boot: String,
    /// The token of this boot.
    pub instance: String,
    /// The token of the disk; `None` if it cannot be stored.
    pub disk: Option<String>,
}

impl Identity {
    /// Reads the identity and creates missing tokens.
    ///
    /// # Errors
    /// The file that cannot be read or written.
    pub fn of(config: &Config) -> Result<Identity, String> {
        let boot = read(Path::new(BOOT))?;
        let text = read(&config.machine_id_file)?;
        let fault = |error: &dyn std::fmt::Display| {
            format!("{}: {error}", config.machine_id_file.display())
        };
        let id = MachineId::new(&text).map_err(|error| fault(&error))?;
        let directory = config.units_directory.parent().unwrap_or(&config.units_directory);
        let disk = disk(&config.state_directory).map_err(|why| {
            log::error(format_args!(
                "{why}: after a reboot, this machine waits until its old key expires"
            ));
        });
        Ok(Identity { id, instance: instance(directory, &boot)?, boot, disk: disk.ok() })
    }

    /// The machine's published record.
    pub fn record(&self, config: &Config) -> MachineRecord {
        let ip = match config.public_ip.as_str() {
            "" => default_address(),
            given => given.to_string(),
        };
        MachineRecord {
            listen: config.advertise.clone().or_else(|| api_address(config, &ip)),
            ip,
            metadata: config.metadata.clone(),
            boot: self.boot.clone(),
            instance: self.instance.clone(),
            disk: self.disk.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
        }
    }

    /// Publishes the record if it has changed.
    pub fn publish(&self, config: &Config, sender: &watch::Sender<MachineRecord>) {
        let now = self.record(config);
        sender.send_if_modified(|published| {
            let is_news = *published != now;
            *published = now;
            is_news
        });
    }
}

/// Returns the address of the API for other machines: only with TLS, and not a loopback address.
fn api_address(config: &Config, ip: &str) -> Option<String> {
    config.tls_cert_file.as_ref()?;
    let reached = |place| match place {
        ListenAddress::Tcp(at) if at.ip().is_loopback() || at.port() == 0 => None,
        ListenAddress::Tcp(at) if at.ip().is_unspecified() => {
            Some(SocketAddr::new(ip.parse().ok()?, at.port()))
        }
        ListenAddress::Tcp(at) => Some(at),
        ListenAddress::Unix(_) => None,
    };
    let places = listener::listen_addresses(&config.listen).ok()?;
    places.into_iter().find_map(reached).map(|at| at.to_string())
}

fn read(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path);
    Ok(text.map_err(|error| format!("{}: {error}", path.display()))?.trim().to_string())
}

/// Returns the token of this boot; a token of another boot is replaced.
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
    let fault = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(directory).map_err(fault)?;
    let fresh = directory.join(".instance.new");
    std::fs::write(&fresh, format!("{boot} {token}\n")).map_err(fault)?;
    std::fs::rename(&fresh, &path).map_err(fault)?;
    Ok(token)
}

/// Returns the token of the disk, and creates it if missing.
fn disk(directory: &Path) -> Result<String, String> {
    let path = directory.join(DISK);
    let fault = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    match File::open(&path) {
        Ok(file) => {
            file.take(LONGEST_TOKEN).read_to_string(&mut text).map_err(fault)?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(fault(error)),
    }
    // A machine crash may have truncated the line; fleetd then creates another token.
    if let Some(token) = text.strip_suffix('\n').filter(|token| !token.is_empty()) {
        return Ok(token.to_string());
    }
    let token = read(Path::new(RANDOM))?;
    std::fs::create_dir_all(directory).map_err(fault)?;
    let fresh = directory.join(".disk.new");
    let mut open = File::options();
    let mut file =
        open.create(true).truncate(true).write(true).mode(0o600).open(&fresh).map_err(fault)?;
    file.write_all(format!("{token}\n").as_bytes()).map_err(fault)?;
    file.sync_data().map_err(fault)?;
    std::fs::rename(&fresh, &path).map_err(fault)?;
    Ok(token)
}

/// Returns the address of the interface with the default route, or an empty text.
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
    fn machine_record_is_published_when_it_changes() {
        let at = |ip: &str| {
            let text = format!("public_ip={ip}\n");
            Config::read(Some(("fleet.conf", &text)), &BTreeMap::new()).unwrap().0
        };
        let id = MachineId::new("m1").unwrap();
        let identity =
            Identity { id, boot: "b".to_string(), instance: "i".to_string(), disk: None };
        let (sender, mut receiver) = watch::channel(identity.record(&at("192.0.2.1")));
        identity.publish(&at("192.0.2.1"), &sender);
        assert!(!receiver.has_changed().unwrap());
        identity.publish(&at("192.0.2.2"), &sender);
        assert!(receiver.has_changed().unwrap());
        assert_eq!(receiver.borrow_and_update().ip, "192.0.2.2");
    }

    #[test]
    fn published_api_address_is_one_with_tls_that_others_can_reach() {
        let id = MachineId::new("m1").unwrap();
        let identity =
            Identity { id, boot: "b".to_string(), instance: "i".to_string(), disk: None };
        let listen_of = |text: &str| {
            let text = format!("public_ip=192.0.2.1\n{text}");
            let config = Config::read(Some(("fleet.conf", &text)), &BTreeMap::new()).unwrap().0;
            identity.record(&config).listen
        };
        let tls = "tls_cert_file=/c\ntls_key_file=/k\ntls_client_ca_file=/a\n";
        for (listen, reached) in [
            ("unix:///run/fleet.sock", None),
            ("tcp://127.0.0.1:4002", None),
            ("tcp://192.0.2.9:4002", Some("192.0.2.9:4002")),
            ("unix:///run/fleet.sock,tcp://[::1]:1,tcp://0.0.0.0:4002", Some("192.0.2.1:4002")),
            ("tcp://[::]:4002\nadvertise=node:9", Some("node:9")),
        ] {
            assert_eq!(
                listen_of(&format!("{tls}listen={listen}\n")).as_deref(),
                reached,
                "{listen}"
            );
        }
        assert_eq!(
            listen_of("listen=tcp://192.0.2.9:4002\n"),
            None,
            "without TLS no address is published"
        );
    }

    #[test]
    fn machine_id_comes_from_machine_id_file() {
        let read = |text: &str| Config::read(Some(("f.conf", text)), &BTreeMap::new()).unwrap().0;
        assert_eq!(read("").machine_id_file, Path::new("/etc/machine-id"));
        let folder = std::env::temp_dir().join(format!("fleet-id.{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = |id: &str| {
            std::fs::write(folder.join("machine-id"), id).unwrap();
            let at = folder.display();
            read(&format!(
                "machine_id_file={at}/machine-id\nunits_directory={at}/units\nstate_directory={at}\n"
            ))
        };
        let id = "0123456789abcdef0123456789abcdef";
        let identity = Identity::of(&config(&format!("{id}\n"))).unwrap();
        assert_eq!(identity.id.to_string(), id);
        assert!(Identity::of(&config("\n")).unwrap_err().contains("machine-id"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn disk_token_is_created_once_and_readable_only_by_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("fleet-disk.{}", std::process::id()));
        let made = disk(&folder).unwrap();
        assert_eq!(disk(&folder).as_ref(), Ok(&made));
        let mode = std::fs::metadata(folder.join(DISK)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(folder.join(DISK), &made[..9]).unwrap();
        let second = disk(&folder).unwrap();
        assert_ne!(second, made, "a truncated token is replaced");
        std::fs::remove_file(folder.join(DISK)).unwrap();
        std::fs::create_dir(folder.join(DISK)).unwrap();
        assert!(disk(&folder).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
