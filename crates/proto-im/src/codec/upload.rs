//! Leave to upload a file, as both directions have it (IM 14).

use super::WireFault;
use super::protobuf::{Body, Sink, Value};
use model::media::{UPLOAD_HEADERS_MAX, UploadSlot, UploadWish};

/// `UploadRequest`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UploadFields<'a> {
    /// Number that the answer repeats.
    pub number: u32,
    /// The file's name.
    pub name: &'a str,
    /// Its type; empty: not told.
    pub media_type: &'a str,
    /// Its size.
    pub bytes: u64,
}

/// `UploadSlot`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SlotFields<'a> {
    /// Number of the request.
    pub number: u32,
    /// URL for the upload.
    pub put_url: &'a str,
    /// Headers that the request must have.
    pub headers: Vec<HeaderFields<'a>>,
    /// URL for the download.
    pub get_url: &'a str,
    /// Unix millisecond until which the file may be uploaded.
    pub put_until_ms: u64,
    /// Unix millisecond until which the file is kept.
    pub get_until_ms: u64,
}

/// `UploadHeader`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HeaderFields<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: &'a str,
}

impl<'a> UploadFields<'a> {
    /// Of a wish.
    pub fn of(number: u32, wish: &'a UploadWish) -> UploadFields<'a> {
        UploadFields { number, name: &wish.name, media_type: &wish.media_type, bytes: wish.bytes }
    }

    /// The wish; whether it makes sense is the service's to say, for each no is counted there.
    pub fn wish(&self) -> UploadWish {
        let (name, media_type) = (self.name.into(), self.media_type.into());
        UploadWish { name, media_type, bytes: self.bytes }
    }

    pub(super) fn read(value: Value<'a>) -> Result<UploadFields<'a>, WireFault> {
        let mut it = UploadFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.name = value.text()?,
                3 => it.media_type = value.text()?,
                4 => it.bytes = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for UploadFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.name);
        sink.text(3, self.media_type);
        sink.u64(4, self.bytes);
    }
}

impl<'a> SlotFields<'a> {
    /// Of a slot.
    pub fn of(number: u32, slot: &'a UploadSlot) -> SlotFields<'a> {
        let header = |(name, value): &'a (Box<str>, Box<str>)| HeaderFields { name, value };
        SlotFields {
            number,
            put_url: &slot.put_url,
            headers: slot.headers.iter().map(header).collect(),
            get_url: &slot.get_url,
            put_until_ms: slot.put_until_s.saturating_mul(1_000),
            get_until_ms: slot.get_until_s.saturating_mul(1_000),
        }
    }

    /// The slot.
    pub fn slot(&self) -> UploadSlot {
        let header = |header: &HeaderFields<'_>| (header.name.into(), header.value.into());
        UploadSlot {
            put_url: self.put_url.into(),
            headers: self.headers.iter().take(UPLOAD_HEADERS_MAX).map(header).collect(),
            get_url: self.get_url.into(),
            put_until_s: self.put_until_ms / 1_000,
            get_until_s: self.get_until_ms / 1_000,
        }
    }

    pub(super) fn read(value: Value<'a>) -> Result<SlotFields<'a>, WireFault> {
        let mut it = SlotFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.number = value.u32()?,
                2 => it.put_url = value.text()?,
                3 => it.headers.push(HeaderFields::read(value)?),
                4 => it.get_url = value.text()?,
                5 => it.put_until_ms = value.u64()?,
                6 => it.get_until_ms = value.u64()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for SlotFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.u32(1, self.number);
        sink.text(2, self.put_url);
        self.headers.iter().for_each(|header| sink.body(3, header));
        sink.text(4, self.get_url);
        sink.u64(5, self.put_until_ms);
        sink.u64(6, self.get_until_ms);
    }
}

impl<'a> HeaderFields<'a> {
    fn read(value: Value<'a>) -> Result<HeaderFields<'a>, WireFault> {
        let mut it = HeaderFields::default();
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.name = value.text()?,
                2 => it.value = value.text()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for HeaderFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.name);
        sink.text(2, self.value);
    }
}
