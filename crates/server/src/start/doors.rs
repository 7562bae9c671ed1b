//! Listeners: configuration's words become those of `net`, of the machines and of access.
//!
//! The order is that of the configuration, those that are not served left out: a listener's place
//! in it is its number everywhere.

use super::{StartError, chat_page, failed};
use crate::config::{Config, ListenAddress, ListenSection, ListenerProtocol, ProxyHeader, TlsMin};
use crate::machines::WIRES;
use crate::machines::{DoorProfile, ImListener, ListenerProfile, XmppListener};
use guard::Method;
use guard::scram::ScramHash;
use model::link::Protocol;
use net::layer::tls::{TlsFiles, TlsServer};
use net::layer::{ListenEndpoint, ListenerSetup};
use std::sync::Arc;

/// Reads the certificates of every listener that has TLS.
pub(super) fn load_tls(config: &Config) -> Result<Vec<(String, Arc<TlsServer>)>, StartError> {
    let with_tls = |listener: &&ListenSection| {
        listener.enabled && takes_tls(listener) && has_tls(config, listener)
    };
    let load = |listener: &ListenSection| {
        let is_own = listener.certificate.is_some();
        let of = if is_own {
            (&listener.certificate, &listener.key)
        } else {
            (&config.tls.certificate, &config.tls.key)
        };
        let (Some(certificate), Some(key)) = of else {
            return Err(StartError(format!("listen.{}: certificate without key", listener.name)));
        };
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            others: config.tls.others.iter().filter(|_| !is_own).map(Into::into).collect(),
            client_ca: listener.client_ca.clone().or_else(|| config.tls.client_ca.clone()),
            revoked: listener.revoked.clone(),
            only_1_3: listener.tls_min == TlsMin::V13,
        };
        let tls = TlsServer::of(files, listener.client_certificates, &WIRES).map_err(failed)?;
        let tls = tls.identity(listener.identity);
        Ok((listener.name.clone(), Arc::new(tls)))
    };
    config.listen.iter().filter(with_tls).map(load).collect()
}

/// A listener that tells protocols apart takes TLS too, once there is a certificate; in XMPP it
/// begins within the stream.
fn takes_tls(listener: &ListenSection) -> bool {
    listener.tls || listener.protocol.may_begin_tls()
}

fn has_tls(config: &Config, listener: &ListenSection) -> bool {
    config.tls.certificate.is_some() || listener.certificate.is_some()
}

/// The names of the listeners that are served, in order.
pub(super) fn names(config: &Config) -> impl Iterator<Item = String> {
    let served = config.listen.iter().filter(|listener| served(config, listener));
    served.map(|listener| listener.name.clone())
}

/// Whether a listener is opened: one that needs a certificate waits until there is one.
pub(super) fn served(config: &Config, listener: &ListenSection) -> bool {
    listener.enabled && (!listener.tls || has_tls(config, listener))
}

/// The listeners that are opened.
pub(super) fn doors(config: &Config, tls: &[(String, Arc<TlsServer>)]) -> Vec<ListenerSetup> {
    let served = config.listen.iter().filter(|listener| served(config, listener));
    let page: Arc<[_]> = chat_page::files().into();
    let door = |listener: &ListenSection| {
        let certificates = tls.iter().find(|(name, _)| *name == listener.name);
        ListenerSetup {
            name: listener.name.clone(),
            address: match &listener.address {
                ListenAddress::Tcp(address) => ListenEndpoint::Tcp(*address),
                ListenAddress::Unix(path) => {
                    ListenEndpoint::Unix(path.clone(), listener.file_mode())
                }
            },
            protocol: match listener.protocol {
                ListenerProtocol::Any => None,
                ListenerProtocol::Miop => Some(Protocol::Miop),
                ListenerProtocol::Mqtt => Some(Protocol::Mqtt),
                ListenerProtocol::Im => Some(Protocol::Im),
                ListenerProtocol::Xmpp => Some(Protocol::Xmpp),
                ListenerProtocol::Http => Some(Protocol::Http),
            },
            tls: certificates.map(|(_, tls)| tls.clone()),
            tls_only: listener.tls,
            paths: listener.web_socket.paths(),
            origins: listener.web_socket_origins.clone(),
            files: if gives_page(config, listener) { page.clone() } else { Arc::default() },
            handed: None,
            proxy: listener.proxy == ProxyHeader::V1V2,
            proxies: listener.proxies(),
            backlog: listener.backlog.min(i32::MAX as u32) as i32,
            connections_max: listener.connections_max,
            open: Arc::default(),
        }
    };
    served.map(door).collect()
}

/// Whether a listener gives browsers the chat page: it has what the page asks for.
pub fn gives_page(config: &Config, listener: &ListenSection) -> bool {
    let paths = listener.web_socket.paths();
    let has_im = listener.protocol != ListenerProtocol::Mqtt
        && paths.iter().any(|path| path == chat_page::SOCKET_PATH || path == "*");
    config.chat.page && has_im
}

/// How each listener takes protocols.
pub(super) fn profiles(config: &Config) -> Arc<[DoorProfile]> {
    let bind_ms_max = config.limits.bind_ms_max;
    let im = Arc::new(ImListener { bind_ms_max, domain: config.chat.domain.as_str().into() });
    let served = config.listen.iter().filter(|listener| served(config, listener));
    let has_scram = |listener: &ListenSection, hash| {
        listener.methods.contains(&Method::Scram) && config.access.scram_hashes.contains(&hash)
    };
    let profile = |listener: &ListenSection| DoorProfile {
        mqtt: ListenerProfile {
            lenient: listener.lenient,
            strict_text: config.mqtt.strict_text,
            ..ListenerProfile::strict(bind_ms_max)
        },
        im: im.clone(),
        xmpp: Arc::new(XmppListener {
            bind_ms_max,
            domain: config.chat.domain.as_str().into(),
            scram_sha_256: has_scram(listener, ScramHash::Sha256),
            scram_sha_1: has_scram(listener, ScramHash::Sha1),
            plain: listener.methods.iter().any(takes_password),
        }),
    };
    served.map(profile).collect()
}

/// Whether a way to prove who one is takes a password, or what stands for one.
fn takes_password(method: &Method) -> bool {
    matches!(method, Method::Passwords | Method::Token | Method::Http)
}
