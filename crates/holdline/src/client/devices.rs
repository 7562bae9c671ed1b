//! `holdline devices` shows who is there, as a table or as JSON.

use crate::client::{Server, query};
use crate::clients::text;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;
use view::words;

/// Which devices to show.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Only devices of this product
    #[arg(long)]
    product: Option<String>,
    /// Only online devices
    #[arg(long, conflicts_with = "offline")]
    online: bool,
    /// Only offline devices
    #[arg(long)]
    offline: bool,
    /// Only devices with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Maximum number of entries
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Print JSON, one device per line
    #[arg(long)]
    json: bool,
    /// Look up these devices of the product
    #[arg(requires = "product")]
    ids: Vec<String>,
}

/// Prints the devices.
pub fn devices(arguments: Arguments) -> ExitCode {
    match fetch(&arguments) {
        Ok(devices) => {
            print(&devices, arguments.json);
            ExitCode::SUCCESS
        }
        Err(why) => {
            note!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn fetch(arguments: &Arguments) -> Result<Vec<Value>, String> {
    if let (Some(product), false) = (&arguments.product, arguments.ids.is_empty()) {
        let path = format!("/v1/products/{product}/devices/query");
        let answer =
            arguments.server.call("POST", &path, Some(&json!({ "devices": arguments.ids })))?;
        return Ok(answer["devices"].as_array().cloned().unwrap_or_default());
    }
    let online = (arguments.online || arguments.offline).then_some(arguments.online);
    let filters = [
        ("product", arguments.product.clone()),
        ("tag", arguments.tag.clone()),
        ("online", online.map(|online| online.to_string())),
    ];
    let asked = query("/v1/devices", &filters);
    let page = arguments.server.page(&asked, "devices", arguments.limit)?;
    if !page.is_all {
        let is_filtered = filters.iter().any(|(_, filter)| filter.is_some());
        note!("{}", partial(page.found.len(), if is_filtered { None } else { known(arguments) }));
    }
    Ok(page.found)
}

/// All devices of the server, where the token may know.
fn known(arguments: &Arguments) -> Option<u64> {
    arguments.server.call("GET", "/v1/status", None).ok()?["devices"].as_u64()
}

/// Line that says that a list is not whole.
fn partial(shown: usize, all: Option<u64>) -> String {
    match all {
        Some(all) => format!("{shown} of {} shown; --limit shows more", words::count(all as f64)),
        None => format!("{shown} shown, more exist; --limit shows more"),
    }
}

fn print(devices: &[Value], json: bool) {
    if json {
        devices.iter().for_each(|device| out!("{device}"));
        return;
    }
    out!(
        "{:<16} {:<32} {:<8} {:<8} {:>7}  TAGS",
        "PRODUCT",
        "DEVICE",
        "STATE",
        "PROTOCOL",
        "WAITING"
    );
    for device in devices {
        let text = |key: &str| text(&device[key]);
        let state = if device["online"] == true { "online" } else { "offline" };
        let tags: Vec<String> =
            device["tags"].as_array().into_iter().flatten().map(self::text).collect();
        out!(
            "{:<16} {:<32} {state:<8} {:<8} {:>7}  {}",
            text("product"),
            text("device"),
            text("protocol"),
            text("waiting"),
            tags.join(" ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_not_the_whole_one_says_so() {
        assert_eq!(partial(20, Some(1_000)), "20 of 1,000 shown; --limit shows more");
        assert_eq!(partial(20, None), "20 shown, more exist; --limit shows more");
    }
}
