//! `cargo xtask check`: the same steps here and in CI, in one list.
//!
//! Every step runs even when an earlier one failed, so that one run shows all there is to mend.
//! A step without tests of its own counts as one check. The last line is `N passed, N failed`,
//! which `scripts/test.sh` adds up with the suites that are not cargo's.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// One cargo command; its words as one would type them after `cargo`.
const STEPS: &[&str] = &[
    "fmt --all --check",
    "clippy --workspace --all-targets -- -D warnings",
    "xtask tidy",
    "test --workspace --no-fail-fast",
];

/// How many tests or checks went well and how many did not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

/// Runs every step from `root`; fails when any of them did.
pub fn run(root: &Path) -> ExitCode {
    let mut total = Tally::default();
    let mut broken = Vec::new();
    for step in STEPS {
        println!("== cargo {step}");
        let (succeeded, tests) = run_step(root, step);
        let counted = count_step(succeeded, tests);
        if counted.failed > 0 {
            broken.push(*step);
        }
        total.passed += counted.passed;
        total.failed += counted.failed;
    }
    for step in &broken {
        println!("failed: cargo {step}");
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one step, passes its output on, and adds up the result lines in it.
fn run_step(root: &Path, step: &str) -> (bool, Tally) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(step.split(' ')).current_dir(root).stdout(Stdio::piped());
    let mut tests = Tally::default();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cannot start cargo: {error}");
            return (false, tests);
        }
    };
    let output = child.stdout.take().expect("stdout was asked for above");
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        println!("{line}");
        if let Some(tally) = read_result_line(&line) {
            tests.passed += tally.passed;
            tests.failed += tally.failed;
        }
    }
    (child.wait().is_ok_and(|status| status.success()), tests)
}

/// What a step adds to the total. A step that fails without a failed test still counts as one.
fn count_step(succeeded: bool, tests: Tally) -> Tally {
    match (succeeded, tests) {
        (true, tests) if tests.passed + tests.failed > 0 => tests,
        (true, _) => Tally { passed: 1, failed: 0 },
        (false, tests) => Tally { passed: tests.passed, failed: tests.failed.max(1) },
    }
}

/// Reads `test result: ok. 12 passed; 0 failed; …`, the line that closes each test binary.
fn read_result_line(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut tally = Tally::default();
    for count in counts.split("; ") {
        match count.split_once(' ') {
            Some((number, "passed")) => tally.passed = number.parse().ok()?,
            Some((number, "failed")) => tally.failed = number.parse().ok()?,
            _ => {}
        }
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read() {
        let ok = "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out";
        assert_eq!(read_result_line(ok), Some(Tally { passed: 12, failed: 0 }));
        let bad = "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured";
        assert_eq!(read_result_line(bad), Some(Tally { passed: 7, failed: 2 }));
        assert_eq!(read_result_line("running 3 tests"), None);
    }

    #[test]
    fn a_step_that_fails_is_never_a_pass() {
        let count = |succeeded, passed, failed| count_step(succeeded, Tally { passed, failed });
        assert_eq!(count(true, 0, 0), Tally { passed: 1, failed: 0 });
        assert_eq!(count(true, 9, 0), Tally { passed: 9, failed: 0 });
        assert_eq!(count(false, 0, 0), Tally { passed: 0, failed: 1 }, "it did not compile");
        assert_eq!(count(false, 9, 2), Tally { passed: 9, failed: 2 });
        assert_eq!(count(false, 9, 0), Tally { passed: 9, failed: 1 }, "a binary crashed");
    }
}
