//! Inputs that are kept, and those that `cargo xtask fuzz` hands to a test.
//!
//! A corpus is a folder of files, an input each, by names that mean nothing. Invariant: what is run
//! is in the order of the names, or of the batch.

use std::fs;
use std::path::Path;

/// Runs the inputs of a folder of a crate, `corpus/grown-NAME`; how many there are.
pub fn replay(crate_folder: &str, name: &str, run: impl Fn(&[u8])) -> usize {
    let folder = Path::new(crate_folder).join("corpus").join(format!("grown-{name}"));
    let entries = fs::read_dir(&folder).expect("the corpus is stored");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in &paths {
        run(&fs::read(path).expect("bytes"));
    }
    paths.len()
}

/// Runs the inputs of the file that the variable `HOLDLINE_FUZZ_BATCH` names: of each its length in
/// four bytes, the lowest first, then it.
pub fn batch(run: impl Fn(&[u8])) {
    let path = std::env::var_os("HOLDLINE_FUZZ_BATCH").expect("cargo xtask fuzz says which");
    let bytes = fs::read(path).expect("bytes");
    let mut rest = &bytes[..];
    while let Some((length, more)) = rest.split_first_chunk() {
        let (input, later) = more.split_at(u32::from_le_bytes(*length) as usize);
        run(input);
        rest = later;
    }
}
