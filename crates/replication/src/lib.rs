//! A node of a cluster: its logs are published to NATS JetStream, or follow those of the node that
//! leads.
//!
//! ```text
//!            begin(settings, FollowingFolder)
//! following ───────────────────────────────► Turn::Lead(OpenFolder) ──► opened(&Logs) ─► leading
//!    ▲                                                                                     │
//!    └── Folder::open_to_follow, begin ◄── closed() ◄── the server closes ◄── Turn::Leave ◄┘
//! ```
//! One thread runs the machines of all logs (`cluster`), and carries out what they want by `nats`
//! and `store`. The node that leads log 0 leads all logs (`docs/adr/0081`).
//!
//! How the server uses it:
//! 1. `Folder::open_to_follow`, [`Replication::begin`]. It follows from then on.
//! 2. [`Replication::turn`] in a loop, on a thread of the server's own.
//! 3. On [`Turn::Lead`]: start as a lone server does, with that folder, but give the running logs
//!    to [`Replication::opened`] before the first client is served.
//! 4. On [`Turn::Leave`]: take nothing more, close the logs, call [`Replication::closed`], which
//!    ends it; then begin anew from 1 (or execute the process itself anew).
//!
//! Invariant: an answer to a write leaves `Logs` only after the stream has acknowledged it.

mod clock;
mod driver;
mod names;
mod one_node;
pub mod operations;
mod own;
mod settings;
mod shared;
mod status;
mod turn;
mod wire;

pub use cluster::wire::beat::{LOGS_MAX, LogRole};
pub use cluster::wire::table::ADDRESSES_MAX;
pub use settings::{BeginError, ClusterSettings};
pub use status::{ClusterStatus, LogStatus, NodeStatus};
pub use turn::{ClusterNotice, LeaderAddress, LeaveReason, Turn};

use cluster::batch::LogLeader;
use cluster::wire::table::TEXT_BYTES_MAX;
use driver::{Driver, Input};
use model::id::NodeId;
use model::ports::lead::LeadProof;
use names::Names;
use nats::{Nats, NatsError};
use shared::Shared;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use store::data::{FollowingFolder, Logs};

/// A node of a cluster, at work. Dropping it ends it at once, as a crash does.
pub struct Replication {
    shared: Arc<Shared>,
    inputs: Sender<Input>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Replication {
    /// Connects, and begins to follow. It fails only where nothing but another configuration helps;
    /// NATS that is away is waited for.
    pub fn begin(settings: ClusterSettings, folder: FollowingFolder) -> Result<Self, BeginError> {
        let names = Names::of(&settings.name).map_err(BeginError::Settings)?;
        check(&settings, folder.count())?;
        let (inputs, received) = channel();
        let to_thread = inputs.clone();
        let events =
            Arc::new(move |event: nats::NatsEvent| drop(to_thread.send(Input::Nats(event))));
        let refused = |error: NatsError| BeginError::Nats(error.to_string());
        let connected = format!("holdline-{}-{}", settings.name, settings.node.number());
        let nats = Nats::connect(&settings.nats, &connected, true, events).map_err(refused)?;
        let nats = Arc::new(nats);
        let inbox = nats.inbox();
        for subject in [names.beats(), names.ask(), names.copy(settings.node), format!("{inbox}.>")]
        {
            nats.listen(subject).map_err(refused)?;
        }
        nats.watch(names.bucket());
        let me = LogLeader { node: settings.node, boot: folder.boot() };
        let shared = Arc::new(Shared::new(ClusterStatus::at_first(&settings, me)));
        let mut handle = Replication {
            shared: Arc::clone(&shared),
            inputs: inputs.clone(),
            thread: Mutex::default(),
        };
        let driver = Driver::new((settings, names, me), (shared, nats, inbox), folder, inputs);
        let driver = move || driver.run(received);
        let thread = Builder::new().name("holdline-cluster".into()).spawn(driver);
        handle.thread = Mutex::new(Some(thread.map_err(BeginError::Thread)?));
        Ok(handle)
    }

    /// Next order for the server; none if none comes within the time.
    pub fn turn(&self, within: Duration) -> Option<Turn> {
        self.shared.next(within)
    }

    /// The logs of the folder of [`Turn::Lead`] run: acknowledgements go to them from now on.
    pub fn opened(&self, logs: Arc<Logs>) {
        self.tell(Input::Opened(logs));
    }

    /// Proof that this node leads, for answers without a write.
    pub fn lead_proof(&self) -> LeadProof {
        self.shared.lead_proof.clone()
    }

    /// The server turns: every shard did within the last second. While it leads and this is not
    /// said for 5 seconds, the node sends no beats, so that a node takes over from one that hangs.
    /// A server that never says it is believed.
    pub fn turned(&self) {
        self.shared.turned();
    }

    /// The logs are closed. Written and unacknowledged batches have two seconds; then the node has
    /// left, and the folder may be opened to follow.
    pub fn closed(&self) {
        self.tell(Input::Closed);
        self.join();
    }

    /// Leaves for the follower that is furthest, as soon as one is near: [`Turn::Leave`] comes.
    pub fn leave(&self) {
        self.tell(Input::Leave);
    }

    /// Status of the node, as of the last second.
    pub fn status(&self) -> ClusterStatus {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, input: Input) {
        // Its thread ends when it has left: then nothing is of interest to it.
        let _ = self.inputs.send(input);
    }

    fn join(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ = thread.join(); // its panic was told where it happened
        }
    }
}

impl Drop for Replication {
    fn drop(&mut self) {
        self.tell(Input::End);
        self.join();
    }
}

/// Each sender bounds what is in it: a log by its batches that are not acknowledged (2 MiB), NATS
/// by questions and pages, a copy by its step.
#[expect(clippy::disallowed_methods, reason = "bounded by its senders")]
fn channel() -> (Sender<Input>, std::sync::mpsc::Receiver<Input>) {
    std::sync::mpsc::channel()
}

fn check(settings: &ClusterSettings, logs: u16) -> Result<(), BeginError> {
    let wrong = |why: String| Err(BeginError::Settings(why));
    if settings.node == NodeId::ALONE {
        return wrong(
            "the folder has no node number: `holdline cluster create` or `join` first".into(),
        );
    }
    if usize::from(logs) > LOGS_MAX {
        return wrong(format!("a cluster has {LOGS_MAX} logs at most"));
    }
    let is_long = |text: &String| text.len() > TEXT_BYTES_MAX;
    if settings.advertise.len() > ADDRESSES_MAX || settings.advertise.iter().any(is_long) {
        return wrong(format!(
            "`advertise` has {ADDRESSES_MAX} addresses of {TEXT_BYTES_MAX} bytes at most"
        ));
    }
    if is_long(&settings.node_name) {
        return wrong(format!("the name of a node has {TEXT_BYTES_MAX} bytes at most"));
    }
    match settings.copies_min {
        1 | 2 => Ok(()),
        _ => wrong("`copies_min` is 1 or 2".into()),
    }
}
