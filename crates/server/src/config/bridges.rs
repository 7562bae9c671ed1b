//! `[bridge.NAME]`: another broker that messages are carried to and from.
//!
//! What a bridge does is `bridge`'s part; whether addresses and topics are well formed is asked
//! there. Passwords are never shown.

use std::path::PathBuf;

use crate::bridge::{self, Topic};
use client::Version;

use super::key::{Field, Hidden, Key, Kind, Reload, Section, Value, Words, key, words};
use super::sections::PATH_OR_NONE;

/// `[bridge.NAME]`: another broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BridgeSection {
    /// Its name.
    pub name: String,
    /// Whether it is begun.
    pub enabled: bool,
    /// Where the other broker is; the first is preferred.
    pub addresses: Vec<String>,
    /// Whether the next address is taken at each failure.
    pub round_robin: bool,
    /// The version spoken.
    pub protocol: BridgeProtocol,
    /// The client identifier there; empty: made of the name.
    pub client_id: String,
    /// The client identifier here; empty: made of the name.
    pub local_client_id: String,
    /// Who it is there; empty: nobody.
    pub user: String,
    /// Its password.
    pub password: Hidden,
    /// Whether nothing waits while the connection is down.
    pub clean: bool,
    /// Longest silence, seconds.
    pub keep_alive_s: u16,
    /// Seconds before the first attempt to come back.
    pub restart_s_min: u32,
    /// Seconds that they rise to.
    pub restart_s_max: u32,
    /// Whether it is told on a topic if the connection is there.
    pub notifications: bool,
    /// Whether here alone.
    pub notifications_local_only: bool,
    /// On which topic; empty: the usual one.
    pub notification_topic: String,
    /// Whether it says that it is a bridge.
    pub try_private: bool,
    /// Whether the retain flag is passed on.
    pub outgoing_retain: bool,
    /// Messages on the way.
    pub inflight_max: u16,
    /// PEM file of the authorities it trusts.
    pub ca: Option<PathBuf>,
    /// PEM file of its certificate.
    pub certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub key: Option<PathBuf>,
    /// Whether certificates are not checked.
    pub insecure: bool,
    /// What is carried.
    pub topics: Vec<String>,
}

/// The version of MQTT that a bridge speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BridgeProtocol {
    /// 3.1.
    Mqtt31,
    /// 3.1.1.
    Mqtt311,
    /// 5.
    Mqtt5,
}
words!(BridgeProtocol { Mqtt31 = "mqtt31", Mqtt311 = "mqtt311", Mqtt5 = "mqtt5" });

impl BridgeSection {
    /// The bridge's own word for it; or what is wrong, in its words.
    pub fn settings(&self, packet_bytes_max: u32) -> Result<bridge::Settings, String> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let topics = self.topics.iter().map(|text| Topic::parse(text));
        let settings = bridge::Settings {
            addresses: self.addresses.clone(),
            round_robin: self.round_robin,
            version: match self.protocol {
                BridgeProtocol::Mqtt31 => Version::V31,
                BridgeProtocol::Mqtt311 => Version::V311,
                BridgeProtocol::Mqtt5 => Version::V5,
            },
            client_id: self.client_id.clone(),
            local_client_id: self.local_client_id.clone(),
            user: some(&self.user),
            password: some(self.password.reveal()),
            clean_session: self.clean,
            keep_alive_s: self.keep_alive_s,
            retry_s_min: self.restart_s_min,
            retry_s_max: self.restart_s_max,
            start: self.enabled,
            notifications: self.notifications,
            notifications_local_only: self.notifications_local_only,
            notification_topic: self.notification_topic.clone(),
            try_private: self.try_private,
            outgoing_retain: self.outgoing_retain,
            inflight_max: self.inflight_max,
            packet_bytes_max,
            ca_file: self.ca.clone(),
            cert_file: self.certificate.clone(),
            key_file: self.key.clone(),
            insecure: self.insecure,
            topics: topics.collect::<Result<_, _>>()?,
            ..bridge::Settings::new(&self.name)
        };
        settings.check()?;
        Ok(settings)
    }
}

