//! `holdline store`: what an operator does with a data folder.
//!
//! All commands but the backup want a folder that no server uses. Findings go to standard output,
//! progress to standard error. It ends with 0, with 1 if damage was found, and with 2 if nothing
//! could be done.

mod copies;

use crate::client::Server;
use crate::out::Raw;
use base::secret::ClusterSecret;
use clap::{Args, Subcommand};
use model::ports::log::Table;
use server::config::{Config, environment};
use server::tools::{self, Carried, Damage, Exported};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Damage was found.
const DAMAGED: u8 = 1;

/// Exit code of a command that failed.
const CANNOT: u8 = 2;

/// Which folder, and what to do with it.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Configuration file that names the data folder
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Data folder, instead of server.data
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Verify all records; report damage with file and offset
    Check,
    /// Show record counts and sizes for each log
    Stats,
    /// Export all readable records as JSON lines; includes the cluster secret
    Export {
        /// File to create; standard output by default
        #[arg(value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Copy the intact records of a damaged folder to a new one; report what is missing
    Salvage {
        /// Folder to create
        #[arg(value_name = "DIR")]
        to: PathBuf,
    },
    /// Create a data folder from an export
    Import {
        /// The export; standard input by default
        #[arg(value_name = "FILE")]
        from: Option<PathBuf>,
        /// Number of shards of the server that will use it; 0: one per core
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=99))]
        shards: u16,
    },
    /// Split the folder by slots into new folders of equal size
    Split {
        /// Folders to create, at least two
        #[arg(value_name = "DIR", required = true, num_args = 2..)]
        to: Vec<PathBuf>,
    },
    /// Join all parts of a split folder into a new data folder (--data)
    Join {
        /// Folders of the parts
        #[arg(value_name = "DIR", required = true)]
        parts: Vec<PathBuf>,
    },
    /// Show the fingerprint of the cluster secret, from which stored identifiers are derived
    Secret {
        /// Show the secret itself; its owner can create tokens for every device
        #[arg(long, conflicts_with = "set")]
        reveal: bool,
        /// Create a data folder with the secret in this file, as shown by --reveal; -: standard
        /// input
        #[arg(long, value_name = "FILE")]
        set: Option<PathBuf>,
    },
    /// Rewrite the logs without dead records
    Compact,
    /// Back up the folder; a running server makes the copy itself
    Backup {
        /// Folder to create; the server must be able to write there
        #[arg(value_name = "DIR")]
        to: PathBuf,
        /// URL of the server's HTTP API, if the server is running
        #[arg(long, env = "HOLDLINE_URL", default_value = "http://127.0.0.1:7080")]
        url: String,
        /// API token; by default the one in the data folder
        #[arg(long, env = "HOLDLINE_TOKEN", hide_env_values = true)]
        token: Option<String>,
    },
    /// Create the data folder from a backup, and verify all records
    Restore {
        /// The backup
        #[arg(value_name = "BACKUP")]
        from: PathBuf,
    },
}

