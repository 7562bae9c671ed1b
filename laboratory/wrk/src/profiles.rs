//! From the command line to what clients are: names, proofs, layers, and how they come back.

use super::arguments::Arguments;
use super::logic::Job;
use super::target::WrkTarget;
use lab::plan::Arrival;
use load::fleet::client::FleetProfile;
use load::fleet::client::http::HttpProfile;
use load::target::Speech;
use load::{FleetPlan, HeartbeatMode, Reconnect, trust};
use model::id::DeviceId;
use model::link::Protocol;
use model::topic::Qos;
use net::layer::ClientLayers;
use proto_miop::client::{DeviceNames, Prove};
use proto_mqtt::client::{Formula, Wanted};
use proto_mqtt::codec::subscribe::SubscribeOptions;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// First and longest wait of a client before it comes back: of one that keeps its connection, and
/// of one that only asks.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
const BACKOFF_BRIEF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Clients that share one source address of loopback: as many ports as Linux's default range is
/// sure to have.
const CLIENTS_A_SOURCE: u32 = 25_000;

/// Calls and Binds under way at once. Binds queue behind the heartbeats of those who are bound
/// already, so that fewer would make ten thousand wait.
const WINDOW: u32 = 1_024;

/// The job of all threads, with the address `to`.
pub fn job(arguments: &Arguments, to: SocketAddr, seed: u64) -> Result<Job, String> {
    let target = &arguments.target;
    // As wrk: what is left of the division is not there.
    let count = arguments.connections - arguments.connections % u32::from(arguments.threads);
    let (base, max) = if target.binds() { BACKOFF } else { BACKOFF_BRIEF };
    let plan = FleetPlan {
        arrival: Arrival::Window { open: WINDOW },
        threads: arguments.threads,
        layers: layers(target)?,
        sources: sources(target, arguments.connections),
        heartbeat: HeartbeatMode::Never,
        reconnect: Reconnect::Backoff { base, max },
        timeout: arguments.timeout,
        seed,
        ..FleetPlan::new(to, count, profile(arguments)?)
    };
    let topic = target.path.trim_start_matches('/');
    let topic = if topic.is_empty() || target.web_socket { "wrk/%i" } else { topic };
    Ok(Job {
        plan,
        topic: topic.to_owned(),
        end: target.end.clone().into(),
        duration: arguments.duration,
        rate: arguments.rate,
        stop: Arc::default(),
    })
}

fn profile(arguments: &Arguments) -> Result<FleetProfile, String> {
    let target = &arguments.target;
    Ok(match target.scheme {
        // A script says what is asked for.
        Speech::Http => FleetProfile::Http(Arc::new(HttpProfile::get(&target.host, "/"))),
        Speech::Tcp => FleetProfile::Tcp,
        Speech::Im | Speech::Xmpp => {
            return Err(format!("wrk does not speak {}://; holdline load does", target.name));
        }
        Speech::Miop => {
            let last = format!("{}-{}", target.prefix, arguments.connections - 1);
            DeviceId::parse(&last).map_err(|wrong| format!("the device id `{last}` {wrong}"))?;
            FleetProfile::Miop(Arc::new(miop(target)?))
        }
        Speech::Mqtt => FleetProfile::Mqtt(Arc::new(mqtt(target))),
    })
}

fn miop(target: &WrkTarget) -> Result<proto_miop::client::Profile, String> {
    use proto_miop::codec::Version;
    let version = match target.version {
        5 => Version::V5,
        6 => Version::V6,
        _ => Version::V7,
    };
    let product = target.product.clone().ok_or("the URL names no product")?;
    let mut profile = proto_miop::client::Profile::new(version, product, &target.prefix);
    profile.name = DeviceNames::Numbered(target.prefix.clone());
    profile.heartbeat.want_s = target.keep_s;
    if let Some(secret) = &target.secret {
        profile.prove = Prove::Secret { key_id: target.key_id, bytes: secret.clone() };
    }
    getrandom::fill(&mut profile.nonce_seed)
        .map_err(|error| format!("random number generator: {error}"))?;
    Ok(profile)
}

