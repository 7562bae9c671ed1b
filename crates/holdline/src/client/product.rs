//! `holdline product`: families of push devices, with their secrets.
//!
//! A secret is printed when it is made and never again.

use crate::client::consent::consent;
use crate::client::{Server, encoded, entries, named, tell};
use crate::clients::{lines, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Action of `holdline product`.
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
    /// List products
    List,
    /// Show all settings of a product; secrets are not shown
    Show {
        /// Key of the product
        #[arg(value_parser = named)]
        product: String,
    },
    /// Create a product, and print its secret; it is shown only once
    Create {
        /// Key of the product
        #[arg(value_parser = named)]
        product: String,
        /// Number of the product in records of MIOP 5 and 6, unique
        #[arg(long, value_name = "NUMBER")]
        app_id: u32,
        /// From where devices may connect without a proof
        #[arg(
            long,
            value_parser = ["nowhere", "loopback", "everywhere"],
            default_value = "nowhere"
        )]
        anonymous: String,
    },
    /// Create a new secret of a product and print it; the old ones stay valid
    Rotate {
        /// Key of the product
        #[arg(value_parser = named)]
        product: String,
        /// Invalidate all old secrets at once
        #[arg(long)]
        revoke_old: bool,
    },
    /// Remove a product with all its devices and their queued pushes
    Remove {
        /// Key of the product
        #[arg(value_parser = named)]
        product: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Carries out the command, and prints the result.
pub fn product(arguments: Arguments) -> ExitCode {
    if let Action::Remove { product, yes } = &arguments.action {
        let question = format!(
            "Remove the product {product} with all its devices and their queued pushes? This \
             cannot be undone."
        );
        if let Err(declined) = consent(&question, *yes) {
            return declined;
        }
    }
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let Arguments { server, json: as_json, action } = arguments;
    let path = |product: &str| format!("/v1/products/{}", encoded(product));
    let is_there = |product: &str| {
        let answer = server.call("GET", "/v1/products", None)?;
        Ok::<_, String>(entries(&answer, "products").iter().any(|it| it["key"] == product))
    };
    let told = match action {
        Action::List => {
            let answer = server.call("GET", "/v1/products", None)?;
            let found = entries(&answer, "products");
            return Ok(if *as_json { lines(found) } else { table(found) });
        }
        Action::Show { product } => server.call("GET", &path(product), None)?,
        Action::Create { product, app_id, anonymous } => {
            if is_there(product)? {
                return Err(format!("the product {product} exists; `rotate` makes a new secret"));
            }
            let order =
                json!({ "app_id": app_id, "anonymous": anonymous, "generate_secret": true });
            server.call("PUT", &path(product), Some(&order))?
        }
        Action::Rotate { product, revoke_old } => {
            if !is_there(product)? {
                return Err(format!(
                    "unknown product {product}; `holdline product list` shows all"
                ));
            }
            let mut order = json!({ "generate_secret": true });
            if *revoke_old {
                order["secrets"] = json!([]);
            }
            server.call("PUT", &path(product), Some(&order))?
        }
        Action::Remove { product, .. } => {
            let answer = server.call("DELETE", &path(product), None)?;
            return Ok(match as_json {
                true => format!("{answer}\n"),
                false => format!("{product}: removed\n"),
            });
        }
    };
    Ok(match (*as_json, action) {
        (true, _) => format!("{told}\n"),
        (false, Action::Show { .. }) => card(&told),
        (false, _) => secret(&told),
    })
}

fn table(products: &[Value]) -> String {
    let mut out = format!("{:<24} {:>8} {:>7}  ANONYMOUS\n", "PRODUCT", "NUMBER", "SECRETS");
    for product in products {
        let secrets = product["key_ids"].as_array().map_or(0, Vec::len);
        out += &format!(
            "{:<24} {:>8} {secrets:>7}  {}\n",
            text(&product["key"]),
            text(&product["app_id"]),
            text(&product["anonymous"]),
        );
    }
    out
}

fn card(product: &Value) -> String {
    let settings = product.as_object().into_iter().flatten();
    settings.map(|(name, value)| format!("{name:<20} {}\n", text(value))).collect()
}

/// A secret, alone on a line, so that it can go straight into a file.
fn secret(product: &Value) -> String {
    let made = &product["generated_secret"];
    note!("secret {} of {}:", text(&made["key_id"]), text(&product["key"]));
    format!("{}\n", text(&made["hex"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_listed_and_a_secret_stands_alone() {
        let product = json!({
            "key": "shop", "app_id": 7, "key_ids": [2, 1], "anonymous": "nowhere", "hmac": true,
            "generated_secret": { "key_id": 2, "hex": "00ff" },
        });
        let shown = table(std::slice::from_ref(&product));
        let line = shown.lines().nth(1).expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["shop", "7", "2", "nowhere"]);
        assert_eq!(secret(&product), "00ff\n");
        assert!(card(&product).contains("hmac                 true\n"));
    }
}
