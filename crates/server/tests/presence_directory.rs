//! A server over real sockets and a directory: in the process, and a real Redis that is paused,
//! killed, emptied, or not there at all. The directory has what memory has, and no connection
//! notices anything.

use client::{
    BrokerAddress, Formula, MqttEvent, Profile, Qos, RetainHandling, Session, Settings,
    SubscriptionOptions, Version,
};
use model::ports::control::{Answer, Command, Control};
use model::ports::presence::directory::DirectoryError;
use model::ports::presence::queries::{
    Audit, AuditOrder, Circuit, PresenceAnswer, PresenceCommand, PresenceStatus, Remembered,
    StatisticsStep,
};
use model::presence::{PresenceRecord, Principal};
use serde_json::Value;
use server::config::Config;
use server::start::{RunningServer, start};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use testkit::redis::{RedisOptions, RedisServer};

/// How often a condition is looked at, and how long between: half a minute.
const LOOKS: u32 = 3_000;
const BETWEEN: Duration = Duration::from_millis(10);

fn run(data: &Path, presence: &str) -> RunningServer {
    run_as("n-1", data, presence)
}

fn run_as(node: &str, data: &Path, presence: &str) -> RunningServer {
    let data = data.to_str().expect("a path of letters");
    let text = format!(
        "[server]\ndata = {data:?}\nshards = 2\npin = false\n[api]\nenabled = false\n[limits]\n\
         drain_ms = 50\n[mqtt]\nsys_interval_s = 0\n[listen.tcp]\naddress = \"127.0.0.1:0\"\n\
         protocol = \"mqtt\"\n[presence]\nnode = {node:?}\n{presence}"
    );
    let config = Config::parse("test", &text, std::iter::empty()).expect("it holds to the rules");
    start(config).expect("starts")
}

fn stop(server: RunningServer) {
    server.drain();
    server.join();
}

fn connect(server: &RunningServer, name: &str) -> Session {
    let port = server.port("tcp").expect("it listens");
    let address = BrokerAddress::parse(&format!("mqtt://127.0.0.1:{port}")).expect("an address");
    let profile = Profile::new(Version::V5, Formula::new(name));
    let mut session = Session::new(Settings::new(address, profile)).expect("a session");
    session.connect().expect("it is let in");
    session
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("c-{number}")).collect()
}

fn client(name: &str) -> Principal {
    Principal::Client(name.into())
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        std::thread::sleep(BETWEEN);
    }
    panic!("it does not come about: {what}");
}

fn ask(server: &RunningServer, command: PresenceCommand) -> PresenceAnswer {
    let (tell, told) = sync_channel(1);
    let reply = Box::new(move |answer| tell.send(answer).expect("awaited"));
    server.control().ask(Command::Presence(command), reply);
    match told.recv().expect("an answer") {
        Answer::Presence(answer) => answer,
        other => panic!("it is about presence: {other:?}"),
    }
}

fn found(server: &RunningServer, who: &[Principal]) -> Vec<PresenceStatus> {
    match ask(server, PresenceCommand::Find(who.to_vec())) {
        PresenceAnswer::Found(mut found) => {
            found.sort_by(|a, b| a.who.cmp(&b.who));
            found
        }
        other => panic!("they are found or not: {other:?}"),
    }
}

fn history(server: &RunningServer, who: &Principal) -> Vec<Remembered> {
    match ask(server, PresenceCommand::Histories(vec![who.clone()])) {
        PresenceAnswer::Histories(histories) => {
            histories.into_iter().next().map(|(_, last)| last).unwrap_or_default()
        }
        other => panic!("there is a history: {other:?}"),
    }
}

/// The directory's records of these; `None`: it is away.
fn stored(server: &RunningServer, who: &[Principal]) -> Option<Vec<Option<PresenceRecord>>> {
    server.presence().stored(who).ok().map(|(records, _)| records)
}

/// Every one of them is there, in this state, with the version that memory has.
fn agrees(server: &RunningServer, who: &[Principal], online: bool) -> bool {
    let Some(records) = stored(server, who) else { return false };
    let known = found(server, who);
    records.iter().zip(who).all(|(record, who)| {
        let Some(record) = record else { return false };
        let version = known.iter().find(|known| known.who == *who).map(|known| known.version);
        record.online == online && version.is_none_or(|version| version == record.version)
    })
}

