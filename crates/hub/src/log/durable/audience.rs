//! An audience among the bytes of an order's row, and the row of a saved segment.
//!
//! ```text
//!  audience:    flags (1), the user, the expression over tags, the devices, the exceptions
//!  expression:  0 tag | 1 count (1) parts | 2 count (1) parts | 3 part        tag, and, or, not
//!  devices:     count (4, little endian), names
//! ```
//! A segment is written as its expression. Its row has the key slot, product, 0xff, name.

use super::bytes::{self, text};
use base::bytes::ByteReader;
use model::audience::{Audience, DeviceList, DeviceListDraft, TagExpression};
use model::id::{DeviceUser, ProductKey, SegmentName};
use model::ports::log::RowHome;

const VERSION: u8 = 1;

const TAGS: u8 = 1;
const DEVICES: u8 = 2;
const EXCEPT: u8 = 4;
const USER: u8 = 8;

/// Levels of an expression that are read: a segment stands in another expression.
const DEPTH_MAX: usize = 2 * TagExpression::DEPTH_MAX;

/// Appends an audience whose segments are resolved.
pub(super) fn put(audience: &Audience, out: &mut Vec<u8>) {
    let Audience { user, tags, devices, except } = audience;
    let lists = [(devices, DEVICES), (except, EXCEPT)];
    let flags = lists.iter().filter(|(list, _)| list.is_some()).map(|(_, flag)| flag);
    let flags = flags.sum::<u8>() | if tags.is_some() { TAGS } else { 0 };
    out.push(flags | if user.is_some() { USER } else { 0 });
    if let Some(user) = user {
        text(user.as_str(), out);
    }
    if let Some(tags) = tags {
        put_tags(tags, out);
    }
    for list in [devices, except].into_iter().flatten() {
        let count = u32::try_from(list.len()).expect("audience_devices_max bounds them");
        out.extend_from_slice(&count.to_le_bytes());
        list.iter().for_each(|device| text(device, out));
    }
}

/// Takes an audience.
pub(super) fn take(from: &mut ByteReader<'_>) -> Option<Audience> {
    let flags = from.flags(TAGS | DEVICES | EXCEPT | USER)?;
    let has_user = flags & USER != 0;
    let user = if has_user { Some(DeviceUser::parse(from.short_text()?)?) } else { None };
    let tags = if flags & TAGS != 0 { Some(take_tags(from, DEPTH_MAX)?) } else { None };
    let devices = if flags & DEVICES != 0 { Some(take_devices(from)?) } else { None };
    let except = if flags & EXCEPT != 0 { Some(take_devices(from)?) } else { None };
    Some(Audience { user, tags, devices, except })
}

fn take_devices(from: &mut ByteReader<'_>) -> Option<DeviceList> {
    let (count, mut names) = (from.u32()?, DeviceListDraft::default());
    for _ in 0..count {
        names.add(from.short_text()?).ok()?;
    }
    Some(names.list())
}

fn put_tags(tags: &TagExpression, out: &mut Vec<u8>) {
    let (kind, parts) = match tags {
        TagExpression::Tag(tag) => {
            out.push(0);
            return text(tag.as_str(), out);
        }
        TagExpression::Segment(_, tags) => {
            let tags = tags.as_ref().expect("an audience is resolved before it is ordered");
            return put_tags(tags, out);
        }
        TagExpression::Not(tags) => {
            out.push(3);
            return put_tags(tags, out);
        }
        TagExpression::And(parts) => (1, parts),
        TagExpression::Or(parts) => (2, parts),
    };
    out.extend([kind, u8::try_from(parts.len()).expect("TERMS_MAX bounds them")]);
    parts.iter().for_each(|tags| put_tags(tags, out));
}

fn take_tags(from: &mut ByteReader<'_>, depth: usize) -> Option<TagExpression> {
    let depth = depth.checked_sub(1)?;
    let parts = |from: &mut ByteReader<'_>| {
        let count = from.byte()?;
        (0..count).map(|_| take_tags(from, depth)).collect::<Option<Vec<_>>>()
    };
    match from.byte()? {
        0 => bytes::tag(from).map(TagExpression::Tag),
        1 => parts(from).map(TagExpression::And),
        2 => parts(from).map(TagExpression::Or),
        3 => Some(TagExpression::Not(Box::new(take_tags(from, depth)?))),
        _ => None,
    }
}

/// The key of a segment's row.
pub(crate) fn key(product: &ProductKey, segment: &SegmentName) -> Box<[u8]> {
    let (product, segment) = (product.as_str().as_bytes(), segment.as_str().as_bytes());
    RowHome::PROCESS.key(&[product, &[0xff], segment])
}

/// The names in the key of a segment's row.
pub(crate) fn names(key: &[u8]) -> Option<(ProductKey, SegmentName)> {
    let key = RowHome::rest(key)?;
    let at = key.iter().position(|&byte| byte == 0xff)?;
    let product = ProductKey::from_bytes(&key[..at]).ok()?;
    Some((product, SegmentName::from_bytes(&key[at + 1..]).ok()?))
}

/// The value of a segment's row.
pub(crate) fn encode(tags: &TagExpression) -> Box<[u8]> {
    let mut out = vec![VERSION];
    put_tags(tags, &mut out);
    out.into()
}

/// Decodes the value of a segment's row.
pub(crate) fn decode(value: &[u8]) -> Option<TagExpression> {
    let mut from = ByteReader::of(VERSION, value)?;
    let tags = take_tags(&mut from, DEPTH_MAX)?;
    from.ends(tags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::Tag;

    #[test]
    fn a_segment_comes_back_as_it_went() {
        let tag = |name| TagExpression::Tag(Tag::parse(name).expect("a name"));
        let not = TagExpression::Not(Box::new(tag("c")));
        let or = TagExpression::Or(vec![tag("a"), tag("b"), not]);
        let tags = TagExpression::And(vec![or, tag("d")]);
        assert_eq!(decode(&encode(&tags)), Some(tags.clone()));
        super::super::refuses_every_cut(&encode(&tags), decode);
        let [product, segment] = ["shop", "vip"];
        let product = ProductKey::parse(product).expect("a name");
        let segment = SegmentName::parse(segment).expect("a name");
        assert_eq!(names(&key(&product, &segment)), Some((product, segment)));
        assert_eq!(names(&RowHome::PROCESS.key(&[b"shop"])), None);
        let deep = (0..64).fold(tag("a"), |tags, _| TagExpression::Not(Box::new(tags)));
        assert_eq!(decode(&encode(&deep)), None, "too deep to be ours");
    }
}
