//! Remedies carried out: settings of the kernel, and limits of processes, when somebody says so.
//!
//! Only a row's remedy is carried out, and only if it is one of three commands; every other is
//! reported as not possible from here. A kernel setting holds until the machine starts again.

use crate::place::KernelFiles;
use lab::host::{Fitness, HostRow};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Result of a remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    /// The row's item.
    pub item: String,
    /// The remedy's effect, or why it failed.
    pub outcome: Result<String, String>,
}

/// Carries out the remedies of bad and weak rows, where that is possible from here.
pub fn apply(rows: &[HostRow]) -> Vec<Applied> {
    apply_at(&KernelFiles::real(), rows)
}

/// As [`apply()`], on the machine whose files are given.
pub fn apply_at(place: &KernelFiles, rows: &[HostRow]) -> Vec<Applied> {
    let wanted = rows.iter().filter(|row| row.fitness >= Fitness::Weak && !row.remedy.is_empty());
    wanted
        .map(|row| Applied { item: row.item.clone(), outcome: carry_out(place, &row.remedy) })
        .collect()
}

fn carry_out(place: &KernelFiles, remedy: &str) -> Result<String, String> {
    // What stands behind a # is for people.
    let remedy = remedy.split('#').next().unwrap_or_default().trim();
    if let Some(setting) = remedy.strip_prefix("sysctl -w ") {
        return set(place, setting);
    }
    if let Some(limit) = remedy.strip_prefix("ulimit -n ") {
        let soft = limit.parse().map_err(|_| format!("no limit: {limit}"))?;
        return limited(None, soft, None);
    }
    if let Some((pid, limits)) =
        remedy.strip_prefix("prlimit --pid ").and_then(|rest| rest.split_once(" --nofile="))
    {
        let numbers = limits.split_once(':').and_then(|(soft, hard)| {
            Some((pid.parse().ok()?, soft.parse().ok()?, hard.parse().ok()?))
        });
        let (pid, soft, hard) = numbers.ok_or_else(|| format!("no limits: {limits}"))?;
        return limited(Some(pid), soft, Some(hard));
    }
    Err(format!("cannot be applied from here: {remedy}"))
}

/// `name=value`, or `name="several values"`.
fn set(place: &KernelFiles, setting: &str) -> Result<String, String> {
    let (name, value) = setting.split_once('=').ok_or_else(|| format!("no setting: {setting}"))?;
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.chars().all(legal) || name.contains("..") {
        return Err(format!("no setting: {name}"));
    }
    let value = value.trim_matches('"');
    let file = format!("proc/sys/{}", name.replace('.', "/"));
    let before = place.text(&file).unwrap_or_default().trim().replace('\t', " ");
    std::fs::write(place.path(&file), value).map_err(|error| format!("/{file}: {error}"))?;
    // The kernel may round, or clip without a word.
    let now = place.text(&file).unwrap_or_default().trim().replace('\t', " ");
    if now != value {
        return Err(format!("{name} was {before}, and is now {now} instead of {value}"));
    }
    Ok(format!("{name} was {before} and is now {now}, until the next reboot"))
}

fn limited(pid: Option<i32>, soft: u64, hard: Option<u64>) -> Result<String, String> {
    let who = match pid {
        Some(pid) => {
            // Zero would be this process itself, and the kernel knows no negative ones.
            let pid = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
            Some(pid.ok_or("no such process")?)
        }
        None => None,
    };
    // The hard limit is never lowered, for nobody but root could raise it again.
    let own = || getrlimit(Resource::Nofile).maximum.map(|own| own.max(soft));
    let hard = hard.or_else(own);
    let new = Rlimit { current: Some(soft), maximum: hard };
    prlimit(who, Resource::Nofile, new).map_err(|error| format!("RLIMIT_NOFILE: {error}"))?;
    Ok(match pid {
        Some(pid) => format!("process {pid} may open {soft} files"),
        None => format!("this process and its children may open {soft} files; your shell cannot"),
    })
}
