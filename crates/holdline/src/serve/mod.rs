//! `holdline serve` and `holdline check`.

pub mod cluster;
mod service_user;

use model::product::AnonymousFrom;
use model::{event, tell};
use server::config::mosquitto::{self, OptionFate, OptionNote};
use server::config::{Anonymous, ListenSection, ListenerProtocol, ProxyHeader};
use server::config::{Config, ConfigError, environment};
use server::signals::{self, Again, Caught};
use server::start::cluster::Node;
use server::start::{CHAT_PATH, Inherited, LoadConfig, RunningServer, StartOptions};
use server::start::{gives_page, start_with, take_over};
use server::takeover::Predecessor;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Where the configuration is.
pub enum Source {
    /// In a file of ours; without one, the defaults hold.
    Own(Option<PathBuf>),
    /// In a file of mosquitto.
    Mosquitto {
        /// The file.
        file: PathBuf,
        /// Unsupported options are errors.
        strict: bool,
    },
}

impl Source {
    /// The configuration, and what became of options that are not its own.
    fn load(&self) -> Result<(Config, Vec<OptionNote>), ConfigError> {
        match self {
            Source::Own(file) => Ok((Config::load(file.as_deref(), environment())?, Vec::new())),
            Source::Mosquitto { file, strict } => {
                let (config, notes) = mosquitto::load(file, *strict, environment())?;
                Ok((Config { file: Some(file.clone()), ..config }, notes))
            }
        }
    }
}

/// Runs the server until it is told to stop; in the place of one that runs, if it is to take over.
pub fn serve(source: Source, data: Option<PathBuf>, takes_over: bool) -> ExitCode {
    // A file of mosquitto knows no default listeners of ours.
    let is_own = matches!(source, Source::Own(_));
    let read = move || {
        let (mut config, notes) = source.load()?;
        if let Some(data) = &data {
            config.server.data = data.clone();
        }
        Ok((config, notes))
    };
    let read = Arc::new(read);
    let load = || {
        let (config, notes) = read()?;
        notes.iter().filter(|note| note.fate != OptionFate::Becomes).for_each(|n| note!("{n}"));
        Ok(config)
    };
    let config = match load() {
        Ok(config) => config,
        Err(error) => return refuse(&ConfigError::to_string(&error)),
    };
    server::start::pages::let_be_huge(config.server.huge_pages);
    server::log::start(&config);
    let inherited = Inherited::take(environment());
    config.warnings.iter().for_each(|warning| tell!(event::CONFIGURATION_WARNING, what = %warning));
    if is_own && let Some(what) = config.closed_defaults_told() {
        tell!(event::DEFAULT_LISTENERS_CLOSED, what);
    }
    // While one waits for the running server a signal ends this one, and that one serves on.
    let taken = if takes_over { take_over(&config, inherited) } else { Ok((None, inherited)) };
    let (predecessor, inherited) = match taken {
        Ok(taken) => taken,
        Err(error) => return refuse(&error.to_string()),
    };
    let caught = match signals::catch() {
        Ok(caught) => caught,
        Err(error) => return refuse(&format!("signals: {error}")),
    };
    let again = Arc::clone(&read);
    let would_load: LoadConfig = Arc::new(move || {
        let (mut config, notes) = again()?;
        let unsupported = notes.iter().filter(|note| note.fate != OptionFate::Becomes);
        config.warnings.extend(unsupported.map(ToString::to_string));
        Ok(config)
    });
    if config.cluster.is_on() {
        return serve_node((&caught, would_load), config, (inherited, predecessor));
    }
    let start = |config, inherited| {
        let load = Some(would_load.clone());
        start_with(config, StartOptions { inherited, load, ..StartOptions::default() })
    };
    let running = match (start(config, inherited), &predecessor) {
        (Ok(running), _) => running,
        (Err(error), None) => return refuse(&error.to_string()),
        (Err(error), Some(old)) => {
            let pid = old.pid();
            return refuse(&format!(
                "{error}\nThe take-over failed; the old server, process {pid}, continues to serve"
            ));
        }
    };
    if let Some(predecessor) = predecessor {
        predecessor.tell_serving();
    }
    server::log::print(&welcome(&running));
    match signals::serve(&caught, running, &Again { start: &start }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error.to_string()),
    }
}

