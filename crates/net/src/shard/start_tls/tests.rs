//! A toy stream protocol that begins TLS as XMPP does, on one shard that both calls and is called,
//! and towards OpenSSL, which computes channel bindings by its own means.

use super::super::{Census, Settings};
use super::*;
use crate::detail::{Detail, Reached};
use crate::epoll::{self, Epoll};
use crate::layer::tls::{ClientCertificates, ClientTls, TlsFiles, TlsServer};
use crate::layer::{ClientLayers, ListenEndpoint, ListenerSetup};
use crate::listen;
use crate::logic::dialler::{CallFault, Dialler, NamedCall};
use crate::logic::{ConnectionOrigin, Dial, ShardHandle};
use crate::mailbox::Mailbox;
use base::hash::HashKey;
use base::time::Now;
use model::id::{ConnRef, ShardId};
use model::limits::{DialLimits, Limits};
use model::link::{CertificateName, FrameLimits, Protocol, TlsFacts, TlsVersion, WireProfile};
use model::machine::{Input, Outbox, TurnAway};
use model::ports::names::{
    NameAnswer, NameFault, NameQuestion, NameRecords, NameResolver, ServiceRecord,
};
use rcgen::{CertificateParams, DnType, Issuer, KeyPair, OtherNameValue, SanType};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use testkit::faulty::HeldPort;

/// Both sides of the toy: tags, each of which ends with `>`.
struct ToyStream {
    number: u64,
    calls: bool,
    /// Something is said while TLS begins.
    says_early: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Heard {
    Tag(String),
    Stands(TlsFacts),
    Refused(StartTlsRefusal),
    Ended(CloseReason),
    NotReached(CallFault),
}

const ASK: &str = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
const PROCEED: &str = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";

type Up = (u64, Heard);

impl ToyStream {
    fn offer(&self, link: &Link, out: &mut Outbox<Up>) {
        let offer = if link.may_start_tls { ASK } else { "<nothing/>" };
        out.bytes().extend_from_slice(offer.as_bytes());
    }
}

impl Machine for ToyStream {
    type Up = Up;
    type Down = ();

    fn opened(&mut self, _: Now, link: &Link, out: &mut Outbox<Up>) -> Result<(), CloseReason> {
        if self.calls {
            out.bytes().extend_from_slice(b"<stream:stream>");
        }
        if let Some(facts) = &link.tls {
            out.say((self.number, Heard::Stands(facts.clone())));
        }
        Ok(())
    }

    fn receive(
        &mut self,
        _: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<Up>,
    ) -> Result<(), CloseReason> {
        while let Some(end) = input.rest().iter().position(|&byte| byte == b'>') {
            let link = input.link;
            let tag = String::from_utf8_lossy(input.take(end + 1)).trim().to_owned();
            out.say((self.number, Heard::Tag(tag.clone())));
            if tag.starts_with("<stream:stream") && !self.calls {
                self.offer(link, out);
            } else if tag.starts_with("<starttls") && self.calls {
                out.bytes().extend_from_slice(ASK.as_bytes());
            } else if tag.starts_with("<starttls") {
                out.bytes().extend_from_slice(PROCEED.as_bytes());
                out.start_tls();
                return Ok(());
            } else if tag.starts_with("<proceed") || tag == "<now/>" {
                out.start_tls();
                return Ok(());
            } else if tag == "<facts/>" {
                let facts = link.tls.clone().expect("it is asked for in TLS");
                out.say((self.number, Heard::Stands(facts)));
            }
        }
        Ok(())
    }

    fn command(&mut self, _: Now, (): (), out: &mut Outbox<Up>) -> Result<(), CloseReason> {
        let word: &[u8] = if self.calls { b"<facts/>" } else { b"<told/>" };
        out.bytes().extend_from_slice(word);
        Ok(())
    }

    fn tls_started(
        &mut self,
        _: Now,
        link: Result<&Link, StartTlsRefusal>,
        out: &mut Outbox<Up>,
    ) -> Result<(), CloseReason> {
        match link {
            Ok(link) => {
                let facts = link.tls.clone().expect("it stands");
                assert!(!link.may_start_tls, "it does not begin twice");
                out.say((self.number, Heard::Stands(facts)));
                let word = if self.says_early { "<early/>" } else { "<restart/>" };
                out.bytes().extend_from_slice(word.as_bytes());
            }
            Err(why) => out.say((self.number, Heard::Refused(why))),
        }
        Ok(())
    }

