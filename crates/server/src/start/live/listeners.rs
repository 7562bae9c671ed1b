//! Listeners of a running server: a reload adds, changes and closes them.
//!
//! A listener has a number, which its connections carry, so it keeps the number as long as it has
//! connections, closed or not; a listener that comes back gets its old one. A reload first makes a
//! [`ListenerPlan`], which opens all new sockets and reads all new certificates: if one of them
//! fails, nothing has changed. Carried out, the plan hands each shard its changes, in their order,
//! and waits until the shards have made them. Sockets for other servers and for components
//! belong to the shard of federation, which gets every change, too: numbers follow one another.
//!
//! Invariant: no socket of a listener that is closed stays open in this process, in its supervisor,
//! or among the copies for a server that takes over, from which a new connection would wait for
//! nobody.

use super::super::bosh::Bosh;
use super::super::doors::{self, ListenerTls, TlsParts};
use super::super::storage::insist;
use super::super::storage::media::Media;
use super::super::supervisor::{LifeSign, Supervisor};
use super::super::{ServerOutside, StartError, chat_page, gives_page};
use super::listener_draft::{Draft, DraftStep, overlap};
use super::lock;
use crate::config::{Config, ListenSection};
use crate::machines::DoorProfile;
use crate::shard_logic::Mail;
use crate::switchboard::Mailboxes;
use crate::takeover::{Given, GivenListeners, ListenerHold};
use ::bosh::BoshListener;
use federation::{PeerDoor, WayOut};
use model::id::ShardId;
use model::{event, tell};
use net::layer::{ListenEndpoint, ListenerSetup};
use net::listen::{self, ListenError, OpenListener, SocketFiles};
use net::shard::ListenerChange;
use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Time in which shards carry out a change before a reload answers that they still do.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Parts of the server that new listeners need, and those that a change of listeners updates.
pub(in crate::start) struct Surroundings {
    pub(in crate::start) boxes: Mailboxes<ServerOutside>,
    /// The shards have ended.
    pub(in crate::start) over: Arc<AtomicBool>,
    pub(in crate::start) bosh: Arc<Bosh>,
    /// The way to the shard of other servers and components, if there is one.
    pub(in crate::start) federation: Option<WayOut>,
    pub(in crate::start) media: Option<Media>,
    pub(in crate::start) supervisor: Supervisor,
    /// Copies of the sockets, for a server that takes over.
    pub(in crate::start) copies: Given,
}

/// A listener that was opened at the start.
pub(in crate::start) struct FirstListener {
    pub(in crate::start) section: ListenSection,
    pub(in crate::start) tls: Option<TlsParts>,
    pub(in crate::start) setup: Arc<ListenerSetup>,
    pub(in crate::start) address: ListenEndpoint,
    /// Names under which its sockets are kept.
    pub(in crate::start) kept_names: Vec<String>,
}

/// The listeners of a server.
pub(in crate::start) struct Listeners {
    around: Surroundings,
    places: Mutex<Vec<Place>>,
    files: Mutex<SocketFiles>,
}

/// A listener by its number.
pub(super) struct Place {
    pub(super) section: ListenSection,
    pub(super) tls: Option<TlsParts>,
    setup: Arc<ListenerSetup>,
    pub(super) address: ListenEndpoint,
    kept_names: Vec<String>,
    pub(super) is_open: bool,
    /// Disconnected once no shard has a socket of it any more.
    closing: Option<Receiver<Infallible>>,
}

impl Place {
    /// Whether its number can be given to another listener.
    pub(super) fn is_free(&self) -> bool {
        let is_closed =
            |closing: &Receiver<Infallible>| closing.try_recv() == Err(TryRecvError::Disconnected);
        let closed = !self.is_open && self.closing.as_ref().is_some_and(is_closed);
        closed && self.setup.open.open() == 0
    }

    /// Whether another process opened its socket and chose the address.
    pub(super) fn is_handed(&self) -> bool {
        self.kept_names.contains(&self.section.name)
    }
}

/// Step of a plan: what a listener becomes.
struct Step {
    number: usize,
    section: ListenSection,
    tls: Option<TlsParts>,
    setup: Arc<ListenerSetup>,
    bosh: BoshListener,
    /// Its new sockets; without them it keeps those it has.
    opened: Option<OpenListener>,
}

