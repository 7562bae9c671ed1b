//! The door to NATS: streams, a table, and messages between nodes.
//!
//! A [`Nats`] has a thread with a runtime of its own and two connections: one for streams and the
//! table, one for messages between nodes, so that a long copy holds up no acknowledgement. Its
//! owner calls from threads that are no runtime's. Questions with a [`Tag`] return at once, and are
//! answered by [`NatsEvent`]s; the others wait, each within a time limit. It speaks JetStream's API
//! of JSON itself, over the library's core protocol: a late answer, a lost one, and a consumer that
//! begins elsewhere must be told apart. It does not know what a message or a value means.
//!
//! Invariant: a question is answered at most once; [`NatsEvent::Published`] with `Ok` is a PubAck
//! of the stream's leader.

mod api;
mod bus;
mod connect;
mod consumer;
mod error;
mod facts;
mod reader;
mod settings;
mod stream;
mod table;

pub use error::NatsError;
pub use facts::{NatsFacts, NatsSync};
pub use reader::{StreamRead, StreamSlice};
pub use settings::{NatsLogin, NatsSettings, NatsTls};
pub use stream::{StreamReplica, StreamSpec, StreamState};
pub use table::TableValue;

use async_nats::Client;
use reader::Kept;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use stream::{Outgoing, Publisher};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle as Task;

/// The name of a question.
pub type Tag = [u64; 4];

/// The receiver of events.
pub type Events = Arc<dyn Fn(NatsEvent) + Send + Sync>;

/// Event from NATS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NatsEvent {
    /// The connection for streams is there, or is lost.
    Connected(bool),
    /// Complaint of a server or the library.
    Said(String),
    /// The answer to [`Nats::publish`]: the sequence.
    Published {
        /// The question.
        tag: Tag,
        /// The sequence of the message.
        result: Result<u64, NatsError>,
    },
    /// The answer to [`Nats::read`].
    Read {
        /// The question.
        tag: Tag,
        /// A page.
        result: Result<StreamSlice, NatsError>,
    },
    /// The answer to [`Nats::create_later`].
    Created {
        /// The question.
        tag: Tag,
        /// Whether it is there.
        result: Result<(), NatsError>,
    },
    /// The answer to [`Nats::set_later`]: the new revision, or none if the value has another one.
    Set {
        /// The question.
        tag: Tag,
        /// The new revision.
        result: Result<Option<u64>, NatsError>,
    },
    /// The answer to [`Nats::state_later`].
    State {
        /// The question.
        tag: Tag,
        /// How the stream stands.
        result: Result<StreamState, NatsError>,
    },
    /// A value of the table that is watched, as it is or as it becomes.
    Table(TableValue),
    /// Every value of the table has been reported.
    TableWhole,
    /// The table does not exist.
    TableGone,
    /// A message between nodes.
    Heard {
        /// Its subject.
        subject: String,
        /// Where an answer is wanted.
        reply: Option<String>,
        /// Its text.
        payload: Vec<u8>,
    },
}

/// A connection to NATS. Dropping it ends everything.
pub struct Nats {
    handle: Handle,
    streams: Client,
    bus: Client,
    events: Events,
    publisher: Publisher,
    readers: Mutex<HashMap<u64, Reader>>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Reader of one stream.
#[derive(Default)]
struct Reader {
    kept: Arc<Mutex<Option<Kept>>>,
    task: Option<Task<()>>,
}

impl Nats {
    /// Connects under a name. `is_patient`: where no server answers it goes on trying, and
    /// [`NatsEvent::Connected`] tells; else that is an error.
    pub fn connect(
        settings: &NatsSettings,
        name: &str,
        is_patient: bool,
        events: Events,
    ) -> Result<Nats, NatsError> {
        let failed = |error: std::io::Error| NatsError::Other(error.to_string());
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let life = move || {
            runtime.block_on(async { drop(ended.await) });
            runtime.shutdown_background();
        };
        let thread = Builder::new().name("holdline-nats".into()).spawn(life).map_err(failed)?;
        let begun: Result<_, NatsError> = handle.block_on(async {
            let told = Some(Arc::clone(&events));
            let streams = connect::connect(settings, name, is_patient, told).await?;
            let bus = connect::connect(settings, name, is_patient, None).await?;
            let publisher = Publisher::begin(streams.clone(), Arc::clone(&events)).await?;
            Ok((streams, bus, publisher))
        });
        let (end, thread) = (Some(end), Some(thread));
        match begun {
            Ok((streams, bus, publisher)) => {
                let readers = Mutex::default();
                Ok(Nats { handle, streams, bus, events, publisher, readers, end, thread })
            }
            Err(error) => {
                drop(end);
                Err(error)
            }
        }
    }

    /// Publishes under an expected last sequence. Messages leave in the order of these calls.
    pub fn publish(&self, tag: Tag, subject: String, expected: u64, message: Vec<u8>) {
        if !self.publisher.publish(Outgoing { tag, subject, expected, message }) {
            (self.events)(NatsEvent::Published { tag, result: Err(NatsError::Silent) });
        }
    }

