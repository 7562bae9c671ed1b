//! Ended connections, and clients that do not keep up.

use crate::texts::{CloseWord, EndedProtocol};
use model::link::Protocol;
use model::ports::control::disconnections::{self as ended, DisconnectionPlace};
use model::ports::control::slow_clients;
use model::ports::control::top::TopKind;
use model::ports::topics::ClientState;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// How a connection ended. Of a connection that ended before a client was known, what was not known
/// is null.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct ConnectionEnding {
    /// Client identifier of MQTT; name of the device.
    client_id: Option<String>,
    /// Product of a device of MIOP.
    product: Option<String>,
    /// User; account of IM and XMPP.
    user: Option<String>,
    /// Address and port. Null: the client reset the connection, and its service keeps no address.
    address: Option<String>,
    /// Name of the listener.
    listener: String,
    /// Protocol. Null: it ended before its first bytes were understood.
    #[schemars(with = "Option<EndedProtocol>")]
    protocol: Option<&'static str>,
    /// Why it ended. `GET /v1/meanings` explains each word.
    #[schemars(with = "CloseWord")]
    reason: &'static str,
    /// More about the reason: why a login was refused, how TLS failed, or which file of the chat
    /// page a browser asked for.
    detail: Option<&'static str>,
    /// Milliseconds from the login to the end, for IM and XMPP to the second. Null: there was no
    /// login.
    connected_ms: Option<u64>,
    /// Bytes of TCP payload from the client. Null: the kernel does not tell.
    bytes_in: Option<u64>,
    /// Bytes of TCP payload that the client's kernel acknowledged.
    bytes_out: Option<u64>,
}

impl From<&ended::Disconnection> for ConnectionEnding {
    fn from(it: &ended::Disconnection) -> ConnectionEnding {
        ConnectionEnding {
            client_id: (!it.client.is_empty()).then(|| it.client.to_string()),
            product: it.product.as_ref().map(ToString::to_string),
            user: it.user.as_deref().map(str::to_owned),
            address: it.peer.map(|peer| peer.to_string()),
            listener: it.listener.to_string(),
            protocol: it.protocol.map(|protocol| protocol.name()),
            reason: it.reason.name(),
            detail: (!it.detail.is_empty()).then_some(it.detail),
            connected_ms: it.lasted_ms,
            bytes_in: it.traffic.map(|traffic| traffic.received),
            bytes_out: it.traffic.map(|traffic| traffic.acknowledged),
        }
    }
}

/// An ended connection in the list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Disconnection {
    /// Unix millisecond at which it ended.
    at_ms: u64,
    #[serde(flatten)]
    ending: ConnectionEnding,
}

/// A page of ended connections, newest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DisconnectionPage {
    /// The page.
    disconnections: Vec<Disconnection>,
    /// Where to go on: the next query's `after`; null at the end.
    next: Option<String>,
}

impl DisconnectionPage {
    /// The first `count` of what all shards found.
    pub(crate) fn of(
        found: &[(DisconnectionPlace, ended::Disconnection)],
        count: u32,
    ) -> DisconnectionPage {
        let page = found.get(..count as usize);
        let next = page.and_then(|page| page.last()).map(|(place, _)| place.to_string());
        let entry = |(_, it): &(DisconnectionPlace, ended::Disconnection)| Disconnection {
            at_ms: it.at_ms,
            ending: ConnectionEnding::from(it),
        };
        DisconnectionPage {
            disconnections: page.unwrap_or(found).iter().map(entry).collect(),
            next,
        }
    }
}

/// A client that does not keep up.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SlowClient {
    /// Client identifier of MQTT; name of the device.
    client_id: String,
    /// User; account of IM and XMPP.
    user: Option<String>,
    /// Address and port, where the service keeps it.
    address: Option<String>,
    /// Protocol.
    #[schemars(with = "EndedProtocol")]
    protocol: &'static str,
    /// Unix millisecond since when it is in the list.
    since_ms: u64,
    /// Bytes that wait for it, in its session, the server's queue and the kernel's socket.
    waiting_bytes: u64,
    /// Messages that wait in its session, those on the way included.
    queued: u32,
    /// Their bytes.
    queued_bytes: u64,
    /// Messages among them that were sent and not acknowledged.
    inflight: u32,
    /// Bytes in the server's queue for its connection. Null, like `socket_bytes` and `bytes_per_s`:
    /// the server has not looked at its connection yet.
    queue_bytes: Option<u64>,
    /// Bytes in the kernel's socket that its kernel has not acknowledged.
    socket_bytes: Option<u64>,
    /// Its receive window is closed: it does not read at all.
    stalled: bool,
    /// Bytes a second that it took last.
    bytes_per_s: Option<u64>,
    /// Messages that it lost since it is in the list, or since its session began.
    dropped: u64,
}

impl From<&slow_clients::SlowClient> for SlowClient {
    fn from(it: &slow_clients::SlowClient) -> SlowClient {
        SlowClient {
            client_id: it.client.to_string(),
            user: it.user.as_deref().map(str::to_owned),
            address: it.peer.map(|peer| peer.to_string()),
            protocol: it.protocol.name(),
            since_ms: it.since_ms,
            waiting_bytes: it.reader.map_or(0, |reader| reader.waiting_bytes()),
            queued: 0,
            queued_bytes: 0,
            inflight: 0,
            queue_bytes: it.reader.map(|reader| reader.queue_bytes),
            socket_bytes: it.reader.map(|reader| reader.socket_bytes),
            stalled: it.reader.is_some_and(|reader| reader.is_stalled),
            bytes_per_s: it.reader.map(|reader| reader.bytes_per_s),
            dropped: it.dropped,
        }
    }
}

