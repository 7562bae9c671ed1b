//! Audiences: which devices of a product a push is for.
//!
//! An audience knows no devices. Whoever has them asks it about each: by its name, and by its tags.
//! Saved segments are expressions that have a name; they are put in ([`Audience::resolve`]) when a
//! push is ordered, so a later change of a segment does not change the push.

use crate::id::{DeviceId, DeviceUser, NameError, SegmentName, Tag};
use std::sync::Arc;

/// Devices of a product: those that satisfy everything that is present.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audience {
    /// Only devices that belong to this user.
    pub user: Option<DeviceUser>,
    /// Only devices whose tags satisfy this.
    pub tags: Option<TagExpression>,
    /// Only these devices, known or not.
    pub devices: Option<DeviceList>,
    /// Not these devices.
    pub except: Option<DeviceList>,
}

/// An expression over the tags of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TagExpression {
    /// The device has this tag.
    Tag(Tag),
    /// The device is in this saved segment. The expression of the segment is absent until the
    /// audience is [resolved](Audience::resolve).
    Segment(SegmentName, Option<Arc<TagExpression>>),
    /// All of these hold. At least one.
    And(Vec<TagExpression>),
    /// One of these holds. At least one.
    Or(Vec<TagExpression>),
    /// This does not hold.
    Not(Box<TagExpression>),
}

impl TagExpression {
    /// Most levels of an expression: a tag alone has one. A segment counts as one.
    pub const DEPTH_MAX: usize = 8;

    /// Most tags and segments in an expression. Those within a segment do not count.
    pub const TERMS_MAX: usize = 64;

    /// Most tags in an expression together with those of its segments.
    pub const RESOLVED_TERMS_MAX: usize = 256;

    /// Whether a device with these tags satisfies the expression.
    pub fn holds(&self, has: &impl Fn(&Tag) -> bool) -> bool {
        match self {
            TagExpression::Tag(tag) => has(tag),
            TagExpression::Segment(_, tags) => tags.as_ref().is_some_and(|tags| tags.holds(has)),
            TagExpression::And(all) => all.iter().all(|tags| tags.holds(has)),
            TagExpression::Or(any) => any.iter().any(|tags| tags.holds(has)),
            TagExpression::Not(tags) => !tags.holds(has),
        }
    }

    /// Tags of which every device that satisfies the expression has at least one; `None` if the
    /// expression needs no tag. They need not be distinct.
    pub fn needed(&self) -> Option<Vec<&Tag>> {
        match self {
            TagExpression::Tag(tag) => Some(vec![tag]),
            TagExpression::Segment(_, tags) => tags.as_ref()?.needed(),
            TagExpression::And(all) => {
                all.iter().filter_map(TagExpression::needed).min_by_key(Vec::len)
            }
            TagExpression::Or(any) => {
                let each = any.iter().map(TagExpression::needed).collect::<Option<Vec<_>>>()?;
                Some(each.concat())
            }
            TagExpression::Not(_) => None,
        }
    }

    /// Number of tags and segments; a resolved segment counts as the tags within it.
    pub fn terms(&self) -> usize {
        match self {
            TagExpression::Tag(_) | TagExpression::Segment(_, None) => 1,
            TagExpression::Segment(_, Some(tags)) => tags.terms(),
            TagExpression::And(parts) | TagExpression::Or(parts) => {
                parts.iter().map(TagExpression::terms).sum()
            }
            TagExpression::Not(tags) => tags.terms(),
        }
    }

    /// The segments that the expression names itself.
    pub fn segments(&self) -> Vec<&SegmentName> {
        match self {
            TagExpression::Tag(_) => Vec::new(),
            TagExpression::Segment(name, _) => vec![name],
            TagExpression::And(parts) | TagExpression::Or(parts) => {
                parts.iter().flat_map(TagExpression::segments).collect()
            }
            TagExpression::Not(tags) => tags.segments(),
        }
    }

