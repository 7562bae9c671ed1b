//! A client of bare TCP: it is there once it is connected, and counts what comes back.
//!
//! A request is bytes; its answer is as many. Bytes that come without an open request are a
//! message.

use model::close::CloseReason;
use model::machine::{Input, Outbox};
use model::ports::virtual_client::{DeliveryClaim, HEAD_BYTES, Observation};
use std::collections::VecDeque;

/// One connection.
#[derive(Default)]
pub(crate) struct Client {
    asked: Option<Box<Asked>>,
}

/// Requests without their whole answer.
#[derive(Default)]
struct Asked {
    /// Bytes that are still to come for each, the oldest first.
    due: VecDeque<usize>,
    /// Number of the oldest.
    oldest: u32,
}

type Out = Outbox<Observation>;

impl Client {
    pub(super) fn opened(&mut self, out: &mut Out) -> Result<(), CloseReason> {
        out.say(Observation::Bound { resumed: false, heartbeat_s: 0, offline_count: 0 });
        Ok(())
    }

    pub(super) fn ask(&mut self, bytes: &[u8], out: &mut Out) {
        let asked = self.asked.get_or_insert_default();
        asked.due.push_back(bytes.len());
        out.bytes().extend_from_slice(bytes);
    }

    pub(super) fn receive(
        &mut self,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        let count = input.rest().len();
        input.take(count);
        let mut left = count;
        while let Some(asked) = &mut self.asked
            && let Some(due) = asked.due.front_mut()
            && left > 0
        {
            let taken = left.min(*due);
            (*due, left) = (*due - taken, left - taken);
            if *due == 0 {
                asked.due.pop_front();
                asked.oldest += 1;
                out.say(Observation::Taken { seq: asked.oldest });
            }
        }
        if left > 0 {
            // Bytes that nobody asked for have no front that means anything.
            let bytes = u32::try_from(left).unwrap_or(u32::MAX);
            let (head, claim) = ([0; HEAD_BYTES], DeliveryClaim::Nothing);
            out.say(Observation::Heard { bytes, head, rest: 0, again: false, claim });
        }
        Ok(())
    }

    /// The connection has ended: the next one begins with nothing asked.
    pub(super) fn closed(&mut self) {
        self.asked = None;
    }
}
