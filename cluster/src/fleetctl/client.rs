//! The API calls, one function each. Statuses become messages in fleetctl's words, because users
//! grep for them (`googleapi: Error 400: …`).

use super::connection::{Connection, Reply};
use super::trouble::Trouble;
use crate::api::request::escape;
use crate::desired::Desired;
use crate::signature::{Signature, SigningKey};
use crate::unit_file::{UnitFile, UnitOption};
use crate::unit_name::UnitName;
use crate::wire::{
    ErrorEntity, Machine, MachinePage, Unit, UnitPage, UnitState, UnitStatePage, Why,
};
use serde::de::DeserializeOwned;

const ROOT: &str = "/fleet/v1";
/// Maximum number of pages of a list.
const MOST_PAGES: usize = 100_000;

/// An API client.
pub(super) struct Client {
    pub(super) connection: Connection,
    /// The key that signs submitted units.
    pub(super) signing_key: Option<SigningKey>,
}

fn refusal(reply: &Reply) -> Trouble {
    let status = reply.status;
    let words = match serde_json::from_slice::<ErrorEntity>(&reply.body) {
        Ok(entity) => format!("googleapi: Error {status}: {}", entity.error.message),
        Err(_) => {
            let body = String::from_utf8_lossy(&reply.body);
            format!("googleapi: got HTTP response code {status} with body: {body}")
        }
    };
    // etcd does not answer the server, or the server does not answer its proxy.
    match status {
        502..=504 => Trouble { retry_after: reply.retry_after, ..Trouble::passing(words) },
        _ => Trouble::new(words),
    }
}

/// Returns the hash of the unit's file.
pub(super) fn hash_of(unit: &Unit) -> String {
    UnitFile { options: unit.options.clone() }.hash()
}

/// Returns the body of a PUT.
fn put_unit(
    name: &str,
    options: &[UnitOption],
    signature: Option<Signature>,
    desired: Option<Desired>,
    machines: Option<Vec<String>>,
) -> Unit {
    Unit {
        name: name.to_string(),
        options: options.to_vec(),
        signature,
        machines,
        desired_state: desired.map(|desired| desired.to_string()).unwrap_or_default(),
        ..Unit::default()
    }
}

/// Restricts a PUT to the unit with this file and desired state, so that it does not override a
/// concurrent stop. A server without this feature ignores the restriction and applies the desired
/// state of the PUT.
fn instead_of(hash: String, desired: &str, unit: Unit) -> Unit {
    let state = Some(desired.to_string()).filter(|desired| !desired.is_empty());
    Unit { instead_of: Some(hash), instead_of_state: state, ..unit }
}

fn read<T: DeserializeOwned>(reply: &Reply) -> Result<T, Trouble> {
    if !(200..300).contains(&reply.status) {
        return Err(refusal(reply));
    }
    serde_json::from_slice(&reply.body)
        .map_err(|error| Trouble::new(format!("cannot read the server's answer: {error}")))
}

impl Client {
    async fn get(&mut self, path: &str) -> Result<Reply, Trouble> {
        self.connection.ask("GET", &format!("{ROOT}{path}"), None).await
    }

    /// Returns `None` on 404.
    async fn find<T: DeserializeOwned>(&mut self, path: &str) -> Result<Option<T>, Trouble> {
        let reply = self.get(path).await?;
        if reply.status == 404 { Ok(None) } else { read(&reply).map(Some) }
    }

    /// Fetches all pages of a list.
    async fn list<P: DeserializeOwned, T>(
        &mut self,
        path: &str,
        take: impl Fn(P) -> (Vec<T>, String),
    ) -> Result<Vec<T>, Trouble> {
        let mut all = Vec::new();
        let mut token = String::new();
        for _ in 0..MOST_PAGES {
            let query = match token.is_empty() {
                true => String::new(),
                false => format!("?nextPageToken={}", escape(&token)),
            };
            let reply = self.get(&format!("{path}{query}")).await?;
            let (items, next) = take(read(&reply)?);
            all.extend(items);
            if next.is_empty() {
                return Ok(all);
            }
            token = next;
        }
        Err(Trouble::new("the server's list has too many pages"))
    }

    pub(super) async fn units(&mut self) -> Result<Vec<Unit>, Trouble> {
        self.list("/units", |page: UnitPage| (page.units, page.next_page_token)).await
    }

    pub(super) async fn states(&mut self) -> Result<Vec<UnitState>, Trouble> {
        self.list("/state", |page: UnitStatePage| (page.states, page.next_page_token)).await
    }

