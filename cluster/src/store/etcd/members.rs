//! Asking the members of etcd, each by itself: who they are while all is well, and whether they
//! have a leader when no sign of life gets through. What follows is
//! [`crate::store::membership`]'s.

use super::{Etcd, tls};
use crate::store::membership::{Membership, Word};
use etcd_client::{Client, ConnectOptions, Error};
use std::sync::PoisonError;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

impl Etcd {
    /// Right behind an answer that most of the members stood for, of the member that gave it:
    /// it knows of no older list than they do. Without an answer the one before stays.
    pub(super) async fn learn_members(&self, client: &Client) {
        let mut members = client.cluster_client();
        let Ok(Ok(list)) = timeout(self.config.request_timeout, members.member_list()).await else {
            return;
        };
        let voters = list.members().iter().filter(|member| !member.is_learner());
        let membership = Membership {
            cluster: list.header().map_or(0, etcd_client::ResponseHeader::cluster_id),
            voters: voters.map(etcd_client::Member::id).collect(),
        };
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = Some(membership);
    }

    /// All at once, and none for longer than that: one that is silent takes no time from others.
    pub(in crate::store) async fn is_leaderless(&self, within: Duration) -> bool {
        let known = self.members.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(known) = known else { return false };
        let mut asked = JoinSet::new();
        for endpoint in self.config.endpoints.clone() {
            let Ok(tls) = tls::tls(&self.config) else { continue };
            // Without a name: a password is looked at by a leader only, and this everybody may ask.
            let options = ConnectOptions::new().with_connect_timeout(within);
            let options = match tls {
                Some(tls) => options.with_tls(tls),
                None => options,
            };
            asked.spawn(async move { timeout(within, word(endpoint, options)).await });
        }
        let mut words = Vec::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(Ok(word))) = answer {
                words.extend(word);
            }
        }
        known.is_leaderless(&words)
    }
}

async fn word(endpoint: String, options: ConnectOptions) -> Result<Option<Word>, Error> {
    let mut client = Client::connect([endpoint], Some(options)).await?;
    let status = client.status().await?;
    Ok(status.header().map(|header| Word {
        cluster: header.cluster_id(),
        member: header.member_id(),
        leader: status.leader(),
    }))
}
