//! Shared state of all commands: the client, the global flags, and the known machines.

use super::arguments::Globals;
use super::client::Client;
use super::connection::Connection;
use super::trouble::Trouble;
use crate::signature::SigningKey;
use crate::wire::{Machine, Unit};

/// One run of fleetctl.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) globals: Globals,
    machines: Option<Vec<Machine>>,
}

impl Session {
    pub(super) fn open(globals: Globals) -> Result<Session, Trouble> {
        if globals.driver != "API" {
            let words = match globals.driver.as_str() {
                "etcd" => "the driver etcd is no longer supported: use a fleetd, with --endpoint",
                _ => "unrecognized driver",
            };
            return Err(Trouble::new(format!("Unable to initialize client: {words}")));
        }
        let client =
            Client { connection: Connection::new(&globals)?, signing_key: signing_key(&globals)? };
        Ok(Session { client, globals, machines: None })
    }

    /// Returns the machines; asks once.
    pub(super) async fn machines(&mut self) -> Result<&[Machine], Trouble> {
        if self.machines.is_none() {
            self.machines = Some(self.client.machines().await?);
        }
        Ok(self.machines.as_deref().unwrap_or_default())
    }

    /// Forgets the machines, so that they are asked for again.
    pub(super) fn forget_machines(&mut self) {
        self.machines = None;
    }

    /// Returns ` on 282f949f.../10.0.0.1`, or nothing.
    pub(super) async fn place_suffix(&mut self, unit: &Unit) -> String {
        if unit.machine_id.is_empty() {
            return String::new();
        }
        let id = unit.machine_id.clone();
        let machines = self.machines().await.unwrap_or_default();
        let known = machines.iter().find(|machine| machine.id == id);
        let legend = match known {
            Some(machine) => legend(&machine.id, &machine.primary_ip, false),
            None => short(&id),
        };
        format!(" on {legend}")
    }
}

fn signing_key(globals: &Globals) -> Result<Option<SigningKey>, Trouble> {
    let Some(path) = &globals.sign_key else { return Ok(None) };
    let fault = |why: String| Trouble::new(format!("{}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
    let cluster = globals.cluster_name.as_deref().unwrap_or_default();
    SigningKey::of(&pem, cluster).map(Some).map_err(fault)
}

/// Returns true for a global unit, for which the API has no current state.
pub(super) fn is_global(unit: &Unit) -> bool {
    unit.current_state.is_empty()
}

/// `282f949f...`
pub(super) fn short(id: &str) -> String {
    let cut: String = id.chars().take(crate::machine::SHORT).collect();
    format!("{cut}...")
}

/// `282f949f.../10.0.0.1`; without an address only the id.
pub(super) fn legend(id: &str, ip: &str, full: bool) -> String {
    let id = if full { id.to_string() } else { short(id) };
    if ip.is_empty() { id } else { format!("{id}/{ip}") }
}
