//! The configuration: one tree, parsed once, from a file and the environment.
//!
//! Each section is declared once, with its keys ([`base::section!`]); everything else here is
//! generic over the tables that come of it. All problems are found and told at once, each with
//! file, line, key, value, what is allowed and what to do. This module opens nothing but the
//! configuration file: it does not look whether a certificate exists or an address can be bound.
//! Invariant: a [`Config`] that exists holds to every range and every rule. Read next:
//! `base::setting`, `config/sections.rs`.

mod access;
mod advertised;
mod bans_section;
mod chat;
mod domains;
mod ldap_rules;
mod listeners;
pub(crate) mod media;
pub mod mosquitto;
mod outside;
mod platforms;
mod presence_section;
mod print;
mod problem;
mod push;
mod reader;
mod rules;
mod scram_rules;
mod sections;
mod topics;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base::setting::{Reload, Section};
use model::id::ProductKey;
use model::limits::{BoshLimits, Limits};
use model::product::{AnonymousFrom, Product};
use names::NameSettings;
use toml_edit::{Document, TableLike};

pub use crate::bridge::{BridgeProtocol, BridgeSection};
pub use access::{AccessSection, HiddenList, Http, Token};
pub use advertised::{ContactsSection, ServiceSection, ServiceTransport};
pub use bans_section::BansSection;
pub use base::setting::Hidden;
pub use chat::ChatSection;
pub use domains::DomainSection;
pub use federation::{ComponentSection, FederationSection};
pub use guard::Anonymous;
pub use listeners::{
    ListenAddress, ListenSection, ListenerProtocol, ProxyHeader, Redirect, TlsMin, WebSocketAt,
};
pub use media::MediaSection;
pub use outside::{AccountsSection, ClusterSection, LdapSection, MySqlSection};
pub use platforms::{PlatformKind, PlatformSection};
pub use presence_section::{DirectoryAt, PresenceSection};
pub use print::{Changes, SettingChange};
pub use problem::{ConfigError, ConfigProblem};
pub use push::PushSection;
pub use sections::{
    ApiSection, BackupSection, FsyncSetting, LogFormat, ServerSection, StoreSection, TlsSection,
    WebhookSection,
};
pub use topics::{AutoSubscribeSection, MqttSection, Rewrite};

pub(crate) use sections::SHARDS_MAX;

use reader::{Reader, Sheet};

/// Largest configuration file, bytes. A larger one is refused.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Most listeners. One more is refused.
pub const LISTENERS_MAX: usize = 32;
/// Most products in the file; the API may add others. One more is refused.
pub const PRODUCTS_MAX: usize = 1_024;
/// Most secrets of a product. One more is refused.
pub const SECRETS_MAX: usize = 8;
/// Most webhooks. One more is refused.
pub const WEBHOOKS_MAX: usize = 16;
/// Most bridges. One more is refused.
pub const BRIDGES_MAX: usize = 64;
/// Most domains beside the first. One more is refused.
pub const DOMAINS_MAX: usize = 64;
/// Most components. One more is refused.
pub const COMPONENTS_MAX: usize = 64;
/// Most services beside XMPP. One more is refused.
pub const SERVICES_MAX: usize = 16;
/// Most push services of platforms. One more is refused.
pub const PLATFORMS_MAX: usize = 16;
/// Most rules of rewriting, and most subscriptions that every client gets. One more is refused.
pub const REWRITES_MAX: usize = 256;
/// The paths of WebSocket upgrades where none is chosen: one for each protocol.
pub const WEB_SOCKET_PATHS: [&str; 4] = ["/miop", "/mqtt", "/im", "/xmpp-websocket"];

/// The path of BOSH where one is served unasked.
const BOSH_PATH: &str = "/http-bind";

