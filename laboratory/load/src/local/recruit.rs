//! A group of a plan as a fleet: addresses, protocol and clients.

use crate::fleet::client::{FleetProfile, http, im, xmpp};
use crate::fleet::plan::{FleetPlan, Hearing, HeartbeatMode, Reconnect};
use crate::target::{self, Speech, Url, secret_of};
use crate::trust;
use lab::plan::Group;
use model::account::{AccountAddress, Addressee};
use model::chat::DEVICE_NAME_BYTES_MAX;
use model::id::{DeviceId, ProductKey};
use net::layer::ClientLayers;
use proto_miop::client as miop;
use proto_mqtt::client as mqtt;
use proto_mqtt::codec::Qos;
use proto_mqtt::codec::subscribe::SubscribeOptions;
use std::path::Path;
use std::sync::Arc;

/// The domain of accounts that name none.
const LOCALHOST: &str = "localhost";
/// Threads of a group that does not say how many, at most.
const THREADS_MAX: usize = 64;

/// The plan of a group that has no clients yet.
pub(super) fn plan(group: &Group, seed: u64) -> Result<FleetPlan, String> {
    let urls: Vec<Url> = group.url.iter().map(|url| Url::parse(url)).collect::<Result<_, _>>()?;
    let Some(first) = urls.first() else { return Err("it has no `url`".to_owned()) };
    if let Some(other) = urls.iter().find(|url| url.scheme != first.scheme) {
        let (one, two) = (first.scheme.name, other.scheme.name);
        return Err(format!("its URLs have different schemes, {one} and {two}"));
    }
    let speech = speech(group, first);
    let profile = match speech {
        Speech::Miop => FleetProfile::Miop(Arc::new(miop_profile(group, first)?)),
        Speech::Mqtt => FleetProfile::Mqtt(Arc::new(mqtt_profile(group, first)?)),
        Speech::Im => FleetProfile::Im(Arc::new(im_profile(group, first)?)),
        Speech::Xmpp => FleetProfile::Xmpp(Arc::new(xmpp_profile(group, first)?)),
        Speech::Http => {
            FleetProfile::Http(Arc::new(http::HttpProfile::get(&first.authority(), &first.path)))
        }
        Speech::Tcp => FleetProfile::Tcp,
    };
    let to = urls.iter().map(Url::resolve).collect::<Result<Vec<_>, _>>()?;
    let beats = group.beats && !group.keep_alive.is_zero();
    let hash = hash(&group.name);
    let plan = FleetPlan {
        threads: threads(group),
        layers: layers(group, first, &profile)?,
        first_number: group.first,
        number_step: group.step.max(1),
        heartbeat: if beats { HeartbeatMode::Agreed } else { HeartbeatMode::Never },
        hearing: hearing(group, speech),
        reconnect: match group.back_after.is_zero() {
            true => Reconnect::Never,
            false => Reconnect::Backoff { base: group.back_after.0, max: group.back_max.0 },
        },
        timeout: group.timeout.0,
        // As long as a server is silent with a client before it lets it go.
        gives_up: beats.then(|| (group.keep_alive.0 * 3 / 2).max(group.timeout.0)),
        tag: (hash % 127) as u8 + 1,
        seed: base::prng::scramble(seed ^ hash),
        to,
        ..FleetPlan::new(([127, 0, 0, 1], 0).into(), 0, profile)
    };
    plan.check()?;
    Ok(plan)
}

/// Protocol of a group: that of its scheme, or, in a WebSocket, that of its URL or its other keys.
fn speech(group: &Group, url: &Url) -> Speech {
    let by_keys = match group.product {
        Some(_) => Speech::Miop,
        None => Speech::Mqtt,
    };
    url.speech(by_keys)
}

fn threads(group: &Group) -> u16 {
    match group.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS_MAX)) as u16,
        threads => threads,
    }
}

