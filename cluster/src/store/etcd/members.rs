//! Asks each etcd member: for the member list while etcd works, and for its leader when no
//! keepalive gets through. [`crate::store::membership`] evaluates the answers.

use super::{Etcd, tls};
use crate::store::membership::{MemberAnswer, Membership};
use etcd_client::{Client, ConnectOptions, Error};
use std::sync::PoisonError;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

impl Etcd {
    /// Reads the member list right after an answer that a quorum confirmed, from the same member.
    /// So its list is not older than that of the quorum. Without an answer the previous list stays.
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

    /// Asks all members in parallel, each with the same time limit, so that a silent member does
    /// not delay the others.
    pub(in crate::store) async fn is_leaderless(&self, within: Duration) -> bool {
        let known = self.members.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(known) = known else { return false };
        let mut asked = JoinSet::new();
        for endpoint in self.config.endpoints.clone() {
            let Ok(tls) = tls::tls(&self.config) else { continue };
            // Connects without a user: only a leader checks passwords, and this call needs no
            // rights.
            let options = ConnectOptions::new().with_connect_timeout(within);
            let options = match tls {
                Some(tls) => options.with_tls(tls),
                None => options,
            };
            asked.spawn(async move { timeout(within, answer(endpoint, options)).await });
        }
        let mut answers = Vec::new();
        while let Some(answer) = asked.join_next().await {
            if let Ok(Ok(Ok(answer))) = answer {
                answers.extend(answer);
            }
        }
        known.is_leaderless(&answers)
    }
}

async fn answer(endpoint: String, options: ConnectOptions) -> Result<Option<MemberAnswer>, Error> {
    let mut client = Client::connect([endpoint], Some(options)).await?;
    let status = client.status().await?;
    Ok(status.header().map(|header| MemberAnswer {
        cluster: header.cluster_id(),
        member: header.member_id(),
        leader: status.leader(),
    }))
}