/// The sections in the order of the tree, each with a description.
const SECTIONS: [(&str, &str); 28] = [
    ("server", "process settings."),
    (
        "listen",
        "listeners for devices and clients, one section for each address. If the file has any \
         [listen.NAME], only the listeners of the file are opened; otherwise those below.",
    ),
    ("tls", "the server's certificates, and the authorities it trusts."),
    ("api", "the HTTP API, for applications and operators."),
    ("limits", "limits on memory and work, and what happens at them."),
    ("mqtt", "MQTT topics and sessions, with their limits and what happens at them."),
    ("chat", "accounts and conversations, with their limits and what happens at them."),
    (
        "domain",
        "further domains with their own accounts, in addition to [chat] domain, one section for \
         each. None by default.",
    ),
    ("push", "push notifications for offline devices of accounts."),
    (
        "platform",
        "push services of platforms, which reach devices that are away, one section for each. None \
         by default.",
    ),
    (
        "media",
        "files sent in IM and XMPP, and where they are stored. Off until a folder or a bucket is \
         set.",
    ),
    ("bosh", "XMPP over HTTP (BOSH), at listeners with a bosh path: its limits."),
    ("federation", "federation with other XMPP servers."),
    ("component", "XMPP components, with domains of their own (XEP-0114). None by default."),
    (
        "contacts",
        "the operator's contact addresses, announced to XMPP clients and servers (XEP-0157).",
    ),
    (
        "service",
        "external services announced to XMPP clients, such as TURN relays (XEP-0215). None by \
         default.",
    ),
    ("access", "authentication and authorization."),
    ("bans", "refused addresses, clients and users, and rules that ban them."),
    ("accounts", "where the user database is stored."),
    ("mysql", "connections to MySQL and MariaDB, if [accounts] or [chat] names a database."),
    ("store", "durable storage."),
    ("backup", "scheduled copies of the data folder. Off until a folder is set."),
    (
        "cluster",
        "several nodes with copies of the same logs, of which one serves and the others take over. \
         Off until a NATS server is named.",
    ),
    ("presence", "who is online: history, events, and an external directory."),
    (
        "products",
        "families of devices with their own policy, one section for each key. The default product \
         demo is for trying out from this machine only: remove it before others can connect.",
    ),
    ("names", "DNS look-ups: servers and limits."),
    ("bridge", "bridges to other MQTT brokers, one section for each. None by default."),
    ("webhook", "addresses that receive events, at most 16. None by default."),
];

/// The whole configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// `[server]`.
    pub server: ServerSection,
    /// `[listen.NAME]`, in the file's order, the ones not enabled included.
    pub listen: Vec<ListenSection>,
    /// `[tls]`.
    pub tls: TlsSection,
    /// `[api]`.
    pub api: ApiSection,
    /// `[limits]`, with those of `[mqtt]`, `[chat]`, `[push]` and `[media]` in their places.
    /// Without a storage a file has at most 0 bytes.
    pub limits: Limits,
    /// `[mqtt]`.
    pub mqtt: MqttSection,
    /// `[chat]`.
    pub chat: ChatSection,
    /// `[domain.NAME]`, in the file's order.
    pub domains: Vec<DomainSection>,
    /// `[push]`.
    pub push: PushSection,
    /// `[media]`.
    pub media: MediaSection,
    /// `[bosh]`.
    pub bosh: BoshLimits,
    /// `[federation]`.
    pub federation: FederationSection,
    /// `[component.NAME]`, in the file's order.
    pub components: Vec<ComponentSection>,
    /// `[contacts]`.
    pub contacts: ContactsSection,
    /// `[service.NAME]`, in the file's order.
    pub services: Vec<ServiceSection>,
    /// `[platform.NAME]`, in the file's order.
    pub platforms: Vec<PlatformSection>,
    /// `[access]`.
    pub access: AccessSection,
    /// `[bans]`.
    pub bans: BansSection,
    /// `[accounts]`.
    pub accounts: AccountsSection,
    /// `[mysql]`.
    pub mysql: MySqlSection,
    /// `[store]`.
    pub store: StoreSection,
    /// `[backup]`.
    pub backup: BackupSection,
    /// `[cluster]`.
    pub cluster: ClusterSection,
    /// `[presence_section]`.
    pub presence: PresenceSection,
    /// `[products.KEY]`, in the file's order.
    pub products: Vec<Product>,
    /// `[names]`.
    pub names: NameSettings,
    /// `[bridge.NAME]`, in the file's order.
    pub bridges: Vec<BridgeSection>,
    /// `[[webhook]]`.
    pub webhooks: Vec<WebhookSection>,
    /// Warnings, a sentence each, to be logged at the start.
    pub warnings: Vec<String>,
    /// The file that all this was read from.
    pub file: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Config::parse("defaults", "", std::iter::empty()).expect("the defaults hold to the rules")
    }
}

