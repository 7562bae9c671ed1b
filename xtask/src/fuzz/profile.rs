//! What a program covered, as its raw profile says.
//!
//! ```text
//! header: 16 words of 8 bytes │ ids │ a record a function, 64 bytes │ padding │ counters, 8 bytes
//! ```
//! That is version 10 of LLVM's (`compiler-rt/include/profile/InstrProfData.inc`); another version
//! is refused by its number. Invariant: profiles of one program have their counters in one order.

/// Counters that have counted, a bit each.
#[derive(Clone, Default)]
pub struct Covered(Vec<u64>);

/// How a profile of 64 bits begins, and the version that is known.
const MAGIC: u64 = 0xff6c_7072_6f66_7281;
const VERSION: u64 = 10;

/// Words of the header, and which of them are what.
const HEADER: usize = 16;
const IDS_BYTES: usize = 2;
const RECORDS: usize = 3;
const PADDING_BYTES: usize = 4;
const COUNTERS: usize = 5;

/// Bytes of a record.
const RECORD_BYTES: u64 = 64;

impl Covered {
    /// Reads a profile.
    pub fn read(profile: &[u8]) -> Result<Covered, String> {
        let words: Vec<u64> = profile
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let header = words.get(..HEADER).ok_or("no profile was left")?;
        // The upper half of the version says what else is in it.
        let version = header[1] & 0xffff_ffff;
        if header[0] != MAGIC || version != VERSION {
            return Err(format!("profiles of version {version} are not known, {VERSION} is"));
        }
        let before = header[IDS_BYTES] + header[RECORDS] * RECORD_BYTES + header[PADDING_BYTES];
        let (from, count) = (HEADER + before as usize / 8, header[COUNTERS] as usize);
        let counters = words.get(from..from + count).ok_or("a profile that is cut off")?;
        let mut covered = Covered(vec![0; count.div_ceil(64)]);
        for (at, _) in counters.iter().enumerate().filter(|(_, count)| **count > 0) {
            covered.0[at / 64] |= 1 << (at % 64);
        }
        Ok(covered)
    }

    /// What is in this one and not in the other.
    pub fn without(mut self, other: &Covered) -> Covered {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= !other);
        self
    }

    /// All of another one, too.
    pub fn add(&mut self, other: &Covered) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    /// Whether all of another one is in it.
    pub fn has_all(&self, other: &Covered) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| other & !own == 0)
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many counters.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(version: u64, counters: &[u64]) -> Vec<u8> {
        let mut words = vec![0; HEADER];
        (words[0], words[1]) = (MAGIC, version | 1 << 60);
        (words[IDS_BYTES], words[RECORDS], words[COUNTERS]) = (8, 1, counters.len() as u64);
        words.extend([7; 1 + RECORD_BYTES as usize / 8]);
        words.extend(counters);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn counters_that_counted_are_covered() {
        let one = Covered::read(&profile(VERSION, &[0, 3, 0, 1])).expect("read");
        let other = Covered::read(&profile(VERSION, &[9, 1, 0, 0])).expect("read");
        assert_eq!((one.count(), one.clone().without(&other).count()), (2, 1));
        let mut all = one.clone();
        all.add(&other);
        assert!(all.count() == 3 && all.has_all(&one) && all.has_all(&other));
        assert!(!one.has_all(&other) && one.without(&all).is_empty());
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        assert!(Covered::read(&[]).is_err());
        assert!(Covered::read(&profile(VERSION + 1, &[1])).is_err());
        let whole = profile(VERSION, &[1, 1]);
        assert!(Covered::read(&whole[..whole.len() - 8]).is_err());
    }
}
