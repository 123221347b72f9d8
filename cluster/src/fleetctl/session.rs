//! What all commands share: the client, the global flags, and how to speak.

use super::arguments::Globals;
use super::client::Client;
use super::connection::Connection;
use super::progress;
use super::table::plain;
use super::trouble::Trouble;
use crate::signature::SigningKey;
use crate::wire::{Machine, Unit};
use groundstate_units::text::{visible, visible_json};
use std::io::Write;

/// One call of fleetctl.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) globals: Globals,
    machines: Option<Vec<Machine>>,
}

impl Session {
    pub(super) fn open(globals: Globals) -> Result<Session, Trouble> {
        if globals.driver != "API" {
            let words = match globals.driver.as_str() {
                "etcd" => "the driver etcd is gone: ask a fleetd, with --endpoint",
                _ => "unrecognized driver",
            };
            return Err(Trouble::new(format!("Unable to initialize client: {words}")));
        }
        let client =
            Client { connection: Connection::new(&globals)?, signs: signing_key(&globals)? };
        Ok(Session { client, globals, machines: None })
    }

    /// The machines, asked for once.
    pub(super) async fn machines(&mut self) -> Result<&[Machine], Trouble> {
        if self.machines.is_none() {
            self.machines = Some(self.client.machines().await?);
        }
        Ok(self.machines.as_deref().unwrap_or_default())
    }

    /// Forgets the machines, for a command that looks again.
    pub(super) fn look_again(&mut self) {
        self.machines = None;
    }

    /// ` on 282f949f.../10.0.0.1`, or nothing.
    pub(super) async fn whereabouts(&mut self, unit: &Unit) -> String {
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
    let told = |why: String| Trouble::new(format!("{}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| told(error.to_string()))?;
    let cluster = globals.cluster_name.as_deref().unwrap_or_default();
    SigningKey::of(&pem, cluster).map(Some).map_err(told)
}

/// A global unit: the API says nothing of how far it has come.
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

/// Lines with what machines and units say of themselves, which may be anything.
fn cleaned(lines: &str) -> String {
    lines.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// A line on stdout, or several. Who closed it does not want to hear more.
pub(super) fn say(line: &str) {
    progress::clear();
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", cleaned(line));
    let _ = out.flush();
}

/// Text on stdout. False: its reader is gone.
pub(super) fn write(text: &str) -> bool {
    progress::clear();
    let mut out = std::io::stdout().lock();
    out.write_all(visible(text).as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Clears the terminal and returns to its top.
pub(super) fn clear_terminal() {
    let _ = std::io::stdout().lock().write_all(b"\x1b[H\x1b[2J");
}

/// A line on stderr, or several.
pub(super) fn warn(line: &str) {
    progress::clear();
    let _ = writeln!(std::io::stderr().lock(), "{}", cleaned(line));
}

/// One JSON value on stdout.
pub(super) fn say_json<T: serde::Serialize>(value: &T) {
    write(&json_line(value));
}

/// One JSON value, and the end of its line.
pub(super) fn json_line<T: serde::Serialize>(value: &T) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    format!("{}\n", visible_json(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_holds_the_terminal_no_orders() {
        assert_eq!(cleaned("a\u{1b}[2J\n\u{9b}1mb\r"), "a\u{fffd}[2J\n\u{fffd}1mb\u{fffd}");
        let value = "a\u{1b}\u{9b}\u{7f}é\u{202e}\u{e0041}";
        let text = json_line(&value);
        assert_eq!(text, "\"a\\u001b\\u009b\\u007fé\\u202e\\udb40\\udc41\"\n");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
    }
}