/// The process's environment, as [`Config::load`] takes it. A variable that is not UTF-8 is none of
/// ours.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

impl Config {
    /// The configuration in the file at `path` (without one: the defaults), overridden by the
    /// variables of `env` that begin with `HOLDLINE_`.
    pub fn load(
        path: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let Some(path) = path else { return Config::parse("defaults", "", env) };
        let name = path.display().to_string();
        match read(path) {
            Ok(text) => {
                let config = Config::parse(&name, &text, env)?;
                Ok(Config { file: Some(path.to_owned()), ..config })
            }
            Err(error) => Err(one(ConfigProblem {
                place: name,
                key: String::new(),
                value: None,
                rule: format!("cannot be read: {error}"),
                remedy: "name a file that can be, or none for the defaults".into(),
            })),
        }
    }

    /// The configuration in `text`, which came from the file `name`.
    pub fn parse(
        name: &str,
        text: &str,
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let document = Document::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| reader::line(text, span.start));
            one(ConfigProblem {
                place: format!("{name}:{line}"),
                key: String::new(),
                value: None,
                rule: format!("is not TOML: {}", error.message().replace('\n', ", ")),
                remedy: "correct this line".into(),
            })
        })?;
        let mut reader = Reader::new(name, text, env);
        let mut config = tree(document.as_table(), &mut reader);
        reader.finish();
        domains::settle(&mut config);
        rules::check(&config, &mut reader);
        config.warnings = rules::warnings(&config);
        match reader.problems.is_empty() {
            true => Ok(config),
            false => Err(ConfigError { problems: reader.problems }),
        }
    }

    /// Differences of `new`, apart by whether a reload can follow.
    pub fn diff(&self, new: &Config) -> Changes {
        print::diff(self, new)
    }

    /// Default listeners that are closed because the file has listeners of its own: their names and
    /// addresses. A listener at the same address stands for the default one.
    pub fn closed_defaults(&self) -> Vec<(String, ListenAddress)> {
        let defaults = usual_listeners(self.tls.certificate.is_some()).into_iter();
        let is_there = |it: &ListenSection| {
            self.listen.iter().any(|own| own.name == it.name || own.address == it.address)
        };
        let closed = defaults.filter(|it| !is_there(it));
        closed.map(|it| (it.name, it.address)).collect()
    }

    /// That default listeners are closed, and how to keep them, in words.
    pub fn closed_defaults_told(&self) -> Option<String> {
        let closed = self.closed_defaults();
        let each = closed.iter().map(|(name, address)| format!("{name} ({address})"));
        let names = each.collect::<Vec<_>>().join(", ");
        (!closed.is_empty()).then(|| {
            format!(
                "[listen.NAME] sections replace the default listeners; closed: {names}. To keep \
                 one, copy its section from the output of `holdline check` without a file"
            )
        })
    }

    /// This configuration with every live key of `new`: what is in force after a reload.
    pub fn following(&self, new: &Config) -> Config {
        following(self, new)
    }

    /// The effective tree as a file that means the same, except that secrets are hidden.
    pub fn to_toml(&self) -> String {
        print::to_toml(self)
    }

    /// The effective tree with its documentation. Secrets are hidden.
    pub fn shown(&self) -> Vec<admin::ConfigSection> {
        print::shown(self)
    }

    /// The text of `docs/holdline.toml`: every key with its meaning, range and default.
    pub fn documented() -> String {
        print::documented()
    }
}

