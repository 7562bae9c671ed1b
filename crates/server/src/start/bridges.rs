//! Bridges, and the door through which they come to our own broker.
//!
//! That door is a socket file in the data folder that only the server's own user can open. A client
//! that comes through it with the name that is derived from the cluster's secret may do everything;
//! nobody knows that name who does not have the secret. It is there only when a bridge is.

use super::StartError;
use crate::bridge::{Bridges, LocalBroker};
use crate::config::{
    self, Anonymous, Config, ListenAddress, ListenSection, ListenerProtocol, WebSocketAt,
};
use base::secret::ClusterSecret;
use std::path::Path;

/// Name of the socket file in the data folder, and of its listener.
pub(super) const FILE: &str = "bridge.sock";
const NAME: &str = "bridge";

/// The door of bridges.
#[derive(Clone)]
pub(super) struct Inside {
    listener: ListenSection,
    user: String,
}

impl Inside {
    /// The door of a server with this data folder.
    pub(super) fn of(config: &Config, secret: ClusterSecret) -> Result<Inside, StartError> {
        let data = config.server.data.canonicalize().map_err(super::failed)?;
        Ok(Inside { listener: listener(&data), user: user(secret) })
    }

    /// The configuration with the door in it, behind all others, if it has a bridge that is begun.
    pub(super) fn in_front_of(&self, config: Config) -> Config {
        let mut config = config;
        if !config.bridges.iter().any(|bridge| bridge.enabled) {
            return config;
        }
        config.listen.push(self.listener.clone());
        config.access.superusers.push(self.user.clone());
        config
    }
}

/// Has these bridges run, and those that ran and are not among them no longer.
pub(super) fn change(
    bridges: &mut Bridges,
    inside: &Inside,
    config: &Config,
) -> Result<(), StartError> {
    let ListenAddress::Unix(path) = &inside.listener.address else {
        return Err(StartError("the door of bridges is a socket file".into()));
    };
    let address = format!("unix://{}", path.display());
    let folder = path.parent().map(|data| data.join("bridges"));
    let local = LocalBroker { address, user: Some(inside.user.clone()), password: None, folder };
    bridges.change(config.bridges.clone(), &local, &config.names).map_err(StartError)
}

/// Faults of the files that a bridge names.
pub(super) fn unusable(bridge: &config::BridgeSection) -> Option<String> {
    bridge.enabled.then(|| bridge.unusable())?
}

fn listener(data: &Path) -> ListenSection {
    ListenSection {
        address: ListenAddress::Unix(data.join(FILE)),
        mode: "0600".into(),
        protocol: ListenerProtocol::Mqtt,
        web_socket: WebSocketAt::Off,
        anonymous: Anonymous::Yes,
        methods: Vec::new(),
        believe_names: true,
        ..ListenSection::named(NAME)
    }
}

/// The name that bridges come with: the same after a restart, for sessions are bound to it.
fn user(secret: ClusterSecret) -> String {
    let key = secret.key("bridge");
    let [one, other] = [b"0", b"1"].map(|word| key.of(&[word]));
    format!("bridge-{one:016x}{other:016x}")
}