    pub(super) async fn machines(&mut self) -> Result<Vec<Machine>, Trouble> {
        self.list("/machines", |page: MachinePage| (page.machines, page.next_page_token)).await
    }

    pub(super) async fn unit(&mut self, name: &str) -> Result<Option<Unit>, Trouble> {
        self.find(&format!("/units/{}", escape(name))).await
    }

    pub(super) async fn state(&mut self, name: &str) -> Result<Option<UnitState>, Trouble> {
        self.find(&format!("/state/{}", escape(name))).await
    }

    /// Returns `None` if the unit does not exist or the server has no reasons (fleet 1.0).
    pub(super) async fn why(&mut self, name: &str) -> Result<Option<Why>, Trouble> {
        self.find(&format!("/why/{}", escape(name))).await
    }

    async fn send_put(&mut self, unit: &Unit) -> Result<Reply, Trouble> {
        let body = serde_json::to_vec(unit)
            .map_err(|error| Trouble::new(format!("cannot encode the request: {error}")))?;
        let path = format!("{ROOT}/units/{}", escape(&unit.name));
        self.connection.ask("PUT", &path, Some(body)).await
    }

    /// Puts a unit only if its condition holds. Returns false if the condition failed and the
    /// stored unit is not the result of our own request. `lost` is true after an earlier attempt
    /// with unknown result; only then can our request have stored it.
    async fn put_instead(&mut self, unit: &Unit, lost: &mut bool) -> Result<bool, Trouble> {
        let was_lost = std::mem::replace(lost, true);
        let reply = self.send_put(unit).await?;
        match reply.status {
            200..300 => Ok(true),
            412 => {
                *lost = was_lost || reply.repeated;
                Ok(*lost && self.is_stored(unit).await?)
            }
            _ => Err(refusal(&reply)),
        }
    }

    async fn is_stored(&mut self, unit: &Unit) -> Result<bool, Trouble> {
        Ok(self.unit(&unit.name).await?.is_some_and(|there| hash_of(&there) == hash_of(unit)))
    }

    /// Puts a file, its signature, a desired state, or some of these.
    pub(super) async fn put(&mut self, unit: &Unit) -> Result<(), Trouble> {
        let reply = self.send_put(unit).await?;
        if (200..300).contains(&reply.status) || self.is_done_already(&reply, unit).await? {
            return Ok(());
        }
        Err(refusal(&reply))
    }

    /// Returns true if a PUT that creates a unit was sent twice, and the second failed because the
    /// first had succeeded.
    async fn is_done_already(&mut self, reply: &Reply, unit: &Unit) -> Result<bool, Trouble> {
        if reply.status != 409 || !reply.repeated || unit.options.is_empty() {
            return Ok(false);
        }
        self.is_stored(unit).await
    }

    /// Signs a file under a name. The serial is newer than that of our key's last signature, so
    /// machines reject the older signature once they have seen the new one.
    async fn sign(
        &mut self,
        name: &str,
        options: &[UnitOption],
    ) -> Result<Option<Signature>, Trouble> {
        if self.signing_key.is_none() {
            return Ok(None);
        }
        let there = self.unit(name).await?;
        let before = there.as_ref().and_then(|there| self.own_serial(there));
        let Some(key) = &self.signing_key else { return Ok(None) };
        let name = UnitName::new(name).map_err(|error| Trouble::new(error.to_string()))?;
        let file = UnitFile { options: options.to_vec() };
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let serial = before.map_or(now, |before| now.max(before.saturating_add(1)));
        Ok(Some(key.sign(&name, &file, serial)))
    }

    /// Returns the serial of a stored unit, if our key signed it.
    fn own_serial(&self, unit: &Unit) -> Option<u64> {
        let (key, signature) = (self.signing_key.as_ref()?, unit.signature.as_ref()?);
        let file = UnitFile { options: unit.options.clone() };
        let signed = key.has_signed(&UnitName::new(&unit.name).ok()?, &file, signature);
        signed.then_some(signature.serial)
    }

    /// Checks that our key may sign the unit as the cluster shows it.
    ///
    /// # Errors
    /// Our key has not signed it before. An attacker who writes to etcd could otherwise choose a
    /// file that we sign.
    pub(super) fn may_sign(&self, unit: &Unit) -> Result<(), Trouble> {
        if self.signing_key.is_none() || self.own_serial(unit).is_some() {
            return Ok(());
        }
        Err(Trouble::new(format!(
            "Unit {} in the cluster is not signed with this key for this cluster; fleetctl does not \
             sign it: name its file on the command line",
            unit.name
        )))
    }

