//! The timelines that changed since they were written into state, in a table that grows by pieces:
//! no append waits until a large one has been copied, and what is empty gives its memory back.
//!
//! The table knows places in itself and nothing of heads. Invariant: a place that was given stays
//! until it is given back.

use super::tail::Touched;

/// Places of a piece.
const CHUNK: usize = 4_096;

/// The table.
#[derive(Default)]
pub(crate) struct Changed {
    chunks: Vec<Vec<Option<Touched>>>,
    free: Vec<u32>,
    len: usize,
}

impl Changed {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Places there are, taken or not.
    pub(crate) fn places(&self) -> u32 {
        match self.chunks.last() {
            None => 0,
            Some(last) => ((self.chunks.len() - 1) * CHUNK + last.len()) as u32,
        }
    }

    pub(crate) fn at(&self, at: u32) -> Option<&Touched> {
        self.chunks.get(at as usize / CHUNK)?.get(at as usize % CHUNK)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, at: u32) -> Option<&mut Touched> {
        self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)?.as_mut()
    }

    /// Puts one in. Its place.
    pub(crate) fn put(&mut self, touched: Touched) -> u32 {
        self.len += 1;
        if let Some(at) = self.free.pop() {
            self.chunks[at as usize / CHUNK][at as usize % CHUNK] = Some(touched);
            return at;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks.last_mut().expect("one with room was made sure of").push(Some(touched));
        self.places() - 1
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, at: u32) {
        self.chunks[at as usize / CHUNK][at as usize % CHUNK] = None;
        self.free.push(at);
        self.len -= 1;
        if self.len == 0 {
            *self = Changed::default();
        }
    }

    /// All of them, with their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Touched)> {
        let all = self.chunks.iter().flatten().enumerate();
        all.filter_map(|(at, touched)| Some((at as u32, touched.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_an_empty_table_has_none() {
        let mut changed = Changed::default();
        let count = 3 * CHUNK as u32 - 7;
        (0..count).for_each(|at| assert_eq!(changed.put(Touched::new(at, 0)), at));
        assert_eq!((changed.len() as u32, changed.places()), (count, count));
        for at in (0..count).filter(|at| at % 5 != 0) {
            changed.remove(at);
        }
        let left: Vec<_> = changed.iter().map(|(at, touched)| (at, touched.head)).collect();
        assert!(left.iter().copied().eq((0..count).step_by(5).map(|at| (at, at))));
        assert!(changed.at(1).is_none() && changed.at(5).is_some());
        let again = changed.put(Touched::new(9, 0));
        assert!(again < count && changed.at_mut(again).is_some_and(|one| one.head == 9));
        let all: Vec<_> = changed.iter().map(|(at, _)| at).collect();
        all.into_iter().for_each(|at| changed.remove(at));
        assert_eq!((changed.len(), changed.places()), (0, 0));
        assert_eq!(changed.put(Touched::new(1, 0)), 0);
    }
}
