//! Plan of a run, from its command line.
//!
//! Every number has a bound, so that a run ends by itself. The devices of a run are a fixed crowd:
//! who sleeps, who wakes and who has which tag follows from a device's number.

use proto_miop::codec::Version;
use std::path::PathBuf;

/// How a run is called.
pub const USAGE: &str = "\
crash: kills a running server under load, again and again, and audits what it had acknowledged

  --binary PATH     the server                             (target/release/holdline)
  --cycles N        starts and ends of the server          (1000)
  --seed N          what is asked and when the kill comes  (drawn from the clock)
  --seconds N       no further cycle begins after so long  (1500)
  --fsync WORD      always, interval or never              (always)
  --clean PERCENT   cycles that end by SIGTERM instead     (6)
  --parts LIST      miop, mqtt or both                     (miop,mqtt)
  --keys on|off     orders with an Idempotency-Key         (on)
  --reports on|off  Reports until a webhook has them       (on)
  --tags on|off     tags outlive the server                (on)
  --collapse on|off orders with a collapse key             (on)
  --set SECTION.KEY=VALUE   further configuration, as in the file; may be repeated
  --sabotage truncate|delete   hurts the newest segments after some kill: must be found
  --snapshots on|off   copies the folder after each kill   (off)
  --keep FOLDER     where a failure is kept                (target/crash)
  --result FILE     where the result is stored             (bench/results/DATE-crash.json)
";

/// How a segment is hurt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// The last part of the newest segment of each log is cut off.
    Truncate,
    /// The newest segment of each log is deleted.
    Delete,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub binary: PathBuf,
    /// Starts and ends of it.
    pub cycles: u32,
    /// Seed of the orders, and of the time of the kill.
    pub seed: u64,
    /// No further cycle begins after so long.
    pub seconds: u64,
    /// The operator's choice.
    pub fsync: String,
    /// Cycles in a hundred that end by SIGTERM.
    pub clean_percent: u64,
    /// Pushes, devices and webhooks take part.
    pub miop: bool,
    /// Clients of MQTT take part.
    pub mqtt: bool,
    /// Some orders bear an idempotency key.
    pub keys: bool,
    /// Devices send Reports, and a webhook must get them.
    pub reports: bool,
    /// The server keeps tags over a restart.
    pub tags: bool,
    /// Some orders bear a collapse key.
    pub collapse: bool,
    /// Further configuration: section, key, value.
    pub sets: Vec<(String, String, String)>,
    /// How the log is hurt once.
    pub sabotage: Option<Sabotage>,
    /// The folder is copied after each kill.
    pub snapshots: bool,
    /// Where a failure is kept.
    pub keep: PathBuf,
    /// Where the result is stored.
    pub result: Option<PathBuf>,
}

impl Plan {
    /// The plan in `words`, or why there is none.
    pub fn read(words: &[String], drawn_seed: u64) -> Result<Plan, String> {
        let mut plan = Plan {
            binary: "target/release/holdline".into(),
            cycles: 1_000,
            seed: drawn_seed,
            seconds: 1_500,
            fsync: "always".into(),
            clean_percent: 6,
            miop: true,
            mqtt: true,
            keys: true,
            reports: true,
            tags: true,
            collapse: true,
            sets: Vec::new(),
            sabotage: None,
            snapshots: false,
            keep: "target/crash".into(),
            result: None,
        };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} has no value\n\n{USAGE}"))?;
            plan.set(flag, value)?;
        }
        Ok(plan)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let switch = || match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(format!("{flag} is on or off")),
        };
        match flag {
            "--binary" => self.binary = value.into(),
            "--cycles" => self.cycles = number(flag, value, 1_000_000)? as u32,
            "--seed" => self.seed = number(flag, value, u64::MAX)?,
            "--seconds" => self.seconds = number(flag, value, 86_400)?,
            "--fsync" => self.fsync = value.into(),
            "--clean" => self.clean_percent = number(flag, value, 100)?,
            "--parts" => {
                let parts: Vec<&str> = value.split(',').collect();
                if parts.iter().any(|part| !["miop", "mqtt"].contains(part)) {
                    return Err(format!("{flag} is miop, mqtt or miop,mqtt"));
                }
                (self.miop, self.mqtt) = (parts.contains(&"miop"), parts.contains(&"mqtt"));
            }
            "--keys" => self.keys = switch()?,
            "--reports" => self.reports = switch()?,
            "--tags" => self.tags = switch()?,
            "--collapse" => self.collapse = switch()?,
            "--snapshots" => self.snapshots = switch()?,
            "--keep" => self.keep = value.into(),
            "--result" => self.result = Some(value.into()),
            "--set" => {
                let parts = value.split_once('=').and_then(|(name, value)| {
                    let (section, key) = name.rsplit_once('.')?;
                    Some((section.to_owned(), key.to_owned(), value.to_owned()))
                });
                self.sets.push(parts.ok_or_else(|| format!("{flag} is SECTION.KEY=VALUE"))?);
            }
            "--sabotage" => {
                self.sabotage = Some(match value {
                    "truncate" => Sabotage::Truncate,
                    "delete" => Sabotage::Delete,
                    _ => return Err(format!("{flag} is truncate or delete")),
                });
            }
            _ => return Err(format!("{flag} is not known\n\n{USAGE}")),
        }
        Ok(())
    }
}

