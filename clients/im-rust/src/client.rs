//! The client: the machine of one device in a thread of its own, with connections, a clock and a
//! store. Each connection has a thread that reads.

use crate::clock::{Clock, RealClock};
use crate::machine::{Action, Credentials, Failed, Machine, Sent, Settings, State};
use crate::pb::client_frame::Request;
use crate::pb::server_frame::Answer;
use crate::pb::{self, ChatMessage, Content, InboxEvent};
use crate::state::{hex, unhex, Saved};
use crate::store::{MemoryStore, Store};
use crate::transport::{Connector, Failure, Link, TcpConnector};
use crate::words::Error;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Bytes of a server that are read at once; more are read when these were handled.
const READ_BYTES: usize = 16_384;
/// The longest name of an account or a device.
const NAME_BYTES_MAX: usize = 320;
const DEVICE_BYTES_MAX: usize = 64;

/// A function that hears of events.
pub type Observer = Box<dyn FnMut(&Event) + Send>;

/// Options of a client: begin with [`Options::new`] and change the fields that you need.
pub struct Options {
    /// `host:port`; at least one.
    pub addresses: Vec<String>,
    /// The account, `name` or `name@domain`.
    pub account: String,
    /// The device's own name, the same each time.
    pub device: String,
    /// The proof of the account.
    pub credentials: Credentials,
    /// Asked before each connection instead, in a thread of its own, for tokens that expire. `None`
    /// of it: the client waits, and asks again.
    pub renew: Option<Arc<dyn Fn() -> Option<Credentials> + Send + Sync>>,
    /// Where the state is kept.
    pub store: Box<dyn Store>,
    /// How servers are reached.
    pub connector: Arc<dyn Connector>,
    /// The longest silence of the client that it asks for, seconds; 0: the server's.
    pub silence_s: u32,
    /// Shortest, first and longest interval between signs of life, seconds.
    pub heartbeat: [u32; 3],
    /// Called with each event, in the client's thread, before it is handed out: for states and
    /// faults beside [`Client::next_message`], and for logs.
    pub on_event: Option<Observer>,
    /// Time; a test may set it.
    pub clock: Box<dyn Clock>,
    /// A number from 0 up to 1 for the back-off; `None`: the system's.
    pub random: Option<Box<dyn FnMut() -> f64 + Send>>,
}

impl Options {
    /// A device that proves nothing, at one address over TCP, which forgets its state.
    pub fn new(address: &str, account: &str, device: &str) -> Options {
        Options {
            addresses: vec![address.to_owned()],
            account: account.to_owned(),
            device: device.to_owned(),
            credentials: Credentials::None,
            renew: None,
            store: Box::new(MemoryStore::default()),
            connector: Arc::new(TcpConnector::default()),
            silence_s: 0,
            heartbeat: [30, 120, 1_800],
            on_event: None,
            clock: Box::new(RealClock::default()),
            random: None,
        }
    }

    fn check(&self) -> Result<(), String> {
        check_name("the account", &self.account, NAME_BYTES_MAX)?;
        check_name("the device", &self.device, DEVICE_BYTES_MAX)?;
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
    if (1..=bytes_max).contains(&name.len()) {
        return Ok(());
    }
    Err(format!("{what} has 1 to {bytes_max} bytes, not {name:?}"))
}

/// The client will not come back by itself: a word of IM 8.1, or `closed`, `server_not_proved`,
/// `stopped`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The word.
    pub why: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Ended {}

/// Events for the application.
#[derive(Debug)]
pub enum Event {
    /// A message of the inbox.
    Message(Message),
    /// Something else at a place of the inbox: a read cursor, a setting (IM 11.1).
    Change(Change),
    /// A message is stored.
    Sent(Sent),
    /// The server refused a message, and it is given up.
    Failed(Failed),
    /// Something without a place in the inbox: presence, typing, receipts, chatrooms.
    Told(Answer),
    /// The client does something else now.
    State(State),
    /// A frame was handled; the name of its answer.
    Frame(&'static str),
    /// The state could not be stored: the client goes on, and stores it with the next change. Or
    /// what was stored cannot be read: it begins anew.
    StoreFailed(io::Error),
}

/// The acknowledgement of a place in the inbox.
#[derive(Clone)]
struct Receipt {
    place: u64,
    inputs: Sender<Input>,
}

impl Receipt {
    fn give(&self) {
        let _ = self.inputs.send(Input::Acknowledge(self.place)); // one that has stopped needs none
    }
}

/// A message. Acknowledge it when you have it: one that is dropped without that, and all after it,
/// come again in a new process.
pub struct Message {
    /// The protocol's own message.
    pub raw: ChatMessage,
    receipt: Receipt,
}

impl Message {
    /// Its place in the inbox.
    pub fn place(&self) -> u64 {
        self.receipt.place
    }