/// A number that follows from a name (FNV-1a).
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn layers(group: &Group, url: &Url, profile: &FleetProfile) -> Result<ClientLayers, String> {
    let authority = group.authority.as_ref().or(url.authority.as_ref());
    // A server of XMPP may ask for TLS within the stream, and is known by its domain.
    let (name, may_ask) = match profile {
        FleetProfile::Xmpp(profile) => (&*profile.domain, true),
        _ => (url.host.as_str(), false),
    };
    let is_encrypted = url.scheme.is_encrypted;
    let tls = (is_encrypted || may_ask).then(|| trust::towards(name, authority.map(Path::new)));
    let tls = tls.transpose()?;
    let start_tls = tls.is_some() && !is_encrypted;
    let is_web_socket = url.scheme.is_web_socket();
    let web_socket =
        is_web_socket.then(|| target::upgrade(url.authority(), &url.path, profile.protocol()));
    Ok(ClientLayers { tls, start_tls, web_socket, ..ClientLayers::plain(profile.protocol()) })
}

fn hearing(group: &Group, speech: Speech) -> Hearing {
    let is_chat = matches!(speech, Speech::Im | Speech::Xmpp);
    let is_own = |filter: &String| !filter.contains(['+', '#']) && !filter.starts_with("$share/");
    let checks_rows = matches!(group.subscribe.as_slice(), [filter] if is_own(filter));
    let is_of_one = |filter: &String| is_own(filter) && filter.contains("%i");
    let hears_own = match is_chat {
        true => account(group).contains("%i"),
        false => !group.subscribe.is_empty() && group.subscribe.iter().all(is_of_one),
    };
    let is_shared = group.subscribe.iter().any(|filter| filter.starts_with("$share/"));
    let answer_to = group.answer_to.as_deref().map(Box::from);
    let answer_qos = group.subscribe_qos;
    // Agents take turns with the numbers.
    let is_shared_elsewhere = is_shared && group.step > 1;
    Hearing {
        answer_to,
        answer_qos,
        checks_rows,
        hears_own,
        is_shared,
        is_shared_elsewhere,
        is_chat,
        audits: group.audits,
    }
}

/// The account of a client that talks: `%i` is its number.
pub(crate) fn account(group: &Group) -> String {
    let known = group.user.as_ref().or(group.id.as_ref());
    known.cloned().unwrap_or_else(|| format!("{}-%i", group.name))
}

/// Keep-alive that is asked for, seconds.
fn keep_alive_s(group: &Group) -> Result<u16, String> {
    let seconds = group.keep_alive.0.as_millis().div_ceil(1_000);
    u16::try_from(seconds)
        .map_err(|_| format!("keep_alive = {} is above 65,535 s", group.keep_alive))
}

/// Formula of a client's name: `%i` is its number.
fn id(group: &Group, url: &Url) -> String {
    let prefix = url.user.as_ref().filter(|_| url.scheme.speech == Some(Speech::Miop));
    match (&group.id, prefix) {
        (Some(id), _) => id.clone(),
        (None, Some(prefix)) => format!("{prefix}-%i"),
        (None, None) => format!("{}-%i", group.name),
    }
}

