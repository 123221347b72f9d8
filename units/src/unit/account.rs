//! Parses /etc/passwd and /etc/group without the C library, whose lookup may load code, ask the
//! network or hang. Formats: passwd(5), group(5). Other lines (and the `+`/`-` lines of NIS) are
//! skipped; the first match counts.

use crate::limit;
use crate::spec::{Ids, Unresolved};

/// (uid_t) -1, which chown(2) and setresuid(2) interpret as "leave unchanged".
const NO_ID: u32 = u32::MAX;

/// One line of passwd(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The number.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// HOME.
    pub home: String,
    /// SHELL.
    pub shell: String,
}

/// One line of group(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The number.
    pub gid: u32,
    /// Names of its members, besides users with this primary group.
    pub members: Vec<String>,
}

/// The entries of both files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// The entries in the order of the file.
    pub users: Vec<User>,
    /// The entries in the order of the file.
    pub groups: Vec<Group>,
}

/// A `user:` or `group:` as written: a name or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// A name, to be looked up.
    Name(String),
    /// A number.
    Number(u32),
}

impl Account {
    /// Parses a user or group: a decimal number without sign or leading zero, or a name. A name has
    /// letters, digits, `_`, `-` and `.`, may end in `$`, and does not start with a digit, `-` or
    /// `.`.
    ///
    /// # Errors
    /// The error in words.
    pub fn parse(text: &str) -> Result<Account, String> {
        let mut characters = text.chars();
        let Some(first) = characters.next() else { return Err("it is empty".to_string()) };
        if first.is_ascii_digit() {
            let number = id(text).ok_or_else(|| {
                format!(
                    "{text:?} is neither a name (it begins with a digit) nor a number below {NO_ID}"
                )
            })?;
            return Ok(Account::Number(number));
        }
        let body = text.strip_suffix('$').unwrap_or(text);
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if (first.is_ascii_alphabetic() || first == '_')
            && body.chars().all(fits)
            && text.len() < 256
        {
            return Ok(Account::Name(text.to_string()));
        }
        Err(format!("{text:?} is not a valid name of a user or group"))
    }
}

/// A user or group number: decimal, no sign, no leading zero, not (uid_t) -1.
pub fn id(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let number = text.parse::<u32>().ok().filter(|number| *number != NO_ID);
    if plain { number } else { None }
}

impl Accounts {
    /// Parses the texts of the two files.
    pub fn parse(passwd: &str, group: &str) -> Accounts {
        Accounts {
            users: passwd.lines().filter_map(user_line).collect(),
            groups: group.lines().filter_map(group_line).collect(),
        }
    }

    /// Returns the user of that name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// Returns the first user of that number.
    pub fn user_of(&self, uid: u32) -> Option<&User> {
        self.users.iter().find(|user| user.uid == uid)
    }

    /// Returns the first group of that number.
    pub fn group_of(&self, gid: u32) -> Option<&Group> {
        self.groups.iter().find(|group| group.gid == gid)
    }

    /// Returns the group of that name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Resolves the user and groups of a unit to numbers.
    ///
    /// # Errors
    /// The first missing user or group. A number without a line in passwd has no primary group. If
    /// the unit sets no `group` either, the group is missing: no process may run with an unintended
    /// group.
    pub fn resolve(
        &self,
        user: Option<&Account>,
        group: Option<&Account>,
        supplementary: &[Account],
    ) -> Result<Ids, Unresolved> {
        let entry = match user {
            None => None,
            Some(Account::Name(name)) => {
                Some(self.user(name).ok_or_else(|| unresolved("user", name))?)
            }
            Some(Account::Number(uid)) => self.user_of(*uid),
        };
        let uid = match user {
            Some(Account::Number(uid)) => Some(*uid),
            Some(Account::Name(_)) | None => entry.map(|entry| entry.uid),
        };
        let gid = match (group, entry) {
            (Some(group), _) => Some(self.gid(group)?),
            (None, Some(entry)) => Some(entry.gid),
            (None, None) => None,
        };
        if let (Some(uid), None) = (uid, gid) {
            return Err(unresolved("group", &format!("of user {uid}")));
        }
        let mut groups = Vec::new();
        for account in supplementary {
            groups.push(self.gid(account)?);
        }
        if let Some(entry) = entry {
            let member = |group: &&Group| group.members.contains(&entry.name);
            groups.extend(self.groups.iter().filter(member).map(|group| group.gid));
        }
        groups.sort_unstable();
        groups.dedup();
        groups.retain(|group| Some(*group) != gid);
        if groups.len() > limit::GROUPS {
            let what = format!("{} supplementary groups ({} at most)", groups.len(), limit::GROUPS);
            return Err(unresolved("group", &what));
        }
        Ok(Ids {
            uid,
            gid,
            groups: (user.is_some() || !supplementary.is_empty()).then_some(groups),
            user: entry.map(|entry| entry.name.clone()),
            home: entry.map(|entry| entry.home.clone()),
            shell: entry.map(|entry| entry.shell.clone()),
        })
    }