    fn wake(&mut self, _: Now, _: &mut Outbox<Up>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn silent(&mut self, _: Now, _: &mut Outbox<Up>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<Up>) {}

    fn closed(&mut self, _: Now, reason: CloseReason, out: &mut Outbox<Up>) {
        out.say((self.number, Heard::Ended(reason)));
    }
}

/// Those accepted have numbers from 0, those dialled their tags.
#[derive(Default)]
struct Notes {
    heard: Vec<Up>,
    conns: Vec<(u64, ConnRef)>,
    accepted: u64,
    turns: usize,
    early: bool,
    /// Calls by name, and what the resolver says.
    dialler: Option<Dialler>,
    names: Told,
}

/// A resolver that is told its answers, and gives each in the turn after the question.
#[derive(Default)]
struct Told {
    answers: BTreeMap<NameQuestion, NameAnswer>,
    asked: Vec<(u64, NameQuestion)>,
}

impl NameResolver for Told {
    fn ask(&mut self, ticket: u64, question: NameQuestion) {
        self.asked.push((ticket, question));
    }
}

impl Notes {
    fn call(&mut self, now: Now, handle: &mut ShardHandle<Self>) {
        let Some(dialler) = &mut self.dialler else { return };
        for (ticket, question) in std::mem::take(&mut self.names.asked) {
            let answer = self.names.answers.get(&question).cloned();
            dialler.answered(ticket, answer.unwrap_or(Err(NameFault::Absent)));
        }
        dialler.turn(now, &mut self.names, handle);
        let failed = dialler.take_failed();
        self.heard.extend(failed.into_iter().map(|(tag, fault)| (tag, Heard::NotReached(fault))));
    }
}

const TOY: WireProfile = WireProfile {
    protocol: Protocol::Xmpp,
    begins: |bytes| bytes[0] == b'<',
    begins_alone: |_| false,
    alpn: &["xmpp-client"],
    subprotocols: &[],
    frames: |_: &Limits| FrameLimits {
        unbound_bytes_max: 10_000,
        bytes_max: 10_000,
        out_bytes_max: 100_000,
        out_frames_max: 100,
        counts_shared_alone: false,
        backlog_bytes_max: usize::MAX,
    },
    asks_tls: true,
    text_messages: false,
};

static TOYS: [WireProfile; 1] = [TOY];

impl ShardLogic for Notes {
    type Machine = ToyStream;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &TOYS;

    fn machine(&mut self, _: Now, _: &Link, how: ConnectionOrigin) -> Option<ToyStream> {
        let (number, calls) = match how {
            ConnectionOrigin::Accepted(_) => {
                self.accepted += 1;
                (self.accepted - 1, false)
            }
            ConnectionOrigin::Dialled(tag) => match &mut self.dialler {
                Some(dialler) => (dialler.opened(tag)?.0, true),
                None => (tag, true),
            },
        };
        Some(ToyStream { number, calls, says_early: self.early })
    }

    fn word(&mut self, _: Now, from: ConnRef, word: Up, handle: &mut ShardHandle<Self>) {
        self.conns.push((word.0, from));
        let is_called = word.0 < self.accepted;
        if self.early && is_called && is_request(&word.1) {
            // It says something while its TLS begins.
            handle.deliver(from, ());
        }
        self.heard.push(word);
    }

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle<Self>) {}

    fn turn(&mut self, now: Now, handle: &mut ShardHandle<Self>) -> Option<Instant> {
        self.turns += 1;
        self.call(now, handle);
        Some(now.after(Duration::from_millis(1)))
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}

    fn dialling(&mut self, _: Now, tag: u64, conn: ConnRef) {
        self.dialler.iter_mut().for_each(|dialler| dialler.dialling(tag, conn));
    }

    fn connected(&mut self, _: Now, tag: u64) {
        self.dialler.iter_mut().for_each(|dialler| dialler.connected(tag));
    }

