//! Disks: sums of /proc/diskstats over what is a device of its own, partitions and layers left out.

use crate::columns as at;
use crate::lines;
use crate::place::KernelFiles;
use lab::series::Reading;
use std::collections::HashMap;

/// Bytes of a sector as the kernel counts them, whatever the device's are.
const SECTOR: u64 = 512;

/// Counters of the last reading, from which shares and averages are computed.
#[derive(Default, Debug)]
pub(super) struct Busy {
    /// Milliseconds that each device had work.
    ms: HashMap<String, u64>,
    /// Reads and writes of all, and the milliseconds that they took.
    reads: Option<(u64, u64)>,
    writes: Option<(u64, u64)>,
}

/// Counters of a device since it appeared.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Disk {
    name: String,
    reads: u64,
    read_sectors: u64,
    read_ms: u64,
    writes: u64,
    written_sectors: u64,
    write_ms: u64,
    busy_ms: u64,
}

/// Adds them; `took_s` is the time since the last look.
pub(super) fn read(place: &KernelFiles, took_s: f64, busy: &mut Busy, out: &mut Reading) {
    let Some(text) = place.text("proc/diskstats") else { return };
    let all = text.lines().filter_map(disk);
    // A partition has no folder of its own there, and a loop device, RAID or mapping no device.
    let own = |disk: &Disk| place.has(&format!("sys/block/{}/device", disk.name));
    let disks: Vec<Disk> = all.filter(own).collect();
    let sum = |of: fn(&Disk) -> u64| lines::sum(disks.iter().map(of)) as f64;
    out.set(at::DISK_READ, sum(|disk| disk.read_sectors.saturating_mul(SECTOR)));
    out.set(at::DISK_WRITTEN, sum(|disk| disk.written_sectors.saturating_mul(SECTOR)));
    out.set(at::DISK_READS, sum(|disk| disk.reads));
    out.set(at::DISK_WRITES, sum(|disk| disk.writes));
    if took_s > 0.0 {
        let share = |disk: &Disk| {
            let earlier = *busy.ms.get(&disk.name)?;
            Some((disk.busy_ms.saturating_sub(earlier) as f64 / 1_000.0 / took_s).min(1.0))
        };
        let most = disks.iter().filter_map(share).reduce(f64::max);
        most.inspect(|most| out.set(at::DISK_BUSY, *most));
    }
    let total = |of: fn(&Disk) -> u64| lines::sum(disks.iter().map(of));
    let reads = (total(|disk| disk.reads), total(|disk| disk.read_ms));
    let writes = (total(|disk| disk.writes), total(|disk| disk.write_ms));
    for (column, before, now) in
        [(at::DISK_READ_TIME, busy.reads, reads), (at::DISK_WRITE_TIME, busy.writes, writes)]
    {
        each_us(before, now).inspect(|us| out.set(column, *us));
    }
    let ms = disks.into_iter().map(|disk| (disk.name, disk.busy_ms)).collect();
    *busy = Busy { ms, reads: Some(reads), writes: Some(writes) };
}

/// Microseconds that one took, of those that ended between two looks; `None`: there was none.
fn each_us(before: Option<(u64, u64)>, now: (u64, u64)) -> Option<f64> {
    let (count, ms) = before?;
    let ended = now.0.checked_sub(count).filter(|ended| *ended > 0)?;
    Some(now.1.checked_sub(ms)? as f64 * 1_000.0 / ended as f64)
}

/// A line of /proc/diskstats (Documentation/admin-guide/iostats.rst).
fn disk(line: &str) -> Option<Disk> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next()?.to_owned();
    let figures: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [reads, _, read_sectors, read_ms, writes, _, written_sectors, write_ms, _, busy_ms, ..] =
        figures[..]
    else {
        return None;
    };
    Some(Disk { name, reads, read_sectors, read_ms, writes, written_sectors, write_ms, busy_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_by_its_columns_and_a_short_one_is_none() {
        let line = " 254  0 vda 43 1 1485 63 228 15 1089 120 0 147 190 15 18 76 27 45 44";
        let read = disk(line).expect("a whole line");
        assert_eq!((read.name.as_str(), read.reads, read.read_sectors), ("vda", 43, 1_485));
        assert_eq!((read.writes, read.written_sectors, read.busy_ms), (228, 1_089, 147));
        assert_eq!((read.read_ms, read.write_ms), (63, 120));
        for line in ["", "254 0", "254 0 vda", "254 0 vda 1 2 3 4 5 6 7 8 9", "254 0 vda x"] {
            assert_eq!(disk(line), None, "{line}");
        }
    }

    #[test]
    fn the_time_of_one_is_that_of_those_which_ended_meanwhile() {
        assert_eq!(each_us(Some((10, 100)), (14, 106)), Some(1_500.0));
        assert_eq!(each_us(Some((10, 100)), (11, 100)), Some(0.0), "less than a millisecond");
        assert_eq!(each_us(Some((10, 100)), (10, 100)), None, "none ended");
        assert_eq!(each_us(None, (10, 100)), None);
        assert_eq!(each_us(Some((10, 100)), (2, 5)), None, "a disk has gone");
    }
}
