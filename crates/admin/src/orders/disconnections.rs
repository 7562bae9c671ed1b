//! Questions about ended connections and about clients that do not keep up.

use crate::fault::Fault;
use crate::texts::{CloseWord, EndedPlace, EndedProtocol, NetworkText, PageLimit};
use model::close::CloseReason;
use model::link::Protocol;
use model::ports::control::disconnections::{DisconnectionFilter, DisconnectionQuery};
use schemars::JsonSchema;
use serde::Deserialize;

/// The protocols that a connection may have had.
pub(crate) const PROTOCOLS: [Protocol; 5] =
    [Protocol::Miop, Protocol::Mqtt, Protocol::Xmpp, Protocol::Im, Protocol::Http];

/// Query of `/v1/disconnections`. All that is given must hold.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DisconnectionsQuery {
    /// Only of this client or device; `account/device` is a device of an account.
    client_id: Option<String>,
    /// Only of this user; an account also without its domain.
    user: Option<String>,
    /// Only from this address, or from this network: `10.1.0.0/16`.
    #[schemars(with = "Option<NetworkText>")]
    address: Option<String>,
    /// Only those that ended for this reason.
    #[schemars(with = "Option<CloseWord>")]
    reason: Option<String>,
    /// Only over this protocol.
    #[schemars(with = "Option<EndedProtocol>")]
    protocol: Option<String>,
    /// Only those that ended at this Unix millisecond or later.
    since_ms: Option<u64>,
    /// Only those that ended before this Unix millisecond.
    until_ms: Option<u64>,
    /// Where the last page ended: its `next`.
    #[schemars(with = "Option<EndedPlace>")]
    after: Option<String>,
    /// Entries on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

impl DisconnectionsQuery {
    /// The question to the shards, for a page of `count`.
    pub(crate) fn question(self, count: u32) -> Result<DisconnectionQuery, Fault> {
        let reason = self.reason.map(|word| {
            let mut all = CloseReason::ALL.iter();
            let found = all.find(|reason| reason.name() == word).copied();
            found.ok_or_else(|| {
                let names: Vec<_> = CloseReason::ALL.iter().map(|reason| reason.name()).collect();
                Fault::bad(format!("`reason` is one of {}", names.join(", ")))
            })
        });
        let protocol = self.protocol.map(|word| {
            let found = PROTOCOLS.into_iter().find(|protocol| protocol.name() == word);
            found.ok_or_else(|| Fault::bad("`protocol` is miop, mqtt, xmpp, im or http"))
        });
        let address = self.address.map(|text| {
            let wrong = || Fault::bad("`address` is an IP address, or a network like 10.1.0.0/16");
            text.parse().map_err(|_| wrong())
        });
        let before = self.after.map(|text| {
            text.parse().map_err(|_| Fault::bad("`after` is the `next` of another page"))
        });
        let filter = DisconnectionFilter {
            client: self.client_id.map(Into::into),
            user: self.user.map(Into::into),
            address: address.transpose()?,
            reason: reason.transpose()?,
            protocol: protocol.transpose()?,
            since_ms: self.since_ms,
            until_ms: self.until_ms,
        };
        Ok(DisconnectionQuery { filter, before: before.transpose()?, count })
    }
}

/// Query of `/v1/slow_clients`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlowClientsQuery {
    /// Clients in the answer.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}
