//! Audiences and segments as they are written, checked into the model's words.
//!
//! An expression over tags is a tag, or an object with one of `and`, `or`, `not` and `segment`. It
//! is read from JSON by hand: a fault names its place and what is allowed there.

use super::tag;
use crate::fault::Fault;
use crate::texts::{DeviceName, DeviceUserName, SegmentText, TagName};
use model::audience::{Audience, DeviceList, DeviceListDraft, TagExpression};
use model::id::{DeviceUser, SegmentName};
use model::limits::Limits;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Devices that satisfy everything that is given; all devices of the product if nothing is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Audience")]
pub(crate) struct AudienceBody {
    /// Only devices that belong to this user.
    #[schemars(with = "Option<DeviceUserName>")]
    user: Option<String>,
    /// Only devices whose tags satisfy this: at most 8 levels, and 64 tags and segments.
    #[schemars(with = "Option<Expression>")]
    tags: Option<Value>,
    /// Only these devices, known or not; at most audience_devices_max (1,000,000).
    #[schemars(with = "Option<Vec<DeviceName>>", length(min = 1))]
    devices: Option<NamedDevices>,
    /// Not these devices; as many at most.
    #[schemars(with = "Option<Vec<DeviceName>>", length(min = 1))]
    except: Option<NamedDevices>,
}

/// The schema of an expression over the tags of a device.
pub(crate) enum Expression {}

impl JsonSchema for Expression {
    fn schema_name() -> Cow<'static, str> {
        "TagExpression".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let part = generator.subschema_for::<Expression>().to_value();
        let (tag, name) = (TagName::json_schema(generator), SegmentText::json_schema(generator));
        let parts = json!({ "type": "array", "minItems": 1, "items": part });
        let sign = |sign: &str, told: &str, value: Value| {
            json!({
                "type": "object", "description": told, "properties": { sign: value },
                "required": [sign], "additionalProperties": false,
            })
        };
        json_schema!({
            "description": "A tag, or one of `and`, `or`, `not` and `segment`.",
            "anyOf": [
                tag,
                sign("and", "All of these hold.", parts.clone()),
                sign("or", "One of these holds.", parts),
                sign("not", "This does not hold.", part),
                sign("segment", "The device is in this saved segment.", name.to_value()),
            ],
        })
    }
}

/// A segment as it is saved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SegmentOrder")]
pub(crate) struct SegmentBody {
    /// The tags of the segment's devices: at most 8 levels, and 64 tags. No segments.
    #[schemars(with = "Expression")]
    tags: Value,
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

/// Names of devices, read without a string for each.
pub(crate) struct NamedDevices(DeviceListDraft);

impl<'de> Deserialize<'de> for NamedDevices {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<NamedDevices, D::Error> {
        from.deserialize_seq(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = NamedDevices;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of names of devices")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<NamedDevices, A::Error> {
        let mut names = DeviceListDraft::default();
        while let Some(name) = from.next_element::<Cow<'de, str>>()? {
            let why = |why| A::Error::custom(format!("the name of a device {why}"));
            names.add(&name).map_err(why)?;
        }
        Ok(NamedDevices(names))
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
}

impl AudienceBody {
    /// The audience, within its limits.
    pub(crate) fn audience(self, limits: &Limits) -> Result<Audience, Fault> {
        let AudienceBody { user, tags, devices, except } = self;
        let user = user.map(|name| device_user(&name)).transpose()?;
        let tags = tags.map(|tags| expression(&tags, "audience.tags")).transpose()?;
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
    pub(crate) fn tags(&self) -> Result<TagExpression, Fault> {
        let tags = expression(&self.tags, "tags")?;
        match tags.segments().is_empty() {
            true => Ok(tags),
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

/// An expression at this place of a body.
pub(super) fn expression(value: &Value, at: &str) -> Result<TagExpression, Fault> {
    let mut terms = 0;
    let tags = read(value, at, TagExpression::DEPTH_MAX, &mut terms)?;
    let max = TagExpression::TERMS_MAX;
    match terms <= max {
        true => Ok(tags),
        false => {
            Err(Fault::bad(format!("`{at}` has {terms} tags and segments; the maximum is {max}")))
        }
    }
}

fn read(value: &Value, at: &str, left: usize, terms: &mut usize) -> Result<TagExpression, Fault> {
    let Some(left) = left.checked_sub(1) else {
        let max = TagExpression::DEPTH_MAX;
        return Err(Fault::bad(format!(
            "`{at}` is too deep: an expression has {max} levels at most"
        )));
    };
    let shape = || {
        Fault::bad(format!(
            "`{at}` must be a tag, or an object with one of `and` (a list), `or` (a list), `not` \
             and `segment`"
        ))
    };
    *terms += usize::from(value.is_string());
    if let Some(name) = value.as_str() {
        return tag(name).map(TagExpression::Tag);
    }
    let fields = value.as_object().filter(|fields| fields.len() == 1).ok_or_else(shape)?;
    let (sign, value) = fields.iter().next().ok_or_else(shape)?;
    let at = format!("{at}.{sign}");
    let mut parts = || {
        let parts = value.as_array().filter(|parts| !parts.is_empty());
        let none = || Fault::bad(format!("`{at}` must be a list of expressions, one at least"));
        let parts = parts.ok_or_else(none)?;
        let part = |(n, part)| read(part, &format!("{at}[{n}]"), left, terms);
        parts.iter().enumerate().map(part).collect::<Result<Vec<_>, _>>()
    };
    match sign.as_str() {
        "and" => parts().map(TagExpression::And),
        "or" => parts().map(TagExpression::Or),
        "not" => Ok(TagExpression::Not(Box::new(read(value, &at, left, terms)?))),
        "segment" => {
            *terms += 1;
            let name = || Fault::bad(format!("`{at}` must be the name of a segment"));
            Ok(TagExpression::Segment(segment(value.as_str().ok_or_else(name)?)?, None))
        }
        _ => Err(shape()),
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