fn audit(server: &RunningServer, repair: bool) -> Audit {
    let order = AuditOrder { settle_ms: 100, repair, told_max: 10 };
    server.presence().audit(order).expect("the directory answers")
}

/// Memory and the directory agree. A directory that is too slow on a busy machine is asked again.
fn audits_clean(server: &RunningServer) -> bool {
    let order = AuditOrder { settle_ms: 100, repair: false, told_max: 10 };
    match server.presence().audit(order) {
        Ok(audit) => audit.differing == 0,
        Err(DirectoryError::Slow) => false,
        Err(error) => panic!("{error:?}"),
    }
}

fn whole(server: &RunningServer) -> bool {
    let standing = server.presence().standing();
    standing.circuit == Circuit::Closed && standing.unwritten == 0 && standing.resync_left == 0
}

/// Nothing has come over these connections, and they answer.
fn answer(sessions: &mut [Session]) {
    for session in sessions {
        let wish = SubscriptionOptions {
            filter: "nothing".into(),
            qos: Qos::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::DoNotSend,
        };
        session.subscribe(vec![wish], Default::default());
        let event = session.poll(Duration::from_secs(300)).expect("the connection is there");
        assert!(matches!(event, Some(MqttEvent::Subscribed { .. })), "{event:?}");
    }
}

#[test]
fn a_directory_in_the_process_has_what_memory_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), "directory = \"process\"");
    let names = names(20);
    let who: Vec<Principal> = names.iter().map(|name| client(name)).collect();
    let mut sessions: Vec<Session> = names.iter().map(|name| connect(&server, name)).collect();
    until("they are written", || agrees(&server, &who, true));
    let (_, nodes) = server.presence().stored(&who).expect("it answers");
    assert_eq!(nodes, [server.presence().standing().node]);
    let known = found(&server, &who);
    assert_eq!(known.len(), 20);
    assert!(known.iter().all(|known| known.state.is_online() && known.version.0 > 0));
    sessions.truncate(10);
    until("the others have gone", || agrees(&server, &who[10..], false));
    assert!(agrees(&server, &who[..10], true));
    until("all is quiet", || whole(&server));
    let audit = audit(&server, false);
    assert_eq!((audit.online, audit.differing), (10, 0), "{audit:?}");
    let last = history(&server, &who[15]);
    assert_eq!(last.len(), 2);
    assert!(last[0].state.is_online() && !last[1].state.is_online());
    assert!(last[0].version < last[1].version);
    stop(server);
}

#[test]
fn a_client_that_comes_again_is_online_whatever_became_of_its_old_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), "directory = \"process\"");
    let who = [client("one")];
    let mut last = connect(&server, "one");
    for _ in 0..10 {
        // The old connection is there until the new one has taken over.
        last = connect(&server, "one");
    }
    until("it is written", || agrees(&server, &who, true) && whole(&server));
    let history = history(&server, &who[0]);
    assert_eq!(history.len(), model::ports::presence::queries::HISTORY);
    assert!(history.windows(2).all(|pair| pair[0].version < pair[1].version), "{history:?}");
    assert!(history.windows(2).all(|pair| pair[0].state != pair[1].state), "{history:?}");
    assert!(history.last().is_some_and(|last| last.state.is_online()));
    drop(last);
    stop(server);
}

#[test]
fn without_a_directory_memory_answers_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), "");
    let session = connect(&server, "one");
    until("it is online", || found(&server, &[client("one")]).len() == 1);
    let standing = server.presence().standing();
    assert_eq!((standing.kind, standing.node.node.as_str()), ("none", "n-1"));
    assert!(matches!(server.presence().stored(&[]), Err(DirectoryError::Refused(_))));
    let order = AuditOrder { settle_ms: 0, repair: false, told_max: 1 };
    assert!(matches!(server.presence().audit(order), Err(DirectoryError::Refused(_))));
    assert_eq!(history(&server, &client("one")).len(), 1);
    drop(session);
    until("it came and went within a second of the figures", || {
        let moments = server.presence().statistics(StatisticsStep::Second);
        let sum = |of: fn(&model::ports::presence::queries::Count) -> u64| -> u64 {
            moments.iter().flat_map(|moment| moment.of.values()).map(of).sum()
        };
        (sum(|count| count.arrivals), sum(|count| count.departures)) == (1, 1)
    });
    stop(server);
}

