//! Bridges between two mosquittos, one in the place of our own broker. Where mosquitto is not
//! installed, there is nothing to bridge to, and these tests say so and pass.

mod kills;

use super::*;
use base::setting::Hidden;
use client::{
    BrokerAddress, Clean, Formula, MqttEvent, Profile, Publication, Qos, Session,
    SubscriptionOptions, Version,
};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest time for anything in these tests.
const PATIENCE: Duration = Duration::from_secs(300);

/// A mosquitto on a Unix socket. Dropping it ends it.
struct Mosquitto {
    child: Child,
    folder: PathBuf,
}

impl Mosquitto {
    /// `None` where it is not installed.
    fn start(folder: &Path) -> Option<Mosquitto> {
        let socket = folder.join("socket");
        let config = format!(
            "listener 0 {}\nallow_anonymous true\npersistence true\npersistence_location {}/\n\
             user root\nmax_queued_messages 10000\n",
            socket.display(),
            folder.display()
        );
        std::fs::write(folder.join("conf"), config).expect("a folder that can be written");
        let _ = std::fs::remove_file(&socket);
        let binaries = ["/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto", "/usr/bin/mosquitto"];
        let Some(binary) = binaries.iter().find(|path| Path::new(path).exists()) else {
            eprintln!("mosquitto is not installed: nothing is tested");
            return None;
        };
        let mut command = Command::new(binary);
        command.arg("-c").arg(folder.join("conf")).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("mosquitto starts");
        Some(Mosquitto { child, folder: folder.to_owned() })
    }

    fn address(&self) -> String {
        format!("unix://{}", self.folder.join("socket").display())
    }

    /// A client that is subscribed to everything, and whose session lasts.
    fn listener(&self, name: &str) -> Session {
        let mut session = self.kept(name);
        let wish = SubscriptionOptions {
            filter: "#".into(),
            qos: Qos::ExactlyOnce,
            no_local: true,
            retain_as_published: true,
            retain_handling: Default::default(),
        };
        session.subscribe(vec![wish], Default::default());
        while !matches!(next(&mut session), MqttEvent::Subscribed { .. }) {}
        session
    }

    fn client(&self, name: &str) -> Session {
        self.session(Profile::new(Version::V5, Formula::plain(name)))
    }

    fn kept(&self, name: &str) -> Session {
        let profile = Profile::new(Version::V5, Formula::plain(name));
        self.session(Profile { clean: Clean::Never, expiry_s: 1_000, ..profile })
    }

    fn session(&self, profile: Profile) -> Session {
        let address = BrokerAddress::parse(&self.address()).expect("an address");
        let mut session = Session::new(client::Settings::new(address, profile)).expect("a session");
        let until = client::now().after(PATIENCE);
        while let Err(fault) = session.connect() {
            assert!(client::now().mono < until, "{fault}");
            std::thread::yield_now();
        }
        session
    }

