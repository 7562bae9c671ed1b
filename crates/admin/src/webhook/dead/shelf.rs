//! Dead letters as lines of a file, and which of them are there: the pure part.
//!
//! ```text
//! sum number kept_ms why event    a letter: sum in hexadecimal, event as JSON in one line
//! sum number gone                 every letter up to this number is gone
//! ```
//! `sum` is the first eight bytes of the SHA-256 of the rest of the line. Lines are only added at
//! the end, numbers only rise, and letters go from the oldest on, so the letters that are there are
//! the file's last ones. A line with another sum is passed over; what follows the last line break
//! was torn and is written over. It knows no files, no clock and no webhooks. Invariant: there are
//! never more letters, nor more bytes of them, than the bounds allow, also after reading the file
//! again; and the same file read again gives the same shelf.

use base::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::ops::Range;

/// Reason why events were given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// The events were not accepted for too long.
    TooOld,
    /// More events were waiting behind them than fit.
    TooFarBehind,
    /// The server stopped and they were not taken even then.
    ServerStopped,
}

impl Why {
    pub(crate) const ALL: [Why; 3] = [Why::TooOld, Why::TooFarBehind, Why::ServerStopped];

    /// The word in files, answers and the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Why::TooOld => "too_old",
            Why::TooFarBehind => "too_far_behind",
            Why::ServerStopped => "server_stopped",
        }
    }
}

/// Limits of the stored letters. Above that the oldest is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Letters.
    pub(crate) count_max: usize,
    /// Their bytes. The file has at most twice as many, and what is added at once.
    pub(crate) bytes_max: u64,
}

/// A letter as it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeadLetter {
    /// Rises with each letter of this webhook.
    pub(crate) number: u64,
    /// Unix millisecond at which it was given up.
    pub(crate) kept_ms: u64,
    /// Reason why it was given up.
    pub(crate) why: Why,
    /// The event, as JSON.
    pub(crate) event: String,
}

impl DeadLetter {
    /// The event. The text in the file was JSON when it was written.
    pub(crate) fn as_json(&self) -> Value {
        serde_json::from_str(&self.event).unwrap_or_default()
    }
}

/// Where a letter stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Spot {
    number: u64,
    offset: u64,
    /// With its line break.
    bytes: u32,
}

/// Lines to be written at the [end](Shelf::end), and then [added](Shelf::add).
pub(crate) struct Addition {
    pub(crate) text: String,
    spots: Vec<Spot>,
    /// Letters that alone are more than the bounds allow.
    too_large: u64,
}

/// A file to take the place of the old one: this line, then what the old one has from here on.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Rewriting {
    pub(crate) head: String,
    pub(crate) from: u64,
}

/// Index of the dead letters in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shelf {
    bounds: Bounds,
    /// In the order of numbers and offsets.
    spots: VecDeque<Spot>,
    bytes: u64,
    /// Number of the next letter.
    next: u64,
    /// Bytes of the file up to the last whole line.
    end: u64,
}

impl Shelf {
    /// Letters of a file, and the number of its damaged lines.
    pub(crate) fn read(bounds: Bounds, file: &[u8]) -> (Shelf, u64) {
        let mut shelf = Shelf { bounds, spots: VecDeque::new(), bytes: 0, next: 1, end: 0 };
        let mut damaged = 0;
        for line in file.split_inclusive(|byte| *byte == b'\n') {
            let Some(whole) = line.strip_suffix(b"\n") else { break };
            match parse(whole) {
                Some(Line::Letter(letter)) if letter.number >= shelf.next => {
                    let bytes = line.len() as u32;
                    shelf.push(Spot { number: letter.number, offset: shelf.end, bytes });
                }
                Some(Line::Gone(through)) => drop(shelf.drop_through(through)),
                _ => damaged += 1,
            }
            shelf.end += line.len() as u64;
        }
        (shelf, damaged)
    }

