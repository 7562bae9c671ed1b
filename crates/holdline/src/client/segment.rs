//! `holdline segment`: saved expressions over the tags of a product's devices.

use crate::client::{Server, encoded, entries, named, tell};
use crate::clients::{lines, text};
use crate::push::expression::{expression, shown};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Action of `holdline segment`.
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
    /// List the segments of a product
    List {
        /// Key of the product
        #[arg(long, value_parser = named)]
        product: String,
    },
    /// Show a segment
    Show(Name),
    /// Save a segment, or change it; pushes that were ordered before keep what they had
    Save {
        #[command(flatten)]
        name: Name,
        /// Tags of its devices: berlin and not (muted or staff)
        #[arg(value_parser = expression)]
        tags: Value,
    },
    /// Remove a segment
    Remove(Name),
}

#[derive(Args)]
struct Name {
    /// Key of the product
    #[arg(long, value_parser = named)]
    product: String,
    /// Name of the segment
    #[arg(value_parser = named)]
    segment: String,
}

impl Name {
    fn path(&self) -> String {
        format!("{}/{}", path(&self.product), encoded(&self.segment))
    }
}

fn path(product: &str) -> String {
    format!("/v1/products/{}/segments", encoded(product))
}

/// Shows or changes segments.
pub fn segment(arguments: Arguments) -> ExitCode {
    tell(answer(&arguments))
}

fn answer(arguments: &Arguments) -> Result<String, String> {
    let Arguments { action, server, json: as_json } = arguments;
    let told = match action {
        Action::List { product } => {
            let answer = server.call("GET", &path(product), None)?;
            let found = entries(&answer, "segments");
            return Ok(match as_json {
                true => lines(found),
                false => found.iter().map(line).collect(),
            });
        }
        Action::Show(name) => server.call("GET", &name.path(), None)?,
        Action::Save { name, tags } => {
            server.call("PUT", &name.path(), Some(&json!({ "tags": tags })))?
        }
        Action::Remove(name) => {
            let answer = server.call("DELETE", &name.path(), None)?;
            return Ok(match as_json {
                true => format!("{answer}\n"),
                false => format!("{}: removed\n", name.segment),
            });
        }
    };
    Ok(if *as_json { format!("{told}\n") } else { line(&told) })
}

fn line(segment: &Value) -> String {
    format!("{:<32} {}\n", text(&segment["segment"]), shown(&segment["tags"]))
}
