//! A server that changes while it runs: limits reach the place where they hold, and a drain ends.

use client::{BrokerAddress, Formula, MqttEvent, Profile, Qos, Session, Settings, Version};
use client::{RetainHandling, SubscriptionOptions};
use server::config::Config;
use server::start::{RunningServer, start};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// Longest wait for anything; what is there is there at once.
const WAIT: Duration = Duration::from_secs(300);

fn config(data: &Path, more: &str) -> Config {
    let data = data.to_str().expect("a path of letters");
    let text = format!(
        "[server]\ndata = {data:?}\nshards = 2\npin = false\n[api]\naddress = \"127.0.0.1:0\"\n\
         [listen.tcp]\naddress = \"127.0.0.1:0\"\nprotocol = \"mqtt\"\n[products.shop]\n{more}"
    );
    Config::parse("test", &text, std::iter::empty()).expect("it holds to the rules")
}

/// A client of MQTT 5, or why it was refused.
fn connect(server: &RunningServer, name: &str) -> Result<Session, String> {
    connect_at(server, "tcp", name)
}

/// The same at this listener.
fn connect_at(server: &RunningServer, listener: &str, name: &str) -> Result<Session, String> {
    let address = format!("mqtt://{}", server.addr(listener).expect("it listens"));
    let address = BrokerAddress::parse(&address).expect("an address");
    let profile = Profile::new(Version::V5, Formula::new(name));
    let mut session = Session::new(Settings::new(address, profile)).expect("a session");
    session.connect().map_err(|error| error.to_string())?;
    Ok(session)
}

/// The reason code of a subscription.
fn subscribe(session: &mut Session, filter: &str) -> u8 {
    let wish = SubscriptionOptions {
        filter: filter.into(),
        qos: Qos::AtMostOnce,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::Send,
    };
    session.subscribe(vec![wish], Default::default());
    loop {
        match session.poll(WAIT).expect("the connection stays").expect("SUBACK") {
            MqttEvent::Subscribed { reasons, .. } => return reasons[0] as u8,
            _ => continue,
        }
    }
}

fn stop(server: RunningServer) {
    server.drain();
    server.join();
}

#[test]
fn limits_that_a_reload_changes_hold_for_who_is_connected_and_for_who_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = start(config(&data, "[limits]\ndrain_ms = 50\n")).expect("starts");
    let mut ann = connect(&server, "ann").expect("let in");
    assert_eq!(subscribe(&mut ann, "a/b/c"), 0);
    let more = "[limits]\ndrain_ms = 60\nmailbox_messages_max = 1000\n[mqtt]\n\
                subscriptions_a_session_max = 1\nclient_id_bytes_max = 5\n";
    let reloaded = server.reload(config(&data, more)).expect("applied");
    let keys = |of: &[admin::ConfigChange]| of.iter().map(|it| it.key.clone()).collect::<Vec<_>>();
    assert_eq!(
        keys(&reloaded.applied),
        ["[limits] drain_ms", "[mqtt] client_id_bytes_max", "[mqtt] subscriptions_a_session_max"]
    );
    assert_eq!(keys(&reloaded.needs_restart), ["[limits] mailbox_messages_max"]);
    assert_eq!(
        (&*reloaded.needs_restart[0].old, &*reloaded.needs_restart[0].new),
        ("65536", "1000")
    );
    assert_eq!(reloaded.failed, []);
    assert_eq!(server.config().limits.drain_ms, 60);
    assert_eq!(server.config().limits.mailbox_messages_max, 65_536, "what is in force is shown");
    assert_ne!(subscribe(&mut ann, "d"), 0, "one more subscription is refused");
    assert!(connect(&server, "a-long-name").is_err());
    connect(&server, "bob").expect("a short one");
    let again = server.reload(config(&data, more)).expect("applied");
    assert_eq!(keys(&again.applied), [""; 0], "nothing changed");
    assert_eq!(keys(&again.needs_restart), ["[limits] mailbox_messages_max"], "it still waits");
    stop(server);
}

