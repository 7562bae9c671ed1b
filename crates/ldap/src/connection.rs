//! A connection to a server; no operation on it outlasts the call's deadline.
//!
//! The kernel limits the time of a single read or write, so a server that sends a byte now and then
//! would never exceed it: before each, the limit is set to the rest of the call's time.

use crate::address::ServerAddress;
use crate::clock::Deadline;
use crate::fault::{LdapFault, LdapFaultKind};
use crate::message::{self, ENTRIES_MAX, Entry, Outcome, Response, Search};
use crate::settings::Plan;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;

/// Most messages of one search: entries, references, and the end.
const MESSAGES_MAX: usize = 64;

/// Result codes (RFC 4511 appendix A).
pub(crate) mod code {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const SIZE_LIMIT_EXCEEDED: u32 = 4;
    pub(crate) const REFERRAL: u32 = 10;
    pub(crate) const CONSTRAINT_VIOLATION: u32 = 19;
    pub(crate) const NO_SUCH_OBJECT: u32 = 32;
    pub(crate) const INVALID_DN_SYNTAX: u32 = 34;
    pub(crate) const INAPPROPRIATE_AUTHENTICATION: u32 = 48;
    pub(crate) const INVALID_CREDENTIALS: u32 = 49;
    pub(crate) const INSUFFICIENT_ACCESS_RIGHTS: u32 = 50;
    pub(crate) const UNWILLING_TO_PERFORM: u32 = 53;
}

/// Result codes of a bind that are about the user, and not about the server.
const REFUSALS: [u32; 7] = [
    code::CONSTRAINT_VIOLATION,
    code::NO_SUCH_OBJECT,
    code::INVALID_DN_SYNTAX,
    code::INAPPROPRIATE_AUTHENTICATION,
    code::INVALID_CREDENTIALS,
    code::INSUFFICIENT_ACCESS_RIGHTS,
    code::UNWILLING_TO_PERFORM,
];

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    server: ServerAddress,
    /// Number of the last request.
    id: u32,
}

enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Connection {
    /// Connects, and encrypts the connection if that is configured.
    pub(crate) fn open(
        server: &ServerAddress,
        plan: &Plan,
        deadline: Deadline,
    ) -> Result<Connection, LdapFault> {
        let tcp = connect(server, deadline)
            .map_err(|fault| LdapFault::new(fault.kind, format!("{server}: {}", fault.words)))?;
        // Without it responses wait for each other; on a kernel that refuses it the call still
        // works.
        let _ = tcp.set_nodelay(true);
        let stream = Stream::Plain(Timed { tcp, deadline });
        let mut connection = Connection { stream, server: server.clone(), id: 0 };
        if server.tls {
            return connection.encrypted(plan);
        }
        if plan.start_tls {
            let outcome = connection.start_tls()?;
            if outcome.code != code::SUCCESS {
                let words = format!("StartTLS was refused: {}", outcome.words);
                return Err(connection.fault(LdapFaultKind::Tls, words));
            }
            return connection.encrypted(plan);
        }
        Ok(connection)
    }

    /// Sets the deadline of the next operations.
    pub(crate) fn begin(&mut self, deadline: Deadline) {
        match &mut self.stream {
            Stream::Plain(timed) => timed.deadline = deadline,
            Stream::Tls(tls) => tls.sock.deadline = deadline,
        }
    }

    /// Whether the server accepts this password for this name. False if either is empty.
    pub(crate) fn bind(&mut self, name: &str, password: &[u8]) -> Result<bool, LdapFault> {
        if name.is_empty() || password.is_empty() {
            // The server would answer with success, without a check (RFC 4513 5.1.1, 5.1.2).
            return Ok(false);
        }
        let id = self.next_id();
        self.send(&message::bind(id, name, password))?;
        let Response::Bound(outcome) = self.receive()? else {
            return Err(self.fault(LdapFaultKind::Nonsense, "no answer to a bind"));
        };
        match outcome.code {
            code::SUCCESS => Ok(true),
            code if REFUSALS.contains(&code) => Ok(false),
            _ => Err(self.fault(LdapFaultKind::Refused, format!("bind: {}", outcome.words))),
        }
    }

    /// The one entry that a search finds; `None` if it finds none. Several are a fault.
    pub(crate) fn find(&mut self, search: &Search<'_>) -> Result<Option<Entry>, LdapFault> {
        let mut found = self.search(search)?;
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(self.fault(LdapFaultKind::Ambiguous, "the filter matches several entries")),
        }
    }

    /// Whether a search finds any entry.
    pub(crate) fn finds(&mut self, search: &Search<'_>) -> Result<bool, LdapFault> {
        Ok(!self.search(search)?.is_empty())
    }

    /// Entries that a search finds; more than two are a fault.
    fn search(&mut self, search: &Search<'_>) -> Result<Vec<Entry>, LdapFault> {
        let id = self.next_id();
        self.send(&message::search(id, search))?;
        let mut found = Vec::new();
        for _ in 0..MESSAGES_MAX {
            match self.receive()? {
                // An entry without a DN must not be used: a bind with an empty name succeeds.
                Response::Entry(entry) if entry.dn.is_empty() => {
                    return Err(self.fault(LdapFaultKind::Nonsense, "an entry without a DN"));
                }
                Response::Entry(_) if found.len() == ENTRIES_MAX as usize => {
                    let words = "the filter matches several entries, and the server sends more \
                                 than were asked for";
                    return Err(self.fault(LdapFaultKind::Ambiguous, words));
                }
                Response::Entry(entry) => found.push(entry),
                Response::Reference => {}
                Response::Found(outcome) => return self.found(outcome, found, search),
                _ => return Err(self.fault(LdapFaultKind::Nonsense, "no answer to a search")),
            }
        }
        Err(self.fault(LdapFaultKind::Nonsense, "a search without an end"))
    }

    fn found(
        &self,
        outcome: Outcome,
        found: Vec<Entry>,
        search: &Search<'_>,
    ) -> Result<Vec<Entry>, LdapFault> {
        let refused = |why: &str| {
            let words = format!("search below {:?}: {}{why}", search.base, outcome.words);
            Err(self.fault(LdapFaultKind::Refused, words))
        };
        match outcome.code {
            code::SUCCESS => Ok(found),
            code::SIZE_LIMIT_EXCEEDED if found.len() == ENTRIES_MAX as usize => Ok(found),
            code::REFERRAL => refused(" (referrals are not followed)"),
            code::NO_SUCH_OBJECT => refused(" (or the entry may not be read)"),
            _ => refused(""),
        }
    }

    fn start_tls(&mut self) -> Result<Outcome, LdapFault> {
        let id = self.next_id();
        self.send(&message::start_tls(id))?;
        match self.receive()? {
            Response::Extended(outcome) => Ok(outcome),
            _ => Err(self.fault(LdapFaultKind::Nonsense, "no answer to StartTLS")),
        }
    }

    /// The connection after a TLS handshake.
    fn encrypted(self, plan: &Plan) -> Result<Connection, LdapFault> {
        let Connection { stream, server, id } = self;
        let fault = |kind, words: String| LdapFault::new(kind, format!("{server}: {words}"));
        let Stream::Plain(mut timed) = stream else {
            return Err(fault(LdapFaultKind::Tls, "TLS within TLS".into()));
        };
        let config = plan.tls.clone().expect("settings with TLS have certificates");
        let mut session =
            session(&server, config).map_err(|words| fault(LdapFaultKind::Tls, words))?;
        while session.is_handshaking() {
            let done = session.complete_io(&mut timed);
            done.map_err(|error| match kind_of(&error) {
                LdapFaultKind::Timeout => fault(LdapFaultKind::Timeout, words_of(&error)),
                _ => fault(LdapFaultKind::Tls, words_of(&error)),
            })?;
        }
        let stream = Stream::Tls(Box::new(StreamOwned::new(session, timed)));
        Ok(Connection { stream, server, id })
    }

    fn next_id(&mut self) -> u32 {
        // Message ids go from 1 to 2,147,483,647 (RFC 4511 4.1.1.1).
        self.id = self.id % i32::MAX as u32 + 1;
        self.id
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), LdapFault> {
        let sent = match &mut self.stream {
            Stream::Plain(timed) => timed.write_all(bytes),
            Stream::Tls(tls) => tls.write_all(bytes).and_then(|()| tls.flush()),
        };
        sent.map_err(|error| self.fault(kind_of(&error), words_of(&error)))
    }

    fn receive(&mut self) -> Result<Response, LdapFault> {
        let message = match &mut self.stream {
            Stream::Plain(timed) => message::read(timed),
            Stream::Tls(tls) => message::read(tls),
        };
        let message = message.map_err(|error| self.fault(kind_of(&error), words_of(&error)))?;
        message::parse(&message, self.id).map_err(|fault| self.fault(fault.kind, fault.words))
    }

    pub(crate) fn fault(&self, kind: LdapFaultKind, words: impl AsRef<str>) -> LdapFault {
        LdapFault::new(kind, format!("{}: {}", self.server, words.as_ref()))
    }
}

