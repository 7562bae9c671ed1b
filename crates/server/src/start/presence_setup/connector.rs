//! Directories as they are configured.
//!
//! Several connections to the same one: the replicator's, and the queries' own. Files of
//! certificates are read here; nobody is called before the first use, so that a server starts
//! though its directory is away. Invariant: what it says of a wrong setting has no password in it.

use crate::clock;
use crate::config::{self, DirectoryAt};
use directory::{Redis, RedisTls, Settings, Stream};
use model::ports::presence::directory::{
    Batch, Directory, DirectoryEntry, DirectoryError, EventStream, History, Lease, Put,
};
use model::presence::{Digest, NodeName, PresenceRecord, PresenceVersion};
use presence::MemoryDirectory;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where systems keep the authorities they believe.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Makes connections to the configured directory.
pub enum DirectoryConnector {
    /// To the table in the process.
    Process(MemoryDirectory),
    /// To a Redis.
    Redis(Box<Settings>, &'static str),
}

impl DirectoryConnector {
    /// The configured one, if there is one.
    pub fn of(
        config: &config::PresenceSection,
        address: String,
    ) -> Result<Option<DirectoryConnector>, String> {
        match config.directory_at() {
            DirectoryAt::Nowhere => Ok(None),
            DirectoryAt::Process => Ok(Some(DirectoryConnector::Process(MemoryDirectory::new()))),
            DirectoryAt::Redis => redis(config, address).map(Some),
        }
    }

    /// Its kind, one word.
    pub fn kind(&self) -> &'static str {
        match self {
            DirectoryConnector::Process(_) => "process",
            DirectoryConnector::Redis(_, kind) => kind,
        }
    }

    /// One more connection.
    pub fn connection(&self) -> Result<Box<dyn Directory>, String> {
        match self {
            DirectoryConnector::Process(table) => Ok(Box::new(Clocked(table.another()))),
            DirectoryConnector::Redis(settings, _) => Ok(Box::new(Redis::new(settings)?)),
        }
    }

    /// A connection to the stream of events, if one is configured.
    pub fn stream(
        &self,
        config: &config::PresenceSection,
    ) -> Result<Option<Box<dyn EventStream>>, String> {
        let (DirectoryConnector::Redis(settings, _), false) =
            (self, config.events_stream.is_empty())
        else {
            return Ok(None);
        };
        let length_max = config.events_stream_length_max.into();
        let stream = Stream::new(settings, &config.events_stream, length_max)?;
        Ok(Some(Box::new(stream)))
    }
}

fn redis(config: &config::PresenceSection, address: String) -> Result<DirectoryConnector, String> {
    let target = directory::parse(config.directory.reveal())?;
    let ca = match &config.ca {
        None if target.tls => authorities(None),
        ca => ca.clone(),
    };
    let tls = RedisTls {
        ca: ca.as_deref().map(pem).transpose()?,
        certificate: config.certificate.as_deref().map(pem).transpose()?,
        key: config.key.as_deref().map(pem).transpose()?,
    };
    let settings = Settings {
        url: config.directory.reveal().to_owned(),
        prefix: config.prefix.clone(),
        address,
        timeout_ms: config.timeout_ms,
        tls,
    };
    Ok(DirectoryConnector::Redis(Box::new(settings), target.kind.name()))
}

/// The authorities that are named, or those of the system.
pub(crate) fn authorities(named: Option<&Path>) -> Option<PathBuf> {
    let system = || SYSTEM.iter().map(PathBuf::from).find(|path| path.exists());
    named.map(Path::to_path_buf).or_else(system)
}

/// The file at a path.
pub(crate) fn pem(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A table whose clock is set before each call: leases end by it.
struct Clocked(MemoryDirectory);

impl Clocked {
    fn table(&mut self) -> &mut MemoryDirectory {
        self.0.tell(clock::wall_ms());
        &mut self.0
    }
}

impl Directory for Clocked {
    fn lease(&mut self, lease: &Lease, ms: u64) -> Result<History, DirectoryError> {
        self.table().lease(lease, ms)
    }

    fn release(&mut self, lease: &Lease) -> Result<(), DirectoryError> {
        self.table().release(lease)
    }

    fn put(&mut self, batches: &[Batch]) -> Result<Vec<Put>, DirectoryError> {
        self.table().put(batches)
    }

    fn remove(
        &mut self,
        bucket: u16,
        keys: &[(Box<str>, PresenceVersion)],
    ) -> Result<u64, DirectoryError> {
        self.table().remove(bucket, keys)
    }

    fn digests(&mut self, of: &Lease, buckets: Range<u16>) -> Result<Vec<Digest>, DirectoryError> {
        self.table().digests(of, buckets)
    }

    fn bucket(&mut self, bucket: u16) -> Result<Vec<DirectoryEntry>, DirectoryError> {
        self.table().bucket(bucket)
    }

    fn find(&mut self, keys: &[Box<str>]) -> Result<Vec<Option<PresenceRecord>>, DirectoryError> {
        self.table().find(keys)
    }

    fn address(&mut self, node: &NodeName) -> Result<Option<Box<str>>, DirectoryError> {
        self.table().address(node)
    }

    fn nodes(&mut self) -> Result<Vec<Lease>, DirectoryError> {
        self.table().nodes()
    }

    fn traffic(&self) -> (u64, u64) {
        self.0.traffic()
    }
}
