//! Opens the listeners and the API's: those that the supervisor kept are taken first, and it
//! is given those that are opened now.
//!
//! Invariant: what the supervisor keeps is what is listened at; the rest it is told to forget.

use super::supervisor::{Inherited, LifeSign};
use super::{StartError, failed};
use crate::config::Config;
use net::layer::{ListenEndpoint, ListenerSetup};
use net::listen::{self, KeptSocket, OpenListeners};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

/// The API's name among listeners.
const API: &str = "api";

/// Opens a socket of each listener for each shard, and the API's where it has an address.
pub(super) fn open(
    config: &Config,
    doors: &[ListenerSetup],
    count: usize,
    inherited: Inherited,
) -> Result<(OpenListeners, Option<TcpListener>), StartError> {
    let Inherited { supervisor, mut sockets } = inherited;
    let api = config.api.enabled.then_some(config.api.address);
    let api = api.map(|address| open_api(address, &mut sockets)).transpose()?;
    let user_timeout_ms = config.limits.tcp_user_timeout_ms;
    let mut open = listen::open(doors, count, user_timeout_ms, sockets).map_err(failed)?;
    for KeptSocket { name, .. } in open.unclaimed.drain(..) {
        tracing::warn!(name, "a socket that was kept is no listener's any more: it is closed");
        supervisor.tell(LifeSign::Forget(&name));
    }
    if supervisor.is_there() {
        open.fresh(doors).for_each(|(name, socket)| supervisor.keep(&name, socket));
        if let Some(OpenApi { listener, is_fresh: true }) = &api {
            supervisor.keep(&listen::kept_name(API, 0), listener.as_fd());
        }
        // Whoever calls while no server is there waits at the file's socket.
        open.files.leave();
    }
    Ok((open, api.map(|api| api.listener)))
}

/// The API's listener.
struct OpenApi {
    listener: TcpListener,
    /// It was opened now: nobody has kept it.
    is_fresh: bool,
}

fn open_api(address: SocketAddr, sockets: &mut Vec<KeptSocket>) -> Result<OpenApi, StartError> {
    let kept = listen::take_kept(sockets, (API, &ListenEndpoint::Tcp(address)));
    if let Some(socket) = kept.and_then(|(_, sockets)| sockets.into_iter().next()) {
        return Ok(OpenApi { listener: TcpListener::from(socket), is_fresh: false });
    }
    let opened = admin::bind(address);
    let listener = opened.map_err(|error| StartError(format!("api: {error}")))?;
    Ok(OpenApi { listener, is_fresh: true })
}
