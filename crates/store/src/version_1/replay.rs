//! Reading segments back: what the journal says once all of it has been read.
//!
//! Fed whole segments in the order of their numbers. It knows no file, only bytes, and decides
//! between a torn tail (a bad record of the last segment with no later mark that everything before
//! it was on stable storage) and a corrupt middle. Invariant: an entry whose ticket completed is
//! in the answer unless it is over.

use crate::version_1::entry::{self, Said};
use crate::version_1::record::{self, Kind};
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::journal::Entry;
use model::product::Product;
use model::push::Push;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What has been read so far.
#[derive(Default)]
pub(crate) struct Replay {
    /// Records read.
    pub(crate) records: u64,
    /// The highest push id ever seen.
    pub(crate) last_id: u64,
    waits: HashMap<(ProductKey, DeviceId, MessageId), (u64, Arc<Push>)>,
    products: BTreeMap<ProductKey, Arc<Product>>,
    blocked: BTreeSet<(ProductKey, DeviceId)>,
    pushes: HashMap<MessageId, Arc<Push>>,
}

/// A place in a segment where something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bad {
    pub(crate) offset: usize,
    pub(crate) why: &'static str,
}

impl Replay {
    /// Reads segment `number`. The answer is where its good records end and, for the last segment,
    /// what is wrong with the torn tail behind them.
    pub(crate) fn segment(
        &mut self,
        number: u64,
        bytes: &[u8],
        last: bool,
    ) -> Result<(usize, Option<Bad>), Bad> {
        let mut at = 0;
        let mut bodies = BTreeSet::new();
        // A segment has at least its first record, so nothing at all is torn too.
        while at < bytes.len() || at == 0 {
            let (kind, payload, length) = match record::read(&bytes[at..]) {
                Ok(record) => record,
                Err(why) if last && !record::synced_after(number, bytes, at) => {
                    return Ok((at, Some(Bad { offset: at, why })));
                }
                Err(why) => return Err(Bad { offset: at, why }),
            };
            let step = if at == 0 {
                self.first(number, kind, payload)
            } else {
                self.record(kind, payload, &mut bodies)
            };
            step.map_err(|why| Bad { offset: at, why })?;
            at += length;
            self.records += 1;
        }
        self.pushes.retain(|_, push| Arc::strong_count(push) > 1);
        Ok((at, None))
    }

    /// What is alive: products, blocked devices, and waits in the order in which they began.
    pub(crate) fn entries(self) -> Vec<Entry> {
        let products = self.products.into_values().map(Entry::Product);
        let blocked = self.blocked.into_iter().map(|(product, device)| Entry::Blocked {
            product,
            device,
            blocked: true,
        });
        let mut waits: Vec<_> = self.waits.into_iter().collect();
        waits.sort_unstable_by_key(|(_, (turn, _))| *turn);
        let waits =
            waits.into_iter().map(|((_, device, _), (_, push))| Entry::Waits { push, device });
        products.chain(blocked).chain(waits).collect()
    }

    fn first(&mut self, number: u64, kind: Kind, payload: &[u8]) -> Result<(), &'static str> {
        let said = if kind == Kind::Segment { record::read_segment(payload) } else { None };
        match said {
            Some((record::VERSION, named, last_id)) if named == number => {
                self.last_id = self.last_id.max(last_id);
                Ok(())
            }
            Some((record::VERSION, ..)) => Err("the segment has the number of another one"),
            Some(_) => Err("the segment's version is unknown to this server"),
            None => Err("the file does not begin as a segment"),
        }
    }

    fn record(
        &mut self,
        kind: Kind,
        payload: &[u8],
        bodies: &mut BTreeSet<MessageId>,
    ) -> Result<(), &'static str> {
        if kind == Kind::Synced {
            return Ok(());
        }
        match entry::read(kind, payload).ok_or("a record makes no sense")? {
            Said::Body(push) => {
                self.last_id = self.last_id.max(push.id.0);
                bodies.insert(push.id);
                self.pushes.entry(push.id).or_insert_with(|| Arc::new(push));
            }
            Said::Waits { id, device } => {
                let push = bodies.get(&id).and_then(|id| self.pushes.get(id));
                let push = Arc::clone(push.ok_or("a wait has no body before it")?);
                let key = (push.product.clone(), device, id);
                let turn = self.records;
                self.waits.entry(key).or_insert((turn, push));
            }
            Said::Over { product, device, id } => {
                self.last_id = self.last_id.max(id.0);
                self.waits.remove(&(product, device, id));
            }
            Said::Product(product) => {
                self.products.insert(product.key.clone(), Arc::new(product));
            }
            Said::NoProduct(key) => {
                self.products.remove(&key);
                self.waits.retain(|(product, ..), _| *product != key);
            }
            Said::Blocked { product, device, blocked: true } => {
                self.blocked.insert((product, device));
            }
            Said::Blocked { product, device, blocked: false } => {
                self.blocked.remove(&(product, device));
            }
        }
        Ok(())
    }
}