fn kind_of(error: &io::Error) -> LdapFaultKind {
    match error.kind() {
        // Linux reports a socket's timeout as WouldBlock.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LdapFaultKind::Timeout,
        io::ErrorKind::InvalidData => LdapFaultKind::Nonsense,
        _ => LdapFaultKind::Unreachable,
    }
}

fn words_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".into(),
        io::ErrorKind::UnexpectedEof => "connection closed".into(),
        _ => error.to_string(),
    }
}

fn session(server: &ServerAddress, config: Arc<ClientConfig>) -> Result<ClientConnection, String> {
    let name = ServerName::try_from(server.host.to_string()).map_err(|error| error.to_string())?;
    ClientConnection::new(config, name).map_err(|error| error.to_string())
}

fn connect(server: &ServerAddress, deadline: Deadline) -> Result<TcpStream, LdapFault> {
    let addresses = resolve(server, deadline)?;
    let none = "the name does not resolve to an address";
    let mut last = LdapFault::new(LdapFaultKind::Unreachable, none);
    for (at, address) in addresses.iter().enumerate() {
        let Some(left) = deadline.share(addresses.len() - at).left() else { return Err(late()) };
        match TcpStream::connect_timeout(address, left) {
            Ok(tcp) => return Ok(tcp),
            Err(error) => last = LdapFault::new(kind_of(&error), words_of(&error)),
        }
    }
    Err(last)
}

fn late() -> LdapFault {
    LdapFault::new(LdapFaultKind::Timeout, "no answer in time")
}

/// The addresses of a host. The system's resolver has time limits of its own and cannot be stopped,
/// so it runs on a thread that is abandoned when the call's time is over. A call abandons at most
/// one thread, and the resolver ends each.
fn resolve(server: &ServerAddress, deadline: Deadline) -> Result<Vec<SocketAddr>, LdapFault> {
    if let Ok(address) = server.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, server.port)]);
    }
    let (sender, answer) = sync_channel(1);
    let name = (server.host.to_string(), server.port);
    let work = move || {
        // The caller may have given up by now.
        let _ = sender.send(name.to_socket_addrs().map(Vec::from_iter));
    };
    let unreachable = |error: &dyn std::fmt::Display| {
        LdapFault::new(LdapFaultKind::Unreachable, error.to_string())
    };
    Builder::new().name("resolver".into()).spawn(work).map_err(|error| unreachable(&error))?;
    match answer.recv_timeout(deadline.left().ok_or_else(late)?) {
        Ok(found) => found.map_err(|error| unreachable(&error)),
        Err(_) => Err(unreachable(&"the name was not resolved in time")),
    }
}

/// A socket with the deadline of a call.
struct Timed {
    tcp: TcpStream,
    deadline: Deadline,
}

impl Timed {
    fn left(&self) -> io::Result<std::time::Duration> {
        self.deadline.left().ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(Some(self.left()?))?;
        self.tcp.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(Some(self.left()?))?;
        self.tcp.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
