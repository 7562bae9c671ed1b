//! Search, as both directions have it (IM 16.4).

use super::WireFault;
use super::content::EntryFields;
use super::protobuf::{Body, Sink, Value};
use model::chat::SearchPage;
use model::timeline::Seq;

/// `Search`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SearchFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Text to search for.
    pub text: &'a str,
    /// Other side of the conversation; empty: any.
    pub with: &'a str,
    /// Sender of the messages; empty: any.
    pub from: &'a str,
    /// Earliest time, Unix milliseconds.
    pub since_ms: u64,
    /// Latest time, Unix milliseconds; 0: now.
    pub until_ms: u64,
    /// Place of the inbox to search before; 0: from the newest on.
    pub before: Seq,
    /// The most that are wanted.
    pub count: u32,
}

/// `FoundPage`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FoundFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// Messages with their places in the inbox, the newest first.
    pub found: Vec<EntryFields<'a>>,
    /// Where to go on.
    pub before: Seq,
    /// Whether the inbox has more.
    pub more: bool,
}

impl<'a> SearchFields<'a> {
    pub(super) fn read(value: Value<'a>) -> Result<SearchFields<'a>, WireFault> {
        let mut it = SearchFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.text = value.text()?,
                3 => it.with = value.text()?,
                4 => it.from = value.text()?,
                5 => it.since_ms = value.u64()?,
                6 => it.until_ms = value.u64()?,
                7 => it.before = value.u64()?,
                8 => it.count = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for SearchFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.text);
        sink.text(3, self.with);
        sink.text(4, self.from);
        sink.u64(5, self.since_ms);
        sink.u64(6, self.until_ms);
        sink.u64(7, self.before);
        sink.u32(8, self.count);
    }
}

impl<'a> FoundFields<'a> {
    /// The page, if it can be one.
    pub fn page(&self) -> Result<SearchPage, WireFault> {
        let of = |entry: &EntryFields<'a>| Ok((entry.seq, entry.message.message()?.into()));
        let found = self.found.iter().map(of).collect::<Result<_, WireFault>>()?;
        Ok(SearchPage { number: self.number, found, before: self.before, more: self.more })
    }

    pub(super) fn read(value: Value<'a>) -> Result<FoundFields<'a>, WireFault> {
        let mut it = FoundFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.found.push(EntryFields::read(value)?),
                3 => it.before = value.u64()?,
                4 => it.more = value.bool()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for FoundFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        self.found.iter().for_each(|entry| sink.body(2, entry));
        sink.u64(3, self.before);
        sink.bool(4, self.more);
    }
}
