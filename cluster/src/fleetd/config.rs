//! The configuration: keys of fleet 1.0 and new ones, from a file of `key = value` lines and from
//! variables `FLEET_KEY`, which take precedence. All errors are reported at once. Unknown keys are
//! reported and ignored.

use crate::secret::Secret;
use crate::store::EtcdConfig;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The default file.
pub const DEFAULT_FILE: &str = "/etc/fleet/fleet.conf";

/// All keys, with default and description.
pub(super) const KEYS: [(&str, &str, &str); 33] = [
    ("verbosity", "0", "1 or more: log debug messages"),
    (
        "etcd_servers",
        "http://127.0.0.1:2379,http://127.0.0.1:4001",
        "etcd endpoints, comma-separated",
    ),
    ("etcd_username", "", "The etcd user"),
    ("etcd_password", "", "The password of the etcd user"),
    ("etcd_keyfile", "", "The key of the client certificate for etcd"),
    ("etcd_certfile", "", "The client certificate for etcd"),
    ("etcd_cafile", "", "The CA of etcd's certificates"),
    ("etcd_key_prefix", "/_coreos.com/fleet/", "Prefix of all keys of the cluster"),
    (
        "etcd_request_timeout",
        "1.0",
        "Timeout of etcd requests in seconds; at most a third of agent_ttl",
    ),
    (
        "engine_reconcile_interval",
        "2.0",
        "Interval of the engine in seconds; the leader's lease is five times this, or two thirds of agent_ttl if that is less",
    ),
    ("public_ip", "", "The address of this machine for others; empty: detected"),
    ("metadata", "", "Metadata of this machine: key=value, comma-separated"),
    ("agent_ttl", "30s", "How long this machine may be silent before it counts as gone"),
    (
        "units_directory",
        "/run/fleet/units/",
        "Kept for compatibility; its parent folder holds the files of this boot",
    ),
    ("token_limit", "100", "Items per page of the API"),
    ("disable_engine", "false", "This machine never leads"),
    (
        "listen",
        "",
        "Listen addresses of the API, besides sockets passed by init: unix:///PATH, tcp://ADDRESS:PORT, comma-separated",
    ),
    ("init_socket", "/run/groundstate/control.sock", "The control socket of the machine's init"),
    ("machine_id_file", "/etc/machine-id", "The file with the machine's id"),
    ("leave_on_stop", "true", "Stopping fleetd stops its units; false: only the exclusive ones"),
    ("reschedule_grace", "0s", "How long a silent machine keeps its units after agent_ttl"),
    ("tls_cert_file", "", "The server certificate of the API on TCP"),
    ("tls_key_file", "", "The key of tls_cert_file"),
    ("tls_client_ca_file", "", "The CA of client certificates"),
    ("tls_client_crl_file", "", "Revoked client certificates"),
    ("api_roles_file", "", "Roles of clients, by the names in their certificates"),
    (
        "advertise",
        "",
        "ADDRESS:PORT of this machine's API for other machines; empty: the first tcp:// in listen, if it has TLS",
    ),
    ("source", "fleet", "The source of init.yaml that holds fleetd's units"),
    ("log_socket", "/run/groundstate/log.sock", "The log socket of the machine's logger"),
    ("insecure_loopback", "false", "Allow TCP without TLS on loopback addresses only"),
    (
        "trusted_keys_file",
        "",
        "Public keys; only units signed with one of them run. Empty: all units run",
    ),
    (
        "cluster_name",
        "",
        "The cluster that signatures are for; signatures for other clusters are rejected",
    ),
    ("state_directory", "/var/lib/fleet/", "State that is kept across boots"),
];

