//! Acknowledgements for other servers: up to which stanza of a stream all are taken in (XEP-0198).
//!
//! Stanzas of a stream are taken in by accounts in whatever order these answer. Invariant: a place
//! is acknowledged when it and all before it are taken, answered or refused.

use model::id::ConnRef;
use proto_xmpp::peer::StreamPlace;
use std::collections::{BTreeMap, HashMap};

/// Streams whose stanzas are counted.
#[derive(Default)]
pub(crate) struct CountedStreams {
    streams: HashMap<u64, Counted>,
    /// Streams that must get an acknowledgement.
    news: Vec<u64>,
}

struct Counted {
    conn: ConnRef,
    /// Places behind that up to which all is taken: whether they are.
    open: BTreeMap<u64, bool>,
}

impl CountedStreams {
    /// A stanza comes over a stream. False: behind one that is not taken there are more than so
    /// many.
    pub(crate) fn comes(&mut self, (conn, place): (ConnRef, StreamPlace), most: usize) -> bool {
        let new = || Counted { conn, open: BTreeMap::new() };
        let open = &mut self.streams.entry(place.stream).or_insert_with(new).open;
        open.insert(place.seq, false);
        open.len() <= most
    }

    /// Marks stanzas at these places as taken in.
    pub(crate) fn are_taken(&mut self, places: impl IntoIterator<Item = StreamPlace>) {
        places.into_iter().for_each(|place| self.is_taken(place));
    }

    fn is_taken(&mut self, StreamPlace { stream, seq }: StreamPlace) {
        let Some(Counted { open, .. }) = self.streams.get_mut(&stream) else { return };
        let Some(is_taken) = open.get_mut(&seq) else { return };
        *is_taken = true;
        if open.first_key_value().is_some_and(|(first, _)| *first == seq) {
            self.news.push(stream);
        }
    }

    /// Takes the acknowledgements to send: for each connection, the number of the last stanza up to
    /// which all are taken in.
    pub(crate) fn take_news(&mut self) -> Vec<(ConnRef, u64)> {
        let mut told = Vec::new();
        for number in std::mem::take(&mut self.news) {
            let Some(stream) = self.streams.get_mut(&number) else { continue };
            let mut upto = None;
            while let Some(first) = stream.open.first_entry()
                && *first.get()
            {
                upto = Some(*first.key());
                first.remove();
            }
            told.extend(upto.map(|upto| (stream.conn, upto)));
        }
        told
    }

    /// A stream is over.
    pub(crate) fn ended(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;
    use model::id::ShardId;

    #[test]
    fn a_place_is_told_when_all_before_it_is_taken() {
        let conn = ConnRef::new(ShardId(0), Key { slot: 1, generation: 1 });
        let (mut all, place) = (CountedStreams::default(), |seq| StreamPlace { stream: 7, seq });
        for seq in 1..=4 {
            assert_eq!(all.comes((conn, place(seq)), 3), seq <= 3);
        }
        all.is_taken(place(2));
        all.is_taken(place(3));
        assert_eq!(all.take_news(), []);
        all.is_taken(place(1));
        assert_eq!(all.take_news(), [(conn, 3)]);
        all.is_taken(place(1));
        all.is_taken(place(9));
        all.is_taken(StreamPlace { stream: 8, seq: 1 });
        assert_eq!(all.take_news(), []);
        all.is_taken(place(4));
        all.ended(7);
        assert_eq!(all.take_news(), []);
    }
}