/// Changes of the listeners by a reload.
pub(in crate::start) struct ListenerPlan<'a> {
    /// No server takes over before the plan is carried out or dropped.
    copies: MutexGuard<'a, GivenListeners>,
    steps: Vec<Step>,
    /// Numbers of those that close.
    closing: Vec<usize>,
    /// All listeners by their numbers, as they are with the plan, those included that are closed.
    pub(in crate::start) sections: Vec<ListenSection>,
}

impl Listeners {
    pub(in crate::start) fn new(
        around: Surroundings,
        first: Vec<FirstListener>,
        files: SocketFiles,
    ) -> Listeners {
        let place = |first: FirstListener| {
            let FirstListener { section, tls, setup, address, kept_names } = first;
            Place { section, tls, setup, address, kept_names, is_open: true, closing: None }
        };
        let places = first.into_iter().map(place).collect();
        Listeners { around, places: Mutex::new(places), files: Mutex::new(files) }
    }

    /// Files, BOSH and federation have these limits from now on.
    pub(in crate::start) fn set_limits(&self, config: &Config) {
        let Surroundings { media, bosh, federation, over, .. } = &self.around;
        media.iter().for_each(|media| media.set_limits(&config.limits.media));
        bosh.set_limits(config);
        if let Some(federation) = federation {
            federation.set_limits(&config.federation.limits, &config.limits, over);
        }
    }

    /// The name of each open listener, with its address.
    pub(in crate::start) fn listening(&self) -> Vec<(String, ListenEndpoint)> {
        let places = lock(&self.places);
        let open = places.iter().filter(|place| place.is_open);
        open.map(|place| (place.section.name.clone(), place.address.clone())).collect()
    }

    /// Open listeners with TLS.
    pub(in crate::start) fn tls(&self) -> ListenerTls {
        let places = lock(&self.places);
        let tls = |place: &Place| Some((place.section.name.clone(), place.setup.tls.clone()?));
        places.iter().filter(|place| place.is_open).filter_map(tls).collect()
    }

