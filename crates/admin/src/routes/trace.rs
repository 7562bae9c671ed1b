//! Traces as server-sent events.
//!
//! A trace ends by itself after a time, with its caller's token or session, when the server is told
//! to stop, and when its reader goes. Events that a slow reader misses are reported at the place
//! where they are missing. Invariant: the trace goes on exactly as long as its stream is read.

use super::{Asked, asked};
use crate::answers::trace::{TracedEnd, TracedEvent, TracedLeftOut};
use crate::api::life::{Phase, reached};
use crate::api::{Api, Shared};
use crate::describe::{AnswerBody, Answers, Operation};
use crate::fault::Fault;
use crate::guard::{Caller, Visitor};
use crate::orders::trace::TraceQuery;
use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use model::limits::seats::SourceSeat;
use model::ports::trace::{Trace, TraceRefusal, TraceSink, TraceTold};
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Events sent and not read yet. The trace waits with more.
const UNREAD_MAX: usize = 256;

/// Events of a trace.
pub(crate) struct Traced(Response);

impl IntoResponse for Traced {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Answers for Traced {
    fn answers(operation: &mut Operation<'_>) {
        let written = &mut operation.schemas.written;
        let of = vec![
            written.subschema_for::<TracedEvent>(),
            written.subschema_for::<TracedLeftOut>(),
            written.subschema_for::<TracedEnd>(),
        ];
        operation.content = AnswerBody::events(of);
    }
}

/// The reader of a trace.
struct Spectator {
    api: Arc<Shared>,
    caller: Caller,
    told: mpsc::Receiver<TraceTold>,
    until: Instant,
    is_over: bool,
    _trace: Box<dyn Trace>,
    _permit: SourceSeat,
}

/// `GET /v1/trace`
pub(crate) async fn follow(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    Extension(visitor): Extension<Visitor>,
    query: Asked<TraceQuery>,
) -> Result<Traced, Fault> {
    let (order, lasts) = asked(query)?.order(&api.api_limits(), &api.limits().topics)?;
    let permit = api.stream_seat(&visitor)?;
    let (tell, told) = mpsc::channel(UNREAD_MAX);
    let sink: TraceSink = Box::new(move |what| tell.blocking_send(what).is_ok());
    let trace = api.settings.traces.follow(order, sink).map_err(|refusal| match refusal {
        TraceRefusal::Full => Fault::traces_full(api.api_limits().traces_max),
        TraceRefusal::Busy => Fault::busy(),
    })?;
    let heartbeat = Duration::from_millis(api.settings.heartbeat_ms.max(1));
    let (until, is_over) = (Instant::now() + lasts, false);
    let spectator = Spectator { api, caller, told, until, is_over, _trace: trace, _permit: permit };
    let told = stream::unfold(spectator, |mut spectator| async {
        let event = spectator.next().await?;
        Some((Ok::<_, Infallible>(event), spectator))
    });
    let told = Sse::new(told).keep_alive(KeepAlive::new().interval(heartbeat));
    Ok(Traced(told.into_response()))
}

impl Spectator {
    /// The next event; `None` behind the last.
    async fn next(&mut self) -> Option<Event> {
        if self.is_over {
            return None;
        }
        let told = tokio::select! {
            biased;
            () = self.caller.ended() => return self.end("session_over"),
            () = reached(self.api.phases.clone(), Phase::Finishing) => {
                return self.end("stopping");
            }
            () = tokio::time::sleep_until(self.until) => return self.end("time"),
            told = self.told.recv() => told?,
        };
        let now_ms = (self.api.settings.wall_ms)();
        if self.caller.is_over(now_ms) {
            return self.end("session_over");
        }
        self.caller.see(now_ms);
        Some(match told {
            TraceTold::Event(event) => of("trace", &TracedEvent::from(*event)),
            TraceTold::LeftOut(count) => of("left_out", &TracedLeftOut { count }),
        })
    }

    fn end(&mut self, reason: &'static str) -> Option<Event> {
        self.is_over = true;
        Some(of("over", &TracedEnd { reason }))
    }
}

fn of(name: &str, told: &impl Serialize) -> Event {
    Event::default().event(name).data(serde_json::to_string(told).expect("text for keys"))
}
