//! Rules that join several keys, and warnings about choices that are allowed but dangerous.
//!
//! Looked at after every key alone was found good. A broken rule names the key that was given, so
//! that whoever changed one end of it is sent to that end. Knows no text and no line numbers.

use std::collections::{BTreeMap, BTreeSet};

use base::setting::Section;
use guard::{Anonymous, Method};
use model::chat::foreign::ForeignDomains;
use model::limits::Limits;
use model::link::network::IpNetwork;
use model::ports::users::Registration;
use model::product::{AnonymousFrom, Product};
use net::layer::tls::ClientCertificates;

use super::ldap_rules;
use super::problem::without_password;
use super::reader::{Reader, Sheet};
use super::scram_rules;
use super::{
    Config, DirectoryAt, FsyncSetting, ListenAddress, ListenSection, ListenerProtocol,
    MediaSection, MqttSection, PresenceSection, ProxyHeader, WebSocketAt,
};

pub(super) fn check(config: &Config, reader: &mut Reader<'_>) {
    limits(&config.limits, reader);
    tls(config, reader);
    for listener in &config.listen {
        listens(listener, config, reader);
    }
    addresses(config, reader);
    store(config, reader);
    backup(config, reader);
    webhooks(config, reader);
    topics(config, reader);
    access(config, reader);
    ldap_rules::check(&config.access.ldap, reader);
    for bridge in &config.bridges {
        if let Err(fault) = bridge.check() {
            let sheet = Sheet::named("bridge", &bridge.name);
            reader.broken(&[(&sheet, "topics"), (&sheet, "addresses")], &fault, "correct it");
        }
    }
    registration(config, reader);
    domains(config, reader);
    components(config, reader);
    services(config, reader);
    for product in &config.products {
        admits(product, reader);
    }
    presence(&config.presence, reader);
    media(&config.media, reader);
    cluster(config, reader);
}

/// Needs of a node of a cluster: an address for clients, one proof for NATS, and a log that is on
/// the disk before it is published.
fn cluster(config: &Config, reader: &mut Reader<'_>) {
    let of = &config.cluster;
    if !of.is_on() {
        return;
    }
    let (sheet, store) = (Sheet::single("cluster"), Sheet::single("store"));
    let has_tls = of.nats.iter().any(|address| address.starts_with("tls://"));
    let rules = [
        (
            of.advertise.is_empty(),
            (&sheet, "advertise"),
            "nodes that follow must know where clients reach this one",
            "set advertise to the host name or IP address of this node",
        ),
        (
            of.certificate.is_some() != of.key.is_some(),
            (&sheet, "certificate"),
            "certificate and key go together",
            "name both files or neither",
        ),
        (
            of.certificate.is_some() && !has_tls,
            (&sheet, "certificate"),
            "a client certificate is sent only in TLS",
            "begin the addresses in nats with tls://",
        ),
        (
            of.credentials.is_some() && of.nkey.is_some(),
            (&sheet, "nkey"),
            "credentials and nkey exclude each other",
            "name one of the files",
        ),
        (
            of.copies_min > of.followers + 1,
            (&sheet, "copies_min"),
            "is more than the leader and its followers are",
            "lower it, or raise followers",
        ),
        (
            config.store.fsync != FsyncSetting::Always,
            (&store, "fsync"),
            "a node of a cluster must have a message on its disk before it is published",
            "set fsync = \"always\"",
        ),
    ];
    for (_, key, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
        reader.broken(&[key, (&sheet, "nats")], rule, remedy);
    }
}

/// Parts that the operator must share between nodes of a cluster.
fn unshared(config: &Config) -> Vec<String> {
    if !config.cluster.is_on() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    if let Some(folder) = &config.media.folder {
        warnings.push(format!(
            "[media] folder = \"{}\": all nodes of the cluster must see the same folder (a network \
             file system); else files are missing after another node has taken over. A bucket \
             needs nothing",
            folder.display()
        ));
    }
    if config.server.shards != 0 {
        warnings.push(format!(
            "[server] shards = {}: a node of a cluster has a shard for each of the cluster's logs, \
             and ignores this",
            config.server.shards
        ));
    }
    warnings
}