    fn dial_failed(
        &mut self,
        now: Now,
        tag: u64,
        why: CloseReason,
        handle: &mut ShardHandle<Self>,
    ) {
        match &mut self.dialler {
            Some(dialler) => {
                dialler.dial_failed(now, tag, why, (handle.detail(), handle.reached()));
            }
            None => self.heard.push((tag, Heard::Ended(why))),
        }
    }
}

/// An authority, a server's certificate and a client's, as files.
struct Papers {
    folder: TempDir,
}

impl Papers {
    fn made() -> Papers {
        let folder = tempfile::tempdir().expect("a folder");
        let key = || KeyPair::generate().expect("a key");
        let named = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).expect("no names");
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let mut authority = named("authority");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority_key = key();
        let root = authority.self_signed(&authority_key).expect("made");
        let issuer = Issuer::new(authority, authority_key);
        let write = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("ca.pem", root.pem());
        let paper = |name: &str, names: Vec<SanType>| {
            let mut params = named(name);
            params.subject_alt_names = names;
            let own = key();
            let made = params.signed_by(&own, &issuer).expect("signed");
            write(&format!("{name}.pem"), made.pem());
            write(&format!("{name}.key"), own.serialize_pem());
        };
        let dns = |name: &str| SanType::DnsName(name.try_into().expect("ASCII"));
        paper("server", vec![dns("stream.example")]);
        let address = OtherNameValue::Utf8String("romeo@stream.example".into());
        let other = SanType::OtherName((vec![1, 3, 6, 1, 5, 5, 7, 8, 5], address));
        paper("client", vec![dns("other.example"), other]);
        Papers { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn server(&self, clients: ClientCertificates) -> Arc<TlsServer> {
        let files = TlsFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            others: Vec::new(),
            client_ca: Some(self.path("ca.pem")),
            revoked: None,
            only_1_3: false,
        };
        Arc::new(TlsServer::of(files, clients, &TOYS).expect("good files"))
    }

    fn client(&self, version: &'static SupportedProtocolVersion, name: &str) -> ClientTls {
        let mut roots = RootCertStore::empty();
        let certificates = |name: &str| -> Vec<CertificateDer<'static>> {
            let read = CertificateDer::pem_file_iter(self.path(name)).expect("it is there");
            read.collect::<Result<_, _>>().expect("certificates")
        };
        roots.add(certificates("ca.pem").remove(0)).expect("an authority");
        let key = PrivateKeyDer::from_pem_file(self.path("client.key")).expect("a key");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots)
            .with_client_auth_cert(certificates("client.pem"), key)
            .expect("they fit");
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        ClientTls::new(Arc::new(config), name).asking()
    }

    /// The hash of the server's certificate.
    fn end_point(&self) -> Vec<u8> {
        let own = CertificateDer::from_pem_file(self.path("server.pem")).expect("it is there");
        ::ring::digest::digest(&::ring::digest::SHA256, &own).as_ref().to_vec()
    }
}

type Message = ShardMessageOf<Notes, OwnedFd>;

struct World {
    shard: Shard<Epoll<Message>, Notes>,
    at: SocketAddr,
    /// Ports that are held until it ends.
    refusing: Vec<HeldPort>,
}

/// Turns after which what has not come does not come.
const TURNS_MAX: usize = 50_000;

impl World {
    fn new(tls: Option<Arc<TlsServer>>) -> World {
        World::with(tls, |_| {})
    }

    fn with(tls: Option<Arc<TlsServer>>, change: impl FnOnce(&mut Limits)) -> World {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let door = ListenerSetup { tls, ..ListenerSetup::plain("toy", ListenEndpoint::Tcp(here)) };
        let mut open =
            listen::open(std::slice::from_ref(&door), 1, 10_000, Vec::new()).expect("port 0");
        let ListenEndpoint::Tcp(at) = open.addresses[0] else { panic!("it has a port") };
        let mailboxes: Arc<[Arc<Mailbox<Message>>]> =
            vec![Mailbox::new(16).expect("an eventfd")].into();
        let net = Epoll::new(ShardId(0), open.shards.remove(0), mailboxes, epoll::began());
        let mut limits = Limits::default();
        change(&mut limits);
        let settings = Settings {
            shard: ShardId(0),
            shards: 1,
            hash_key: HashKey::new(1, 2),
            limits: Arc::new(limits),
            doors: vec![Arc::new(door)],
            census: Arc::<Census>::default(),
            seed: 1,
            secrets: [1; 32],
        };
        let shard = Shard::new(settings, net.expect("a poller"), Notes::default());
        World { shard, at, refusing: Vec::new() }
    }

