//! Audiences and segments as they are written, checked into the model's words.
//!
//! An expression over tags is a tag, or an object with one of `and`, `or`, `not` and `segment`.
//! Expressions and lists are read piece by piece, up to their limits, so a large body takes no more
//! memory than its text; a fault names its place and what is allowed there.

use crate::fault::Fault;
use crate::texts::{DeviceName, DeviceUserName, SegmentText, TagName};
use model::audience::{Audience, DeviceList, DeviceListDraft, TagExpression};
use model::id::{DeviceId, DeviceUser, SegmentName, Tag};
use model::limits::Limits;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::{self, Formatter};

/// Devices that satisfy everything that is given; all devices of the product if nothing is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Audience")]
pub(crate) struct AudienceBody {
    /// Only devices that belong to this user.
    #[schemars(with = "Option<DeviceUserName>")]
    user: Option<String>,
    /// Only devices whose tags satisfy this: at most 8 levels, and 64 tags and segments.
    tags: Option<Expression>,
    /// Only these devices, known or not; at most audience_devices_max (1,000,000).
    #[schemars(with = "Option<Vec<DeviceName>>", length(min = 1))]
    devices: Option<NamedDevices>,
    /// Not these devices; as many at most.
    #[schemars(with = "Option<Vec<DeviceName>>", length(min = 1))]
    except: Option<NamedDevices>,
}

/// An expression over the tags of a device, within its limits: nothing beyond them is read.
pub(crate) struct Expression(pub(crate) TagExpression);

impl JsonSchema for Expression {
    fn schema_name() -> Cow<'static, str> {
        "TagExpression".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let operation = generator.subschema_for::<Operation<true>>();
        tag_or(generator, &operation)
    }
}

/// The schema of a segment's expression, which names no segments.
pub(crate) enum SegmentExpression {}

impl JsonSchema for SegmentExpression {
    fn schema_name() -> Cow<'static, str> {
        "SegmentExpression".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let operation = generator.subschema_for::<Operation<false>>();
        tag_or(generator, &operation)
    }
}

fn tag_or(generator: &mut SchemaGenerator, operation: &Schema) -> Schema {
    let told = "A tag, or an operation on expressions.";
    json_schema!({ "description": told, "anyOf": [TagName::json_schema(generator), operation] })
}

/// The schema of an operation on expressions, with or without segments. It is an object of its own,
/// because generators of clients follow only objects that contain each other.
enum Operation<const SEGMENTS: bool> {}

impl<const SEGMENTS: bool> JsonSchema for Operation<SEGMENTS> {
    fn schema_name() -> Cow<'static, str> {
        if SEGMENTS { "TagOperation".into() } else { "SegmentOperation".into() }
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let part = match SEGMENTS {
            true => generator.subschema_for::<Expression>(),
            false => generator.subschema_for::<SegmentExpression>(),
        };
        let parts =
            |told| json!({ "description": told, "type": "array", "minItems": 1, "items": part });
        let mut fields = json!({
            "and": parts("All of these hold."),
            "or": parts("One of these holds."),
            "not": { "description": "This does not hold.", "anyOf": [part] },
        });
        if SEGMENTS {
            let mut name = SegmentText::json_schema(generator).to_value();
            name["description"] = json!("The device is in this saved segment.");
            fields["segment"] = name;
        }
        json_schema!({
            "description": "One of these fields.", "type": "object", "properties": fields,
            "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
        })
    }
}

/// A segment as it is saved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SegmentOrder")]
pub(crate) struct SegmentBody {
    /// The tags of the segment's devices: at most 8 levels, and 64 tags. No segments.
    #[schemars(with = "SegmentExpression")]
    tags: Expression,
}

/// To whom a device is given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeviceUserOrder")]
pub(crate) struct DeviceUserBody {
    /// The user: the app's own name for a person, or an account of chat.
    #[schemars(with = "DeviceUserName")]
    pub(crate) user: String,
}

/// Names of devices, read without a string for each, and no more than a list may ever have.
pub(crate) struct NamedDevices(DeviceListDraft);

impl<'de> Deserialize<'de> for NamedDevices {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<NamedDevices, D::Error> {
        from.deserialize_seq(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = NamedDevices;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names of devices")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<NamedDevices, A::Error> {
        let (mut names, max) = (DeviceListDraft::default(), DeviceList::NAMES_MAX);
        while from.next_element_seed(NameInto(&mut names))?.is_some() {
            if names.len() > max {
                return Err(A::Error::custom(format!("a list has {max} names at most")));
            }
        }
        Ok(NamedDevices(names))
    }
}

/// Reads a name into a list.
struct NameInto<'a>(&'a mut DeviceListDraft);

impl<'de> DeserializeSeed<'de> for NameInto<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NameInto<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        self.0.add(name).map_err(|why| E::custom(format!("the name of a device {why}")))
    }
}

impl NamedDevices {
    fn list(self, field: &str, limits: &Limits) -> Result<DeviceList, Fault> {
        let (count, max) = (self.0.len(), limits.pushes.audience_devices_max as usize);
        match (1..=max).contains(&count) {
            true => Ok(self.0.list()),
            false => Err(Fault::bad(format!(
                "`{field}` has {count} names; [limits] audience_devices_max allows 1 to {max}"
            ))),
        }
    }

    /// The devices of a short list, each as often as it was named.
    pub(crate) fn devices(&self, limits: &Limits) -> Result<Vec<DeviceId>, Fault> {
        let max = limits.pushes.push_devices_max as usize;
        match (1..=max).contains(&self.0.len()) {
            true => self.0.iter().map(super::device).collect(),
            false => Err(Fault::bad(format!("`devices` must have 1 to {max} names"))),
        }
    }
}

