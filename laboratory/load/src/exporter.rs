//! A run's figures over HTTP while it goes on, and its control for scripts.
//!
//! `GET /metrics` is Prometheus' text, `GET /status` JSON for programs; `POST` to `/add`, `/rate`,
//! `/cut`, `/pause` and `/stop` are the wishes that keys make on the screen. Axum on a thread and a
//! runtime of its own, as in `admin`. A client that may control a run can send load to anybody:
//! that needs a token, or a listener on loopback. It knows the run only by its ticks. Invariants: a
//! request never holds the run up; connections, bodies and waiting wishes are bounded.

mod answers;

use crate::run::{RunTick, Watch};
use admin::listener::{ApiSlot, DoorLimits, Seats, seated};
use lab::order::OnlookerRequest;
use lab::run::Run;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::sync::watch;

/// Connections at once, of which the oldest makes room for one more; and their times.
const LIMITS: DoorLimits = DoorLimits {
    connections_max: 32,
    connections_a_source_max: 32,
    head: Duration::from_secs(10),
    idle: Duration::from_secs(10),
    write: Duration::from_secs(30),
};
/// Wishes that wait for the run's next second, at most; one more is refused.
const WISHES_MAX: usize = 32;
/// Time that open requests have when the run is over.
const STOP: Duration = Duration::from_secs(2);

/// The exporter at work. Dropping it ends it.
pub struct Exporter {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by requests and the run.
struct Shared {
    latest: Mutex<Latest>,
    wishes: Mutex<Vec<OnlookerRequest>>,
    /// Token that control needs; `None`: none, for the listener is on loopback.
    token: Option<String>,
    /// Whether control is possible at all.
    control: bool,
}

#[derive(Clone, Default)]
struct Latest {
    tick: Option<Arc<RunTick>>,
    /// Whether the run has passed, when it is over.
    passed: Option<bool>,
}

impl Exporter {
    /// Listens and answers from now on.
    pub fn start(addr: SocketAddr, token: Option<&str>) -> Result<Exporter, String> {
        let failed = |error: std::io::Error| format!("{addr}: {error}");
        let listener = TcpListener::bind(addr).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let token = token.filter(|token| !token.is_empty()).map(str::to_owned);
        let control = token.is_some() || addr.ip().is_loopback();
        let (latest, wishes) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { latest, wishes, token, control });
        let (stop, stopped) = watch::channel(false);
        let thread = Builder::new().name("exporter".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || serve(listener, shared, stopped)
        });
        let thread = thread.map_err(failed)?;
        Ok(Exporter { addr, shared, stop, thread: Some(thread) })
    }

    /// Address that it listens at.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Watch for Exporter {
    fn tick(&mut self, tick: &RunTick) {
        self.shared.latest().tick = Some(Arc::new(tick.clone()));
    }

    fn wishes(&mut self) -> Vec<OnlookerRequest> {
        std::mem::take(&mut *self.shared.wishes())
    }

    fn done(&mut self, run: &Run) {
        self.shared.latest().passed = Some(run.passed());
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wishes(&self) -> MutexGuard<'_, Vec<OnlookerRequest>> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    // Without a runtime there is nobody to answer; the run goes on, and callers are refused.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        let listener = Seats::new(LIMITS).listener(listener);
        let mut signal = stopped.clone();
        let over = async move {
            // An error means that the run has let go of us: the same.
            let _ = signal.wait_for(|stopped| *stopped).await;
        };
        let router = answers::router(shared).layer(axum::middleware::from_fn(seated));
        let service = router.into_make_service_with_connect_info::<ApiSlot>();
        let server = axum::serve(listener, service).with_graceful_shutdown(over);
        let server = tokio::spawn(std::future::IntoFuture::into_future(server));
        let _ = stopped.wait_for(|stopped| *stopped).await; // as above
        // Whoever still has a request open after this is cut off.
        let _ = tokio::time::timeout(STOP, server).await;
    });
}

#[cfg(test)]
mod tests;
