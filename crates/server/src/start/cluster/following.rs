//! A server that follows: its listeners are open, and send everybody to the leader.
//!
//! Each listener has a shard and a thread of its own, so that whoever answers knows through which a
//! client came. The sockets are those of a server that serves, one for each of its shards, and go
//! to it when the node leads. Invariant: between two servers of a process the sockets stay open,
//! and who connects meanwhile waits.

use super::elsewhere::{Elsewhere, ElsewhereMail, ElsewhereTally};
use super::seat::LeaderSeat;
use crate::clock;
use crate::config::Config;
use crate::start::random_word;
use crate::start::supervisor::{Inherited, LifeSign, Supervisor};
use crate::start::{StartError, doors, failed, fit_descriptors, folder, listeners, random};
use crate::takeover::{GivenListeners, Offer, TakeOverEvent};
use admin::{ClusterReading, FollowerApi, FollowerSettings, MetricReading, Readings};
use base::hash::HashKey;
use model::id::ShardId;
use model::{event, tell};
use net::Shard;
use net::epoll::Epoll;
use net::layer::{ListenEndpoint, ListenerSetup};
use net::listen::{KeptSocket, SocketFiles};
use net::mailbox::Mailbox;
use net::shard::{Census, ShardMessage, ShardMessageOf};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Messages that wait for a listener.
const MESSAGES_MAX: usize = 64;

/// Time in which a listener must answer that it turns.
const PATIENCE: Duration = Duration::from_secs(5);

type DoorMailbox = Arc<Mailbox<ShardMessageOf<Elsewhere, OwnedFd>>>;

/// A server that follows.
pub(super) struct FollowingServer {
    doors: Vec<Door>,
    files: SocketFiles,
    copies: Vec<KeptSocket>,
    api: Option<FollowerApi>,
    addresses: Vec<(String, ListenEndpoint)>,
    supervisor: Supervisor,
}

/// A listener at work.
struct Door {
    mailbox: DoorMailbox,
    thread: JoinHandle<()>,
}

/// The cluster, for the listeners and the API of a server that follows.
pub(super) struct FollowingView {
    pub(super) seat: Arc<LeaderSeat>,
    pub(super) cluster: ClusterReading,
    pub(super) readings: Readings,
}

impl FollowingServer {
    /// Opens the listeners, for a server that will have so many shards.
    pub(super) fn start(
        config: &Config,
        (shards, mut inherited): (usize, Inherited),
        view: FollowingView,
    ) -> Result<FollowingServer, StartError> {
        let mut config = config.clone();
        fit_descriptors(&mut config)?;
        let (token, _) = folder::api_token(&config)?;
        let tls = doors::load_tls(&config)?;
        let mut setups = doors::doors(&config, &tls);
        // The chat page's own socket would be refused.
        setups.iter_mut().for_each(|setup| setup.files = Arc::default());
        let supervisor = inherited.supervisor.clone();
        let known = inherited.sockets.len();
        let sockets = &mut inherited.sockets;
        let mut files = listeners::complete(&config, (&setups, shards), sockets)?;
        for KeptSocket { name, socket } in &inherited.sockets[known..] {
            supervisor.keep(name, socket.as_fd());
        }
        inherited.taken_over = true;
        let opened = listeners::open(&config, &setups, 1, inherited);
        let listeners::Opened { listeners: mut open, api, copies } = opened?;
        // They are among those that were adopted.
        files.leave();
        let tally = Arc::<ElsewhereTally>::default();
        let started = Start { config: &config, view: &view, tally: &tally };
        let sockets = open.shards.pop().unwrap_or_default();
        let doors = started.doors(setups, sockets)?;
        let names = doors::all_served(&config).into_iter().map(|listener| listener.name);
        let addresses = names.zip(open.addresses.iter().cloned()).collect();
        let api = api.map(|listener| {
            let settings = FollowerSettings {
                token,
                limits: config.api.limits.clone(),
                version: env!("CARGO_PKG_VERSION"),
                cluster: view.cluster.clone(),
                wall_ms: Arc::new(clock::wall_ms),
                readings: started.readings(),
                log_events: Arc::new(crate::log::recent::told),
            };
            admin::follow(settings, listener)
        });
        let api = api.transpose().map_err(|error| StartError(format!("api: {error}")))?;
        Ok(FollowingServer { doors, files: open.files, copies, api, addresses, supervisor })
    }

    /// Addresses of the listeners, by name, and of the API.
    pub(super) fn listening(&self) -> (&[(String, ListenEndpoint)], Option<SocketAddr>) {
        (&self.addresses, self.api.as_ref().map(FollowerApi::addr))
    }

