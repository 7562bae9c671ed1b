//! A part of a file that is asked for (RFC 9110 14).

/// Part of a file to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// All of it: nothing else was asked for, or something that is not understood.
    Whole,
    /// From here on so many bytes, at least one.
    Bytes(u64, u64),
    /// The requested range begins beyond the end of the file.
    Beyond,
}

/// The part that a `Range` asks for of a file of this size. Several parts at once are answered by
/// the whole, as they may be (RFC 9110 14.2).
pub(crate) fn of(header: Option<&str>, size: u64) -> Part {
    let Some(range) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    let Some((first, last)) = range.split_once('-') else { return Part::Whole };
    let (first, last) = (first.trim(), last.trim());
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => Part::Whole,
        (Some(_), None) if !last.is_empty() => Part::Whole,
        (Some(first), _) if first >= size => Part::Beyond,
        (Some(first), None) => Part::Bytes(first, size - first),
        (Some(first), Some(last)) => Part::Bytes(first, last.min(size - 1) - first + 1),
        (None, Some(count)) if first.is_empty() => match count.min(size) {
            0 => Part::Beyond,
            count => Part::Bytes(size - count, count),
        },
        _ => Part::Whole,
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_as_the_standard_has_them() {
        for (header, part) in [
            ("bytes=0-0", Part::Bytes(0, 1)),
            ("bytes=0-", Part::Bytes(0, 10)),
            ("bytes=3-5", Part::Bytes(3, 3)),
            ("bytes=3-99", Part::Bytes(3, 7)),
            ("bytes=-4", Part::Bytes(6, 4)),
            ("bytes=-99", Part::Bytes(0, 10)),
            ("bytes=9-", Part::Bytes(9, 1)),
            ("bytes=10-", Part::Beyond),
            ("bytes=10-12", Part::Beyond),
            ("bytes=-0", Part::Beyond),
            ("bytes=5-3", Part::Whole),
            ("bytes=1-2,4-5", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("bytes=99999999999999999999999-", Part::Whole),
            ("items=0-1", Part::Whole),
        ] {
            assert_eq!(of(Some(header), 10), part, "{header}");
        }
        assert_eq!(of(None, 10), Part::Whole);
        assert_eq!(of(Some("bytes=0-"), 0), Part::Beyond, "an empty file has no part");
    }
}
