//! Sessions with a real broker, over every transport it has. Where mosquitto is not installed
//! these tests say so and pass.

use client::{
    BrokerAddress, CertificateCheck, Clean, ConnectErrorKind, Formula, MqttEvent, Profile,
    Publication, Qos, ReasonCode, Session, Settings, SubscriptionOptions, Trust, Version,
};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(300);

/// A mosquitto with a listener of each kind. Dropping it ends it.
struct Mosquitto {
    child: Child,
    folder: tempfile::TempDir,
    tls: u16,
    web: u16,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

impl Mosquitto {
    /// `None` where it is not installed.
    fn start() -> Option<Mosquitto> {
        let binaries = ["/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto", "/usr/bin/mosquitto"];
        let Some(binary) = binaries.iter().find(|path| Path::new(path).exists()) else {
            eprintln!("mosquitto is not installed: nothing is tested");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        let made = made.expect("a certificate");
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("crt"), made.cert.pem()).expect("a file");
        std::fs::write(file("key"), made.signing_key.serialize_pem()).expect("a file");
        let (tls, web) = (free_port(), free_port());
        let path = folder.path().display();
        let config = format!(
            "allow_anonymous true\nuser root\nlistener 0 {path}/socket\n\
             listener {tls} 127.0.0.1\ncertfile {path}/crt\nkeyfile {path}/key\n\
             listener {web} 127.0.0.1\nprotocol websockets\n"
        );
        std::fs::write(file("conf"), config).expect("a file");
        let mut command = Command::new(binary);
        command.arg("-c").arg(file("conf")).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("mosquitto starts");
        Some(Mosquitto { child, folder, tls, web })
    }

    fn unix(&self) -> BrokerAddress {
        BrokerAddress::unix(self.folder.path().join("socket"))
    }