#[test]
fn a_reload_whose_live_keys_do_not_go_with_the_others_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = start(config(&data, "")).expect("starts");
    let descriptors = "[limits]\nconnections_max = 90000000\ndrain_ms = 1\n";
    let error = server.reload(config(&data, descriptors)).expect_err("more than there can be");
    assert!(error.contains("90000000"), "{error}");
    assert_eq!(server.config(), config(&data, ""));
    stop(server);
}

#[test]
fn a_listener_that_is_closed_to_strangers_by_a_reload_refuses_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = start(config(&data, "")).expect("starts");
    connect(&server, "ann").expect("let in");
    let mut closed = config(&data, "");
    closed.listen[0].anonymous = server::config::Anonymous::No;
    let reloaded = server.reload(closed).expect("applied");
    assert_eq!(reloaded.applied[0].key, "[listen.tcp] anonymous");
    assert!(connect(&server, "bob").is_err());
    stop(server);
}

/// A message that comes, but for its payload.
fn topic_of_next(session: &mut Session) -> String {
    loop {
        if let Some(MqttEvent::Message { message, .. }) = session.poll(WAIT).expect("it stays") {
            return message.topic().to_owned();
        }
    }
}

/// Publishes through the bridge once it is there.
fn publish_over(server: &RunningServer, topic: &str) {
    while !server.bridges().iter().any(|bridge| bridge.is_online) {
        std::thread::yield_now();
    }
    let mut ann = connect(server, "ann").expect("let in");
    ann.publish(client::Publication::new(topic, &[], b"x"));
    subscribe(&mut ann, "done");
}

#[test]
fn a_bridge_that_a_reload_changes_connects_anew_with_its_new_topics() {
    let folder = tempfile::tempdir().expect("a folder");
    let far = start(config(&folder.path().join("far"), "")).expect("starts");
    let address = format!("127.0.0.1:{}", far.port("tcp").expect("it listens"));
    let near = folder.path().join("near");
    let with = |topic: &str| {
        let bridge = format!("addresses = [{address:?}]\ntopics = [\"{topic}/# out 1\"]\n");
        config(&near, &format!("[bridge.up]\n{bridge}"))
    };
    let server = start(with("a")).expect("starts");
    let mut bob = connect(&far, "bob").expect("let in");
    assert_eq!(subscribe(&mut bob, "#"), 0);
    publish_over(&server, "a/1");
    assert_eq!(topic_of_next(&mut bob), "a/1");
    let reloaded = server.reload(with("b")).expect("applied");
    assert_eq!(
        (reloaded.applied[0].key.as_str(), reloaded.failed.len()),
        ("[bridge.up] topics", 0)
    );
    publish_over(&server, "b/1");
    assert_eq!(topic_of_next(&mut bob), "b/1");
    stop(server);
    stop(far);
}

#[test]
fn a_first_bridge_begins_with_a_reload_and_a_further_one_leaves_it_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let far = start(config(&folder.path().join("far"), "")).expect("starts");
    let address = format!("127.0.0.1:{}", far.port("tcp").expect("it listens"));
    let near = folder.path().join("near");
    let bridge = |name: &str, topic: &str| {
        format!("[bridge.{name}]\naddresses = [{address:?}]\ntopics = [\"{topic}/# out 1\"]\n")
    };
    let server = start(config(&near, "")).expect("starts");
    let up = bridge("up", "a");
    let reloaded = server.reload(config(&near, &up)).expect("applied");
    assert_eq!((reloaded.applied[0].key.as_str(), &*reloaded.failed), ("[bridge.up]", &[][..]));
    let mut bob = connect(&far, "bob").expect("let in");
    assert_eq!(subscribe(&mut bob, "#"), 0);
    publish_over(&server, "a/1");
    assert_eq!(topic_of_next(&mut bob), "a/1");
    let both = config(&near, &(up + &bridge("more", "b")));
    assert_eq!(server.reload(both).expect("applied").failed, []);
    while !server.bridges().iter().all(|bridge| bridge.is_online) {
        std::thread::yield_now();
    }
    let told = server.bridges();
    let told: Vec<_> = told.iter().map(|bridge| (&*bridge.name, bridge.connects)).collect();
    assert_eq!(told, [("up", 1), ("more", 1)]);
    let none = server.reload(config(&near, "")).expect("applied");
    assert_eq!((none.failed.len(), server.bridges().len()), (0, 0));
    assert!(!near.join("bridge.sock").exists(), "nobody needs it");
    stop(server);
    stop(far);
}

