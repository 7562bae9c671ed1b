//! Overview of the server's state, once or every second.
//!
//! All readers get the same figures: these are collected and encoded once a second, however many
//! readers follow, and not at all without readers. A reader that does not keep up misses some.
//! Invariant: a stream ends when its caller's session or token ends, and when the server stops.

pub(crate) mod alarms;
pub(crate) mod history;

use super::operations::{readings, status_now};
use super::presence_routes;
use crate::answers::metrics::latencies::Latencies;
use crate::answers::operations::Status;
use crate::answers::overview::{self as answers, Overview, Process};
use crate::api::life::{Phase, reached};
use crate::api::{Api, Shared};
use crate::describe::{AnswerBody, Answers, Operation};
use crate::fault::Fault;
use crate::guard::{Caller, Visitor};
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::stream;
use model::limits::seats::SourceSeat;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// The figures that all who look see.
#[derive(Default)]
pub(crate) struct Live {
    latest: watch::Sender<Option<Arc<str>>>,
    is_looking: AtomicBool,
    /// Longest turn that was seen here and nowhere else, microseconds.
    pub(crate) turn_us_max: AtomicU64,
}

impl Live {
    /// Figures from now on.
    fn follow(api: &Arc<Shared>) -> watch::Receiver<Option<Arc<str>>> {
        let figures = api.live.latest.subscribe();
        if !api.live.is_looking.swap(true, Ordering::SeqCst) {
            tokio::spawn(look(Arc::clone(api)));
        }
        figures
    }
}

/// Collects the figures every second while there are readers.
async fn look(api: Arc<Shared>) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let live = &api.live;
    loop {
        ticks.tick().await;
        if live.latest.receiver_count() == 0 {
            live.is_looking.store(false, Ordering::SeqCst);
            // A reader may have subscribed in between and found `is_looking` still set.
            let is_last = live.latest.receiver_count() == 0;
            if is_last || live.is_looking.swap(true, Ordering::SeqCst) {
                return;
            }
        }
        // Shards that do not answer leave the figures as old as they are; who looks sees the age.
        if let Ok(now) = now(&api).await {
            let text = serde_json::to_string(&now).expect("text for keys");
            live.latest.send_replace(Some(text.into()));
        }
    }
}

/// The overview of this moment.
async fn now(api: &Shared) -> Result<Overview, Fault> {
    let status = status_now(api).await?;
    let readiness = (api.settings.readiness)();
    Ok(Overview {
        at_ms: (api.settings.wall_ms)(),
        started_ms: api.boot,
        readiness: (&readiness).into(),
        alarms: alarms::shown(&api.alarms),
        status: Status::new((api.settings.version, readiness.draining), &status),
        latencies: Latencies::new(&status.counters),
        presence: presence_routes::counted(api).await.ok().map(|counts| (&counts).into()),
        directory: api.settings.presence.standing().into(),
        process: Process::now(),
        readings: answers::readings(&readings(api)),
    })
}

/// `GET /v1/overview`
pub(crate) async fn one(State(api): Api) -> Result<Json<Overview>, Fault> {
    Ok(Json(now(&api).await?))
}

/// Overviews as server-sent events.
pub(crate) struct Overviews(Response);

impl IntoResponse for Overviews {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Answers for Overviews {
    fn answers(operation: &mut Operation<'_>) {
        let of = vec![operation.schemas.written.subschema_for::<Overview>()];
        operation.content = AnswerBody::events(of);
    }
}

/// A reader of the overview stream.
struct Onlooker {
    api: Arc<Shared>,
    caller: Caller,
    figures: watch::Receiver<Option<Arc<str>>>,
    _permit: SourceSeat,
}

/// `GET /v1/overview/stream`
pub(crate) async fn stream(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    Extension(visitor): Extension<Visitor>,
) -> Result<Overviews, Fault> {
    let permit = api.stream_seat(&visitor)?;
    let heartbeat = Duration::from_millis(api.settings.heartbeat_ms.max(1));
    let figures = Live::follow(&api);
    let onlooker = Onlooker { api, caller, figures, _permit: permit };
    let told = stream::unfold(onlooker, |mut onlooker| async {
        let text = onlooker.next().await?;
        let event = Event::default().event("overview").data(&*text);
        Some((Ok::<_, Infallible>(event), onlooker))
    });
    let told = Sse::new(told).keep_alive(KeepAlive::new().interval(heartbeat));
    Ok(Overviews(told.into_response()))
}

impl Onlooker {
    /// The next figures; `None` when there will be none for this caller.
    async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            tokio::select! {
                biased;
                () = self.caller.ended() => return None,
                () = reached(self.api.phases.clone(), Phase::Finishing) => return None,
                changed = self.figures.changed() => changed.ok()?,
            }
            let now_ms = (self.api.settings.wall_ms)();
            if self.caller.is_over(now_ms) {
                return None;
            }
            self.caller.see(now_ms);
            let text = self.figures.borrow_and_update().clone();
            if text.is_some() {
                return text;
            }
        }
    }
}
