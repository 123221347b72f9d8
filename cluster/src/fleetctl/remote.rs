//! status and journal run a command on a unit's machine: by ssh, or locally if that is this
//! machine. ssh always connects. fd-forward is the remote end of a tunnel to a unix socket.

use super::arguments::{Journal, Ssh, SshPort};
use super::bring_down::name_of;
use super::output::say;
use super::session::{Session, is_global};
use super::ssh::{SshOptions, exit_code, quoted};
use super::trouble::Trouble;
use crate::wire::Unit;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

/// Returns the id of this machine.
fn own_machine() -> Option<String> {
    let text = std::fs::read_to_string("/etc/machine-id").ok()?;
    Some(text.trim().to_string()).filter(|id| !id.is_empty())
}

/// Runs a command on a machine, or locally if it is this one. Returns its exit code.
pub(super) async fn run_on(
    session: &mut Session,
    id: &str,
    words: &[&str],
    port: u16,
) -> Result<u8, Trouble> {
    if own_machine().as_deref() == Some(id) {
        let (program, rest) = words.split_first().ok_or_else(|| Trouble::new("no command"))?;
        let ended = exit_code(Command::new(program).args(rest));
        return ended.map_err(|error| Trouble::new(format!("{program}: {error}")));
    }
    let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let ssh = reach(session, id, port).await?;
    ssh.run(Some(&line.join(" "))).map_err(|error| Trouble::new(format!("ssh: {error}")))
}

async fn reach(session: &mut Session, id: &str, port: u16) -> Result<SshOptions, Trouble> {
    let globals = session.globals.clone();
    let machines = session.machines().await?;
    let ip = machines.iter().find(|machine| machine.id == id).map(|machine| &machine.primary_ip);
    match ip {
        None => Err(Trouble::new(format!("Machine {id} is not in the cluster"))),
        Some(ip) if ip.is_empty() => {
            Err(Trouble::new(format!("Machine {id} publishes no address")))
        }
        Some(ip) => SshOptions::machine(&globals, ip, port).map_err(|why| {
            Trouble::new(format!("Machine {id} publishes an invalid address: {why}"))
        }),
    }
}

/// Returns a unit that is on a machine.
async fn loaded(session: &mut Session, name: &str) -> Result<Unit, Trouble> {
    let unit = session.client.unit(name).await?;
    let unit = unit.ok_or_else(|| Trouble::new(format!("Unit {name} does not exist.")))?;
    if !is_global(&unit) && unit.current_state == "inactive" {
        return Err(Trouble::new(format!("Unit {name} does not appear to be loaded.")));
    }
    Ok(unit)
}