    /// Socket files, which are removed when the server ends.
    pub(in crate::start) fn files(&self) -> MutexGuard<'_, SocketFiles> {
        lock(&self.files)
    }

    /// Plans the changes for this configuration: opens sockets and reads certificates. An error, in
    /// words, has changed nothing.
    pub(in crate::start) fn plan(&self, config: &Config) -> Result<ListenerPlan<'_>, String> {
        let copies = lock(&self.around.copies);
        let places = lock(&self.places);
        let mut draft = Draft::of(&places, config)?;
        if !draft.steps.is_empty() || !draft.closing.is_empty() {
            match copies.hold {
                ListenerHold::Free => {}
                ListenerHold::Asked => {
                    return Err("another server is about to take over, and listeners do not \
                                change meanwhile: reload again if it does not start"
                        .into());
                }
                ListenerHold::Gone => return Err("the server is stopping".into()),
            }
        }
        let steps = std::mem::take(&mut draft.steps).into_iter();
        let steps = steps.map(|step| self.prepare(&places, config, (&draft, step)));
        let steps = steps.collect::<Result<_, String>>()?;
        let Draft { closing, sections, .. } = draft;
        Ok(ListenerPlan { copies, steps, closing, sections })
    }

    /// Why listeners of this configuration could not be opened, a sentence each. Certificates are
    /// not read, and nothing is opened.
    pub(in crate::start) fn problems(&self, config: &Config) -> Vec<String> {
        let draft = match Draft::of(&lock(&self.places), config) {
            Ok(draft) => draft,
            Err(error) => return vec![error],
        };
        let opening = draft.steps.iter().filter(|step| step.opens);
        let problem = |step: &DraftStep| {
            let setup = doors::setup(&step.section, None, Arc::default());
            match beside(&draft, &setup.address) {
                true => exchanged(&step.section, &setup.address).err(),
                false => listen::check(&setup).err().map(|e| unopened(&step.section, &setup, e)),
            }
        };
        opening.filter_map(problem).collect()
    }

    /// A plan that changes nothing.
    pub(in crate::start) fn no_plan(&self) -> ListenerPlan<'_> {
        let copies = lock(&self.around.copies);
        let sections = lock(&self.places).iter().map(|place| place.section.clone()).collect();
        ListenerPlan { copies, steps: Vec::new(), closing: Vec::new(), sections }
    }

    fn prepare(
        &self,
        places: &[Place],
        config: &Config,
        (draft, step): (&Draft, DraftStep),
    ) -> Result<Step, String> {
        let DraftStep { number, section, tls, opens } = step;
        let told = |error: StartError| format!("[listen.{}]: {error}", section.name);
        // The number may have been that of a listener that is gone.
        let place = places.get(number).filter(|place| place.section.name == section.name);
        let same = place.filter(|it| it.tls == tls).and_then(|it| it.setup.tls.clone());
        let server = match (&tls, same) {
            (Some(parts), None) => Some(parts.load().map_err(told)?),
            (_, same) => same,
        };
        let page = if gives_page(config, &section) { chat_page::files() } else { Vec::new() };
        let mut setup = doors::setup(&section, server, page.into());
        if let Some(place) = place {
            setup.open = place.setup.open.clone();
        }
        self.around.media.iter().for_each(|media| media.furnish(&mut setup));
        let bosh = self.around.bosh.furnish(config, (number as u8, &section), &mut setup);
        let bosh = bosh.map_err(told)?;
        let beside = beside(draft, &setup.address);
        if beside && opens {
            exchanged(&section, &setup.address)?;
        }
        let settings = (self.around.boxes.len(), config.limits.tcp_user_timeout_ms);
        let opened = opens.then(|| listen::open_one(&setup, settings, beside)).transpose();
        let opened = opened.map_err(|error| unopened(&section, &setup, error))?;
        Ok(Step { number, section, tls, setup: Arc::new(setup), bosh, opened })
    }

    /// Carries out a plan; `profiles` are how the listeners take protocols, by their numbers.
    /// Returns what did not succeed, a sentence each.
    pub(in crate::start) fn carry_out(
        &self,
        plan: ListenerPlan<'_>,
        profiles: &Arc<[DoorProfile]>,
    ) -> Vec<String> {
        let ListenerPlan { mut copies, steps, closing, .. } = plan;
        if steps.is_empty() && closing.is_empty() {
            return Vec::new();
        }
        let mut orders = Orders::new(self.around.boxes.len());
        let mut wrong = Vec::new();
        let mut places = lock(&self.places);
        for &number in &closing {
            let place = &mut places[number];
            self.forget(place, &mut copies);
            place.is_open = false;
            let (listener, address) = (&*place.section.name, &place.address);
            let connections = place.setup.open.open();
            tell!(event::LISTENER_CLOSED, listener, %address, connections);
            let none = of_each_shard(self.around.boxes.iter().map(|_| Vec::new()).collect(), None);
            orders.add((number, place.section.protocol.peers()), &place.setup, none);
        }
        for step in steps {
            self.take_step(&mut places, step, &mut copies, (&mut orders, &mut wrong));
        }
        drop((places, copies));
        let Orders { of_shards, of_peers, mut receivers } = orders;
        match &self.around.federation {
            Some(federation) => federation.change_listeners(of_peers, &self.around.over),
            // With them go their halves of what is waited for.
            None => drop(of_peers),
        }
        for (shard, changes) in of_shards.into_iter().enumerate() {
            let mail = Mail::Listeners(profiles.clone(), changes);
            insist(&self.around.boxes, ShardId(shard as u16), mail, &self.around.over);
        }
        if !until_done(&receivers) {
            wrong.push("a shard is busy: it follows when it is less busy".into());
        }
        let mut places = lock(&self.places);
        for number in closing {
            let at = receivers.iter().position(|(of, _)| *of == number);
            places[number].closing = at.map(|at| receivers.swap_remove(at).1);
        }
        wrong
    }

    fn take_step(
        &self,
        places: &mut Vec<Place>,
        step: Step,
        copies: &mut GivenListeners,
        (orders, wrong): (&mut Orders, &mut Vec<String>),
    ) {
        let Step { number, section, tls, setup, bosh, opened } = step;
        self.around.bosh.serve(number as u8, bosh);
        let is_new = places.get(number).is_none_or(|place| !place.is_open);
        let mut place = Place {
            section,
            tls,
            setup: setup.clone(),
            address: setup.address.clone(),
            kept_names: Vec::new(),
            is_open: true,
            closing: None,
        };
        if let Some(before) = places.get_mut(number) {
            if opened.is_none() {
                place.address = before.address.clone();
                place.kept_names = std::mem::take(&mut before.kept_names);
            } else if before.is_open {
                self.forget(before, copies);
            }
        }
        let kind = place.section.protocol.peers();
        let sockets = match opened {
            Some(opened) => {
                place.address = opened.address;
                self.keep(&mut place, opened.copies, copies);
                self.files().add(opened.files);
                of_each_shard(opened.shards, kind)
            }
            None => {
                let its = copies.sockets.iter().filter(|it| place.kept_names.contains(&it.name));
                let adjusted = listen::adjust(&setup, its.map(|it| &it.socket));
                wrong.extend(adjusted.err().map(|error| error.to_string()));
                (0..=self.around.boxes.len()).map(|_| None).collect()
            }
        };
        if is_new {
            let (listener, address) = (&*place.section.name, &place.address);
            tell!(event::LISTENER_OPENED, listener, %address);
        }
        orders.add((number, kind), &setup, sockets);
        match places.get_mut(number) {
            Some(before) => *before = place,
            None => places.push(place),
        }
    }

    /// Sockets of a listener are kept, by the supervisor and for a server that takes over.
    fn keep(
        &self,
        place: &mut Place,
        sockets: Vec<listen::KeptSocket>,
        copies: &mut GivenListeners,
    ) {
        place.kept_names = sockets.iter().map(|socket| socket.name.clone()).collect();
        for kept in &sockets {
            self.around.supervisor.keep(&kept.name, kept.socket.as_fd());
        }
        copies.sockets.extend(sockets);
    }

    /// Has the supervisor drop the sockets of a place, and removes its file.
    fn forget(&self, place: &mut Place, copies: &mut GivenListeners) {
        let names = std::mem::take(&mut place.kept_names);
        copies.sockets.retain(|socket| !names.contains(&socket.name));
        names.iter().for_each(|name| self.around.supervisor.tell(LifeSign::Forget(name)));
        if let ListenEndpoint::Unix(path, _) = &place.address {
            self.files().remove(path);
        }
    }
}

