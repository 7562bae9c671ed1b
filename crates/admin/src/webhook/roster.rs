//! The webhooks of a server, and the couriers of each.
//!
//! A courier posts events from one [`Source`], on a thread of its own. A change of the
//! configuration passes all webhooks: those with a known URL and product keep their couriers, their
//! places in the feed and their counts, and use their new settings from the next batch on; couriers
//! of new ones begin, those of removed ones end after the request they are waiting for, and give
//! nothing up. It knows no file of configuration. Invariant: a change that fails has changed
//! nothing, and no two webhooks have the same dead letters open.

use super::dead::{DeadLetterSettings, DeadLetters};
use super::feed_courier::FeedCourier;
use super::report_courier::ReportCourier;
use super::{Address, HookSettings, Tally, WallClock, Webhook, WebhookRetry};
use crate::events::{self, Filter, MESSAGE};
use crate::feed::{self, Feed, Reader, Wish};
use crate::{ApiStartError, shown_url, thread};
use model::limits::TopicLimits;
use model::ports::backlog::Backlog;
use model::{event, tell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;

/// The type that the backlog carries, where there is one.
const REPORT: &str = "report";

/// Shared parts of all webhooks.
pub(crate) struct Around {
    pub(crate) feed: Arc<Feed>,
    /// The Reports that wait. Without it, they come by the feed like other events.
    pub(crate) backlog: Option<Arc<dyn Backlog>>,
    /// Where dead letters are kept. Without it, they are lost.
    pub(crate) dead_letters: Option<DeadLetterSettings>,
    pub(crate) retry: WebhookRetry,
    pub(crate) wall_ms: WallClock,
    /// Through the proxy that the environment names.
    pub(crate) proxied: bool,
    /// Distinguishes this process's ids from another's.
    pub(crate) boot: u64,
}

/// Where a courier has events from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Events,
    Chat,
    Messages,
    Reports,
}

/// The webhooks of a server.
pub(crate) struct Roster {
    around: Around,
    /// By number: in the order of the configuration.
    hooks: RwLock<Vec<RunningHook>>,
    /// Removed webhooks, to which a redelivery may still be running.
    removed: Mutex<Vec<Weak<Address>>>,
    /// Of all couriers, those that are about to end included.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct RunningHook {
    address: Arc<Address>,
    couriers: Vec<Courier>,
}

/// A courier at work, which ends when this is dropped.
struct Courier {
    source: Source,
    /// Its place in the feed, unless it carries Reports.
    reader: Option<Arc<Reader>>,
    ended: Arc<AtomicBool>,
    feed: Arc<Feed>,
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.feed.wake();
    }
}

/// A webhook as a change will have it.
struct Planned {
    address: Arc<Address>,
    settings: HookSettings,
    /// Its filter for each source.
    wishes: Vec<(Source, Wish)>,
    /// Couriers for sources of which it wanted nothing so far.
    fresh: Vec<Courier>,
}

impl Roster {
    pub(crate) fn new(around: Around) -> Roster {
        let (hooks, removed, threads) = Default::default();
        Roster { around, hooks, removed, threads }
    }

