//! Remedies as files that hold over a restart of the machine: settings of the kernel for sysctl.d,
//! limits of shells for limits.d, and of services for systemd.
//!
//! This module writes nothing. Invariant: the files hold only what rows that are not good enough
//! ask for.

use lab::host::{Fitness, HostRow};

const KERNEL: &str = "/etc/sysctl.d/61-holdline-doctor.conf";
const SHELLS: &str = "/etc/security/limits.d/61-holdline-doctor.conf";
const SERVICES: &str = "/etc/systemd/system.conf.d/61-holdline-doctor.conf";

/// The files with their text, as far as there is something to say in them.
pub fn lasting(rows: &[HostRow]) -> Vec<(&'static str, String)> {
    let wanted = rows.iter().filter(|row| row.fitness >= Fitness::Weak);
    let remedies: Vec<&str> =
        wanted.map(|row| row.remedy.split('#').next().unwrap_or_default().trim()).collect();
    let settings = remedies.iter().filter_map(|remedy| remedy.strip_prefix("sysctl -w "));
    let settings = settings.filter_map(|setting| setting.split_once('='));
    let kernel = settings.map(|(name, value)| format!("{name} = {}\n", value.trim_matches('"')));
    let limits: Vec<(&str, u64)> =
        [limit(&remedies, "nofile", "ulimit -n "), limit(&remedies, "nproc", "ulimit -u ")]
            .into_iter()
            .flatten()
            .collect();
    // A star is everybody but root (limits.conf(5)).
    let each = |(name, value): &(&str, u64)| {
        let line = |who: &str, kind: &str| format!("{who} {kind} {name} {value}\n");
        ["*", "root"].map(|who| line(who, "soft") + &line(who, "hard")).concat()
    };
    let of_service = |(name, value): &(&str, u64)| {
        format!("DefaultLimit{}={value}\n", name.to_ascii_uppercase())
    };
    let services: String = limits.iter().map(of_service).collect();
    let services = if services.is_empty() { services } else { format!("[Manager]\n{services}") };
    let files = [
        (KERNEL, kernel.collect()),
        (SHELLS, limits.iter().map(each).collect()),
        (SERVICES, services),
    ];
    files.into_iter().filter(|(_, text): &(&str, String)| !text.is_empty()).collect()
}

/// The highest value that remedies of this kind set.
fn limit<'a>(remedies: &[&str], name: &'a str, command: &str) -> Option<(&'a str, u64)> {
    let values = remedies.iter().filter_map(|remedy| remedy.strip_prefix(command)?.parse().ok());
    values.max().map(|value| (name, value))
}
