//! Settings of a bridge, and the two sessions that follow from them.

use super::map::{Direction, Topic};
use client::{
    Backoff, BrokerAddress, CertificateCheck, Clean, Formula, Profile, PublishAckMode, Qos, Trust,
    Version, WillProfile,
};
use std::path::PathBuf;
use std::time::Duration;

/// What a bridge is asked for: a section `[bridge.NAME]`, mosquitto's `connection NAME`.
#[derive(Clone)]
pub struct Settings {
    /// Of the section; 1 to 64 bytes.
    pub name: String,
    /// The remote broker: `host`, `host:port`, or as [`BrokerAddress::parse`] takes it. The others
    /// are tried when the ones before do not answer.
    pub addresses: Vec<String>,
    /// After a failure the next address is taken and stayed with; else the first one is preferred.
    pub round_robin: bool,
    /// The version that is spoken to the remote broker.
    pub version: Version,
    /// Its client identifier there; empty: `holdline.NAME`.
    pub client_id: String,
    /// Its client identifier here; empty: `local.NAME`.
    pub local_client_id: String,
    /// Its user name there.
    pub user: Option<String>,
    /// Its password there.
    pub password: Option<String>,
    /// Nothing waits for it when it is away, on either side.
    pub clean_session: bool,
    /// Longest silence, seconds.
    pub keep_alive_s: u16,
    /// The first wait before it calls again, seconds; doubled up to the longest, half of it random.
    pub retry_s_min: u32,
    /// The longest wait, seconds.
    pub retry_s_max: u32,
    /// It starts with the server.
    pub start: bool,
    /// It publishes `1`, and `0` as its will, where `notification_topic` says.
    pub notifications: bool,
    /// The same, but only here.
    pub notifications_local_only: bool,
    /// Empty: `$SYS/broker/connection/CLIENT-ID/state`.
    pub notification_topic: String,
    /// It tells the remote broker that it is a bridge, so that nothing comes back.
    pub try_private: bool,
    /// RETAIN is passed on to the remote broker.
    pub outgoing_retain: bool,
    /// Messages of QoS 1 and 2 on the way, each way.
    pub inflight_max: u16,
    /// Largest packet it takes, bytes. Larger messages are not passed on, and counted.
    pub packet_bytes_max: u32,
    /// TLS: the authorities to believe; without, those of the system.
    pub ca_file: Option<PathBuf>,
    /// TLS: our certificate there.
    pub cert_file: Option<PathBuf>,
    /// TLS: its key.
    pub key_file: Option<PathBuf>,
    /// TLS: the name in the certificate is not looked at; without `ca_file`, nothing of it.
    pub insecure: bool,
    /// What crosses.
    pub topics: Vec<Topic>,
}

/// Our own broker.
#[derive(Clone)]
pub struct LocalBroker {
    /// Where it is, as [`BrokerAddress::parse`] takes it.
    pub address: String,
    /// The user that bridges are.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
}

