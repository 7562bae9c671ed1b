//! Listeners: configuration's words become those of `net`, of the machines and of access.
//!
//! At the start the order is that of the configuration, those that are not served left out: a
//! listener's place in it is its number everywhere. A reload gives new listeners further numbers
//! ([`super::live::listeners`]).

use super::{StartError, chat_page, failed, random_word};
use crate::clock;
use crate::config::{Config, ListenAddress, ListenSection, ListenerProtocol, ProxyHeader, TlsMin};
use crate::machines::WIRES;
use crate::machines::{DoorProfile, ImListener, ListenerProfile, XmppListener};
use base::secret::ClusterSecret;
use federation::{Federation, FederationSettings, PeerDoor, WayOut};
use guard::Method;
use guard::scram::ScramHash;
use model::chat::foreign::ForeignDomains;
use model::link::Protocol;
use model::ports::control::Control;
use net::layer::files::StaticFile;
use net::layer::tls::{CertificateIdentity, ClientCertificates, TlsFiles, TlsServer};
use net::layer::{ListenEndpoint, ListenerSetup};
use proto_xmpp::peer::PEER_WIRE;
use proto_xmpp::server::Advertised;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Listeners with TLS, by their names.
pub(super) type ListenerTls = Vec<(String, Arc<TlsServer>)>;

/// Files and settings of a listener's TLS.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TlsParts {
    files: TlsFiles,
    client_certificates: ClientCertificates,
    identity: CertificateIdentity,
    is_for_peers: bool,
}

impl TlsParts {
    /// `None`: the listener has no TLS.
    pub(super) fn of(
        config: &Config,
        listener: &ListenSection,
    ) -> Result<Option<TlsParts>, StartError> {
        if !listener.enabled || !takes_tls(listener) || !has_tls(config, listener) {
            return Ok(None);
        }
        let is_own = listener.certificate.is_some();
        let (Some(certificate), Some(key)) =
            certificate((&listener.certificate, &listener.key), config)
        else {
            return Err(StartError(format!("listen.{}: certificate without key", listener.name)));
        };
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            others: others(config).filter(|_| !is_own).collect(),
            client_ca: listener.client_ca.clone().or_else(|| config.tls.client_ca.clone()),
            revoked: listener.revoked.clone(),
            only_1_3: listener.tls_min == TlsMin::V13,
        };
        Ok(Some(TlsParts {
            files,
            client_certificates: listener.client_certificates,
            identity: listener.identity,
            is_for_peers: listener.protocol.peers().is_some(),
        }))
    }

    /// Reads the files.
    pub(super) fn load(&self) -> Result<Arc<TlsServer>, StartError> {
        let wires: &[_] = if self.is_for_peers { &[PEER_WIRE] } else { &WIRES };
        let tls = TlsServer::of(self.files.clone(), self.client_certificates, wires);
        Ok(Arc::new(tls.map_err(failed)?.identity(self.identity)))
    }
}

/// Reads the certificates of every listener that has TLS.
pub(super) fn load_tls(config: &Config) -> Result<ListenerTls, StartError> {
    let load = |listener: &ListenSection| {
        let parts = TlsParts::of(config, listener)?;
        parts.map(|parts| Ok((listener.name.clone(), parts.load()?))).transpose()
    };
    config.listen.iter().filter_map(|listener| load(listener).transpose()).collect()
}

/// Certificates beside that of all, with their keys.
fn others(config: &Config) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let of_all = config.tls.others.iter().map(|file| (file.into(), file.into()));
    of_all.chain(config.domains.iter().filter_map(|domain| domain.certificate()))
}

/// A certificate with its key, PEM files: one's own, or that of all.
fn certificate<'a>(
    own: (&'a Option<PathBuf>, &'a Option<PathBuf>),
    config: &'a Config,
) -> (&'a Option<PathBuf>, &'a Option<PathBuf>) {
    match own.0 {
        Some(_) => own,
        None => (&config.tls.certificate, &config.tls.key),
    }
}

/// A listener that tells protocols apart takes TLS too, once there is a certificate; in XMPP it
/// begins within the stream.
fn takes_tls(listener: &ListenSection) -> bool {
    listener.tls || listener.protocol.may_begin_tls()
}

fn has_tls(config: &Config, listener: &ListenSection) -> bool {
    config.tls.certificate.is_some() || listener.certificate.is_some()
}

