//! The threads of the shards: started, pinned, and what each does at its end.
//!
//! Which shard a thread runs is [`Executor`]'s business. Invariant: a shard that has ended is wound
//! up once, by the thread that ran it last.

use super::{LOOK, ServerLogics, ServerOutside, Sockets, StartError, failed, mail, services};
use crate::clock;
use crate::config::Config;
use crate::shard_logic::ServerLogic;
use crate::switchboard::{Mailboxes, ServerMessage};
use model::{event, tell};
use net::Shard;
use net::epoll::Epoll;
use net::executor::exchange::{AwakeThreads, ShardExchange};
use net::executor::{ExchangeOf, Executor};
use net::layer::ListenerSetup;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Time in which the log must take what services still have to say at the end.
const WIND_UP: Duration = Duration::from_secs(5);

/// A server's shard, and the way by which threads hand them to each other.
type ServerShard = Shard<Epoll<ServerMessage<ServerOutside>>, ServerLogic<ServerOutside>>;
type ServerExchange = ExchangeOf<Epoll<ServerMessage<ServerOutside>>, ServerLogic<ServerOutside>>;

/// Makes the shards and starts a thread for each; the first runs them all at the beginning.
pub(super) fn spawn(
    config: &Config,
    awake: &Arc<AwakeThreads>,
    (logics, sockets): (ServerLogics, Sockets),
    boxes: &Mailboxes<ServerOutside>,
    (doors, abandoned): (&[Arc<ListenerSetup>], &Arc<AtomicBool>),
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let began = clock::began();
    let mut shards = Vec::new();
    for ((settings, logic), sockets) in logics.into_iter().zip(sockets) {
        let settings = net::Settings { doors: doors.to_vec(), ..settings };
        let net = Epoll::new(settings.shard, sockets, boxes.clone(), began).map_err(failed)?;
        shards.push(Box::new(Shard::new(settings, net, logic)));
    }
    let count = shards.len() as u16;
    let pin = config.server.pin && count > 1;
    let exchange: Arc<ServerExchange> = ShardExchange::new(shards, awake.clone());
    let mut threads = Vec::new();
    for number in 0..count {
        let (exchange, boxes, abandoned) = (exchange.clone(), boxes.clone(), abandoned.clone());
        let run = move || {
            if pin {
                services::pin(number);
            }
            Executor::new(number, exchange)
                .run(|ended| wind_up(ended, (&boxes, &abandoned), began));
        };
        let thread = Builder::new().name(format!("shard-{number}"));
        threads.push(thread.spawn(run).map_err(failed)?);
    }
    Ok(threads)
}

/// Ends shards without connections: lets their services write their last calls to the log, unless
/// that takes nothing any more.
fn wind_up(
    mut shards: Vec<Box<ServerShard>>,
    (boxes, abandoned): (&Mailboxes<ServerOutside>, &AtomicBool),
    began: std::time::Instant,
) {
    let until = clock::now(began).after(WIND_UP);
    while clock::now(began).mono < until && !abandoned.load(Ordering::Relaxed) {
        let now = clock::now(began);
        shards.retain_mut(|shard| {
            let mailbox = &boxes[usize::from(shard.number().0)];
            let logic = shard.logic_mut();
            logic.completed(now, mail(mailbox));
            !logic.wind_up(now)
        });
        if shards.is_empty() {
            return;
        }
        std::thread::sleep(LOOK);
    }
    if abandoned.load(Ordering::Relaxed) {
        return;
    }
    if shards.iter().all(|shard| shard.logic().is_logged()) {
        tell!(event::STOP_UNTOLD);
        return;
    }
    tell!(event::STOP_UNLOGGED);
}