/// Keys of fleet 1.0 that have no effect here.
const WITHOUT_MEANING: [(&str, &str); 5] = [
    ("systemd_user", "the init at init_socket runs the units"),
    ("enable_grpc", "machines do not use gRPC"),
    ("disable_watches", "watches are always used, with periodic full readings"),
    ("verify_units", "trusted_keys_file selects the trusted signatures"),
    ("authorized_keys_file", "trusted_keys_file selects the trusted signatures"),
];

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Log debug messages.
    pub debug: bool,
    /// The connection to etcd.
    pub etcd: EtcdConfig,
    /// Prefix of all keys.
    pub etcd_key_prefix: String,
    /// The leader's lease is five times this, or two thirds of `agent_ttl` if that is less.
    pub engine_reconcile_interval: Duration,
    /// The address for other machines; empty to detect it.
    pub public_ip: String,
    /// Metadata of the machine.
    pub metadata: BTreeMap<String, String>,
    /// Maximum silence of the machine.
    pub agent_ttl: Duration,
    /// Its parent folder holds the files of this boot.
    pub units_directory: PathBuf,
    /// Items per page of the API.
    pub token_limit: u16,
    /// The machine never leads.
    pub disable_engine: bool,
    /// Listen addresses of the API, besides passed sockets.
    pub listen: String,
    /// The control socket of the local init.
    pub init_socket: PathBuf,
    /// The file with the machine's id.
    pub machine_id_file: PathBuf,
    /// True if stopping fleetd stops its units.
    pub leave_on_stop: bool,
    /// How long after its lease has expired a silent machine keeps its units.
    pub reschedule_grace: Duration,
    /// Server certificate of the API.
    pub tls_cert_file: Option<PathBuf>,
    /// Its key.
    pub tls_key_file: Option<PathBuf>,
    /// CA of client certificates.
    pub tls_client_ca_file: Option<PathBuf>,
    /// Revoked client certificates.
    pub tls_client_crl_file: Option<PathBuf>,
    /// Roles of clients.
    pub api_roles_file: Option<PathBuf>,
    /// `ADDRESS:PORT` of the API for other machines.
    pub advertise: Option<String>,
    /// The name of fleetd's source at init.
    pub source: String,
    /// The socket of the local logger.
    pub log_socket: PathBuf,
    /// Allows TCP without TLS on loopback.
    pub insecure_loopback: bool,
    /// The keys whose signed units run; `None` to run all units.
    pub trusted_keys_file: Option<PathBuf>,
    /// The cluster that signatures must be for.
    pub cluster_name: String,
    /// State that is kept across boots.
    pub state_directory: PathBuf,
}

struct Values {
    values: BTreeMap<&'static str, (String, String)>,
    errors: Vec<String>,
}

impl Config {
    /// Reads a file (name and text) and the environment. Returns the configuration with warnings.
    ///
    /// # Errors
    /// All errors.
    pub fn read(
        file: Option<(&str, &str)>,
        environment: &BTreeMap<String, String>,
    ) -> Result<(Config, Vec<String>), Vec<String>> {
        let mut values = Values { values: BTreeMap::new(), errors: Vec::new() };
        let mut remarks = Vec::new();
        for (key, default, _) in KEYS {
            values.values.insert(key, (default.to_string(), "default".to_string()));
        }
        for (at, line) in file.map_or("", |(_, text)| text).lines().enumerate() {
            let place = format!("{}:{}", file.map_or("", |(name, _)| name), at + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';', '[']) {
                continue;
            }
            match line.split_once('=') {
                Some((key, value)) => {
                    values.set(&key.trim().to_lowercase(), plain(value), &place, &mut remarks);
                }
                // The line is not shown: it may contain part of a secret.
                None => values.errors.push(format!("{place}: the line is not `key = value`")),
            }
        }
        // As in fleet, an empty variable counts as unset.
        for (name, value) in environment.iter().filter(|(_, value)| !value.is_empty()) {
            if let Some(key) = name.strip_prefix("FLEET_") {
                values.set(&key.to_lowercase(), value, name, &mut remarks);
            }
        }
        let mut config = values.config();
        remarks.extend(values.limit_request_timeout(&mut config));
        if values.errors.is_empty() { Ok((config, remarks)) } else { Err(values.errors) }
    }
}

impl Values {
    fn set(&mut self, key: &str, value: &str, place: &str, remarks: &mut Vec<String>) {
        let key = if key == "insecure_loopback_only" { "insecure_loopback" } else { key };
        if let Some((known, ..)) = KEYS.iter().find(|(known, ..)| *known == key) {
            self.values.insert(known, (value.to_string(), place.to_string()));
        } else if let Some((_, why)) = WITHOUT_MEANING.iter().find(|(known, _)| *known == key) {
            remarks.push(format!("{place}: {key} is ignored: {why}"));
        } else {
            remarks.push(format!("{place}: unknown key {key}"));
        }
    }