    /// A segment whose expression is not put in, if the expression names one.
    fn unresolved(&self) -> Option<&SegmentName> {
        match self {
            TagExpression::Tag(_) | TagExpression::Segment(_, Some(_)) => None,
            TagExpression::Segment(name, None) => Some(name),
            TagExpression::And(parts) | TagExpression::Or(parts) => {
                parts.iter().find_map(TagExpression::unresolved)
            }
            TagExpression::Not(tags) => tags.unresolved(),
        }
    }

    /// Puts in the expressions of saved segments; the first name that is unknown is the error.
    fn put_in(
        &mut self,
        saved: &impl Fn(&SegmentName) -> Option<Arc<TagExpression>>,
    ) -> Result<(), SegmentName> {
        match self {
            TagExpression::Tag(_) => Ok(()),
            TagExpression::Segment(name, tags) => {
                *tags = Some(saved(name).ok_or_else(|| name.clone())?);
                Ok(())
            }
            TagExpression::And(parts) | TagExpression::Or(parts) => {
                parts.iter_mut().try_for_each(|tags| tags.put_in(saved))
            }
            TagExpression::Not(tags) => tags.put_in(saved),
        }
    }
}

impl Audience {
    /// The audience of these devices.
    pub fn named(devices: &[DeviceId]) -> Audience {
        let mut names = DeviceListDraft::default();
        devices.iter().for_each(|device| names.put(device.as_str()));
        Audience { devices: Some(names.list()), ..Audience::default() }
    }

    /// Whether a device with this name, of this user and with these tags belongs to the audience.
    pub fn has(
        &self,
        device: &str,
        user: impl FnOnce() -> Option<DeviceUser>,
        has: &impl Fn(&Tag) -> bool,
    ) -> bool {
        self.user.as_ref().is_none_or(|of| user().as_ref() == Some(of))
            && self.tags.as_ref().is_none_or(|tags| tags.holds(has))
            && self.devices.as_ref().is_none_or(|devices| devices.has(device))
            && !self.except.as_ref().is_some_and(|except| except.has(device))
    }

    /// Memory of its lists, bytes.
    pub fn list_bytes(&self) -> u64 {
        [&self.devices, &self.except].into_iter().flatten().map(DeviceList::bytes).sum()
    }

    /// The audience with only those names in its lists for which this holds.
    pub fn only(&self, is_kept: impl Fn(&str) -> bool) -> Audience {
        let only = |list: &Option<DeviceList>| list.as_ref().map(|list| list.only(&is_kept));
        let (devices, except) = (only(&self.devices), only(&self.except));
        Audience { user: self.user.clone(), tags: self.tags.clone(), devices, except }
    }

    /// The saved segments that the audience names.
    pub fn segments(&self) -> Vec<&SegmentName> {
        self.tags.as_ref().map(TagExpression::segments).unwrap_or_default()
    }

    /// A segment whose expression is not put in, if the audience names one.
    pub fn unresolved(&self) -> Option<&SegmentName> {
        self.tags.as_ref().and_then(TagExpression::unresolved)
    }

    /// Puts in the expressions of saved segments.
    pub fn resolve(
        &mut self,
        saved: &impl Fn(&SegmentName) -> Option<Arc<TagExpression>>,
    ) -> Result<(), Unresolved> {
        let Some(tags) = &mut self.tags else { return Ok(()) };
        tags.put_in(saved).map_err(Unresolved::Unknown)?;
        match tags.terms() {
            terms if terms > TagExpression::RESOLVED_TERMS_MAX => Err(Unresolved::TooLarge(terms)),
            _ => Ok(()),
        }
    }
}

/// Why the segments of an audience cannot be put in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unresolved {
    /// No segment has this name.
    Unknown(SegmentName),
    /// The expression would have so many tags: more than [`TagExpression::RESOLVED_TERMS_MAX`].
    TooLarge(usize),
}

/// Names of devices, sorted, each once: some bytes of memory a name beside the name itself. A clone
/// shares them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceList(Arc<Names>);

