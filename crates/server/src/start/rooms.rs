//! Each room's own start: configuration's words become the room's.

use super::{StartError, World, failed};
use crate::clock;
use crate::config::{self, Config};
use crate::house::Mail;
use crate::switchboard::{Mailboxes, Switchboard};
use admin::Feed;
use net::layer::tls::{ClientCertificates, TlsServer};
use net::shard::Letter;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{Fsync, Recovered, Store};

/// Milliseconds between comments on a quiet event stream.
const STREAM_HEARTBEAT_MS: u64 = 15_000;

/// Opens the data folder. Completions go to the shards' mailboxes, once there are any.
pub(super) fn open_store(
    config: &Config,
    secret: [u8; 32],
    mailboxes: Arc<OnceLock<Mailboxes<World>>>,
) -> Result<(Store, Recovered), StartError> {
    let settings = store::Settings {
        fsync: match config.store.fsync {
            config::Fsync::Always => Fsync::Always,
            config::Fsync::Interval => {
                Fsync::Interval(Duration::from_millis(config.store.fsync_interval_ms.into()))
            }
            config::Fsync::Never => Fsync::Never,
        },
        segment_bytes: config.store.segment_bytes,
        journal_bytes_max: config.store.journal_bytes_max,
        ..store::Settings::new(secret)
    };
    let on_complete = move |shard: model::id::ShardId, completions| {
        let Some(mailboxes) = mailboxes.get() else { return };
        let mailbox = &mailboxes[shard.0 as usize];
        let mut letter = Letter::Mail(Mail::Completions(completions));
        // Completions must not be lost: the writer waits for a shard that is this far behind, and
        // with it whoever waits for the disk. A shard never waits for the writer.
        while let Err(back) = mailbox.put(letter) {
            letter = back;
            mailbox.ring();
            std::thread::sleep(Duration::from_millis(1));
        }
        mailbox.ring();
    };
    Store::open(&config.server.data, settings, on_complete).map_err(failed)
}

/// Reads the certificates of every listener that has TLS.
pub(super) fn load_tls(config: &Config) -> Result<Vec<(String, Arc<TlsServer>)>, StartError> {
    let (Some(certificate), Some(key)) = (&config.tls.certificate, &config.tls.key) else {
        return Ok(Vec::new());
    };
    let with_tls = |listener: &&config::Listener| listener.enabled && takes_tls(listener);
    let load = |listener: &config::Listener| {
        let clients = match listener.client_certificates {
            config::ClientCertificates::Off => ClientCertificates::Off,
            config::ClientCertificates::Optional => ClientCertificates::Optional,
            config::ClientCertificates::Required => ClientCertificates::Required,
        };
        let ca = config.tls.client_ca.as_deref();
        let tls = TlsServer::load(certificate, key, ca, clients).map_err(failed)?;
        Ok((listener.name.clone(), Arc::new(tls)))
    };
    config.listen.iter().filter(with_tls).map(load).collect()
}

/// A listener that tells protocols apart takes TLS too, once there is a certificate.
fn takes_tls(listener: &config::Listener) -> bool {
    listener.tls || listener.protocol == config::ListenerProtocol::Any
}

/// Starts the HTTP API, if it is enabled.
pub(super) fn start_api(
    config: &Config,
    token: String,
    (switchboard, feed, store): (Switchboard<World>, Arc<Feed>, Arc<Store>),
) -> Result<Option<admin::Running>, StartError> {
    if !config.api.enabled {
        return Ok(None);
    }
    let settings = admin::Settings {
        addrs: vec![config.api.address],
        token,
        limits: config.limits.clone(),
        version: env!("CARGO_PKG_VERSION"),
        webhooks: config.webhooks.iter().flat_map(webhooks).collect(),
        retry: admin::Retry::default(),
        wall_ms: Arc::new(clock::wall_ms),
        random: Arc::new(|bytes| {
            getrandom::fill(bytes).expect("the system gave random bytes at the start");
        }),
        readings: Arc::new(move || readings(&store)),
        heartbeat_ms: STREAM_HEARTBEAT_MS,
    };
    let started = admin::start(settings, Arc::new(switchboard), feed);
    started.map(Some).map_err(|error| StartError(format!("api: {error}")))
}

/// One webhook of the configuration may name several products; the API's has one or all.
fn webhooks(hook: &config::Webhook) -> Vec<admin::Webhook> {
    let with = |product| admin::Webhook {
        url: hook.url.clone(),
        secret: hook.secret.reveal().as_bytes().to_vec(),
        product,
        types: hook.events.clone(),
    };
    if hook.products.is_empty() {
        return vec![with(None)];
    }
    let products = hook.products.iter().filter_map(|key| model::id::ProductKey::parse(key).ok());
    products.map(|key| with(Some(key))).collect()
}

fn readings(store: &Store) -> Vec<admin::Reading> {
    let sizes = store.sizes();
    let reading = |name, help, value| admin::Reading { name, help, value };
    vec![
        reading("store_journal_bytes", "Bytes of the journal.", sizes.journal_bytes),
        reading("store_segments", "Segments of the journal.", sizes.segments),
        reading("store_waits", "Pushes in the journal that wait.", sizes.waits),
        reading("store_entries_waiting", "Entries that wait for the disk.", sizes.entries_waiting),
        reading("impossible_total", "Conditions that cannot be.", base::never::seen()),
    ]
}

/// Says what the start found in the data folder.
pub(super) fn tell_recovery(recovered: &Recovered) {
    let Recovered { entries, segments, records, bytes, torn, .. } = recovered;
    let alive = entries.len();
    tracing::info!(alive, segments, records, bytes, "the data folder was read");
    if let Some(torn) = torn {
        tracing::warn!(?torn, "a torn end of the journal was cut off: nothing in it was promised");
    }
}

/// Puts this thread on one of the cores the process may use.
pub(super) fn pin(shard: u16) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let Some(&core) = cores.get(usize::from(shard) % cores.len().max(1)) else { return };
    let mut one = CpuSet::new();
    one.set(core);
    if let Err(error) = sched_setaffinity(None, &one) {
        tracing::warn!(shard, core, %error, "the shard's thread is not pinned");
    }
}
