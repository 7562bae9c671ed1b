//! Opens the listeners and the API's: those that the supervisor kept are taken first, and it
//! is given those that are opened now.
//!
//! Invariant: what the supervisor keeps is what is listened at; the rest it is told to forget.

use super::doors::TlsParts;
use super::live::listeners::{FirstListener, Listeners};
use super::supervisor::{Inherited, LifeSign};
use super::{StartError, failed};
use crate::config::{Config, ListenSection};
use model::{event, tell};
use net::layer::{ListenEndpoint, ListenerSetup};
use net::listen::{self, KeptSocket, OpenListeners, SocketFiles};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The API's name among listeners.
const API: &str = "api";

/// Open listeners.
pub(super) struct Opened {
    pub(super) listeners: OpenListeners,
    pub(super) api: Option<TcpListener>,
    /// Duplicates of the sockets, for a server that takes over and for a reload that changes them.
    pub(super) copies: Vec<KeptSocket>,
}

/// Opens a socket of each listener for each shard, and the API's where it has an address.
pub(super) fn open(
    config: &Config,
    doors: &[ListenerSetup],
    count: usize,
    inherited: Inherited,
) -> Result<Opened, StartError> {
    let Inherited { supervisor, mut sockets, taken_over } = inherited;
    let api = config.api.enabled.then_some(config.api.address);
    let api = api.map(|address| open_api(address, &mut sockets)).transpose()?;
    let user_timeout_ms = config.limits.tcp_user_timeout_ms;
    let mut open = listen::open(doors, count, user_timeout_ms, sockets).map_err(failed)?;
    for KeptSocket { name, .. } in open.unclaimed.drain(..) {
        tell!(event::SOCKET_UNCLAIMED, name);
        supervisor.tell(LifeSign::Forget(&name));
    }
    if taken_over {
        open.files.adopt(open.addresses.iter());
    }
    let mut copies = open.copies(doors).map_err(failed)?;
    if supervisor.is_there() {
        open.fresh(doors).for_each(|(name, socket)| supervisor.keep(&name, socket));
        if let Some(OpenApi { listener, is_fresh: true }) = &api {
            supervisor.keep(&listen::kept_name(API, 0), listener.as_fd());
        }
        // Whoever calls while no server is there waits at the file's socket.
        open.files.leave();
    }
    if let Some(OpenApi { listener, .. }) = &api {
        let socket = listener.try_clone().map_err(failed)?.into();
        copies.push(KeptSocket { name: listen::kept_name(API, 0), socket });
    }
    Ok(Opened { listeners: open, api: api.map(|api| api.listener), copies })
}

/// Opens what a server that takes over does not find among these sockets: what cannot be had is
/// known before anything of the running one is changed. The files of what was opened come along.
pub(super) fn complete(
    config: &Config,
    (doors, count): (&[ListenerSetup], usize),
    sockets: &mut Vec<KeptSocket>,
) -> Result<SocketFiles, StartError> {
    let api = ListenEndpoint::Tcp(config.api.address);
    if config.api.enabled && !listen::has_kept(sockets, (API, &api)) {
        let socket = bind_api(config.api.address)?.into();
        sockets.push(KeptSocket { name: listen::kept_name(API, 0), socket });
    }
    listen::complete(doors, count, config.limits.tcp_user_timeout_ms, sockets).map_err(failed)
}

/// Listeners with the socket files that they made, which go with this.
pub(super) struct FilesOfListeners(pub(super) Arc<Listeners>);

impl Drop for FilesOfListeners {
    fn drop(&mut self) {
        drop(std::mem::take(&mut *self.0.files()));
    }
}

/// The listeners that are open at the start, by their numbers.
pub(super) fn first(
    config: &Config,
    (sections, setups): (Vec<ListenSection>, Vec<Arc<ListenerSetup>>),
    (addresses, names): (impl Iterator<Item = ListenEndpoint>, impl Iterator<Item = Vec<String>>),
) -> Result<Vec<FirstListener>, StartError> {
    let all = sections.into_iter().zip(setups).zip(addresses.zip(names));
    let first = all.map(|((section, setup), (address, kept_names))| {
        let tls = TlsParts::of(config, &section)?;
        Ok(FirstListener { section, tls, setup, address, kept_names })
    });
    first.collect()
}

/// The API's listener.
struct OpenApi {
    listener: TcpListener,
    /// Whether the socket was opened now, rather than kept by the supervisor.
    is_fresh: bool,
}

fn open_api(address: SocketAddr, sockets: &mut Vec<KeptSocket>) -> Result<OpenApi, StartError> {
    let kept = listen::take_kept(sockets, (API, &ListenEndpoint::Tcp(address)));
    if let Some(socket) = kept.and_then(|kept| kept.sockets.into_iter().next()) {
        return Ok(OpenApi { listener: TcpListener::from(socket), is_fresh: false });
    }
    Ok(OpenApi { listener: bind_api(address)?, is_fresh: true })
}

fn bind_api(address: SocketAddr) -> Result<TcpListener, StartError> {
    admin::bind(address).map_err(|error| StartError(format!("api: {error}")))
}