pub(super) async fn status(
    session: &mut Session,
    units: &[String],
    port: &SshPort,
) -> Result<u8, Trouble> {
    let mut code = 0;
    for (at, argument) in units.iter().enumerate() {
        let name = name_of(argument);
        let unit = loaded(session, &name).await?;
        let on = match is_global(&unit) {
            false => vec![unit.machine_id.clone()],
            true => {
                let states = session.client.states().await?;
                let own = states.into_iter().filter(|state| state.name == name);
                own.map(|state| state.machine_id).collect()
            }
        };
        if on.is_empty() {
            return Err(Trouble::new(format!("Unit {name} does not appear to be loaded.")));
        }
        for (turn, id) in on.iter().enumerate() {
            if at > 0 || turn > 0 {
                say("");
            }
            let mut words = vec!["systemctl", "status", "-l", &name];
            if name.starts_with('-') {
                words.insert(3, "--");
            }
            code = run_on(session, id, &words, port.ssh_port).await?;
        }
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(code)
}

pub(super) async fn journal(session: &mut Session, what: &Journal) -> Result<u8, Trouble> {
    let name = name_of(&what.unit);
    let unit = loaded(session, &name).await?;
    if is_global(&unit) {
        return Err(Trouble::new(format!("Unable to retrieve journal of global unit {name}.")));
    }
    let lines = what.lines.to_string();
    let mut words = vec!["journalctl", "--unit", &name, "--no-pager", "-n", &lines];
    words.extend(["--output", &what.output]);
    if what.sudo {
        words.insert(0, "sudo");
    }
    if what.follow {
        words.push("-f");
    }
    run_on(session, &unit.machine_id, &words, what.ssh.ssh_port).await
}

pub(super) async fn ssh(session: &mut Session, what: &Ssh) -> Result<u8, Trouble> {
    let mut rest = what.rest.iter().map(String::as_str).peekable();
    let id = match (&what.machine, &what.unit) {
        (Some(_), Some(_)) => {
            return Err(Trouble::new(
                "Both machine and unit flags provided, please specify only one.",
            ));
        }
        (Some(machine), None) => super::inspection::machine(session, machine).await?,
        (None, Some(unit)) => of_unit(session, unit).await?,
        (None, None) => {
            let target =
                rest.next().ok_or_else(|| Trouble::new("Provide one machine or unit to go to."))?;
            either(session, target).await?
        }
    };
    if rest.peek() == Some(&"--") {
        rest.next();
    }
    let command = rest.collect::<Vec<_>>().join(" ");
    let ssh = reach(session, &id, what.ssh.ssh_port).await?.forwarding_agent(what.forward_agent);
    let fault = |error| Trouble::new(format!("ssh: {error}"));
    match command.is_empty() {
        true => ssh.interactive().run(None).map_err(fault),
        false => ssh.run(Some(&command)).map_err(fault),
    }
}

async fn of_unit(session: &mut Session, named: &str) -> Result<String, Trouble> {
    let name = name_of(named);
    let unit = session.client.unit(&name).await?;
    let unit = unit.ok_or_else(|| Trouble::new(format!("Unit {name} does not exist.")))?;
    if is_global(&unit) {
        return Err(Trouble::new(format!("Unit {name} is global: name a machine.")));
    }
    if unit.machine_id.is_empty() {
        return Err(Trouble::new(format!("Unit {name} is on no machine.")));
    }
    Ok(unit.machine_id)
}

/// Resolves an argument that is either a machine or a unit; if it matches both, it is ambiguous.
async fn either(session: &mut Session, target: &str) -> Result<String, Trouble> {
    let machine = super::inspection::machine(session, target).await;
    let unit = session.client.unit(&name_of(target)).await?;
    match (machine, unit) {
        (Ok(_), Some(_)) => Err(Trouble::new(format!(
            "Ambiguous argument, both machine and unit found for {target}. Please use flag \
             --machine or --unit."
        ))),
        (Ok(id), None) => Ok(id),
        (Err(_), Some(_)) => of_unit(session, target).await,
        (Err(trouble), None) if trouble.message.contains("ambiguous") => Err(trouble),
        (Err(_), None) => {
            Err(Trouble::new(format!("Could not determine address of machine: {target}")))
        }
    }
}

/// Copies between stdin/stdout and a unix socket until either side ends.
pub(super) fn fd_forward(socket: &Path) -> Result<u8, Trouble> {
    let place = socket.display();
    let fault =
        |error: std::io::Error| Trouble::new(format!("unable to connect to {place}: {error}"));
    let stream = UnixStream::connect(socket).map_err(fault)?;
    let back = stream.try_clone().map_err(fault)?;
    // The end of one direction ends both: the other thread ends with the process.
    let (done, ended) = mpsc::channel();
    let first = done.clone();
    std::thread::spawn(move || first.send(pass(std::io::stdin(), stream)));
    std::thread::spawn(move || done.send(pass(back, std::io::stdout())));
    match ended.recv() {
        Ok(Err(error)) => Err(Trouble::new(format!("{place}: {error}"))),
        Ok(Ok(())) | Err(_) => Ok(0),
    }
}

/// Passes on each chunk at once, because the peer waits for it.
fn pass(mut from: impl Read, mut to: impl Write) -> std::io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let bytes = match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(piece.get(..bytes).unwrap_or_default())?;
        to.flush()?;
    }
}
