//! Pressure stall information: how long threads had to wait for what (/proc/pressure).

use crate::columns as at;
use crate::place::KernelFiles;
use lab::series::{Column, Reading};

/// Adds it, where the kernel keeps it.
pub(super) fn read(place: &KernelFiles, out: &mut Reading) {
    let some = [
        ("cpu", at::PSI_CPU, at::PSI_CPU_S),
        ("memory", at::PSI_MEMORY, at::PSI_MEMORY_S),
        ("io", at::PSI_IO, at::PSI_IO_S),
    ];
    let full = [
        ("memory", at::PSI_MEMORY_FULL, at::PSI_MEMORY_FULL_S),
        ("io", at::PSI_IO_FULL, at::PSI_IO_FULL_S),
    ];
    for (word, list) in [("some", &some[..]), ("full", &full[..])] {
        for (what, share, total) in list {
            let text = place.text(&format!("proc/pressure/{what}")).unwrap_or_default();
            set(stall(&text, word), share, total, out);
        }
    }
}

fn set(stall: Option<(f64, f64)>, share: &Column, total: &Column, out: &mut Reading) {
    if let Some((percent, us)) = stall {
        out.set(share.clone(), percent / 100.0);
        out.set(total.clone(), us / 1_000_000.0);
    }
}

/// Percent of the last ten seconds and microseconds in all, of the line that begins so.
fn stall(text: &str, head: &str) -> Option<(f64, f64)> {
    let line = text.lines().find_map(|line| line.strip_prefix(head)?.strip_prefix(' '))?;
    let of = |key: &str| {
        let word = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
        word.parse::<f64>().ok().filter(|value| value.is_finite())
    };
    Some((of("avg10")?, of("total")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_told_apart() {
        let text = "some avg10=6.91 avg60=5.92 avg300=13.74 total=14834655676\n\
                    full avg10=0.02 avg60=0.11 avg300=0.03 total=7\n";
        assert_eq!(stall(text, "some"), Some((6.91, 14_834_655_676.0)));
        assert_eq!(stall(text, "full"), Some((0.02, 7.0)));
        for text in ["", "some", "some avg10= total=1", "some avg10=1", "some avg10=NaN total=1"] {
            assert_eq!(stall(text, "some"), None, "{text}");
        }
    }
}