impl SlowClient {
    /// A client of topics whose messages wait in its session though its connection takes all.
    fn waits(state: &ClientState) -> SlowClient {
        SlowClient {
            client_id: state.client_id.to_string(),
            user: state.user.as_deref().map(str::to_owned),
            address: state.peer.map(|peer| peer.to_string()),
            protocol: Protocol::Mqtt.name(),
            since_ms: state.since_ms,
            waiting_bytes: 0,
            queued: 0,
            queued_bytes: 0,
            inflight: 0,
            queue_bytes: None,
            socket_bytes: None,
            stalled: false,
            bytes_per_s: None,
            dropped: state.dropped,
        }
    }

    /// Adds the messages queued in its session.
    fn add(&mut self, state: &ClientState) {
        (self.queued, self.inflight) = (state.queued, state.inflight);
        self.queued_bytes = state.queued_bytes;
        self.waiting_bytes += state.queued_bytes;
    }
}

/// Clients that do not keep up.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SlowClients {
    /// Clients, those with most waiting bytes first.
    clients: Vec<SlowClient>,
    /// How many there are in all.
    total: u64,
}

impl SlowClients {
    /// The `count` worst of slow connections and of sessions with waiting messages, one row a
    /// client: by bytes that wait, then by messages lost.
    pub(crate) fn of(
        found: &[slow_clients::SlowClient],
        waiting: &[ClientState],
        count: u32,
    ) -> SlowClients {
        let mut clients: Vec<SlowClient> = found.iter().map(SlowClient::from).collect();
        let mqtt = |row: &SlowClient| row.protocol == Protocol::Mqtt.name();
        let places: HashMap<String, usize> = clients
            .iter()
            .enumerate()
            .filter(|(_, row)| mqtt(row))
            .map(|(at, row)| (row.client_id.clone(), at))
            .collect();
        // What is on the way waits only for an acknowledgement.
        for state in waiting.iter().filter(|state| state.online) {
            if let Some(row) = places.get(&*state.client_id).and_then(|&at| clients.get_mut(at)) {
                row.add(state);
            } else if state.queued > state.inflight {
                let mut row = SlowClient::waits(state);
                row.add(state);
                clients.push(row);
            }
        }
        let total = clients.len() as u64;
        clients.sort_by_key(|row| Reverse((row.waiting_bytes, row.dropped)));
        clients.truncate(count as usize);
        SlowClients { clients, total }
    }

    /// Bytes that wait, by the names of a kind.
    pub(crate) fn waiting_by(&self, kind: TopKind) -> BTreeMap<String, u64> {
        let mut by = BTreeMap::new();
        for row in self.clients.iter().filter(|row| row.waiting_bytes > 0) {
            let is_chat = matches!(row.protocol, "im" | "xmpp");
            let name = match (kind, &row.user) {
                (TopKind::Clients, Some(user)) if is_chat => {
                    Some(format!("{user}/{}", row.client_id))
                }
                (TopKind::Clients, _) => Some(row.client_id.clone()),
                (TopKind::Users, user) => user.clone(),
                (TopKind::Addresses, _) => {
                    let peer = row.address.as_ref().and_then(|it| it.parse::<SocketAddr>().ok());
                    peer.map(|peer| peer.ip().to_canonical().to_string())
                }
                (TopKind::Topics | TopKind::Groups, _) => None,
            };
            if let Some(name) = name {
                *by.entry(name).or_default() += row.waiting_bytes;
            }
        }
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::presence::PresenceVersion;

    fn state(client: &str, queued: u32, inflight: u32) -> ClientState {
        ClientState {
            client_id: client.into(),
            user: None,
            online: true,
            protocol: "mqtt5",
            peer: None,
            since_ms: 1,
            seen_ms: 1,
            version: PresenceVersion::default(),
            reason: None,
            keep_alive_s: 60,
            expiry_s: 0,
            subscriptions: 1,
            inflight,
            queued,
            queued_bytes: u64::from(queued) * 10,
            dropped: 0,
            has_will: false,
        }
    }

    #[test]
    fn a_client_has_one_row_and_the_worst_comes_first() {
        let reader = slow_clients::SlowReader { socket_bytes: 900, ..Default::default() };
        let found = [slow_clients::SlowClient {
            client: "socket".into(),
            user: None,
            peer: None,
            protocol: Protocol::Mqtt,
            since_ms: 5,
            reader: Some(reader),
            dropped: 7,
        }];
        let waiting = [state("acks", 3, 3), state("socket", 2, 1), state("session", 100, 20)];
        let clients = SlowClients::of(&found, &waiting, 10);
        let rows: Vec<_> = clients
            .clients
            .iter()
            .map(|row| (&*row.client_id, row.waiting_bytes, row.queued, row.dropped))
            .collect();
        assert_eq!(rows, [("session", 1_000, 100, 0), ("socket", 920, 2, 7)]);
        let sockets: Vec<_> = clients.clients.iter().map(|row| row.socket_bytes).collect();
        assert_eq!(sockets, [None, Some(900)], "a connection that nobody looked at is not empty");
        assert_eq!(clients.waiting_by(TopKind::Clients)["session"], 1_000);
        assert_eq!((clients.total, SlowClients::of(&found, &waiting, 1).clients.len()), (2, 1));
    }
}
