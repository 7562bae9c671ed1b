//! Look-ups against a server of our own, byte by byte.

use super::*;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Mutex;
use std::sync::mpsc as channel;

const A: u16 = 1;
const SOA: u16 = 6;
const AAAA: u16 = 28;
const SRV: u16 = 33;

/// Reply of the test's server to a question.
#[derive(Clone)]
enum Reply {
    /// Records of the type that is asked for.
    Records(Vec<Vec<u8>>),
    /// This response code (RFC 1035 4.1.1), with a start of authority.
    Code(u8),
    /// Nothing.
    Silence,
}

/// A server of names, with what it was asked.
struct Zone {
    at: SocketAddr,
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

fn wire_name(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> Vec<u8> {
    let numbers = [priority, weight, port].into_iter().flat_map(u16::to_be_bytes);
    numbers.chain(wire_name(target)).collect()
}

/// One record: the name of the question, type, class IN, 60 seconds.
fn record(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut wire = vec![0xc0, 12];
    wire.extend(kind.to_be_bytes());
    wire.extend([0, 1, 0, 0, 0, 60]);
    wire.extend((data.len() as u16).to_be_bytes());
    wire.extend_from_slice(data);
    wire
}

impl Zone {
    fn start(replies: &[(&str, u16, Reply)]) -> Zone {
        let replies: BTreeMap<(String, u16), Reply> = replies
            .iter()
            .map(|(name, kind, reply)| (((*name).to_owned(), *kind), reply.clone()))
            .collect();
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a port");
        let at = socket.local_addr().expect("it is bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        // It ends with the test's process.
        let serve = move || {
            let mut buffer = [0; 1_500];
            while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                let (question, answer) = reply(&buffer[..count], &replies);
                noted.lock().expect("nobody panicked").push(question);
                if let Some(answer) = answer {
                    socket.send_to(&answer, from).expect("sent");
                }
            }
        };
        std::thread::Builder::new().spawn(serve).expect("a thread");
        Zone { at, asked }
    }

    fn asked(&self, name: &str) -> usize {
        let asked = self.asked.lock().expect("nobody panicked");
        asked.iter().filter(|(about, _)| about == name).count()
    }
}

fn reply(
    query: &[u8],
    replies: &BTreeMap<(String, u16), Reply>,
) -> ((String, u16), Option<Vec<u8>>) {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..=at + length]).to_lowercase());
        at += length + 1;
    }
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    let question = (labels.join("."), kind);
    let none = Reply::Code(0);
    let (code, records) = match replies.get(&question).unwrap_or(&none) {
        Reply::Silence => return (question, None),
        Reply::Code(code) => (*code, Vec::new()),
        Reply::Records(records) => (0, records.clone()),
    };
    let soa = [wire_name("ns"), wire_name("me"), vec![0; 19], vec![60]].concat();
    let authority = if records.is_empty() { vec![record(SOA, &soa)] } else { Vec::new() };
    let mut answer = query[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1]);
    answer.extend((records.len() as u16).to_be_bytes());
    answer.extend((authority.len() as u16).to_be_bytes());
    answer.extend([0, 0]);
    answer.extend_from_slice(&query[12..at + 5]);
    records.iter().for_each(|data| answer.extend(record(kind, data)));
    authority.iter().for_each(|each| answer.extend_from_slice(each));
    (question, Some(answer))
}

/// Client of the resolver that waits for its answers.
struct Client {
    asker: NameAsker,
    told: channel::Receiver<(u64, NameAnswer)>,
}

impl Client {
    fn new(names: &Resolver) -> Client {
        let (tell, told) = channel::sync_channel(64);
        let tell = Mutex::new(tell);
        let tell: TellName = Arc::new(move |ticket, answer| {
            tell.lock().expect("nobody panicked").send((ticket, answer)).expect("it listens");
        });
        Client { asker: names.asker(tell), told }
    }

    fn wait(&self) -> (u64, NameAnswer) {
        self.told.recv_timeout(Duration::from_secs(60)).expect("each question is answered")
    }

    fn ask(&mut self, question: NameQuestion) -> NameAnswer {
        self.asker.ask(7, question);
        let (ticket, answer) = self.wait();
        assert_eq!(ticket, 7);
        answer
    }

    fn addresses(&mut self, name: &str) -> NameAnswer {
        self.ask(NameQuestion::Addresses(name.into()))
    }

    fn services(&mut self, name: &str) -> NameAnswer {
        self.ask(NameQuestion::Services(name.into()))
    }
}