/// `old` with every live key of `new`: what is in force after a reload. Whether a key is live its
/// declaration says (`@live`), and nothing else.
fn following(old: &Config, new: &Config) -> Config {
    let mut next = old.clone();
    follow(&mut next.server, &new.server);
    follow(&mut next.tls, &new.tls);
    follow(&mut next.api, &new.api);
    follow(&mut next.limits, &new.limits);
    follow(&mut next.mqtt, &new.mqtt);
    follow(&mut next.chat, &new.chat);
    follow(&mut next.push, &new.push);
    follow(&mut next.media, &new.media);
    follow(&mut next.bosh, &new.bosh);
    follow(&mut next.federation, &new.federation);
    follow(&mut next.contacts, &new.contacts);
    follow(&mut next.access, &new.access);
    follow(&mut next.access.token, &new.access.token);
    follow(&mut next.access.ldap, &new.access.ldap);
    follow(&mut next.access.http, &new.access.http);
    follow(&mut next.bans, &new.bans);
    follow(&mut next.accounts, &new.accounts);
    follow(&mut next.mysql, &new.mysql);
    follow(&mut next.store, &new.store);
    follow(&mut next.backup, &new.backup);
    follow(&mut next.cluster, &new.cluster);
    follow(&mut next.presence, &new.presence);
    follow(&mut next.names, &new.names);
    next.listen.clone_from(&new.listen);
    follow_each(&mut next.domains, &new.domains, |it| &it.name);
    follow_each(&mut next.components, &new.components, |it| &it.name);
    follow_each(&mut next.services, &new.services, |it| &it.name);
    follow_each(&mut next.platforms, &new.platforms, |it| &it.name);
    next.bridges.clone_from(&new.bridges);
    next.products.clone_from(&new.products);
    next.webhooks.clone_from(&new.webhooks);
    next.warnings.clone_from(&new.warnings);
    gather_limits(&mut next);
    next
}

fn follow<S: Section>(old: &mut S, new: &S) {
    for setting in S::settings().into_iter().filter(|setting| setting.reload == Reload::Live) {
        let taken = new.value(setting.name).is_some_and(|value| old.put(setting.name, &value));
        base::never!(!taken, "a section has its own keys, and takes their values");
    }
}

/// As [`follow`], for sections with names that are in both trees.
fn follow_each<S: Section>(old: &mut [S], new: &[S], name: fn(&S) -> &String) {
    for section in old {
        if let Some(new) = new.iter().find(|new| name(new) == name(section)) {
            follow(section, new);
        }
    }
}

fn tree(root: &dyn TableLike, reader: &mut Reader<'_>) -> Config {
    reader.top(root, &SECTIONS.map(|(name, _)| name));
    let server = reader.single(root, "server");
    // Before the listeners: whether there is a certificate decides which there are by default.
    let tls: TlsSection = reader.single(root, "tls");
    let listen = listeners(root, &tls, reader);
    let api = reader.single(root, "api");
    let limits = reader.single_from(root, "limits", usual_limits());
    let mqtt = mqtt(root, reader);
    let packet_bytes_max = mqtt.limits.packet_bytes_max;
    let chat: ChatSection = reader.single(root, "chat");
    let media: MediaSection = reader.single(root, "media");
    let push: PushSection = reader.single(root, "push");
    let mut config = Config {
        server,
        listen,
        tls,
        api,
        limits,
        mqtt,
        chat,
        domains: domains(root, reader),
        push,
        media,
        bosh: reader.single(root, "bosh"),
        federation: reader.single(root, "federation"),
        components: components(root, reader),
        contacts: reader.single(root, "contacts"),
        services: services(root, reader),
        platforms: platforms(root, reader),
        access: access(root, reader),
        bans: reader.single(root, "bans"),
        accounts: reader.single(root, "accounts"),
        mysql: reader.single(root, "mysql"),
        store: reader.single(root, "store"),
        backup: reader.single(root, "backup"),
        cluster: reader.single(root, "cluster"),
        presence: reader.single(root, "presence"),
        products: products(root, reader),
        names: reader.single(root, "names"),
        bridges: bridges(root, packet_bytes_max, reader),
        webhooks: reader.list(root, None, "webhook", WEBHOOKS_MAX),
        warnings: Vec::new(),
        file: None,
    };
    gather_limits(&mut config);
    config
}

