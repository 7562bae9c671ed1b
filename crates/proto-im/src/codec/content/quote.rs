//! References of a message to others, as both directions have them (IM 16.5, 16.6).

use crate::codec::WireFault;
use crate::codec::group::address;
use crate::codec::protobuf::{Body, Sink, Value};
use model::account::Addressee;
use model::chat::{Mentions, Quote, TargetMessage};
use model::timeline::Seq;

/// `Quote`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuoteFields<'a> {
    /// The place of what is quoted in the conversation.
    pub seq: Seq,
    /// The server's number for it.
    pub id: u64,
    /// Full address of the quoted message's sender; a client leaves it out.
    pub from: &'a str,
    /// The beginning of its text, in a live delivery.
    pub text: &'a str,
}

impl<'a> QuoteFields<'a> {
    /// Of a quote.
    pub fn of(quote: &'a Quote) -> QuoteFields<'a> {
        let Quote { target: TargetMessage { seq, id, .. }, from, text } = quote;
        let from = from.as_ref().map_or("", |from| from.as_str());
        QuoteFields { seq: *seq, id: *id, from, text }
    }

    /// The quote that a client asks for; the server adds sender and text.
    pub fn asked(&self) -> Quote {
        Quote::of(self.seq, self.id)
    }

    /// The quote, if it can be one.
    pub fn quote(&self) -> Result<Quote, WireFault> {
        let from = if self.from.is_empty() { None } else { Some(address(self.from)?) };
        Ok(Quote { from, text: self.text.into(), ..self.asked() })
    }

    pub(super) fn read(value: Value<'a>) -> Result<QuoteFields<'a>, WireFault> {
        let mut it = QuoteFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.seq = value.u64()?,
                2 => it.id = value.fixed64()?,
                3 => it.from = value.text()?,
                4 => it.text = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for QuoteFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u64(1, self.seq);
        sink.fixed64(2, self.id);
        sink.text(3, self.from);
        sink.text(4, self.text);
    }
}

/// Accounts that a message mentions; `None`: one of these is no address.
pub(super) fn mentions_of(names: &[&str], everybody: bool) -> Option<Option<Box<Mentions>>> {
    let accounts = names.iter().map(|name| Addressee::parse(name).ok()).collect::<Option<_>>()?;
    Some(Mentions::of(accounts, everybody))
}