fn miop_profile(group: &Group, url: &Url) -> Result<miop::Profile, String> {
    use proto_miop::codec::Version;
    let version = match group.version.unwrap_or(7) {
        5 => Version::V5,
        6 => Version::V6,
        7 => Version::V7,
        other => return Err(format!("version = {other}: MIOP has 5, 6 and 7")),
    };
    let product = group.product.as_ref().or(url.password.as_ref());
    let product = product.ok_or("MIOP needs a `product`, or miop://PREFIX:PRODUCT@HOST:PORT")?;
    let product = ProductKey::parse(product).map_err(|wrong| format!("the product {wrong}"))?;
    let id = id(group, url);
    let prefix = id.strip_suffix("-%i").filter(|prefix| !prefix.contains("%i"));
    let prefix = prefix.ok_or_else(|| format!("id = \"{id}\": a MIOP id must end with -%i"))?;
    DeviceId::parse(&format!("{prefix}-{}", u32::MAX))
        .map_err(|wrong| format!("id = \"{id}\": the device id {wrong}"))?;
    let mut profile = miop::Profile::new(version, product, prefix);
    profile.heartbeat.want_s = keep_alive_s(group)?;
    profile.resumes = group.keep_session;
    if let Some(secret) = &group.secret {
        let bytes = secret_of(secret).ok_or("secret: pairs of hexadecimal digits")?;
        profile.prove = miop::Prove::Secret { key_id: 1, bytes };
    }
    getrandom::fill(&mut profile.nonce_seed)
        .map_err(|error| format!("random number generator: {error}"))?;
    Ok(profile)
}

/// The account of each of a group's people and what they prove that they know, if they are in
/// order, and their devices' names.
fn people(group: &Group, url: &Url, device: &str) -> Result<(String, Option<Box<str>>), String> {
    let account = account(group);
    let last = |formula: &str| formula.replace("%i", &u32::MAX.to_string());
    AccountAddress::parse(&last(&account), LOCALHOST)
        .map_err(|wrong| format!("the account `{account}`: {wrong}"))?;
    if last(device).len() > DEVICE_NAME_BYTES_MAX {
        return Err(format!("id = \"{device}\": the name of a device can have at most 64 bytes"));
    }
    let password = group.password.as_ref().or(url.password.as_ref());
    if group.scram && password.is_none() {
        return Err("scram needs a `password`".to_owned());
    }
    Ok((account, password.map(|password| password.as_str().into())))
}

fn im_profile(group: &Group, url: &Url) -> Result<im::ImProfile, String> {
    let device = id(group, url);
    let (account, password) = people(group, url, &device)?;
    for room in &group.subscribe {
        Addressee::parse(room).map_err(|wrong| format!("the chatroom `{room}`: {wrong}"))?;
    }
    Ok(im::ImProfile {
        account: mqtt::Formula::new(&account),
        device: mqtt::Formula::new(&device),
        password,
        is_scram: group.scram,
        silence_s: keep_alive_s(group)?,
        is_lite: group.lite,
        audits: group.audits,
        rooms: group.subscribe.iter().map(|room| room.as_str().into()).collect(),
        nobody: Arc::new(proto_im::client::Profile::new("", "")),
    })
}

fn xmpp_profile(group: &Group, url: &Url) -> Result<xmpp::XmppProfile, String> {
    let resource = group.id.as_ref().unwrap_or(&group.name);
    let (account, password) = people(group, url, resource)?;
    let (user, domain) = account.split_once('@').unwrap_or((&account, LOCALHOST));
    if domain.contains('%') {
        return Err(format!("the account `{account}`: its number must be before the @"));
    }
    Ok(xmpp::XmppProfile {
        user: mqtt::Formula::new(user),
        domain: domain.into(),
        resource: mqtt::Formula::new(resource),
        password,
        is_scram: group.scram,
        silence_s: keep_alive_s(group)?,
        is_lite: group.lite,
    })
}

