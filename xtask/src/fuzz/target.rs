//! A target: a crate's test binary that counts what it covers, and the corpus beside it.
//!
//! Invariant: a run ends, by itself or by `timeout`.

use super::profile::Covered;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How long one batch may take, as `timeout` reads it.
const RUN_S_MAX: &str = "60";

/// A target that is built.
pub struct Target {
    name: String,
    test: String,
    binary: PathBuf,
    corpus: PathBuf,
    scratch: PathBuf,
}

/// How a run ended.
pub enum Outcome {
    Passed(Covered),
    Failed,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Target {
    /// Builds a crate's tests with counters, in a folder of their own.
    pub fn build(root: &Path, package: &str, name: &str) -> Result<Target, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
        let scratch = target.join("fuzz");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // Named, so that what runs at build time is built without.
        let triple = host()?;
        let args = ["test", "--lib", "--no-run", "--message-format=json", "--target", &triple];
        let built = Command::new(cargo)
            .args(args)
            .args(["-p", package])
            .current_dir(root)
            .env("CARGO_TARGET_DIR", &scratch)
            .env("RUSTFLAGS", "-C instrument-coverage")
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo: {error}"))?;
        if !built.status.success() {
            return Err("it does not build".into());
        }
        let told = String::from_utf8_lossy(&built.stdout);
        let binary = told.lines().rev().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            line["executable"].as_str().map(PathBuf::from)
        });
        Ok(Target {
            name: format!("{package}/{name}"),
            test: format!("fuzz::guided::{name}"),
            binary: binary.ok_or("cargo made no test binary")?,
            corpus: root.join("crates").join(package).join("corpus").join(format!("grown-{name}")),
            scratch,
        })
    }

    /// Runs inputs, one after the other.
    pub fn runs(&self, inputs: &[Vec<u8>]) -> Result<Outcome, String> {
        let [batch, profile] = ["batch", "profile"].map(|name| self.scratch.join(name));
        let mut bytes = Vec::new();
        for input in inputs {
            bytes.extend((input.len() as u32).to_le_bytes());
            bytes.extend(input);
        }
        fs::write(&batch, bytes).map_err(|error| format!("{}: {error}", batch.display()))?;
        let status = Command::new("timeout")
            .arg(RUN_S_MAX)
            .arg(&self.binary)
            .args(["--exact", &self.test, "--ignored", "-q"])
            .env("HOLDLINE_FUZZ_BATCH", &batch)
            .env("LLVM_PROFILE_FILE", &profile)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| format!("timeout: {error}"))?;
        if !status.success() {
            return Ok(Outcome::Failed);
        }
        let read = fs::read(&profile).map_err(|error| format!("{}: {error}", profile.display()))?;
        Covered::read(&read).map(Outcome::Passed)
    }

    /// The corpus as it is stored.
    pub fn stored(&self) -> Result<Vec<Vec<u8>>, String> {
        let fault = |error| format!("{}: {error}", self.corpus.display());
        let entries = fs::read_dir(&self.corpus).map_err(fault)?;
        entries.map(|entry| fs::read(entry.map_err(fault)?.path()).map_err(fault)).collect()
    }

    /// Stores it in place of what was there, but for what was found to fail.
    pub fn store(&self, corpus: &[Vec<u8>]) -> Result<(), String> {
        let fault = |error| format!("{}: {error}", self.corpus.display());
        for entry in fs::read_dir(&self.corpus).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            if !entry.file_name().to_string_lossy().starts_with("found-") {
                fs::remove_file(entry.path()).map_err(fault)?;
            }
        }
        corpus.iter().try_for_each(|input| self.keep(input))
    }

    /// Stores an input beside what is there.
    pub fn keep(&self, input: &[u8]) -> Result<(), String> {
        let path = self.corpus.join(name_of(input));
        fs::write(&path, input).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// An input failed: it is kept.
    pub fn keep_failure(&self, input: &[u8]) -> Result<(), String> {
        let path = self.corpus.join(format!("found-{}", name_of(input)));
        println!("{}: {} fails", self.name, path.display());
        fs::write(&path, input).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// FNV-1a of an input, in hexadecimal digits.
fn name_of(input: &[u8]) -> String {
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// For what this machine's compiler compiles.
fn host() -> Result<String, String> {
    let told = Command::new("rustc").arg("-vV").output();
    let told = told.map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say its host".into())
}