/// Puts the limits of sections of their own into `limits`, as the parts of the server take them.
fn gather_limits(config: &mut Config) {
    let limits = &mut config.limits;
    limits.topics.clone_from(&config.mqtt.limits);
    limits.chat.clone_from(&config.chat.limits);
    limits.notifications.clone_from(&config.push.limits);
    limits.media.clone_from(&config.media.limits);
    limits.media.file_bytes_max *= u64::from(config.media.is_on());
    // The first packet is a packet too: whoever lowers the one lowers both.
    let topics = &mut limits.topics;
    topics.connect_bytes_max = topics.connect_bytes_max.min(topics.packet_bytes_max);
}

/// The limits where the file is silent. Here are descriptors to count, which the model has not: 0
/// lets the start settle how many connections they are good for.
fn usual_limits() -> Limits {
    Limits { connections_max: 0, ..Limits::default() }
}

fn mqtt(root: &dyn TableLike, reader: &mut Reader<'_>) -> MqttSection {
    let (sheet, table) = reader.outer(root, "mqtt");
    let mut mqtt = MqttSection::default();
    reader.fill(&sheet, table, &["rewrite", "auto_subscribe"], &mut mqtt);
    if let Some(table) = table {
        mqtt.rewrites = reader.list(table, Some(&sheet), "rewrite", REWRITES_MAX);
        mqtt.auto_subscribes = reader.list(table, Some(&sheet), "auto_subscribe", REWRITES_MAX);
    }
    mqtt
}

fn access(root: &dyn TableLike, reader: &mut Reader<'_>) -> AccessSection {
    let (sheet, table) = reader.outer(root, "access");
    let mut access = AccessSection::default();
    reader.fill(&sheet, table, &["token", "ldap", "http"], &mut access);
    access.token = reader.inner(&sheet, table, "token");
    access.ldap = reader.inner(&sheet, table, "ldap");
    access.http = reader.inner(&sheet, table, "http");
    access
}

fn bridges(
    root: &dyn TableLike,
    packet_bytes_max: u32,
    reader: &mut Reader<'_>,
) -> Vec<BridgeSection> {
    let mut bridges = Vec::new();
    for (name, sheet, table) in reader.named(root, "bridge", BRIDGES_MAX) {
        if let Some(mut bridge) = reader.checked(BridgeSection::named(&name), &sheet) {
            reader.fill(&sheet, Some(table), &[], &mut bridge);
            bridge.packet_bytes_max = packet_bytes_max.max(1_024);
            bridges.push(bridge);
        }
    }
    bridges
}

fn domains(root: &dyn TableLike, reader: &mut Reader<'_>) -> Vec<DomainSection> {
    let mut domains = Vec::new();
    for (name, sheet, table) in reader.named(root, "domain", DOMAINS_MAX) {
        if let Some(mut domain) = reader.checked(DomainSection::named(&name), &sheet) {
            reader.fill(&sheet, Some(table), &[], &mut domain);
            domains.push(domain);
        }
    }
    domains
}

fn components(root: &dyn TableLike, reader: &mut Reader<'_>) -> Vec<ComponentSection> {
    let mut components = Vec::new();
    for (name, sheet, table) in reader.named(root, "component", COMPONENTS_MAX) {
        if let Some(mut component) = reader.checked(ComponentSection::named(&name), &sheet) {
            reader.fill(&sheet, Some(table), &[], &mut component);
            components.push(component);
        }
    }
    components
}

fn platforms(root: &dyn TableLike, reader: &mut Reader<'_>) -> Vec<PlatformSection> {
    let mut platforms = Vec::new();
    for (name, sheet, table) in reader.named(root, "platform", PLATFORMS_MAX) {
        if let Some(mut platform) = reader.checked(PlatformSection::named(&name), &sheet) {
            reader.fill(&sheet, Some(table), &[], &mut platform);
            platforms.push(platform);
        }
    }
    platforms
}