    /// Its text; of one without content, none.
    pub fn text(&self) -> &str {
        self.raw.content.as_ref().map_or("", |content| &content.text)
    }

    /// You have it.
    pub fn acknowledge(&self) {
        self.receipt.give();
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("place", &self.place()).finish_non_exhaustive()
    }
}

/// Something else in the inbox. It is acknowledged as a [`Message`] is.
pub struct Change {
    /// The protocol's own event.
    pub raw: InboxEvent,
    receipt: Receipt,
}

impl Change {
    /// You have it.
    pub fn acknowledge(&self) {
        self.receipt.give();
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("place", &self.receipt.place).finish_non_exhaustive()
    }
}

type OnAnswer = Box<dyn FnOnce(Result<Answer, Error>) + Send>;
type Order = Box<dyn FnOnce(&mut Machine, u64) + Send>;
type Renew = Arc<dyn Fn() -> Option<Credentials> + Send + Sync>;
/// The side of a connection that is written, and its end.
type Writing = (Box<dyn Write + Send>, Box<dyn Fn() + Send>);

/// Message to the client's thread; a number is that of a connection.
enum Input {
    Opened(u64, Link, Credentials),
    /// The sender tells the reader to go on.
    Bytes(u64, Vec<u8>, Sender<()>),
    Lost(u64, Failure),
    Acknowledge(u64),
    Ask(Request, OnAnswer),
    Do(Order),
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

/// One device of an account. Dropping it is to [`Client::stop`] it, without waiting.
pub struct Client {
    inputs: Sender<Input>,
    state: Shared,
    messages: Mutex<Receiver<Result<Message, Ended>>>,
}

impl Client {
    /// Starts a client; messages are taken with [`Client::next_message`]. Everything else in the
    /// inbox is acknowledged unseen.
    pub fn start(options: Options) -> io::Result<Client> {
        let (sender, messages) = mpsc::channel();
        let mut client = Client::start_with(options, move |event| {
            // A client that is dropped takes no messages.
            let _ = match event {
                Event::Message(message) => sender.send(Ok(message)),
                Event::State(State::Ended(why)) => sender.send(Err(Ended { why })),
                Event::Change(change) => {
                    change.acknowledge();
                    Ok(())
                }
                _ => Ok(()),
            };
        })?;
        client.messages = Mutex::new(messages);
        Ok(client)
    }

