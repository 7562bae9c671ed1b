//! Many short texts in few allocations.
//!
//! A text lives in a slot of a size class, classes lie eight bytes apart up to 256 bytes and are
//! powers of two above. Slots come from chunks and are used again when freed; chunks are kept. A
//! handle is four bytes, and is used with the text's length, which its owner has anyway.

/// Longest text, bytes (MQTT5 4.7.3-3).
pub const TEXT_BYTES_MAX: usize = 65_535;

const FINE_CLASSES: usize = 32;
const FINE_BYTES: usize = 256;
const CLASSES: usize = FINE_CLASSES + 8;
const CHUNK_BYTES: usize = 16 * 1024;
const NONE: u32 = u32::MAX;

/// The texts.
pub struct Texts {
    classes: [Class; CLASSES],
}

/// Slots of one size.
struct Class {
    chunks: Vec<Box<[u8]>>,
    /// Slots that were ever used.
    used: u32,
    /// The first free one; each holds the number of the next in its first four bytes.
    free: u32,
}

impl Default for Texts {
    fn default() -> Self {
        let class = |_| Class { chunks: Vec::new(), used: 0, free: NONE };
        Texts { classes: std::array::from_fn(class) }
    }
}

impl Texts {
    /// Keeps a copy of `text`. `None` when its class is full, at four thousand million slots.
    pub fn put(&mut self, text: &str) -> Option<u32> {
        debug_assert!(text.len() <= TEXT_BYTES_MAX);
        let slot_bytes = slot_bytes(text.len());
        let class = &mut self.classes[class_of(text.len())];
        let slot = match class.free {
            NONE => {
                let slot = class.used;
                class.used = slot.checked_add(1).filter(|&next| next != NONE)?;
                slot
            }
            slot => {
                let next = class.slot(slot, slot_bytes).first_chunk().expect("eight bytes or more");
                class.free = u32::from_le_bytes(*next);
                slot
            }
        };
        class.slot(slot, slot_bytes)[..text.len()].copy_from_slice(text.as_bytes());
        Some(slot)
    }

    /// The bytes of the text of this length under this handle.
    pub fn bytes(&self, slot: u32, length: usize) -> &[u8] {
        let slot_bytes = slot_bytes(length);
        let (chunk, at) = place(slot, slot_bytes);
        &self.classes[class_of(length)].chunks[chunk][at..at + length]
    }

    /// Frees it.
    pub fn free(&mut self, slot: u32, length: usize) {
        let class = &mut self.classes[class_of(length)];
        let next = class.free.to_le_bytes();
        class.slot(slot, slot_bytes(length))[..4].copy_from_slice(&next);
        class.free = slot;
    }

    /// Bytes of all chunks.
    pub fn heap_bytes(&self) -> usize {
        self.classes.iter().flat_map(|class| &class.chunks).map(|chunk| chunk.len()).sum()
    }
}

impl Class {
    fn slot(&mut self, slot: u32, slot_bytes: usize) -> &mut [u8] {
        let (chunk, at) = place(slot, slot_bytes);
        if chunk == self.chunks.len() {
            let bytes = slots_a_chunk(slot_bytes) * slot_bytes;
            self.chunks.push(vec![0; bytes].into_boxed_slice());
        }
        &mut self.chunks[chunk][at..at + slot_bytes]
    }
}

fn class_of(length: usize) -> usize {
    if length <= FINE_BYTES {
        return length.div_ceil(8).max(1) - 1;
    }
    FINE_CLASSES + (slot_bytes(length) / FINE_BYTES).ilog2() as usize - 1
}

fn slot_bytes(length: usize) -> usize {
    if length <= FINE_BYTES { length.div_ceil(8).max(1) * 8 } else { length.next_power_of_two() }
}

fn slots_a_chunk(slot_bytes: usize) -> usize {
    (CHUNK_BYTES / slot_bytes).max(1)
}

fn place(slot: u32, slot_bytes: usize) -> (usize, usize) {
    let slots = slots_a_chunk(slot_bytes);
    (slot as usize / slots, slot as usize % slots * slot_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_are_kept_and_their_slots_used_again() {
        let mut texts = Texts::default();
        let lengths = (0..=600).chain([1_024, 1_025, 20_000, 32_768, 32_769, TEXT_BYTES_MAX]);
        let all: Vec<String> = lengths.map(|length| "x".repeat(length)).collect();
        let slots: Vec<u32> = all.iter().map(|text| texts.put(text).expect("room")).collect();
        for (text, &slot) in all.iter().zip(&slots) {
            assert_eq!(texts.bytes(slot, text.len()), text.as_bytes());
        }
        let before = texts.heap_bytes();
        assert!(before >= all.iter().map(String::len).sum(), "{before}");
        all.iter().zip(slots).for_each(|(text, slot)| texts.free(slot, text.len()));
        for text in &all {
            let slot = texts.put(text).expect("room");
            assert_eq!(texts.bytes(slot, text.len()), text.as_bytes());
        }
        assert_eq!(texts.heap_bytes(), before);
    }

    #[test]
    fn a_slot_is_never_shared() {
        let mut texts = Texts::default();
        let mut kept = Vec::new();
        for round in 0..2_000u32 {
            let text = format!("{round:04}/{}", "y".repeat((round % 40) as usize));
            kept.push((texts.put(&text).expect("room"), text));
            if round % 3 == 0 {
                let (slot, text) = kept.swap_remove(round as usize / 3 % kept.len());
                texts.free(slot, text.len());
            }
        }
        for (slot, text) in &kept {
            assert_eq!(texts.bytes(*slot, text.len()), text.as_bytes());
        }
    }
}
