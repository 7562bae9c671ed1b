//! A server over a real data folder and real sockets: publish and subscribe through every door,
//! over restarts, with other numbers of shards, and by the API's way in.

use client::{
    BrokerAddress, Clean, Formula, MqttEvent, Profile, Publication, Qos, RetainHandling, Session,
    Settings, SubscriptionOptions, Version,
};
use model::id::{DeviceId, ProductKey, Tag};
use model::ports::control::{Answer, Command, Control, Status};
use model::ports::pushes::{PushCommand, PushOrder, PushTarget};
use model::ports::topics::{ClientFilter, TopicAnswer, TopicCommand};
use server::config::Config;
use server::start::{RunningServer, Started, start};
use server::tools;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Longest wait for anything; what is there is there at once.
const WAIT: Duration = Duration::from_secs(300);

/// A server with listeners of every sort, and whatever `more` says.
fn run(data: &Path, shards: u16, more: &str) -> RunningServer {
    try_run(data, shards, more).expect("starts")
}

fn try_run(data: &Path, shards: u16, more: &str) -> Started {
    let data = data.to_str().expect("a path of letters");
    let text = format!(
        "[server]\ndata = {data:?}\nshards = {shards}\npin = false\n[api]\nenabled = false\n\
         [limits]\ndrain_ms = 50\n[mqtt]\nsys_interval_s = 1\n[products.shop]\napp_id = 7\n\
         [listen.tcp]\naddress = \"127.0.0.1:0\"\nprotocol = \"mqtt\"\n\
         [listen.any]\naddress = \"127.0.0.1:0\"\nwebsocket = true\n\
         [listen.ws]\naddress = \"127.0.0.1:0\"\nprotocol = \"mqtt\"\nwebsocket = \"/mqtt\"\n\
         [listen.local]\naddress = \"unix:{data}/mqtt.sock\"\nprotocol = \"mqtt\"\n{more}"
    );
    let config = Config::parse("test", &text, std::iter::empty()).expect("it holds to the rules");
    start(config)
}

fn stop(server: RunningServer) {
    server.drain();
    server.join();
}

fn ask(server: &RunningServer, command: Command) -> Answer {
    let (tell, told) = sync_channel(1);
    server.control().ask(command, Box::new(move |answer| tell.send(answer).expect("awaited")));
    told.recv().expect("an answer")
}

fn topics(server: &RunningServer, command: TopicCommand) -> TopicAnswer {
    match ask(server, Command::Topics(command)) {
        Answer::Topics(answer) => answer,
        other => panic!("it is about topics: {other:?}"),
    }
}

fn status(server: &RunningServer) -> Status {
    match ask(server, Command::Status) {
        Answer::Status(status) => *status,
        other => panic!("no status: {other:?}"),
    }
}

fn tcp(server: &RunningServer) -> String {
    format!("mqtt://127.0.0.1:{}", server.port("tcp").expect("it listens"))
}

fn connect(address: &str, profile: Profile) -> Session {
    let address = BrokerAddress::parse(address).expect("an address");
    let mut session = Session::new(Settings::new(address, profile)).expect("a session");
    session.connect().expect("it is let in");
    session
}

fn profile(name: &str, version: Version) -> Profile {
    Profile::new(version, Formula::new(name))
}

/// One whose session stays.
fn lasting(name: &str) -> Profile {
    Profile { clean: Clean::Never, expiry_s: 3_600, ..profile(name, Version::V5) }
}

fn wish(filter: &str, qos: Qos) -> SubscriptionOptions {
    SubscriptionOptions {
        filter: filter.into(),
        qos,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::Send,
    }
}

fn until<T>(session: &mut Session, what: &str, pick: impl Fn(MqttEvent) -> Option<T>) -> T {
    loop {
        let event = session.poll(WAIT).expect("the connection stays");
        let event = event.unwrap_or_else(|| panic!("nothing came, awaited was {what}"));
        if let Some(found) = pick(event) {
            return found;
        }
    }
}

