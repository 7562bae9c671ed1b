//! Readers of a message, the account's setting to share its reads, and delivery receipts (IM 17).

use super::WireFault;
use super::group::address;
use super::protobuf::{Body, Sink, Value};
use model::chat::{
    Adding, DeliveredNews, PrivacyState, PrivacyWish, Reader, ReadersPage, ReadersRange,
};
use model::timeline::Seq;

/// `Readers`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReadersFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// Other side of the conversation, perhaps without a domain.
    pub with: &'a str,
    /// The message of which it is counted who has read it; 0: of none.
    pub seq: Seq,
    /// How many to pass over.
    pub from: u32,
    /// The most it wants.
    pub count: u32,
}

/// `Privacy`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PrivacyFields {
    /// Number that the answer repeats.
    pub number: u32,
    /// Reads to set: 1 shared, 2 private; 0: unchanged.
    pub reads: u32,
    /// Accounts that may add the account to groups: 1 everybody, 2 contacts, 3 nobody; 0:
    /// unchanged.
    pub adding: u32,
}

/// `ReadersPage`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReadersPageFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// Other side of the conversation, with domain.
    pub with: &'a str,
    /// The message.
    pub seq: Seq,
    /// All others.
    pub total: u32,
    /// Number of accounts that have read it.
    pub read: u32,
    /// How many are passed over.
    pub from: u32,
    /// The others.
    pub readers: Vec<ReaderFields<'a>>,
}

/// `Reader`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReaderFields<'a> {
    /// Full address of the reader.
    pub account: &'a str,
    /// Place up to which it has read.
    pub read: Seq,
    /// Place up to which it has received everything.
    pub delivered: Seq,
}

/// `Delivered`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeliveredFields<'a> {
    /// Full address of the account that received it.
    pub with: &'a str,
    /// Place up to which messages are delivered.
    pub upto: Seq,
}

/// The number of a setting on the wire (IM 17.3).
pub const fn reads_number(shares: Option<bool>) -> u32 {
    match shares {
        None => 0,
        Some(true) => 1,
        Some(false) => 2,
    }
}

/// The setting with this number; `None`: there is none.
pub const fn reads_of(number: u32) -> Option<Option<bool>> {
    Some(match number {
        0 => None,
        1 => Some(true),
        2 => Some(false),
        _ => return None,
    })
}

/// The number on the wire of who adds an account to groups (IM 17.3).
pub const fn adding_number(adding: Adding) -> u32 {
    match adding {
        Adding::Everybody => 1,
        Adding::Contacts => 2,
        Adding::Nobody => 3,
    }
}

fn adding_of(number: u32) -> Option<Adding> {
    let all = [Adding::Everybody, Adding::Contacts, Adding::Nobody];
    all.into_iter().find(|it| adding_number(*it) == number)
}

impl<'a> ReadersFields<'a> {
    /// Of what is wanted.
    pub fn of(number: u32, range: &'a ReadersRange) -> ReadersFields<'a> {
        let &ReadersRange { seq, from, count, .. } = range;
        ReadersFields { number, with: range.with.as_str(), seq, from, count: u32::from(count) }
    }

    pub(super) fn read(value: Value<'a>) -> Result<ReadersFields<'a>, WireFault> {
        let mut it = ReadersFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.with = value.text()?,
                3 => it.seq = value.u64()?,
                4 => it.from = value.u32()?,
                5 => it.count = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ReadersFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.with);
        sink.u64(3, self.seq);
        sink.u32(4, self.from);
        sink.u32(5, self.count);
    }
}

impl PrivacyFields {
    pub(super) fn read(value: Value<'_>) -> Result<PrivacyFields, WireFault> {
        let mut it = PrivacyFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.reads = value.u32()?,
                3 => it.adding = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }

    /// Of what is wanted.
    pub fn of(number: u32, wish: PrivacyWish) -> PrivacyFields {
        let PrivacyWish { shares_reads, adding } = wish;
        let adding = adding.map_or(0, adding_number);
        PrivacyFields { number, reads: reads_number(shares_reads), adding }
    }

