//! A server that changes while it runs: limits reach the place where they hold, and a drain ends.

use client::{BrokerAddress, Formula, MqttEvent, Profile, Qos, Session, Settings, Version};
use client::{RetainHandling, SubscriptionOptions};
use server::config::Config;
use server::start::{RunningServer, start};
use std::path::Path;
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
    let address = format!("mqtt://127.0.0.1:{}", server.port("tcp").expect("it listens"));
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
    let server = start(config(&near, "")).expect("starts");
    let reloaded = server.reload(with("a")).expect("the rest is applied");
    assert_eq!(reloaded.failed[0].what, "[bridge]", "the first one needs a restart");
    assert_eq!(server.config().bridges, []);
    stop(server);
    stop(far);
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