fn subscribe(session: &mut Session, filter: &str, qos: Qos) {
    session.subscribe(vec![wish(filter, qos)], Default::default());
    let reasons = until(session, "SUBACK", |event| match event {
        MqttEvent::Subscribed { reasons, .. } => Some(reasons),
        _ => None,
    });
    assert!(reasons.iter().all(|reason| (*reason as u8) < 0x80), "{reasons:?}");
}

fn message(topic: &str, payload: &[u8], qos: Qos) -> Publication {
    let mut message = Publication::new(topic, &[], payload);
    message.qos = qos;
    message
}

/// Publishes, and waits for the answer at QoS 1 and 2.
fn publish(session: &mut Session, message: Publication) {
    let token = session.publish(message);
    until(session, "an answer to PUBLISH", |event| match event {
        MqttEvent::Published { token: answered, result } if answered == token => {
            Some(result.expect("it is taken"))
        }
        _ => None,
    });
}

fn heard(session: &mut Session) -> (String, Vec<u8>, bool) {
    until(session, "a message", |event| match event {
        MqttEvent::Message { message, retain, .. } => {
            Some((message.topic().to_owned(), message.payload().to_vec(), retain))
        }
        _ => None,
    })
}

#[test]
fn a_message_goes_through_every_door_and_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), 2, "");
    let port = |name: &str| server.port(name).expect("it listens");
    let doors = [
        tcp(&server),
        format!("mqtt://127.0.0.1:{}", port("any")),
        format!("ws://127.0.0.1:{}/mqtt", port("any")),
        format!("ws://127.0.0.1:{}/mqtt", port("ws")),
        format!("unix://{}/mqtt.sock", folder.path().display()),
    ];
    let mut ears = connect(&doors[0], profile("ears", Version::V5));
    subscribe(&mut ears, "door/#", Qos::ExactlyOnce);
    for (number, door) in doors.iter().enumerate() {
        for (version, name) in [(Version::V31, "a"), (Version::V311, "b"), (Version::V5, "c")] {
            let mut mouth = connect(door, profile(&format!("mouth{number}{name}"), version));
            for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
                let topic = format!("door/{number}/{name}/{}", qos as u8);
                publish(&mut mouth, message(&topic, b"x", qos));
                assert_eq!(heard(&mut ears), (topic, b"x".to_vec(), false), "{door} {version:?}");
            }
        }
    }
    // The last of those who published may not have been seen to go: a question is answered before
    // sockets are read.
    while status(&server).sessions_online > 1 {
        std::thread::yield_now();
    }
    assert_eq!(status(&server).subscriptions, 1);
    let file = folder.path().join("mqtt.sock");
    assert!(file.exists());
    stop(server);
    assert!(!file.exists(), "the socket file goes with its server");
}

#[test]
fn what_waits_for_a_session_is_there_after_restarts_with_other_shards() {
    let folder = tempfile::tempdir().expect("a folder");
    let names: Vec<String> = (0..8).map(|number| format!("device-{number}")).collect();
    let server = run(folder.path(), 2, "");
    for name in &names {
        let mut session = connect(&tcp(&server), lasting(name));
        subscribe(&mut session, &format!("to/{name}/+"), Qos::ExactlyOnce);
        session.disconnect(client::ReasonCode::Success, Default::default());
    }
    let mut mouth = connect(&tcp(&server), profile("mouth", Version::V5));
    let mut kept = message("state", b"on", Qos::AtLeastOnce);
    kept.retain = true;
    publish(&mut mouth, kept);
    for name in &names {
        for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let topic = format!("to/{name}/{}", qos as u8);
            publish(&mut mouth, message(&topic, name.as_bytes(), qos));
        }
    }
    stop(server);
    for shards in [3, 1, 2] {
        let server = run(folder.path(), shards, "");
        let status = status(&server);
        assert_eq!((status.sessions, status.queued), (8, 16), "with {shards} shards");
        stop(server);
    }
    let server = run(folder.path(), 2, "");
    for name in &names {
        let mut session = connect(&tcp(&server), lasting(name));
        for number in ["1", "2"] {
            let expected = (format!("to/{name}/{number}"), name.as_bytes().to_vec(), false);
            assert_eq!(heard(&mut session), expected);
        }
    }
    let mut late = connect(&tcp(&server), profile("late", Version::V311));
    subscribe(&mut late, "#", Qos::AtMostOnce);
    assert_eq!(heard(&mut late), ("state".to_owned(), b"on".to_vec(), true));
    stop(server);
}

