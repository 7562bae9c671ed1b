//! Encoding of an order for other shards: its row of the log, behind its id.

use crate::log::durable::order::{self, Change, ChangeKind, Named, Ordered, PushToMany};
use crate::orders::StoredOrder;
use base::encoding::sample::{Sample, SampleSource};
use base::encoding::{DecodeError, Decoder, Encoder, Encoding};
use model::id::{MessageId, ProductKey};
use model::ports::pushes::PushTarget;
use model::push::{Priority, Push};
use std::sync::Arc;

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

impl Sample for StoredOrder {
    fn kinds(_: u8) -> usize {
        2
    }

    fn sample(kind: usize, from: &mut SampleSource) -> StoredOrder {
        let (id, at_s, home): (MessageId, u32, u64) = from.part(0);
        let product: ProductKey = from.part(0);
        let what = match kind {
            0 => {
                let (app_id, expire_at) = from.part(0);
                let (body, collapse) = (b"body".as_slice().into(), Some("collapse".into()));
                let (priority, silent, notifies) = (Priority::High, true, true);
                let push = Push {
                    id,
                    product,
                    app_id,
                    body,
                    collapse,
                    expire_at,
                    priority,
                    silent,
                    notifies,
                };
                let (target, receipts) = (PushTarget::Product, true);
                Ordered::Push(PushToMany {
                    push: Arc::new(push),
                    target,
                    receipts,
                    track: true,
                    send_at_ms: None,
                    local: None,
                    devices_per_s: Some(from.part(0)),
                })
            }
            _ => {
                let (kind, push) = (ChangeKind::Pause, from.part(0));
                Ordered::Change(Change { kind, push, product: Some(product) })
            }
        };
        let named = Some(Named { key: from.part(0), content: from.part(0) });
        StoredOrder { id, at_s, home, named, what }
    }
}