    /// Reads a page. An earlier unanswered question of the same reader is given up.
    pub fn read(&self, reader: u64, tag: Tag, read: StreamRead) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = readers.entry(reader).or_default();
        if let Some(task) = reader.task.take() {
            task.abort();
        }
        let (client, events) = (self.streams.clone(), Arc::clone(&self.events));
        let place = Arc::clone(&reader.kept);
        reader.task = Some(self.handle.spawn(async move {
            let take = || place.lock().unwrap_or_else(PoisonError::into_inner).take();
            let kept = take(); // a task that is given up leaves none
            let (result, kept) = reader::page(&client, &read, kept).await;
            *place.lock().unwrap_or_else(PoisonError::into_inner) = kept;
            events(NatsEvent::Read { tag, result });
        }));
    }

    /// Makes a stream, if it is not there.
    pub fn create_later(&self, tag: Tag, spec: StreamSpec) {
        let (client, events) = (self.streams.clone(), Arc::clone(&self.events));
        self.handle.spawn(async move {
            let result = stream::create(&client, &spec).await;
            events(NatsEvent::Created { tag, result });
        });
    }

    /// How a stream stands.
    pub fn state_later(&self, tag: Tag, name: String) {
        let (client, events) = (self.streams.clone(), Arc::clone(&self.events));
        self.handle.spawn(async move {
            let result = stream::state(&client, &name).await;
            events(NatsEvent::State { tag, result });
        });
    }

    /// Removes a stream, without an answer.
    pub fn delete_later(&self, name: String) {
        let client = self.streams.clone();
        self.handle.spawn(async move { drop(stream::delete(&client, &name).await) });
    }

    /// Purges a stream before a sequence, without an answer.
    pub fn purge_later(&self, name: String, below: u64) {
        let client = self.streams.clone();
        self.handle.spawn(async move { drop(stream::purge(&client, &name, below).await) });
    }

    /// Changes a value of a table that has this revision, or removes it.
    pub fn set_later(&self, tag: Tag, bucket: String, change: TableValue) {
        let (client, events) = (self.streams.clone(), Arc::clone(&self.events));
        self.handle.spawn(async move {
            let result = table::set(&client, &bucket, &change).await;
            events(NatsEvent::Set { tag, result });
        });
    }

    /// Watches a table for good.
    pub fn watch(&self, bucket: String) {
        let (client, events) = (self.streams.clone(), Arc::clone(&self.events));
        self.handle.spawn(table::watch(client, bucket, events));
    }

    /// Tells of what other nodes say to a subject, which may have wildcards.
    pub fn listen(&self, subject: String) -> Result<(), NatsError> {
        self.handle.block_on(bus::listen(&self.bus, subject, Arc::clone(&self.events)))
    }

    /// Publishes a message to other nodes, to be answered at `reply` if that is given.
    pub fn say(&self, subject: String, reply: Option<String>, payload: Vec<u8>) {
        self.handle.spawn(bus::say(self.bus.clone(), subject, reply, payload));
    }

    /// Publishes a message, and waits until it has left: before the connection ends.
    pub fn say_now(&self, subject: String, payload: Vec<u8>) {
        let said = async {
            bus::say(self.bus.clone(), subject, None, payload).await;
            // Whoever is not heard is missed in time.
            let _ = tokio::time::timeout(api::ANSWER, self.bus.flush()).await;
        };
        self.handle.block_on(said);
    }

    /// Asks another node, and waits for its answer.
    pub fn ask(
        &self,
        subject: String,
        payload: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, NatsError> {
        let asked = api::request(&self.bus, subject, payload, within);
        self.handle.block_on(asked).map(|message| message.payload.to_vec())
    }

    /// A subject at which nobody else listens.
    pub fn inbox(&self) -> String {
        self.bus.new_inbox()
    }

    /// Makes a stream, if it is not there.
    pub fn create(&self, spec: &StreamSpec) -> Result<(), NatsError> {
        self.handle.block_on(stream::create(&self.streams, spec))
    }

    /// Removes a stream.
    pub fn delete(&self, name: &str) -> Result<(), NatsError> {
        self.handle.block_on(stream::delete(&self.streams, name))
    }

    /// How a stream stands.
    pub fn state(&self, name: &str) -> Result<StreamState, NatsError> {
        self.handle.block_on(stream::state(&self.streams, name))
    }

    /// The names of the streams that have a subject like this.
    pub fn stream_names(&self, subject: &str) -> Result<Vec<String>, NatsError> {
        self.handle.block_on(stream::names(&self.streams, subject))
    }

    /// Makes a table, if it is not there.
    pub fn create_table(&self, bucket: &str, replicas: u16) -> Result<(), NatsError> {
        self.handle.block_on(table::create(&self.streams, bucket, replicas))
    }

    /// Removes a table.
    pub fn delete_table(&self, bucket: &str) -> Result<(), NatsError> {
        self.delete(&format!("KV_{bucket}"))
    }

    /// A value of a table.
    pub fn get(&self, bucket: &str, key: &str) -> Result<TableValue, NatsError> {
        self.handle.block_on(table::get(&self.streams, bucket, key))
    }

    /// Changes a value of a table that has this revision, or removes it. Its new revision; none if
    /// it has another.
    pub fn set(&self, bucket: &str, change: &TableValue) -> Result<Option<u64>, NatsError> {
        self.handle.block_on(table::set(&self.streams, bucket, change))
    }

    /// All values of a table.
    pub fn all(&self, bucket: &str) -> Result<Vec<TableValue>, NatsError> {
        self.handle.block_on(table::all(&self.streams, bucket))
    }

    /// Facts about NATS and these streams.
    pub fn facts(&self, streams: &[String]) -> Result<NatsFacts, NatsError> {
        self.handle.block_on(facts::facts(&self.streams, streams))
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