/// Carries out the command; its result is in the exit code.
pub fn store(arguments: Arguments) -> ExitCode {
    match run(arguments) {
        Ok(code) => code,
        Err(why) => {
            note!("{}", why.trim_end());
            ExitCode::from(CANNOT)
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, String> {
    let Arguments { command, config, data } = arguments;
    let data = match data {
        Some(data) => data,
        None => {
            let config = Config::load(config.as_deref(), environment());
            config.map_err(|error| error.to_string())?.server.data
        }
    };
    match command {
        Command::Check => check(&data),
        Command::Stats => stats(&data),
        Command::Export { to } => export(&data, to.as_deref()),
        Command::Salvage { to } => salvage(&data, &to),
        Command::Import { from, shards } => import(&data, from.as_deref(), shards),
        Command::Split { to } => split(&data, &to),
        Command::Join { parts } => join(&parts, &data),
        Command::Secret { reveal, set: None } => show_secret(&data, reveal),
        Command::Secret { set: Some(from), .. } => set_secret(&data, &from),
        Command::Compact => compact(&data),
        Command::Backup { to, url, token } => {
            copies::backup(&data, &to, &Server::at(url, token, data.clone()))
        }
        Command::Restore { from } => copies::restore(&from, &data),
    }
}

fn check(data: &Path) -> Result<ExitCode, String> {
    note!("reading {} ...", data.display());
    let checked = tools::check(data)?;
    let line = |damage: &Damage, what: &str| {
        out!("{what}: {} byte {}: {}", damage.file.display(), damage.offset, damage.why);
    };
    let harmless = if checked.is_sound() { "torn end, harmless" } else { "torn end" };
    checked.torn.iter().for_each(|torn| line(torn, harmless));
    checked.damages.iter().for_each(|damage| line(damage, "damage"));
    out!(
        "{} logs, {} segments, {} bytes, {} records; {} rows, {} timelines, {} messages, {} \
         cursors",
        checked.logs,
        checked.segments,
        checked.bytes,
        checked.records,
        checked.rows,
        checked.timelines,
        checked.entries,
        checked.cursors,
    );
    match checked.is_sound() {
        true => {
            out!("sound");
            Ok(ExitCode::SUCCESS)
        }
        false => {
            out!("{} damages", checked.damages.len());
            Ok(ExitCode::from(DAMAGED))
        }
    }
}

fn stats(data: &Path) -> Result<ExitCode, String> {
    note!("reading {} ...", data.display());
    for (number, log) in tools::stats(data)?.iter().enumerate() {
        let sizes = &log.sizes;
        let live = (sizes.live_bytes * 100).checked_div(sizes.log_bytes).unwrap_or(100);
        out!(
            "log-{number:02}: {} bytes in {} segments, {live}% alive; {} records after the last \
             checkpoint",
            sizes.log_bytes,
            sizes.segments,
            log.replayed,
        );
        for (space, timelines) in &log.timelines {
            let entries = log.entries.get(space).copied().unwrap_or(0);
            out!("  {space:?}: {entries} messages in {timelines} timelines");
        }
        for (table, rows) in &log.rows {
            let name = Table::from_byte(*table).unwrap_or(Table::Other);
            out!("  {name:?}: {rows} rows");
        }
        out!("  {} cursors", log.cursors);
        if let Some(oldest_s) = log.oldest_s {
            out!("  oldest message: Unix time {oldest_s}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn export(data: &Path, to: Option<&Path>) -> Result<ExitCode, String> {
    let mut out: Box<dyn Write> = match to {
        Some(path) => {
            note!("writing {} ...", path.display());
            let mut options = OpenOptions::new();
            // It holds secrets.
            let file = options.write(true).create_new(true).mode(0o600).open(path);
            Box::new(file.map_err(|error| format!("{}: {error}", path.display()))?)
        }
        None => Box::new(Raw),
    };
    let mut buffered = BufWriter::new(&mut out);
    let Exported { sums, lost, damages } = tools::export(data, &mut buffered)?;
    buffered.flush().map_err(|error| error.to_string())?;
    // Standard output may be the export.
    for Damage { file, offset, why } in damages {
        note!("left out: {} byte {offset}: {why}", file.display());
    }
    note!("{} rows, {} messages in {} timelines", sums.rows, sums.entries, sums.timelines);
    if lost == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    note!("{lost} messages are unreadable and not exported");
    Ok(ExitCode::from(DAMAGED))
}

fn salvage(data: &Path, to: &Path) -> Result<ExitCode, String> {
    note!("reading {}, creating {} ...", data.display(), to.display());
    let salvaged = tools::salvage(data, to)?;
    for Damage { file, offset, why } in &salvaged.damages {
        out!("damage: {} byte {offset}: {why}", file.display());
    }
    for log in &salvaged.from_records {
        out!(
            "log-{log:02}: its derived state is unreadable and its first segments are missing: \
             removed messages may reappear"
        );
    }
    let sums = salvaged.sums;
    out!("{} rows, {} messages in {} timelines", sums.rows, sums.entries, sums.timelines);
    if salvaged.is_whole() {
        out!("nothing is missing");
        return Ok(ExitCode::SUCCESS);
    }
    out!("{} damages, {} messages lost", salvaged.count, salvaged.lost);
    Ok(ExitCode::from(DAMAGED))
}

fn import(data: &Path, from: Option<&Path>, shards: u16) -> Result<ExitCode, String> {
    note!("creating {} ...", data.display());
    let sums = match from {
        Some(path) => {
            let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            tools::import(&mut BufReader::new(file), data, shards)?
        }
        None => tools::import(&mut io::stdin().lock(), data, shards)?,
    };
    out!("{} rows, {} messages in {} timelines", sums.rows, sums.entries, sums.timelines);
    Ok(ExitCode::SUCCESS)
}

fn split(data: &Path, to: &[PathBuf]) -> Result<ExitCode, String> {
    note!("splitting {} ...", data.display());
    for (part, path) in tools::split(data, to)?.iter().zip(to) {
        let path = path.display();
        let Carried { rows, timelines, entries } = part;
        out!("{path}: {rows} rows, {entries} messages in {timelines} timelines");
    }
    Ok(ExitCode::SUCCESS)
}

fn join(parts: &[PathBuf], data: &Path) -> Result<ExitCode, String> {
    note!("creating {} ...", data.display());
    let sums = tools::join(parts, data)?;
    out!("{} rows, {} messages in {} timelines", sums.rows, sums.entries, sums.timelines);
    Ok(ExitCode::SUCCESS)
}

fn show_secret(data: &Path, reveal: bool) -> Result<ExitCode, String> {
    let secret = tools::secret(data)?;
    match reveal {
        true => out!("{}", secret.to_text()),
        false => out!("cluster {:016x}", secret.fingerprint()),
    }
    Ok(ExitCode::SUCCESS)
}

fn set_secret(data: &Path, from: &Path) -> Result<ExitCode, String> {
    let text = match from.as_os_str() == "-" {
        true => io::read_to_string(io::stdin()).map_err(|error| error.to_string())?,
        false => {
            let text = std::fs::read_to_string(from);
            text.map_err(|error| format!("{}: {error}", from.display()))?
        }
    };
    let secret = ClusterSecret::parse(text.trim()).ok_or_else(|| {
        format!(
            "{} must contain the 64 hexadecimal digits printed by --reveal, and nothing else",
            from.display()
        )
    })?;
    tools::set_secret(data, secret)?;
    out!("cluster {:016x}", secret.fingerprint());
    Ok(ExitCode::SUCCESS)
}

fn compact(data: &Path) -> Result<ExitCode, String> {
    note!("compacting {} ...", data.display());
    let compacted = tools::compact(data)?;
    out!("{} bytes before, {} bytes now", compacted.before_bytes, compacted.after_bytes);
    Ok(ExitCode::SUCCESS)
}
