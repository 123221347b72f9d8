//! Runs the system's ssh. Keys, agents and known hosts follow its own files and options.

use super::arguments::Globals;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tokio::net::UnixStream;

/// How to reach a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SshOptions {
    host: String,
    port: u16,
    user: String,
    jump: Option<Box<SshOptions>>,
    known_hosts: PathBuf,
    strict: bool,
    timeout: u64,
    forward_agent: bool,
    terminal: bool,
}

impl SshOptions {
    /// `HOST[:PORT]`
    pub(super) fn to(globals: &Globals, target: &str) -> SshOptions {
        let split = target.rsplit_once(':').filter(|(host, _)| !host.contains(':'));
        let (host, port) = match split.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
            Some((host, port)) => (host.to_string(), port),
            None => (target.trim_matches(['[', ']']).to_string(), 22),
        };
        let known = globals.known_hosts_file.strip_prefix("~/").map(|rest| {
            let home = std::env::var_os("HOME").unwrap_or_default();
            PathBuf::from(home).join(rest)
        });
        SshOptions {
            host,
            port,
            user: globals.ssh_username.clone(),
            jump: None,
            known_hosts: known.unwrap_or_else(|| PathBuf::from(&globals.known_hosts_file)),
            strict: globals.strict_host_key_checking,
            // ssh takes whole seconds, and treats 0 as no timeout.
            timeout: globals.ssh_timeout.clamp(1.0, 3600.0).ceil() as u64,
            forward_agent: false,
            terminal: false,
        }
    }

    /// A machine of the cluster, through the tunnel if there is one. Its published address is
    /// untrusted: it must not become an option of ssh or words of a shell.
    ///
    /// # Errors
    /// The text is not an address.
    pub(super) fn machine(globals: &Globals, ip: &str, port: u16) -> Result<SshOptions, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || ".:-_".contains(c);
        if ip.starts_with('-') || !ip.chars().all(plain) {
            return Err(format!("{ip:?} is not an address"));
        }
        let jump = globals.tunnel.as_ref().filter(|host| !host.is_empty());
        let jump = jump.map(|host| Box::new(SshOptions::to(globals, host)));
        Ok(SshOptions { host: ip.to_string(), port, jump, ..SshOptions::to(globals, ip) })
    }

    pub(super) fn forwarding_agent(mut self, forward: bool) -> SshOptions {
        self.forward_agent = forward;
        self
    }

    /// Requests a terminal on the remote side.
    pub(super) fn interactive(mut self) -> SshOptions {
        self.terminal = true;
        self
    }

    /// Returns the arguments of ssh without the remote command.
    fn words(&self) -> Vec<String> {
        let mut words = vec![
            "-p".to_string(),
            self.port.to_string(),
            "-l".to_string(),
            self.user.clone(),
            "-o".to_string(),
            format!("ConnectTimeout={}", self.timeout),
            "-o".to_string(),
        ];
        match self.strict {
            true => words.push(format!("UserKnownHostsFile={}", self.known_hosts.display())),
            false => {
                words.push("UserKnownHostsFile=/dev/null".to_string());
                words.extend(
                    ["-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"].map(String::from),
                );
            }
        }
        if let Some(jump) = &self.jump {
            words.extend(["-o".to_string(), format!("ProxyCommand={}", jump.proxy_command())]);
        }
        if self.forward_agent {
            words.push("-A".to_string());
        }
        if self.terminal {
            words.push("-t".to_string());
        }
        words.push(self.host.clone());
        words
    }

    /// Returns the ProxyCommand that reaches hosts behind this one. With `-J`, ssh would look up
    /// this host in the user's own known hosts instead of ours.
    fn proxy_command(&self) -> String {
        let mut words = self.words();
        let host = words.pop().unwrap_or_default();
        let words: Vec<String> = words.iter().chain([&host]).map(|word| quoted(word)).collect();
        // ssh expands `%`.
        format!("ssh -W [%h]:%p {}", words.join(" ").replace('%', "%%"))
    }

    fn prepare(&self) -> Command {
        if let Some(folder) = self.known_hosts.parent().filter(|_| self.strict) {
            // Without the folder ssh cannot store new keys.
            let _ = std::fs::create_dir_all(folder);
        }
        let mut command = Command::new("ssh");
        command.args(self.words());
        command
    }

    /// Runs a command there, or a shell without one. Returns the remote exit code.
    pub(super) fn run(&self, remote: Option<&str>) -> std::io::Result<u8> {
        let mut command = self.prepare();
        command.args(remote);
        exit_code(&mut command)
    }

    /// Returns the remote stdin and stdout as one stream. If `words` start with `--`, the rest is
    /// the remote command; otherwise they are options of ssh.
    pub(super) fn stdio(&self, words: &[&str]) -> std::io::Result<UnixStream> {
        let (ours, theirs) = StdStream::pair()?;
        let mut all = self.words();
        let host = all.pop();
        match words {
            ["--", remote] => all.extend(host.into_iter().chain([remote.to_string()])),
            options => all.extend(options.iter().map(ToString::to_string).chain(host)),
        }
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new("ssh");
        command.args(all).stdin(Stdio::from(theirs.try_clone()?)).stdout(Stdio::from(theirs));
        // The process ends with the stream; its exit code is not needed.
        command.spawn()?;
        ours.set_nonblocking(true)?;
        UnixStream::from_std(ours)
    }
}

/// Quotes a word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Returns the exit code as a shell does: 128 plus the signal for a killed process.
pub(super) fn exit_code(command: &mut Command) -> std::io::Result<u8> {
    use std::os::unix::process::ExitStatusExt;
    let status = command.status()?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Line;
    use super::*;
    use clap::Parser;

    #[test]
    fn flags_become_options_of_ssh() {
        let words = |line: &str| {
            let line = Line::try_parse_from(line.split(' ')).unwrap();
            SshOptions::machine(&line.globals, "10.0.0.2", 22).unwrap().words().join(" ")
        };
        assert_eq!(
            words("fleetctl --known-hosts-file=/k"),
            "-p 22 -l core -o ConnectTimeout=10 -o UserKnownHostsFile=/k 10.0.0.2"
        );
        assert_eq!(
            words(
                "fleetctl --strict-host-key-checking=false --tunnel=jump:2222 --ssh-username=ann"
            ),
            "-p 22 -l ann -o ConnectTimeout=10 -o UserKnownHostsFile=/dev/null -o \
             StrictHostKeyChecking=no -o LogLevel=ERROR -o ProxyCommand=ssh -W [%h]:%p -p 2222 -l \
             ann -o ConnectTimeout=10 -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no \
             -o LogLevel=ERROR jump 10.0.0.2"
        );
        let through = words("fleetctl --known-hosts-file=/100%/it's --tunnel=jump");
        assert!(through.contains("'UserKnownHostsFile=/100%%/it'\\''s' jump"), "{through}");
    }

    #[test]
    fn published_address_cannot_become_an_option_or_a_command() {
        let line = Line::try_parse_from(["fleetctl", "--tunnel=jump"]).unwrap();
        let of = |ip: &str| SshOptions::machine(&line.globals, ip, 22);
        for good in ["10.0.0.2", "fe80::1", "node-1.example"] {
            assert!(of(good).is_ok(), "{good}");
        }
        for bad in ["-oProxyCommand=id", "a;id", "a b", "$(id)", "a%h", "a@b", "a\nb"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quoted_word_reaches_the_shell_unchanged() {
        assert_eq!(quoted("hello@1.service"), "hello@1.service");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("a'; rm x"), "'a'\\''; rm x'");
        assert_eq!(quoted(""), "''");
    }
}
