//! Events as server-sent events (WHATWG HTML 9.2).
//!
//! Each event has its id; a reader that comes back with `Last-Event-ID` goes on from there, or is
//! told by an event `gap` how many it has missed. A reader that is too slow is told the same way.
//! Invariant: between two events of a stream there is either nothing missing or a `gap`.

use crate::api::{Api, Shared};
use crate::events::{self, Filter};
use crate::fault::Fault;
use crate::feed::{Reader, Taken};
use crate::orders::{self, EventsQuery};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Events taken from the feed at once.
const BATCH: usize = 256;

/// `GET /v1/events`
pub(crate) async fn events(
    State(api): Api,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Fault> {
    let Query(query) = query.map_err(|error| Fault::bad(error.body_text()))?;
    let product = query.product.as_deref().map(orders::product).transpose()?;
    let types = query.types.as_deref().unwrap_or("");
    let types = types.split(',').filter(|name| !name.is_empty());
    let filter = Filter::new(product, types).map_err(|found| {
        let allowed = events::TYPES.join(", ");
        Fault::bad(format!("`type` has {found:?}; allowed are {allowed}, with commas between"))
    })?;
    let permit = Arc::clone(&api.streams).try_acquire_owned().map_err(|_| Fault::busy())?;
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = header.or(query.last_event_id.as_deref());
    let from = last.map(|id| events::place_after(api.boot, id));
    // An id of another process: nobody knows how much was missed; what this one has is all sent.
    let foreign = (from == Some(None)).then(|| gap(None));
    let reader = api.feed.reader(from.map(|place| place.unwrap_or(1)));
    let heartbeat = Duration::from_millis(api.settings.heartbeat_ms.max(1));
    let source = Source { api, filter, reader, _permit: permit };
    let told = stream::unfold(source, |source| async {
        let taken = source.reader.next(BATCH).await?;
        let told = source.tell(taken);
        Some((stream::iter(told), source))
    });
    let told = stream::iter(foreign).chain(told.flatten()).map(Ok);
    Ok(Sse::new(told).keep_alive(KeepAlive::new().interval(heartbeat)))
}

/// One stream's end of the feed.
struct Source {
    api: Arc<Shared>,
    filter: Filter,
    reader: Reader,
    _permit: OwnedSemaphorePermit,
}

impl Source {
    fn tell(&self, taken: Taken) -> Vec<Event> {
        let boot = self.api.boot;
        let gap = (taken.lost > 0).then(|| gap(Some(taken.lost)));
        let wanted = taken.events.iter().filter(|(_, event)| self.filter.wants(event));
        let told = wanted.map(|(place, event)| {
            let id = events::id(boot, *place);
            let told = events::json(&id, event).to_string();
            Event::default().id(id).event(event.what.name()).data(told)
        });
        gap.into_iter().chain(told).collect()
    }
}

/// At least so many events are missing here; nobody knows how many when absent.
fn gap(lost: Option<u64>) -> Event {
    Event::default().event("gap").data(json!({ "lost": lost }).to_string())
}
