//! One session with a server, from a thread that waits: for the command line. Bridges have its
//! addresses, its trust and its words for what goes wrong.
//!
//! A [`Session`] is the client machine of `proto-mqtt` with a link under it: TCP, TLS, WebSocket or
//! a Unix socket. It connects, comes back when the connection is lost, goes on with its session,
//! subscribes again when the server has none, and has [`MqttEvent`]s for whoever polls. An
//! [`im::ImSession`] is the same of `proto-im`. They know no rule of a protocol: those are the
//! machines'.
//!
//! The invariant: a call returns within the time it was given, but for connecting, which has a
//! time of its own ([`Settings::connect_timeout`]).

mod address;
mod clock;
mod driver;
mod fault;
pub mod im;
mod link;
pub mod scram;
mod session;
mod settings;
mod trust;

pub use address::{BrokerAddress, Endpoint, IM_PORT, IMS_PORT};
pub use clock::now;
pub use fault::{ConnectError, ConnectErrorKind};
pub use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
pub use proto_mqtt::client::{
    Clean, Client, ClientOrder, ConnectAccepted, Farewell, Formula, MqttEvent, Profile,
    PublishAckMode, RelayEvent, RelayOrder, Unpublished, WillProfile, properties_of, publication,
};
pub use proto_mqtt::codec::block::{Block, Properties};
pub use proto_mqtt::codec::name::matches;
pub use proto_mqtt::codec::property::{Property, VarInt};
pub use proto_mqtt::codec::{PacketKind, ReasonCode, Unsent, Version};
pub use rustls::ClientConfig;
pub use session::Session;
pub use settings::{Backoff, Scram, Settings};
pub use trust::{CertificateCheck, Trust, TrustedConfig, tls_words};