    /// Offers its place to a process that is started to take it over, as a server that serves does.
    pub(super) fn offer_place(
        &self,
        config: &Config,
        events: &SyncSender<TakeOverEvent>,
    ) -> Result<Option<Offer>, StartError> {
        if self.supervisor.is_there() {
            return Ok(None);
        }
        let copies = crate::takeover::copies(&self.copies).map_err(failed)?;
        let offer = Offer::make(&config.server.data, GivenListeners::of(copies), events.clone());
        Ok(offer.inspect_err(|error| tell!(event::SUCCESSION_OFF, %error)).ok())
    }

    /// Tells the supervisor that the node does what it is there for.
    pub(super) fn tell_ready(&self) {
        let listeners = self.addresses.len();
        self.supervisor.tell(LifeSign::Ready(&format!("Following, at {listeners} listeners")));
    }

    /// Tells the supervisor that all listeners turn, if they do.
    pub(super) fn tell_alive(&self) {
        let (tell, told) = sync_channel(self.doors.len());
        for door in &self.doors {
            door.post(ElsewhereMail::Turns(tell.clone()));
        }
        let turn = |_: &Door| told.recv_timeout(PATIENCE).is_ok();
        if self.doors.iter().all(turn) {
            self.supervisor.tell(LifeSign::Alive("Following"));
        }
    }

    /// Answers nobody more; the sockets stay open, in the hands of whoever calls this.
    pub(super) fn move_off(mut self) -> Vec<KeptSocket> {
        self.files.leave();
        self.end();
        std::mem::take(&mut self.copies)
    }

    /// Answers nobody more, and closes the listeners.
    pub(super) fn stop(mut self) {
        self.supervisor.tell(LifeSign::Stopping("Stopping"));
        self.end();
    }

    fn end(&mut self) {
        for door in &self.doors {
            door.post(ElsewhereMail::Stop);
        }
        for door in self.doors.drain(..) {
            if door.thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "listener");
            }
        }
        if let Some(api) = self.api.take() {
            api.stop();
        }
    }
}

impl Door {
    fn post(&self, mail: ElsewhereMail) {
        self.mailbox.insist(ShardMessage::Mail(mail), || self.thread.is_finished());
    }
}

/// Shared parts of all listeners while they start.
struct Start<'a> {
    config: &'a Config,
    view: &'a FollowingView,
    tally: &'a Arc<ElsewhereTally>,
}

impl Start<'_> {
    /// A thread for each listener.
    fn doors(
        &self,
        setups: Vec<ListenerSetup>,
        sockets: Vec<Vec<OwnedFd>>,
    ) -> Result<Vec<Door>, StartError> {
        let config = self.config;
        let served = doors::all_served(config);
        let advertised = doors::advertised(config)?;
        let profiles = doors::profiles(config, &served, &advertised);
        let census = Arc::<Census>::default();
        let mut doors = Vec::new();
        for (at, (setup, sockets)) in setups.into_iter().zip(sockets).enumerate() {
            let logic = Elsewhere {
                listener: setup.name.clone(),
                redirect: served[at].redirect,
                profile: profiles[at].clone(),
                seat: self.view.seat.clone(),
                tally: self.tally.clone(),
            };
            doors.push(self.door((setup, sockets), logic, census.clone())?);
        }
        Ok(doors)
    }

    fn door(
        &self,
        (setup, sockets): (ListenerSetup, Vec<OwnedFd>),
        logic: Elsewhere,
        census: Arc<Census>,
    ) -> Result<Door, StartError> {
        let name = format!("listen-{}", setup.name);
        let settings = net::Settings {
            shard: ShardId(0),
            shards: 1,
            hash_key: HashKey::new(random_word()?, random_word()?),
            limits: Arc::new(self.config.limits.clone()),
            doors: vec![Arc::new(setup)],
            census,
            seed: random_word()?,
            secrets: random()?,
        };
        let mailbox: DoorMailbox = Mailbox::new(MESSAGES_MAX).map_err(failed)?;
        let mailboxes = Arc::new([mailbox.clone()]);
        let net = Epoll::new(ShardId(0), vec![sockets], mailboxes, clock::began());
        let mut shard = Shard::new(settings, net.map_err(failed)?, logic);
        let thread = Builder::new().name(name).spawn(move || shard.run()).map_err(failed)?;
        Ok(Door { mailbox, thread })
    }

    /// The figures of the cluster, and of who was sent elsewhere.
    fn readings(&self) -> Readings {
        let (cluster, tally) = (self.view.readings.clone(), self.tally.clone());
        Arc::new(move || {
            let reading = |name, help, value| MetricReading { name, help, value };
            let mut readings = cluster();
            readings.push(reading(
                "cluster_redirected_total",
                "Clients that this node, which follows, sent to the leader.",
                tally.redirected.load(Ordering::Relaxed),
            ));
            readings.push(reading(
                "cluster_refused_total",
                "Clients that this node, which follows, refused.",
                tally.refused.load(Ordering::Relaxed),
            ));
            readings
        })
    }
}