/// Checks that a registered name cannot be had by another proof.
fn registration(config: &Config, reader: &mut Reader<'_>) {
    let certified = config.listen.iter().any(|it| it.methods.contains(&Method::Certificate));
    let access = &config.access;
    let others =
        access.token.is_set() || access.ldap.is_on() || !access.http.url.is_empty() || certified;
    if config.chat.registration == Registration::Open && others {
        let rule = "with open, strangers can register names that tokens, certificates, \
                    [access.ldap] or [access.http] assign";
        let remedy = "authenticate only accounts of the user database, or set it to \"password\"";
        reader.broken(&[(&Sheet::single("chat"), "registration")], rule, remedy);
    }
}

/// Each domain is one, and none is a service of another; a certificate has its key.
fn domains(config: &Config, reader: &mut Reader<'_>) {
    for (at, domain) in config.domains.iter().enumerate() {
        let sheet = Sheet::named("domain", &domain.name);
        let others = config.domains.iter().map(|it| &it.domain).enumerate();
        let others = others.filter(|(place, _)| *place != at).map(|(_, other)| other);
        let mut others = others.chain([&config.chat.domain]);
        let before = config.domains[..at].iter().any(|it| it.domain == domain.domain);
        let rules: [(bool, &'static str, &str, &str); 4] = [
            (
                before || domain.domain == config.chat.domain,
                "domain",
                "is already served",
                "give each section its own domain",
            ),
            (
                others.any(|other| is_service_of(&domain.domain, other)),
                "domain",
                "is the address of another domain's rooms or files",
                "give it another name",
            ),
            (
                domain.certificate.is_some() != domain.key.is_some(),
                "certificate",
                "certificate and key go together",
                "name both files or neither",
            ),
            (
                domain.certificate.is_some() && config.tls.certificate.is_none(),
                "certificate",
                "a domain's certificate needs a default one in [tls]",
                "set certificate and key in [tls], too",
            ),
        ];
        for (_, key, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
            reader.broken(&[(&sheet, key)], rule, remedy);
        }
    }
}

/// Whether a domain is one of the services that stand before another.
fn is_service_of(domain: &str, other: &str) -> bool {
    let own = ForeignDomains { own: other.into(), ..ForeignDomains::default() };
    domain != other && own.is_ours(domain)
}

/// Each component has a domain of its own.
fn components(config: &Config, reader: &mut Reader<'_>) {
    for (at, component) in config.components.iter().enumerate() {
        let before = config.components[..at].iter().any(|it| it.domain == component.domain);
        let is_own = config.domains.iter().any(|it| it.domain == component.domain);
        if before || is_own || component.domain == config.chat.domain {
            let sheet = Sheet::named("component", &component.name);
            let rule = "is already served";
            reader.broken(&[(&sheet, "domain")], rule, "give each component its own domain");
        }
    }
}

/// Credentials of a service are of one kind, and complete.
fn services(config: &Config, reader: &mut Reader<'_>) {
    for service in &config.services {
        let sheet = Sheet::named("service", &service.name);
        let has_password = !service.password.reveal().is_empty();
        let has_both = service.secret_file.is_some() && !service.secret.reveal().is_empty();
        let rules: [(bool, &[&'static str], &str, &str); 3] = [
            (
                service.username.is_empty() == has_password,
                &["username", "password"],
                "username and password go together",
                "set both or neither",
            ),
            (
                !service.username.is_empty() && service.has_secret(),
                &["username", "secret", "secret_file"],
                "a shared user name and a secret exclude each other",
                "remove username and password, or the secret",
            ),
            (
                has_both,
                &["secret", "secret_file"],
                "a service has only one secret",
                "set secret or secret_file",
            ),
        ];
        for (_, keys, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
            let keys: Vec<_> = keys.iter().map(|key| (&sheet, *key)).collect();
            reader.broken(&keys, rule, remedy);
        }
    }
}

/// Warnings: settings that are allowed but should be known.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for product in &config.products {
        if product.proofs.anonymous == AnonymousFrom::Everywhere {
            warnings.push(format!(
                "{} anonymous = \"everywhere\": anyone who reaches a listener can bind as any \
                 device of this product",
                Sheet::named("products", product.key.as_str()).header
            ));
        }
    }
    for listener in config.listen.iter().filter(|listener| listener.enabled) {
        if listener.anonymous == Anonymous::Yes
            && takes_users(listener)
            && !listener.address.is_near()
        {
            warnings.push(format!(
                "[listen.{}] anonymous = \"yes\" on {}: everybody who can reach it can connect \
                 without a user name",
                listener.name, listener.address
            ));
        }
        let any = listener.proxies().iter().any(IpNetwork::is_any);
        if listener.proxy == ProxyHeader::V1V2 && any && !listener.address.is_near() {
            warnings.push(format!(
                "[listen.{}] proxy_from lets anybody send PROXY headers to {}: everybody who can \
                 reach it can claim any address; list the proxies",
                listener.name, listener.address
            ));
        }
    }
    for bridge in config.bridges.iter().filter(|bridge| bridge.enabled && bridge.insecure) {
        warnings.push(format!(
            "[bridge.{}] insecure = true: the other broker's certificate is not verified",
            bridge.name
        ));
    }
    let urls = [
        ("http] url", &config.access.http.url),
        ("token] jwks_url", &config.access.token.jwks_url),
    ];
    for (key, url) in urls {
        let near = ["127.", "localhost", "[::1]"]
            .iter()
            .any(|host| url.strip_prefix("http://").is_some_and(|rest| rest.starts_with(host)));
        if url.starts_with("http://") && !near {
            let url = admin::shown_url(url);
            warnings.push(format!(
                "[access.{key} = \"{url}\": requests are sent without TLS, and anybody on the \
                 network path can forge the answer"
            ));
        }
    }
    warnings.extend(ldap_rules::warnings(config));
    warnings.extend(scram_rules::warnings(config));
    warnings.extend(bare_password(&config.presence));
    warnings.extend(unshared(config));
    if config.api.enabled && !config.api.address.ip().is_loopback() {
        warnings.push(format!(
            "[api] address = \"{}\": the API speaks plain HTTP, its token can be read on the \
             network",
            config.api.address
        ));
    }
    warnings
}

/// A password on its way to another machine that can be read there.
fn bare_password(presence: &PresenceSection) -> Option<String> {
    let url = presence.directory.reveal();
    let target = directory::parse(url).ok()?;
    let near = |host: &str| host == "localhost" || host == "::1" || host.starts_with("127.");
    let far = target.places.iter().any(|place| !near(&place.host));
    (url.contains('@') && far && !target.tls).then(|| {
        format!(
            "[presence] directory = \"{}\": its password is sent without TLS; use rediss",
            without_password(url)
        )
    })
}

fn takes_users(listener: &ListenSection) -> bool {
    listener.protocol != ListenerProtocol::Miop
}

/// The model knows its own rules; the keys that a rule names tell where to point.
fn limits(limits: &Limits, reader: &mut Reader<'_>) {
    let Err(rule) = limits.check() else { return };
    let (sheet, topics) = (Sheet::single("limits"), Sheet::single("mqtt"));
    let words: Vec<&str> = rule.split(|c: char| !c.is_ascii_lowercase() && c != '_').collect();
    let named = words.iter().filter_map(|word| {
        let limit = named::<Limits>(word).map(|name| (&sheet, name));
        limit.or_else(|| named::<MqttSection>(word).map(|name| (&topics, name)))
    });
    let keys: Vec<(&Sheet, &'static str)> = named.collect();
    reader.broken(&keys, rule, "change one of them");
}

fn named<S: Section>(word: &str) -> Option<&'static str> {
    S::settings().into_iter().map(|setting| setting.name).find(|name| *name == word)
}

/// Filters of the broker's own tables.
fn topics(config: &Config, reader: &mut Reader<'_>) {
    let outer = Sheet::single("mqtt");
    let rewrites = config.mqtt.rewrites.iter().map(|rewrite| rewrite.fault());
    let subscribes = config.mqtt.auto_subscribes.iter().map(|subscribe| subscribe.fault());
    let both =
        [("rewrite", rewrites.collect::<Vec<_>>()), ("auto_subscribe", subscribes.collect())];
    for (list, faults) in both {
        for (index, fault) in faults.into_iter().enumerate() {
            if let Some(fault) = fault {
                let sheet = Sheet::nth(Some(&outer), list, index + 1);
                reader.broken(&[(&sheet, "filter"), (&sheet, "to")], &fault, "correct it");
            }
        }
    }
}

fn access(config: &Config, reader: &mut Reader<'_>) {
    for listener in &config.listen {
        let only = |method| listener.methods == [method];
        let sheet = Sheet::named("listen", &listener.name);
        let rules = [
            (
                only(Method::Token) && !config.access.token.is_set(),
                "no key to verify tokens is configured",
                "set secret, key_files or jwks_url in [access.token]",
            ),
            (
                only(Method::Scram) && config.access.scram_hashes.is_empty(),
                "no hash is accepted",
                "name one in [access] scram_hashes",
            ),
            (
                only(Method::Ldap) && !config.access.ldap.is_on(),
                "no LDAP server is configured",
                "set urls in [access.ldap]",
            ),
            (
                only(Method::Http) && config.access.http.url.is_empty(),
                "no service is configured",
                "set url in [access.http]",
            ),
            (
                listener.methods.contains(&Method::Certificate)
                    && listener.client_certificates == ClientCertificates::Off,
                "this listener does not ask for certificates",
                "set client_certificates = \"required\" for it",
            ),
        ];
        for (_, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
            reader.broken(&[(&sheet, "methods")], rule, remedy);
        }
    }
}

fn webhooks(config: &Config, reader: &mut Reader<'_>) {
    for (index, hook) in config.webhooks.iter().enumerate() {
        let messages = hook.events.iter().any(|name| name == "message_published");
        if messages == hook.topics.is_empty() {
            let sheet = Sheet::nth(None, "webhook", index + 1);
            reader.broken(
                &[(&sheet, "topics"), (&sheet, "events")],
                "\"message_published\" in events and filters in topics go together",
                "name both or neither",
            );
        }
    }
}

fn store(config: &Config, reader: &mut Reader<'_>) {
    let sheet = Sheet::single("store");
    if config.store.log_bytes_max / 4 < config.store.segment_bytes {
        reader.broken(
            &[(&sheet, "log_bytes_max"), (&sheet, "segment_bytes")],
            "log_bytes_max must hold at least four of segment_bytes",
            "raise log_bytes_max or lower segment_bytes",
        );
    }
    // What waits for a webhook is named by its address and product.
    let mut seen = BTreeSet::new();
    for (index, hook) in config.webhooks.iter().enumerate() {
        let keys = hook.products.iter().map(String::as_str);
        let named = if hook.products.is_empty() { vec![""] } else { keys.collect() };
        if named.into_iter().any(|product| !seen.insert((hook.url.as_str(), product))) {
            reader.broken(
                &[(&Sheet::nth(None, "webhook", index + 1), "url")],
                "another webhook has this address for the same products",
                "combine the two, or make the addresses differ, for instance by a query",
            );
        }
    }
}

fn presence(presence: &PresenceSection, reader: &mut Reader<'_>) {
    let sheet = Sheet::single("presence");
    let at = presence.directory_at();
    if at == DirectoryAt::Redis
        && let Err(fault) = directory::parse(presence.directory.reveal())
    {
        reader.broken(&[(&sheet, "directory")], &fault, "correct it");
    }
    let rules: [(bool, &[&'static str], &str, &str); 3] = [
        (
            presence.certificate.is_some() != presence.key.is_some(),
            &["certificate", "key"],
            "certificate and key go together",
            "name both files or neither",
        ),
        (
            !presence.events_stream.is_empty() && at != DirectoryAt::Redis,
            &["events_stream", "directory"],
            "a stream of events needs a Redis",
            "set directory to a Redis",
        ),
        (
            presence.lease_ms / 3 < presence.timeout_ms,
            &["lease_ms", "timeout_ms"],
            "the lease is renewed every third of lease_ms, and timeout_ms must fit into that",
            "raise lease_ms or lower timeout_ms",
        ),
    ];
    for (_, keys, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
        let keys: Vec<_> = keys.iter().map(|key| (&sheet, *key)).collect();
        reader.broken(&keys, rule, remedy);
    }
}

/// Copies inside of what is copied would be a part of each other.
fn backup(config: &Config, reader: &mut Reader<'_>) {
    let data = &config.server.data;
    if config.backup.folder.as_ref().is_some_and(|folder| folder.starts_with(data)) {
        let keys = [(&Sheet::single("backup"), "folder"), (&Sheet::single("server"), "data")];
        let rule = "copies must not be stored in the data folder";
        reader.broken(&keys, rule, "choose a folder outside of it");
    }
}

/// One storage, whole.
fn media(media: &MediaSection, reader: &mut Reader<'_>) {
    let sheet = Sheet::single("media");
    let is_bucket = !media.s3_endpoint.is_empty();
    let has_secret = !media.s3_secret_key.reveal().is_empty();
    let rules: [(bool, &[&'static str], &str, &str); 3] = [
        (
            is_bucket && media.folder.is_some(),
            &["folder", "s3_endpoint"],
            "files are stored in a folder or in a bucket, not both",
            "set one of them",
        ),
        (
            is_bucket && (media.s3_bucket.is_empty() || media.s3_access_key.is_empty()),
            &["s3_endpoint", "s3_bucket", "s3_access_key"],
            "a bucket needs a name and a key",
            "set s3_bucket and s3_access_key",
        ),
        (
            is_bucket && has_secret == media.s3_secret_key_file.is_some(),
            &["s3_secret_key", "s3_secret_key_file"],
            "a key has exactly one secret",
            "set s3_secret_key or s3_secret_key_file",
        ),
    ];
    for (_, keys, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
        let keys: Vec<_> = keys.iter().map(|key| (&sheet, *key)).collect();
        reader.broken(&keys, rule, remedy);
    }
}

fn tls(config: &Config, reader: &mut Reader<'_>) {
    if config.tls.certificate.is_some() != config.tls.key.is_some() {
        let sheet = Sheet::single("tls");
        reader.broken(
            &[(&sheet, "certificate"), (&sheet, "key")],
            "certificate and key go together",
            "name both files or neither",
        );
    }
}

fn listens(listener: &ListenSection, config: &Config, reader: &mut Reader<'_>) {
    let (sheet, tls) = (Sheet::named("listen", &listener.name), Sheet::single("tls"));
    let has_tls = listener.tls || listener.protocol.may_begin_tls();
    let has_certificate = listener.certificate.is_some() || config.tls.certificate.is_some();
    let web_socket = listener.web_socket != WebSocketAt::Off;
    let of_xmpp = [ListenerProtocol::Any, ListenerProtocol::Http, ListenerProtocol::Xmpp];
    let carries_xmpp = of_xmpp.contains(&listener.protocol);
    let asks = listener.client_certificates != ClientCertificates::Off;
    let demands = listener.client_certificates == ClientCertificates::Required;
    let rules = [
        (
            listener.certificate.is_some() != listener.key.is_some(),
            "certificate",
            "certificate and key go together",
            "name both files or neither",
        ),
        (
            listener.tls && !has_certificate,
            "tls",
            "TLS needs a certificate",
            "set certificate and key in [tls]",
        ),
        (
            asks && config.tls.client_ca.is_none() && listener.client_ca.is_none(),
            "client_certificates",
            "client certificates need an authority to verify them",
            "set client_ca in [tls]",
        ),
        (
            asks && (!has_tls || demands && !listener.tls),
            "client_certificates",
            "clients send certificates only in TLS",
            "set tls = true for this listener",
        ),
        (
            web_socket && listener.protocol == ListenerProtocol::Miop,
            "websocket",
            "a listener of protocol \"miop\" does not accept HTTP",
            "set protocol = \"http\" or \"any\", or websocket = false",
        ),
        (
            web_socket && listener.protocol.peers().is_some(),
            "websocket",
            "servers and components do not use WebSockets",
            "set websocket = false",
        ),
        (
            !listener.bosh.is_empty() && !carries_xmpp,
            "bosh",
            "BOSH carries XMPP, which this listener does not accept",
            "set protocol = \"any\", \"http\" or \"xmpp\", or bosh = \"\"",
        ),
        (
            !web_socket && listener.bosh.is_empty() && listener.protocol == ListenerProtocol::Http,
            "protocol",
            "a listener of protocol \"http\" serves only WebSockets",
            "set websocket = \"/miop\", \"/mqtt\", \"/im\" or \"/xmpp-websocket\"",
        ),
    ];
    for (_, key, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
        reader.broken(&[(&sheet, key), (&tls, "certificate")], rule, remedy);
    }
}

/// No two of the addresses that will be opened are one.
fn addresses(config: &Config, reader: &mut Reader<'_>) {
    let open = config.listen.iter().filter(|listener| listener.enabled);
    let open = open.map(|l| (l.address.to_string(), l.address.clone(), l.name.as_str()));
    let open = open.map(|(text, address, name)| (text, address, Sheet::named("listen", name)));
    let api = ListenAddress::Tcp(config.api.address);
    let api = config.api.enabled.then(|| (api.to_string(), api, Sheet::single("api")));
    let mut seen: BTreeMap<String, Sheet> = BTreeMap::new();
    for (text, address, sheet) in open.chain(api) {
        if matches!(address, ListenAddress::Tcp(address) if address.port() == 0) {
            continue;
        }
        if let Some(other) = seen.get(&text) {
            reader.broken(
                &[(&sheet, "address"), (other, "address")],
                &format!("{} and {} have the same address", other.header, sheet.header),
                "give one of them another port",
            );
        }
        seen.insert(text, sheet);
    }
}

fn admits(product: &Product, reader: &mut Reader<'_>) {
    let sheet = Sheet::named("products", product.key.as_str());
    let beat = product.heartbeat;
    if !(beat.min_s <= beat.default_s && beat.default_s <= beat.max_s) {
        reader.broken(
            &[
                (&sheet, "heartbeat_default_s"),
                (&sheet, "heartbeat_min_s"),
                (&sheet, "heartbeat_max_s"),
            ],
            &format!(
                "heartbeats must rise from min ({}) over default ({}) to max ({})",
                beat.min_s, beat.default_s, beat.max_s
            ),
            "change one of them",
        );
    }
    if product.proofs.challenge && !product.proofs.hmac {
        reader.broken(
            &[(&sheet, "challenge"), (&sheet, "hmac")],
            "a challenge needs signatures",
            "set hmac = true or challenge = false",
        );
    }
    let ids: Vec<u32> = product.secrets.iter().map(|secret| secret.key_id).collect();
    if let Some(index) = (1..ids.len()).find(|index| ids[..*index].contains(&ids[*index])) {
        let second = Sheet::nth(Some(&sheet), "secrets", index + 1);
        reader.broken(
            &[(&second, "key_id")],
            "another secret of this product has this number",
            "give each secret its own",
        );
    }
}