/// The listeners that are served, in order.
pub(super) fn all_served(config: &Config) -> Vec<ListenSection> {
    config.listen.iter().filter(|listener| served(config, listener)).cloned().collect()
}

/// Whether a listener is opened: one that needs a certificate waits until there is one, one for
/// other domains until there are such.
pub(super) fn served(config: &Config, listener: &ListenSection) -> bool {
    let has_peers = match listener.protocol.peers() {
        Some(PeerDoor::Server) => config.federation.enabled,
        Some(PeerDoor::Component) => !config.components.is_empty(),
        None => true,
    };
    listener.enabled && has_peers && (!listener.tls || has_tls(config, listener))
}

/// Which domains are whose.
pub(super) fn foreign_domains(config: &Config) -> ForeignDomains {
    ForeignDomains {
        own: config.chat.domain.as_str().into(),
        others: config.domains.iter().map(|it| it.domain.as_str().into()).collect(),
        components: config.components.iter().map(|it| it.domain.as_str().into()).collect(),
        federates: config.federation.enabled,
    }
}

/// Facts about the server that clients of XMPP get.
pub(super) fn advertised(config: &Config) -> Result<Arc<Advertised>, StartError> {
    let services = config.services.iter().map(|service| service.told());
    let services = services.collect::<Result<_, String>>().map_err(StartError)?;
    Ok(Arc::new(Advertised::new(config.contacts.told(), services)))
}

/// Other domains, before their shard is started.
pub(super) struct Peers {
    settings: FederationSettings,
    pub(super) way: WayOut,
}

impl Peers {
    /// The peers of a configuration. Takes their listeners out of `sockets`, so that no other shard
    /// has them. `None`: there are no other domains.
    pub(super) fn of(
        config: &Config,
        (secret, advertised): (ClusterSecret, &Arc<Advertised>),
        doors: &[ListenerSetup],
        sockets: &mut [Vec<Vec<OwnedFd>>],
    ) -> Result<Option<Peers>, StartError> {
        let domains = foreign_domains(config);
        if !domains.is_any() {
            return Ok(None);
        }
        let served = config.listen.iter().filter(|listener| served(config, listener));
        let kinds = served.map(|listener| listener.protocol.peers());
        let mut of_door = |at: usize, kind: Option<PeerDoor>| -> Vec<OwnedFd> {
            let all = sockets.iter_mut().filter(|_| kind.is_some());
            all.flat_map(|shard| std::mem::take(&mut shard[at])).collect()
        };
        let doors = doors.iter().zip(kinds).enumerate().map(|(at, (door, kind))| {
            let sockets = of_door(at, kind);
            (Arc::new(door.clone()), kind, sockets)
        });
        let doors = doors.collect();
        let secrets = config
            .components
            .iter()
            .map(|component| Ok((component.domain.as_str().into(), component.read_secret()?)));
        let of = &config.federation;
        let (certificate, its_key) = certificate((&of.certificate, &of.key), config);
        let usual = certificate.clone().zip(its_key.clone());
        let of_domain = |domain: &str, own: Option<(PathBuf, PathBuf)>| {
            let (certificate, key) = own.or_else(|| usual.clone())?;
            Some((domain.into(), certificate, key))
        };
        let more = config.domains.iter().map(|it| of_domain(&it.domain, it.certificate()));
        let first = of_domain(&config.chat.domain, None);
        let certificates = [first].into_iter().chain(more).flatten().collect();
        let key = secret.key("dialback");
        let words = [b"0", b"1", b"2", b"3"].map(|word| key.of(&[word]).to_be_bytes());
        let limits = &of.limits;
        let settings = FederationSettings {
            section: of.clone(),
            components: secrets.collect::<Result<_, String>>().map_err(StartError)?,
            domains: Arc::new(domains),
            takes_files: config.media.is_on(),
            advertised: advertised.clone(),
            certificates,
            secret: words.concat(),
            limits: config.limits.clone(),
            random: [random_word()?, random_word()?, random_word()?],
            drawn: super::random()?,
            began: clock::began(),
            doors,
        };
        Ok(Some(Peers { settings, way: WayOut::new(limits.handed_bytes_max).map_err(failed)? }))
    }