/// A push that waits for a device, and a tag that it has.
fn store_for(server: &RunningServer, number: usize) {
    let product = ProductKey::parse("shop").expect("allowed");
    let device = DeviceId::parse(&format!("d-{number}")).expect("allowed");
    let (id, target) = (server.control().next_id(), PushTarget::Devices(vec![device.clone()]));
    let body = vec![number as u8; 1 + 2_000 * number].into();
    let order =
        PushOrder { time_to_live_s: 86_400, ..PushOrder::new(id, product.clone(), target, body) };
    let tags = vec![Tag::parse("berlin").expect("allowed")];
    for command in
        [PushCommand::Push(order), PushCommand::SetTags { product, device, tags: tags.clone() }]
    {
        let Answer::Push(_) = ask(server, Command::Push(command)) else { panic!("it is taken") };
    }
}

fn exported(data: &Path) -> String {
    let mut text = Vec::new();
    tools::export(data, &mut text).expect("readable");
    String::from_utf8(text).expect("it is text")
}

#[test]
fn a_folder_split_by_slots_and_joined_is_equal_entry_by_entry() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = run(&data, 2, "");
    (0..30).for_each(|number| store_for(&server, number));
    let mut mouth = connect(&tcp(&server), profile("mouth", Version::V5));
    for number in 0..12 {
        let name = format!("device-{number}");
        let mut session = connect(&tcp(&server), lasting(&name));
        subscribe(&mut session, &format!("to/{name}/+"), Qos::ExactlyOnce);
        session.disconnect(client::ReasonCode::Success, Default::default());
        for (qos, bytes) in [(Qos::AtLeastOnce, 900_000), (Qos::ExactlyOnce, 9)] {
            let topic = format!("to/{name}/{}", qos as u8);
            publish(&mut mouth, message(&topic, &vec![number; bytes], qos));
        }
        let mut kept = message(&format!("kept/{number}"), &[number; 5_000], Qos::AtLeastOnce);
        kept.retain = true;
        publish(&mut mouth, kept);
    }
    drop(mouth);
    stop(server);
    let whole = exported(&data);
    let parts = ["one", "two", "three"].map(|name| folder.path().join(name));
    let told = tools::split(&data, &parts).expect("there is room");
    let timelines = whole.lines().filter(|line| line.starts_with("{\"timeline\"")).count() as u64;
    assert_eq!(told.iter().map(|part| part.timelines).sum::<u64>(), timelines);
    assert!(told.iter().all(|part| part.timelines > 3 && part.rows > 5), "{told:?}");
    for part in &parts {
        assert!(tools::check(part).expect("readable").is_sound());
        let Err(refused) = try_run(part, 2, "") else { panic!("it is no whole folder") };
        assert!(refused.to_string().contains("store join"), "{refused}");
    }
    let joined = folder.path().join("joined");
    let [one, two, three] = parts.clone();
    for unfit in [&[one.clone(), three.clone()][..], &[one.clone(), two.clone(), two.clone()]] {
        assert!(tools::join(unfit, &joined).is_err(), "{unfit:?}");
    }
    let half = folder.path().join("half");
    tools::join(&[two, one], &half).expect("they are neighbours");
    let Err(refused) = try_run(&half, 2, "") else { panic!("it is no whole folder") };
    assert!(refused.to_string().contains("store join"), "{refused}");
    tools::join(&[half, three], &joined).expect("they are all");
    let again = exported(&joined);
    assert_eq!(again.lines().count(), whole.lines().count());
    for (line, expected) in again.lines().zip(whole.lines()) {
        let short = |line: &str| line.chars().take(200).collect::<String>();
        assert!(line == expected, "{} is not {}", short(line), short(expected));
    }
    let server = run(&joined, 2, "");
    assert_eq!(status(&server).queued, 24);
    stop(server);
}

