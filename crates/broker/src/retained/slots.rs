//! Messages in numbered slots, which lie in chunks: nothing is copied when they become more.

use model::topic::Publication;
use std::sync::Arc;

const CHUNK: usize = 1_024;

/// The slots.
#[derive(Default)]
pub(super) struct Slots {
    chunks: Vec<Vec<Option<Arc<Publication>>>>,
    free: Vec<u32>,
    len: usize,
}

impl Slots {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The message in a slot that is in use.
    pub fn at(&self, slot: u32) -> &Arc<Publication> {
        self.find(slot).expect("the slot is in use")
    }

    /// The message in a slot, if it is in use.
    pub fn find(&self, slot: u32) -> Option<&Arc<Publication>> {
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].as_ref()
    }

    pub fn add(&mut self, message: Arc<Publication>) -> u32 {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            *self.slot(slot) = Some(message);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let full = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut().expect("there is one");
        let slot = u32::try_from(full + chunk.len()).expect("count_max has 32 bits");
        chunk.push(Some(message));
        slot
    }

    /// Puts a message into a slot that is in use.
    pub fn replace(&mut self, slot: u32, message: Arc<Publication>) -> Arc<Publication> {
        self.slot(slot).replace(message).expect("the slot is in use")
    }

    pub fn take(&mut self, slot: u32) -> Arc<Publication> {
        self.len -= 1;
        self.free.push(slot);
        self.slot(slot).take().expect("the slot is in use")
    }

    fn slot(&mut self, slot: u32) -> &mut Option<Arc<Publication>> {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}