fn number(flag: &str, value: &str, max: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| *number <= max);
    number.ok_or_else(|| format!("{flag} is a number up to {max}"))
}

/// A device of the crowd.
pub type DeviceNumber = u16;

/// Devices that are away while there is load, then those that come and go.
pub const SLEEPERS: DeviceNumber = 40;
/// The crowd.
pub const CROWD: DeviceNumber = 64;
/// Products that come and go, each with one device behind the crowd.
pub const FLEETING: DeviceNumber = 3;
/// Groups, each with a tag.
pub const GROUPS: DeviceNumber = 3;
/// Devices that are blocked and unblocked, and get no pushes.
pub const BLOCKED: DeviceNumber = 4;
/// Devices whose tags change, and which get no pushes.
pub const TAGGED: DeviceNumber = 4;
/// The crowd's product.
pub const PRODUCT: &str = "crowd";
/// Largest body, bytes.
pub const BODY_BYTES_MAX: usize = 60_000;

/// The version that a device speaks: one in eight each of the classic ones.
pub fn version(device: DeviceNumber) -> Version {
    match device % 8 {
        _ if device >= CROWD => Version::V7,
        6 => Version::V6,
        7 => Version::V5,
        _ => Version::V7,
    }
}

/// A device's product and name.
pub fn names(device: DeviceNumber) -> (String, String) {
    match device.checked_sub(CROWD) {
        Some(product) => (format!("fleeting-{product}"), "only".to_owned()),
        None => (PRODUCT.to_owned(), format!("d-{device:02}")),
    }
}

/// The device with this name, of the crowd.
pub fn by_name(name: &str) -> Option<DeviceNumber> {
    name.strip_prefix("d-")?.parse().ok().filter(|device| *device < CROWD)
}

/// The members of a group: sleepers and some who wake.
pub fn members(group: DeviceNumber) -> Vec<DeviceNumber> {
    let fits = |device: &DeviceNumber| version(*device) == Version::V7 && device % 16 < 8;
    (0..CROWD).filter(fits).filter(|device| device % GROUPS == group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_and_what_is_not_known_is_refused() {
        let read = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            Plan::read(&words, 9)
        };
        let plan = read("--cycles 50 --keys off --set store.segment_bytes=1048576").unwrap();
        assert_eq!((plan.cycles, plan.keys, plan.reports, plan.seed), (50, false, true, 9));
        assert_eq!(plan.sets, [("store".into(), "segment_bytes".into(), "1048576".into())]);
        for wrong in
            ["--cycles", "--cycles x", "--keys maybe", "--parts x", "--set a=b", "--what 1"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_found_again_and_groups_have_members() {
        for device in 0..CROWD {
            assert_eq!(by_name(&names(device).1), Some(device));
        }
        assert!((0..GROUPS).all(|group| members(group).len() >= 5));
        assert!((0..CROWD).any(|device| version(device) == Version::V5 && device >= SLEEPERS));
    }
}
