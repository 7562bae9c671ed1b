//! Data that is imported with accounts from another server, in parts.
//!
//! Invariant: what is about one account is done in the order in which it is given, and what stands
//! behind something that may be done later is not done before it.

use super::ask;
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::orders::moves::{MOVES_MAX, Move, MovesBody};
use crate::routes::chat as routes;
use axum::Json;
use axum::extract::State;
use futures_util::stream::{FuturesUnordered, StreamExt};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, NodesFault};
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::timeline::Seq;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Things that are under way at once, of different accounts.
const AT_ONCE: usize = 64;

/// How often what is busy is asked again, and after which pause.
const TRIES_MAX: u32 = 40;
const PAUSE: Duration = Duration::from_millis(250);

/// Result of each item.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatMoved")]
pub(crate) struct Moved {
    /// In the order of the call.
    results: Vec<MovedOne>,
}

/// Result of one item.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatMovedOne")]
pub(crate) struct MovedOne {
    /// `done`; of a message `again`: it was there, or something newer of its conversation was; of
    /// a group: it is so already; `refused`.
    #[schemars(extend("enum" = ["done", "again", "refused"]))]
    state: &'static str,
    /// The code of the refusal; null: it was not refused.
    code: Option<String>,
    /// The refusal as text; null: it was not refused.
    told: Option<String>,
}

impl MovedOne {
    fn of(result: Result<bool, Fault>) -> MovedOne {
        match result {
            Ok(again) => {
                let state = if again { "again" } else { "done" };
                MovedOne { state, code: None, told: None }
            }
            Err(fault) => {
                let (code, told) = (fault.code().into(), fault.message().into());
                MovedOne { state: "refused", code: Some(code), told: Some(told) }
            }
        }
    }
}

/// `POST /v1/chat/moves`
pub(crate) async fn moves(State(api): Api, body: Body<MovesBody>) -> Result<Json<Moved>, Fault> {
    let body = body.read()?;
    if !(1..=MOVES_MAX).contains(&body.items.len()) {
        return Err(Fault::bad(format!("`items` must have 1 to {MOVES_MAX} entries")));
    }
    let (domain, limits) = (&api.settings.chat_domain, api.limits());
    let limits = &limits.chat;
    let mut lane = Lane::default();
    for (at, item) in body.items.iter().enumerate() {
        lane.results.push(None);
        match item.order(domain, limits) {
            Ok(order) => lane.go(&api, at, order).await,
            Err(fault) => lane.results[at] = Some(Err(fault)),
        }
        if lane.comes_back {
            break;
        }
    }
    while lane.step().await {}
    // Nothing is answered as if it were known what became of it.
    if lane.comes_back {
        return Err(Fault::busy());
    }
    let results = lane.results.into_iter().flatten().map(MovedOne::of).collect();
    Ok(Json(Moved { results }))
}

/// Index of an item, the accounts it is about, and its result.
type LaneResult = (usize, Vec<String>, Result<bool, Fault>);

/// Items being carried out. An item waits until earlier items about its accounts are done.
#[derive(Default)]
struct Lane {
    running: FuturesUnordered<JoinHandle<LaneResult>>,
    /// Accounts that an item under way is about.
    busy: BTreeSet<String>,
    results: Vec<Option<Result<bool, Fault>>>,
    /// Whether an item is to be retried: the items behind it are not begun.
    comes_back: bool,
}

impl Lane {
    /// Starts an item as soon as it may run.
    async fn go(&mut self, api: &Arc<Shared>, at: usize, order: Move) {
        let is_busy = |lane: &Lane| {
            lane.running.len() >= AT_ONCE || order.about.iter().any(|it| lane.busy.contains(it))
        };
        while is_busy(self) {
            self.step().await;
        }
        if self.comes_back {
            return;
        }
        self.busy.extend(order.about.iter().cloned());
        let api = Arc::clone(api);
        self.running.push(tokio::spawn(async move {
            let result = one(&api, &order).await;
            (at, order.about, result)
        }));
    }

    /// Waits until an item is done. False if none is running.
    async fn step(&mut self) -> bool {
        let Some(done) = self.running.next().await else { return false };
        match done {
            Ok((at, about, result)) => {
                about.iter().for_each(|it| {
                    self.busy.remove(it);
                });
                self.comes_back |= result.as_ref().is_err_and(Fault::comes_back);
                self.results[at] = Some(result);
            }
            // A task broke off, and it is unknown which.
            Err(_) => self.comes_back = true,
        }
        true
    }
}

/// Whether it was there before.
async fn one(api: &Shared, order: &Move) -> Result<bool, Fault> {
    let mut again = false;
    for command in &order.commands {
        // Waits until the account's inbox has arrived at this offset.
        if let ChatCommand::MovedUpTo(account, upto) = command {
            arrived(api, account, *upto).await?;
        }
        again = patiently(api, command).await?;
    }
    Ok(again)
}

/// Waits until the account's inbox has reached a place.
async fn arrived(api: &Shared, account: &AccountAddress, upto: Seq) -> Result<(), Fault> {
    for _ in 0..TRIES_MAX {
        if routes::status(api, account).await?.head >= upto {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Fault::busy())
}

/// Asks; what is busy is asked again.
async fn patiently(api: &Shared, command: &ChatCommand) -> Result<bool, Fault> {
    let mut tries = 0;
    loop {
        let fault = match told(ask(api, command.clone()).await) {
            Ok(again) => return Ok(again),
            Err(fault) => fault,
        };
        tries += 1;
        if !fault.comes_back() || tries >= TRIES_MAX {
            return Err(fault);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn told(answer: Result<ChatAnswer, Fault>) -> Result<bool, Fault> {
    match answer? {
        ChatAnswer::Told(Some(told)) => match &*told {
            ChatDelivery::Sent { again, .. } => Ok(*again),
            ChatDelivery::Changed(changed) => Ok(changed.again),
            ChatDelivery::Failed { why: ChatFault::Unchanged, .. } => Ok(true),
            ChatDelivery::Done { .. } => Ok(false),
            ChatDelivery::Nodes(answer) => match &answer.result {
                Ok(_) => Ok(false),
                Err(NodesFault::Busy) => Err(Fault::busy()),
                Err(NodesFault::StoreFailed) => Err(Fault::store()),
                Err(fault) => Err(Fault::bad(format!("a node: {}", fault.name()))),
            },
            other => Err(routes::fault(other)),
        },
        ChatAnswer::Told(None) => Err(Fault::unknown("account")),
        // Nobody else speaks for it: what it would say is not needed.
        ChatAnswer::Reached(_) => Ok(false),
        ChatAnswer::Erasing(_) => Err(Fault::erasing()),
        ChatAnswer::Busy => Err(Fault::busy()),
        _ => Err(Fault::internal()),
    }
}