#[derive(PartialEq, Eq, Debug)]
struct Names {
    /// The names, one after the other.
    text: Box<str>,
    /// Where each name ends.
    ends: Box<[u32]>,
}

impl DeviceList {
    /// Most names of a list, whatever the limits are.
    pub const NAMES_MAX: usize = 4_000_000;

    /// Number of devices.
    pub fn len(&self) -> usize {
        self.0.ends.len()
    }

    /// Memory of the list, bytes.
    pub fn bytes(&self) -> u64 {
        (self.0.text.len() + size_of_val(&*self.0.ends)) as u64
    }

    /// The list with only those names for which this holds.
    fn only(&self, is_kept: impl Fn(&str) -> bool) -> DeviceList {
        let mut names = DeviceListDraft::default();
        self.iter().filter(|name| is_kept(name)).for_each(|name| names.put(name));
        names.list()
    }

    /// Whether the list names no device.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name at a place in the list.
    pub fn at(&self, place: usize) -> Option<&str> {
        let end = *self.0.ends.get(place)? as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.0.ends[before] as usize);
        Some(&self.0.text[start..end])
    }

    /// The place of a name in the list.
    pub fn place(&self, device: &str) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.at(middle)?.cmp(device) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Whether the list names a device.
    pub fn has(&self, device: &str) -> bool {
        self.place(device).is_some()
    }

    /// The names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|place| self.at(place))
    }

    /// The names without separators, which tell a list from another only together with their
    /// lengths.
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

/// A list of devices in the making.
#[derive(Default)]
pub struct DeviceListDraft {
    text: String,
    ends: Vec<u32>,
}

impl DeviceListDraft {
    /// Adds a name from outside, which may be there already.
    pub fn add(&mut self, device: &str) -> Result<(), NameError> {
        DeviceId::check(device)?;
        self.put(device);
        Ok(())
    }

    fn put(&mut self, device: &str) {
        self.text.push_str(device);
        let end = u32::try_from(self.text.len()).expect("NAMES_MAX names of 64 bytes");
        self.ends.push(end);
    }