#[test]
fn the_api_sees_the_clients_of_all_shards() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), 3, "");
    let names: Vec<String> = (0..9).map(|number| format!("c-{number}")).collect();
    let mut sessions: Vec<Session> =
        names.iter().map(|name| connect(&tcp(&server), lasting(name))).collect();
    for (session, name) in sessions.iter_mut().zip(&names) {
        subscribe(session, &format!("in/{name}"), Qos::AtLeastOnce);
        let mut kept = message(&format!("kept/{name}"), b"k", Qos::AtMostOnce);
        kept.retain = true;
        publish(session, kept);
        // The answer to a later question says that the message before it was taken.
        publish(session, message("nobody/listens", b"", Qos::AtLeastOnce));
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let of = ClientFilter { prefix: Some("c-".into()), ..ClientFilter::default() };
        let page = TopicCommand::Clients { of, after, count: 2 };
        let TopicAnswer::Clients { clients, next } = topics(&server, page) else {
            panic!("a page of clients")
        };
        found.extend(clients.into_iter().map(|client| client.client_id.into_string()));
        after = next;
        if after.is_none() {
            break;
        }
    }
    found.sort();
    assert_eq!(found, names);
    let (mut kept, mut after) = (Vec::new(), None);
    loop {
        let page = TopicCommand::Retained { filter: "kept/+".into(), after, count: 4 };
        let TopicAnswer::Retained { messages, next } = topics(&server, page) else {
            panic!("a page of messages")
        };
        kept.extend(messages.iter().map(|message| message.topic().to_owned()));
        after = next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<String> = names.iter().map(|name| format!("kept/{name}")).collect();
    assert_eq!(kept, expected, "in the order of their topics, each once");
    let order = |topic: &str| TopicCommand::Publish {
        message: Arc::new(message(topic, b"by the API", Qos::AtLeastOnce)),
        delay_s: 0,
    };
    let TopicAnswer::Published { matched } = topics(&server, order("in/c-4")) else {
        panic!("it is published")
    };
    assert!(matched);
    assert_eq!(heard(&mut sessions[4]).1, b"by the API");
    let one = topics(&server, TopicCommand::Client("c-4".into()));
    let TopicAnswer::Client(Some(state)) = one else { panic!("it is known: {one:?}") };
    assert!(state.online && state.subscriptions == 1 && state.peer.is_some(), "{state:?}");
    assert_eq!(topics(&server, TopicCommand::Kick("c-4".into())), TopicAnswer::Done(true));
    assert_eq!(topics(&server, TopicCommand::Kick("nobody".into())), TopicAnswer::Done(false));
    let clear = TopicCommand::ClearRetained("kept/c-1".into());
    assert_eq!(topics(&server, clear), TopicAnswer::Done(true));
    assert_eq!(topics(&server, TopicCommand::DropSession("c-4".into())), TopicAnswer::Done(true));
    let gone = topics(&server, TopicCommand::Client("c-4".into()));
    assert_eq!(gone, TopicAnswer::Client(None));
    stop(server);
}

#[test]
fn clients_are_found_by_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), 3, "");
    let connected = |number| connect(&tcp(&server), lasting(&format!("c-{number}")));
    let sessions: Vec<Session> = (0..9).map(connected).collect();
    let which = |of: ClientFilter| {
        let page = TopicCommand::Clients { of, after: None, count: 100 };
        let TopicAnswer::Clients { clients, .. } = topics(&server, page) else {
            panic!("a page of clients")
        };
        clients.len()
    };
    let any = ClientFilter::default;
    let here = Some([127, 0, 0, 1].into());
    assert_eq!(which(ClientFilter { address: here, ..any() }), 9);
    let mapped = Some("::ffff:127.0.0.1".parse().expect("an address"));
    assert_eq!(which(ClientFilter { address: mapped, ..any() }), 9);
    assert_eq!(which(ClientFilter { address: Some([192, 0, 2, 1].into()), ..any() }), 0);
    assert_eq!(which(ClientFilter { queued_min: Some(0), ..any() }), 9);
    assert_eq!(which(ClientFilter { queued_min: Some(1), ..any() }), 0);
    assert_eq!(which(ClientFilter { dropped_min: Some(1), ..any() }), 0);
    assert_eq!(which(ClientFilter { online: Some(false), address: here, ..any() }), 0);
    drop(sessions);
    stop(server);
}

