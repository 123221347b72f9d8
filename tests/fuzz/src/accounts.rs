//! Checks of the fuzz target `accounts` for any texts as passwd(5) and group(5) and any `user` and
//! `group` of a unit: each resolved id is in the files or was written as a number, is never (uid_t)
//! -1, and is root only if that was requested.
//!
//! Four parts, split at NUL: passwd, group, a user, a group. After a first byte above 127 the bytes
//! choose lines and names of these.

use super::composed::Composed;
use groundstate_units::spec::Ids;
use groundstate_units::unit::account::{Account, Accounts};

/// The accounts, if there are any, and the ids of the unit, if they can be resolved. Panics if a
/// promise is broken.
pub fn accounts(bytes: &[u8]) -> Option<(Accounts, Ids)> {
    let text = match bytes.split_first() {
        Some((first, rest)) if *first > 127 => composed(rest),
        Some(_) | None => String::from_utf8_lossy(bytes).into_owned(),
    };
    let mut parts = text.split('\0');
    let mut part = || parts.next().unwrap_or_default();
    let accounts = Accounts::parse(part(), part());
    for user in &accounts.users {
        assert!(user.uid != u32::MAX && user.gid != u32::MAX && !user.name.is_empty(), "{user:?}");
    }
    let account = |text: &str| match Account::parse(text) {
        Ok(account) => Some(account),
        Err(wrong) => {
            assert!(!wrong.is_empty(), "refused without a word");
            None
        }
    };
    let (user, group) = (account(part()), account(part()));
    let some = !accounts.users.is_empty() || !accounts.groups.is_empty();
    let Ok(ids) = accounts.resolve(user.as_ref(), group.as_ref(), &[]) else {
        return some.then_some((accounts, NO_IDS));
    };
    let by_number = |asked: &Option<Account>, id: u32| *asked == Some(Account::Number(id));
    if let Some(uid) = ids.uid {
        let listed = accounts.users.iter().any(|user| user.uid == uid);
        assert!(uid != u32::MAX && (by_number(&user, uid) || listed), "{ids:?}");
    }
    if let Some(gid) = ids.gid {
        let listed = accounts.users.iter().any(|user| user.gid == gid)
            || accounts.groups.iter().any(|group| group.gid == gid);
        assert!(gid != u32::MAX && (by_number(&group, gid) || listed), "{ids:?}");
    }
    assert!(user.is_none() || (ids.uid.is_some() && ids.gid.is_some()), "{ids:?}");
    (some || ids.gid.is_some()).then_some((accounts, ids))
}

const NO_IDS: Ids = Ids { uid: None, gid: None, groups: None, user: None, home: None, shell: None };

const NAMES: [&str; 8] = ["root", "www", "a", "b", "0", "7", "a-b", ""];
const NUMBERS: [&str; 8] = ["0", "1", "7", "33", "1000", "65534", "4294967295", "-1"];

/// Uses few names and numbers, so that lines refer to each other.
fn composed(bytes: &[u8]) -> String {
    let mut from = Composed::of(bytes);
    let mut text = String::new();
    for _ in 0..from.byte() % 6 {
        let (name, uid, gid) = (from.pick(&NAMES), from.pick(&NUMBERS), from.pick(&NUMBERS));
        text.push_str(&format!("{name}:x:{uid}:{gid}::/home/{name}:/bin/sh\n"));
        if from.one_in(16) {
            text.push_str(&from.text(24));
        }
    }
    text.push('\0');
    for _ in 0..from.byte() % 6 {
        let (name, gid) = (from.pick(&NAMES), from.pick(&NUMBERS));
        let (one, other) = (from.pick(&NAMES), from.pick(&NAMES));
        text.push_str(&format!("{name}:x:{gid}:{one},{other}\n"));
        if from.one_in(16) {
            text.push_str(&from.text(24));
        }
    }
    for _ in 0..2 {
        let names = if from.one_in(4) { &NUMBERS } else { &NAMES };
        text.push_str(&format!("\0{}", from.pick(names)));
    }
    text
}
