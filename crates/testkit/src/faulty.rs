//! A tiny server that fails on purpose, and counts how: the known truth for whoever claims to
//! tell failures apart.
//!
//! Each connection gets the next of its [`ConnectionFate`]s and goes through its [`FateStep`]s on a
//! thread of its own: refuse, stall, answer half a frame, reset, close, lie, never read. It knows
//! no protocol: what is said are a test's bytes. Encryption is a test's too ([`FateStep::Wrap`]).
//!
//! The invariant: a connection counts under its fate exactly once, when the fate's last step is
//! at hand; dropping the server ends it with all its threads.

mod held_port;
mod wire;

pub use held_port::HeldPort;
pub use wire::FaultyWire;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Answers what has come, which it is given: what is left of it is shown again with more.
pub type FaultyAnswer = Arc<dyn Fn(&mut Vec<u8>) -> Vec<u8> + Send + Sync>;
/// Answers what has come on the connection of this number, as [`FaultyAnswer`] does, with bytes for
/// it and for others.
pub type Mediator = Arc<dyn Fn(u64, &mut Vec<u8>) -> Vec<(u64, Vec<u8>)> + Send + Sync>;
/// Puts something around a connection: TLS.
pub type Wrapper = Arc<dyn Fn(TcpStream) -> Box<dyn FaultyWire> + Send + Sync>;

/// Step of a connection.
#[derive(Clone)]
pub enum FateStep {
    /// Waits until something has come. If the peer ends instead, the fate is over uncounted.
    Hear,
    /// Says these bytes.
    Say(Vec<u8>),
    /// Hears once, and says what is made of it.
    Reply(FaultyAnswer),
    /// Does nothing for so long. The peer may end meanwhile.
    Stall(Duration),
    /// Says this piece again and again, so often, with a pause before each.
    Drip(Vec<u8>, u32, Duration),
    /// The following steps are inside of this layer.
    Wrap(Wrapper),
    /// Answers until the peer ends.
    Serve(FaultyAnswer),
    /// Passes what comes from one connection on to others, until the peer ends. It writes to their
    /// bare sockets, below whatever is wrapped around.
    Mediate(Mediator),
    /// Neither reads nor writes nor closes, until the server is dropped.
    Hold,
    /// Says what ends the wrapping in good order: `close_notify` of TLS.
    Farewell,
    /// Closes in good order: what the peer has said is read first.
    Close,
    /// Resets.
    Reset,
}

/// Steps of a connection. The last step should be one that ends.
#[derive(Clone)]
pub struct ConnectionFate {
    /// Its name in the counts.
    pub name: &'static str,
    /// Its steps.
    pub steps: Vec<FateStep>,
}

impl ConnectionFate {
    /// A fate of these steps.
    pub fn new(name: &'static str, steps: impl Into<Vec<FateStep>>) -> ConnectionFate {
        ConnectionFate { name, steps: steps.into() }
    }
}

/// A server that fails on purpose.
pub struct Faulty {
    address: SocketAddr,
    shared: Arc<Shared>,
    door: Option<JoinHandle<()>>,
}

/// Stack of a connection's thread, bytes: a step needs little, TLS the most of it.
const STACK: usize = 512 * 1024;
/// Bytes read at once.
const READ: usize = 64 * 1024;
/// Most reads before an orderly close.
const FAREWELL_READS: usize = 4_096;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Rung when something was counted, and when the server ends.
    news: Condvar,
}

#[derive(Default)]
struct State {
    over: bool,
    accepted: u64,
    counts: BTreeMap<&'static str, u64>,
    /// Open connections, to end them.
    open: BTreeMap<u64, TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Faulty {
    /// Listens on a port of loopback; connection `n` gets fate `n % fates`.
    pub fn start(fates: Vec<ConnectionFate>) -> Faulty {
        Faulty::at(SocketAddr::from(([127, 0, 0, 1], 0)), fates)
    }

    /// The same at this address.
    pub fn at(address: SocketAddr, fates: Vec<ConnectionFate>) -> Faulty {
        assert!(!fates.is_empty(), "a faulty server needs a fate");
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let mine = shared.clone();
        let accept = move || accept(&listener, &fates, &mine);
        let door = Builder::new().name("faulty".into()).spawn(accept).expect("a thread");
        Faulty { address, shared, door: Some(door) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections taken in so far; callers know of theirs before this does.
    pub fn accepted(&self) -> u64 {
        self.shared.lock().accepted
    }

    /// The same, once so many have been, or no more came within this time.
    pub fn accepted_in_time(&self, count: u64, within: Duration) -> u64 {
        let few = |state: &mut State| state.accepted < count;
        let waited = self.shared.news.wait_timeout_while(self.shared.lock(), within, few);
        waited.unwrap_or_else(PoisonError::into_inner).0.accepted
    }

    /// Connections that have come to the last step of the fate of this name.
    pub fn count(&self, name: &str) -> u64 {
        self.shared.lock().counts.get(name).copied().unwrap_or(0)
    }

    /// Waits until so many have come there; false: not within this time.
    pub fn wait(&self, name: &str, count: u64, within: Duration) -> bool {
        let few = |state: &mut State| state.counts.get(name).copied().unwrap_or(0) < count;
        let waited = self.shared.news.wait_timeout_while(self.shared.lock(), within, few);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// The counts of all fates.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.shared.lock().counts.clone()
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        let open = {
            let mut state = self.shared.lock();
            state.over = true;
            std::mem::take(&mut state.open)
        };
        self.shared.news.notify_all();
        // Whoever reads or writes is woken by the end of his connection, the door by a caller.
        open.values().for_each(|stream| {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        });
        drop(open);
        drop(TcpStream::connect(self.address));
        self.door.take().into_iter().for_each(|door| drop(door.join()));
        let threads = std::mem::take(&mut self.shared.lock().threads);
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long (forever when absent), or until the server ends: then false.
    fn rest(&self, span: Option<Duration>) -> bool {
        let state = self.lock();
        let state = match span {
            Some(span) => {
                let waited = self.news.wait_timeout_while(state, span, |state| !state.over);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.news.wait_while(state, |state| !state.over);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        !state.over
    }
}

fn accept(listener: &TcpListener, fates: &[ConnectionFate], shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut state = shared.lock();
        if state.over {
            return;
        }
        // Out of descriptors: the caller waits, as at any such server.
        let Ok(stream) = stream else { continue };
        let number = state.accepted;
        state.accepted += 1;
        shared.news.notify_all();
        let Ok(copy) = stream.try_clone() else { continue };
        state.open.insert(number, copy);
        let fate = fates[number as usize % fates.len()].clone();
        let mine = shared.clone();
        let work = move || {
            wire::live((number, stream), &fate, &mine);
            mine.lock().open.remove(&number);
        };
        let thread = Builder::new().stack_size(STACK).spawn(work).expect("a thread");
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.push(thread);
    }
}

#[cfg(test)]
mod tests;