/// Runs a node of a cluster until it is told to stop.
fn serve_node(
    (caught, load): (&Caught, LoadConfig),
    config: Config,
    place: (Inherited, Option<Predecessor>),
) -> ExitCode {
    let start = |config, inherited, lead| {
        let load = Some(load.clone());
        start_with(config, StartOptions { inherited, load, lead, ..StartOptions::default() })
    };
    let node = Node { caught, load: load.clone(), start: &start, welcome: &welcome };
    match server::start::cluster::serve(&node, config, place) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error.to_string()),
    }
}

/// Prints the configuration in force, unless it is to be quiet, or what is wrong with it and with
/// the files it names.
pub fn check(file: Option<PathBuf>, quiet: bool) -> ExitCode {
    match Config::load(file.as_deref(), environment()) {
        Ok(config) => {
            let wrong = server::start::unusable(&config);
            if !wrong.is_empty() {
                return refuse(&wrong.join("\n"));
            }
            if !quiet {
                crate::out::print(&config.to_toml());
            }
            let certificates = server::start::certificates(&config);
            let expiring: Vec<_> = certificates.iter().filter_map(|it| it.warning()).collect();
            let unreadable = service_user::warnings(file.as_deref(), &config);
            let warnings = config.warnings.iter().chain(&expiring).chain(&unreadable);
            warnings.for_each(|warning| note!("warning: {warning}"));
            config.closed_defaults_told().iter().for_each(|told| note!("note: {told}"));
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error.to_string()),
    }
}

/// Prints every key of the configuration with its meaning, default and allowed values.
pub fn print_defaults() -> ExitCode {
    crate::out::print(&Config::documented());
    ExitCode::SUCCESS
}

fn refuse(why: &str) -> ExitCode {
    note!("{}", why.trim_end());
    ExitCode::FAILURE
}

/// Text for a new user: addresses, and commands to try.
fn welcome(running: &RunningServer) -> String {
    let config = running.config();
    let data = config.server.data.display().to_string();
    let mut text = format!("holdline {} is running\n\n", env!("CARGO_PKG_VERSION"));
    for (name, address) in running.listening() {
        text += &format!("  {name:<8} {address}\n");
    }
    if let Some(address) = running.api() {
        text += &format!("  {:<8} http://{address}\n", "api");
    }
    text += &format!("  {:<8} {data}\n", "data");
    if let Some(file) = running.token_file() {
        text += &format!("  {:<8} {}\n", "token", file.display());
    }
    text += &tries(running, &config).unwrap_or_default();
    text += &tries_mqtt(running, &config).unwrap_or_default();
    text += &tries_im(running, &config).unwrap_or_default();
    text += &tries_page(running, &config).unwrap_or_default();
    text += &tries_console(running, &config).unwrap_or_default();
    text + "\nStop with Ctrl-C. SIGHUP reloads the configuration.\n\n"
}

/// Where one gets in, in the clear, by the first of these protocols that is served so.
fn open_door<'a>(
    running: &RunningServer,
    config: &'a Config,
    protocols: [ListenerProtocol; 2],
) -> Option<(&'a ListenSection, SocketAddr)> {
    let all = &config.listen;
    let of = |protocol| all.iter().filter(move |it: &&ListenSection| it.protocol == protocol);
    let mut open = protocols.into_iter().flat_map(of).filter_map(|it| open_at(running, it));
    open.next()
}

