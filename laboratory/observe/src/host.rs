//! A machine's own figures, read from the kernel: processor, memory, sockets, network, disks.
//!
//! Each reading opens some forty small files, a few milliseconds of work at most; nothing in it
//! grows with the number of connections. Figures that a kernel does not have are left out. It reads
//! no clock: shares of time are taken from the kernel's own uptime.

mod cgroup;
mod cpu;
mod disk;
mod memory;
mod network;
mod pressure;
mod sockets;

pub(crate) use cgroup::Group;
pub(crate) use cpu::Stat;
pub(crate) use memory::kib;
pub(crate) use sockets::ports;

use crate::columns as at;
use crate::listeners;
use crate::place::KernelFiles;
use lab::series::Reading;

/// A machine whose counters are read.
#[derive(Debug)]
pub struct ObservedHost {
    place: KernelFiles,
    /// The folder of the network's counters: `proc/net`, or that of a process.
    net: String,
    group: Group,
    before: Before,
}

/// Counters of the last reading, from which shares are computed.
#[derive(Default, Debug)]
struct Before {
    uptime_s: f64,
    cpu: Option<Stat>,
    disks: disk::Busy,
}

impl ObservedHost {
    /// The machine that this program runs on.
    pub fn of_this_machine() -> ObservedHost {
        ObservedHost::at(KernelFiles::real())
    }

    /// This machine as a process sees it: the network and control group are the process's own.
    pub fn around(pid: u32) -> ObservedHost {
        ObservedHost::seen_by(KernelFiles::real(), Some(pid))
    }

    /// The machine whose files are there.
    pub fn at(place: KernelFiles) -> ObservedHost {
        ObservedHost::seen_by(place, None)
    }

    fn seen_by(place: KernelFiles, pid: Option<u32>) -> ObservedHost {
        let group = Group::find(&place, pid);
        let net = crate::network_of(&place, pid);
        let mut host = ObservedHost { place, net, group, before: Before::default() };
        host.read();
        host
    }

    /// Reads the counters now. Shares are those of the time since the last reading.
    pub fn read(&mut self) -> Reading {
        let mut out = Reading::default();
        let uptime_s = uptime_s(&self.place).unwrap_or_default();
        let took_s = uptime_s - self.before.uptime_s;
        out.set(at::HOST_UPTIME, uptime_s);
        self.processor(&mut out);
        memory::read(&self.place, &mut out);
        sockets::read(&self.place, &self.net, &mut out);
        let queues = listeners::read(&self.place, &self.net);
        if let Some(fullest) = listeners::fullest(queues.iter()) {
            out.set(at::LISTEN_QUEUE, fullest.waiting as f64);
            fullest.backlog.inspect(|backlog| out.set(at::LISTEN_BACKLOG, *backlog as f64));
        }
        disk::read(&self.place, took_s, &mut self.before.disks, &mut out);
        network::read(&self.place, &self.net, &mut out);
        pressure::read(&self.place, &mut out);
        self.group.read(&self.place, &mut out);
        self.before.uptime_s = uptime_s;
        out
    }

    /// Seconds since 1970 by the machine's clock, to a second or so.
    pub fn unix_s(&self) -> Option<f64> {
        let stat = self.place.text("proc/stat")?;
        Some(crate::lines::keyed(&stat, "btime")? as f64 + uptime_s(&self.place)?)
    }

    /// Seconds since the machine started, in hundredths.
    pub fn uptime_s(&self) -> Option<f64> {
        uptime_s(&self.place)
    }

    fn processor(&mut self, out: &mut Reading) {
        let now = self.place.text("proc/stat").map(|text| Stat::of(&text)).unwrap_or_default();
        cpu::read(&now, self.before.cpu.as_ref(), out);
        self.before.cpu = Some(now);
        let load = self.place.text("proc/loadavg");
        let load = load.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        load.inspect(|load| out.set(at::HOST_LOAD, *load));
    }
}

/// Seconds since the machine started, in hundredths.
pub(crate) fn uptime_s(place: &KernelFiles) -> Option<f64> {
    place.text("proc/uptime")?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
