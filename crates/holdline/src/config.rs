//! `holdline config import`: a configuration of this server, written from another one's.

use clap::{Args, Subcommand};
use server::config::mosquitto::{self, OptionFate};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Action of `holdline config`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Convert a mosquitto.conf and its includes; unsupported options are reported
    Import {
        /// The file to convert
        file: PathBuf,
        /// File to create; standard output by default
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Write nothing if an option is unsupported
        #[arg(long)]
        strict: bool,
    },
}

/// Carries out the command. Notes are on standard error, for the result may be on standard output.
pub fn config(arguments: Arguments) -> ExitCode {
    let Action::Import { file, out, strict } = arguments.action;
    match import(&file, out.as_deref(), strict) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            note!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn import(file: &Path, out: Option<&Path>, strict: bool) -> Result<(), String> {
    let translated = mosquitto::translate(file).map_err(|error| error.to_string())?;
    translated.notes.iter().filter(|n| n.fate != OptionFate::Becomes).for_each(|n| note!("{n}"));
    let lost = translated.lost().count();
    if strict && lost > 0 {
        return Err(format!("nothing written: {lost} of these options are unsupported (--strict)"));
    }
    // The variables of this shell are none of that server's.
    let config = mosquitto::config(&translated, std::iter::empty());
    let config = config.map_err(|error| error.to_string())?;
    config.warnings.iter().for_each(|warning| note!("warning: {warning}"));
    match out {
        None => crate::out::print(&translated.text),
        Some(path) => write_new(path, &translated.text)
            .map_err(|error| format!("{}: {error}", path.display()))?,
    }
    Ok(())
}

/// A new file that nobody else reads: there may be passwords of bridges in it.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