    fn until(&mut self, what: &str, done: impl Fn(&[Up]) -> bool) {
        while !done(&self.shard.logic().heard) {
            let turns = self.shard.logic().turns;
            assert!(turns < TURNS_MAX, "{what}: {:?}", self.shard.logic().heard);
            self.shard.turn();
        }
    }

    fn dial(&mut self, tag: u64, tls: Option<ClientTls>, start_tls: bool) {
        let tls = tls.map(Arc::new);
        let layers = ClientLayers { tls, start_tls, ..ClientLayers::plain(Protocol::Xmpp) };
        self.shard.handle_mut().dial(Dial { to: self.at.into(), from: None, layers, tag });
    }

    /// Facts of the TLS session of a connection, once it is established.
    fn facts(&mut self, number: u64) -> TlsFacts {
        let of = |heard: &[Up]| {
            heard.iter().find_map(|(from, heard)| match heard {
                Heard::Stands(facts) if *from == number => Some(facts.clone()),
                _ => None,
            })
        };
        self.until("TLS", |heard| of(heard).is_some());
        of(&self.shard.logic().heard).expect("it was just there")
    }

    fn tags(&self, number: u64) -> VecDeque<&str> {
        let heard = self.shard.logic().heard.iter();
        heard
            .filter_map(|(from, heard)| match heard {
                Heard::Tag(tag) if *from == number => Some(tag.as_str()),
                _ => None,
            })
            .collect()
    }

    fn ended(&mut self, number: u64) -> CloseReason {
        let of = |heard: &[Up]| {
            heard.iter().find_map(|(from, heard)| match heard {
                Heard::Ended(reason) if *from == number => Some(*reason),
                _ => None,
            })
        };
        self.until("an end", |heard| of(heard).is_some());
        of(&self.shard.logic().heard).expect("it was just there")
    }

    fn hears(&mut self, number: u64, tag: &str) {
        let said = (number, Heard::Tag(tag.to_owned()));
        self.until(tag, |heard| heard.contains(&said));
    }
}

const VERSIONS: [(&SupportedProtocolVersion, TlsVersion); 2] =
    [(&rustls::version::TLS13, TlsVersion::V13), (&rustls::version::TLS12, TlsVersion::V12)];

#[test]
fn both_ends_are_told_what_was_agreed_and_compute_the_same_bindings() {
    let papers = Papers::made();
    for start_tls in [true, false] {
        for (version, expected) in VERSIONS {
            let mut world = World::new(Some(papers.server(ClientCertificates::Required)));
            world.dial(77, Some(papers.client(version, "stream.example")), start_tls);
            let (server, client) = (world.facts(0), world.facts(77));
            for facts in [&server, &client] {
                assert_eq!((facts.version, facts.resumed), (expected, false));
                assert_eq!(facts.server_name.as_deref(), Some("stream.example"));
                assert_ne!(facts.suite, 0);
                let bindings = facts.bindings.as_ref().expect("they are asked for");
                assert_eq!(bindings.end_point.as_deref(), Some(&papers.end_point()[..]));
                assert_eq!(bindings.exporter.is_some(), expected == TlsVersion::V13);
            }
            assert_eq!((server.suite, &server.bindings), (client.suite, &client.bindings));
            let names = &server.certificate.as_ref().expect("the client has shown one").names;
            let dns = CertificateName::Dns("other.example".into());
            let address = CertificateName::Xmpp("romeo@stream.example".into());
            assert_eq!(names[..], [dns, address]);
            assert_eq!(server.identity.as_deref(), Some("other.example"));
            let names = &client.certificate.as_ref().expect("the server has shown one").names;
            assert_eq!(names[..], [CertificateName::Dns("stream.example".into())]);
        }
    }
}