    /// Creates a unit or replaces its file, and signs it.
    pub(super) async fn create(
        &mut self,
        name: &str,
        options: &[UnitOption],
        desired: Option<Desired>,
    ) -> Result<(), Trouble> {
        let signature = self.sign(name, options).await?;
        let unit = put_unit(name, options, signature, desired, None);
        self.put(&unit).await
    }

    /// Replaces the file of a unit, first on these machines if it is global, and signs it. Returns
    /// false if the unit's file or desired state has changed since, or the unit is gone. `lost` as
    /// in `put_instead`.
    pub(super) async fn replace(
        &mut self,
        old: &Unit,
        options: &[UnitOption],
        first: Option<&[String]>,
        lost: &mut bool,
    ) -> Result<bool, Trouble> {
        let signature = self.sign(&old.name, options).await?;
        // The unit as it is now: it may have been stopped since the last attempt.
        let Some(now) = self.unit(&old.name).await? else { return Ok(false) };
        let desired = Some(now.desired_state.parse().unwrap_or_default());
        let unit = put_unit(&old.name, options, signature, desired, first.map(<[_]>::to_vec));
        self.put_instead(&instead_of(hash_of(old), &now.desired_state, unit), lost).await
    }

    /// Rolls out a file of a global unit to these machines; an empty list means all. The server
    /// refuses if the unit has another file.
    pub(super) async fn spread(
        &mut self,
        name: &str,
        options: &[UnitOption],
        machines: &[String],
    ) -> Result<(), Trouble> {
        let unit = put_unit(name, options, None, None, Some(machines.to_vec()));
        self.put(&unit).await
    }

    /// Checks that a rollout can restore the old file.
    ///
    /// # Errors
    /// The old file would need a new signature, because the new file has a newer serial, and our
    /// key must not sign it.
    pub(super) fn may_restore(&self, old: &Unit, new_is_signed: bool) -> Result<(), Trouble> {
        if !new_is_signed || old.signature.is_none() || self.own_serial(old).is_some() {
            return Ok(());
        }
        Err(Trouble::new(format!(
            "Unit {} is signed with another key, so its file could not be restored if \
             the new one fails: use that key, or --no-rollback",
            old.name
        )))
    }

    /// Restores a unit that the cluster showed before. It is signed again only if our key had
    /// signed it; otherwise it gets its stored signature. `machines` get the file; the others keep
    /// their file. Returns false if the unit no longer has the file with hash `new`, or its desired
    /// state has changed.
    pub(super) async fn put_back(
        &mut self,
        old: &Unit,
        machines: Option<Vec<String>>,
        new: &str,
    ) -> Result<bool, Trouble> {
        let signature = match self.own_serial(old) {
            Some(_) => self.sign(&old.name, &old.options).await?,
            None => old.signature.clone(),
        };
        let desired = old.desired_state.parse().unwrap_or_default();
        let unit = put_unit(&old.name, &old.options, signature, Some(desired), machines);
        let unit = instead_of(new.to_string(), &old.desired_state, unit);
        self.put_instead(&unit, &mut false).await
    }

    pub(super) async fn set_desired(
        &mut self,
        name: &str,
        desired: Desired,
    ) -> Result<(), Trouble> {
        let (name, desired_state) = (name.to_string(), desired.to_string());
        self.put(&Unit { name, desired_state, ..Unit::default() }).await
    }

    /// Returns false if the unit did not exist.
    pub(super) async fn destroy(&mut self, name: &str) -> Result<bool, Trouble> {
        let path = format!("{ROOT}/units/{}", escape(name));
        let reply = self.connection.ask("DELETE", &path, None).await?;
        match reply.status {
            // If the request was sent twice, the first one may have destroyed the unit.
            404 => Ok(reply.repeated),
            200..300 => Ok(true),
            _ => Err(refusal(&reply)),
        }
    }

    pub(super) async fn drain(&mut self, id: &str, draining: bool) -> Result<(), Trouble> {
        let method = if draining { "PUT" } else { "DELETE" };
        let path = format!("{ROOT}/drain/{}", escape(id));
        let reply = self.connection.ask(method, &path, None).await?;
        if (200..300).contains(&reply.status) { Ok(()) } else { Err(refusal(&reply)) }
    }
}
