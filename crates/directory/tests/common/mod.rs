//! Parts that the tests of this crate share.
#![allow(dead_code, reason = "each test takes what it needs")]

use directory::{Redis, RedisTls, Settings};
use model::ports::presence::directory::{Directory, DirectoryError};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use testkit::redis::Certificates;

/// A time limit that no working Redis exceeds, however busy the machine.
pub const PATIENT_MS: u32 = 10_000;
/// One that is over soon.
pub const SHORT_MS: u32 = 200;

/// Settings for this URL.
pub fn settings(url: &str, timeout_ms: u32) -> Settings {
    Settings {
        url: url.into(),
        prefix: "holdline:".into(),
        address: "http://127.0.0.1:7080".into(),
        timeout_ms,
        tls: RedisTls::default(),
    }
}

/// Settings that believe this authority.
pub fn believing(url: &str, certificates: &Certificates) -> Settings {
    let ca = Some(certificates.authority.clone().into_bytes());
    Settings { tls: RedisTls { ca, ..RedisTls::default() }, ..settings(url, PATIENT_MS) }
}

/// A directory there.
pub fn redis(url: &str) -> Redis {
    Redis::new(&settings(url, PATIENT_MS)).expect("a good URL")
}

/// A directory there that does not wait.
pub fn hasty(url: &str) -> Redis {
    Redis::new(&settings(url, SHORT_MS)).expect("a good URL")
}

/// The answer of something that must end by itself: long after its limit this fails.
pub fn ends<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, answer) = sync_channel(1);
    let work = move || drop(sender.send(call()));
    std::thread::Builder::new().spawn(work).expect("a thread");
    answer.recv_timeout(Duration::from_secs(20)).expect("the call ends")
}

/// Every call of the port, with what came of it.
pub fn every_call(
    directory: &mut dyn Directory,
) -> Vec<(&'static str, Result<(), DirectoryError>)> {
    use model::presence::{PresenceVersion, bucket};
    use testkit::directory::{lease, record};
    let (of, key) = (lease("n", 1), "p#1");
    let entries = vec![(key.into(), record(1, "n", 1))];
    let batch = model::ports::presence::directory::Batch { bucket: bucket(key), entries };
    vec![
        ("lease", directory.lease(&of, 60_000).map(drop)),
        ("release", directory.release(&of)),
        ("put", directory.put(&[batch]).map(drop)),
        ("remove", directory.remove(bucket(key), &[(key.into(), PresenceVersion(1))]).map(drop)),
        ("digests", directory.digests(&of, 0..10).map(drop)),
        ("bucket", directory.bucket(1).map(drop)),
        ("find", directory.find(&[key.into()]).map(drop)),
        ("nodes", directory.nodes().map(drop)),
    ]
}