/// The keys that a reload changed.
fn applied(server: &RunningServer, new: Config) -> Vec<String> {
    let reloaded = server.reload(new).expect("applied");
    assert_eq!((reloaded.failed, reloaded.needs_restart), (vec![], vec![]));
    reloaded.applied.into_iter().map(|it| it.key).collect()
}

/// Whether nobody listens there any more.
fn is_closed(address: std::net::SocketAddr) -> bool {
    std::net::TcpStream::connect(address).is_err()
}

#[test]
fn a_listener_comes_changes_moves_and_goes_and_its_clients_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let with = |host: &str, more: &str| {
        let section = format!("[listen.more]\naddress = \"{host}:0\"\nprotocol = \"mqtt\"\n");
        config(&data, &(section + more))
    };
    let server = start(config(&data, "")).expect("starts");
    let mut ann = connect(&server, "ann").expect("let in");
    let one = "connections_max = 1\nanonymous = \"loopback\"\n";
    assert_eq!(applied(&server, with("127.0.0.1", one)), ["[listen.more]"]);
    let mut bob = connect_at(&server, "more", "bob").expect("let in");
    assert!(connect_at(&server, "more", "eve").is_err(), "it is full");
    let first = server.addr("more").expect("it listens");
    let keys = applied(&server, with("127.0.0.1", "connections_max = 2\nbacklog = 100\n"));
    assert_eq!(keys, ["[listen.more] connections_max", "[listen.more] backlog"]);
    assert_eq!(server.addr("more"), Some(first), "its sockets stay");
    // The one that was refused may be counted for a moment.
    let _carol = loop {
        match connect_at(&server, "more", "carol") {
            Ok(carol) => break carol,
            Err(_) => std::thread::yield_now(),
        }
    };
    let two = "connections_max = 2\nbacklog = 100\n";
    assert_eq!(applied(&server, with("127.0.0.2", two)), ["[listen.more] address"]);
    let moved = server.addr("more").expect("it listens");
    assert!(moved != first && is_closed(first));
    assert!(connect_at(&server, "more", "eve").is_err(), "those who came before still count");
    assert_eq!(applied(&server, config(&data, "")), ["[listen.more]"]);
    assert!(is_closed(moved) && server.addr("more").is_none());
    assert_eq!([subscribe(&mut ann, "a"), subscribe(&mut bob, "b")], [0, 0], "they stay");
    assert_eq!(applied(&server, with("127.0.0.1", two)), ["[listen.more]"]);
    assert!(connect_at(&server, "more", "eve").is_err(), "they count when it comes back");
    stop(server);
}

#[test]
fn a_listener_that_cannot_be_opened_refuses_the_reload_and_nothing_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = start(config(&data, "")).expect("starts");
    let theirs = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = theirs.local_addr().expect("bound");
    let new = format!(
        "[limits]\ndrain_ms = 1\n[listen.fits]\naddress = \"127.0.0.1:0\"\n\
         [listen.more]\naddress = \"{address}\"\n"
    );
    let previewed = server.preview(&config(&data, &new));
    assert!(previewed.problems.concat().contains("in use by another program"), "{previewed:?}");
    assert_eq!(previewed.problems.len(), 1, "{previewed:?}");
    let error = server.reload(config(&data, &new)).expect_err("it is in use");
    assert!(error.contains(&format!("[listen.more] address = {address}")), "{error}");
    assert!(error.contains("in use by another program"), "{error}");
    assert_eq!(server.config(), config(&data, ""));
    assert_eq!((server.addr("fits"), server.addr("more")), (None, None));
    drop(theirs);
    applied(&server, config(&data, &new));
    assert_eq!(server.addr("more"), Some(address));
    stop(server);
}

