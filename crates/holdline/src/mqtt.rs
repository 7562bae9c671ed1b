//! Common options of `holdline pub` and `holdline sub`: broker, identity, TLS.
//!
//! The flags are those of mosquitto_pub and mosquitto_sub, so that scripts need no change. Errors
//! name the flag to give; exit codes are in [`code`].

pub mod format;
pub mod property;
pub mod publish;
pub mod subscribe;

use clap::Args;
use client::{
    Block, BrokerAddress, CertificateCheck, Clean, ConnectError, ConnectErrorKind, Formula,
    MqttEvent, Profile, Property, Qos, Scram, Session, Settings, Trust, Version, WillProfile,
};
use property::Given;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Flags of both commands.
#[derive(Args)]
pub struct Common {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Host of the broker
    #[arg(short = 'h', long, value_name = "HOST", default_value = "localhost")]
    host: String,
    /// Port; 1883, or 8883 with TLS
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// URL with all of these: mqtt(s)|ws(s)://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC
    #[arg(short = 'L', long, value_name = "URL", conflicts_with_all = ["host", "port"])]
    url: Option<String>,
    /// Unix socket of the broker
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "url"])]
    unix: Option<PathBuf>,
    /// Connect over WebSocket, at this path
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "/mqtt")]
    ws: Option<String>,
    /// Local address to connect from
    #[arg(short = 'A', value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Client identifier; assigned by the broker by default
    #[arg(short, long, value_name = "ID")]
    id: Option<String>,
    /// Client identifier prefix; the process ID is appended
    #[arg(short = 'I', long, value_name = "PREFIX", conflicts_with = "id")]
    id_prefix: Option<String>,
    /// Keep the session after disconnecting (needs -i)
    #[arg(short = 'c', long = "disable-clean-session")]
    keep: bool,
    /// Session expiry (MQTT 5): 90s, 1h30m; a plain number is in seconds; with -c alone, the
    /// session never expires
    #[arg(short = 'x', long, value_name = "TIME", value_parser = crate::duration::seconds)]
    session_expiry_interval: Option<u32>,
    /// Protocol version: 31, 311 or 5
    #[arg(short = 'V', long, value_name = "VERSION", value_parser = version)]
    protocol_version: Option<Version>,
    /// Keep-alive: 90s, 5m; a plain number is in seconds
    #[arg(short, long, value_name = "TIME", value_parser = keepalive, default_value = "60s")]
    keepalive: u16,
    /// User name
    #[arg(short, long, value_name = "USER")]
    username: Option<String>,
    /// Password
    #[arg(short = 'P', long = "pw", value_name = "PASSWORD")]
    password: Option<String>,
    /// Authenticate with SCRAM-SHA-256 instead of sending the password (MQTT 5)
    #[arg(long, requires = "username", requires = "password")]
    scram: bool,
    /// QoS: 0, 1 or 2
    #[arg(short, long, value_name = "QOS", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Property (MQTT 5): -D connect|publish|subscribe|unsubscribe|disconnect|will NAME VALUE
    #[arg(short = 'D', long, num_args = 3..=4, value_names = ["PACKET", "NAME", "VALUE"],
        action = clap::ArgAction::Append)]
    property: Vec<String>,
    /// Print debug messages
    #[arg(short, long)]
    debug: bool,
    /// Print no error messages
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    tls: Tls,
    #[command(flatten)]
    last: LastWill,
}

/// Flags of TLS, of every command that calls a server by a protocol.
#[derive(Args)]
pub struct Tls {
    /// TLS: file with the CA certificates to trust
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// TLS: folder with CA certificates to trust
    #[arg(long, value_name = "DIR")]
    capath: Option<PathBuf>,
    /// TLS: client certificate
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// TLS: private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// TLS: trust the system's CA certificates
    #[arg(long)]
    tls_use_os_certs: bool,
    /// TLS: do not verify the host name; without --cafile, do not verify the certificate at all
    #[arg(long)]
    insecure: bool,
    /// TLS: use this version only, tlsv1.2 or tlsv1.3
    #[arg(long, value_name = "VERSION")]
    tls_version: Option<String>,
    /// TLS: ALPN protocol to offer
    #[arg(long, value_name = "NAME")]
    tls_alpn: Option<String>,
}

#[derive(Args)]
struct LastWill {
    /// Will topic
    #[arg(long, value_name = "TOPIC")]
    will_topic: Option<String>,
    /// Will payload
    #[arg(long, value_name = "TEXT", requires = "will_topic")]
    will_payload: Option<String>,
    /// Will QoS
    #[arg(long, value_name = "QOS", requires = "will_topic", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=2))]
    will_qos: u8,
    /// Retain the will message
    #[arg(long, requires = "will_topic")]
    will_retain: bool,
}