#[test]
fn a_paused_redis_costs_no_connection_and_is_caught_up_with() {
    let redis = RedisServer::start(RedisOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!("directory = \"{}\"\ntimeout_ms = 100", redis.url());
    let server = run(folder.path(), &config);
    let names = names(30);
    let who: Vec<Principal> = names.iter().map(|name| client(name)).collect();
    let mut sessions: Vec<Session> =
        names[..20].iter().map(|name| connect(&server, name)).collect();
    until("they are written", || agrees(&server, &who[..20], true));
    redis.pause();
    sessions.drain(..10);
    sessions.extend(names[20..].iter().map(|name| connect(&server, name)));
    until("it is known to be away", || {
        let standing = server.presence().standing();
        standing.circuit == Circuit::Open && standing.unwritten == 20 && standing.lag_ms > 0
    });
    answer(&mut sessions);
    redis.resume();
    until("all is written", || whole(&server));
    assert!(agrees(&server, &who[..10], false) && agrees(&server, &who[10..], true));
    answer(&mut sessions);
    until("memory and Redis agree", || audits_clean(&server));
    stop(server);
    assert_eq!(redis.cli(&["EXISTS", "holdline:node:n-1"]), "0", "the lease ends with the server");
}

#[test]
fn a_redis_that_was_emptied_or_killed_is_filled_again() {
    let mut redis = RedisServer::start(RedisOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    let url = redis.url();
    let config = format!("directory = \"{url}\"\nlease_ms = 1_500\nresync_per_s = 100_000");
    let server = run(folder.path(), &config);
    let names = names(25);
    let who: Vec<Principal> = names.iter().map(|name| client(name)).collect();
    let mut sessions: Vec<Session> = names.iter().map(|name| connect(&server, name)).collect();
    until("they are written", || agrees(&server, &who, true));
    redis.cli(&["FLUSHALL"]);
    until("they are written again", || agrees(&server, &who, true));
    redis.kill();
    sessions.drain(..5);
    until("it is known to be away", || server.presence().standing().circuit == Circuit::Open);
    redis.restart();
    until("they are there once more", || {
        agrees(&server, &who[5..], true) && agrees(&server, &who[..5], false)
    });
    answer(&mut sessions);
    until("memory and Redis agree", || whole(&server) && audits_clean(&server));
    stop(server);
}

#[test]
fn a_lie_in_redis_is_found_and_repaired() {
    let redis = RedisServer::start(RedisOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), &format!("directory = \"{}\"", redis.url()));
    let session = connect(&server, "one");
    let who = [client("one")];
    until("it is written", || agrees(&server, &who, true) && whole(&server));
    let bucket = format!("holdline:b:{}", model::presence::bucket("#one"));
    assert_eq!(redis.cli(&["HDEL", &bucket, "#one"]), "1");
    let found = audit(&server, false);
    assert_eq!(found.persistent.get("missing"), Some(&1), "{found:?}");
    assert_eq!(&*found.differences[0].key, "#one");
    assert_eq!(found.differences[0].history.len(), 1);
    assert_eq!(audit(&server, true).repaired, 1);
    until("it is there again", || agrees(&server, &who, true));
    assert_eq!(audit(&server, false).differing, 0);
    drop(session);
    stop(server);
}

#[test]
fn a_server_starts_though_its_redis_is_away() {
    let mut redis = RedisServer::start(RedisOptions::default());
    redis.kill();
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), &format!("directory = \"{}\"", redis.url()));
    let mut sessions = [connect(&server, "one")];
    until("it is known to be away", || server.presence().standing().fault.is_some());
    answer(&mut sessions);
    redis.restart();
    until("it is written", || agrees(&server, &[client("one")], true));
    redis.pause();
    stop(server);
    redis.resume();
    let lease = redis.cli(&["EXISTS", "holdline:node:n-1"]);
    assert_eq!(lease, "1", "nobody could end it, so the server ended without");
}