#[test]
fn listeners_exchange_their_ports_and_one_widens_its_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let with = |a: &str, b: &str| {
        let of = |name, at| format!("[listen.{name}]\naddress = \"{at}\"\nprotocol = \"mqtt\"\n");
        config(&data, &(of("a", a) + &of("b", b)))
    };
    let server = start(with("127.0.0.1:0", "127.0.0.1:0")).expect("starts");
    let at = |name| server.addr(name).expect("it listens").to_string();
    let (a, b) = (at("a"), at("b"));
    let mut ann = connect_at(&server, "a", "ann").expect("let in");
    applied(&server, with(&b, &a));
    assert_eq!((at("a"), at("b")), (b.clone(), a.clone()));
    connect_at(&server, "a", "bob").expect("let in");
    connect_at(&server, "b", "carol").expect("let in");
    applied(&server, with(&b.replace("127.0.0.1", "0.0.0.0"), &a));
    assert!(!is_closed(b.parse().expect("an address")));
    assert_eq!(subscribe(&mut ann, "a"), 0);
    stop(server);
}

#[test]
fn a_server_that_takes_over_gets_the_listeners_that_there_are_now() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let of = |name| {
        config(&data, &format!("[listen.{name}]\naddress = \"127.0.0.1:0\"\nprotocol = \"mqtt\"\n"))
    };
    let mut server = start(of("gone")).expect("starts");
    let gone = server.addr("gone").expect("it listens");
    applied(&server, of("came"));
    assert!(is_closed(gone), "no copy of its sockets is left");
    let names = |sockets: &[net::listen::KeptSocket]| {
        let mut names: Vec<_> = sockets.iter().map(|kept| kept.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let sockets = server.move_off();
    assert_eq!(names(&sockets), ["api.0", "came.0", "came.1", "tcp.0", "tcp.1"]);
    let refused = server.reload(of("late")).expect_err("it stops");
    assert_eq!(refused, "the server is stopping");
    server.join();
}

#[test]
fn scheduled_backups_begin_move_and_end_with_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let copies = ["one", "two"].map(|name| folder.path().join(name));
    let with = |copies: &Path| config(&data, &format!("[backup]\nfolder = {copies:?}\n"));
    let until_copied = |to: &Path| {
        let is_whole = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.expect("a name").file_name();
            !name.to_string_lossy().ends_with(".incomplete")
        };
        while !std::fs::read_dir(to).is_ok_and(|mut all| all.any(is_whole)) {
            std::thread::yield_now();
        }
    };
    let server = start(config(&data, "")).expect("starts");
    for to in &copies {
        std::fs::create_dir(to).expect("made");
        assert_eq!(applied(&server, with(to)), ["[backup] folder"]);
        until_copied(to);
    }
    assert_eq!(applied(&server, config(&data, "")), ["[backup] folder"]);
    stop(server);
}

#[test]
fn a_drain_sends_clients_away_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = start(config(&data, "[limits]\ndrain_ms = 1\n")).expect("starts");
    let mut ann = connect(&server, "ann").expect("let in");
    let state = server.drain_clients(true);
    assert_eq!((state.draining, state.drain_ms), (true, 1));
    let end = loop {
        match ann.poll(WAIT) {
            Ok(Some(_)) => continue,
            Ok(None) => panic!("she is not told"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(!end.is_empty());
    assert!(connect(&server, "bob").is_err(), "nobody comes in");
    server.drain_clients(false);
    connect(&server, "bob").expect("let in again");
    server.drain_clients(true);
    // A server that drains can be stopped.
    stop(server);
}

/// An application that takes what webhooks post: its address, and the bodies.
fn application() -> (String, Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let (tell, bodies) = sync_channel(100);
    let serve = move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                let lower = line.to_lowercase();
                if let Some(told) = lower.strip_prefix("content-length:") {
                    length = told.trim().parse().expect("a number");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.get_mut().write_all(answer.as_bytes()).expect("it listens");
            if tell.send(String::from_utf8(body).expect("text")).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("application".into()).spawn(serve).expect("a thread");
    (url, bodies)
}

/// The next body that has this in it.
fn body_with(bodies: &Receiver<String>, text: &str) -> String {
    loop {
        let body = bodies.recv_timeout(WAIT).expect("it comes");
        if body.contains(text) {
            return body;
        }
    }
}

#[test]
fn a_webhook_comes_changes_and_goes_while_the_server_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (url, bodies) = application();
    let hook = |more: &str| config(&data, &format!("[[webhook]]\nurl = \"{url}\"\n{more}"));
    let server = start(config(&data, "")).expect("starts");
    let _ann = connect(&server, "ann").expect("let in");
    let name = format!("[[webhook]] {}", admin::shown_url(&url));
    assert_eq!(applied(&server, hook("")), [&*name]);
    let mut bob = connect(&server, "bob").expect("let in");
    let body = body_with(&bodies, "client_connected");
    assert!(body.contains("\"bob\"") && !body.contains("\"ann\""), "{body}");
    let changed = applied(&server, hook("events = [\"client_subscribed\"]\n"));
    assert_eq!(changed, [format!("{name} events")]);
    connect(&server, "carol").expect("let in");
    assert_eq!(subscribe(&mut bob, "a/b"), 0);
    let body = body_with(&bodies, "client_subscribed");
    assert!(!body.contains("\"carol\""), "it wants nothing else any more: {body}");
    assert_eq!(applied(&server, config(&data, "")), [name]);
    assert_eq!(applied(&server, config(&data, "")), [""; 0], "nothing is left to do");
    stop(server);
}

/// A stream of a component that the server has answered.
fn greeted(address: std::net::SocketAddr) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WAIT)).expect("set");
    let head = "<stream:stream xmlns='jabber:component:accept' \
                xmlns:stream='http://etherx.jabber.org/streams' to='echo.example'>";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut text = Vec::new();
    while !text.ends_with(b">") || !text.windows(14).any(|it| it == b"<stream:stream") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        text.extend(byte);
    }
    stream
}

