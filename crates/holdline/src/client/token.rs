//! `holdline token`: the tokens of a running server's API.
//!
//! A token is printed when it is made and never again, alone on standard output, so that it can go
//! straight into a file.

use crate::client::{Server, encoded, moment, named, query, tell};
use crate::clients::{lines, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Action of `holdline token`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a token and print it; it is shown only once
    Make {
        /// Name: letters, digits, `-`, `_` and `.`
        name: String,
        /// Scopes: metrics, read, push, publish, manage, users, chat, view, trace, admin
        #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
        scopes: Vec<String>,
        /// Limit push, read and manage to this product
        #[arg(long = "product", value_name = "PRODUCT", value_delimiter = ',')]
        products: Vec<String>,
        /// Lifetime: 90s, 5m, 12h, 30d; a plain number is in seconds; unlimited by default
        #[arg(long, value_name = "TIME", value_parser = crate::duration::some_seconds)]
        ttl: Option<u32>,
    },
    /// List tokens by name; secrets are not shown
    List {
        /// Maximum number of entries
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Show the scopes and the expiry of a token
    Show {
        /// Name
        #[arg(value_parser = named)]
        name: String,
    },
    /// Replace the first token in the data folder, if it is lost or known to others
    Reset,
    /// Revoke tokens: they become invalid, and their event streams end
    Revoke {
        /// Names
        #[arg(required = true, value_parser = named)]
        names: Vec<String>,
    },
}

/// Carries out the command, and prints the result.
pub fn token(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let (server, json) = (&arguments.server, arguments.json);
    let path = |name: &str| format!("/v1/tokens/{}", encoded(name));
    match &arguments.action {
        Action::Make { name, scopes, products, ttl } => {
            let mut order = json!({ "name": name, "scopes": scopes, "products": products });
            if let Some(ttl_s) = ttl {
                order["ttl_s"] = json!(ttl_s);
            }
            let made = server.call("POST", "/v1/tokens", Some(&order))?;
            Ok(if json { format!("{made}\n") } else { format!("{}\n", text(&made["token"])) })
        }
        Action::List { limit } => {
            let found = server.pages(&query("/v1/tokens", &[]), "tokens", *limit)?;
            Ok(if json { lines(&found) } else { table(&found) })
        }
        Action::Show { name } => {
            let found = server.call("GET", &path(name), None)?;
            Ok(if json { format!("{found}\n") } else { table(&[found]) })
        }
        Action::Reset => reset(server, json),
        Action::Revoke { names } => server.delete_each(names, path, (json, "revoked")),
    }
}

/// A new first token, written into the data folder; no server is asked, for nobody has a token.
fn reset(server: &Server, json: bool) -> Result<String, String> {
    let (file, pid) = server::tools::reset_first_token(server.data())?;
    let path = file.display();
    if json {
        return Ok(format!("{}\n", json!({ "file": path.to_string(), "pid": pid })));
    }
    let next = match pid {
        None => "The server uses it from its next start on.".to_owned(),
        Some(pid) => format!(
            "The server, process {pid}, uses it after a reload; until then the old token is \
             valid:\n  kill -HUP {pid}    (or: systemctl reload holdline)"
        ),
    };
    Ok(format!(
        "A new first token is in {path}.\n{next}\nIf [api] token is set in the configuration, \
         that one is the first token: change it there, then reload.\n"
    ))
}

fn table(tokens: &[Value]) -> String {
    let mut out = format!(
        "{:<24} {:<24} {:<20} {:<20} {:<20} {}\n",
        "TOKEN", "SCOPES", "PRODUCTS", "EXPIRES", "USED", "CREATED BY"
    );
    for token in tokens {
        let words = |key: &str| {
            let words = token[key].as_array().map_or(&[][..], Vec::as_slice);
            words.iter().map(text).collect::<Vec<_>>().join(",")
        };
        let products = match words("products") {
            none if none.is_empty() => "all".to_owned(),
            some => some,
        };
        let expires = match token["expired"] == true {
            true => "expired".to_owned(),
            false => moment(&token["expires_ms"], "never"),
        };
        out += &format!(
            "{:<24} {:<24} {products:<20} {expires:<20} {:<20} {}\n",
            text(&token["name"]),
            words("scopes"),
            moment(&token["used_ms"], "not since start"),
            text(&token["made_by"]),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_listed_with_what_it_is_good_for() {
        let token = json!({
            "name": "ci", "scopes": ["push", "read"], "products": [], "made_by": "api.token",
            "expires_ms": null, "expired": false, "used_ms": 1_760_000_000_000_u64,
        });
        let shown = table(&[token]);
        let line = shown.lines().nth(1).expect("a line");
        assert!(line.starts_with("ci ") && line.ends_with(" api.token"), "{line}");
        assert!(line.contains(" push,read ") && line.contains(" all ") && line.contains(" never "));
        assert!(line.contains("2025-10-09T08:53:20Z"), "{line}");
    }
}