fn services(root: &dyn TableLike, reader: &mut Reader<'_>) -> Vec<ServiceSection> {
    let mut services = Vec::new();
    for (name, sheet, table) in reader.named(root, "service", SERVICES_MAX) {
        if let Some(mut service) = reader.checked(ServiceSection::named(&name), &sheet) {
            reader.fill(&sheet, Some(table), &[], &mut service);
            services.push(service);
        }
    }
    services
}

fn listeners(
    root: &dyn TableLike,
    tls: &TlsSection,
    reader: &mut Reader<'_>,
) -> Vec<ListenSection> {
    if !root.contains_key("listen") {
        let mut listeners = usual_listeners(tls.certificate.is_some());
        for listener in &mut listeners {
            reader.fill(&Sheet::named("listen", &listener.name), None, &[], listener);
        }
        return listeners;
    }
    let mut listeners = Vec::new();
    for (name, sheet, table) in reader.named(root, "listen", LISTENERS_MAX) {
        if let Some(mut listener) = reader.checked(ListenSection::checked(&name), &sheet) {
            reader.fill(&sheet, Some(table), &[], &mut listener);
            listeners.push(listener);
        }
    }
    listeners
}

/// The default listeners of a server whose configuration has none.
fn usual_listeners(has_certificate: bool) -> Vec<ListenSection> {
    let on = |name: &str, port: u16, protocol: ListenerProtocol| {
        let address = ListenAddress::Tcp(([127, 0, 0, 1], port).into());
        ListenSection { address, protocol, ..ListenSection::named(name) }
    };
    let with = |listener: ListenSection, web_socket| ListenSection { web_socket, ..listener };
    let at = |path: &str| WebSocketAt::Path(path.into());
    let mut listeners = vec![
        ListenSection {
            bosh: BOSH_PATH.into(),
            ..with(on("any", 7000, ListenerProtocol::Any), WebSocketAt::Usual)
        },
        on("miop", 7001, ListenerProtocol::Miop),
        with(on("ws", 7003, ListenerProtocol::Http), at("/miop")),
        on("mqtt", 1883, ListenerProtocol::Mqtt),
        with(on("mqtt-ws", 8083, ListenerProtocol::Mqtt), at("/mqtt")),
        on("im", 7005, ListenerProtocol::Im),
        with(on("im-ws", 7007, ListenerProtocol::Im), at("/im")),
        on("xmpp", 5222, ListenerProtocol::Xmpp),
    ];
    if has_certificate {
        let tls = |listener: ListenSection| ListenSection { tls: true, ..listener };
        listeners.extend([
            tls(on("miops", 7002, ListenerProtocol::Miop)),
            tls(with(on("wss", 7004, ListenerProtocol::Http), at("/miop"))),
            tls(on("mqtts", 8883, ListenerProtocol::Mqtt)),
            tls(with(on("mqtt-wss", 8084, ListenerProtocol::Mqtt), at("/mqtt"))),
            tls(on("ims", 7006, ListenerProtocol::Im)),
            tls(with(on("im-wss", 7008, ListenerProtocol::Im), at("/im"))),
            tls(on("xmpps", 5223, ListenerProtocol::Xmpp)),
        ]);
    }
    listeners
}

fn products(root: &dyn TableLike, reader: &mut Reader<'_>) -> Vec<Product> {
    if !root.contains_key("products") {
        let key = ProductKey::parse("demo").expect("a plain word is a product's key");
        let mut demo = Product::new(key, 1);
        demo.proofs.anonymous = AnonymousFrom::Loopback;
        reader.fill(&Sheet::named("products", "demo"), None, &[], &mut demo);
        return vec![demo];
    }
    let mut products = Vec::new();
    for (name, sheet, table) in reader.named(root, "products", PRODUCTS_MAX) {
        let key = ProductKey::parse(&name).map_err(|error| format!("the product's key {error}"));
        let Some(key) = reader.checked(key, &sheet) else { continue };
        let mut product = Product::new(key, 0);
        reader.fill(&sheet, Some(table), &["secrets"], &mut product);
        product.secrets = reader.list(table, Some(&sheet), "secrets", SECRETS_MAX);
        products.push(product);
    }
    products
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn one(problem: ConfigProblem) -> ConfigError {
    ConfigError { problems: vec![problem] }
}
