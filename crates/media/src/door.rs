//! The thread that serves the folder: connections come from listeners of others, and end here.
//!
//! The thread has a runtime of its own, so that neither a disk nor a slow peer ever blocks a shard.
//! Invariant: there are never more connections than may be; one more is not taken.

use crate::answer::Desk;
use crate::folder::Folder;
use crate::storage::{FolderSettings, folder_key};
use crate::stream::{Handed, Incoming};
use crate::tally::{MediaTally, TransferOutcome};
use crate::uploads::Uploads;
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State};
use axum::serve::IncomingStream;
use model::limits::MediaLimits;
use model::limits::seats::{NoSeat, SourceSeats};
use model::link::Source;
use model::{event, tell};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Threads that may wait for the disk.
const DISK_THREADS: usize = 4;
/// How often the folder is looked through for what is over.
const SWEEP: Duration = Duration::from_secs(600);

/// Connections that may wait for the thread: more than may have seats.
const WAITING_MAX: usize = 65_536;

/// The way in, for listeners.
#[derive(Clone)]
pub struct MediaDoor {
    to: mpsc::Sender<(Incoming, Caller)>,
    seats: Arc<SourceSeats>,
    tally: Arc<MediaTally>,
    times: Arc<RwLock<Times>>,
    desk: Arc<Desk>,
}

/// How long a connection may take.
#[derive(Clone, Copy)]
struct Times {
    /// Without progress.
    silence: Duration,
    /// In all.
    transfer: Duration,
}

impl Times {
    fn of(limits: &MediaLimits) -> Times {
        let silence = Duration::from_millis(limits.silence_ms_max.into());
        Times { silence, transfer: Duration::from_secs(limits.transfer_s_max.into()) }
    }
}

impl MediaDoor {
    /// Opens the folder, and starts the thread. `now_s` tells Unix seconds.
    pub fn open(
        settings: &FolderSettings,
        limits: &MediaLimits,
        now_s: fn() -> u64,
    ) -> io::Result<MediaDoor> {
        let folder = Folder::open(&settings.folder, settings.folder_bytes_max)?;
        let tally = Arc::new(MediaTally::default());
        let seats = SourceSeats::new(limits.transfers_max, limits.transfers_a_source_max);
        let (to, from) = mpsc::channel(WAITING_MAX);
        let uploads = Uploads::new(
            SourceSeats::new(limits.uploads_max, limits.uploads_a_source_max),
            limits.uploads_an_account_max.into(),
        );
        let key = folder_key(&settings.secret);
        let desk = Arc::new(Desk { folder, key, uploads, tally: tally.clone(), now_s });
        let times = Arc::new(RwLock::new(Times::of(limits)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(DISK_THREADS)
            .build()?;
        let (listener, serving) = (Listener { from, times: times.clone() }, desk.clone());
        thread::Builder::new().name("media".into()).spawn(move || {
            runtime.block_on(serve(listener, serving));
        })?;
        Ok(MediaDoor { to, seats, tally, times, desk })
    }

    /// Sets other limits. Transfers that exceed a lower limit stay until they end, and connections
    /// keep the times that they began with.
    pub fn set_limits(&self, limits: &MediaLimits) {
        self.seats.set_max(limits.transfers_max, limits.transfers_a_source_max);
        let most = (limits.uploads_max, limits.uploads_a_source_max);
        self.desk.uploads.set_max(most, limits.uploads_an_account_max.into());
        *self.times.write().unwrap_or_else(PoisonError::into_inner) = Times::of(limits);
    }

    /// Whether one more from there would be taken. A no is counted.
    pub fn has_room(&self, peer: SocketAddr) -> bool {
        let room = self.seats.check(Source::of(peer.ip()));
        room.map_err(|why| self.tally.count(outcome(why))).is_ok()
    }

    /// Takes a connection, or lets it go where there are too many.
    pub fn take(&self, incoming: Incoming, peer: SocketAddr) -> bool {
        let caller = Caller(Source::of(peer.ip()));
        let seat = match self.seats.take(caller.0) {
            Ok(seat) => seat,
            Err(why) => {
                self.tally.count(outcome(why));
                return false;
            }
        };
        // Whoever has the connection has both seats: the one here, and that of its listener.
        let seat = Box::new((seat, incoming.seat));
        self.to.try_send((Incoming { seat, ..incoming }, caller)).is_ok()
    }

    /// Counts of requests by their outcome.
    pub fn tally(&self) -> &MediaTally {
        &self.tally
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.desk.folder.bytes()
    }
}

async fn serve(listener: Listener, desk: Arc<Desk>) {
    tokio::spawn(sweep(desk.clone()));
    let router = Router::new().fallback(answer).with_state(desk);
    let service = router.into_make_service_with_connect_info::<Caller>();
    if let Err(error) = axum::serve(listener, service).await {
        tell!(event::MEDIA_DOOR_SHUT, %error);
    }
}

async fn answer(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(Caller(source)): ConnectInfo<Caller>,
    request: Request,
) -> axum::response::Response {
    desk.answer(source, request).await
}

/// Outcome that a lack of room is counted as.
pub(crate) fn outcome(why: NoSeat) -> TransferOutcome {
    match why {
        NoSeat::Full => TransferOutcome::Busy,
        NoSeat::SourceFull => TransferOutcome::Source,
    }
}

/// Where a connection came from.
#[derive(Clone, Copy, Debug)]
struct Caller(Source);

impl Connected<IncomingStream<'_, Listener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Caller {
        *stream.remote_addr()
    }
}

/// Removes what is over, now and then.
async fn sweep(desk: Arc<Desk>) {
    let mut failing = false;
    loop {
        let swept = desk.clone();
        let done = spawn_blocking(move || swept.folder.sweep((swept.now_s)())).await;
        match done.map_err(io::Error::other).flatten() {
            Ok(0) => failing = false,
            Ok(files) => {
                failing = false;
                tell!(event::MEDIA_FILES_OVER, files);
            }
            Err(error) if !failing => {
                failing = true;
                tell!(event::MEDIA_FILES_KEPT, %error);
            }
            Err(_) => {}
        }
        sleep(SWEEP).await;
    }
}

/// Connections that others hand over.
struct Listener {
    from: mpsc::Receiver<(Incoming, Caller)>,
    times: Arc<RwLock<Times>>,
}

impl axum::serve::Listener for Listener {
    type Io = Handed<TcpStream>;
    type Addr = Caller;

    async fn accept(&mut self) -> (Handed<TcpStream>, Caller) {
        loop {
            match self.from.recv().await {
                Some((incoming, caller)) => {
                    let times = *self.times.read().unwrap_or_else(PoisonError::into_inner);
                    match Handed::new(incoming, times.silence, times.transfer) {
                        Ok(handed) => return (handed, caller),
                        Err(error) => tell!(event::MEDIA_CONNECTION_LOST, %error),
                    }
                }
                // Nobody can hand anything over any more: the process ends.
                None => std::future::pending().await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Caller> {
        Err(ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests;