#[test]
fn the_server_tells_what_it_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), 2, "");
    let mut session = connect(&tcp(&server), profile("x", Version::V311));
    subscribe(&mut session, "$SYS/broker/clients/connected", Qos::AtMostOnce);
    loop {
        let (topic, payload, _) = heard(&mut session);
        assert_eq!(topic, "$SYS/broker/clients/connected");
        if payload == b"1" {
            break;
        }
    }
    stop(server);
}

#[test]
fn who_has_no_name_comes_in_only_where_it_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let more =
        "[listen.closed]\naddress = \"127.0.0.1:0\"\nprotocol = \"mqtt\"\nanonymous = \"no\"";
    let server = run(folder.path(), 1, more);
    let port = server.port("closed").expect("it listens");
    let address = BrokerAddress::parse(&format!("mqtt://127.0.0.1:{port}")).expect("an address");
    let settings = Settings::new(address, profile("x", Version::V5));
    assert!(Session::new(settings).expect("a session").connect().is_err());
    drop(connect(&tcp(&server), profile("x", Version::V5)));
    stop(server);
}

#[test]
fn a_bridge_carries_messages_between_two_servers() {
    bridge_between("", tcp, "");
}

#[test]
fn a_bridge_goes_by_name_through_tls_and_a_websocket() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let listener = format!(
        "[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n[listen.wss]\n\
         address = \"127.0.0.1:0\"\nprotocol = \"mqtt\"\ntls = true\nwebsocket = \"/mqtt\"\n"
    );
    let address = |far: &RunningServer| {
        format!("wss://localhost:{}/mqtt", far.port("wss").expect("it listens"))
    };
    bridge_between(&listener, address, &format!("\nca = {certificate:?}"));
}

/// A bridge from a server to one with these listeners besides, at an address of it.
fn bridge_between(listeners: &str, address: impl Fn(&RunningServer) -> String, more: &str) {
    let (one, two) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
    let far = run(one.path(), 1, listeners);
    let bridge = format!(
        "[bridge.up]\naddresses = [\"{}\"]\ntopics = [\"up/# out 1\", \"down/# in 1\"]\n\
         restart_s_min = 1\nprotocol = \"mqtt5\"{more}",
        address(&far)
    );
    let near = run(two.path(), 2, &bridge);
    assert!(two.path().join("bridge.sock").exists());
    let mut ears = connect(&tcp(&far), profile("ears", Version::V5));
    subscribe(&mut ears, "up/#", Qos::AtLeastOnce);
    let mut here = connect(&tcp(&near), profile("here", Version::V5));
    subscribe(&mut here, "down/#", Qos::AtLeastOnce);
    // What is published before the bridge is there waits for nobody: until it comes through.
    let mut came = false;
    for _ in 0..200 {
        publish(&mut here, message("up/a", b"hello", Qos::AtLeastOnce));
        let event = ears.poll(Duration::from_millis(100)).expect("the connection stays");
        if let Some(MqttEvent::Message { message, .. }) = event {
            assert_eq!(message.topic(), "up/a");
            came = true;
            break;
        }
    }
    assert!(came, "{:?}", near.bridges());
    publish(&mut ears, message("down/b", b"back", Qos::AtLeastOnce));
    assert_eq!(heard(&mut here).0, "down/b");
    // Counted once they are acknowledged, which may be after they were heard.
    let is_counted = (0..3_000).any(|_| {
        here.poll(Duration::from_millis(100)).expect("the connection stays");
        let status = &near.bridges()[0];
        status.is_online && status.out > 0 && status.received > 0
    });
    assert!(is_counted, "{:?}", near.bridges());
    stop(near);
    stop(far);
}
