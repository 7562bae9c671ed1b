//! The client: the machine of one device in a thread of its own, with connections, a clock and a
//! store. Each connection has a thread that reads.

use crate::clock::{Clock, RealClock};
use crate::machine::{Action, Credentials, Machine, Random, Settings, State};
use crate::reports::QueueFull;
use crate::state::Saved;
use crate::store::{MemoryStore, Store};
use crate::transport::{Connector, Failure, Link, TcpConnector};
use crate::wire::{opcode, Record};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A function that hears of events.
pub type Observer = Box<dyn FnMut(&Event) + Send>;

/// Options of a client: begin with [`Options::new`] and change the fields that you need.
pub struct Options {
    /// `host:port`; at least one.
    pub addresses: Vec<String>,
    /// The product's key.
    pub product: String,
    /// The device's id.
    pub device: String,
    /// The proof, asked before each connection.
    pub credentials: Box<dyn FnMut() -> Credentials + Send>,
    /// Where the state is kept.
    pub store: Box<dyn Store>,
    /// How servers are reached.
    pub connector: Arc<dyn Connector>,
    /// The device's tags; `None`: they stay as they are.
    pub tags: Option<Vec<String>>,
    /// Pushes that the server may send before it waits for an acknowledgement.
    pub max_inflight: Option<u16>,
    /// Stored pushes are sent after [`Client::pull`] alone.
    pub pulls: bool,
    /// Shortest, first and longest interval between PINGs, seconds.
    pub heartbeat: [u16; 3],
    /// The heartbeat that is asked for, seconds; 0: the product's default. The interval never
    /// exceeds what is agreed.
    pub heartbeat_wish: u16,
    /// The first and the longest span of the back-off, milliseconds.
    pub backoff_ms: [u64; 2],
    /// The largest frame that is read.
    pub frame_bytes_max: usize,
    /// Called with each event, in the client's thread, before it is handed out: for states and
    /// faults beside [`Client::next_push`], and for logs.
    pub on_event: Option<Observer>,
    /// Time; a test may set it.
    pub clock: Box<dyn Clock>,
    /// A number from 0 up to 1 for the back-off; `None`: the system's.
    pub random: Option<Box<dyn FnMut() -> f64 + Send>>,
}

impl Options {
    /// A device that proves nothing, at one address over TCP, which forgets its state.
    pub fn new(address: &str, product: &str, device: &str) -> Options {
        Options {
            addresses: vec![address.to_owned()],
            product: product.to_owned(),
            device: device.to_owned(),
            credentials: Box::new(Credentials::default),
            store: Box::new(MemoryStore::default()),
            connector: Arc::new(TcpConnector::default()),
            tags: None,
            max_inflight: None,
            pulls: false,
            heartbeat: [30, 120, 1_800],
            heartbeat_wish: 0,
            backoff_ms: [1_000, 60_000],
            frame_bytes_max: 1 << 20,
            on_event: None,
            clock: Box::new(RealClock::default()),
            random: None,
        }
    }

    fn check(&self) -> Result<(), String> {
        check_name("the product", &self.product, 32)?;
        check_name("the device", &self.device, 64)?;
        for tag in self.tags.iter().flatten() {
            check_name("a tag", tag, 64)?;
        }
        let [shortest, first, longest] = self.heartbeat;
        if self.addresses.is_empty() {
            Err("a client needs an address".into())
        } else if shortest < 1 || shortest > first || first > longest {
            Err(format!(
                "a heartbeat has 1 <= shortest <= first <= longest, not {:?}",
                self.heartbeat
            ))
        } else {
            Ok(())
        }
    }
}

fn check_name(what: &str, name: &str, bytes_max: usize) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+:/=".contains(&byte);
    if (1..=bytes_max).contains(&name.len()) && name.bytes().all(is_good) {
        return Ok(());
    }
    Err(format!("{what} is 1 to {bytes_max} letters, digits and . _ - + : / =, not {name:?}"))
}

/// The client will not come back by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// A word: `closed`, `auth_failed`, …
    pub why: String,
    /// The server's number (MIOP 9).
    pub result: Option<u8>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Ended {}

/// Why a Report was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportError {
    /// 256 Reports, or 1 MiB, wait already.
    QueueFull,
    /// The client's thread has ended.
    Stopped,
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReportError::QueueFull => "queue_full",
            ReportError::Stopped => "stopped",
        })
    }
}

impl std::error::Error for ReportError {}

/// An event for the machine.
#[derive(Debug)]
pub enum Event {
    /// A push.
    Push(Push),
    /// The client is in another state.
    State(State),
    /// The server has taken the Report with this client id.
    Stored(String),
    /// After [`Client::pull`]: so many stored pushes remain.
    Pulled(u32),
    /// A frame with this opcode was received and handled.
    Frame(u8),
    /// The state could not be stored.
    StoreFailed(io::Error),
}

