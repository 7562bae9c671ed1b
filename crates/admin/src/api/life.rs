//! Life of the API: it serves, finishes its open requests, and ends.
//!
//! While it finishes, it accepts no connections, closes idle ones, and answers each request that
//! had arrived with `Connection: close`; only streams of events continue, for their last events. It
//! knows no routes. Invariant: no request is cut off within its own limits ([`longest`]).

use crate::api::{ANSWER, Shared, router};
use crate::listener::ApiSlot;
use crate::orders::WAIT_MS_MAX;
use crate::otlp;
use crate::routes::overview::history;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::Next;
use axum::response::Response;
use model::limits::ApiLimits;
use model::{event, tell};
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Threads that wait for a disk or a log for the API. Beyond, what wants one queues, bounded by the
/// connections.
const WAITING_THREADS_MAX: usize = 32;

/// Phase of the server's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    Serving,
    /// Open requests are answered, and no new ones are taken.
    Finishing,
    /// The streams end too.
    Ended,
}

/// Marks an answer as the connection's last, once the server is stopping: the client may not know
/// yet that the connection ends, and would send another request.
pub(crate) async fn said_to_be_last(
    State(phases): State<watch::Receiver<Phase>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    if *phases.borrow() >= Phase::Finishing {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns when this phase is reached, or when the roof has let go of us: the same.
pub(crate) async fn reached(mut phases: watch::Receiver<Phase>, wanted: Phase) {
    let _ = phases.wait_for(|phase| *phase >= wanted).await;
}

/// The longest that a request may take by its own limits: to come, with its body, to be answered
/// beside what it asks to wait, and to be taken.
pub(crate) fn longest(limits: &ApiLimits) -> Duration {
    let ms = [limits.head_ms_max, limits.body_ms_max, WAIT_MS_MAX, limits.write_ms_max];
    ANSWER + ms.map(|ms| Duration::from_millis(ms.into())).iter().sum::<Duration>()
}

/// Serves until it has ended. `finished` is dropped when all that was asked is answered.
pub(crate) fn serve(
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
    phases: watch::Receiver<Phase>,
    finished: mpsc::SyncSender<()>,
) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(WAITING_THREADS_MAX).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tell!(event::API_DOES_NOT_START, %error),
    };
    let seats = shared.seats.clone();
    let ending = Arc::clone(&shared);
    let exporter = shared.settings.otlp.clone().map(|otlp| (Arc::clone(&shared), otlp));
    let recorded = Arc::clone(&shared);
    let app = router(shared).into_make_service_with_connect_info::<ApiSlot>();
    runtime.block_on(async {
        let mut serving = JoinSet::new();
        if let Some((shared, otlp)) = exporter {
            tokio::spawn(otlp::export(shared, otlp, phases.clone()));
        }
        tokio::spawn(history::record(recorded, phases.clone()));
        for listener in listeners {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => seats.listener(listener),
                Err(error) => return tell!(event::API_DOES_NOT_LISTEN, %error),
            };
            let signal = reached(phases.clone(), Phase::Finishing);
            let server = axum::serve(listener, app.clone()).with_graceful_shutdown(signal);
            serving.spawn(std::future::IntoFuture::into_future(server));
        }
        reached(phases.clone(), Phase::Finishing).await;
        let limits = ending.api_limits();
        let within = longest(&limits);
        if tokio::time::timeout(within, seats.finished()).await.is_err() {
            let within_ms = within.as_millis() as u64;
            tell!(event::API_CUT_OFF, within_ms);
        }
        drop(finished);
        reached(phases, Phase::Ended).await;
        // Only streams are left: who does not take its last events is not waited for.
        let ended = async { while serving.join_next().await.is_some() {} };
        let within = Duration::from_millis(limits.write_ms_max.into());
        if tokio::time::timeout(within, ended).await.is_err() {
            tell!(event::API_UNREAD);
        }
    });
}