/// A listener and where one reaches it, if that is in the clear and open.
fn open_at<'a>(
    running: &RunningServer,
    listener: &'a ListenSection,
) -> Option<(&'a ListenSection, SocketAddr)> {
    let is_plain = !listener.tls && listener.proxy == ProxyHeader::Off;
    let mut addr = running.addr(&listener.name).filter(|_| is_plain)?;
    if addr.ip().is_unspecified() {
        addr.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    Some((listener, addr))
}

/// Commands for MQTT, if it may be tried without a name.
fn tries_mqtt(running: &RunningServer, config: &Config) -> Option<String> {
    let (listener, addr) =
        open_door(running, config, [ListenerProtocol::Mqtt, ListenerProtocol::Any])?;
    let at = match addr.ip().to_string().as_str() {
        "127.0.0.1" => format!("-p {}", addr.port()),
        host => format!("-h {host} -p {}", addr.port()),
    };
    is_open(listener, addr).then(|| {
        format!(
            "\nTry MQTT with any client, each command in its own terminal:\n\
             \x20 mosquitto_sub {at} -v -t 'room/#'\n\
             \x20 mosquitto_pub {at} -q 1 -t room/1 -m Hello\n"
        )
    })
}

/// Commands for two people who talk, if anybody may who has no proof.
fn tries_im(running: &RunningServer, config: &Config) -> Option<String> {
    let (listener, addr) =
        open_door(running, config, [ListenerProtocol::Im, ListenerProtocol::Any])?;
    let at = match (addr.ip().to_string().as_str(), addr.port()) {
        ("127.0.0.1", 7005) => String::new(),
        ("127.0.0.1", port) => format!(" -p {port}"),
        (host, port) => format!(" --host {host} -p {port}"),
    };
    let program = program();
    is_open(listener, addr).then(|| {
        format!(
            "\nTry a chat, each command in its own terminal:\n\
             \x20 {program} im chat bob --user ann{at}\n\
             \x20 {program} im chat ann --user bob{at}\n"
        )
    })
}

/// Where the chat page is, if one may talk on it without a proof: at the listener for it, if there
/// is one.
fn tries_page(running: &RunningServer, config: &Config) -> Option<String> {
    let all = &config.listen;
    let gives = |it: &&ListenSection| gives_page(config, it);
    let open = all.iter().filter(gives).filter_map(|it| open_at(running, it));
    let mut open = open.filter(|(listener, addr)| is_open(listener, *addr)).collect::<Vec<_>>();
    open.sort_by_key(|(listener, _)| listener.protocol != ListenerProtocol::Im);
    let (_, addr) = open.first()?;
    Some(format!("\nOr in a browser, one tab per user:\n  http://{addr}{CHAT_PATH}\n"))
}

/// Where the console is, and what it asks for.
fn tries_console(running: &RunningServer, config: &Config) -> Option<String> {
    let mut address = running.api().filter(|_| config.api.console)?;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    let token = match running.token_file() {
        Some(file) => format!("the token in {}", file.display()),
        None => "the token of [api] token".to_owned(),
    };
    Some(format!("\nOpen the console in a browser and log in with {token}:\n  http://{address}/\n"))
}

/// Whether clients come in here without a proof.
fn is_open(listener: &ListenSection, addr: SocketAddr) -> bool {
    match listener.anonymous {
        Anonymous::No => false,
        Anonymous::Loopback => addr.ip().is_loopback(),
        Anonymous::Yes => true,
    }
}

/// Commands that push to devices of a product, if there is one that may be tried without a secret.
fn tries(running: &RunningServer, config: &Config) -> Option<String> {
    let (_, addr) = open_door(running, config, [ListenerProtocol::Any, ListenerProtocol::Miop])?;
    running.api()?;
    let data = config.server.data.display().to_string();
    let open = |from| match from {
        AnonymousFrom::Nowhere => false,
        AnonymousFrom::Loopback => addr.ip().is_loopback(),
        AnonymousFrom::Everywhere => true,
    };
    let products = &config.products;
    let product = products.iter().find(|product| open(product.proofs.anonymous))?.key.as_str();
    let program = program();
    let folder = if config.server.data == Path::new("data") {
        String::new()
    } else {
        format!(" --data {data}")
    };
    let api = match running.api() {
        Some(address) if address.port() != 7080 => format!(" --url http://{address}"),
        _ => String::new(),
    };
    Some(format!(
        "\nTry push, each command in its own terminal while the first one runs:\n\
         \x20 {program} wrk miop://tom:{product}@{addr}/ -t 2 -c 1000 -R 1000 --latency -d 30s\n\
         \x20 {program} devices{folder}{api} --product {product} --online\n\
         \x20 {program} push{folder}{api} --product {product} --device tom-1 'Hello'\n"
    ))
}

/// How this program was called, for commands that can be copied.
fn program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    if called.is_empty() { "holdline".into() } else { called }
}
