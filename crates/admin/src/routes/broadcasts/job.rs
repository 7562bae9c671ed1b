//! Broadcasts: one message to many accounts, in slices, while the caller polls the progress.
//!
//! A broadcast sends one message to each account, with the same id of its sender: started again
//! with that id, it sends no account a second one, so a broadcast that a restart interrupted is
//! simply started again. It knows accounts by their names and uses the control port like any
//! caller. Invariant: the number of running and of remembered broadcasts is limited, and no slice
//! begins after a cancel.

use crate::answers::chat::Broadcast;
use crate::api::Shared;
use crate::fault::Fault;
use crate::routes::chat::say;
use base::hex;
use futures_util::future::join_all;
use model::account::{AccountAddress, Addressee};
use model::chat::{ClientMessageId, Content, NewMessage};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Broadcasts that may be under way. One more is refused as busy.
pub(crate) const RUNNING_MAX: usize = 4;

/// Most broadcasts that are remembered, including running ones. Above that the oldest finished one
/// is forgotten.
const REMEMBERED_MAX: usize = 64;

/// Accounts that are sent to at once.
const SLICE: usize = 64;

/// Names that are read of the book at once.
const PAGE: usize = 512;

/// How often a message is tried that the shards are too busy for, and the pause between.
const TRIES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// Message and receivers.
pub(crate) struct BroadcastOrder {
    pub(crate) by: AccountAddress,
    pub(crate) client_id: ClientMessageId,
    pub(crate) content: Content,
    /// Recipients; `None`: all accounts of the book.
    pub(crate) to: Option<Vec<Addressee>>,
}

/// One broadcast.
pub(crate) struct Job {
    id: u64,
    from: String,
    client_id: String,
    total: Option<u64>,
    sent: AtomicU64,
    again: AtomicU64,
    refused: AtomicU64,
    cancelled: AtomicBool,
    /// How it ended, once it has, or why before its end.
    over: Mutex<Option<Result<Ending, String>>>,
}

/// How one ended that did not fail. Later requests to a finished job change nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// All were sent to.
    Done,
    /// A slice was not begun, for it was cancelled before.
    Cancelled,
}

/// Remembered broadcasts, the oldest first.
#[derive(Default)]
pub(crate) struct Broadcasts(Mutex<VecDeque<Arc<Job>>>);

impl Job {
    /// How far it is.
    pub(crate) fn told(&self) -> Broadcast {
        let over = lock(&self.over).clone();
        let (state, failure) = match over {
            None => ("running", None),
            Some(Err(why)) => ("failed", Some(why)),
            Some(Ok(Ending::Cancelled)) => ("cancelled", None),
            Some(Ok(Ending::Done)) => ("done", None),
        };
        Broadcast {
            id: self.id.to_string(),
            from: self.from.clone(),
            client_id: self.client_id.clone(),
            state,
            sent: self.sent.load(Ordering::Relaxed),
            again: self.again.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            total: self.total,
            failure,
        }
    }

    /// No further slice is begun.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        lock(&self.over).is_some()
    }
}

impl Broadcasts {
    /// The newest first.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        lock(&self.0).iter().rev().cloned().collect()
    }

    /// The broadcast with this number.
    pub(crate) fn one(&self, id: u64) -> Option<Arc<Job>> {
        lock(&self.0).iter().find(|job| job.id == id).cloned()
    }

    fn put(&self, job: Arc<Job>) -> Result<(), Fault> {
        let mut jobs = lock(&self.0);
        if jobs.iter().filter(|job| !job.is_over()).count() >= RUNNING_MAX {
            return Err(Fault::broadcasts_full(RUNNING_MAX));
        }
        if jobs.len() >= REMEMBERED_MAX
            && let Some(oldest) = jobs.iter().position(|job| job.is_over())
        {
            jobs.remove(oldest);
        }
        jobs.push_back(job);
        Ok(())
    }

    /// Starts a broadcast. It goes on when no caller polls it, and ends with the server.
    pub(crate) fn begin(api: &Arc<Shared>, order: BroadcastOrder) -> Result<Arc<Job>, Fault> {
        let job = Arc::new(Job {
            id: api.control.next_id().0,
            from: order.by.to_string(),
            client_id: hex::encode(&order.client_id.0),
            total: order.to.as_ref().map(|to| to.len() as u64),
            sent: AtomicU64::new(0),
            again: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            over: Mutex::new(None),
        });
        api.broadcasts.put(Arc::clone(&job))?;
        let (api, at_work) = (Arc::clone(api), Arc::clone(&job));
        tokio::spawn(async move {
            let ended = carry_out(&api, &at_work, &order).await;
            *lock(&at_work.over) = Some(ended);
        });
        Ok(job)
    }
}

