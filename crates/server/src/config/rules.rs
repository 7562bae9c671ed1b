//! Rules that join several keys, and warnings about choices that are allowed but dangerous.
//!
//! Looked at after every key alone was found good. A broken rule names the key that was given, so
//! that whoever changed one end of it is sent to that end. Knows no text and no line numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use model::limits::Limits;
use model::product::{AnonymousFrom, Product};

use super::Config;
use super::key::Section;
use super::reader::{Reader, Sheet};
use super::sections::{ClientCertificates, Listener, ListenerProtocol, ProxyHeader};

pub(super) fn check(config: &Config, reader: &mut Reader<'_>) {
    limits(&config.limits, reader);
    tls(config, reader);
    for listener in &config.listen {
        listens(listener, config, reader);
    }
    addresses(config, reader);
    store(config, reader);
    for product in &config.products {
        admits(product, reader);
    }
}

/// What the operator should be told although it is allowed.
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
        if listener.proxy == ProxyHeader::V1V2 && !listener.address.ip().is_loopback() {
            warnings.push(format!(
                "[listen.{}] proxy = \"v1v2\" on {}: whoever reaches it can claim any address; \
                 let only the proxy reach it",
                listener.name, listener.address
            ));
        }
    }
    if config.api.enabled && !config.api.address.ip().is_loopback() {
        warnings.push(format!(
            "[api] address = \"{}\": the API speaks plain HTTP, its token can be read on the way",
            config.api.address
        ));
    }
    warnings
}

/// The model knows its own rules; the keys that a rule names tell where to point.
fn limits(limits: &Limits, reader: &mut Reader<'_>) {
    let Err(rule) = limits.check() else { return };
    let sheet = Sheet::single("limits");
    let words: Vec<&str> = rule.split(|c: char| !c.is_ascii_lowercase() && c != '_').collect();
    let named = words.iter().filter_map(|word| Limits::KEYS.iter().find(|key| key.name == *word));
    let keys: Vec<(&Sheet, &'static str)> = named.map(|key| (&sheet, key.name)).collect();
    reader.broken(&keys, rule, "change one of them");
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
                "make one of the two, or let the addresses differ, in a query for instance",
            );
        }
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

fn listens(listener: &Listener, config: &Config, reader: &mut Reader<'_>) {
    let (sheet, tls) = (Sheet::named("listen", &listener.name), Sheet::single("tls"));
    let has_tls = listener.tls || listener.protocol == ListenerProtocol::Any;
    let asks = listener.client_certificates != ClientCertificates::Off;
    let demands = listener.client_certificates == ClientCertificates::Required;
    let rules = [
        (
            listener.tls && config.tls.certificate.is_none(),
            "tls",
            "TLS needs a certificate",
            "set certificate and key in [tls]",
        ),
        (
            asks && config.tls.client_ca.is_none(),
            "client_certificates",
            "certificates of clients need somebody who vouches for them",
            "set client_ca in [tls]",
        ),
        (
            asks && (!has_tls || demands && !listener.tls),
            "client_certificates",
            "without TLS nobody shows a certificate",
            "set tls = true for this listener",
        ),
        (
            listener.web_socket.is_some() && listener.protocol == ListenerProtocol::Miop,
            "websocket",
            "a listener of protocol \"miop\" takes no HTTP",
            "set protocol = \"http\" or \"any\", or websocket = false",
        ),
        (
            listener.web_socket.is_none() && listener.protocol == ListenerProtocol::Http,
            "protocol",
            "a listener of protocol \"http\" serves WebSockets alone",
            "set websocket = \"/miop\"",
        ),
    ];
    for (_, key, rule, remedy) in rules.into_iter().filter(|(broken, ..)| *broken) {
        reader.broken(&[(&sheet, key), (&tls, "certificate")], rule, remedy);
    }
}

/// No two of the addresses that will be opened are one.
fn addresses(config: &Config, reader: &mut Reader<'_>) {
    let open = config.listen.iter().filter(|listener| listener.enabled);
    let open = open.map(|l| (l.address, Sheet::named("listen", &l.name)));
    let api = config.api.enabled.then(|| (config.api.address, Sheet::single("api")));
    let mut seen: BTreeMap<SocketAddr, Sheet> = BTreeMap::new();
    for (address, sheet) in open.chain(api).filter(|(address, _)| address.port() != 0) {
        if let Some(other) = seen.get(&address) {
            reader.broken(
                &[(&sheet, "address"), (other, "address")],
                &format!("{} and {} have one address", other.header, sheet.header),
                "give one of them another port",
            );
        }
        seen.insert(address, sheet);
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
            "a challenge is answered with a signature",
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
