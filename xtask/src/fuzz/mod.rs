//! Fuzzing that is guided by coverage, with a corpus that is kept.
//!
//! ```text
//! corpus/grown-NAME ─► smallest that covers as much ─► bent ─► a batch for the test binary,
//!        ▲                                                     which counts what it covers
//!        └── cut short ◄── halved until it is one ◄── what never counted before ◄──┘
//! ```
//! Stable Rust and nothing besides: a target is an ignored test of its crate (`fuzz::guided`) that
//! runs what is in a file; what it covered is in the raw profile that it leaves. So it knows no
//! crate of the repository as code. Each crate's tests replay its corpus. Invariant: a corpus never
//! covers less than before, and an input that failed is in it, by the name `found-`.

mod input;
mod profile;
mod target;

use input::Bender;
use profile::Covered;
use std::path::Path;
use std::process::ExitCode;
use target::{Outcome, Target};

/// Crates and their targets.
const TARGETS: [(&str, &str); 5] = [
    ("chat", "peer"),
    ("proto-xmpp", "framer"),
    ("proto-xmpp", "server"),
    ("proto-mqtt", "codec"),
    ("proto-mqtt", "server"),
];

/// Batches of a target, unless another number is said: some minutes in all.
const BATCHES: u32 = 400;

/// Inputs that are run at once.
const BATCH: usize = 96;

/// Failures of a target after which it is mended first.
const FAILURES_MAX: usize = 8;

/// Runs all targets, or those that have this in their name, for so many batches.
pub fn run(root: &Path, words: &[String]) -> ExitCode {
    let batches = words.iter().find_map(|word| word.parse().ok()).unwrap_or(BATCHES);
    let wanted = words.iter().find(|word| word.parse::<u32>().is_err());
    let mut failures = 0;
    for (package, name) in TARGETS {
        if wanted.is_some_and(|wanted| !format!("{package}/{name}").contains(wanted.as_str())) {
            continue;
        }
        match Target::build(root, package, name).and_then(|it| grow(&it, batches)) {
            Ok(count) => failures += count,
            Err(why) => {
                eprintln!("{package}/{name}: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A corpus that grows.
struct Growth<'a> {
    target: &'a Target,
    corpus: Vec<Vec<u8>>,
    covered: Covered,
    failures: usize,
}

/// Grows the corpus of a target; how many inputs failed.
fn grow(target: &Target, batches: u32) -> Result<usize, String> {
    let mut all = target.stored()?;
    all.sort_by_key(Vec::len);
    let mut growth =
        Growth { target, corpus: Vec::new(), covered: Covered::default(), failures: 0 };
    for one in all {
        growth.looks_at(&[one])?;
    }
    let before = (growth.corpus.len(), growth.covered.count());
    let mut bender = Bender::new();
    for _ in 0..batches {
        if growth.failures >= FAILURES_MAX {
            break;
        }
        let batch: Vec<Vec<u8>> = (0..BATCH).map(|_| bender.bent(&growth.corpus)).collect();
        growth.looks_at(&batch)?;
    }
    target.store(&growth.corpus)?;
    let bytes: usize = growth.corpus.iter().map(Vec::len).sum();
    println!(
        "{target}: {} inputs cover {} regions (before: {} and {}), {bytes} bytes, {} failed",
        growth.corpus.len(),
        growth.covered.count(),
        before.0,
        before.1,
        growth.failures
    );
    Ok(growth.failures)
}

impl Growth<'_> {
    /// Runs inputs, and takes those in that cover something new, each cut short. Many are halved
    /// until it is known which.
    fn looks_at(&mut self, inputs: &[Vec<u8>]) -> Result<(), String> {
        let new = match self.target.runs(inputs)? {
            Outcome::Passed(covered) => Some(covered.without(&self.covered)),
            Outcome::Failed => None,
        };
        let is_enough = self.failures >= FAILURES_MAX;
        if is_enough || new.as_ref().is_some_and(Covered::is_empty) {
            return Ok(());
        }
        let (first, second) = inputs.split_at(inputs.len() / 2);
        if !first.is_empty() {
            self.looks_at(first)?;
            return self.looks_at(second);
        }
        let [input] = inputs else { return Ok(()) };
        let Some(new) = new else {
            self.failures += 1;
            return self.target.keep_failure(input);
        };
        let short = self.cut_short(input, &new)?;
        if let Outcome::Passed(covered) = self.target.runs(std::slice::from_ref(&short))? {
            self.covered.add(&covered);
        }
        self.covered.add(&new);
        self.target.keep(&short)?; // a run that is broken off has not been for nothing
        self.corpus.push(short);
        Ok(())
    }

    /// An input without what it does not need to cover this.
    fn cut_short(&self, input: &[u8], new: &Covered) -> Result<Vec<u8>, String> {
        let mut short = input.to_vec();
        let mut piece = short.len() / 2;
        while piece > 0 && piece * 32 > short.len() {
            let mut at = 0;
            while at + piece <= short.len() {
                let mut less = short.clone();
                less.drain(at..at + piece);
                match self.target.runs(std::slice::from_ref(&less))? {
                    Outcome::Passed(covered) if covered.has_all(new) => short = less,
                    _ => at += piece,
                }
            }
            piece /= 2;
        }
        Ok(short)
    }
}
