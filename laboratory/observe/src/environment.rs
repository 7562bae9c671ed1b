//! Environment of a run: what this machine is.

use crate::host::{Stat, kib};
use crate::place::KernelFiles;
use lab::host::Environment;

/// Environment of this machine.
pub fn environment() -> Environment {
    environment_at(&KernelFiles::real())
}

/// Environment of the machine whose files are there.
pub fn environment_at(place: &KernelFiles) -> Environment {
    let line = |path: &str| place.text(path).unwrap_or_default().trim().to_owned();
    let cpu = place.text("proc/cpuinfo").unwrap_or_default();
    let memory = place.text("proc/meminfo").unwrap_or_default();
    let there = place.text("proc/stat").map(|text| Stat::of(&text).cores()).unwrap_or_default();
    // Of the real machine, those that this process may use: a container may have fewer.
    let mine = std::thread::available_parallelism().map_or(there, |cores| cores.get());
    let cores = if place.is_real() { mine } else { there };
    Environment {
        host: line("proc/sys/kernel/hostname"),
        cpu: processor(&cpu),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_bytes: kib(&memory, "MemTotal").unwrap_or(0),
        kernel: line("proc/sys/kernel/osrelease"),
        around: around(place, &cpu),
        version: concat!("holdline ", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

/// The processor's name: `model name` on x86, other words elsewhere.
fn processor(text: &str) -> String {
    let of = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    let known = ["model name", "Model", "cpu model", "uarch", "CPU implementer"];
    known.into_iter().find_map(of).unwrap_or_default()
}

fn around(place: &KernelFiles, cpu: &str) -> String {
    let mut words = Vec::new();
    let has = |path: &str| place.has(path);
    let groups = place.text("proc/1/cgroup").unwrap_or_default();
    if has(".dockerenv") {
        words.push("in a Docker container".to_owned());
    } else if has("run/.containerenv") {
        words.push("in a Podman container".to_owned());
    } else if groups.contains("kubepods") || has("var/run/secrets/kubernetes.io") {
        words.push("in a Kubernetes pod".to_owned());
    } else if groups.contains("/lxc") {
        words.push("in an LXC container".to_owned());
    }
    let kernel = place.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let product = place.text("sys/class/dmi/id/product_name").unwrap_or_default();
    let vendor = place.text("sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let hardware = format!("{} {}", vendor.trim(), product.trim());
    if kernel.to_lowercase().contains("microsoft") {
        words.push("under WSL".to_owned());
    } else if cpu.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor")) {
        words.push(format!("virtual machine {}", hardware.trim()).trim().to_owned());
    } else if !hardware.trim().is_empty() {
        words.push(hardware.trim().to_owned());
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_by_whatever_word_there_is() {
        assert_eq!(processor("processor : 0\nmodel name\t: A: b\nmodel name : C\n"), "A: b");
        assert_eq!(processor("CPU implementer\t: 0x41\n"), "0x41");
        assert_eq!(processor("nonsense"), "");
    }

    #[test]
    fn this_machine_has_a_core_memory_and_a_kernel() {
        let here = environment();
        assert!(here.cores > 0 && here.memory_bytes > 1 << 20 && !here.kernel.is_empty());
    }
}
