//! The yard's tool: the rules of the house as a program.
//!
//! `cargo xtask tidy` holds the tree against the tables in ARCHITECTURE.md, crates/LIBRARIES.md and
//! GLOSSARY.md and the sizes in STYLE.md. `cargo xtask check` runs everything that CI runs, `cargo
//! xtask fuzz` grows the corpora of inputs. Nothing here is shipped. It knows the repository as
//! text and as `cargo metadata`, and no crate of it as code.
//!
//! Read [`tidy`] next: the list of rules, one file each.

mod check;
mod fuzz;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask tidy    hold the tree against the rules of the house
cargo xtask check   formatting, lints, tidy and all tests, as CI does
cargo xtask fuzz    bend what parsers and machines read, by what it covers, and keep what does:
                    [BATCHES] [NAME], 400 of each target";

fn main() -> ExitCode {
    // As cargo says now, not as it said when this was compiled: `target/` may be a copy.
    let manifest_folder = std::env::var_os("CARGO_MANIFEST_DIR");
    let manifest_folder = manifest_folder.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&manifest_folder).parent();
    let root = root.expect("xtask/ lies in the root of the repository");
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(root),
        ["check"] => check::run(root),
        ["fuzz", ..] => fuzz::run(root, &words[1..]),
        ["help" | "--help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
