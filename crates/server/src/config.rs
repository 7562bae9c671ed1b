//! The configuration: one tree, parsed once, from a file and the environment.
//!
//! Each section is a struct and a table of its keys; everything else here is generic over those
//! tables. All problems are found and told at once, each with file, line, key, value, what is
//! allowed and what to do. This module opens nothing but the configuration file: it does not look
//! whether a certificate exists or an address can be bound. Invariant: a [`Config`] that exists
//! holds to every range and every rule. Read next: `config/key.rs`, `config/sections.rs`.

mod key;
mod limits;
mod print;
mod problem;
mod products;
mod reader;
mod rules;
mod sections;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use model::limits::Limits;
use model::product::{AnonymousFrom, Product};
use toml_edit::{Document, TableLike};

pub use key::Hidden;
pub use print::{Change, Changes};
pub use problem::{ConfigError, Problem};
pub use sections::{
    Api, ClientCertificates, Fsync, Listener, ListenerProtocol, LogFormat, ProxyHeader, Server,
    Store, Tls, Webhook,
};

use key::Section;
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
/// The path of WebSocket upgrades where none is chosen.
pub const WEB_SOCKET_PATH: &str = "/miop";

/// The sections, in the order of the tree, with what they are about.
const SECTIONS: [(&str, &str); 8] = [
    ("server", "the process."),
    (
        "listen",
        "where devices come in, one section for each address. With any [listen.NAME] in a file \
         only the listeners of the file are opened; without, the ones below.",
    ),
    ("tls", "who the server is, and whom it trusts."),
    ("api", "the HTTP API, for applications and operators."),
    ("limits", "what bounds memory and work, and what happens there."),
    ("store", "what survives a crash."),
    (
        "products",
        "families of devices with a policy of their own, one section for each key. Without any \
         there is demo, for trying out from this machine only: take it away before you let \
         others in.",
    ),
    ("webhook", "addresses that are told of events, at most 16. There are none at first."),
];

/// The whole configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// `[listen.NAME]`, in the file's order, the ones not enabled included.
    pub listen: Vec<Listener>,
    /// `[tls]`.
    pub tls: Tls,
    /// `[api]`.
    pub api: Api,
    /// `[limits]`.
    pub limits: Limits,
    /// `[store]`.
    pub store: Store,
    /// `[products.KEY]`, in the file's order.
    pub products: Vec<Product>,
    /// `[[webhook]]`.
    pub webhooks: Vec<Webhook>,
    /// What is allowed but should be known, a sentence each. To be logged at the start.
    pub warnings: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config::parse("defaults", "", std::iter::empty()).expect("the defaults hold to the rules")
    }
}

/// The process's environment, as [`Config::load`] takes it. What is not UTF-8 is none of ours.
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
            Ok(text) => Config::parse(&name, &text, env),
            Err(error) => Err(one(Problem {
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
            one(Problem {
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
        rules::check(&config, &mut reader);
        config.warnings = rules::warnings(&config);
        match reader.problems.is_empty() {
            true => Ok(config),
            false => Err(ConfigError { problems: reader.problems }),
        }
    }

    /// What differs in `new`, apart by whether a reload can follow.
    pub fn diff(&self, new: &Config) -> Changes {
        print::diff(self, new)
    }

    /// The effective tree as a file that means the same, except that secrets are hidden.
    pub fn to_toml(&self) -> String {
        print::to_toml(self)
    }

    /// The text of `holdline.toml`: every key with its meaning, range and default.
    pub fn documented() -> String {
        print::documented()
    }
}

fn tree(root: &dyn TableLike, reader: &mut Reader<'_>) -> Config {
    reader.top(root, &SECTIONS.map(|(name, _)| name));
    let server = reader.single(root, "server");
    // Before the listeners: whether there is a certificate decides which there are by default.
    let tls: Tls = reader.single(root, "tls");
    Config {
        server,
        listen: listeners(root, &tls, reader),
        tls,
        api: reader.single(root, "api"),
        limits: reader.single(root, "limits"),
        store: reader.single(root, "store"),
        products: products(root, reader),
        webhooks: reader.list(root, None, "webhook", WEBHOOKS_MAX),
        warnings: Vec::new(),
    }
}

fn listeners(root: &dyn TableLike, tls: &Tls, reader: &mut Reader<'_>) -> Vec<Listener> {
    if !root.contains_key("listen") {
        let mut listeners = usual_listeners(tls.certificate.is_some());
        for listener in &mut listeners {
            reader.fill(&Sheet::named("listen", &listener.name), None, &[], listener);
        }
        return listeners;
    }
    let mut listeners = Vec::new();
    for (name, sheet, table) in reader.named(root, "listen", LISTENERS_MAX) {
        if let Some(mut listener) = reader.blank(&name, &sheet) {
            reader.fill(&sheet, Some(table), &[], &mut listener);
            listeners.push(listener);
        }
    }
    listeners
}

/// The listeners of a server that was told of none.
fn usual_listeners(has_certificate: bool) -> Vec<Listener> {
    let on = |name: &str, port: u16, protocol: ListenerProtocol| {
        let blank = Listener::blank(name).expect("a plain word names a listener");
        Listener { address: ([127, 0, 0, 1], port).into(), protocol, ..blank }
    };
    let path = Some(WEB_SOCKET_PATH.to_string());
    let any = Listener { web_socket: path.clone(), ..on("any", 7000, ListenerProtocol::Any) };
    let miop = on("miop", 7001, ListenerProtocol::Miop);
    let ws = Listener { web_socket: path.clone(), ..on("ws", 7003, ListenerProtocol::Http) };
    let mut listeners = vec![any, miop, ws];
    if has_certificate {
        let miops = Listener { tls: true, ..on("miops", 7002, ListenerProtocol::Miop) };
        let wss = on("wss", 7004, ListenerProtocol::Http);
        listeners.extend([miops, Listener { tls: true, web_socket: path, ..wss }]);
    }
    listeners
}

fn products(root: &dyn TableLike, reader: &mut Reader<'_>) -> Vec<Product> {
    if !root.contains_key("products") {
        let mut demo = Product::blank("demo").expect("a plain word is a product's key");
        demo.app_id = 1;
        demo.proofs.anonymous = AnonymousFrom::Loopback;
        reader.fill(&Sheet::named("products", "demo"), None, &[], &mut demo);
        return vec![demo];
    }
    let mut products = Vec::new();
    for (name, sheet, table) in reader.named(root, "products", PRODUCTS_MAX) {
        let Some(mut product) = reader.blank::<Product>(&name, &sheet) else { continue };
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

fn one(problem: Problem) -> ConfigError {
    ConfigError { problems: vec![problem] }
}
