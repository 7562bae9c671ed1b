//! `holdline device`: what an operator does to a push device.

use crate::client::{Server, encoded, named, tell};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Action of `holdline device`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Disconnect a device; it may reconnect
    Kick {
        #[command(flatten)]
        device: Device,
        /// Address to connect to instead, HOST:PORT; can be repeated
        #[arg(long, value_name = "ADDRESS")]
        to: Vec<String>,
    },
    /// Block a device: its connection ends, and it is refused until unblocked
    Block(Device),
    /// Unblock a device
    Unblock(Device),
    /// Give a device to a user; pushes queued for an earlier user are removed
    Give {
        #[command(flatten)]
        device: Device,
        /// The user: the app's own name for a person, or an account of chat
        user: String,
    },
    /// Take a device from its user; pushes queued for it are removed
    Take(Device),
    /// Set the time zone of a device, by whose clock it gets messages with --at-local
    Zone {
        #[command(flatten)]
        device: Device,
        /// The zone: Europe/Berlin
        #[arg(required_unless_present = "none")]
        zone: Option<String>,
        /// Remove its time zone
        #[arg(long, conflicts_with = "zone")]
        none: bool,
    },
}

#[derive(Args)]
struct Device {
    /// Product of the device
    #[arg(value_parser = named)]
    product: String,
    /// Name of the device
    #[arg(value_parser = named)]
    device: String,
}

impl Device {
    /// Path of the call, without the device: it may have a name that no path carries.
    fn path(&self, what: &str) -> String {
        let (product, device) = (encoded(&self.product), encoded(&self.device));
        format!("/v1/device{what}?product={product}&device={device}")
    }
}

/// Carries out the command, and prints the result.
pub fn device(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let Arguments { server, json: as_json, action } = arguments;
    let (device, answer) = match action {
        Action::Kick { device, to } => {
            let order = if to.is_empty() { json!({}) } else { json!({ "addrs": to }) };
            (device, server.call("POST", &device.path("/kick"), Some(&order))?)
        }
        Action::Block(device) => (device, server.call("PUT", &device.path("/block"), None)?),
        Action::Give { device, user } => {
            let order = json!({ "user": user });
            (device, server.call("PUT", &device.path("/user"), Some(&order))?)
        }
        Action::Take(device) => (device, server.call("DELETE", &device.path("/user"), None)?),
        Action::Zone { device, zone, none: _ } => {
            let order = zone.as_ref().map(|zone| json!({ "zone": zone }));
            let method = if order.is_some() { "PUT" } else { "DELETE" };
            (device, server.call(method, &device.path("/zone"), order.as_ref())?)
        }
        Action::Unblock(device) => (device, server.call("DELETE", &device.path("/block"), None)?),
    };
    Ok(match as_json {
        true => format!("{answer}\n"),
        false => format!("{}: {}\n", device.device, outcome(&answer)),
    })
}

fn outcome(answer: &Value) -> &'static str {
    if let Some(user) = answer.get("user") {
        return if user.is_null() { "belongs to nobody" } else { "belongs to the user" };
    }
    if let Some(zone) = answer.get("zone") {
        return if zone.is_null() { "has no time zone" } else { "is in the time zone" };
    }
    match (answer["was_online"].as_bool(), answer["blocked"].as_bool()) {
        (Some(true), _) => "disconnected",
        (Some(false), _) => "was not connected",
        (None, Some(true)) => "blocked",
        _ => "unblocked",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_in_the_query_whatever_its_name_is() {
        let device = Device { product: "shop".into(), device: "till/7 #1".into() };
        assert_eq!(device.path("/kick"), "/v1/device/kick?product=shop&device=till%2F7%20%231");
        assert_eq!(outcome(&json!({ "was_online": false })), "was not connected");
        assert_eq!(outcome(&json!({ "blocked": true })), "blocked");
        assert_eq!(outcome(&json!({ "blocked": false })), "unblocked");
    }
}
