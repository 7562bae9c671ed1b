//! `holdline serve` and `holdline check`.

use server::config::mosquitto::{self, Fate, Note};
use server::config::{Config, ConfigError, environment};
use server::signals;
use server::start::Running;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the configuration is.
pub enum Source {
    /// In a file of ours; without one, the defaults hold.
    Own(Option<PathBuf>),
    /// In a file of mosquitto.
    Mosquitto {
        /// The file.
        file: PathBuf,
        /// What would be lost is a problem.
        strict: bool,
    },
}

impl Source {
    /// The configuration, and what became of options that are not its own.
    fn load(&self) -> Result<(Config, Vec<Note>), ConfigError> {
        match self {
            Source::Own(file) => Ok((Config::load(file.as_deref(), environment())?, Vec::new())),
            Source::Mosquitto { file, strict } => mosquitto::load(file, *strict, environment()),
        }
    }
}

/// Runs the server until it is told to stop.
pub fn serve(source: Source, data: Option<PathBuf>) -> ExitCode {
    let load = || {
        let (mut config, notes) = source.load()?;
        notes.iter().filter(|note| note.fate != Fate::Becomes).for_each(|n| eprintln!("{n}"));
        if let Some(data) = &data {
            config.server.data = data.clone();
        }
        Ok(config)
    };
    let config = match load() {
        Ok(config) => config,
        Err(error) => return refuse(&ConfigError::to_string(&error)),
    };
    server::log::start(&config);
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let caught = match signals::catch() {
        Ok(caught) => caught,
        Err(error) => return refuse(&format!("signals: {error}")),
    };
    let running = match server::start::start(config) {
        Ok(running) => running,
        Err(error) => return refuse(&error.to_string()),
    };
    print!("{}", welcome(&running));
    match signals::serve(caught, running, load) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&format!("signals: {error}")),
    }
}

/// Prints the configuration in force, or what is wrong with it.
pub fn check(file: Option<PathBuf>) -> ExitCode {
    match Config::load(file.as_deref(), environment()) {
        Ok(config) => {
            print!("{}", config.to_toml());
            config.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error.to_string()),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("{}", why.trim_end());
    ExitCode::FAILURE
}

/// What a new user sees: where everything is, and three things to try.
fn welcome(running: &Running) -> String {
    let config = running.config();
    let data = config.server.data.display().to_string();
    let mut text = format!("holdline {} is up\n\n", env!("CARGO_PKG_VERSION"));
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
    if let Some(product) = config.products.first() {
        text += &tries(running, product.key.as_str(), &data);
    }
    let named = config.listen.iter().filter(|listener| listener.name.starts_with("mqtt"));
    let mut ports = named.filter_map(|listener| running.port(&listener.name));
    let mqtt = ports.next().unwrap_or(1883);
    text += &format!(
        "\nTry, with any client of MQTT, each in a terminal of its own:\n\
         \x20 mosquitto_sub -p {mqtt} -v -t 'room/#'\n\
         \x20 mosquitto_pub -p {mqtt} -q 1 -t room/1 -m Hello\n\n\
         Stop with Ctrl-C. SIGHUP reads the configuration again.\n\n"
    );
    text
}

/// Commands that push to devices of this product.
fn tries(running: &Running, product: &str, data: &str) -> String {
    let port = running.port("any").unwrap_or(7000);
    let program = program();
    let folder = if Path::new(data) == Path::new("data") {
        String::new()
    } else {
        format!(" --data {data}")
    };
    let api = match running.api() {
        Some(address) if address.port() != 7080 => format!(" --url http://{address}"),
        _ => String::new(),
    };
    format!(
        "\nTry, in another terminal, the last two while the first one runs:\n\
         \x20 {program} wrk miop://tom:{product}@127.0.0.1:{port}/ -t 2 -c 1000 --latency -d 30s\n\
         \x20 {program} devices{folder}{api} --product {product} --online\n\
         \x20 {program} push{folder}{api} --product {product} --device tom-1 'Hello'\n"
    )
}

/// How this program was called, for commands that can be copied.
fn program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    if called.is_empty() { "holdline".into() } else { called }
}
