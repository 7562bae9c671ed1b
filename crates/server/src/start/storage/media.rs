//! Media: the storage that chat gives leave for, and the folder behind the listeners.
//!
//! The shards hand over connections that ask for a file; here those of `net` become those of
//! `media`, with their TLS.

use crate::clock;
use crate::config::media::{SECRET_FILE_BYTES_MAX, is_plain};
use crate::config::{Config, ListenSection};
use crate::start::{StartError, doors, random};
use base::secret::ClusterSecret;
use media::{
    AddressSigner, BucketSettings, Cipher, FolderSettings, Incoming, MediaDoor, StorageSettings,
};
use model::limits::MediaLimits;
use net::layer::files::StaticFile;
use net::layer::handing::{HandedPaths, HandedStream, StreamTaker};
use net::layer::tls::TlsSession;
use net::layer::{Flow, ListenEndpoint, ListenerSetup};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Media of a server.
pub(in crate::start) struct Media {
    /// The storage that addresses are made for.
    pub(in crate::start) storage: Arc<AddressSigner>,
    /// The way into the folder, if that is where files are.
    pub(in crate::start) door: Option<MediaDoor>,
    /// Scheme and host where browsers get files.
    origins: Vec<String>,
}

impl Media {
    /// Opens what is configured; `None`: nothing. `addresses` are those of the listeners that are
    /// served, in order.
    pub(in crate::start) fn open(
        config: &Config,
        secret: ClusterSecret,
        addresses: &[ListenEndpoint],
    ) -> Result<Option<Media>, StartError> {
        let section = &config.media;
        if !section.is_on() {
            return Ok(None);
        }
        let (settings, door) = match &section.folder {
            Some(folder) => {
                let url = match section.url.is_empty() {
                    true => usual_url(config, addresses)?,
                    false => section.url.clone(),
                };
                let (folder, folder_bytes_max) = (folder.clone(), section.folder_bytes_max);
                let settings = FolderSettings { folder, folder_bytes_max, url, secret };
                let now_s = || clock::wall_ms() / 1_000;
                let door = MediaDoor::open(&settings, &config.limits.media, now_s);
                let door = door.map_err(|error| {
                    StartError(format!("media.folder {}: {error}", settings.folder.display()))
                })?;
                (StorageSettings::Folder(settings), Some(door))
            }
            None => (StorageSettings::Bucket(bucket(config)?), None),
        };
        let origins = match &settings {
            StorageSettings::Folder(settings) => vec![media::origin(&settings.url)],
            StorageSettings::Bucket(settings) => settings.origins(),
        };
        let storage = Arc::new(AddressSigner::new(settings, &config.limits.media, random()?));
        Ok(Some(Media { storage, door, origins }))
    }

    /// Sets other limits.
    pub(in crate::start) fn set_limits(&self, limits: &MediaLimits) {
        self.storage.set_limits(limits);
        if let Some(door) = &self.door {
            door.set_limits(limits);
        }
    }

    /// Lets a listener give what belongs to it: the folder, and a page that reaches the storage.
    pub(in crate::start) fn furnish(&self, door: &mut ListenerSetup) {
        let reaching = |file: &StaticFile| file.clone().reaching(&self.origins);
        door.files = door.files.iter().map(reaching).collect();
        if let Some(into) = self.door.clone().filter(|_| !door.paths.is_empty()) {
            let taker = Arc::new(Taker(into));
            door.handed.push(HandedPaths { prefix: media::PATH.into(), taker });
        }
    }
}

/// Where the first listener that takes HTTP is reached, as far as that is known here.
fn usual_url(config: &Config, addresses: &[ListenEndpoint]) -> Result<String, StartError> {
    let served = config.listen.iter().filter(|listener| doors::served(config, listener));
    let mut with: Vec<(&ListenSection, &ListenEndpoint)> = served.zip(addresses).collect();
    with.retain(|(listener, at)| {
        !listener.web_socket.paths().is_empty() && matches!(at, ListenEndpoint::Tcp(_))
    });
    with.sort_by_key(|(listener, _)| (!doors::gives_page(config, listener), !listener.tls));
    let Some((listener, ListenEndpoint::Tcp(address))) = with.first() else {
        let why = "media.folder: no WebSocket listener serves its files; set media.url";
        return Err(StartError(why.into()));
    };
    let scheme = if listener.tls { "https" } else { "http" };
    Ok(match address.ip().is_unspecified() {
        true => format!("{scheme}://{}:{}", config.chat.domain, address.port()),
        false => format!("{scheme}://{address}"),
    })
}

fn bucket(config: &Config) -> Result<BucketSettings, StartError> {
    let section = &config.media;
    let secret_key = match &section.s3_secret_key_file {
        Some(path) => read_secret(path)?,
        None => section.s3_secret_key.reveal().to_owned(),
    };
    Ok(BucketSettings {
        endpoint: section.s3_endpoint.clone(),
        region: section.s3_region.clone(),
        bucket: section.s3_bucket.clone(),
        is_path_style: section.s3_path_style,
        access_key: section.s3_access_key.clone(),
        secret_key,
        public_url: section.s3_public_url.clone(),
    })
}

fn read_secret(path: &Path) -> Result<String, StartError> {
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(SECRET_FILE_BYTES_MAX).read_to_string(&mut text));
    let named =
        |why: &str| StartError(format!("media.s3_secret_key_file {}: {why}", path.display()));
    read.map_err(|error| named(&error.to_string()))?;
    let secret = text.trim_end();
    match !secret.is_empty() && is_plain(secret) {
        true => Ok(secret.to_owned()),
        false => Err(named("holds no secret of up to 256 visible characters")),
    }
}

/// Why the secret of the bucket cannot be used, if it is in a file.
pub(in crate::start) fn unusable(config: &Config) -> Option<String> {
    let path = config.media.s3_secret_key_file.as_ref()?;
    read_secret(path).err().map(|error| error.to_string())
}

/// Takes what the shards hand over.
struct Taker(MediaDoor);

impl StreamTaker for Taker {
    fn has_room(&self, peer: SocketAddr) -> bool {
        self.0.has_room(peer)
    }

    fn take(&self, stream: HandedStream) -> bool {
        let peer = stream.peer;
        self.0.take(incoming(stream), peer)
    }
}

/// A connection that a shard hands over, as those take it that serve HTTP.
pub(in crate::start) fn incoming(stream: HandedStream) -> Incoming {
    let HandedStream { socket, tls, said, unsent, place, .. } = stream;
    let cipher = tls.map(|tls| Box::new(Tls(tls)) as Box<dyn Cipher>);
    Incoming { socket, cipher, said, unsent, seat: Box::new(place) }
}

/// TLS of a connection that was handed over.
struct Tls(Box<TlsSession>);

impl Cipher for Tls {
    fn receive(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let flow = self.0.receive(bytes, plain, out).map_err(|_| broken())?;
        Ok(flow != Flow::Ended)
    }

    fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.0.send(plain, out).map_err(|_| broken())
    }

    fn farewell(&mut self, out: &mut Vec<u8>) {
        self.0.farewell(out);
    }
}

fn broken() -> io::Error {
    ErrorKind::InvalidData.into()
}
