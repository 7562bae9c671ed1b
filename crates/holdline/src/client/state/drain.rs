//! `holdline drain` and `holdline undrain`: a running server sends its clients away and goes on.

use crate::client::{Server, tell};
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;

/// Time between two looks at how many connections are left.
const LOOK: Duration = Duration::from_secs(1);

/// Looks beyond the time of the drain.
const PATIENCE_S: u64 = 60;

/// Arguments of `holdline drain`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Wait until no connection is left
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `holdline undrain`.
#[derive(Args)]
pub struct UndrainArguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Sends the clients away, and waits for that if it is wanted.
pub fn drain(arguments: &Arguments) -> ExitCode {
    tell(drained(arguments))
}

/// Has the server accept clients again.
pub fn undrain(arguments: &UndrainArguments) -> ExitCode {
    let answer = arguments.server.call("DELETE", "/v1/drain", None);
    tell(answer.map(|answer| match arguments.json {
        true => format!("{answer}\n"),
        false => "Clients are accepted again.\n".to_owned(),
    }))
}

fn drained(arguments: &Arguments) -> Result<String, String> {
    let (server, json) = (&arguments.server, arguments.json);
    let answer = server.call("POST", "/v1/drain", None)?;
    let ms = answer["drain_ms"].as_u64().unwrap_or_default();
    if arguments.wait {
        wait(server, ms / 1_000 + PATIENCE_S)?;
    }
    Ok(match (json, arguments.wait) {
        (true, _) => format!("{answer}\n"),
        (false, true) => "Drained: no connection is left, and new clients are refused.\n".into(),
        (false, false) => format!(
            "Draining: new clients are refused, and connections are closed over {ms} ms. \
             `holdline undrain` ends it.\n"
        ),
    })
}

/// Waits until no connection is left; at most for so many looks.
fn wait(server: &Server, looks: u64) -> Result<(), String> {
    let mut left = 0;
    for _ in 0..=looks {
        let status = server.call("GET", "/v1/status", None)?;
        left = status["connections"].as_u64().unwrap_or_default();
        if left == 0 {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Err(format!("{left} connections are left; the server still drains"))
}