    /// Starts a client that calls `on_event` in its own thread. Return soon, and do not wait there
    /// for an answer of this client: use [`Client::ask`].
    pub fn start_with(
        mut options: Options,
        mut on_event: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<Client> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        options.check().map_err(invalid)?;
        let mut observer = options.on_event.take();
        let mut on_event = move |event| {
            if let Some(observe) = &mut observer {
                observe(&event);
            }
            on_event(event);
        };
        let text = options.store.load()?;
        let saved = text.as_deref().and_then(Saved::from_text);
        if text.is_some() && saved.is_none() {
            let why = "the stored state cannot be read: the client begins anew";
            on_event(Event::StoreFailed(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let (inputs, receiver) = mpsc::channel();
        let state = Shared(Arc::new((Mutex::new(State::Idle), Condvar::new())));
        let settings = Settings {
            addresses: options.addresses,
            account: options.account,
            device: options.device,
            silence_s: options.silence_s,
            renews: options.renew.is_some(),
            heartbeat: options.heartbeat,
            random: options.random.unwrap_or_else(|| Box::new(unit)),
            nonce: Box::new(|| hex(&[bytes(), bytes()].concat())),
        };
        let fixed = options.credentials;
        let runner = Runner {
            machine: Machine::new(settings, saved),
            clock: options.clock,
            store: options.store,
            connector: options.connector,
            credentials: options.renew.unwrap_or_else(|| Arc::new(move || Some(fixed.clone()))),
            on_event: Box::new(on_event),
            inputs: inputs.clone(),
            receiver,
            state: state.clone(),
            fault: String::new(),
            link: None,
            asked: HashMap::new(),
            handled: Vec::new(),
            settles: Vec::new(),
            is_stopped: false,
        };
        thread::Builder::new().name("holdline-im".into()).spawn(move || runner.run())?;
        let client = Client { inputs, state, messages: Mutex::new(mpsc::channel().1) };
        client.tell_machine(Machine::start);
        Ok(client)
    }

    /// The next message; waits for it. `Ended` says why there are no more.
    pub fn next_message(&self) -> Result<Message, Ended> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.recv().unwrap_or_else(|_| Err(Ended { why: "stopped".to_owned() }))
    }

    /// Its present state.
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// Waits for a session; the account, `name@domain`.
    pub fn online(&self) -> Result<String, Ended> {
        match self.state.wait(|state| matches!(state, State::Online(_) | State::Ended(_))) {
            State::Online(account) => Ok(account),
            State::Ended(why) => Err(Ended { why }),
            _ => Err(Ended { why: "stopped".to_owned() }),
        }
    }

    // ---- messages

    /// Queues a text to an account or a group and returns its client id, which comes back in
    /// [`Event::Sent`] or [`Event::Failed`]. Connections and restarts do not matter, if the store
    /// outlives them. The error is `queue_full`: 256 messages, or 1 MiB, wait already.
    pub fn send(&self, to: &str, text: &str) -> Result<String, Error> {
        let content = Content { kind: 1, text: text.to_owned(), ..Content::default() };
        let client_id = hex(&bytes());
        self.send_as(&client_id, to, content)?;
        Ok(client_id)
    }

    /// The same with a client id of yours, 32 hexadecimal digits, and any content. One that waits
    /// already is not queued again.
    pub fn send_as(&self, client_id: &str, to: &str, content: Content) -> Result<(), Error> {
        let id = unhex(client_id).and_then(|id| <[u8; 16]>::try_from(id).ok());
        let id = id.ok_or_else(|| Error::new("invalid"))?;
        let to = to.to_owned();
        let (sender, answer) = mpsc::channel();
        self.tell_machine(move |machine, _| {
            let _ = sender.send(machine.send(id, &to, content));
        });
        answer.recv().unwrap_or_else(|_| Err(Error::new("stopped")))
    }

    // ---- requests

    /// Asks the server something, and waits for the answer. Requests are not queued: without a
    /// connection the error is `disconnected`. Not to be called from `on_event`.
    pub fn request(&self, request: Request) -> Result<Answer, Error> {
        let (sender, answer) = mpsc::channel();
        self.ask(request, move |result| drop(sender.send(result)));
        answer.recv().unwrap_or_else(|_| Err(Error::new("stopped")))
    }

    /// The same; `on_answer` is called in the client's thread.
    pub fn ask(
        &self,
        request: Request,
        on_answer: impl FnOnce(Result<Answer, Error>) + Send + 'static,
    ) {
        let _ = self.inputs.send(Input::Ask(request, Box::new(on_answer)));
    }

    /// Says something that has no answer, such as a Transient; nothing without a connection.
    pub fn tell(&self, request: Request) {
        self.tell_machine(move |machine, now| machine.tell(now, request));
    }

    /// At most `count` messages of a conversation before this place (0: the end), oldest first, and
    /// whether there are more.
    pub fn history(
        &self,
        peer: &str,
        count: u32,
        before: u64,
    ) -> Result<(Vec<ChatMessage>, bool), Error> {
        let (with, from) = (peer.to_owned(), before);
        let ask = pb::History { number: 0, with, from, backwards: true, count };
        match self.request(Request::History(ask))? {
            Answer::History(mut page) => {
                page.messages.reverse();
                Ok((page.messages, page.more))
            }
            _ => Err(Error::new("invalid")),
        }
    }

    /// The account has read this conversation up to this place.
    pub fn mark_read(&self, peer: &str, upto: u64) -> Result<(), Error> {
        let ask = pb::MarkRead { with: peer.to_owned(), upto, ..Default::default() };
        self.request(Request::MarkRead(ask)).map(drop)
    }

    /// A token with which this device logs in without the password
    /// ([`Credentials::LoginToken`]).
    pub fn request_token(&self) -> Result<pb::LoginToken, Error> {
        match self.request(Request::Token(pb::TokenRequest::default()))? {
            Answer::Token(token) => Ok(token),
            _ => Err(Error::new("invalid")),
        }
    }

    // ---- life

    /// Begins to say goodbye; the state `Ended` follows. Messages that are not sent yet stay for
    /// the next start.
    pub fn goodbye(&self) {
        self.tell_machine(Machine::close);
    }

    /// Says goodbye, and waits until that is done.
    pub fn close(self) {
        self.goodbye();
        self.state.wait(|state| matches!(state, State::Ended(_)));
    }

    /// Ends the client's thread and its connection without a word, as the end of the process does.
    pub fn stop(&self) {
        let _ = self.inputs.send(Input::Stop);
        self.settle();
    }

    /// Connects again after the server has ended the client.
    pub fn restart(&self) {
        self.tell_machine(Machine::start);
    }

    /// Call it when the network changed or the machine woke up: the client finds out at once
    /// whether it is connected, or connects without waiting.
    pub fn nudge(&self) {
        self.tell_machine(Machine::nudge);
    }

    /// The device is in this network now, say `wifi:home`: its heartbeat is remembered by it.
    pub fn network(&self, name: &str) {
        let name = name.to_owned();
        self.tell_machine(move |machine, now| machine.network(now, &name));
    }

    /// For tests: waits until all that was asked is done, and says when the next timer is due.
    pub fn settle(&self) -> Option<u64> {
        let (sender, answer) = mpsc::channel();
        let _ = self.inputs.send(Input::Settle(sender));
        answer.recv().ok().flatten()
    }

    fn tell_machine(&self, what: impl FnOnce(&mut Machine, u64) + Send + 'static) {
        let _ = self.inputs.send(Input::Do(Box::new(what)));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.inputs.send(Input::Stop);
    }
}

/// The system's randomness, as the standard library's hash tables get it.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn unit() -> f64 {
    (random() >> 11) as f64 / (1u64 << 53) as f64
}

fn bytes() -> [u8; 16] {
    ((u128::from(random()) << 64) | u128::from(random())).to_be_bytes()
}

/// The client's thread.
struct Runner {
    machine: Machine,
    clock: Box<dyn Clock>,
    store: Box<dyn Store>,
    connector: Arc<dyn Connector>,
    credentials: Renew,
    on_event: Box<dyn FnMut(Event) + Send>,
    inputs: Sender<Input>,
    receiver: Receiver<Input>,
    state: Shared,
    /// Of the last connection.
    fault: String,
    link: Option<Writing>,
    asked: HashMap<u32, OnAnswer>,
    handled: Vec<&'static str>,
    settles: Vec<Sender<Option<u64>>>,
    is_stopped: bool,
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
        if !matches!(*self.state.lock(), State::Ended(_)) {
            self.state.set(State::Ended("stopped".to_owned()));
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        let current = self.machine.connection();
        match input {
            Input::Opened(connection, link, credentials) if connection == current => {
                self.link = Some((link.writer, link.end));
                self.machine.connected(now, &credentials, link.is_safe);
            }
            Input::Opened(_, link, _) => (link.end)(),
            Input::Bytes(connection, bytes, go_on) => {
                if connection == current {
                    self.machine.received(now, &bytes);
                }
                let _ = go_on.send(()); // a reader that has ended reads no more
            }
            Input::Lost(connection, why) if connection == current => {
                self.fault = why.detail;
                self.machine.lost(now, why.why);
            }
            Input::Lost(..) => {}
            Input::Acknowledge(place) => self.machine.acknowledge(now, place),
            Input::Ask(request, on_answer) => {
                let number = self.machine.request(now, request);
                self.asked.insert(number, on_answer);
            }
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
        for name in std::mem::take(&mut self.handled) {
            (self.on_event)(Event::Frame(name));
        }
        let due = self.machine.due();
        for settle in self.settles.drain(..) {
            let _ = settle.send(due);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send(bytes) => {
                // A connection that cannot be written is read to its end.
                if let Some((writer, end)) = &mut self.link {
                    if writer.write_all(&bytes).is_err() {
                        end();
                    }
                }
            }
            Action::Save(text) => {
                if let Err(error) = self.store.save(&text) {
                    (self.on_event)(Event::StoreFailed(error));
                }
            }
            Action::Message(place, raw) => {
                let receipt = Receipt { place, inputs: self.inputs.clone() };
                (self.on_event)(Event::Message(Message { raw, receipt }));
            }
            Action::Change(raw) => {
                let receipt = Receipt { place: raw.seq, inputs: self.inputs.clone() };
                (self.on_event)(Event::Change(Change { raw, receipt }));
            }
            Action::Answer(number, result) => {
                if let Some(on_answer) = self.asked.remove(&number) {
                    on_answer(result);
                }
            }
            Action::State(mut state) => {
                if let State::Waiting { detail, .. } = &mut state {
                    *detail = std::mem::take(&mut self.fault);
                }
                self.state.set(state.clone());
                (self.on_event)(Event::State(state));
            }
            Action::Connect(connection, address) => self.connect(connection, address),
            Action::Disconnect => self.disconnect(),
            Action::Sent(it) => (self.on_event)(Event::Sent(it)),
            Action::Failed(it) => (self.on_event)(Event::Failed(it)),
            Action::Told(it) => (self.on_event)(Event::Told(it)),
            Action::Handled(name) => self.handled.push(name),
        }
    }

    fn connect(&mut self, connection: u64, address: String) {
        let inputs = self.inputs.clone();
        let (connector, credentials) = (self.connector.clone(), self.credentials.clone());
        let read = move || {
            if let Err(why) = read(&*connector, &credentials, &address, connection, &inputs) {
                let _ = inputs.send(Input::Lost(connection, why));
            }
        };
        if thread::Builder::new().name("holdline-im-read".into()).spawn(read).is_err() {
            let _ =
                self.inputs.send(Input::Lost(connection, Failure::new("unreachable", "no thread")));
        }
    }

    fn disconnect(&mut self) {
        if let Some((_, end)) = self.link.take() {
            end();
        }
    }
}

/// Opens a connection and reads it to its end; `Ok` if the client has stopped.
fn read(
    connector: &dyn Connector,
    credentials: &Renew,
    address: &str,
    connection: u64,
    inputs: &Sender<Input>,
) -> Result<(), Failure> {
    let credentials = credentials().ok_or_else(|| Failure::new("credentials_failed", ""))?;
    let mut link = connector.connect(address)?;
    let mut reader = std::mem::replace(&mut link.reader, Box::new(io::empty()));
    let opened = Input::Opened(connection, link, credentials);
    if let Err(mpsc::SendError(Input::Opened(_, link, _))) = inputs.send(opened) {
        (link.end)();
        return Ok(());
    }
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match reader.read(&mut bytes) {
            Ok(count) if count > 0 => {
                let (go_on, handled) = mpsc::channel();
                let input = Input::Bytes(connection, bytes[..count].to_vec(), go_on);
                if inputs.send(input).is_err() || handled.recv().is_err() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(Failure::new("disconnected", "")),
        }
    }
}