    fn text(&self, key: &str) -> String {
        self.values.get(key).map_or(String::new(), |(value, _)| value.clone())
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    fn parsed<T: Default>(
        &mut self,
        key: &str,
        what: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let Some((value, place)) = self.values.get(key) else { return T::default() };
        parse(value.trim()).unwrap_or_else(|| {
            self.errors.push(format!("{place}: {key}: invalid value {value:?}: expected {what}"));
            T::default()
        })
    }

    /// Endpoints appear in messages, so they must not contain credentials.
    fn endpoints(&mut self) -> Vec<String> {
        let endpoints = list(&self.text("etcd_servers"));
        if endpoints.iter().any(|endpoint| endpoint.contains('@')) {
            let place = self.values.get("etcd_servers").map_or("", |(_, place)| place);
            self.errors.push(format!(
                "{place}: etcd_servers: set user and password in etcd_username and \
                 etcd_password, not in an address"
            ));
        }
        endpoints
    }

    /// Limits the timeout to a third of `agent_ttl`. A machine gives up its exclusive units when a
    /// third of the lease remains, and one answer must not take longer.
    fn limit_request_timeout(&self, config: &mut Config) -> Option<String> {
        let (timeout, ttl) = (config.etcd.request_timeout, config.agent_ttl);
        if timeout <= ttl / 3 || ttl.is_zero() {
            return None;
        }
        config.etcd.request_timeout = ttl / 3;
        let place = self.values.get("etcd_request_timeout").map_or("", |(_, place)| place);
        Some(format!(
            "{place}: etcd_request_timeout: {timeout:?} is more than a third of agent_ttl ({ttl:?}); \
             using that third: otherwise a machine could count as gone while it waits for an answer"
        ))
    }

    fn trusted_keys_file(&mut self) -> Option<PathBuf> {
        let file = self.path("trusted_keys_file")?;
        if self.text("cluster_name").is_empty() {
            let place = self.values.get("trusted_keys_file").map_or("", |(_, place)| place);
            self.errors.push(format!(
                "{place}: trusted_keys_file: cluster_name must be set too: otherwise units signed for \
                 another cluster would run here"
            ));
        }
        Some(file)
    }

    fn config(&mut self) -> Config {
        let seconds = "a number of seconds above zero";
        let duration = "a duration such as 30s";
        let yes = |text: &str| match text.to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" => Some(true),
            "false" | "0" | "no" | "off" | "f" | "" => Some(false),
            _ => None,
        };
        let etcd = EtcdConfig {
            endpoints: self.endpoints(),
            user: Some((self.text("etcd_username"), Secret::new(self.text("etcd_password"))))
                .filter(|(name, _)| !name.is_empty()),
            ca_file: self.path("etcd_cafile"),
            cert_file: self.path("etcd_certfile"),
            key_file: self.path("etcd_keyfile"),
            request_timeout: self.parsed("etcd_request_timeout", seconds, in_seconds),
        };
        Config {
            debug: self.parsed("verbosity", "a number", |text| text.parse::<i64>().ok()) > 0,
            etcd,
            etcd_key_prefix: self.text("etcd_key_prefix"),
            engine_reconcile_interval: self.parsed(
                "engine_reconcile_interval",
                seconds,
                in_seconds,
            ),
            public_ip: self.text("public_ip"),
            metadata: metadata(&self.text("metadata")),
            agent_ttl: self.parsed("agent_ttl", duration, |text| {
                go_duration(text).filter(|ttl| *ttl >= Duration::from_secs(1))
            }),
            units_directory: PathBuf::from(self.text("units_directory")),
            token_limit: self.parsed("token_limit", "a number from 1 to 65535", |text| {
                text.parse::<u16>().ok().filter(|limit| *limit > 0)
            }),
            disable_engine: self.parsed("disable_engine", "yes or no", yes),
            listen: self.text("listen"),
            init_socket: PathBuf::from(self.text("init_socket")),
            machine_id_file: PathBuf::from(self.text("machine_id_file")),
            leave_on_stop: self.parsed("leave_on_stop", "yes or no", yes),
            reschedule_grace: self.parsed("reschedule_grace", duration, go_duration),
            tls_cert_file: self.path("tls_cert_file"),
            tls_key_file: self.path("tls_key_file"),
            tls_client_ca_file: self.path("tls_client_ca_file"),
            tls_client_crl_file: self.path("tls_client_crl_file"),
            api_roles_file: self.path("api_roles_file"),
            advertise: Some(self.text("advertise")).filter(|text| !text.is_empty()),
            source: self.text("source"),
            log_socket: PathBuf::from(self.text("log_socket")),
            insecure_loopback: self.parsed("insecure_loopback", "yes or no", yes),
            trusted_keys_file: self.trusted_keys_file(),
            cluster_name: self.text("cluster_name"),
            state_directory: PathBuf::from(self.text("state_directory")),
        }
    }
}

