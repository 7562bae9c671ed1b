//! `[bridge.NAME]`: another broker that messages are carried to and from.
//!
//! What a bridge does is `bridge`'s part; whether addresses and topics are well formed is asked
//! there. Passwords are never shown.

use std::path::PathBuf;

use crate::bridge::{self, Topic};
use base::setting::{Hidden, Kind, list, text, whole};
use base::{section, words};
use client::Version;

section! {
    /// `[bridge.NAME]`: another broker.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct BridgeSection {
        /// Its name.
        @aside name: String;
        /// Where the other broker is: host, host:port, or a URL of mqtt, mqtts, ws, wss or unix.
        /// The first is preferred and gone back to.
        addresses: Vec<String>, list(
            16,
            "addresses, such as \"broker.example:1883\" or \"mqtts://broker.example\"",
            |text| (1..=512).contains(&text.len()),
        );
        /// What is carried: a filter, then in, out or both, QoS, local and remote prefix ("" is
        /// none), as mosquitto writes it; all but the filter may be left out.
        topics: Vec<String>, list(
            256,
            "topics, such as \"sensors/# out 1 local/ remote/\"",
            |text| (1..=4_096).contains(&text.len()),
        );
        /// Whether it is begun at all.
        enabled: bool = true;
        /// Take the next address at each failure, and stay with it.
        round_robin: bool = false;
        /// The version spoken there.
        protocol: BridgeProtocol = BridgeProtocol::Mqtt311;
        /// Its client identifier there; "" is holdline.NAME.
        client_id: String = String::new(), NAME;
        /// Its client identifier here; "" is local.NAME.
        local_client_id: String = String::new(), NAME;
        /// Who it is there; "" is nobody.
        user: String = String::new(), NAME;
        /// Its password there. Never printed.
        password: Hidden = Hidden::default(), NAME, secret;
        /// Whether nothing waits, here and there, while the connection is down.
        clean: bool = false;
        /// Longest silence. Then the connection is given up and begun again.
        keep_alive_s: u16 = 60, whole(5..=65_535, "seconds");
        /// Time before the first attempt to come back; it doubles with each, with some jitter.
        restart_s_min: u32 = 5, whole(1..=3_600, "seconds");
        /// What it rises to.
        restart_s_max: u32 = 30, whole(1..=86_400, "seconds");
        /// Publish 1 or 0, retained, when the connection is there or not.
        notifications: bool = true;
        /// The same here alone, not on the other broker.
        notifications_local_only: bool = false;
        /// Where; "" is $SYS/broker/connection/CLIENT_ID/state.
        notification_topic: String = String::new(), NAME;
        /// Say that it is a bridge, so that nothing comes back to where it came from.
        try_private: bool = true;
        /// Whether the retain flag is passed on.
        outgoing_retain: bool = true;
        /// Messages of QoS 1 and 2 on the way. The others wait.
        inflight_max: u16 = 100, whole(1..=65_535, "messages");
        /// PEM file of the authorities it trusts; "" is those of the system.
        ca: Option<PathBuf> = None;
        /// PEM file of its own certificate.
        certificate: Option<PathBuf> = None;
        /// PEM file of its private key.
        key: Option<PathBuf> = None;
        /// Do not check the other broker's certificate. Warned of at the start.
        insecure: bool = false;
    }
}

words! {
    /// The version of MQTT that a bridge speaks.
    pub enum BridgeProtocol {
        /// 3.1.
        Mqtt31 = "mqtt31",
        /// 3.1.1.
        Mqtt311 = "mqtt311",
        /// 5.
        Mqtt5 = "mqtt5",
    }
}

impl BridgeSection {
    /// One of this name with the defaults, unless the name may not be one; then why.
    pub(super) fn checked(name: &str) -> Result<BridgeSection, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
            return Err("a bridge's name must be 1 to 64 letters, digits, - _ and .".into());
        }
        Ok(BridgeSection { name: name.into(), ..BridgeSection::default() })
    }

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

const NAME: Kind =
    text("a text of at most 1024 bytes", |text| text.len() <= 1_024 && !text.contains('\0'));