/// A push. Acknowledge it when you have it; until then the server keeps it. One that is dropped
/// without that comes again.
pub struct Push {
    record: Record,
    inputs: Option<Sender<Input>>,
}

impl Push {
    /// You have it.
    pub fn acknowledge(mut self) {
        self.end(Input::Acknowledge);
    }

    /// The body as text.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.record.body)
    }

    fn end(&mut self, input: fn(u64) -> Input) {
        if let Some(inputs) = self.inputs.take() {
            let _ = inputs.send(input(self.record.id)); // one that has stopped needs it no more
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.end(Input::Reject);
    }
}

impl Deref for Push {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record.fmt(f)
    }
}

/// Message to the client's thread.
enum Input {
    Opened(u64, Link),
    Bytes(u64, Vec<u8>),
    Lost(u64, Failure),
    Acknowledge(u64),
    Reject(u64),
    Do(Box<dyn FnOnce(&mut Machine, u64) + Send>),
    Settle(Sender<Option<u64>>),
    Stop,
}

/// The state, for threads that wait for it.
#[derive(Clone)]
struct Shared(Arc<(Mutex<State>, Condvar)>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0 .0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.0 .1.notify_all();
    }

    fn wait(&self, is_over: impl Fn(&State) -> bool) -> State {
        let wait = self.0 .1.wait_while(self.lock(), |state| !is_over(state));
        wait.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A device. Dropping it is to [`Client::stop`] it, without waiting.
pub struct Client {
    inputs: Sender<Input>,
    state: Shared,
    pushes: Mutex<Receiver<Result<Push, Ended>>>,
}

impl Client {
    /// Starts a client; pushes are taken with [`Client::next_push`].
    pub fn start(options: Options) -> io::Result<Client> {
        let (sender, pushes) = mpsc::channel();
        let mut client = Client::start_with(options, move |event| {
            // A client that is dropped takes no pushes: they are dropped, too.
            let _ = match event {
                Event::Push(push) => sender.send(Ok(push)),
                Event::State(State::Ended { why, result }) => {
                    sender.send(Err(Ended { why, result }))
                }
                _ => Ok(()),
            };
        })?;
        client.pushes = Mutex::new(pushes);
        Ok(client)
    }

    /// Starts a client that calls `on_event` in its own thread. A push that it acknowledges before
    /// it returns shares a frame with others.
    pub fn start_with(
        mut options: Options,
        mut on_event: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<Client> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        options.check().map_err(invalid)?;
        let mut observer = options.on_event.take();
        let on_event = move |event| {
            if let Some(observe) = &mut observer {
                observe(&event);
            }
            on_event(event);
        };
        let saved = options.store.load()?.and_then(|text| Saved::from_text(&text));
        let (inputs, receiver) = mpsc::channel();
        let state = Shared(Arc::new((Mutex::new(State::Idle), Condvar::new())));
        let settings = Settings {
            addresses: options.addresses,
            product: options.product,
            device: options.device,
            credentials: options.credentials,
            random: Box::new(System(options.random)),
            tags: options.tags,
            max_inflight: options.max_inflight,
            pulls: options.pulls,
            heartbeat: options.heartbeat,
            heartbeat_wish: options.heartbeat_wish,
            backoff_first_ms: options.backoff_ms[0],
            backoff_longest_ms: options.backoff_ms[1],
            frame_bytes_max: options.frame_bytes_max,
        };
        let runner = Runner {
            machine: Machine::new(settings, saved),
            clock: options.clock,
            store: options.store,
            connector: options.connector,
            on_event: Box::new(on_event),
            inputs: inputs.clone(),
            receiver,
            state: state.clone(),
            attempt: 0,
            fault: String::new(),
            link: None,
            handled: Vec::new(),
            settles: Vec::new(),
            is_stopped: false,
            is_unsaved: false,
        };
        thread::Builder::new().name("holdline-miop".into()).spawn(move || runner.run())?;
        let client = Client { inputs, state, pushes: Mutex::new(mpsc::channel().1) };
        client.tell(Machine::start);
        Ok(client)
    }

    /// The next push; waits for it. `Ended` says why there are no more.
    pub fn next_push(&self) -> Result<Push, Ended> {
        let pushes = self.pushes.lock().unwrap_or_else(PoisonError::into_inner);
        let stopped = || Err(Ended { why: "stopped".to_owned(), result: None });
        pushes.recv().unwrap_or_else(|_| stopped())
    }

    /// The state it is in.
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// Waits for a session.
    pub fn bound(&self) -> Result<(), Ended> {
        let is_over = |state: &State| matches!(state, State::Bound { .. } | State::Ended { .. });
        match self.state.wait(is_over) {
            State::Ended { why, result } => Err(Ended { why, result }),
            _ => Ok(()),
        }
    }

    /// Begins to say goodbye; the state `Ended` follows. The session, the pushes that the server
    /// holds and the Reports stay for the next start.
    pub fn goodbye(&self) {
        self.tell(Machine::close);
    }

    /// Says goodbye to the server and waits for its answer, five seconds at most.
    pub fn close(self) {
        self.goodbye();
        self.state.wait(|state| matches!(state, State::Ended { .. }));
    }

    /// Ends the client's thread and its connection without a word, as the end of the process does.
    pub fn stop(&self) {
        let _ = self.inputs.send(Input::Stop);
        self.settle();
    }

    /// Connects again after the server has ended the client.
    pub fn restart(&self) {
        self.tell(Machine::start);
    }

    /// Call it when the network changed or the machine woke up: the client finds out at once
    /// whether it is connected, or connects without waiting.
    pub fn nudge(&self) {
        self.tell(Machine::nudge);
    }

    /// The device is in this network now, say `wifi:home`: its heartbeat is remembered by it.
    pub fn network(&self, name: &str) {
        let name = name.to_owned();
        self.tell(move |machine, now| machine.network(now, &name));
    }

    /// With `pulls`: asks for stored pushes. Does nothing without a session.
    pub fn pull(&self, count: u16) {
        self.tell(move |machine, now| {
            machine.pull(now, count);
        });
    }

    /// Queues a Report and returns its client id; [`Event::Stored`] says when the server has taken
    /// it. Connections and restarts do not matter, if the store outlives them; a client id that is
    /// still queued is not queued twice.
    pub fn report(&self, payload: &[u8], client_id: Option<&str>) -> Result<String, ReportError> {
        let (payload, client_id) = (payload.to_vec(), client_id.map(str::to_owned));
        let (sender, answer) = mpsc::channel();
        self.tell(move |machine, now| {
            let _ = sender.send(machine.report(now, &payload, client_id));
        });
        match answer.recv() {
            Ok(Ok(client_id)) => Ok(client_id),
            Ok(Err(QueueFull)) => Err(ReportError::QueueFull),
            Err(_) => Err(ReportError::Stopped),
        }
    }

    /// Reports that the user opened a push: a Report with a client id of its own, so that it is
    /// queued once.
    pub fn opened(&self, id: u64) -> Result<String, ReportError> {
        self.report_push(1, "opened", id)
    }

    /// Reports that the user dismissed a push, likewise.
    pub fn dismissed(&self, id: u64) -> Result<String, ReportError> {
        self.report_push(2, "dismissed", id)
    }

    /// The form of MIOP 5.10.
    fn report_push(&self, what: u8, word: &str, id: u64) -> Result<String, ReportError> {
        let body = [&b"\0miop\0"[..], &[what], &id.to_be_bytes()].concat();
        self.report(&body, Some(&format!("{word}-{id}")))
    }

    /// For tests: waits until all that was asked is done, and says when the next timer is due.
    pub fn settle(&self) -> Option<u64> {
        let (sender, answer) = mpsc::channel();
        let _ = self.inputs.send(Input::Settle(sender));
        answer.recv().ok().flatten()
    }

    fn tell(&self, what: impl FnOnce(&mut Machine, u64) + Send + 'static) {
        let _ = self.inputs.send(Input::Do(Box::new(what)));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.inputs.send(Input::Stop);
    }
}

/// The system's randomness, as the standard library's hash tables get it. A nonce must be new, not
/// secret.
struct System(Option<Box<dyn FnMut() -> f64 + Send>>);

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Random for System {
    fn unit(&mut self) -> f64 {
        self.0.as_mut().map_or_else(|| (random() >> 11) as f64 / (1u64 << 53) as f64, |it| it())
    }

    fn bytes(&mut self) -> [u8; 16] {
        ((u128::from(random()) << 64) | u128::from(random())).to_be_bytes()
    }
}

/// The client's thread.
struct Runner {
    machine: Machine,
    clock: Box<dyn Clock>,
    store: Box<dyn Store>,
    connector: Arc<dyn Connector>,
    on_event: Box<dyn FnMut(Event) + Send>,
    inputs: Sender<Input>,
    receiver: Receiver<Input>,
    state: Shared,
    /// The number of the connection that counts.
    attempt: u64,
    /// Of the last connection.
    fault: String,
    link: Option<(Box<dyn Write + Send>, Box<dyn Fn() + Send>)>,
    handled: Vec<u8>,
    settles: Vec<Sender<Option<u64>>>,
    is_stopped: bool,
    is_unsaved: bool,
}

impl Runner {
    fn run(mut self) {
        while !self.is_stopped {
            let wait = self.machine.due().and_then(|due| self.clock.wait(due));
            let input = match wait {
                Some(wait) => self.receiver.recv_timeout(wait),
                None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match input {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.work();
        }
        self.disconnect();
    }

    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        // The machine may have left a connection in this turn, before that was acted on.
        let current = if self.machine.has_left() { None } else { Some(self.attempt) };
        match input {
            Input::Opened(attempt, link) if Some(attempt) == current => {
                self.link = Some((link.writer, link.end));
                self.machine.connected(now, self.clock.wall(), link.is_safe);
            }
            Input::Opened(_, link) => (link.end)(),
            Input::Bytes(attempt, bytes) if Some(attempt) == current => {
                self.machine.received(now, &bytes);
            }
            Input::Lost(attempt, why) if Some(attempt) == current => {
                self.disconnect();
                self.fault = why.detail;
                self.machine.lost(now, why.why);
            }
            Input::Bytes(..) | Input::Lost(..) => {}
            Input::Acknowledge(id) => self.machine.acknowledge(id),
            Input::Reject(id) => self.machine.reject(id),
            Input::Do(what) => what(&mut self.machine, now),
            Input::Settle(sender) => self.settles.push(sender),
            Input::Stop => self.is_stopped = true,
        }
    }

    /// Does what the machine says, until it says nothing more.
    fn work(&mut self) {
        while !self.is_stopped {
            // What handlers said, and what has come meanwhile, belongs to this turn.
            while let Ok(input) = self.receiver.try_recv() {
                self.take(input);
            }
            let now = self.clock.now();
            let actions = self.machine.take(now);
            if actions.is_empty() {
                match self.machine.due() {
                    Some(due) if due <= now => self.machine.tick(now),
                    _ => break,
                }
            }
            for action in actions {
                self.act(action);
            }
        }
        if self.is_unsaved {
            self.machine.not_saved();
        }
        for opcode in std::mem::take(&mut self.handled) {
            (self.on_event)(Event::Frame(opcode));
        }
        let due = self.machine.due();
        for settle in self.settles.drain(..) {
            let _ = settle.send(due);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send(bytes) => {
                // An acknowledgement says that the id was stored.
                if self.is_unsaved && bytes.get(3) == Some(&opcode::MSG_ACK) {
                    return;
                }
                // A connection that cannot be written is read to its end.
                if let Some((writer, end)) = &mut self.link {
                    if writer.write_all(&bytes).is_err() {
                        end();
                    }
                }
            }
            Action::Save(text) => {
                let saved = self.store.save(&text);
                self.is_unsaved = saved.is_err();
                if let Err(error) = saved {
                    (self.on_event)(Event::StoreFailed(error));
                }
            }
            Action::Push(record) => {
                let inputs = Some(self.inputs.clone());
                (self.on_event)(Event::Push(Push { record, inputs }));
            }
            Action::Connect(address) => self.connect(address),
            Action::Disconnect => self.disconnect(),
            Action::State(mut state) => {
                if let State::Waiting { detail, .. } = &mut state {
                    *detail = std::mem::take(&mut self.fault);
                }
                self.state.set(state.clone());
                (self.on_event)(Event::State(state));
            }
            Action::Stored(client_id) => (self.on_event)(Event::Stored(client_id)),
            Action::Pulled(remaining) => (self.on_event)(Event::Pulled(remaining)),
            Action::Handled(opcode) => self.handled.push(opcode),
        }
    }

    fn connect(&mut self, address: String) {
        self.disconnect();
        let (attempt, inputs) = (self.attempt, self.inputs.clone());
        let connector = self.connector.clone();
        let read = move || read(&*connector, &address, attempt, &inputs);
        if thread::Builder::new().name("holdline-miop-read".into()).spawn(read).is_err() {
            let _ =
                self.inputs.send(Input::Lost(attempt, Failure::new("connect_failed", "no thread")));
        }
    }

    /// Ends the connection, and what it may still say does not count.
    fn disconnect(&mut self) {
        self.attempt += 1;
        if let Some((_, end)) = self.link.take() {
            end();
        }
    }
}

/// Opens a connection and reads it to its end.
fn read(connector: &dyn Connector, address: &str, attempt: u64, inputs: &Sender<Input>) {
    let mut link = match connector.connect(address) {
        Ok(link) => link,
        Err(why) => return drop(inputs.send(Input::Lost(attempt, why))),
    };
    let mut reader = std::mem::replace(&mut link.reader, Box::new(io::empty()));
    if let Err(mpsc::SendError(Input::Opened(_, link))) = inputs.send(Input::Opened(attempt, link))
    {
        return (link.end)();
    }
    let mut bytes = vec![0; 16_384];
    loop {
        match reader.read(&mut bytes) {
            Ok(count) if count > 0 => {
                if inputs.send(Input::Bytes(attempt, bytes[..count].to_vec())).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return drop(inputs.send(Input::Lost(attempt, Failure::new("lost", "")))),
        }
    }
}
