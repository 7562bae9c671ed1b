//! `holdline push`: a push to a device, some devices, a tag, an audience or a whole product; what
//! became of one, and its cancel.

pub mod expression;

use crate::client::{Server, encoded, moment, query, tell, unix_ms};
use crate::clients::text;
use clap::{Args, Subcommand};
use expression::expression;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A push and its targets, or what is done with one that was ordered. Without a subcommand clap
/// demands the options that are required.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    server: Server,
    /// Product of the devices
    #[arg(long, required = true)]
    product: Option<String>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    manner: Manner,
    /// When to send it: 2027-01-31T08:00:00Z, another offset in place of Z, or Unix seconds; does
    /// not wait for acknowledgements
    #[arg(long, value_name = "TIME", value_parser = unix_ms)]
    at: Option<u64>,
    /// When to send it by the clock of each device: 2027-01-31T18:00
    #[arg(long, value_name = "TIME", conflicts_with = "at")]
    at_local: Option<String>,
    /// Time zone of devices without one: Europe/Berlin [default: UTC]
    #[arg(long, requires = "at_local")]
    zone: Option<String>,
    /// Leave out devices whose clocks are past the time; otherwise they get the message at once
    #[arg(long, requires = "at_local")]
    skip_passed: bool,
    /// Only count the devices that the push would be for; nothing is sent
    #[arg(long)]
    dry_run: bool,
    /// How long to wait for acknowledgements: 500ms, 5s; a plain number is in milliseconds
    #[arg(
        long,
        value_name = "TIME",
        value_parser = crate::duration::millis,
        default_value = "2s"
    )]
    wait: u32,
    /// The message; `-`: read it from standard input
    #[arg(required = true)]
    body: Option<String>,
}

/// How a message is sent.
#[derive(Args)]
pub struct Manner {
    /// How long to keep the message for offline devices: 90s, 5m, 1h30m; 0: deliver to online
    /// devices only. A plain number is in seconds
    #[arg(
        long,
        value_name = "TIME",
        value_parser = crate::duration::seconds,
        default_value = "1d"
    )]
    ttl: u32,
    /// Collapse key: replaces an undelivered message with the same key
    #[arg(long, value_name = "KEY")]
    collapse: Option<String>,
    /// High priority: delivered before other queued messages
    #[arg(long)]
    high: bool,
    /// Silent: the device shows no notification
    #[arg(long)]
    silent: bool,
    /// Devices a second, at most; not with --device
    #[arg(long, value_name = "DEVICES", conflicts_with = "device")]
    rate: Option<u32>,
}

impl Manner {
    /// An order of a message that is sent so.
    pub fn order(&self, product: Option<&str>, body: &str) -> Value {
        let mut order = json!({
            "product": product,
            "body": body,
            "ttl_s": self.ttl,
            "priority": if self.high { "high" } else { "normal" },
            "silent": self.silent,
        });
        if let Some(rate) = self.rate {
            order["devices_per_s"] = json!(rate);
        }
        if let Some(key) = &self.collapse {
            order["collapse_key"] = json!(key);
        }
        order
    }
}

/// The devices that a message is for.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub struct Target {
    /// Push to this device; can be repeated
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["tag", "all", "tags", "devices_from", "except", "except_from", "user"]
    )]
    device: Vec<String>,
    /// Push to the devices of this user; with --tags, only to those that satisfy it
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["tag", "all", "devices_from", "except", "except_from"]
    )]
    user: Option<String>,
    /// Only to the user's device that is online, or was last
    #[arg(long, requires = "user")]
    last_active: bool,
    /// Push to all devices with this tag
    #[arg(long, conflicts_with_all = ["all", "tags"])]
    tag: Option<String>,
    /// Push to all devices of the product
    #[arg(long, conflicts_with_all = ["tags", "devices_from"])]
    all: bool,
    /// Push to the devices whose tags satisfy this: berlin and not (muted or @staff); @NAME is a
    /// saved segment
    #[arg(long, value_name = "EXPRESSION", value_parser = expression)]
    tags: Option<Value>,
    /// Push to the devices named in this file, one a line
    #[arg(long, value_name = "FILE")]
    devices_from: Option<PathBuf>,
    /// Not to this device; can be repeated
    #[arg(long, value_name = "ID")]
    except: Vec<String>,
    /// Not to the devices named in this file, one a line
    #[arg(long, value_name = "FILE")]
    except_from: Option<PathBuf>,
}

impl Target {
    /// Sets the target in an order.
    pub fn set(&self, order: &mut Value) -> Result<(), String> {
        let Target { device, user, last_active, .. } = self;
        let Target { tag, all, tags, devices_from, except, except_from, .. } = self;
        if let Some(user) = user {
            order["user"] = json!(user);
            if let Some(tags) = tags {
                order["user_tags"] = tags.clone();
            }
            if *last_active {
                order["last_active"] = json!(true);
            }
            return Ok(());
        }
        let is_audience =
            tags.is_some() || devices_from.is_some() || except_from.is_some() || !except.is_empty();
        if !device.is_empty() {
            order["devices"] = json!(device);
        } else if !is_audience {
            match tag {
                Some(tag) => order["tag"] = json!(tag),
                None => order["all"] = json!(all),
            }
        } else {
            let mut audience = json!({});
            if let Some(tags) = tags.clone().or(tag.as_ref().map(|tag| json!(tag))) {
                audience["tags"] = tags;
            }
            if let Some(file) = devices_from {
                audience["devices"] = json!(names(file)?);
            }
            let mut except = except.clone();
            if let Some(file) = except_from {
                except.extend(names(file)?);
            }
            if !except.is_empty() {
                audience["except"] = json!(except);
            }
            order["audience"] = audience;
        }
        Ok(())
    }
}