/// A keep-alive, which has 16 bits of seconds.
fn keepalive(text: &str) -> Result<u16, String> {
    let seconds = crate::duration::seconds(text)?;
    u16::try_from(seconds).map_err(|_| format!("at most {}s", u16::MAX))
}

fn version(text: &str) -> Result<Version, String> {
    match text {
        "31" | "mqttv31" => Ok(Version::V31),
        "311" | "mqttv311" => Ok(Version::V311),
        "5" | "mqttv5" => Ok(Version::V5),
        _ => Err("expected 31, 311 or 5".to_owned()),
    }
}

/// Why a command ends before its work is done: a code and what to tell the user.
pub struct Failure {
    code: u8,
    text: String,
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure { code: 1, text }
    }
}

impl From<ConnectError> for Failure {
    fn from(fault: ConnectError) -> Failure {
        Failure { code: code(&fault), text: fault.to_string() }
    }
}

/// Code of a time that has run out, as mosquitto's.
pub const TIMED_OUT: u8 = 27;

/// The code of a fault: the broker's own where it refused, 1 otherwise.
fn code(fault: &ConnectError) -> u8 {
    match fault.what {
        ConnectErrorKind::Refused(reason) => reason.number(),
        _ => 1,
    }
}

/// Ends a command.
pub fn end(quiet: bool, result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, text }) => {
            if !quiet {
                say(&text);
            }
            ExitCode::from(code)
        }
    }
}

/// Prints a line on standard error, if anybody listens there.
pub fn say(line: &str) {
    note!("{line}");
}

/// Settings that follow from the flags.
pub struct Call {
    pub settings: Settings,
    pub qos: Qos,
    /// The topic of a URL.
    pub topic: Option<String>,
    pub debug: bool,
    given: Vec<Given>,
}

impl Call {
    /// The properties for a packet.
    pub fn block(&self, packet: &str) -> Result<Block, String> {
        property::block(&self.given, packet)
    }

    /// Connects, and says so when that is wished.
    pub fn connect(&self) -> Result<Session, Failure> {
        let mut session = Session::new(self.settings.clone())?;
        self.note(|| format!("connecting to {}", session.address()));
        let version = self.settings.profile.version;
        let accepted = session.connect().map_err(|fault| {
            let mut failure = Failure::from(fault.clone());
            if let (ConnectErrorKind::Refused(reason), true) = (fault.what, version != Version::V5)
            {
                failure.code = reason.return_code().unwrap_or(failure.code); // that of CONNACK
            }
            failure
        })?;
        let goes_on = if accepted.session_present { ", session resumed" } else { "" };
        self.note(|| format!("connected{goes_on}"));
        Ok(session)
    }

    /// A line for whoever wants to know.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if self.debug {
            say(&line());
        }
    }
}

impl Common {
    /// Whether faults are to be said.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Settings that follow from the flags, or their fault in words.
    pub fn call(&self) -> Result<Call, String> {
        let given = property::given(&self.property)?;
        let wants_5 = !given.is_empty() || self.session_expiry_interval.is_some() || self.scram;
        let version = match self.protocol_version {
            Some(version) if wants_5 && version != Version::V5 => {
                return Err("-D, -x and --scram need MQTT 5: give -V 5, or omit -V".into());
            }
            Some(version) => version,
            None if wants_5 => Version::V5,
            None => Version::V311,
        };
        let qos = Qos::of(self.qos).expect("the flag's range");
        let (address, topic) = self.address()?;
        let mut profile = self.profile(version, &given)?;
        let user = self.username.clone().or(address.user.clone());
        let password = self.password.clone().or(address.password.clone());
        let scram = match (self.scram, &user, &password) {
            (true, Some(user), Some(password)) => {
                Some(Scram { user: user.clone(), password: password.clone() })
            }
            _ => None,
        };
        if scram.is_none() {
            if user.is_none() && password.is_some() && version != Version::V5 {
                return Err("before MQTT 5, a password needs a user name: give -u".into());
            }
            profile.user = user.map(|user| Formula::plain(&user));
            profile.password = password.map(|password| password.into_bytes().into());
        }
        let mut settings = Settings::new(address, profile);
        settings.trust = self.tls.trust()?;
        settings.scram = scram;
        settings.from = self.from;
        settings.connect_timeout = Duration::from_secs(10);
        Ok(Call { settings, qos, topic, debug: self.debug, given })
    }