/// Removes quotes around a value, and a trailing comment, which starts with a blank and `#` or `;`.
fn plain(value: &str) -> &str {
    let value = value.trim();
    let is_comment = |rest: &str| rest.trim_start().starts_with(['#', ';']);
    if is_comment(value) {
        return "";
    }
    for quote in ['"', '\''] {
        let quoted = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote));
        if let Some((inner, rest)) = quoted
            && (rest.is_empty() || is_comment(rest))
        {
            return inner;
        }
    }
    let mut begins = value.match_indices([' ', '\t']).map(|(at, _)| value.split_at(at));
    begins.find(|(_, rest)| is_comment(rest)).map_or(value, |(before, _)| before.trim_end())
}

/// Splits `a,b` or `["a", "b"]`.
fn list(text: &str) -> Vec<String> {
    let items = text.trim_matches(['[', ']', ' ']).split(',');
    let items = items.map(|item| item.trim_matches(['"', '\'', ' ']).to_string());
    items.filter(|item| !item.is_empty()).collect()
}

/// Parses `k=v,k=v`. Parts without `=` are dropped; the last value of a key counts.
fn metadata(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.trim().to_string(), value.trim().to_string())).collect()
}

fn in_seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    (seconds > 0.0 && seconds < 1e6).then(|| Duration::from_secs_f64(seconds))
}