#[test]
fn a_machine_finds_the_facts_whenever_it_receives() {
    let papers = Papers::made();
    let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
    let client = papers.client(&rustls::version::TLS13, "stream.example");
    world.dial(77, Some(client), true);
    let facts = world.facts(0);
    world.hears(77, "<restart/>");
    let conn = world.shard.logic().conns.iter().find(|(from, _)| *from == 77).expect("it spoke").1;
    for times in 2..4 {
        world.shard.handle_mut().deliver(conn, ());
        let same = |heard: &&Up| **heard == (0, Heard::Stands(facts.clone()));
        world.until("facts", |heard| heard.iter().filter(same).count() == times);
    }
}

#[test]
fn what_was_sent_behind_the_request_is_never_taken_for_a_stanza() {
    let papers = Papers::made();
    for behind in ["<iq/>", "<iq/><iq/>", " ", "\u{16}"] {
        let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
        let mut raw = TcpStream::connect(world.at).expect("it listens");
        let text = format!("<stream:stream>{ASK}{behind}");
        raw.write_all(text.as_bytes()).expect("the socket takes it");
        world.until("the request", |heard| heard.iter().any(|(_, it)| is_request(it)));
        let _ = raw.write_all(b"<iq/>aaaaaaaaaaaaaaaa"); // it may have ended
        assert_eq!(world.ended(0), CloseReason::TlsFailed, "{behind:?}");
        assert!(!world.tags(0).contains(&"<iq/>"), "{behind:?}");
        let mut answer = Vec::new();
        let _ = raw.read_to_end(&mut answer); // it may end with a reset
        let in_plain = format!("{ASK}{PROCEED}");
        let after = answer.strip_prefix(in_plain.as_bytes()).expect("what was asked is answered");
        // Nothing else goes out in plain text: there is only the alert of TLS, a record of type 21
        // with two bytes (RFC 8446 5.1, 6), and not even that where the reset was faster.
        let is_alert = matches!(after, [21, 3, _, 0, 2, _, _]);
        assert!(is_alert || after.is_empty(), "{behind:?}: {after:02x?}");
    }
}

#[test]
fn white_space_behind_the_request_is_passed_over() {
    let papers = Papers::made();
    for space in ["\n", " \r\n\t"] {
        std::thread::scope(|scope| {
            let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
            let client = papers.client(&rustls::version::TLS13, "stream.example");
            let raw = TcpStream::connect(world.at).expect("it listens");
            let calls = scope.spawn(move || begins_behind(space, client, raw));
            world.hears(0, "<within/>");
            drop(calls.join().expect("it called"));
        });
    }
}

/// A client that writes white space behind its request, and once more before its handshake.
fn begins_behind(
    space: &str,
    client: ClientTls,
    mut raw: TcpStream,
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    raw.write_all(format!("<stream:stream>{ASK}{space}").as_bytes()).expect("it takes it");
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).ends_with(PROCEED) {
        let mut byte = [0];
        raw.read_exact(&mut byte).expect("it goes on");
        answer.push(byte[0]);
    }
    raw.write_all(space.as_bytes()).expect("it takes it");
    let session = rustls::ClientConnection::new(client.config.clone(), client.name.clone());
    let mut tls = rustls::StreamOwned::new(session.expect("right"), raw);
    tls.write_all(b"<within/>").expect("TLS stands");
    tls
}

fn is_request(heard: &Heard) -> bool {
    matches!(heard, Heard::Tag(tag) if tag.starts_with("<starttls"))
}

#[test]
fn what_is_said_while_tls_begins_goes_out_in_it() {
    let papers = Papers::made();
    let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
    world.shard.logic_mut().early = true;
    let client = papers.client(&rustls::version::TLS13, "stream.example");
    world.dial(77, Some(client), true);
    world.hears(77, "<early/>");
    let tags = world.tags(77);
    let told = tags.iter().position(|tag| *tag == "<told/>").expect("it was said");
    let proceed = tags.iter().position(|tag| tag.starts_with("<proceed")).expect("it was said");
    let early = tags.iter().position(|tag| *tag == "<early/>").expect("it was said");
    assert!(proceed < told && told < early, "{tags:?}");
}