#[test]
fn a_listener_for_components_comes_moves_changes_and_goes_like_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let echo = "[component.echo]\ndomain = \"echo.example\"\nsecret = \"0123456789abcdef\"\n";
    let with = |host: &str, protocol: &str| {
        let section =
            format!("[listen.parts]\naddress = \"{host}:0\"\nprotocol = \"{protocol}\"\n");
        config(&data, &format!("{section}{echo}"))
    };
    let server = start(config(&data, echo)).expect("starts");
    assert_eq!(applied(&server, with("127.0.0.1", "xmpp-component")), ["[listen.parts]"]);
    let first = server.addr("parts").expect("it listens");
    let mut open = greeted(first);
    let keys = applied(&server, with("127.0.0.2", "xmpp-component"));
    assert_eq!(keys, ["[listen.parts] address"]);
    let moved = server.addr("parts").expect("it listens");
    assert!(moved != first && is_closed(first));
    greeted(moved);
    open.write_all(b"</stream:stream>").expect("sent");
    let mut farewell = String::new();
    open.read_to_string(&mut farewell).expect("its stream went on, and ends now");
    assert!(farewell.contains("</stream:stream>"), "{farewell}");
    // Its sockets move from the shard of other servers to those of clients, and back.
    assert_eq!(applied(&server, with("127.0.0.2", "mqtt")), ["[listen.parts] protocol"]);
    connect_at(&server, "parts", "ann").expect("let in");
    let keys = applied(&server, with("127.0.0.2", "xmpp-component"));
    assert_eq!(keys, ["[listen.parts] protocol"]);
    let last = server.addr("parts").expect("it listens");
    greeted(last);
    assert_eq!(applied(&server, config(&data, echo)), ["[listen.parts]"]);
    assert!(is_closed(last) && server.addr("parts").is_none());
    stop(server);
}

#[test]
fn limits_of_media_bosh_and_federation_change_while_the_server_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let echo = "[component.echo]\ndomain = \"echo.example\"\nsecret = \"0123456789abcdef\"\n\
                [listen.parts]\naddress = \"127.0.0.1:0\"\nprotocol = \"xmpp-component\"\n";
    let server = start(config(&data, echo)).expect("starts");
    let some = format!(
        "{echo}[media]\nkeep_s = 60\n[bosh]\nwait_s_max = 5\n[federation]\nwaiting_max = 5\n"
    );
    assert_eq!(
        applied(&server, config(&data, &some)),
        ["[media] keep_s", "[bosh] wait_s_max", "[federation] waiting_max"]
    );
    greeted(server.addr("parts").expect("it listens"));
    stop(server);
}