    fn gid(&self, account: &Account) -> Result<u32, Unresolved> {
        match account {
            Account::Number(gid) => Ok(*gid),
            Account::Name(name) => {
                self.group(name).map(|group| group.gid).ok_or_else(|| unresolved("group", name))
            }
        }
    }
}

fn unresolved(what: &str, name: &str) -> Unresolved {
    Unresolved { what: what.to_string(), name: name.to_string() }
}

fn user_line(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let (name, _password) = (fields.next()?, fields.next()?);
    let (uid, gid) = (id(fields.next()?)?, id(fields.next()?)?);
    let (_comment, home, shell) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some() || name.is_empty() || name.starts_with(['+', '-']) {
        return None;
    }
    let (name, home, shell) = (name.to_string(), home.to_string(), shell.to_string());
    Some(User { name, uid, gid, home, shell })
}

fn group_line(line: &str) -> Option<Group> {
    let mut fields = line.split(':');
    let (name, _password) = (fields.next()?, fields.next()?);
    let gid = id(fields.next()?)?;
    let members = fields.next()?;
    if fields.next().is_some() || name.is_empty() || name.starts_with(['+', '-']) {
        return None;
    }
    let members = members.split(',').filter(|member| !member.is_empty());
    Some(Group { name: name.to_string(), gid, members: members.map(str::to_string).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
        garbage\n\
        +nis::::::\n\
        bad:x:-1:0::/:/\n\
        worse:x:4294967295:1::/:/\n\
        www:x:33:33:a:/var/www:/sbin/nologin\n\
        www:x:0:0:second:/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nwww:x:33:\nadm:x:4:www,root\ndocker:x:998:www\nx:y\n";

    #[test]
    fn first_well_formed_line_of_a_name_counts() {
        let accounts = Accounts::parse(PASSWD, GROUP);
        assert_eq!(accounts.users.len(), 3);
        assert_eq!(accounts.user("www").unwrap().uid, 33);
        assert!(accounts.user("worse").is_none());
    }

    #[test]
    fn user_gets_its_primary_group_and_its_memberships() {
        let accounts = Accounts::parse(PASSWD, GROUP);
        let www = Account::parse("www").unwrap();
        let ids = accounts.resolve(Some(&www), None, &[]).unwrap();
        assert_eq!((ids.uid, ids.gid, ids.groups), (Some(33), Some(33), Some(vec![4, 998])));
        assert_eq!((ids.user.as_deref(), ids.home.as_deref()), (Some("www"), Some("/var/www")));
    }

    #[test]
    fn numeric_user_without_a_passwd_line_needs_an_explicit_group() {
        let accounts = Accounts::parse(PASSWD, GROUP);
        let (number, group) = (Account::Number(4000), Account::Number(50));
        let ids = accounts.resolve(Some(&number), Some(&group), &[]).unwrap();
        assert_eq!((ids.uid, ids.gid, ids.groups), (Some(4000), Some(50), Some(vec![])));
        assert_eq!(accounts.resolve(Some(&number), None, &[]).unwrap_err().what, "group");
    }

    #[test]
    fn unknown_account_is_named_in_the_error() {
        let accounts = Accounts::parse(PASSWD, GROUP);
        let ghost = Account::parse("ghost").unwrap();
        assert_eq!(accounts.resolve(Some(&ghost), None, &[]).unwrap_err().name, "ghost");
        assert_eq!(accounts.resolve(None, Some(&ghost), &[]).unwrap_err().what, "group");
    }

    #[test]
    fn malformed_account_names_are_refused() {
        for bad in [
            "",
            "0day",
            "0x1",
            "-1",
            "4294967295",
            "4294967296",
            "00",
            "010",
            "root\n",
            "a b",
            "ä",
            "+1",
            " 5",
            "a:b",
            ".",
        ] {
            assert!(Account::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["root", "_apt", "systemd-network", "host$", "0", "65534", "4294967294"] {
            assert!(Account::parse(good).is_ok(), "{good:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text: String, name: String) {
            let accounts = Accounts::parse(&text, &text);
            if let Ok(account) = Account::parse(&name) {
                let _ = accounts.resolve(Some(&account), Some(&account), std::slice::from_ref(&account));
            }
        }
    }
}
