//! Evaluates the reliability of etcd: member versions, write access, transaction size.
//! Pure. The result is reported and never acted upon: an etcd that worked yesterday keeps working
//! today.

use std::fmt;

/// The oldest version with all required features.
pub const OLDEST: Version = Version(3, 4, 0);
/// The first version of each line with the fix for CVE-2026-44283. Before it, a transaction
/// bypasses the rights of a role by comparing a value before it writes, or by naming a lease.
pub const ENFORCES_ROLES: [Version; 3] = [Version(3, 4, 44), Version(3, 5, 30), Version(3, 6, 11)];

/// An etcd version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl Version {
    /// Parses a version; a suffix after `-` or `+` is ignored.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split(['-', '+']).next()?.split('.').map(|part| part.parse().ok());
        let version = Version(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }

    fn enforces_roles(self) -> bool {
        let Version(major, minor, _) = self;
        match ENFORCES_ROLES.iter().find(|first| (first.0, first.1) == (major, minor)) {
            Some(first) => self >= *first,
            None => ENFORCES_ROLES.iter().all(|first| self > *first),
        }
    }
}

/// The findings about an etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdFindings {
    /// The versions of the members that answered.
    pub versions: Vec<String>,
    /// Members reached over a network without TLS.
    pub without_tls: Vec<String>,
    /// Our etcd user has all rights: authentication is off, or the user is root.
    pub has_all_rights: bool,
    /// We log in with user and password.
    pub logs_in: bool,
    /// etcd accepts fewer operations per transaction than the cluster sends.
    pub limit_is_too_low: bool,
}

impl EtcdFindings {
    /// Returns why programs outside the cluster may write to etcd, which equals root access to
    /// every machine. Empty if nothing is known.
    pub fn insecure(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.has_all_rights {
            reasons.push(match self.logs_in {
                true => "fleetd's etcd user is root: give it a role of its own",
                false => {
                    "etcd's authentication is off: any client that can reach it can \
                     run anything on every machine"
                }
            });
        }
        let mut reasons: Vec<String> = reasons.into_iter().map(str::to_string).collect();
        if !self.without_tls.is_empty() {
            let all = self.without_tls.join(" ");
            reasons.push(format!(
                "the connection to etcd at {all} is without TLS: anyone on the network can read \
                 and write it; use https:// in etcd_servers"
            ));
        }
        reasons
    }

    /// Returns the other faults.
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> =
            self.versions.iter().filter_map(|text| fault_of_version(text)).collect();
        faults.sort();
        faults.dedup();
        if self.limit_is_too_low {
            let most = crate::transaction::MOST_OPERATIONS;
            faults.push(format!(
                "etcd takes fewer than {most} operations in one transaction: larger ones fail; its \
                 --max-txn-ops should be {most} or more"
            ));
        }
        faults
    }
}

fn fault_of_version(text: &str) -> Option<String> {
    match Version::parse(text) {
        None => Some(format!("etcd reports the unknown version {text:?}")),
        Some(version) if version < OLDEST => {
            Some(format!("etcd is {version}; the oldest supported version is {OLDEST}"))
        }
        Some(version) if !version.enforces_roles() => Some(format!(
            "etcd {version} lets its users bypass the rights of their roles \
             (CVE-2026-44283); {} do not",
            ENFORCES_ROLES.map(|first| first.to_string()).join(", ")
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_version_is_compared_with_the_fix_in_its_own_line() {
        let fault = |text: &str| fault_of_version(text).unwrap_or_default();
        for good in ["3.4.44", "3.5.30", "3.5.31-rc.0", "3.6.11+git", "3.7.0", "4.0.0"] {
            assert_eq!(fault(good), "", "{good}");
        }
        for leaky in ["3.4.0", "3.4.23", "3.4.43", "3.5.0", "3.5.29", "3.6.10"] {
            assert!(fault(leaky).contains("CVE-2026-44283"), "{leaky}");
        }
        for old in ["2.3.8", "3.3.27"] {
            assert!(fault(old).contains("the oldest supported version is 3.4.0"), "{old}");
        }
        for none in ["", "3.4", "3.4.x", "new", "3.4.1.1"] {
            assert!(fault(none).contains("the unknown version"), "{none}");
        }
    }

    #[test]
    fn etcd_that_others_may_write_to_is_insecure() {
        let open = EtcdFindings { has_all_rights: true, ..EtcdFindings::default() };
        assert!(open.insecure()[0].contains("authentication is off"));
        let root = EtcdFindings { logs_in: true, ..open };
        assert!(root.insecure()[0].contains("etcd user is root"));
        let clear = EtcdFindings {
            without_tls: vec!["http://10.0.0.1:2379".into()],
            ..EtcdFindings::default()
        };
        assert!(clear.insecure()[0].contains("http://10.0.0.1:2379 is without TLS"));
        let old = EtcdFindings {
            versions: vec!["3.4.1".into(), "3.4.1".into()],
            ..EtcdFindings::default()
        };
        assert_eq!((old.insecure().len(), old.faults().len()), (0, 1));
        let few = EtcdFindings { limit_is_too_low: true, ..EtcdFindings::default() };
        assert!(few.faults()[0].contains("--max-txn-ops"));
    }
}
