//! How far the etcd that was found can be relied on: what each member is, who may write to it,
//! whether it takes what is sent. Pure: what was asked of it comes in, what is to be said of it
//! comes out. It is said, never acted upon: an etcd that was good enough to run on yesterday
//! does not end anything today.

use std::fmt;

/// The oldest with all that is used.
pub const OLDEST: Version = Version(3, 4, 0);
/// From these on, of each line, no user of etcd gets past the rights of its roles by a
/// transaction that asks for a value before it was written, or names a lease (CVE-2026-44283).
pub const KEEPS_RIGHTS: [Version; 3] = [Version(3, 4, 44), Version(3, 5, 30), Version(3, 6, 11)];

/// Of etcd: line, and place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl Version {
    /// As a member says it; what stands behind a `-` or `+` does not count.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split(['-', '+']).next()?.split('.').map(|part| part.parse().ok());
        let version = Version(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }

    fn keeps_rights(self) -> bool {
        let Version(major, minor, _) = self;
        match KEEPS_RIGHTS.iter().find(|first| (first.0, first.1) == (major, minor)) {
            Some(first) => self >= *first,
            None => KEEPS_RIGHTS.iter().all(|first| self > *first),
        }
    }
}

/// What was found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What the members that answered say they are.
    pub versions: Vec<String>,
    /// Members that are reached over a network and without TLS.
    pub in_clear: Vec<String>,
    /// We may do all that can be done there: it asks nobody who they are, or we are its root.
    pub may_everything: bool,
    /// It knows us by a name and a password.
    pub knows_us: bool,
    /// It takes fewer operations in one transaction than are sent.
    pub takes_too_few: bool,
}

impl Standing {
    /// Why others than the cluster's own may write there, which is as good as being root on
    /// every machine; empty: nothing is known of it.
    pub fn insecure(&self) -> Vec<String> {
        let mut told = Vec::new();
        if self.may_everything {
            told.push(match self.knows_us {
                true => "fleetd's user of etcd is its root: a role of its own would do",
                false => {
                    "etcd asks nobody who they are (authentication is off): whoever reaches it runs \
                     anything on every machine"
                }
            });
        }
        let mut told: Vec<String> = told.into_iter().map(str::to_string).collect();
        if !self.in_clear.is_empty() {
            let all = self.in_clear.join(" ");
            told.push(format!(
                "the way to etcd at {all} is without TLS: who is on it reads and writes"
            ));
        }
        told
    }

    /// What is wrong with it besides.
    pub fn faults(&self) -> Vec<String> {
        let mut told: Vec<String> =
            self.versions.iter().filter_map(|text| fault_of_version(text)).collect();
        told.sort();
        told.dedup();
        if self.takes_too_few {
            let most = crate::transaction::MOST_OPERATIONS;
            told.push(format!(
                "etcd takes fewer than {most} operations in one transaction: larger ones fail; its \
                 --max-txn-ops should be {most} or more"
            ));
        }
        told
    }
}

fn fault_of_version(text: &str) -> Option<String> {
    match Version::parse(text) {
        None => Some(format!("etcd says it is {text:?}, which is no version that is known")),
        Some(version) if version < OLDEST => {
            Some(format!("etcd is {version}; {OLDEST} is the oldest that is supported"))
        }
        Some(version) if !version.keeps_rights() => Some(format!(
            "etcd is {version}: it works, and lets its users past the rights of their roles \
             (CVE-2026-44283); {} do not",
            KEEPS_RIGHTS.map(|first| first.to_string()).join(", ")
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_judged_by_their_line() {
        let fault = |text: &str| fault_of_version(text).unwrap_or_default();
        for good in ["3.4.44", "3.5.30", "3.5.31-rc.0", "3.6.11+git", "3.7.0", "4.0.0"] {
            assert_eq!(fault(good), "", "{good}");
        }
        for leaky in ["3.4.0", "3.4.23", "3.4.43", "3.5.0", "3.5.29", "3.6.10"] {
            assert!(fault(leaky).contains("CVE-2026-44283"), "{leaky}");
        }
        for old in ["2.3.8", "3.3.27"] {
            assert!(fault(old).contains("3.4.0 is the oldest"), "{old}");
        }
        for none in ["", "3.4", "3.4.x", "new", "3.4.1.1"] {
            assert!(fault(none).contains("no version that is known"), "{none}");
        }
    }

    #[test]
    fn who_may_write_to_etcd_is_what_makes_it_insecure() {
        let open = Standing { may_everything: true, ..Standing::default() };
        assert!(open.insecure()[0].contains("authentication is off"));
        let root = Standing { knows_us: true, ..open };
        assert!(root.insecure()[0].contains("is its root"));
        let clear =
            Standing { in_clear: vec!["http://10.0.0.1:2379".into()], ..Standing::default() };
        assert!(clear.insecure()[0].contains("http://10.0.0.1:2379 is without TLS"));
        let old =
            Standing { versions: vec!["3.4.1".into(), "3.4.1".into()], ..Standing::default() };
        assert_eq!((old.insecure().len(), old.faults().len()), (0, 1));
        let few = Standing { takes_too_few: true, ..Standing::default() };
        assert!(few.faults()[0].contains("--max-txn-ops"));
    }
}