/// Whether a listener that is about to close may have this address.
fn beside(draft: &Draft, address: &ListenEndpoint) -> bool {
    draft.leaving.iter().any(|at| overlap(at, address))
}

/// A port passes from one listener to another, a file does not.
fn exchanged(section: &ListenSection, address: &ListenEndpoint) -> Result<(), String> {
    match address {
        ListenEndpoint::Tcp(_) => Ok(()),
        ListenEndpoint::Unix(..) => Err(format!(
            "[listen.{}] address = {address}: another listener has this file until it is closed; \
             reload without this section first",
            section.name
        )),
    }
}

fn unopened(section: &ListenSection, setup: &ListenerSetup, error: ListenError) -> String {
    format!("[listen.{}] address = {}: {error}", section.name, setup.address)
}

/// Sockets of a listener for each shard and, last, for that of other servers.
fn of_each_shard(
    mut shards: Vec<Vec<OwnedFd>>,
    kind: Option<PeerDoor>,
) -> Vec<Option<Vec<OwnedFd>>> {
    let peers = match kind {
        Some(_) => shards.iter_mut().flat_map(std::mem::take).collect(),
        None => Vec::new(),
    };
    shards.into_iter().chain([peers]).map(Some).collect()
}

/// Changes for each shard, with how it is known that they are made.
struct Orders {
    of_shards: Vec<Vec<ListenerChange>>,
    /// For the shard of other servers and components.
    of_peers: Vec<(ListenerChange, Option<PeerDoor>)>,
    receivers: Vec<(usize, Receiver<Infallible>)>,
}

impl Orders {
    fn new(shards: usize) -> Orders {
        let of_shards = (0..shards).map(|_| Vec::new()).collect();
        Orders { of_shards, of_peers: Vec::new(), receivers: Vec::new() }
    }

    /// A change of this listener, with what becomes of the sockets of each shard, the last of which
    /// is that of other servers.
    fn add(
        &mut self,
        (number, kind): (usize, Option<PeerDoor>),
        setup: &Arc<ListenerSetup>,
        mut sockets: Vec<Option<Vec<OwnedFd>>>,
    ) {
        let (done, is_done) = sync_channel(0);
        let change = |sockets| {
            let (door, setup, done) = (number as u8, setup.clone(), done.clone());
            ListenerChange { door, setup, sockets, done }
        };
        self.of_peers.push((change(sockets.pop().flatten()), kind));
        for (changes, sockets) in self.of_shards.iter_mut().zip(sockets) {
            changes.push(change(sockets));
        }
        self.receivers.push((number, is_done));
    }
}

/// Waits until the shards have carried out everything; false: some have not.
fn until_done(receivers: &[(usize, Receiver<Infallible>)]) -> bool {
    let mut patience = PATIENCE;
    for (_, receiver) in receivers {
        if receiver.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            patience = Duration::ZERO;
        }
    }
    patience > Duration::ZERO
}