fn mqtt_profile(group: &Group, url: &Url) -> Result<mqtt::Profile, String> {
    use proto_mqtt::codec::Version;
    let version = match group.version.unwrap_or(4) {
        3 => Version::V31,
        4 => Version::V311,
        5 => Version::V5,
        other => return Err(format!("version = {other}: MQTT has 3, 4 (3.1.1) and 5")),
    };
    let qos = Qos::of(group.subscribe_qos).ok_or("subscribe_qos must be 0, 1 or 2")?;
    let mut profile = mqtt::Profile::new(version, mqtt::Formula::new(&id(group, url)));
    profile.beats = false;
    profile.keep_alive_s = keep_alive_s(group)?;
    profile.inflight_max = u16::MAX;
    profile.bears_more = true;
    profile.packet_bytes_max = proto_mqtt::codec::PACKET_BYTES_MAX;
    if group.keep_session {
        profile.clean = mqtt::Clean::Never;
        profile.expiry_s = u32::MAX;
    }
    let user = group.user.as_ref().or(url.user.as_ref());
    profile.user = user.map(|user| mqtt::Formula::new(user));
    let password = group.password.as_ref().or(url.password.as_ref());
    profile.password = password.map(|password| password.as_bytes().into());
    let wanted = |filter: &String| mqtt::Wanted {
        filter: mqtt::Formula::new(filter),
        options: SubscribeOptions::of(qos),
    };
    profile.wanted = group.subscribe.iter().map(wanted).collect();
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(rest: &str) -> Group {
        serde_json::from_str(&format!("{{\"name\": \"g\", {rest}}}")).expect("a group")
    }

    #[test]
    fn a_group_is_what_its_url_and_its_keys_say() {
        let speaks = |rest: &str| plan(&group(rest), 1).map(|plan| plan.profile.protocol());
        use model::link::Protocol as P;
        let cases = [
            (r#""url": ["mqtt://127.0.0.1"]"#, P::Mqtt),
            (r#""url": ["miop://box:pk@127.0.0.1:7000"]"#, P::Miop),
            (r#""url": ["ws://127.0.0.1/m"], "product": "pk""#, P::Miop),
            (r#""url": ["ws://127.0.0.1/m"]"#, P::Mqtt),
            (r#""url": ["ws://127.0.0.1/m?protocol=mqtt"], "product": "pk""#, P::Mqtt),
            (r#""url": ["https://127.0.0.1/"]"#, P::Http),
            (r#""url": ["im://127.0.0.1"]"#, P::Im),
            (r#""url": ["ws://127.0.0.1/im?protocol=im"]"#, P::Im),
            (r#""url": ["xmpp://127.0.0.1"], "user": "u%i@example.org""#, P::Xmpp),
            (r#""url": ["xmpps://127.0.0.1"], "password": "p", "scram": true"#, P::Xmpp),
        ];
        for (rest, protocol) in cases {
            assert_eq!(speaks(rest), Ok(protocol), "{rest}");
        }
        let wrong = [
            r#""url": []"#,
            r#""url": ["mqtt://127.0.0.1", "tcp://127.0.0.1:1"]"#,
            r#""url": ["miop://127.0.0.1:1"]"#,
            r#""url": ["miop://a:pk@127.0.0.1:1"], "id": "%i""#,
            r#""url": ["mqtt://127.0.0.1"], "version": 7"#,
            r#""url": ["mqtt://127.0.0.1"], "keep_alive": "2d""#,
            r#""url": ["im://127.0.0.1"], "user": "Ann-%i""#,
            r#""url": ["im://127.0.0.1"], "scram": true"#,
            r#""url": ["xmpp://127.0.0.1"], "scram": true"#,
            r#""url": ["xmpp://127.0.0.1"], "user": "a@b@c""#,
            r#""url": ["xmpp://127.0.0.1"], "user": "a@b%i""#,
        ];
        for rest in wrong {
            assert!(speaks(rest).is_err_and(|what| !what.is_empty()), "{rest}");
        }
    }

    #[test]
    fn numbers_in_a_row_are_looked_at_where_a_client_hears_one_sender() {
        for (subscribe, checks) in
            [(r#"["a/%i"]"#, true), ("[]", false), (r#"["a/#"]"#, false), (r#"["a","b"]"#, false)]
        {
            let rest = format!("\"url\": [\"mqtt://127.0.0.1\"], \"subscribe\": {subscribe}");
            let plan = plan(&group(&rest), 1).expect("a plan");
            assert_eq!(plan.hearing.checks_rows, checks, "{subscribe}");
        }
    }
}
