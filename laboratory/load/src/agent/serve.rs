//! Server loop of an agent: listens, has callers prove themselves, works for one at a time.
//!
//! Every caller gets a thread for the proof; strangers are few and have little time. A caller that
//! has proved itself while another is at work is told who that is. It does not know what load is:
//! the roof's [`Hands`] make it.

use super::PROOF_WAIT;
use super::proof::{self, Role};
use super::session;
use super::wire::{self, CALL_LINE_BYTES_MAX, Receiver, STRANGER_LINE_BYTES_MAX, Sender};
use super::words::{Call, Reply, VERSION};
use lab::generator::LoadGenerator;
use lab::host::{Environment, HostRow, Need};
use lab::series::Reading;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;

/// Callers that have not proved themselves yet, at most; one more is hung up on.
const STRANGERS_MAX: usize = 16;

/// Port of an agent to its machine.
pub trait Hands: Send + Sync {
    /// Environment of this machine.
    fn environment(&self) -> Environment;

    /// Whether this machine is fit for it.
    fn examine(&self, need: &Need) -> Vec<HostRow>;

    /// A load generator for a coordinator; `None`: this agent only observes. Called and used on one
    /// thread.
    fn generator(&self, seed: u64) -> Option<Box<dyn LoadGenerator>>;

    /// Figures of this machine by full names (`tester.`, `target.`), read once a second.
    fn figures(&self) -> Reading;

    /// This machine's clock, Unix time in microseconds, as it stands.
    fn wall_us(&self) -> u64;

    /// The clock is so far ahead of the coordinator's: stamps and latencies are to be in the
    /// coordinator's time.
    fn ahead(&self, ahead_us: i64);

    /// Reports an event that the agent's owner may want to read.
    fn tell(&self, line: &str);
}

/// Where an agent listens, and for whom.
pub struct AgentListener {
    /// The listener.
    pub listener: TcpListener,
    /// The agent's name.
    pub name: String,
    /// Token that a coordinator must know; empty only where the listener is on loopback.
    pub token: String,
    /// Whether it makes load, or only observes.
    pub loads: bool,
}

impl AgentListener {
    /// Listens. Without a token only on loopback: whoever may give orders here can send load to
    /// anybody.
    pub fn take(
        at: SocketAddr,
        name: &str,
        token: &str,
        loads: bool,
    ) -> Result<AgentListener, String> {
        let loopback = match at.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback(),
        };
        if token.is_empty() && !loopback {
            return Err(format!("{at} is not loopback: an agent needs a --token there"));
        }
        let listener = TcpListener::bind(at).map_err(|error| format!("{at}: {error}"))?;
        Ok(AgentListener { listener, name: proper(name), token: token.to_owned(), loads })
    }
}

/// A name as it can stand before the first dot of a figure's name.
pub(super) fn proper(name: &str) -> String {
    let letters = name.chars().take(32);
    let letters = letters.map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
    let name: String = letters.collect();
    let taken = ["", "clients", "tester", "target", "server", "redis"];
    if taken.contains(&name.as_str()) { format!("agent-{name}") } else { name }
}

/// State of an agent's work: the coordinator's address while there is one.
struct AgentState {
    seat: Mutex<()>,
    whom: Mutex<Option<SocketAddr>>,
    strangers: AtomicUsize,
}

/// Serves coordinators, one after the other, until the listener fails.
pub fn serve(seat: AgentListener, hands: Arc<dyn Hands>) -> Result<(), String> {
    let agent_state =
        AgentState { seat: Mutex::new(()), whom: Mutex::new(None), strangers: AtomicUsize::new(0) };
    let (seat, agent_state) = (Arc::new(seat), Arc::new(agent_state));
    loop {
        let (stream, peer) = match seat.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(format!("cannot accept connections any more: {error}")),
        };
        if agent_state.strangers.fetch_add(1, Ordering::Relaxed) >= STRANGERS_MAX {
            agent_state.strangers.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (seat, agent_state, hands) =
            (Arc::clone(&seat), Arc::clone(&agent_state), Arc::clone(&hands));
        let call = move || call(&seat, &agent_state, &hands, stream, peer);
        thread::Builder::new()
            .name("agent-call".to_owned())
            .spawn(call)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
    }
}

/// One caller, from the first byte to the last.
fn call(
    seat: &AgentListener,
    agent_state: &AgentState,
    hands: &Arc<dyn Hands>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let opened = wire::open(stream, STRANGER_LINE_BYTES_MAX).map_err(|error| error.to_string());
    let proved = opened.and_then(|(sender, mut receiver)| {
        let proved = welcome(seat, hands, &sender, &mut receiver);
        if let Err(why) = &proved {
            // It may be gone, which is why it did not prove itself.
            let _ = sender.send(&Reply::Sorry { why: why.clone() });
        }
        proved.map(|proved| (sender, receiver, proved))
    });
    agent_state.strangers.fetch_sub(1, Ordering::Relaxed);
    let (sender, mut receiver, (seed, welcome)) = match proved {
        Ok(proved) => proved,
        Err(why) => return hands.tell(&format!("{peer} refused: {why}")),
    };
    let _busy = match agent_state.seat.try_lock() {
        Ok(free) => free,
        Err(TryLockError::Poisoned(free)) => free.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let whom = *agent_state.whom.lock().unwrap_or_else(PoisonError::into_inner);
            let whom = whom.map_or("another coordinator".to_owned(), |whom| whom.to_string());
            let why = format!("{} is working for {whom}", seat.name);
            hands.tell(&format!("{peer} refused: {why}"));
            // A coordinator that is gone needs no answer.
            let _ = sender.send(&Reply::Sorry { why });
            return;
        }
    };
    *agent_state.whom.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer);
    hands.tell(&format!("working for {peer}"));
    receiver.allow(CALL_LINE_BYTES_MAX);
    let end = match sender.send(&welcome) {
        Ok(()) => session::work(hands, seed, Arc::new(sender), &mut receiver),
        Err(why) => why,
    };
    *agent_state.whom.lock().unwrap_or_else(PoisonError::into_inner) = None;
    hands.tell(&format!("finished working for {peer}: {end}"));
}

/// Authenticates both sides by the token: by the seed that the coordinator brought, and the
/// welcome.
fn welcome(
    seat: &AgentListener,
    hands: &Arc<dyn Hands>,
    sender: &Sender,
    receiver: &mut Receiver,
) -> Result<(u64, Reply), String> {
    let nonce = proof::nonce()?;
    sender.send(&Reply::Hello { version: VERSION, nonce })?;
    let call = receiver.next(PROOF_WAIT)?.ok_or("connection closed")?;
    let Call::Prove { version, nonce: theirs, proof, seed } = call else {
        return Err("expected authentication first".to_owned());
    };
    if version != VERSION {
        return Err(format!(
            "this agent's protocol version is {VERSION}, the coordinator's \
                            {version}"
        ));
    }
    if !proof::holds(proof, &seat.token, Role::Coordinator, theirs, nonce) {
        return Err("wrong token".to_owned());
    }
    let proof = proof::prove(&seat.token, Role::Agent, theirs, nonce);
    let (name, environment) = (seat.name.clone(), hands.environment());
    Ok((seed, Reply::Welcome { proof, name, environment, loads: seat.loads }))
}
