//! Encoding of an order for other shards: its row of the log, behind its id.

use crate::log::durable::order;
use crate::orders::StoredOrder;
use base::encoding::{DecodeError, Decoder, Encoder, Encoding};
use model::id::MessageId;

impl Encoding for StoredOrder {
    fn encode(&self, to: &mut Encoder) {
        self.id.encode(to);
        to.list(&order::encode(self));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<StoredOrder, DecodeError> {
        let id = MessageId::decode(from)?;
        order::decode(id, from.counted()?).ok_or(DecodeError::Invalid("order"))
    }
}