/// Parses a Go duration: `1m30s`, `500ms`, `1.5h`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = 0.0;
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (value, tail) = rest.split_at_checked(number)?;
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit)?;
        let factor = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum += value.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    (!text.is_empty() && sum < 1e9).then(|| Duration::from_secs_f64(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Config, Vec<String>) {
        Config::read(Some(("f.conf", text)), &BTreeMap::new()).unwrap()
    }

    #[test]
    fn values_in_fleets_formats_are_parsed() {
        let text = "# c\netcd_servers = [\"http://a:1\", \"http://b:2\"]\nmetadata=\" foo=bar, ping=pong,x,foo=z=1\"\nagent_ttl=1m30s\nverbosity=1\n";
        let (config, remarks) = read(text);
        assert_eq!(config.etcd.endpoints, ["http://a:1", "http://b:2"]);
        let pairs: Vec<_> = config.metadata.into_iter().collect();
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        assert_eq!(pairs, [pair("foo", "z=1"), pair("ping", "pong")]);
        assert_eq!(config.agent_ttl, Duration::from_secs(90));
        assert!(config.debug && config.leave_on_stop && remarks.is_empty());
    }

    #[test]
    fn variable_overrides_file_and_unknown_keys_are_reported() {
        let variables = [("FLEET_PUBLIC_IP", "1.2.3.4"), ("FLEET_FOO", "1"), ("HOME", "/")];
        let variables = variables.map(|(key, value)| (key.to_string(), value.to_string()));
        let file = ("f.conf", "public_ip=5.6.7.8\nenable_grpc=true\nbar=1\n");
        let (config, remarks) = Config::read(Some(file), &BTreeMap::from(variables)).unwrap();
        assert_eq!(config.public_ip, "1.2.3.4");
        assert_eq!(remarks.len(), 3, "{remarks:?}");
        assert!(remarks.iter().any(|remark| remark == "f.conf:3: unknown key bar"));
    }

    #[test]
    fn empty_variable_counts_as_unset() {
        let variables = [("FLEET_AGENT_TTL", ""), ("FLEET_METADATA", ""), ("FLEET_FOO", "")];
        let variables = variables.map(|(key, value)| (key.to_string(), value.to_string()));
        let file = ("f.conf", "agent_ttl=7s\nmetadata=a=b\n");
        let (config, remarks) = Config::read(Some(file), &BTreeMap::from(variables)).unwrap();
        assert_eq!(config.agent_ttl, Duration::from_secs(7));
        assert_eq!(config.metadata["a"], "b");
        assert!(remarks.is_empty(), "{remarks:?}");
    }

    #[test]
    fn comment_after_a_value_is_removed_unless_quoted() {
        let table = [
            ("public_ip=10.0.0.1 # of eth1", "10.0.0.1"),
            ("public_ip = 10.0.0.1\t; of eth1", "10.0.0.1"),
            ("Public_IP=10.0.0.1", "10.0.0.1"),
            ("public_ip='10.0.0.1'", "10.0.0.1"),
            ("public_ip=\"a #b\" # c", "a #b"),
            ("public_ip='a ;b'", "a ;b"),
            ("public_ip=a#b;c", "a#b;c"),
            ("public_ip= # none", ""),
            ("public_ip=\"a\" b", "\"a\" b"),
        ];
        for (line, value) in table {
            let (config, remarks) = read(line);
            assert_eq!((config.public_ip.as_str(), remarks.len()), (value, 0), "{line}");
        }
    }

    #[test]
    fn all_errors_are_reported_with_their_lines() {
        let text = "agent_ttl=soon\nnothing\ntoken_limit=0\netcd_request_timeout=-1\n";
        let errors = Config::read(Some(("f.conf", text)), &BTreeMap::new()).unwrap_err();
        let at = |line: &str| errors.iter().any(|error| error.starts_with(line));
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(at("f.conf:1: agent_ttl") && at("f.conf:2:") && at("f.conf:3:") && at("f.conf:4:"));
    }

    #[test]
    fn error_about_a_misplaced_password_does_not_show_it() {
        for text in [
            "etcd_password canary",
            "etcd_servers=http://root:canary@etcd:2379",
            "etcd-password: canary",
        ] {
            let errors = Config::read(Some(("f.conf", text)), &BTreeMap::new()).unwrap_err();
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(
                !errors[0].contains("canary") && errors[0].starts_with("f.conf:1: "),
                "{errors:?}"
            );
        }
        let (config, remarks) =
            read("etcd_username=root\netcd_password=canary\netcd_pasword=canary\n");
        assert!(!format!("{config:?} {remarks:?}").contains("canary"));
    }

    #[test]
    fn etcd_timeout_is_limited_to_a_third_of_agent_ttl() {
        let read = |text: &str| Config::read(Some(("f.conf", text)), &BTreeMap::new());
        let (_, remarks) = read("agent_ttl=3s\netcd_request_timeout=1\n").unwrap();
        assert!(remarks.is_empty(), "{remarks:?}");
        let (config, remarks) = read("agent_ttl=3s\netcd_request_timeout=1.1\n").unwrap();
        assert_eq!(config.etcd.request_timeout, Duration::from_secs(1));
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(remarks[0].starts_with("f.conf:2: etcd_request_timeout: 1.1s"), "{remarks:?}");
        let (config, _) = read("agent_ttl=2s\n").unwrap();
        assert_eq!(config.etcd.request_timeout, Duration::from_secs(2) / 3);
    }

    #[test]
    fn durations_are_parsed_as_in_go() {
        let of = |text| go_duration(text).map(|time| time.as_millis());
        assert_eq!(of("500ms"), Some(500));
        assert_eq!(of("1h0.5m"), Some(3_630_000));
        assert_eq!(of("0"), Some(0));
        for bad in ["", "5", "s", "5 s", "-1s", "5x"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
