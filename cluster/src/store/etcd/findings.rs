//! Queries etcd about its reliability; [`crate::store::findings`] evaluates the answers.

use super::{Etcd, Link, Why, refused, why};
use crate::store::Fault;
use crate::store::findings::EtcdFindings;
use crate::transaction::MOST_OPERATIONS;
use etcd_client::{Client, GetOptions, Txn, TxnOp};
use std::net::IpAddr;
use tokio::time::timeout;

impl Etcd {
    pub(in crate::store) async fn findings(&self) -> Result<EtcdFindings, Fault> {
        let Link { client, turn } = self.client().await?;
        // Only an administrator of etcd may list its users.
        let mut auth = client.auth_client();
        let has_all_rights = match self.ask(turn, auth.user_list()).await? {
            Ok(_) => true,
            Err(error) if matches!(why(&error), Why::Refused) => false,
            Err(error) => return Err(refused(&error)),
        };
        let key = self.root.get().map_or("/", String::as_str);
        let look = || TxnOp::get(key, Some(GetOptions::new().with_keys_only()));
        let full = Txn::new().and_then((0..MOST_OPERATIONS).map(|_| look()).collect::<Vec<_>>());
        let mut kv = client.kv_client();
        let limit_is_too_low = match self.ask(turn, kv.txn(full)).await? {
            Ok(_) => false,
            Err(error) if error.to_string().contains("too many operations") => true,
            Err(error) => return Err(refused(&error)),
        };
        let without_tls = self.config.endpoints.iter().filter(|at| is_without_tls(at)).cloned();
        Ok(EtcdFindings {
            versions: self.versions().await,
            without_tls: without_tls.collect(),
            has_all_rights,
            logs_in: self.config.user.is_some(),
            limit_is_too_low,
        })
    }

    /// Returns the version of each member that answers.
    async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for endpoint in &self.config.endpoints {
            let Ok(options) = self.options() else { continue };
            let asked = async {
                let mut client = Client::connect([endpoint], Some(options)).await?;
                client.status().await
            };
            if let Ok(Ok(status)) = timeout(self.config.request_timeout, asked).await {
                versions.push(status.version().to_string());
            }
        }
        versions.sort();
        versions.dedup();
        versions
    }
}

/// Returns true if the endpoint is remote and without TLS.
fn is_without_tls(endpoint: &str) -> bool {
    let Some((scheme, rest)) = endpoint.split_once("://") else { return true };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    scheme != "https" && !here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_endpoint_needs_no_tls() {
        for clear in ["http://10.0.0.1:2379", "http://etcd", "10.0.0.1:2379", "http://[::2]:1/"] {
            assert!(is_without_tls(clear), "{clear}");
        }
        for fine in
            ["https://etcd:2379", "http://127.0.0.1:1", "http://localhost", "http://[::1]:1"]
        {
            assert!(!is_without_tls(fine), "{fine}");
        }
    }
}