/// Time for a call, each address: a bridge that calls does nothing else.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Settings {
    /// One without addresses and topics.
    pub fn new(name: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            addresses: Vec::new(),
            round_robin: false,
            version: Version::V311,
            client_id: String::new(),
            local_client_id: String::new(),
            user: None,
            password: None,
            clean_session: false,
            keep_alive_s: 60,
            retry_s_min: 5,
            retry_s_max: 30,
            start: true,
            notifications: true,
            notifications_local_only: false,
            notification_topic: String::new(),
            try_private: true,
            outgoing_retain: true,
            inflight_max: 100,
            packet_bytes_max: 1024 * 1024,
            ca_file: None,
            cert_file: None,
            key_file: None,
            insecure: false,
            topics: Vec::new(),
        }
    }

    /// What is wrong with them, in words.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let rules = [
            ((1..=64).contains(&name.len()), "its name has 1 to 64 bytes"),
            (!self.addresses.is_empty(), "it needs an address"),
            (!self.topics.is_empty(), "it needs a topic, or nothing would cross"),
            (self.keep_alive_s >= 5, "keep_alive_s is 5 or more"),
            (self.retry_s_min > 0, "retry_s_min is 1 or more"),
            (self.retry_s_min <= self.retry_s_max, "retry_s_min must not be above retry_s_max"),
            (self.inflight_max > 0, "inflight_max is 1 or more"),
            (self.packet_bytes_max >= 1_024, "packet_bytes_max is 1024 or more"),
            (self.cert_file.is_some() == self.key_file.is_some(), "a certificate has a key"),
            (
                self.user.is_some() || self.password.is_none() || self.version == Version::V5,
                "a password needs a user name before MQTT 5",
            ),
        ];
        if let Some((_, rule)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(format!("bridge {name}: {rule}"));
        }
        let named = |why| format!("bridge {name}: {why}");
        self.topics.iter().try_for_each(|topic| topic.check().map_err(named))?;
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

    /// Where it says whether it is connected.
    pub fn notification_topic(&self) -> String {
        match self.notification_topic.as_str() {
            "" => format!("$SYS/broker/connection/{}/state", self.remote_id()),
            topic => topic.to_owned(),
        }
    }

    fn has_qos2(&self, not: Direction) -> bool {
        let is = |topic: &Topic| topic.qos == Qos::ExactlyOnce && topic.direction != not;
        self.topics.iter().any(is)
    }

    /// What both legs have in common.
    fn profile(&self, version: Version, id: &str) -> Profile {
        let mut profile = Profile::new(version, Formula::plain(id));
        profile.clean = if self.clean_session { Clean::Always } else { Clean::Never };
        profile.expiry_s = if self.clean_session { 0 } else { u32::MAX };
        profile.keep_alive_s = self.keep_alive_s;
        profile.acks = PublishAckMode::Told;
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
    pub(super) fn remote(&self) -> Result<client::Settings, String> {
        let mut profile = self.profile(self.version, &self.remote_id());
        profile.user = self.user.as_deref().map(Formula::plain);
        profile.password = self.password.as_ref().map(|text| text.clone().into_bytes().into());
        profile.is_bridge = self.try_private && self.version != Version::V5;
        profile.clears_ids = !self.clean_session && self.has_qos2(Direction::In);
        if self.notifications && !self.notifications_local_only {
            profile.will = Some(WillProfile {
                topic: Formula::plain(&self.notification_topic()),
                payload: (*b"0").into(),
                qos: Qos::AtLeastOnce,
                retain: true,
                properties: client::Block::default(),
            });
        }
        let mut settings = self.session(&self.addresses, profile)?;
        settings.round_robin = self.round_robin;
        settings.trust = self.trust();
        let (min, max) = (u64::from(self.retry_s_min), u64::from(self.retry_s_max));
        let retry = Backoff { min: Duration::from_secs(min), max: Duration::from_secs(max) };
        settings.retry = Some(retry);
        Ok(settings)
    }

    /// Whom it believes, and what it shows.
    fn trust(&self) -> Trust {
        Trust {
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
            check: match (self.insecure, &self.ca_file) {
                (false, _) => CertificateCheck::All,
                (true, Some(_)) => CertificateCheck::NotTheName,
                (true, None) => CertificateCheck::Nothing,
            },
            ..Trust::default()
        }
    }

    /// What of the files that it names cannot be used.
    pub fn unusable(&self) -> Option<String> {
        let names_files = self.ca_file.is_some() || self.cert_file.is_some();
        let fault = if names_files { self.trust().config().err() } else { None };
        fault.map(|fault| format!("bridge.{}: {fault}", self.name))
    }

    /// The session at our own broker: always of version 5, for No Local and retain flags.
    pub(super) fn ours(&self, local: &LocalBroker) -> Result<client::Settings, String> {
        let id = match self.local_client_id.as_str() {
            "" => format!("local.{}", self.name),
            id => id.to_owned(),
        };
        let mut profile = self.profile(Version::V5, &id);
        profile.user = local.user.as_deref().map(Formula::plain);
        profile.password = local.password.as_ref().map(|text| text.clone().into_bytes().into());
        profile.clears_ids = !self.clean_session && self.has_qos2(Direction::Out);
        let mut settings = self.session(std::slice::from_ref(&local.address), profile)?;
        let (min, max) = (Duration::from_millis(200), Duration::from_secs(5));
        settings.retry = Some(Backoff { min, max });
        Ok(settings)
    }

    fn session(&self, to: &[String], profile: Profile) -> Result<client::Settings, String> {
        let addresses: Result<Vec<BrokerAddress>, String> =
            to.iter().map(|text| BrokerAddress::parse(text)).collect();
        let mut addresses = addresses?.into_iter();
        let first = addresses.next().ok_or(format!("bridge {}: no address", self.name))?;
        let mut settings = client::Settings::new(first, profile);
        settings.addresses.extend(addresses);
        settings.connect_timeout = CONNECT_TIMEOUT;
        Ok(settings)
    }
}
