//! Samples of encoded types: a value of each kind, for golden bytes and bent inputs.
//!
//! Kinds of an enum are those of its variants together; a struct has as many as the field that has
//! most. So the samples of a message contain each variant of each type inside it. Numbers and texts
//! differ from one to the next: two fields that change places change the bytes.

use crate::slab::Key;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Boxes and lists inside each other in a sample.
const NESTING: u8 = 8;

/// A type with samples.
pub trait Sample: Sized {
    /// How many kinds there are with so many boxes and lists inside each other; 0: the type has no
    /// value without more of them.
    fn kinds(nesting: u8) -> usize;

    /// The sample of this kind, below [`kinds`](Self::kinds).
    fn sample(kind: usize, from: &mut SampleSource) -> Self;
}

/// Source of numbers and texts, each another one.
pub struct SampleSource {
    last: u64,
    nesting: u8,
}

impl SampleSource {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A sample of this kind of a part, which may have fewer kinds than the whole.
    pub fn part<T: Sample>(&mut self, kind: usize) -> T {
        T::sample(kind % T::kinds(self.nesting).max(1), self)
    }

    /// The boxes and lists that may be inside each other here.
    pub fn nesting(&self) -> u8 {
        self.nesting
    }

    fn inside<T>(&mut self, sample: impl FnOnce(&mut SampleSource) -> T) -> T {
        self.nesting -= 1;
        let value = sample(self);
        self.nesting += 1;
        value
    }
}

/// A sample of each kind.
pub fn samples<T: Sample>() -> Vec<T> {
    let mut from = SampleSource { last: 0, nesting: NESTING };
    (0..T::kinds(NESTING)).map(|kind| T::sample(kind, &mut from)).collect()
}

/// Number of kinds of a type whose parts have so many; 0: a part has none.
pub fn kinds_of(parts: &[usize]) -> usize {
    if parts.contains(&0) { 0 } else { parts.iter().copied().max().unwrap_or(1) }
}

/// Declares types of one kind: how a number becomes a sample.
macro_rules! plain {
    ($($type:ty: $of:expr;)+) => {$(
        impl Sample for $type {
            fn kinds(_: u8) -> usize {
                1
            }

            fn sample(_: usize, from: &mut SampleSource) -> $type {
                $of(from.number())
            }
        }
    )+};
}

plain! {
    u8: |number| number as u8;
    u16: |number| number as u16;
    u32: |number| number as u32;
    u64: |number| number;
    u128: u128::from;
    i8: |number| -(number as i8).saturating_abs();
    i16: |number| -(number as i16).saturating_abs();
    i32: |number| -(number as i32).saturating_abs();
    i64: |number| -(number as i64);
    NonZeroU32: |number| NonZeroU32::MIN.saturating_add(number as u32);
    Box<str>: |number| format!("text {number}").into();
    Arc<str>: |number| format!("text {number}").into();
    Key: Key::unpack;
}

impl Sample for bool {
    fn kinds(_: u8) -> usize {
        2
    }

    fn sample(kind: usize, _: &mut SampleSource) -> bool {
        kind == 1
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn kinds(_: u8) -> usize {
        1
    }

    fn sample(_: usize, from: &mut SampleSource) -> [u8; N] {
        [from.number() as u8; N]
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn kinds(nesting: u8) -> usize {
        nesting.checked_sub(1).map_or(0, |nesting| T::kinds(nesting).max(1))
    }

    fn sample(kind: usize, from: &mut SampleSource) -> Vec<T> {
        from.inside(|from| match T::kinds(from.nesting) {
            0 => Vec::new(),
            _ => vec![from.part(kind)],
        })
    }
}

/// Declares lists like `Vec`.
macro_rules! lists {
    ($($list:ty: $($bound:path),*;)+) => {$(
        impl<T: Sample $(+ $bound)*> Sample for $list {
            fn kinds(nesting: u8) -> usize {
                Vec::<T>::kinds(nesting)
            }

            fn sample(kind: usize, from: &mut SampleSource) -> $list {
                Vec::<T>::sample(kind, from).into_iter().collect()
            }
        }
    )+};
}

lists! {
    Box<[T]>:;
    Arc<[T]>:;
    BTreeSet<T>: Ord;
}

/// Declares boxes.
macro_rules! boxes {
    ($($boxed:ident)+) => {$(
        impl<T: Sample> Sample for $boxed<T> {
            fn kinds(nesting: u8) -> usize {
                nesting.checked_sub(1).map_or(0, T::kinds)
            }

            fn sample(kind: usize, from: &mut SampleSource) -> $boxed<T> {
                $boxed::new(from.inside(|from| T::sample(kind, from)))
            }
        }
    )+};
}

boxes!(Arc Box);

impl<T: Sample> Sample for Option<T> {
    fn kinds(nesting: u8) -> usize {
        1 + T::kinds(nesting)
    }

    fn sample(kind: usize, from: &mut SampleSource) -> Option<T> {
        kind.checked_sub(1).map(|kind| T::sample(kind, from))
    }
}

impl<T: Sample, E: Sample> Sample for Result<T, E> {
    fn kinds(nesting: u8) -> usize {
        T::kinds(nesting) + E::kinds(nesting)
    }

    fn sample(kind: usize, from: &mut SampleSource) -> Result<T, E> {
        match kind.checked_sub(T::kinds(from.nesting)) {
            None => Ok(T::sample(kind, from)),
            Some(kind) => Err(E::sample(kind, from)),
        }
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn kinds(nesting: u8) -> usize {
        kinds_of(&[A::kinds(nesting), B::kinds(nesting)])
    }

    fn sample(kind: usize, from: &mut SampleSource) -> (A, B) {
        (from.part(kind), from.part(kind))
    }
}

impl<A: Sample, B: Sample, C: Sample> Sample for (A, B, C) {
    fn kinds(nesting: u8) -> usize {
        kinds_of(&[A::kinds(nesting), B::kinds(nesting), C::kinds(nesting)])
    }

    fn sample(kind: usize, from: &mut SampleSource) -> (A, B, C) {
        (from.part(kind), from.part(kind), from.part(kind))
    }
}