    /// Starts their shard.
    pub(super) fn start(
        self,
        control: Arc<dyn Control + Send + Sync>,
        config: &Config,
    ) -> Result<Federation, StartError> {
        federation::start(self.settings, self.way, control, &config.names).map_err(StartError)
    }
}

/// Faults of the files that components, services and platforms name.
pub(super) fn unusable(config: &Config) -> impl Iterator<Item = String> {
    let components = config.components.iter().filter_map(|it| it.read_secret().err());
    let services = config.services.iter().filter_map(|it| it.told().err());
    let platforms = config.platforms.iter().filter_map(|it| it.settings().err());
    components.chain(services).chain(platforms)
}

/// The listeners that are opened.
pub(super) fn doors(config: &Config, tls: &[(String, Arc<TlsServer>)]) -> Vec<ListenerSetup> {
    let served = config.listen.iter().filter(|listener| served(config, listener));
    let page: Arc<[_]> = chat_page::files().into();
    let door = |listener: &ListenSection| {
        let certificates = tls.iter().find(|(name, _)| *name == listener.name);
        let page = if gives_page(config, listener) { page.clone() } else { Arc::default() };
        setup(listener, certificates.map(|(_, tls)| tls.clone()), page)
    };
    served.map(door).collect()
}

/// A listener as its section has it, with its TLS and with files for browsers.
pub(super) fn setup(
    listener: &ListenSection,
    tls: Option<Arc<TlsServer>>,
    files: Arc<[StaticFile]>,
) -> ListenerSetup {
    ListenerSetup {
        name: listener.name.as_str().into(),
        address: match &listener.address {
            ListenAddress::Tcp(address) => ListenEndpoint::Tcp(*address),
            ListenAddress::Unix(path) => ListenEndpoint::Unix(path.clone(), listener.file_mode()),
        },
        protocol: match listener.protocol {
            ListenerProtocol::Any => None,
            ListenerProtocol::Miop => Some(Protocol::Miop),
            ListenerProtocol::Mqtt => Some(Protocol::Mqtt),
            ListenerProtocol::Im => Some(Protocol::Im),
            ListenerProtocol::Xmpp
            | ListenerProtocol::XmppServer
            | ListenerProtocol::XmppComponent => Some(Protocol::Xmpp),
            ListenerProtocol::Http => Some(Protocol::Http),
        },
        tls,
        tls_only: listener.tls,
        paths: listener.web_socket.paths(),
        origins: listener.web_socket_origins.clone(),
        files,
        handed: Vec::new(),
        proxy: listener.proxy == ProxyHeader::V1V2,
        proxies: listener.proxies(),
        backlog: listener.backlog.min(i32::MAX as u32) as i32,
        connections_max: listener.connections_max,
        open: Arc::default(),
    }
}

/// Whether a listener gives browsers the chat page: it has what the page asks for.
pub fn gives_page(config: &Config, listener: &ListenSection) -> bool {
    let paths = listener.web_socket.paths();
    let has_im = listener.protocol != ListenerProtocol::Mqtt
        && paths.iter().any(|path| path == chat_page::SOCKET_PATH || path == "*");
    config.chat.page && has_im
}

/// How each of these listeners takes protocols.
pub(super) fn profiles(
    config: &Config,
    listeners: &[ListenSection],
    advertised: &Arc<Advertised>,
) -> Arc<[DoorProfile]> {
    let bind_ms_max = config.limits.bind_ms_max;
    let im = Arc::new(ImListener { bind_ms_max, domain: config.chat.domain.as_str().into() });
    let domains = Arc::new(foreign_domains(config));
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
            domains: domains.clone(),
            registration: config.chat.registration,
            scram_sha_256: has_scram(listener, ScramHash::Sha256),
            scram_sha_1: has_scram(listener, ScramHash::Sha1),
            plain: listener.methods.iter().any(takes_password),
            certificates: listener.methods.contains(&Method::Certificate),
            guests: listener.methods.contains(&Method::Anonymous),
            fast: listener.methods.contains(&Method::Passwords)
                || has_scram(listener, ScramHash::Sha256)
                || has_scram(listener, ScramHash::Sha1),
            advertised: advertised.clone(),
        }),
    };
    listeners.iter().map(profile).collect()
}

/// Whether a way to prove who one is takes a password, or what stands for one.
fn takes_password(method: &Method) -> bool {
    matches!(method, Method::Passwords | Method::Token | Method::Ldap | Method::Http)
}