    /// All webhooks, by their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Address>> {
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().map(|hook| Arc::clone(&hook.address)).collect()
    }

    /// The webhook with this number.
    pub(crate) fn get(&self, number: usize) -> Option<Arc<Address>> {
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks.get(number).map(|hook| Arc::clone(&hook.address))
    }

    /// Sets the webhooks. One caller at a time. Blocks: it reads files.
    pub(crate) fn set(
        &self,
        hooks: Vec<Webhook>,
        limits: &TopicLimits,
    ) -> Result<(), ApiStartError> {
        let of_hook =
            |hook: Webhook| filter(&hook, limits).map(|filter| HookSettings { hook, filter });
        let settings = hooks.into_iter().map(of_hook).collect::<Result<Vec<_>, _>>()?;
        let planned = settings.into_iter().map(|settings| self.plan(settings));
        let planned = planned.collect::<Result<Vec<_>, _>>()?;
        // Nothing fails from here on.
        let mut hooks = self.hooks.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *hooks);
        for Planned { address, settings, wishes, fresh } in planned {
            let at = before.iter().position(|hook| Arc::ptr_eq(&hook.address, &address));
            let mut couriers = at.map_or(Vec::new(), |at| before.swap_remove(at).couriers);
            address.set(settings);
            couriers.retain(|courier| courier.follows(&wishes));
            couriers.extend(fresh);
            hooks.push(RunningHook { address, couriers });
        }
        drop(hooks);
        let mut removed = lock(&self.removed);
        removed.retain(|address| address.strong_count() > 0);
        removed.extend(before.iter().map(|hook| Arc::downgrade(&hook.address)));
        drop(before);
        // Threads that have ended need not be joined.
        lock(&self.threads).retain(|thread| !thread.is_finished());
        Ok(())
    }

    /// Waits for all couriers. The feed has ended.
    pub(crate) fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "API");
            }
        }
    }

    /// Plans a webhook, and starts couriers for sources that it did not use so far.
    fn plan(&self, settings: HookSettings) -> Result<Planned, ApiStartError> {
        let wishes = self.wishes(&settings.filter);
        let (address, running) = self.address(&settings)?;
        let missing = wishes.iter().filter(|(source, _)| !running.contains(source));
        let fresh = missing.map(|(source, wish)| self.begin(*source, wish.clone(), &address));
        let fresh = fresh.collect::<Result<_, _>>()?;
        Ok(Planned { address, settings, wishes, fresh })
    }

    /// The address of a webhook, old or new, with the sources that it has couriers for.
    fn address(
        &self,
        settings: &HookSettings,
    ) -> Result<(Arc<Address>, Vec<Source>), ApiStartError> {
        let HookSettings { hook, filter } = settings;
        let is_it = |address: &Arc<Address>| address.settings().hook.is(hook);
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = hooks.iter().find(|found| is_it(&found.address)) {
            let sources = found.couriers.iter().map(|courier| courier.source).collect();
            return Ok((Arc::clone(&found.address), sources));
        }
        drop(hooks);
        let fresh = HookSettings { hook: hook.clone(), filter: filter.clone() };
        if let Some(back) = lock(&self.removed).iter().filter_map(Weak::upgrade).find(is_it) {
            back.set(fresh);
            return Ok((back, Vec::new()));
        }
        let failed = |error| ApiStartError::DeadLetters { url: shown_url(&hook.url), error };
        let Around { dead_letters, retry, wall_ms, proxied, .. } = &self.around;
        let dead = dead_letters.as_ref().map(|kept| DeadLetters::open(kept, hook));
        let address = Address {
            settings: RwLock::new(Arc::new(fresh)),
            retry: *retry,
            wall_ms: Arc::clone(wall_ms),
            proxied: *proxied,
            tally: Tally::default(),
            dead: dead.transpose().map_err(failed)?,
        };
        Ok((Arc::new(address), Vec::new()))
    }

    /// The part of a filter for each source.
    fn wishes(&self, filter: &Filter) -> Vec<(Source, Wish)> {
        let mut wishes = Vec::new();
        if let Some(topics) = filter.messages() {
            wishes.push((Source::Messages, Wish { topics, ..Wish::default() }));
        }
        if filter.wants_chat() {
            wishes.push((Source::Chat, Wish { chat: true, ..Wish::default() }));
        }
        let by_backlog = self.around.backlog.is_some() && filter.wants_type(REPORT);
        let of_events = filter.without(MESSAGE).and_then(|filter| filter.without_chat());
        let of_feed = match by_backlog {
            true => of_events.and_then(|filter| filter.without(REPORT)),
            false => of_events,
        };
        wishes.extend(of_feed.map(|filter| (Source::Events, filter.wish())));
        wishes.extend(by_backlog.then(|| (Source::Reports, Wish::default())));
        wishes
    }

    /// Starts a courier.
    fn begin(
        &self,
        source: Source,
        wish: Wish,
        address: &Arc<Address>,
    ) -> Result<Courier, ApiStartError> {
        let Around { feed, backlog, boot, .. } = &self.around;
        let (ended, boot) = (Arc::<AtomicBool>::default(), *boot);
        let (name, reader, id, spills): (_, _, fn(u64, u64) -> String, _) = match source {
            Source::Events => ("holdline-hook", feed.reader(wish, None), events::id, true),
            Source::Chat => ("holdline-chatter", feed.chat_reader(None), events::chat_id, true),
            Source::Messages => {
                ("holdline-words", feed.message_reader(wish.topics), events::message_id, false)
            }
            Source::Reports => {
                let backlog = backlog.clone().expect("who has none has no such source");
                let courier =
                    ReportCourier::new(Arc::clone(address), backlog, Arc::clone(&ended), boot);
                let of_thread = Arc::clone(feed);
                self.run("holdline-report", move || courier.run(&of_thread))?;
                return Ok(Courier { source, reader: None, ended, feed: Arc::clone(feed) });
            }
        };
        let reader = Arc::new(reader.until(&ended));
        let skipped = backlog.is_some().then_some(REPORT);
        let courier = FeedCourier { address: Arc::clone(address), skipped, boot, id, spills };
        let of_thread = (Arc::clone(feed), Arc::clone(&reader));
        self.run(name, move || courier.run(&of_thread.0, &of_thread.1))?;
        Ok(Courier { source, reader: Some(reader), ended, feed: Arc::clone(feed) })
    }

    fn run(
        &self,
        name: &'static str,
        life: impl FnOnce() + Send + 'static,
    ) -> Result<(), ApiStartError> {
        lock(&self.threads).push(thread(name, life)?);
        Ok(())
    }
}

impl Courier {
    /// Takes what is wanted of its source now; false if that is nothing.
    fn follows(&self, wishes: &[(Source, Wish)]) -> bool {
        let wish = wishes.iter().find(|(source, _)| *source == self.source);
        if let (Some((_, wish)), Some(reader)) = (wish, &self.reader) {
            reader.set_wish(wish.clone());
        }
        wish.is_some()
    }
}

fn filter(hook: &Webhook, limits: &TopicLimits) -> Result<Filter, ApiStartError> {
    for found in &hook.topics {
        let lonely = !hook.types.iter().any(|name| name == MESSAGE);
        let lonely = lonely.then(|| format!("needs the type {MESSAGE}"));
        if let Some(why) = lonely.or_else(|| feed::topic::wrong_filter(found, limits)) {
            return Err(ApiStartError::BadTopic { found: found.clone(), why });
        }
    }
    let types = hook.types.iter().map(String::as_str);
    Filter::new(hook.product.clone(), types, hook.topics.clone())
        .map_err(|found| ApiStartError::UnknownType { found: found.to_owned() })
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