    fn session(&self, settings: Settings) -> Session {
        let mut session = Session::new(settings).expect("good settings");
        let until = client::now().after(PATIENCE);
        while let Err(fault) = session.connect() {
            assert!(client::now().mono < until, "{fault}");
            std::thread::yield_now();
        }
        session
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn profile(version: Version, name: &str) -> Profile {
    Profile::new(version, Formula::plain(name))
}

fn next(session: &mut Session) -> MqttEvent {
    session.poll(PATIENCE).expect("it stays connected").expect("something in time")
}

fn subscribe(session: &mut Session, filter: &str) {
    let wish = SubscriptionOptions {
        filter: filter.into(),
        qos: Qos::ExactlyOnce,
        no_local: false,
        retain_as_published: false,
        retain_handling: Default::default(),
    };
    let token = session.subscribe(vec![wish], Default::default());
    while !matches!(next(session), MqttEvent::Subscribed { token: of, .. } if of == token) {}
}

fn message(topic: &str, payload: &[u8], qos: Qos) -> Publication {
    let mut message = Publication::new(topic, &[], payload);
    message.qos = qos;
    message
}

/// Sends a message to itself at each QoS and hears it once.
fn talk(session: &mut Session, topic: &str, payload: &[u8]) {
    subscribe(session, topic);
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let token = session.publish(message(topic, payload, qos));
        let (mut is_heard, mut is_taken) = (false, false);
        while !(is_heard && is_taken) {
            match next(session) {
                MqttEvent::Message { message, qos: of, .. } => {
                    assert!(!is_heard && of == qos && message.payload() == payload);
                    is_heard = true;
                }
                MqttEvent::Published { token: of, result } => {
                    assert!(of == token && result.is_ok(), "{result:?}");
                    is_taken = true;
                }
                event => panic!("{event:?}"),
            }
        }
    }
    assert_eq!(session.under_way(), 0);
}

#[test]
fn every_version_speaks_over_every_transport() {
    let Some(broker) = Mosquitto::start() else { return };
    let trust = Trust { ca_file: Some(broker.folder.path().join("crt")), ..Trust::default() };
    let parse = |text: String| BrokerAddress::parse(&text).expect("an address");
    let addresses = [
        broker.unix(),
        parse(format!("mqtts://localhost:{}", broker.tls)),
        parse(format!("ws://127.0.0.1:{}/mqtt", broker.web)),
    ];
    for version in Version::ALL {
        for address in &addresses {
            let name = format!("t{}", version.level());
            let settings = Settings::new(address.clone(), profile(version, &name));
            let mut session = broker.session(Settings { trust: trust.clone(), ..settings });
            talk(&mut session, "a/b", b"short");
            // More than one frame of a WebSocket, record of TLS, or read.
            talk(&mut session, "a/c", &vec![b'x'; 20_000]);
            session.disconnect(ReasonCode::Success, Default::default());
        }
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_unless_that_was_asked_for() {
    let Some(broker) = Mosquitto::start() else { return };
    drop(broker.session(Settings::new(broker.unix(), profile(Version::V311, "up"))));
    let to = |host: &str| {
        let address = BrokerAddress::parse(&format!("mqtts://{host}:{}", broker.tls));
        Settings::new(address.expect("an address"), profile(Version::V5, "c"))
    };
    let ca_file = Some(broker.folder.path().join("crt"));
    let connect = |settings: Settings, check: CertificateCheck, ca_file: Option<_>| {
        let trust = Trust { ca_file, check, ..Trust::default() };
        let settings = Settings { trust, ..settings };
        Session::new(settings).and_then(|mut session| session.connect()).map_err(|f| f.what)
    };
    assert!(connect(to("localhost"), CertificateCheck::All, ca_file.clone()).is_ok());
    let other = connect(to("127.0.0.1"), CertificateCheck::All, ca_file.clone());
    assert_eq!(other.err(), Some(ConnectErrorKind::Tls), "another name");
    assert!(connect(to("127.0.0.1"), CertificateCheck::NotTheName, ca_file).is_ok());
    assert!(connect(to("127.0.0.1"), CertificateCheck::Nothing, None).is_ok());
}

#[test]
fn a_session_goes_on_after_its_connection() {
    let Some(broker) = Mosquitto::start() else { return };
    for version in [Version::V311, Version::V5] {
        let name = format!("kept{}", version.level());
        let kept = Profile { clean: Clean::Never, expiry_s: 60, ..profile(version, &name) };
        let mut session = broker.session(Settings::new(broker.unix(), kept));
        subscribe(&mut session, "kept/#");
        session.disconnect(ReasonCode::Success, Default::default());
        let other = profile(version, "other");
        let mut other = broker.session(Settings::new(broker.unix(), other));
        let token = other.publish(message("kept/x", b"1", Qos::ExactlyOnce));
        while !matches!(next(&mut other), MqttEvent::Published { token: of, .. } if of == token) {}
        // What is published without a connection waits for one.
        session.publish(message("kept/y", b"2", Qos::AtLeastOnce));
        assert!(session.connect().expect("a connection").session_present);
        let mut heard = Vec::new();
        while heard.len() < 2 {
            if let MqttEvent::Message { message, .. } = next(&mut session) {
                heard.push(message.topic().to_owned());
            }
        }
        assert_eq!(heard, ["kept/x", "kept/y"]);
    }
}

#[test]
fn a_broker_that_is_not_there_is_said_to_be_so() {
    let port = free_port();
    let nowhere = Settings::new(BrokerAddress::tcp("127.0.0.1", port), profile(Version::V5, "c"));
    let fault = Session::new(nowhere).expect("good settings").connect().expect_err("nobody");
    assert_eq!(fault.what, ConnectErrorKind::Unreachable);
    assert!(fault.text.starts_with(&format!("mqtt://127.0.0.1:{port}: ")), "{fault}");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let mut waiting =
        Settings::new(BrokerAddress::tcp("127.0.0.1", port), profile(Version::V5, "c"));
    waiting.connect_timeout = Duration::from_millis(50);
    let fault = Session::new(waiting).expect("good settings").connect().expect_err("silence");
    assert_eq!(fault.what, ConnectErrorKind::TimedOut);
}