    fn end(mut self) -> PathBuf {
        // SIGTERM, so that it saves its sessions.
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("our own child");
        self.child.wait().expect("our own child");
        self.folder.clone()
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next(session: &mut Session) -> MqttEvent {
    session.poll(PATIENCE).expect("it stays connected").expect("something in time")
}

/// The next message but those about bridges.
fn message(session: &mut Session) -> (String, String, u8, bool) {
    loop {
        let MqttEvent::Message { message, qos, retain, .. } = next(session) else { continue };
        let payload = String::from_utf8_lossy(message.payload()).into_owned();
        return (message.topic().to_owned(), payload, qos as u8, retain);
    }
}

fn publish(session: &mut Session, topic: &str, text: &str, qos: Qos) {
    let mut message = Publication::new(topic, &[], text.as_bytes());
    message.qos = qos;
    let token = session.publish(message);
    loop {
        match next(session) {
            MqttEvent::Published { token: of, result } if of == token => {
                assert!(result.is_ok(), "{result:?}");
                return;
            }
            _ => {}
        }
    }
}

fn settings(protocol: BridgeProtocol, remote: &Mosquitto, topics: &[&str]) -> BridgeSection {
    BridgeSection {
        addresses: vec![remote.address()],
        protocol,
        restart_s_min: 1,
        restart_s_max: 1,
        notification_topic: "bridge/state".into(),
        topics: topics.iter().map(|line| (*line).to_owned()).collect(),
        ..BridgeSection::named("test").expect("a name")
    }
}

fn begin(settings: BridgeSection, ours: &Mosquitto) -> Bridges {
    let local = LocalBroker { address: ours.address(), user: None, password: None, folder: None };
    start(vec![settings], &local, &NameSettings::default()).expect("a bridge")
}

/// The bridge says so itself, retained, on the remote side.
fn until_up(listener: &mut Session) {
    while message(listener).1 != "1" {}
}

fn folders() -> [tempfile::TempDir; 2] {
    [(); 2].map(|()| tempfile::tempdir().expect("a folder"))
}

#[test]
fn messages_cross_in_both_directions_and_never_come_back() {
    for version in [BridgeProtocol::Mqtt311, BridgeProtocol::Mqtt5] {
        let [here, there] = folders();
        let Some(ours) = Mosquitto::start(here.path()) else { return };
        let Some(remote) = Mosquitto::start(there.path()) else { return };
        let mut far = remote.listener("far");
        let mut near = ours.listener("near");
        let topics = ["both/# both 2 \"\" site/", "up/# out 1", "down/# in 0 from/"];
        let mut bridges = begin(settings(version, &remote, &topics), &ours);
        until_up(&mut far);
        until_up(&mut near);
        let (mut a, mut b) = (ours.client("a"), remote.client("b"));
        for (qos, given) in [(Qos::AtMostOnce, 0), (Qos::AtLeastOnce, 1), (Qos::ExactlyOnce, 2)] {
            publish(&mut a, "both/x", "out", qos);
            let crossed = ("site/both/x".to_owned(), "out".to_owned(), given, false);
            assert_eq!(message(&mut far), crossed, "{version:?}");
            assert_eq!(message(&mut near).0, "both/x");
            publish(&mut b, "site/both/y", "in", qos);
            let crossed = ("both/y".to_owned(), "in".to_owned(), given, false);
            assert_eq!(message(&mut near), crossed, "{version:?}");
            assert_eq!(message(&mut far).0, "site/both/y");
        }
        publish(&mut a, "up/x", "1", Qos::ExactlyOnce);
        assert_eq!(message(&mut far), ("up/x".into(), "1".into(), 1, false), "its line has QoS 1");
        assert_eq!(message(&mut near).0, "up/x");
        publish(&mut b, "down/x", "2", Qos::ExactlyOnce);
        assert_eq!(message(&mut near), ("from/down/x".into(), "2".into(), 0, false));
        // Anything that had come back would stand in front of these.
        publish(&mut a, "end", "", Qos::AtLeastOnce);
        assert_eq!(message(&mut near).0, "end");
        assert_eq!(message(&mut far).0, "down/x");
        let status = &bridges.status()[0];
        assert!(status.is_online && status.connects == 1 && status.refused == 0, "{status:?}");
        bridges.stop();
        assert_eq!(message(&mut far), ("bridge/state".into(), "0".into(), 1, true));
    }
}

#[test]
fn what_is_published_while_the_remote_broker_is_away_waits_and_crosses_when_it_is_back() {
    for version in [BridgeProtocol::Mqtt311, BridgeProtocol::Mqtt5] {
        let [here, there] = folders();
        let Some(ours) = Mosquitto::start(here.path()) else { return };
        let Some(remote) = Mosquitto::start(there.path()) else { return };
        let mut far = remote.listener("far");
        let asked = settings(version, &remote, &["# out 1 up/ up/", "down/# in 1"]);
        let mut bridges = begin(asked.clone(), &ours);
        until_up(&mut far);
        until_up(&mut ours.listener("near"));
        drop(far);
        let folder = remote.end();
        let mut a = ours.client("a");
        (0..300).for_each(|at| publish(&mut a, "up/x", &at.to_string(), Qos::AtLeastOnce));
        let remote = Mosquitto::start(&folder).expect("it was there before");
        let mut far = remote.kept("far");
        let mut wanted = 0;
        while wanted < 300 {
            let (topic, text, qos, _) = message(&mut far);
            if topic == "up/x" {
                let at: i32 = text.parse().expect("a number");
                assert!(at <= wanted, "{at} came before {wanted}");
                wanted = wanted.max(at + 1);
                assert_eq!(qos, 1);
            }
        }
        // And the other way round, while the bridge is away.
        bridges.stop();
        let mut b = remote.client("b");
        (0..50).for_each(|at| publish(&mut b, "down/x", &at.to_string(), Qos::AtLeastOnce));
        let mut near = ours.kept("near");
        let bridges = begin(asked, &ours);
        let mut wanted = 0;
        while wanted < 50 {
            let (topic, text, ..) = message(&mut near);
            if topic == "down/x" {
                assert_eq!(text, wanted.to_string());
                wanted += 1;
            }
        }
        drop(bridges);
    }
}

#[test]
fn three_hundred_messages_of_qos_2_that_wait_cross_once_each_with_the_defaults() {
    for version in [BridgeProtocol::Mqtt311, BridgeProtocol::Auto] {
        let [here, there] = folders();
        let Some(ours) = Mosquitto::start(here.path()) else { return };
        let Some(remote) = Mosquitto::start(there.path()) else { return };
        let mut far = remote.listener("far");
        let mut bridges = begin(settings(version, &remote, &["up/# out 2"]), &ours);
        until_up(&mut far);
        until_up(&mut ours.listener("near"));
        drop(far);
        let folder = remote.end();
        let mut a = ours.client("a");
        (0..300).for_each(|at| publish(&mut a, "up/x", &at.to_string(), Qos::ExactlyOnce));
        let remote = Mosquitto::start(&folder).expect("it was there before");
        let mut far = remote.kept("far");
        for wanted in 0..300 {
            let got = loop {
                let (topic, text, ..) = message(&mut far);
                if topic == "up/x" {
                    break text;
                }
            };
            assert_eq!(got, wanted.to_string(), "{version:?}");
        }
        bridges.stop();
    }
}

/// Answers a CONNECT of 5.0 as brokers do that do not know it, once, and passes all later
/// connections on.
fn old_broker(at: &Path, to: &Mosquitto) -> String {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    let listener = UnixListener::bind(at).expect("a socket");
    let to = to.folder.join("socket");
    let relay = move || {
        let (mut first, _) = listener.accept().expect("a connection");
        let mut bytes = [0; 1_024];
        let count = first.read(&mut bytes).expect("a CONNECT");
        assert!(bytes[..count].windows(5).any(|it| it == b"MQTT\x05"), "it is of 5.0");
        first.write_all(&[0x20, 2, 0, 1]).expect("it listens");
        drop(first);
        let (second, _) = listener.accept().expect("a connection");
        let there = UnixStream::connect(to).expect("the broker");
        let ways = [
            (second.try_clone().expect("a socket"), there.try_clone().expect("a socket")),
            (there, second),
        ];
        for (mut from, mut to) in ways {
            let copy = move || std::io::copy(&mut from, &mut to);
            std::thread::Builder::new().name("relay".into()).spawn(copy).expect("a thread");
        }
    };
    std::thread::Builder::new().name("old-broker".into()).spawn(relay).expect("a thread");
    format!("unix://{}", at.display())
}

#[test]
fn a_broker_that_does_not_speak_mqtt_5_is_spoken_to_in_3_1_1() {
    let [here, there] = folders();
    let Some(ours) = Mosquitto::start(here.path()) else { return };
    let Some(remote) = Mosquitto::start(there.path()) else { return };
    let mut far = remote.listener("far");
    let address = old_broker(&there.path().join("old"), &remote);
    let asked = settings(BridgeProtocol::Auto, &remote, &["up/# out 1"]);
    let mut bridges = begin(BridgeSection { addresses: vec![address], ..asked }, &ours);
    until_up(&mut far);
    until_up(&mut ours.listener("near"));
    publish(&mut ours.client("a"), "up/x", "1", Qos::AtLeastOnce);
    assert_eq!(message(&mut far).1, "1");
    bridges.stop();
}

#[test]
fn a_bridge_that_cannot_work_is_refused_in_words() {
    let local =
        LocalBroker { address: "localhost".into(), user: None, password: None, folder: None };
    let good = BridgeSection {
        addresses: vec!["localhost:1".into()],
        topics: vec!["# out".into()],
        ..BridgeSection::named("x").expect("a name")
    };
    let bad = [
        BridgeSection { addresses: Vec::new(), ..good.clone() },
        BridgeSection { addresses: vec!["http://x".into()], ..good.clone() },
        BridgeSection { topics: Vec::new(), ..good.clone() },
        BridgeSection { password: Hidden::of("p"), ..good.clone() },
        BridgeSection { restart_s_min: 9, restart_s_max: 3, ..good.clone() },
        BridgeSection {
            addresses: vec!["mqtts://localhost".into()],
            ca: Some("/nowhere".into()),
            ..good.clone()
        },
    ];
    for settings in bad {
        let refused =
            start(vec![settings], &local, &NameSettings::default()).err().expect("refused");
        assert!(refused.starts_with("bridge x: "), "{refused}");
    }
    let asleep = BridgeSection { enabled: false, ..good };
    let started = start(vec![asleep], &local, &NameSettings::default());
    assert_eq!(started.map(|all| all.status().len()), Ok(0));
}