impl Section for BridgeSection {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            addresses,
            Kind::List {
                what: "addresses, such as \"broker.example:1883\" or \"mqtts://broker.example\"",
                max: 16,
                fits: |text| (1..=512).contains(&text.len())
            },
            Restart,
            "Where the other broker is: host, host:port, or a URL of mqtt, mqtts, ws, wss or \
             unix. The first is preferred and gone back to."
        )
        .required(),
        key!(
            topics,
            Kind::List {
                what: "topics, such as \"sensors/# out 1 local/ remote/\"",
                max: 256,
                fits: |text| (1..=4_096).contains(&text.len())
            },
            Restart,
            "What is carried: a filter, then in, out or both, QoS, local and remote prefix (\"\" \
             is none), as mosquitto writes it; all but the filter may be left out."
        )
        .required(),
        key!(enabled, Kind::Bool, Restart, "Whether it is begun at all."),
        key!(
            round_robin,
            Kind::Bool,
            Restart,
            "Take the next address at each failure, and stay with it."
        ),
        key!(protocol, Kind::Word(BridgeProtocol::WORDS), Restart, "The version spoken there."),
        key!(client_id, NAME, Restart, "Its client identifier there; \"\" is holdline.NAME."),
        key!(local_client_id, NAME, Restart, "Its client identifier here; \"\" is local.NAME."),
        key!(user, NAME, Restart, "Who it is there; \"\" is nobody."),
        key!(password, NAME, Restart, "Its password there. Never printed.").secret(),
        key!(
            clean,
            Kind::Bool,
            Restart,
            "Whether nothing waits, here and there, while the connection is down."
        ),
        key!(
            keep_alive_s,
            Kind::whole(5, 65_535, "seconds"),
            Restart,
            "Longest silence. Then the connection is given up and begun again."
        ),
        key!(
            restart_s_min,
            Kind::whole(1, 3_600, "seconds"),
            Restart,
            "Time before the first attempt to come back; it doubles with each, with some jitter."
        ),
        key!(restart_s_max, Kind::whole(1, 86_400, "seconds"), Restart, "What it rises to."),
        key!(
            notifications,
            Kind::Bool,
            Restart,
            "Publish 1 or 0, retained, when the connection is there or not."
        ),
        key!(
            notifications_local_only,
            Kind::Bool,
            Restart,
            "The same here alone, not on the other broker."
        ),
        key!(
            notification_topic,
            NAME,
            Restart,
            "Where; \"\" is $SYS/broker/connection/CLIENT_ID/state."
        ),
        key!(
            try_private,
            Kind::Bool,
            Restart,
            "Say that it is a bridge, so that nothing comes back to where it came from."
        ),
        key!(outgoing_retain, Kind::Bool, Restart, "Whether the retain flag is passed on."),
        key!(
            inflight_max,
            Kind::whole(1, 65_535, "messages"),
            Restart,
            "Messages of QoS 1 and 2 on the way. The others wait."
        ),
        key!(
            ca,
            PATH_OR_NONE,
            Restart,
            "PEM file of the authorities it trusts; \"\" is those of the system."
        ),
        key!(certificate, PATH_OR_NONE, Restart, "PEM file of its own certificate."),
        key!(key, PATH_OR_NONE, Restart, "PEM file of its private key."),
        key!(
            insecure,
            Kind::Bool,
            Restart,
            "Do not check the other broker's certificate. Warned of at the start."
        ),
    ];
    const RELOAD: Reload = Reload::Restart;

    fn blank(name: &str) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
            return Err("a bridge's name must be 1 to 64 letters, digits, - _ and .".into());
        }
        Ok(BridgeSection {
            name: name.into(),
            enabled: true,
            addresses: Vec::new(),
            round_robin: false,
            protocol: BridgeProtocol::Mqtt311,
            client_id: String::new(),
            local_client_id: String::new(),
            user: String::new(),
            password: Hidden::default(),
            clean: false,
            keep_alive_s: 60,
            restart_s_min: 5,
            restart_s_max: 30,
            notifications: true,
            notifications_local_only: false,
            notification_topic: String::new(),
            try_private: true,
            outgoing_retain: true,
            inflight_max: 100,
            ca: None,
            certificate: None,
            key: None,
            insecure: false,
            topics: Vec::new(),
        })
    }
}

const NAME: Kind = Kind::Text {
    what: "a text of at most 1024 bytes",
    fits: |text| text.len() <= 1_024 && !text.contains('\0'),
};
