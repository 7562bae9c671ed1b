//! A run's folder: `run.json`, from which everything can be made again, `report.html` and
//! `series.csv`.
//!
//! This module writes what it is given and judges nothing. The invariant: `run.json` is written
//! first and whole (beside its name, then renamed), so that no half run is left behind.

use lab::run::Run;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of a run in its folder.
pub const RUN_FILE: &str = "run.json";

/// Writes a run into a new folder below `out`, called by its name and time; returns the folder.
pub fn write(run: &Run, out: &Path) -> Result<PathBuf, String> {
    let stem = format!("{}-{}", run.name, stamp(run.began_unix_ms));
    let mut folder = out.join(&stem);
    let mut again = 1;
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    // Two runs of the same second do not write over each other.
    while let Err(error) = fs::create_dir(&folder) {
        again += 1;
        if error.kind() != std::io::ErrorKind::AlreadyExists || again > 100 {
            return Err(format!("{}: {error}", folder.display()));
        }
        folder = out.join(format!("{stem}-{again}"));
    }
    let mut named = run.clone();
    named.name =
        folder.file_name().map_or_else(|| stem.clone(), |name| name.to_string_lossy().into_owned());
    render(&named, &folder)?;
    Ok(folder)
}

/// Writes all files of a run into its folder, over what is there.
pub fn render(run: &Run, folder: &Path) -> Result<(), String> {
    for (name, text) in [
        (RUN_FILE, report::json(run)),
        ("report.html", report::html(run)),
        ("series.csv", report::csv(run)),
    ] {
        let path = folder.join(name);
        let aside = folder.join(format!("{name}.part"));
        fs::write(&aside, text)
            .and_then(|()| fs::rename(&aside, &path))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Reads a run: `at` is its folder or its file.
pub fn read(at: &Path) -> Result<Run, String> {
    let path = if at.is_dir() { at.join(RUN_FILE) } else { at.to_path_buf() };
    let text = fs::read_to_string(&path).map_err(|error| {
        format!(
            "{}: {error}; expected the folder of a run with a {RUN_FILE}, or that file",
            path.display()
        )
    })?;
    report::read(&text).map_err(|why| format!("{}: {why}", path.display()))
}

/// A time as a folder is called by it: `20261120-203000`, UTC.
fn stamp(unix_ms: u64) -> String {
    let seconds = unix_ms / 1_000;
    let date = base::calendar::date(seconds).replace('-', "");
    let hour = base::calendar::hour(seconds).replace(':', "");
    format!("{date}-{hour}{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_written_read_again_and_does_not_write_over_another() {
        let out = tempfile::tempdir().expect("a folder");
        let run = Run {
            format: lab::run::FORMAT,
            name: "trial".to_owned(),
            began_unix_ms: 1_790_000_000_123,
            ..Run::default()
        };
        let first = write(&run, out.path()).expect("written");
        let second = write(&run, out.path()).expect("written");
        assert_ne!(first, second);
        assert!(first.ends_with("trial-20260921-141320"), "{}", first.display());
        let back = read(&first).expect("its own");
        assert_eq!(back.name, "trial-20260921-141320");
        assert_eq!(read(&first.join(RUN_FILE)).expect("its file"), back);
        for file in ["report.html", "series.csv"] {
            assert!(first.join(file).is_file(), "{file}");
        }
        let nothing = read(out.path()).expect_err("no run");
        assert!(nothing.contains("expected the folder of a run with a run.json"), "{nothing}");
    }
}