#[test]
fn without_a_certificate_or_where_tls_stands_the_machine_is_told_why_not() {
    let papers = Papers::made();
    let refused = |world: &mut World, number: u64| {
        world.until("a refusal", |heard| {
            heard.iter().any(|(_, it)| matches!(it, Heard::Refused(_)))
        });
        let heard = world.shard.logic().heard.iter();
        heard
            .filter_map(|(from, it)| match it {
                Heard::Refused(why) if *from == number => Some(*why),
                _ => None,
            })
            .next()
    };
    let mut world = World::new(None);
    let mut raw = TcpStream::connect(world.at).expect("it listens");
    raw.write_all(b"<stream:stream><now/><after/>").expect("the socket takes it");
    assert_eq!(refused(&mut world, 0), Some(StartTlsRefusal::NotConfigured));
    world.hears(0, "<after/>");

    let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
    let client = papers.client(&rustls::version::TLS12, "stream.example");
    world.dial(77, Some(client), false);
    world.facts(77);
    let mut raw = papers.openssl(&world, &["-tls1_3"]);
    raw.stdin.as_mut().expect("a pipe").write_all(b"<now/>\n").expect("it reads");
    world.facts(1);
    assert_eq!(refused(&mut world, 1), Some(StartTlsRefusal::Stands));
    let _ = raw.kill();
    let _ = raw.wait();

    let mut world = World::new(None);
    world.dial(78, None, true);
    world.hears(78, "<nothing/>");
}

#[test]
fn a_certificate_for_another_name_is_not_believed_by_who_calls() {
    let papers = Papers::made();
    let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
    world.dial(77, Some(papers.client(&rustls::version::TLS13, "elsewhere.example")), true);
    assert_eq!(world.ended(77), CloseReason::TlsFailed);
    assert_eq!(world.ended(0), CloseReason::TlsFailed);
}

#[test]
fn a_handshake_that_was_ordered_and_does_not_go_on_ends() {
    let papers = Papers::made();
    let tls = Some(papers.server(ClientCertificates::Off));
    let mut world = World::with(tls, |limits| limits.bind_ms_max = 50);
    let mut raw = TcpStream::connect(world.at).expect("it listens");
    raw.write_all(format!("<stream:stream>{ASK}").as_bytes()).expect("the socket takes it");
    assert_eq!(world.ended(0), CloseReason::HandshakeTimeout);
}

#[test]
fn a_session_goes_on_from_its_ticket_in_both_versions() {
    let papers = Papers::made();
    for (version, expected) in VERSIONS {
        let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
        let client = papers.client(version, "stream.example");
        let config = client.config.clone();
        let again = || ClientTls::new(config.clone(), client.name.clone()).asking();
        let mut seen = Vec::new();
        for round in 0..3 {
            world.dial(70 + round, Some(again()), true);
            let (server, client) = (world.facts(round), world.facts(70 + round));
            assert_eq!((server.version, server.resumed), (expected, round > 0), "{round}");
            assert_eq!(server.bindings, client.bindings);
            seen.push(server.bindings.and_then(|bindings| bindings.exporter));
            // A ticket of TLS 1.3 comes with what is said first.
            world.hears(70 + round, "<restart/>");
        }
        if expected == TlsVersion::V13 {
            assert!(seen[0] != seen[1] && seen[1] != seen[2], "each connection has its own");
        }
    }
}

impl Papers {
    /// OpenSSL's client, which begins TLS as XMPP does where its arguments say so.
    fn openssl(&self, world: &World, more: &[&str]) -> Child {
        let ca = self.path("ca.pem");
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &world.at.to_string(), "-CAfile"]).arg(ca);
        command.args(["-servername", "stream.example", "-verify_hostname", "stream.example"]);
        command.args(["-verify_return_error", "-ign_eof"]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("openssl is installed: apt-get install openssl")
    }
}

/// Exported keying material, as OpenSSL prints it.
fn exported(output: &str) -> Option<String> {
    let (_, rest) = output.split_once("Keying material: ")?;
    rest.split_whitespace().next().map(str::to_lowercase)
}