    /// Letters.
    pub(crate) fn count(&self) -> usize {
        self.spots.len()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the next line goes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Number of the newest letter ever stored; 0 if there was none.
    pub(crate) fn newest(&self) -> u64 {
        self.next - 1
    }

    /// Lines for these events.
    pub(crate) fn lines(&self, kept_ms: u64, why: Why, events: &[String]) -> Addition {
        let mut addition = Addition { text: String::new(), spots: Vec::new(), too_large: 0 };
        let mut number = self.next;
        for event in events {
            let line = seal(&format!("{number} {kept_ms} {} {event}", why.name()));
            if line.len() as u64 > self.bounds.bytes_max {
                addition.too_large += 1;
                continue;
            }
            let offset = self.end + addition.text.len() as u64;
            addition.spots.push(Spot { number, offset, bytes: line.len() as u32 });
            addition.text.push_str(&line);
            number += 1;
        }
        addition
    }

    /// Adds letters that were written. Returns how many letters, old or new, were dropped for lack
    /// of room.
    pub(crate) fn add(&mut self, addition: Addition) -> u64 {
        let went: usize = addition.spots.into_iter().map(|spot| self.push(spot)).sum();
        self.end += addition.text.len() as u64;
        went as u64 + addition.too_large
    }

    /// The line that says that these are gone.
    pub(crate) fn gone(&self, through: u64) -> String {
        seal(&format!("{} gone", through.min(self.newest())))
    }

    /// That line was written. How many letters went with it.
    pub(crate) fn end_through(&mut self, through: u64, line: &str) -> u64 {
        self.end += line.len() as u64;
        self.drop_through(through.min(self.newest())) as u64
    }

    /// Letters after this number: their range in the file, and the number of the last. At most
    /// `count`, and, but for the first, at most `bytes`.
    pub(crate) fn page(&self, after: u64, count: usize, bytes: u64) -> Option<(Range<u64>, u64)> {
        let first = self.spots.partition_point(|spot| spot.number <= after);
        let begin = self.spots.get(first)?.offset;
        let fits = |spot: &&Spot| spot.offset + u64::from(spot.bytes) <= begin + bytes;
        let rest = self.spots.range(first + 1..).take(count.saturating_sub(1)).take_while(fits);
        let last = rest.last().unwrap_or(&self.spots[first]);
        Some((begin..last.offset + u64::from(last.bytes), last.number))
    }

    /// The rewrite that is due when the file is too long or no letter is left.
    pub(crate) fn rewriting(&self) -> Option<Rewriting> {
        let first = self.spots.front();
        let head = self.gone(first.map_or(self.newest(), |spot| spot.number - 1));
        let from = first.map_or(self.end, |spot| spot.offset);
        let empty = first.is_none() && self.end > head.len() as u64;
        let long = self.end > 2 * self.bounds.bytes_max && from > head.len() as u64;
        (empty || long).then_some(Rewriting { head, from })
    }

    /// Takes over the places after a rewrite.
    pub(crate) fn rewritten(&mut self, rewriting: &Rewriting) {
        let moved = |offset: u64| offset - rewriting.from + rewriting.head.len() as u64;
        self.spots.iter_mut().for_each(|spot| spot.offset = moved(spot.offset));
        self.end = moved(self.end);
    }

    /// How many went for want of room.
    fn push(&mut self, spot: Spot) -> usize {
        self.next = spot.number + 1;
        self.bytes += u64::from(spot.bytes);
        self.spots.push_back(spot);
        let before = self.spots.len();
        while self.spots.len() > self.bounds.count_max || self.bytes > self.bounds.bytes_max {
            let oldest = self.spots.pop_front().expect("what is over a bound is not empty");
            self.bytes -= u64::from(oldest.bytes);
        }
        before - self.spots.len()
    }

    fn drop_through(&mut self, through: u64) -> usize {
        self.next = self.next.max(through + 1);
        let count = self.spots.partition_point(|spot| spot.number <= through);
        self.bytes -= self.spots.drain(..count).map(|spot| u64::from(spot.bytes)).sum::<u64>();
        count
    }
}

enum Line {
    Letter(DeadLetter),
    Gone(u64),
}

/// The letters in a piece of the file; a damaged one is passed over.
pub(crate) fn letters(piece: &[u8]) -> Vec<DeadLetter> {
    let lines = piece.split(|byte| *byte == b'\n').filter_map(parse);
    let letter = |line| match line {
        Line::Letter(letter) => Some(letter),
        Line::Gone(_) => None,
    };
    lines.filter_map(letter).collect()
}

fn parse(line: &[u8]) -> Option<Line> {
    let (sum, rest) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    if sum != sum_of(rest) {
        return None;
    }
    let mut words = rest.splitn(4, ' ');
    let number = words.next()?.parse().ok()?;
    let second = words.next()?;
    if second == "gone" {
        return Some(Line::Gone(number));
    }
    let kept_ms = second.parse().ok()?;
    let word = words.next()?;
    let why = Why::ALL.into_iter().find(|why| why.name() == word)?;
    Some(Line::Letter(DeadLetter { number, kept_ms, why, event: words.next()?.into() }))
}

fn seal(rest: &str) -> String {
    format!("{} {rest}\n", sum_of(rest))
}

fn sum_of(rest: &str) -> String {
    hex::encode(&Sha256::digest(rest)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    const WIDE: Bounds = Bounds { count_max: 1_000, bytes_max: 1 << 20 };

    /// A shelf and its file.
    struct Book(Shelf, Vec<u8>);

    impl Book {
        fn new(bounds: Bounds) -> Book {
            Book(Shelf::read(bounds, b"").0, Vec::new())
        }

        fn keep(&mut self, events: &[&str]) -> u64 {
            let events: Vec<_> = events.iter().map(|event| (*event).to_owned()).collect();
            let addition = self.0.lines(7, Why::TooOld, &events);
            self.1.extend(addition.text.as_bytes());
            self.0.add(addition)
        }

        fn end(&mut self, through: u64) -> u64 {
            let line = self.0.gone(through);
            self.1.extend(line.as_bytes());
            self.0.end_through(through, &line)
        }

        fn rewrite(&mut self) -> bool {
            let Some(rewriting) = self.0.rewriting() else { return false };
            let rest = self.1.split_off(rewriting.from as usize);
            self.1 = [rewriting.head.as_bytes(), &rest].concat();
            self.0.rewritten(&rewriting);
            true
        }

        fn page(&self, after: u64, count: usize) -> Vec<(u64, String)> {
            let Some((place, _)) = self.0.page(after, count, u64::MAX / 2) else { return vec![] };
            let found = letters(&self.1[place.start as usize..place.end as usize]);
            found.into_iter().map(|letter| (letter.number, letter.event)).collect()
        }

        fn all(&self) -> Vec<(u64, String)> {
            self.page(0, usize::MAX)
        }
    }

    fn told(pairs: &[(u64, &str)]) -> Vec<(u64, String)> {
        pairs.iter().map(|(number, event)| (*number, (*event).to_owned())).collect()
    }

    #[test]
    fn letters_are_read_in_pages_and_go_from_the_oldest_on() {
        let mut book = Book::new(WIDE);
        assert_eq!(book.keep(&[r#"{"a b":1}"#, "\"c\"", "3"]), 0);
        assert_eq!(book.all(), told(&[(1, r#"{"a b":1}"#), (2, "\"c\""), (3, "3")]));
        assert_eq!(book.page(1, 1), told(&[(2, "\"c\"")]));
        assert_eq!(book.0.page(0, 9, 1).map(|(_, last)| last), Some(1), "one at least");
        assert_eq!((book.end(2), book.all()), (2, told(&[(3, "3")])));
        assert_eq!((book.end(2), book.end(1)), (0, 0), "they are gone");
        assert_eq!((book.end(u64::MAX), book.0.count(), book.0.bytes()), (1, 0, 0));
        book.keep(&["4"]);
        assert_eq!(book.all(), told(&[(4, "4")]), "a number is never given twice");
    }

    #[test]
    fn the_oldest_make_room_and_what_never_fits_is_counted() {
        let mut book = Book::new(Bounds { count_max: 3, ..WIDE });
        assert_eq!(book.keep(&["1", "2", "3", "4"]), 1);
        assert_eq!(book.all(), told(&[(2, "2"), (3, "3"), (4, "4")]));
        let line = "0123456789abcdef 1 7 too_old 1\n".len() as u64;
        let mut book = Book::new(Bounds { bytes_max: 2 * line, ..WIDE });
        assert_eq!(book.keep(&["1", "2", "3"]), 1);
        assert_eq!((book.0.bytes(), book.keep(&[&"x".repeat(99)])), (2 * line, 1));
        assert_eq!(book.all(), told(&[(2, "2"), (3, "3")]), "it pushes nobody else out");
    }

    #[test]
    fn a_torn_tail_is_written_over_and_a_damaged_line_is_passed_over() {
        let mut book = Book::new(WIDE);
        book.keep(&["1", "2", "3"]);
        for torn in 1..book.1.len() / 3 {
            let (shelf, damaged) = Shelf::read(WIDE, &book.1[..book.1.len() - torn]);
            assert_eq!((shelf.count(), damaged, shelf.newest()), (2, 0, 2), "{torn}");
            assert_eq!(shelf.end() as usize, book.1.len() / 3 * 2);
        }
        let middle = book.1.len() / 2;
        for bit in 0..8 {
            let mut spoilt = book.1.clone();
            spoilt[middle] ^= 1 << bit;
            let (shelf, damaged) = Shelf::read(WIDE, &spoilt);
            assert_eq!((shelf.count(), shelf.newest()), (2, 3));
            assert!(damaged >= 1, "a line break in it makes two of one");
            assert_eq!(letters(&spoilt).len(), 2);
        }
    }

    #[test]
    fn whatever_was_done_the_file_read_again_gives_the_same_shelf_within_its_bounds() {
        for seed in 0..200 {
            let mut rng = Prng::new(seed);
            let bounds = Bounds { count_max: 20, bytes_max: 900 };
            let mut book = Book::new(bounds);
            let (mut kept, mut went) = (0, 0);
            for _ in 0..100 {
                if rng.below(5) == 0 {
                    went += book.end(rng.below(book.0.newest() + 3));
                } else {
                    let events =
                        vec!["e".repeat(rng.below(40) as usize + 1); rng.below(6) as usize];
                    went += book.keep(&events.iter().map(String::as_str).collect::<Vec<_>>());
                    kept += events.len() as u64;
                }
                book.rewrite();
                assert!(book.1.len() as u64 <= 2 * bounds.bytes_max, "seed {seed}");
                assert_eq!(book.0.count() as u64, kept - went, "seed {seed}");
                assert!(book.0.count() <= 20 && book.0.bytes() <= 900, "seed {seed}");
                assert_eq!(Shelf::read(bounds, &book.1), (book.0.clone(), 0));
                assert_eq!(book.all().len(), book.0.count(), "seed {seed}");
            }
        }
    }

    #[test]
    fn nonsense_is_damage() {
        for line in ["", "x", "a b c", "\u{fffd} 1", "0123456789abcdef 1 7 too_old 1"] {
            let (shelf, damaged) = Shelf::read(WIDE, format!("{line}\n").as_bytes());
            assert_eq!((shelf.count(), damaged), (0, 1), "{line:?}");
        }
        let sealed = ["1", "x gone", "1 x too_old 1", "1 7 bored 1", "1 7 too_old"].map(seal);
        let (shelf, damaged) = Shelf::read(WIDE, sealed.concat().as_bytes());
        assert_eq!((shelf.count(), damaged), (0, 5));
    }
}