fn settings(zone: &Zone) -> NameSettings {
    let servers = vec![zone.at.to_string()];
    NameSettings { servers, server_ms_max: 300, ..NameSettings::default() }
}

fn names_of(zone: &Zone) -> Resolver {
    Resolver::start(&settings(zone)).expect("it starts")
}

#[test]
fn addresses_of_both_families_and_places_of_a_service_are_found() {
    let six = [vec![0x20, 1, 0x0d, 0xb8], vec![0; 11], vec![1]].concat();
    let zone = Zone::start(&[
        ("h.example", A, Reply::Records(vec![vec![10, 0, 0, 1], vec![10, 0, 0, 2]])),
        ("h.example", AAAA, Reply::Records(vec![six])),
        ("_s._tcp.example", SRV, Reply::Records(vec![srv(5, 6, 7, "H.example"), srv(0, 0, 0, "")])),
    ]);
    let names = names_of(&zone);
    let mut client = Client::new(&names);
    for name in ["h.example", "h.example."] {
        let Ok(NameRecords::Addresses(found)) = client.addresses(name) else { panic!("found") };
        let mut found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
        found.sort();
        assert_eq!(found, ["10.0.0.1", "10.0.0.2", "2001:db8::1"]);
    }
    assert_eq!(zone.asked("h.example"), 2, "each family once: the second time it is remembered");
    let Ok(NameRecords::Services(found)) = client.services("_s._tcp.example") else {
        panic!("found")
    };
    let mut found = found.to_vec();
    found.sort_by_key(|place| place.priority);
    assert!(found[0].target.is_empty(), "the root is nobody");
    assert_eq!((found[1].weight, found[1].port), (6, 7));
    assert!(found[1].target.eq_ignore_ascii_case("h.example"));
}

#[test]
fn what_is_absent_is_told_from_what_could_not_be_asked() {
    let zone = Zone::start(&[
        ("_s._tcp.nx.example", SRV, Reply::Code(3)),
        ("_s._tcp.bad.example", SRV, Reply::Code(2)),
        ("_s._tcp.mute.example", SRV, Reply::Silence),
    ]);
    let names = names_of(&zone);
    let mut client = Client::new(&names);
    for _ in 0..2 {
        assert_eq!(client.services("_s._tcp.nx.example"), Err(NameFault::Absent));
        assert_eq!(client.services("_s._tcp.none.example"), Err(NameFault::Absent));
    }
    assert_eq!(zone.asked("_s._tcp.nx.example"), 1, "an absence is remembered");
    assert_eq!(zone.asked("_s._tcp.none.example"), 1, "so is an empty answer");
    assert_eq!(client.services("_s._tcp.bad.example"), Err(NameFault::Failed));
    assert_eq!(client.services("_s._tcp.mute.example"), Err(NameFault::Failed));
    assert_eq!(client.addresses("none.example"), Err(NameFault::Absent));
}

#[test]
fn what_is_no_name_is_not_asked() {
    let zone = Zone::start(&[]);
    let names = names_of(&zone);
    let mut client = Client::new(&names);
    let long = "a".repeat(64);
    let longer = ["abcdefghi"; 30].join(".");
    for name in ["", ".", "a..example", &long, &longer] {
        assert_eq!(client.addresses(name), Err(NameFault::Malformed), "{name:?}");
    }
    assert!(zone.asked.lock().expect("nobody panicked").is_empty());
}

#[test]
fn beyond_the_bound_the_answer_is_busy_and_every_question_has_one() {
    let mute: Vec<String> = (0..10).map(|n| format!("_s._tcp.{n}.example")).collect();
    let silent: Vec<_> = mute.iter().map(|name| (name.as_str(), SRV, Reply::Silence)).collect();
    let zone = Zone::start(&silent);
    let settings = NameSettings { questions_max: 1, ..settings(&zone) };
    let names = Resolver::start(&settings).expect("it starts");
    let mut client = Client::new(&names);
    for (ticket, name) in (0..).zip(&mute) {
        client.asker.ask(ticket, NameQuestion::Services(name.as_str().into()));
    }
    let mut told: Vec<_> = (0..10).map(|_| client.wait()).collect();
    told.sort_by_key(|(ticket, _)| *ticket);
    assert!(told.iter().map(|(ticket, _)| *ticket).eq(0..10));
    let busy = told.iter().filter(|(_, answer)| *answer == Err(NameFault::Busy)).count();
    assert!((7..10).contains(&busy), "one is asked, one is next, one waits: {told:?}");
    assert!(told.iter().all(|(_, answer)| answer.is_err()));
}