impl AudienceBody {
    /// The audience, within its limits.
    pub(crate) fn audience(self, limits: &Limits) -> Result<Audience, Fault> {
        let AudienceBody { user, tags, devices, except } = self;
        let user = user.map(|name| device_user(&name)).transpose()?;
        let tags = tags.map(|tags| tags.0);
        let list = |names: Option<NamedDevices>, field| {
            names.map(|names| names.list(field, limits)).transpose()
        };
        let devices = list(devices, "audience.devices")?;
        let except = list(except, "audience.except")?;
        Ok(Audience { user, tags, devices, except })
    }
}

impl SegmentBody {
    /// The expression, within its limits.
    pub(crate) fn tags(self) -> Result<TagExpression, Fault> {
        match self.tags.0.segments().is_empty() {
            true => Ok(self.tags.0),
            false => {
                Err(Fault::bad("`tags` of a segment must not name segments: repeat their tags"))
            }
        }
    }
}

/// The name of a segment.
pub(crate) fn segment(text: &str) -> Result<SegmentName, Fault> {
    SegmentName::parse(text).map_err(|error| Fault::bad(format!("the name of the segment {error}")))
}

/// The name of the user of a device.
pub(crate) fn device_user(text: &str) -> Result<DeviceUser, Fault> {
    let max = DeviceUser::BYTES_MAX;
    let why =
        || Fault::bad(format!("the name of a user must have 1 to {max} bytes without controls"));
    DeviceUser::parse(text).ok_or_else(why)
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Expression, D::Error> {
        let mut terms = 0;
        let whole = Part { levels: TagExpression::DEPTH_MAX, terms: &mut terms };
        whole.deserialize(from).map(Expression)
    }
}

/// Reads a part of an expression.
struct Part<'a> {
    /// Levels that it may have.
    levels: usize,
    /// Tags and segments of the whole expression so far.
    terms: &'a mut usize,
}

impl Part<'_> {
    /// Counts a tag or a segment.
    fn term<E: Error>(&mut self) -> Result<(), E> {
        let max = TagExpression::TERMS_MAX;
        if *self.terms == max {
            return Err(E::custom(format!("an expression has {max} tags and segments at most")));
        }
        *self.terms += 1;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = TagExpression;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<TagExpression, D::Error> {
        if self.levels == 0 {
            let max = TagExpression::DEPTH_MAX;
            return Err(D::Error::custom(format!("an expression has {max} levels at most")));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = TagExpression;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a tag, or an object with one of `and` (a list), `or` (a list), `not` and `segment`",
        )
    }

    fn visit_str<E: Error>(mut self, name: &str) -> Result<TagExpression, E> {
        self.term()?;
        let tag = Tag::parse(name).map_err(|why| E::custom(format!("the name of the tag {why}")));
        tag.map(TagExpression::Tag)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut from: A) -> Result<TagExpression, A::Error> {
        let shape = |it: &Part<'_>| A::Error::invalid_value(Unexpected::Map, it);
        let Some(sign) = from.next_key::<Cow<'de, str>>()? else { return Err(shape(&self)) };
        let levels = self.levels - 1;
        let tags = match &*sign {
            "and" => {
                let parts = Parts(Part { levels, terms: self.terms });
                from.next_value_seed(parts).map(TagExpression::And)
            }
            "or" => {
                let parts = Parts(Part { levels, terms: self.terms });
                from.next_value_seed(parts).map(TagExpression::Or)
            }
            "not" => {
                let tags = from.next_value_seed(Part { levels, terms: self.terms });
                tags.map(|tags| TagExpression::Not(Box::new(tags)))
            }
            "segment" => {
                self.term()?;
                from.next_value::<Named>().map(|Named(name)| TagExpression::Segment(name, None))
            }
            _ => return Err(shape(&self)),
        }?;
        match from.next_key::<IgnoredAny>()? {
            Some(_) => Err(shape(&self)),
            None => Ok(tags),
        }
    }
}

/// Reads a list of parts.
struct Parts<'a>(Part<'a>);

impl Parts<'_> {
    fn part(&mut self) -> Part<'_> {
        Part { levels: self.0.levels, terms: self.0.terms }
    }
}

impl<'de> DeserializeSeed<'de> for Parts<'_> {
    type Value = Vec<TagExpression>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Parts<'_> {
    type Value = Vec<TagExpression>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a list of expressions, one at least")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = from.next_element_seed(self.part())? {
            parts.push(part);
        }
        if parts.is_empty() { Err(A::Error::invalid_length(0, &self)) } else { Ok(parts) }
    }
}

/// The name of a segment in an expression.
struct Named(SegmentName);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Named, D::Error> {
        from.deserialize_str(NamedSegment)
    }
}

struct NamedSegment;

impl Visitor<'_> for NamedSegment {
    type Value = Named;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a segment")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Named, E> {
        let why = |why| E::custom(format!("the name of the segment {why}"));
        SegmentName::parse(name).map(Named).map_err(why)
    }
}

/// An expression as it is written.
pub(crate) fn written(tags: &TagExpression) -> Value {
    let all = |parts: &[TagExpression]| parts.iter().map(written).collect::<Vec<_>>();
    match tags {
        TagExpression::Tag(tag) => json!(tag.as_str()),
        TagExpression::Segment(name, _) => json!({ "segment": name.as_str() }),
        TagExpression::And(parts) => json!({ "and": all(parts) }),
        TagExpression::Or(parts) => json!({ "or": all(parts) }),
        TagExpression::Not(tags) => json!({ "not": written(tags) }),
    }
}