    /// The names so far, as they came.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.text[start as usize..end as usize])
    }

    /// Number of names so far; those that occur twice count twice.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no name yet.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The list of these names.
    pub fn list(self) -> DeviceList {
        let mut names: Vec<&str> = self.iter().collect();
        names.sort_unstable();
        names.dedup();
        let text: String = names.concat();
        let mut end = 0;
        let ends = names.iter().map(|name| {
            end += name.len() as u32;
            end
        });
        DeviceList(Arc::new(Names { ends: ends.collect(), text: text.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(name: &str) -> TagExpression {
        TagExpression::Tag(Tag::parse(name).expect("a name"))
    }

    fn segment(name: &str) -> TagExpression {
        TagExpression::Segment(SegmentName::parse(name).expect("a name"), None)
    }

    fn not(tags: TagExpression) -> TagExpression {
        TagExpression::Not(Box::new(tags))
    }

    fn list(names: &[&str]) -> DeviceList {
        let mut made = DeviceListDraft::default();
        names.iter().for_each(|name| made.add(name).expect("a name"));
        made.list()
    }

    fn holds(tags: &TagExpression, of: &str) -> bool {
        tags.holds(&|tag: &Tag| of.contains(tag.as_str()))
    }

    #[test]
    fn an_expression_holds_for_the_tags_that_it_says() {
        let tags = TagExpression::And(vec![
            TagExpression::Or(vec![tag("a"), tag("b")]),
            not(TagExpression::And(vec![tag("c"), tag("d")])),
        ]);
        for (of, expected) in
            [("a", true), ("bc", true), ("acd", false), ("cd", false), ("", false)]
        {
            assert_eq!(holds(&tags, of), expected, "{of}");
        }
        assert!(holds(&not(tag("a")), "b") && !holds(&not(tag("a")), "a"));
    }

    #[test]
    fn every_device_that_satisfies_an_expression_has_a_tag_that_it_needs() {
        let and = |parts| TagExpression::And(parts);
        let or = |parts| TagExpression::Or(parts);
        let cases = [
            (tag("a"), Some("a")),
            (not(tag("a")), None),
            (and(vec![or(vec![tag("a"), tag("b")]), tag("c"), not(tag("d"))]), Some("c")),
            (or(vec![tag("a"), and(vec![not(tag("b")), tag("c")])]), Some("ac")),
            (or(vec![tag("a"), not(tag("b"))]), None),
        ];
        for (tags, needed) in cases {
            let told = tags.needed().map(|all| all.iter().map(|tag| tag.as_str()).collect());
            assert_eq!(told, needed.map(str::to_owned));
            for bits in 0..16_u32 {
                let of: String =
                    "abcd".chars().filter(|c| bits >> (*c as u32 - 97) & 1 > 0).collect();
                let is_needed = needed.is_none_or(|all| all.chars().any(|tag| of.contains(tag)));
                assert!(!holds(&tags, &of) || is_needed, "{tags:?} {of}");
            }
        }
    }

    #[test]
    fn a_segment_is_what_was_saved_under_its_name() {
        let mut audience = Audience {
            tags: Some(TagExpression::And(vec![segment("vip"), not(segment("muted"))])),
            ..Audience::default()
        };
        assert_eq!(audience.segments().len(), 2);
        assert_eq!(audience.unresolved().map(SegmentName::as_str), Some("vip"));
        let has = |tag: &Tag| tag.as_str() == "gold";
        assert!(!audience.has("d", || None, &has), "nothing is resolved yet");
        let only = |name: &SegmentName| (name.as_str() == "vip").then(|| Arc::new(tag("gold")));
        let muted = SegmentName::parse("muted").expect("a name");
        assert_eq!(audience.resolve(&only), Err(Unresolved::Unknown(muted)));
        let both = |name: &SegmentName| {
            Some(Arc::new(tag(if name.as_str() == "vip" { "gold" } else { "m" })))
        };
        assert_eq!(audience.resolve(&both), Ok(()));
        assert_eq!((audience.unresolved(), audience.segments().len()), (None, 2));
        assert!(audience.has("d", || None, &has) && !audience.has("d", || None, &|_| true));
        let of = |count| Some(Arc::new(TagExpression::Or(vec![tag("a"); count])));
        let max = TagExpression::RESOLVED_TERMS_MAX;
        assert_eq!(audience.resolve(&|_| of(max / 2)), Ok(()));
        let too_large = Err(Unresolved::TooLarge(max + 2));
        assert_eq!(audience.resolve(&|_| of(max / 2 + 1)), too_large);
    }

    #[test]
    fn a_list_has_each_name_once_and_finds_it() {
        let devices = list(&["b", "a", "abc", "b", "c"]);
        assert_eq!(devices.iter().collect::<Vec<_>>(), ["a", "abc", "b", "c"]);
        let places = ["a", "abc", "b", "c", "ab", "d", ""].map(|name| devices.place(name));
        assert_eq!(places, [Some(0), Some(1), Some(2), Some(3), None, None, None]);
        assert_eq!((devices.at(4), devices.text()), (None, "aabcbc"));
        assert_eq!(devices.bytes(), 6 + 4 * 4);
        assert!(list(&[]).is_empty() && DeviceListDraft::default().add("no blank").is_err());
        let audience = Audience {
            devices: Some(devices.clone()),
            except: Some(list(&["b"])),
            ..Audience::default()
        };
        assert!(audience.has("a", || None, &|_| false) && !audience.has("b", || None, &|_| false));
        let of = Audience { user: DeviceUser::parse("ann"), ..Audience::default() };
        assert!(of.has("x", || DeviceUser::parse("ann"), &|_| false));
        assert!(!of.has("x", || DeviceUser::parse("bob"), &|_| false));
        assert!(
            !audience.has("x", || None, &|_| false)
                && Audience::default().has("x", || None, &|_| false)
        );
    }
}
