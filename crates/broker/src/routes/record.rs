//! Records of the table, and how they are kept.
//!
//! A record is 24 bytes: where it hangs, its text, what it holds, how many hang below it. Its
//! meaning is the table's; here is only its form.

use super::texts::Texts;

/// A filter or a node; 24 bytes.
#[derive(Clone, Copy)]
pub(super) struct Record {
    /// Number of the parent; [`EXACT`] for a filter without wildcards. Of a free record: the next.
    pub parent: u32,
    /// Handle of the text: the whole filter, or a node's level.
    pub text: u32,
    pub text_bytes: u16,
    /// Where in the text its level begins.
    pub level_at: u16,
    /// Halves of [`NOTHING`], of one subscription, or of [`SET`] and the number of a set.
    pub held: [u32; 2],
    /// Number of children, up to [`CHILDREN_MAX`], and flags above it.
    pub children: u32,
}

const _: () = assert!(size_of::<Record>() == 24);

/// Parent of filters without wildcards.
pub(super) const EXACT: u32 = u32::MAX;
/// End of the list of free records.
const NO_RECORD: u32 = u32::MAX;
/// Most children of a record.
pub(super) const CHILDREN_MAX: u32 = !flag::ALL;
/// The bit that tells the number of a set from a subscription.
pub(super) const SET: u64 = 1 << 63;
/// No subscription.
pub(super) const NOTHING: u64 = u64::MAX;

/// Flags above the number of children.
pub(super) mod flag {
    /// The record is a node: its text is its level alone.
    pub const NODE: u32 = 1 << 31;
    /// The record has a child `+`.
    pub const PLUS: u32 = 1 << 30;
    /// The record has a child `#`.
    pub const HASH: u32 = 1 << 29;
    pub const ALL: u32 = NODE | PLUS | HASH;
}

impl Record {
    pub fn new(parent: u32, text: u32, text_bytes: usize, level_at: usize, flags: u32) -> Record {
        let (text_bytes, level_at) = (text_bytes as u16, level_at as u16);
        let mut record =
            Record { parent, text, text_bytes, level_at, held: [0; 2], children: flags };
        record.set_held(NOTHING);
        record
    }

    pub fn held(&self) -> u64 {
        u64::from(self.held[0]) << 32 | u64::from(self.held[1])
    }

    pub fn set_held(&mut self, held: u64) {
        self.held = [(held >> 32) as u32, held as u32];
    }

    pub fn is_leaf(&self) -> bool {
        self.children & flag::NODE == 0
    }

    pub fn count(&self) -> u32 {
        self.children & CHILDREN_MAX
    }

    /// Its name under its parent: a level, or the whole text of an exact filter.
    pub fn level<'t>(&self, texts: &'t Texts) -> &'t [u8] {
        let text = texts.bytes(self.text, usize::from(self.text_bytes));
        if self.parent == EXACT {
            return text;
        }
        let from = usize::from(self.level_at);
        &text[from..level_end(text, from)]
    }
}

/// Records in chunks, so that nothing is copied when they become more.
#[derive(Default)]
pub(super) struct Records {
    chunks: Vec<Vec<Record>>,
    free: Option<u32>,
}

const CHUNK_RECORDS: usize = 1_024;

impl Records {
    pub fn at(&self, number: u32) -> &Record {
        &self.chunks[number as usize / CHUNK_RECORDS][number as usize % CHUNK_RECORDS]
    }

    pub fn at_mut(&mut self, number: u32) -> &mut Record {
        &mut self.chunks[number as usize / CHUNK_RECORDS][number as usize % CHUNK_RECORDS]
    }

    /// `None` when there are as many as can be numbered.
    pub fn add(&mut self, record: Record) -> Option<u32> {
        if let Some(number) = self.free {
            let next = self.at(number).parent;
            self.free = (next != NO_RECORD).then_some(next);
            *self.at_mut(number) = record;
            return Some(number);
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_RECORDS) {
            self.chunks.push(Vec::with_capacity(CHUNK_RECORDS));
        }
        let full = (self.chunks.len() - 1) * CHUNK_RECORDS;
        let chunk = self.chunks.last_mut().expect("there is one");
        let number = u32::try_from(full + chunk.len()).ok().filter(|&n| n < NO_RECORD)?;
        chunk.push(record);
        Some(number)
    }

    pub fn free(&mut self, number: u32) {
        let next = self.free.unwrap_or(NO_RECORD);
        self.at_mut(number).parent = next;
        self.free = Some(number);
    }

    pub fn heap_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_RECORDS * size_of::<Record>()
    }
}

/// Where the level that begins at `from` ends.
pub(super) fn level_end(text: &[u8], from: usize) -> usize {
    text[from..].iter().position(|&byte| byte == b'/').map_or(text.len(), |at| from + at)
}