    /// The wish; `None`: a setting has an unknown number.
    pub fn wish(&self) -> Option<PrivacyWish> {
        let adding = match self.adding {
            0 => None,
            number => Some(adding_of(number)?),
        };
        Some(PrivacyWish { shares_reads: reads_of(self.reads)?, adding })
    }

    /// Fields that report this state.
    pub fn told(number: u32, state: PrivacyState) -> PrivacyFields {
        let PrivacyState { shares_reads, adding } = state;
        let wish = PrivacyWish { shares_reads: Some(shares_reads), adding: Some(adding) };
        PrivacyFields::of(number, wish)
    }

    /// State as a client understands it. A number of a later version must not be taken for sharing,
    /// nor for leave to add the account.
    pub fn state(&self) -> PrivacyState {
        let adding = adding_of(self.adding).unwrap_or(Adding::Nobody);
        PrivacyState { shares_reads: self.reads == 1, adding }
    }
}

impl Body for PrivacyFields {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.u32(2, self.reads);
        sink.u32(3, self.adding);
    }
}

impl<'a> ReadersPageFields<'a> {
    /// Of a page.
    pub fn of(page: &'a ReadersPage) -> ReadersPageFields<'a> {
        let &ReadersPage { number, seq, total, read, from, .. } = page;
        let readers = page.readers.iter().map(|it| ReaderFields {
            account: it.account.as_str(),
            read: it.read,
            delivered: it.delivered,
        });
        let (with, readers) = (page.with.as_str(), readers.collect());
        ReadersPageFields { number, with, seq, total, read, from, readers }
    }

    /// The page, if it can be one.
    pub fn page(&self) -> Result<ReadersPage, WireFault> {
        let &ReadersPageFields { number, seq, total, read, from, .. } = self;
        let reader = |it: &ReaderFields<'_>| {
            let account = address(it.account)?;
            Ok(Reader { account, read: it.read, delivered: it.delivered })
        };
        let readers = self.readers.iter().map(reader).collect::<Result<_, WireFault>>()?;
        let with = address(self.with)?;
        Ok(ReadersPage { number, with, seq, total, read, from, readers })
    }

    pub(super) fn read(value: Value<'a>) -> Result<ReadersPageFields<'a>, WireFault> {
        let mut it = ReadersPageFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.with = value.text()?,
                3 => it.seq = value.u64()?,
                4 => it.total = value.u32()?,
                5 => it.read = value.u32()?,
                6 => it.from = value.u32()?,
                7 => it.readers.push(ReaderFields::read(value)?),
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ReadersPageFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.with);
        sink.u64(3, self.seq);
        sink.u32(4, self.total);
        sink.u32(5, self.read);
        sink.u32(6, self.from);
        self.readers.iter().for_each(|reader| sink.body(7, reader));
    }
}

impl<'a> ReaderFields<'a> {
    fn read(value: Value<'a>) -> Result<ReaderFields<'a>, WireFault> {
        let mut it = ReaderFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.account = value.text()?,
                2 => it.read = value.u64()?,
                3 => it.delivered = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for ReaderFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.account);
        sink.u64(2, self.read);
        sink.u64(3, self.delivered);
    }
}

impl<'a> DeliveredFields<'a> {
    /// Fields of a receipt.
    pub fn of(news: &'a DeliveredNews) -> DeliveredFields<'a> {
        DeliveredFields { with: news.with.as_str(), upto: news.upto }
    }

    /// Decodes the receipt; an error: its fields are invalid.
    pub fn news(&self) -> Result<DeliveredNews, WireFault> {
        Ok(DeliveredNews { with: address(self.with)?, upto: self.upto })
    }

    pub(super) fn read(value: Value<'a>) -> Result<DeliveredFields<'a>, WireFault> {
        let mut it = DeliveredFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.with = value.text()?,
                2 => it.upto = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for DeliveredFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.with);
        sink.u64(2, self.upto);
    }
}