#[test]
fn openssl_computes_the_same_binding() {
    let papers = Papers::made();
    let export = ["-keymatexport", "EXPORTER-Channel-Binding", "-keymatexportlen", "32"];
    let stream = ["-starttls", "xmpp", "-xmpphost", "stream.example"];
    for (tls, is_1_3) in [
        (&["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"][..], true),
        (&["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"], true),
        (&["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"], true),
        (&["-tls1_2"], false),
    ] {
        for begins in [&stream[..], &[]] {
            let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
            let mut client = papers.openssl(&world, &[&export[..], begins, tls].concat());
            let mut says = client.stdin.take().expect("a pipe");
            says.write_all(b"<hello/>\n").expect("it reads");
            world.hears(0, "<hello/>");
            let facts = world.facts(0);
            world.shard.handle_mut().stop();
            while world.shard.turn() {}
            drop(says);
            let output = client.wait_with_output().expect("it ends");
            let output = String::from_utf8_lossy(&output.stdout);
            let bindings = facts.bindings.expect("they are asked for");
            assert_eq!(bindings.end_point.as_deref(), Some(&papers.end_point()[..]));
            let ours = bindings
                .exporter
                .map(|value| value.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            match is_1_3 {
                true => assert_eq!(ours, exported(&output), "{tls:?} {begins:?} {output}"),
                false => assert_eq!(ours, None, "TLS 1.2 has the end point alone"),
            }
            assert_eq!(is_1_3, facts.version == TlsVersion::V13);
        }
    }
}

impl World {
    /// Calls `stream.example` by its service, whose first place refuses, in TLS of this name.
    fn call(&mut self, tag: u64, tls: ClientTls, start_tls: bool) {
        let closed = HeldPort::closed();
        let place = |priority, at: SocketAddr| ServiceRecord {
            priority,
            weight: 0,
            port: at.port(),
            target: "host.example".into(),
        };
        let places = [place(2, self.at), place(1, closed.address())];
        let here = [self.at.ip()];
        let now = Now::new(Instant::default(), 0);
        let notes = self.shard.logic_mut();
        let mut dialler = Dialler::new(DialLimits::default(), 1);
        let answers = &mut notes.names.answers;
        let service = NameQuestion::Services("_toy._tcp.stream.example".into());
        answers.insert(service, Ok(NameRecords::Services(places.into())));
        let host = NameQuestion::Addresses("host.example.".into());
        answers.insert(host, Ok(NameRecords::Addresses(here.into())));
        let tls = Some(Arc::new(tls));
        let layers = ClientLayers { tls, start_tls, ..ClientLayers::plain(Protocol::Xmpp) };
        let named = NamedCall {
            domain: "stream.example".into(),
            services: vec![("_toy._tcp", layers)],
            host: None,
            from: None,
            public_only: false,
            tag,
        };
        dialler.call(now, named, &mut notes.names);
        notes.dialler = Some(dialler);
        self.refusing.push(closed);
    }
}

#[test]
fn a_call_by_name_reaches_the_place_that_answers_and_believes_the_domain_alone() {
    let papers = Papers::made();
    for start_tls in [false, true] {
        let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
        let client = papers.client(&rustls::version::TLS13, "stream.example");
        world.call(900, client, start_tls);
        let (server, client) = (world.facts(0), world.facts(900));
        assert_eq!(server.server_name.as_deref(), Some("stream.example"), "not the host's");
        assert_eq!(server.bindings, client.bindings);
        let dialler = world.shard.logic().dialler.as_ref().expect("it called");
        assert_eq!(dialler.calls(), 0);
        let counters = &world.shard.handle().counters;
        assert_eq!(counters.closed_of(CloseReason::ConnectRefused), 1, "counted like any end");
    }
    let mut world = World::new(Some(papers.server(ClientCertificates::Off)));
    let other = papers.client(&rustls::version::TLS13, "host.example");
    world.call(900, other, false);
    let doubt = Detail::Certificate("not for this name");
    let fault = CallFault::Failed(CloseReason::TlsFailed, doubt, Reached::Layers);
    world.until("a fault", |heard| heard.contains(&(900, Heard::NotReached(fault))));
}
