//! Events as server-sent events (WHATWG HTML 9.2).
//!
//! Each event has its id; a reader that comes back with `Last-Event-ID` goes on from there, or
//! learns by an event `gap` how many it has missed. A reader that is too slow gets the same event.
//! Invariant: between two events of a stream there is either nothing missing or a `gap`.

use super::{Asked, asked};
use crate::answers::events::{AnyEvent, Gap};
use crate::api::{Api, Shared};
use crate::events::{self, Filter, MESSAGE};
use crate::fault::Fault;
use crate::feed::{Reader, Taken};
use crate::guard::{Caller, Visitor};
use crate::orders::{self, EventsQuery, messages};
use crate::tokens::scope::Scope;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use model::limits::seats::SourceSeat;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Events taken from the feed at once.
const BATCH: usize = 256;

/// `GET /v1/events`
pub(crate) async fn events(
    State(api): Api,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    query: Asked<EventsQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Fault> {
    let query = asked(query)?;
    let caller = visitor.caller.clone().expect("the guard let it in");
    let product = query.product.as_deref().map(orders::product).transpose()?;
    let types = query.types.as_deref().unwrap_or("");
    let types = types.split(',').filter(|name| !name.is_empty());
    let limits = api.limits();
    let limits = &limits.topics;
    let topic = query.topic.as_deref().map(|text| messages::filter(text, limits)).transpose()?;
    let has_topic = topic.is_some();
    let topics = topic.into_iter().map(String::from).collect();
    let filter = Filter::new(product, types, topics).map_err(|found| {
        let allowed = events::TYPES.join(", ");
        Fault::bad(format!("unknown `type` {found:?}; allowed are {allowed}, separated by commas"))
    })?;
    let of_messages = filter.messages();
    if of_messages.is_some() && filter.without(MESSAGE).is_some() {
        return Err(Fault::bad(format!("`type` must not combine `{MESSAGE}` with other types")));
    }
    let of_chat = filter.wants_chat();
    if of_chat && (of_messages.is_some() || filter.without_chat().is_some()) {
        return Err(Fault::bad("`type` must not combine chat types with other types"));
    }
    if of_chat {
        caller.is_good_for(&[Scope::Chat])?;
    }
    if has_topic && of_messages.is_none() {
        return Err(Fault::bad(format!("`topic` is allowed with `type={MESSAGE}` only")));
    }
    let permit = api.stream_seat(&visitor)?;
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = header.or(query.last_event_id.as_deref());
    let place_after = if of_chat { events::chat_place_after } else { events::place_after };
    let from = last.map(|id| place_after(api.boot, id));
    // The id is from another process, so the number of missed events is unknown; all events that
    // this process has are sent.
    let foreign = (from == Some(None)).then(|| gap(None));
    // Nor is it known of messages: those of the time between were not kept.
    let foreign = foreign.or_else(|| (from.is_some() && of_messages.is_some()).then(|| gap(None)));
    let (reader, id): (_, fn(u64, u64) -> String) = match of_messages {
        Some(topics) => (api.feed.message_reader(topics), events::message_id),
        None if of_chat => {
            let from = from.map(|place| place.unwrap_or(1));
            (api.feed.chat_reader(from), events::chat_id)
        }
        None => {
            let from = from.map(|place| place.unwrap_or(1));
            (api.feed.reader(filter.wish(), from), events::id)
        }
    };
    let heartbeat = Duration::from_millis(api.settings.heartbeat_ms.max(1));
    let source = Source { api, filter, reader, id, caller, _permit: permit };
    let told = stream::unfold(source, |mut source| async {
        let taken = source.next().await?;
        let told = source.tell(taken);
        Some((stream::iter(told), source))
    });
    let told = stream::iter(foreign).chain(told.flatten()).map(Ok);
    Ok(Sse::new(told).keep_alive(KeepAlive::new().interval(heartbeat)))
}

/// The feed of one stream.
struct Source {
    api: Arc<Shared>,
    filter: Filter,
    reader: Reader,
    /// Makes ids of boot and place.
    id: fn(u64, u64) -> String,
    caller: Caller,
    _permit: SourceSeat,
}

impl Source {
    /// The next event; `None` when the token is no longer valid.
    async fn next(&mut self) -> Option<Taken> {
        tokio::select! {
            biased;
            () = self.caller.ended() => None,
            taken = self.reader.next(BATCH) => {
                let now_ms = (self.api.settings.wall_ms)();
                taken.filter(|_| !self.caller.is_over(now_ms))
            }
        }
    }

    fn tell(&self, taken: Taken) -> Vec<Event> {
        let boot = self.api.boot;
        let gap = (taken.lost > 0).then(|| gap(Some(taken.lost)));
        let wanted = taken.happenings.iter().filter(|(_, event)| self.filter.wants(event));
        let told = wanted.map(|(place, event)| {
            let id = (self.id)(boot, *place);
            let told = serde_json::to_string(&AnyEvent::new(&id, event)).expect("text for keys");
            Event::default().id(id).event(event.name()).data(told)
        });
        gap.into_iter().chain(told).collect()
    }
}

/// At least this many events are missing here; unknown when absent.
fn gap(lost: Option<u64>) -> Event {
    Event::default().event("gap").data(serde_json::to_string(&Gap { lost }).expect("text for keys"))
}