fn mqtt(target: &WrkTarget) -> proto_mqtt::client::Profile {
    use proto_mqtt::codec::Version;
    let version = match target.version {
        3 => Version::V31,
        4 => Version::V311,
        _ => Version::V5,
    };
    let prefix = match target.prefix.as_str() {
        // A name that no other tester has by chance.
        "" => format!("wrk-{}", std::process::id()),
        prefix => prefix.to_owned(),
    };
    let name = Formula::new(&format!("{prefix}-%i"));
    let mut profile = proto_mqtt::client::Profile::new(version, name);
    profile.keep_alive_s = target.keep_s;
    profile.beats = false;
    profile.user = target.user.as_deref().map(Formula::new);
    profile.password = target.password.as_ref().map(|password| password.as_bytes().into());
    profile.qos = Qos::of(target.qos).unwrap_or(Qos::AtMostOnce);
    let options = SubscribeOptions::of(profile.qos);
    let wanted = |filter: &String| Wanted { filter: Formula::new(filter), options };
    profile.wanted = target.subscribe.iter().map(wanted).collect();
    profile
}

fn layers(target: &WrkTarget) -> Result<ClientLayers, String> {
    let authority = target.authority.as_deref().map(Path::new);
    let tls = target.encrypted.then(|| trust::towards(&target.host, authority)).transpose()?;
    let protocol = match target.scheme {
        Speech::Http | Speech::Tcp => Protocol::Http,
        Speech::Miop => Protocol::Miop,
        Speech::Mqtt => Protocol::Mqtt,
        Speech::Im => Protocol::Im,
        Speech::Xmpp => Protocol::Xmpp,
    };
    let web_socket = target.web_socket.then(|| {
        let host = match target.host.contains(':') {
            true => format!("[{}]:{}", target.host, target.port),
            false => format!("{}:{}", target.host, target.port),
        };
        load::target::upgrade(host, &target.path, protocol)
    });
    Ok(ClientLayers { tls, web_socket, ..ClientLayers::plain(protocol) })
}

/// Further addresses of 127.0.0.0/8, when one has not ports enough.
fn sources(target: &WrkTarget, connections: u32) -> Vec<IpAddr> {
    let loopback = target.host == "localhost" || target.host.starts_with("127.");
    if !loopback || connections <= CLIENTS_A_SOURCE {
        return Vec::new();
    }
    let source = |n: u32| {
        let [_, b, c, d] = (0x0001_0000 + (n / 250) * 256 + n % 250 + 1).to_be_bytes();
        IpAddr::from([127, b, c, d])
    };
    (0..connections.div_ceil(CLIENTS_A_SOURCE)).map(source).collect()
}

/// Whether another wrk on this machine has clients of the same names.
pub fn has_rival(prefix: &str) -> bool {
    let own = std::process::id().to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    !prefix.is_empty()
        && processes.flatten().any(|process| {
            let name = process.file_name();
            let is_other = name
                .to_str()
                .is_some_and(|name| name != own && name.bytes().all(|byte| byte.is_ascii_digit()));
            is_other
                && std::fs::read(process.path().join("cmdline"))
                    .is_ok_and(|line| is_rival(&String::from_utf8_lossy(&line), prefix))
        })
}

/// Whether a command line is that of a wrk with this prefix.
fn is_rival(command: &str, prefix: &str) -> bool {
    let words: Vec<&str> = command.split('\0').collect();
    let is_wrk = |word: &&str| word.rsplit('/').next() == Some("wrk");
    words.iter().take(2).any(is_wrk)
        && words.iter().any(|word| {
            WrkTarget::parse(word).is_ok_and(|target| target.binds() && target.prefix == prefix)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_tester_with_the_same_names_is_seen() {
        let line = "/usr/bin/holdline\0wrk\0-c\x0010\0miop://box7:pk@127.0.0.1:7/\0";
        assert!(is_rival(line, "box7"));
        assert!(is_rival("wrk\0mqtt://box7@127.0.0.1/\0", "box7"));
        assert!(!is_rival(line, "box8"));
        assert!(!is_rival("vi\0miop://box7:pk@127.0.0.1:7/\0", "box7"));
    }
}
