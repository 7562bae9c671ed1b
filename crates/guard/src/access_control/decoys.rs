//! Decoys: iterations and salt for SCRAM exchanges with names that have no keys.
//!
//! An unknown name is answered like a user: with the iterations and the form of salt that users
//! with keys of that hash have, each kind as often as among them. The kind of a name is drawn from
//! a secret and the name, so that it stays while the shares do; when they shift, a few names
//! change, like those of users who change their passwords. Kinds are counted when rows are read or
//! put, and not when they are removed. It knows no names and stores no keys. Invariant: never more
//! kinds than [`KINDS_MAX`] of a hash, and a share for each of them.

use crate::scram::{ScramHash, ScramKeys};

/// Most kinds of a hash that are distinguished. Servers make all of theirs alike; users of a
/// further kind can be distinguished from unknown names.
const KINDS_MAX: usize = 8;

/// How many are counted of a hash; then all counts are halved.
const COUNTED_MAX: u32 = 1 << 30;

/// Bytes of a UUID as a text (RFC 9562 4), which is what Prosody's salts are.
const UUID_BYTES: usize = 36;

/// Public part of keys, which is sent before a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyKind {
    pub(crate) hash: ScramHash,
    pub(crate) iterations: u32,
    pub(crate) salt: SaltForm,
}

/// Form of a salt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SaltForm {
    /// A salt of this many arbitrary bytes.
    Bytes(usize),
    /// The text of a random UUID.
    Uuid,
}

impl KeyKind {
    /// That of keys.
    pub(crate) fn of(keys: &ScramKeys) -> KeyKind {
        KeyKind { hash: keys.hash, iterations: keys.iterations, salt: SaltForm::of(keys.salt()) }
    }
}

impl SaltForm {
    fn of(salt: &[u8]) -> SaltForm {
        let is_uuid = salt.len() == UUID_BYTES
            && salt.iter().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => *byte == b'-',
                _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            });
        if is_uuid { SaltForm::Uuid } else { SaltForm::Bytes(salt.len()) }
    }

    /// A salt of this form; `draw` gives as many random bytes as are wanted.
    pub(crate) fn made_up(self, draw: impl Fn(usize) -> Vec<u8>) -> Box<[u8]> {
        match self {
            SaltForm::Bytes(count) => draw(count).into(),
            SaltForm::Uuid => {
                let mut text = draw(UUID_BYTES);
                for (at, byte) in text.iter_mut().enumerate() {
                    *byte = match at {
                        8 | 13 | 18 | 23 => b'-',
                        14 => b'4',
                        19 => b"89ab"[usize::from(*byte & 3)],
                        _ => b"0123456789abcdef"[usize::from(*byte & 15)],
                    };
                }
                text.into()
            }
        }
    }
}

/// Kinds of keys, and how many are of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyKinds(Vec<(KeyKind, u32)>);

impl KeyKinds {
    /// Counts one more key of this kind.
    pub(crate) fn add(&mut self, kind: KeyKind) {
        let is_alike = |(other, _): &&mut (KeyKind, u32)| other.hash == kind.hash;
        let of_hash = self.0.iter_mut().filter(is_alike).count();
        match self.0.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, count)) => *count += 1,
            None if of_hash < KINDS_MAX => self.0.push((kind, 1)),
            None => {}
        }
        if self.0.iter().any(|(_, count)| *count == COUNTED_MAX) {
            self.0.iter_mut().for_each(|(_, count)| *count = count.div_ceil(2));
        }
    }

    /// The kind of keys that a name would have if it had any; `drawn` is derived from the name.
    /// `None` if no user has keys of this hash.
    pub(crate) fn draw(&self, others: &KeyKinds, hash: ScramHash, drawn: u64) -> Option<KeyKind> {
        let all = || self.0.iter().chain(&others.0).filter(|(kind, _)| kind.hash == hash);
        let total: u64 = all().map(|(_, count)| u64::from(*count)).sum();
        let mut place = ((u128::from(drawn) * u128::from(total)) >> 64) as u64;
        for (kind, count) in all() {
            match place.checked_sub(u64::from(*count)) {
                Some(behind) => place = behind,
                None => return Some(*kind),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(hash: ScramHash, iterations: u32) -> KeyKind {
        KeyKind { hash, iterations, salt: SaltForm::Bytes(16) }
    }

    #[test]
    fn a_salt_that_is_made_up_has_the_form_of_those_that_there_are() {
        let uuid = b"c5f88a08-45fc-4f1f-97c1-1874e813eb92";
        assert_eq!(SaltForm::of(uuid), SaltForm::Uuid);
        for (at, by) in [(8, b'x'), (0, b'g'), (35, b'A'), (14, b'-')] {
            let mut other = *uuid;
            other[at] = by;
            assert_eq!(SaltForm::of(&other), SaltForm::Bytes(36), "{at}");
        }
        assert_eq!(SaltForm::of(&uuid[1..]), SaltForm::Bytes(35));
        for fill in [0, 0x5a, 0xff] {
            let salt = SaltForm::Uuid.made_up(|count| vec![fill; count]);
            assert_eq!(SaltForm::of(&salt), SaltForm::Uuid, "{salt:?}");
            assert_eq!(salt[14], b'4');
            assert!(b"89ab".contains(&salt[19]));
        }
        assert_eq!(*SaltForm::Bytes(3).made_up(|count| vec![7; count]), [7; 3]);
    }

    #[test]
    fn kinds_are_drawn_as_often_as_they_are_had() {
        use ScramHash::{Sha1, Sha256};
        let (mut kinds, mut others) = (KeyKinds::default(), KeyKinds::default());
        assert_eq!(kinds.draw(&others, Sha1, 7), None);
        (0..3).for_each(|_| kinds.add(kind(Sha1, 10_000)));
        others.add(kind(Sha1, 4_096));
        kinds.add(kind(Sha256, 1));
        let drawn = |place: u64| {
            kinds.draw(&others, Sha1, place).map(|kind| kind.iterations).unwrap_or_default()
        };
        let quarter = 1 << 62;
        let at = [0, quarter, 3 * quarter - 1, 3 * quarter, u64::MAX];
        assert_eq!(at.map(drawn), [10_000, 10_000, 10_000, 4_096, 4_096]);
        assert_eq!(kinds.draw(&others, Sha256, u64::MAX), Some(kind(Sha256, 1)));
    }

    #[test]
    fn there_are_so_many_kinds_of_a_hash_and_counts_stay_below_their_limit() {
        let mut kinds = KeyKinds::default();
        let most = KINDS_MAX as u32;
        (1..=most + 1).for_each(|rounds| kinds.add(kind(ScramHash::Sha1, rounds)));
        kinds.add(kind(ScramHash::Sha256, 1));
        let rounds = |hash| {
            let of_hash = kinds.0.iter().filter(|(kind, _)| kind.hash == hash);
            of_hash.map(|(kind, _)| kind.iterations).collect::<Vec<_>>()
        };
        assert_eq!(rounds(ScramHash::Sha1), (1..=most).collect::<Vec<_>>());
        assert_eq!(rounds(ScramHash::Sha256), [1]);
        kinds.0[0].1 = COUNTED_MAX - 1;
        kinds.add(kind(ScramHash::Sha1, 1));
        assert_eq!((kinds.0[0].1, kinds.0[1].1), (COUNTED_MAX / 2, 1), "none is forgotten");
    }
}
