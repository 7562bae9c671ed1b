//! How numbers stand in the kernel's texts. Pure; whatever the text is, nothing panics.

/// The number after a key at the beginning of a line: `MemTotal:   123 kB`, `oom_kill 3`.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let first = words.next()?;
        (first.strip_suffix(':').unwrap_or(first) == key).then(|| words.next()?.parse().ok())?
    })
}

/// The number after a word in the line that begins with `head`: `TCP: inuse 4 orphan 0`.
pub(crate) fn within(text: &str, head: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(head)?.strip_prefix(':'))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|found| *found == word)?;
    words.next()?.parse().ok()
}

/// The numbers of a line, up to the first word that is none.
pub(crate) fn numbers(line: &str) -> impl Iterator<Item = u64> {
    line.split_ascii_whitespace().map_while(|word| word.parse().ok())
}

/// A sum that stays at the greatest number, for a text may hold any.
pub(crate) fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// The number at a place of a line.
pub(crate) fn nth(line: &str, place: usize) -> Option<u64> {
    line.split_ascii_whitespace().nth(place)?.parse().ok()
}

/// Sums of the columns of the same name over the lines below a head, numbers in hexadecimal, as in
/// /proc/net/stat; only that of one name.
pub(crate) fn hex_column(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let place = lines.next()?.split_ascii_whitespace().position(|head| head == name)?;
    let cells = lines.filter_map(|line| line.split_ascii_whitespace().nth(place));
    Some(sum(cells.filter_map(|cell| u64::from_str_radix(cell, 16).ok())))
}

/// The tables of /proc/net/snmp and /proc/net/netstat: (table, counter, value). A counter without a
/// value, or with a negative one, is left out.
pub(crate) fn tables(text: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs: Vec<(&str, &str)> = lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.into_iter().flat_map(|(names, values)| {
        let halves = names.split_once(':').zip(values.split_once(':'));
        let same = halves.filter(|((table, _), (again, _))| table == again);
        same.into_iter().flat_map(|((table, names), (_, values))| {
            let cells = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
            cells.filter_map(move |(name, value)| Some((table, name, value.parse().ok()?)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_names_only() {
        let text = "MemTotal:  24684092 kB\nMemFree: x kB\noom_kill 3\nSlab:\n";
        assert_eq!(keyed(text, "MemTotal"), Some(24_684_092));
        assert_eq!(keyed(text, "oom_kill"), Some(3));
        assert_eq!([keyed(text, "MemFree"), keyed(text, "Slab"), keyed(text, "Mem")], [None; 3]);
        let text = "sockets: used 21\nTCP: inuse 1 orphan 0 tw 7\nTCP6: inuse 9\n";
        assert_eq!(within(text, "TCP", "tw"), Some(7));
        assert_eq!(within(text, "TCP6", "inuse"), Some(9));
        assert_eq!([within(text, "TCP", "mem"), within(text, "UDP", "mem")], [None; 2]);
    }

    #[test]
    fn tables_are_read_by_name_and_survive_what_is_missing() {
        let text = "Tcp: MaxConn ActiveOpens Late\nTcp: -1 7\nIp: A\nUdp: 1\nTcpExt: B\n";
        assert_eq!(tables(text).collect::<Vec<_>>(), [("Tcp", "ActiveOpens", 7)]);
    }

    #[test]
    fn hexadecimal_columns_are_summed_over_the_cores() {
        let text = "entries  found drop\n0000000a 00000000 00000010\n0000000a 00000000 00000001\n";
        assert_eq!(hex_column(text, "drop"), Some(17));
        assert_eq!(hex_column(text, "new"), None);
        assert_eq!(hex_column("", "new"), None);
    }
}