    fn address(&self) -> Result<(BrokerAddress, Option<String>), String> {
        if let Some(path) = &self.unix {
            return Ok((BrokerAddress::unix(path), None));
        }
        if let Some(url) = &self.url {
            let mut address = BrokerAddress::parse(url)?;
            let topic = Some(address.path.clone()).filter(|path| !path.is_empty());
            if let (Some(path), Some(_)) = (&self.ws, &address.web_socket) {
                address.web_socket = Some(path.clone());
            }
            return Ok((address, topic));
        }
        let tls = self.tls.is_wanted() || self.port == Some(8883);
        let port = self.port.unwrap_or(if tls { 8883 } else { 1883 });
        let address = BrokerAddress {
            tls,
            web_socket: self.ws.clone(),
            ..BrokerAddress::tcp(&self.host, port)
        };
        Ok((address, None))
    }

    fn profile(&self, version: Version, given: &[Given]) -> Result<Profile, String> {
        let pid = std::process::id();
        let id = match (&self.id, &self.id_prefix) {
            (Some(id), _) => id.clone(),
            (None, Some(prefix)) => format!("{prefix}{pid}"),
            (None, None) if self.keep => {
                return Err(
                    "a persistent session needs a client identifier: give -i with -c".into()
                );
            }
            (None, None) if version == Version::V31 => format!("holdline-{pid}"),
            (None, None) => String::new(),
        };
        let mut profile = Profile::new(version, Formula::plain(&id));
        profile.keep_alive_s = self.keepalive;
        profile.clean = if self.keep { Clean::Never } else { Clean::Always };
        let kept = if self.keep { u32::MAX } else { 0 };
        profile.expiry_s = self.session_expiry_interval.unwrap_or(kept);
        let connect = property::block(given, "connect")?;
        for property in connect.properties().iter() {
            let unsent = |_| "the properties of CONNECT are too long".to_owned();
            match property {
                Property::SessionExpiry(seconds) => profile.expiry_s = seconds,
                Property::ReceiveMaximum(count) => profile.receive_max = count,
                Property::MaximumPacketSize(bytes) => profile.packet_bytes_max = bytes,
                Property::TopicAliasMaximum(count) => profile.alias_max = count,
                Property::RequestProblem(wanted) => profile.wants_problems = wanted == 1,
                Property::RequestResponse(wanted) => {
                    profile.wants_response_information = wanted == 1;
                }
                other => profile.properties.push(other).map_err(unsent)?,
            }
        }
        profile.will = self.last.will(property::block(given, "will")?);
        Ok(profile)
    }
}

impl LastWill {
    fn will(&self, properties: Block) -> Option<WillProfile> {
        let topic = self.will_topic.as_ref()?;
        Some(WillProfile {
            topic: Formula::plain(topic),
            payload: self.will_payload.clone().unwrap_or_default().into_bytes().into(),
            qos: Qos::of(self.will_qos).expect("the flag's range"),
            retain: self.will_retain,
            properties,
        })
    }
}

impl Tls {
    /// Whether any of them is given.
    pub fn is_wanted(&self) -> bool {
        self.cafile.is_some()
            || self.capath.is_some()
            || self.cert.is_some()
            || self.tls_use_os_certs
            || self.tls_version.is_some()
            || self.tls_alpn.is_some()
            || self.insecure
    }

    /// Authorities to trust, by the flags that are given.
    pub fn trust(&self) -> Result<Trust, String> {
        let named = self.cafile.is_some() || self.capath.is_some() || self.tls_use_os_certs;
        let version = self.tls_version.as_deref().map(|name| {
            Trust::version_of(name).ok_or(format!("{name}: expected tlsv1.2 or tlsv1.3"))
        });
        Ok(Trust {
            ca_file: self.cafile.clone(),
            ca_folder: self.capath.clone(),
            cert_file: self.cert.clone(),
            key_file: self.key.clone(),
            check: match (self.insecure, named) {
                (false, _) => CertificateCheck::All,
                (true, true) => CertificateCheck::NotTheName,
                (true, false) => CertificateCheck::Nothing,
            },
            alpn: self.tls_alpn.iter().cloned().collect(),
            version: version.transpose()?,
        })
    }
}

/// Reason why a message was refused, in words.
pub fn unpublished(event: &MqttEvent) -> Option<String> {
    let MqttEvent::Published { result: Err(why), .. } = event else { return None };
    use client::Unpublished;
    Some(match why {
        Unpublished::Refused(reason) => {
            let name = reason.name(client::PacketKind::Puback).replace('_', " ");
            format!("the broker refused the message: {name}")
        }
        Unpublished::QueueFull => "too many messages are queued".to_owned(),
        Unpublished::TooLarge => "the message is larger than the broker accepts".to_owned(),
        Unpublished::QosNotServed => {
            "the broker does not support this QoS: use a lower one (-q)".to_owned()
        }
        Unpublished::RetainNotServed => {
            "the broker does not support retained messages: omit -r".to_owned()
        }
        Unpublished::Expired => "the message expired before it was sent".to_owned(),
        Unpublished::Offline => "the connection was lost before the message was sent".to_owned(),
    })
}