async fn carry_out(api: &Arc<Shared>, job: &Job, order: &BroadcastOrder) -> Result<Ending, String> {
    if let Some(to) = &order.to {
        return send_to(api, job, order, to).await;
    }
    let mut after: Option<String> = None;
    loop {
        let (book, from) = (Arc::clone(&api.settings.users), after.clone());
        let page = tokio::task::spawn_blocking(move || book.list(from.as_deref(), PAGE)).await;
        let Ok(page) = page else { return Err("internal error: a bug in this server".into()) };
        let page = page.map_err(|fault| format!("the user database: {fault:?}"))?;
        let Some(last) = page.last() else { return Ok(Ending::Done) };
        after = Some(last.name.clone());
        // A user whose name no account may have is none of chat.
        let accounts: Vec<Addressee> =
            page.iter().filter_map(|user| Addressee::parse(&user.name).ok()).collect();
        if send_to(api, job, order, &accounts).await? == Ending::Cancelled {
            return Ok(Ending::Cancelled);
        }
    }
}

async fn send_to(
    api: &Arc<Shared>,
    job: &Job,
    order: &BroadcastOrder,
    to: &[Addressee],
) -> Result<Ending, String> {
    for slice in to.chunks(SLICE) {
        if job.cancelled.load(Ordering::Relaxed) {
            return Ok(Ending::Cancelled);
        }
        for sent in join_all(slice.iter().map(|to| send_one(api, order, to))).await {
            sent.map(|outcome| job.count(outcome))?;
        }
    }
    Ok(Ending::Done)
}

/// Result of one message.
enum Outcome {
    Sent { again: bool },
    Refused,
}

impl Job {
    fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Sent { again } => {
                self.sent.fetch_add(1, Ordering::Relaxed);
                self.again.fetch_add(again.into(), Ordering::Relaxed);
            }
            Outcome::Refused => _ = self.refused.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Sends one; what is refused is refused for good, and what is busy is tried again.
async fn send_one(
    api: &Arc<Shared>,
    order: &BroadcastOrder,
    to: &Addressee,
) -> Result<Outcome, String> {
    let (client_id, content) = (ClientMessageId(id_for(order, to)), order.content.clone());
    let message = NewMessage { to: to.clone(), client_id, content };
    for _ in 0..TRIES_MAX {
        match say(api, order.by.clone(), message.clone()).await {
            Ok(sent) => return Ok(Outcome::Sent { again: sent.again }),
            Err(fault) if fault.comes_back() => tokio::time::sleep(PAUSE).await,
            Err(_) => return Ok(Outcome::Refused),
        }
    }
    Err(format!(
        "{to} could not be reached in time: start the broadcast again with the same client_id",
        to = to.as_str()
    ))
}

/// The id of the message to one account: a hash of the broadcast's id and the account.
fn id_for(order: &BroadcastOrder, to: &Addressee) -> [u8; 16] {
    use sha2::{Digest, Sha256};
    let to = to.within(order.by.domain());
    let digest = Sha256::new().chain_update(order.client_id.0).chain_update(to.as_str()).finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    id
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