#[test]
fn events_go_to_a_stream_of_the_same_redis() {
    let redis = RedisServer::start(RedisOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!("directory = \"{}\"\nevents_stream = \"events\"", redis.url());
    let server = run(folder.path(), &config);
    drop(connect(&server, "one"));
    until("it is told that one came and went", || {
        let all = redis.cli(&["XRANGE", "events", "-", "+"]);
        let place = |word: &str| all.lines().position(|line| line.contains(word));
        let (came, went) = (place("client_connected"), place("client_disconnected"));
        came.is_some() && came < went && all.lines().any(|line| line == "one")
    });
    stop(server);
}

#[test]
fn a_client_of_two_servers_is_the_newer_ones_and_the_older_lets_it_go() {
    let redis = RedisServer::start(RedisOptions::default());
    let (here, there) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
    let config = format!("directory = \"{}\"", redis.url());
    let old = run_as("n-1", here.path(), &config);
    let new = run_as("n-2", there.path(), &config);
    let who = [client("one")];
    let mut stale = connect(&old, "one");
    until("the first says so", || agrees(&old, &who, true));
    let session = connect(&new, "one");
    until("the second says so", || agrees(&new, &who, true));
    let seen = audit(&old, true);
    assert_eq!(seen.persistent.get("wrong_node"), Some(&1), "{seen:?}");
    until("the older connection ends", || {
        !matches!(stale.poll(Duration::from_millis(20)), Ok(None | Some(MqttEvent::Connected(_))))
    });
    until("it is not the first's any more", || audits_clean(&old));
    drop(stale);
    assert!(agrees(&new, &who, true), "its end changed nothing");
    let stored = stored(&new, &who).expect("it answers");
    assert_eq!(stored[0].as_ref().map(|record| record.node.as_str()), Some("n-2"));
    drop(session);
    stop(old);
    stop(new);
}

/// The next message: topic and JSON.
fn told(session: &mut Session) -> (String, Value) {
    loop {
        let event = session.poll(Duration::from_secs(300)).expect("the connection is there");
        match event.expect("a message comes") {
            MqttEvent::Message { message, .. } => {
                let json = serde_json::from_slice(message.payload()).expect("JSON");
                return (message.topic().to_owned(), json);
            }
            _ => continue,
        }
    }
}

fn listen(server: &RunningServer, name: &str) -> Session {
    let mut ears = connect(server, name);
    let wish = SubscriptionOptions {
        filter: "presence/-/one".into(),
        qos: Qos::AtLeastOnce,
        no_local: false,
        retain_as_published: true,
        retain_handling: RetainHandling::Send,
    };
    ears.subscribe(vec![wish], Default::default());
    let event = ears.poll(Duration::from_secs(300)).expect("the connection is there");
    assert!(matches!(event, Some(MqttEvent::Subscribed { .. })), "{event:?}");
    ears
}

#[test]
fn who_comes_and_goes_is_published_and_put_right_after_a_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = "events_topic = \"presence/%p/%d\"";
    let server = run(folder.path(), config);
    let mut ears = listen(&server, "ears");
    let session = connect(&server, "one");
    let (topic, online) = told(&mut ears);
    assert_eq!((topic.as_str(), &online["type"]), ("presence/-/one", &Value::from("online")));
    assert_eq!((&online["client_id"], &online["node"]), (&"one".into(), &"n-1".into()));
    assert_eq!(online["protocol"], "mqtt5");
    drop(session);
    let (_, offline) = told(&mut ears);
    assert_eq!(offline["type"], "offline");
    assert!(offline["version"].as_str() > online["version"].as_str());
    // What a server that was killed leaves behind. Another shard publishes it: of two messages of
    // one millisecond that of the lower shard is the older.
    std::thread::sleep(BETWEEN);
    let mut lie =
        model::topic::Publication::new("presence/-/one", &[], online.to_string().as_bytes());
    (lie.retain, lie.qos) = (true, Qos::AtLeastOnce);
    let publish = model::ports::topics::TopicCommand::Publish {
        message: std::sync::Arc::new(lie),
        delay_s: 0,
    };
    let (tell, done) = sync_channel(1);
    let reply = Box::new(move |answer| tell.send(answer).expect("awaited"));
    server.control().ask(Command::Topics(publish), reply);
    done.recv().expect("it is published");
    assert_eq!(told(&mut ears).1["type"], "online");
    stop(server);
    let server = run(folder.path(), config);
    let mut last = Value::Null;
    until("it is put right", || {
        last = told(&mut listen(&server, "ears")).1;
        last["type"] == "offline"
    });
    assert_eq!((&last["type"], &last["reason"]), (&"offline".into(), &"server_stopped".into()));
    assert!(last["version"].as_str() > online["version"].as_str());
    stop(server);
}