/// The names in a file, one a line; empty lines are skipped.
fn names(file: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[derive(Subcommand)]
enum Action {
    /// Show the progress of a push to a tag or a product, or of a cancelled one
    Status(Existing),
    /// List pushes that are scheduled, running or remembered
    List {
        #[command(flatten)]
        server: Server,
        /// Only those in this state: scheduled, paused, running, finished, cancelled
        #[arg(long)]
        state: Option<String>,
        /// Only those for devices of this product
        #[arg(long)]
        product: Option<String>,
        /// Maximum number of pushes
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Pause a push to a tag or a product, or a scheduled one
    Pause(Existing),
    /// Resume a paused push
    Resume(Existing),
    /// Cancel a push: recall it from all devices that have not acknowledged it
    Cancel(Existing),
}

/// A push that was ordered.
#[derive(Args)]
struct Existing {
    #[command(flatten)]
    server: Server,
    /// Id of the push
    id: String,
    /// Product of its devices; needed with a token that is bound to products
    #[arg(long)]
    product: Option<String>,
}

/// Pushes and prints what became of it, a line a device.
pub fn push(arguments: Arguments) -> ExitCode {
    let answer = match &arguments.action {
        Some(Action::Status(push)) => push.call("GET", ""),
        Some(Action::Cancel(push)) => push.call("DELETE", ""),
        Some(Action::Pause(push)) => push.call("POST", "/pause"),
        Some(Action::Resume(push)) => push.call("POST", "/resume"),
        Some(Action::List { server, state, product, limit }) => {
            return list(server, [state, product], *limit);
        }
        None => order(&arguments),
    };
    match answer {
        Ok(answer) => print(&answer),
        Err(why) => tell(Err(why)),
    }
}

fn list(server: &Server, [state, product]: [&Option<String>; 2], limit: u32) -> ExitCode {
    let filters = [("state", state.clone()), ("product", product.clone())];
    match server.pages(&query("/v1/pushes", &filters), "pushes", limit) {
        Ok(found) => {
            for push in found {
                let at = moment(&push["send_at_ms"], "-");
                let (id, state, product) = (&push["id"], &push["state"], &push["product"]);
                out!(
                    "{} {:<9} {at:<20} {} {}",
                    text(id),
                    text(state),
                    text(product),
                    push["counts"]
                );
            }
            ExitCode::SUCCESS
        }
        Err(why) => tell(Err(why)),
    }
}

impl Existing {
    fn call(&self, method: &str, action: &str) -> Result<Value, String> {
        let path = format!("/v1/pushes/{}{action}", encoded(&self.id));
        let product = if method == "GET" { None } else { self.product.clone() };
        self.server.call(method, &query(&path, &[("product", product)]), None)
    }
}

fn order(arguments: &Arguments) -> Result<Value, String> {
    let mut body = arguments.body.clone().unwrap_or_default();
    if body == "-" {
        body.clear();
        std::io::stdin().read_to_string(&mut body).map_err(|error| error.to_string())?;
    }
    let mut order = arguments.manner.order(arguments.product.as_deref(), &body);
    match (arguments.at, &arguments.at_local) {
        (Some(at_ms), _) => order["send_at_ms"] = json!(at_ms),
        (None, Some(at)) => {
            order["at_local"] = json!(at);
            order["passed"] = json!(if arguments.skip_passed { "skip" } else { "send" });
            if let Some(zone) = &arguments.zone {
                order["zone"] = json!(zone);
            }
        }
        (None, None) => order["wait_ms"] = json!(arguments.wait),
    }
    if arguments.dry_run {
        order["dry_run"] = json!(true);
    }
    arguments.target.set(&mut order)?;
    arguments.server.call("POST", "/v1/pushes", Some(&order))
}

/// Prints the outcomes, and fails if the push was rejected, for the sake of scripts.
fn print(answer: &Value) -> ExitCode {
    if answer.get("took_ms").is_some() {
        out!(
            "{} devices, {} online, {} unknown; counted in {} ms",
            text(&answer["matched"]),
            text(&answer["online"]),
            text(&answer["unknown"]),
            text(&answer["took_ms"])
        );
        return ExitCode::SUCCESS;
    }
    out!("push {}", text(&answer["id"]));
    let mut rejected = false;
    match answer["outcomes"].as_array().filter(|outcomes| !outcomes.is_empty()) {
        Some(outcomes) => {
            for outcome in outcomes {
                let reason = &outcome["reason"];
                let why = if reason.is_null() { "".into() } else { format!(" ({})", text(reason)) };
                out!("{:<32} {}{why}", text(&outcome["device"]), text(&outcome["outcome"]));
                rejected |= outcome["outcome"] == "rejected";
            }
        }
        None => out!("{} {}", text(&answer["state"]), answer["counts"]),
    }
    if rejected { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
