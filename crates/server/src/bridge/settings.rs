//! `[bridge.NAME]`: settings of a bridge, and the two sessions that follow from them.
//!
//! Passwords are never shown.

use super::map::Topic;
use base::setting::{Hidden, Kind, list, text, whole};
use base::{section, words};
use client::{
    Backoff, BrokerAddress, CertificateCheck, Clean, ClientConfig, Formula, Profile,
    PublishAckMode, Qos, Trust, Version, WillProfile,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

section! {
    /// `[bridge.NAME]`: another broker.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct BridgeSection {
        /// Its name.
        @aside name: String;
        /// Addresses of the other broker: host, host:port, or a URL of mqtt, mqtts, ws, wss or
        /// unix. The first is preferred: the bridge returns to it.
        @live addresses: Vec<String>, list(
            16,
            "addresses, such as \"broker.example:1883\" or \"mqtts://broker.example\"",
            |text| (1..=512).contains(&text.len()),
        );
        /// Bridged topics, in mosquitto's syntax: a filter, then in, out or both, QoS, local and
        /// remote prefix ("" is none). Everything but the filter is optional.
        @live topics: Vec<String>, list(
            256,
            "topics, such as \"sensors/# out 1 local/ remote/\"",
            |text| (1..=4_096).contains(&text.len()),
        );
        /// Start this bridge.
        @live enabled: bool = true;
        /// After each failure use the next address, and stay with it.
        @live round_robin: bool = false;
        /// MQTT version spoken with the other broker.
        @live protocol: BridgeProtocol = BridgeProtocol::Auto;
        /// Client identifier at the other broker; "" is holdline.NAME.
        @live client_id: String = String::new(), NAME;
        /// Client identifier at this server; "" is local.NAME.
        @live local_client_id: String = String::new(), NAME;
        /// User name at the other broker; "" is none.
        @live user: String = String::new(), NAME;
        /// Password at the other broker. Never printed.
        @live password: Hidden = Hidden::default(), NAME, secret;
        /// Use clean sessions: neither side queues messages while the connection is down.
        @live clean: bool = false;
        /// Keep-alive. A connection that is silent for longer is closed and opened again.
        @live keep_alive_s: u16 = 60, whole(5..=65_535, "seconds");
        /// Delay before the first reconnect; it doubles with each attempt, with some jitter.
        @live restart_s_min: u32 = 5, whole(1..=3_600, "seconds");
        /// Maximum delay between reconnects.
        @live restart_s_max: u32 = 30, whole(1..=86_400, "seconds");
        /// Publish the state of the connection, retained: 1 connected, 0 not.
        @live notifications: bool = true;
        /// Publish it only here, not on the other broker.
        @live notifications_local_only: bool = false;
        /// Topic of it; "" is $SYS/broker/connection/CLIENT_ID/state.
        @live notification_topic: String = String::new(), NAME;
        /// Tell the other broker that this is a bridge, so that messages are not sent back to where
        /// they came from.
        @live try_private: bool = true;
        /// Pass on the retain flag.
        @live outgoing_retain: bool = true;
        /// Unacknowledged messages of QoS 1 and 2. The others wait. mosquitto accepts 20 unless its
        /// max_inflight_messages says more: beyond that it reorders messages and may lose those
        /// that exceed its queue. An MQTT 5 broker announces its own limit, and the bridge stays
        /// within it.
        @live inflight_max: u16 = 20, whole(1..=65_535, "messages");
        /// PEM file of the authorities that the other broker's certificate is verified against; ""
        /// is the system's.
        @live ca: Option<PathBuf> = None;
        /// PEM file of the bridge's client certificate.
        @live certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        @live key: Option<PathBuf> = None;
        /// Do not verify the other broker's certificate. The start warns of it.
        @live insecure: bool = false;
        /// Largest packet that it accepts, bytes: that of `[mqtt]`. Larger messages are not
        /// forwarded, but counted.
        @aside packet_bytes_max: u32 = 1024 * 1024;
    }
}

words! {
    /// The version of MQTT that a bridge speaks.
    pub enum BridgeProtocol {
        /// 5, and 3.1.1 if the other broker does not speak it.
        Auto = "auto",
        /// 3.1.
        Mqtt31 = "mqtt31",
        /// 3.1.1.
        Mqtt311 = "mqtt311",
        /// 5.
        Mqtt5 = "mqtt5",
    }
}

impl BridgeProtocol {
    /// The version that is tried first.
    fn version(self) -> Version {
        match self {
            BridgeProtocol::Auto => Version::V5,
            BridgeProtocol::Mqtt31 => Version::V31,
            BridgeProtocol::Mqtt311 => Version::V311,
            BridgeProtocol::Mqtt5 => Version::V5,
        }
    }
}

/// Plan of a leg: the addresses of its broker, and its CONNECT.
pub(super) struct LegPlan {
    /// At least one.
    pub addresses: Vec<BrokerAddress>,
    /// Whether the next address is taken and kept after a failure; otherwise the first is always
    /// tried first.
    pub round_robin: bool,
    /// Trusted authorities, where an address asks for TLS.
    pub tls: Option<Arc<ClientConfig>>,
    /// Content of CONNECT, and how messages are acknowledged.
    pub profile: Profile,
    /// CONNECT for brokers that do not speak the version of `profile`.
    pub older: Option<Profile>,
    /// When to reconnect.
    pub retry: Backoff,
}

/// Our own broker.
#[derive(Clone)]
pub struct LocalBroker {
    /// Its address, as [`BrokerAddress::parse`] reads it.
    pub address: String,
    /// User name of bridges.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// Where what bridges know of their sessions stands; `None`: it is forgotten with the process.
    pub folder: Option<PathBuf>,
}

const NAME: Kind =
    text("a text of at most 1024 bytes", |text| text.len() <= 1_024 && !text.contains('\0'));

impl BridgeSection {
    /// A bridge of this name with the defaults; an error says why the name is invalid.
    pub fn named(name: &str) -> Result<BridgeSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
            return Err("a bridge's name must be 1 to 64 letters, digits, - _ and .".into());
        }
        Ok(BridgeSection { name: name.into(), ..BridgeSection::default() })
    }

    /// Fault of the settings, in words.
    pub fn check(&self) -> Result<(), String> {
        self.mapped_topics()?;
        let name = &self.name;
        let rules = [
            (!self.addresses.is_empty(), "it needs an address"),
            (!self.topics.is_empty(), "it needs a topic, or nothing would cross"),
            (
                self.restart_s_min <= self.restart_s_max,
                "restart_s_min must not be above restart_s_max",
            ),
            (self.certificate.is_some() == self.key.is_some(), "a certificate has a key"),
            (
                !self.user.is_empty()
                    || self.password.reveal().is_empty()
                    || self.protocol == BridgeProtocol::Mqtt5,
                "a password needs a user name before MQTT 5",
            ),
        ];
        if let Some((_, rule)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(format!("bridge {name}: {rule}"));
        }
        let named = |why| format!("bridge {name}: {why}");
        self.addresses
            .iter()
            .try_for_each(|text| BrokerAddress::parse(text).map(drop).map_err(named))
    }

    /// Its client identifier at the remote broker.
    pub fn remote_id(&self) -> String {
        match self.client_id.as_str() {
            "" => format!("holdline.{}", self.name),
            id => id.to_owned(),
        }
    }

    /// Its client identifier at our own broker.
    pub(super) fn local_id(&self) -> String {
        match self.local_client_id.as_str() {
            "" => format!("local.{}", self.name),
            id => id.to_owned(),
        }
    }

    /// Topic of the bridge\'s state.
    pub fn notification_topic(&self) -> String {
        match self.notification_topic.as_str() {
            "" => format!("$SYS/broker/connection/{}/state", self.remote_id()),
            topic => topic.to_owned(),
        }
    }

    /// The bridged topics as mappings; an error says which line is wrong.
    pub(super) fn mapped_topics(&self) -> Result<Vec<Topic>, String> {
        self.topics.iter().map(|line| Topic::parse(line)).collect()
    }

    /// Profile that both legs have in common.
    fn profile(&self, version: Version, id: &str) -> Profile {
        let mut profile = Profile::new(version, Formula::plain(id));
        profile.clean = if self.clean { Clean::Always } else { Clean::Never };
        profile.expiry_s = if self.clean { 0 } else { u32::MAX };
        profile.keep_alive_s = self.keep_alive_s;
        profile.acks = PublishAckMode::Relayed;
        profile.receive_max = self.inflight_max;
        profile.bears_more = true;
        profile.inflight_max = self.inflight_max;
        // What waits is what the other leg has not acknowledged. The receive maximum bounds that,
        // or the number of packet identifiers where a broker does not keep to it.
        profile.waiting_max = u32::from(u16::MAX);
        profile.packet_bytes_max = self.packet_bytes_max;
        profile.alias_max = 16;
        profile.alias_out_max = 16;
        profile
    }

    /// The session at the remote broker.
    pub(super) fn remote(&self) -> Result<LegPlan, String> {
        let profile = self.remote_profile(self.protocol.version())?;
        let is_auto = self.protocol == BridgeProtocol::Auto;
        let older = is_auto.then(|| self.remote_profile(Version::V311)).transpose()?;
        let addresses = self.read(&self.addresses)?;
        let has_tls = addresses.iter().any(|address| address.tls);
        let named = |fault| format!("bridge {}: {fault}", self.name);
        let tls = has_tls.then(|| self.trust().config().map_err(named)).transpose()?;
        let (min, max) = (u64::from(self.restart_s_min), u64::from(self.restart_s_max));
        let retry = Backoff { min: Duration::from_secs(min), max: Duration::from_secs(max) };
        let round_robin = self.round_robin;
        Ok(LegPlan { addresses, round_robin, tls, profile, older, retry })
    }

    /// CONNECT to the remote broker in one version.
    fn remote_profile(&self, version: Version) -> Result<Profile, String> {
        let mut profile = self.profile(version, &self.remote_id());
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        profile.user = some(&self.user).as_deref().map(Formula::plain);
        profile.password = some(self.password.reveal()).map(|text| text.into_bytes().into());
        profile.is_bridge = self.try_private && version != Version::V5;
        if self.notifications && !self.notifications_local_only {
            profile.will = Some(WillProfile {
                topic: Formula::plain(&self.notification_topic()),
                payload: (*b"0").into(),
                qos: Qos::AtLeastOnce,
                retain: true,
                properties: client::Block::default(),
            });
        }
        Ok(profile)
    }

    /// Trusted authorities, and the client certificate.
    fn trust(&self) -> Trust {
        Trust {
            ca_file: self.ca.clone(),
            cert_file: self.certificate.clone(),
            key_file: self.key.clone(),
            check: match (self.insecure, &self.ca) {
                (false, _) => CertificateCheck::All,
                (true, Some(_)) => CertificateCheck::NotTheName,
                (true, None) => CertificateCheck::Nothing,
            },
            ..Trust::default()
        }
    }

    /// Which of the files that it names cannot be used, and why.
    pub fn unusable(&self) -> Option<String> {
        let names_files = self.ca.is_some() || self.certificate.is_some();
        let fault = if names_files { self.trust().config().err() } else { None };
        fault.map(|fault| format!("bridge.{}: {fault}", self.name))
    }

    /// The session at our own broker: always version 5, for No Local and retain flags.
    pub(super) fn ours(&self, local: &LocalBroker) -> Result<LegPlan, String> {
        let mut profile = self.profile(Version::V5, &self.local_id());
        profile.user = local.user.as_deref().map(Formula::plain);
        profile.password = local.password.as_ref().map(|text| text.clone().into_bytes().into());
        let addresses = self.read(std::slice::from_ref(&local.address))?;
        let (min, max) = (Duration::from_millis(200), Duration::from_secs(5));
        let (round_robin, retry) = (false, Backoff { min, max });
        Ok(LegPlan { addresses, round_robin, tls: None, profile, older: None, retry })
    }

    fn read(&self, addresses: &[String]) -> Result<Vec<BrokerAddress>, String> {
        let read: Result<Vec<BrokerAddress>, String> =
            addresses.iter().map(|text| BrokerAddress::parse(text)).collect();
        read.map_err(|why| format!("bridge {}: {why}", self.name))
    }
}
