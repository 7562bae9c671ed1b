//! Messages of the schema as JSON, and back (protobuf.dev, "ProtoJSON Format"), so that a person
//! with a shell can say them.
//!
//! The codec follows the schema alone and knows no message: numbers of 64 bits are texts, bytes are
//! Base64, words of enumerations are named; what has its zero value is left out. A name that the
//! schema does not have is an error, in JSON; in a message it is skipped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto_im::codec::WireFault;
use proto_im::codec::protobuf::{Fields, Sink, WireValue};
use proto_im::schema::{ImSchema, SchemaLine, json_name};
use serde_json::{Map, Value as Json};

/// The message of this type that a JSON text is; or what is wrong with the text, for people.
pub(super) fn to_message(of: &str, text: &[u8]) -> Result<Vec<u8>, String> {
    let json = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let mut message = Vec::new();
    put(of, &json, &mut message)?;
    Ok(message)
}

/// The JSON text of a message of this type.
pub(super) fn of_message(of: &str, message: &[u8]) -> Result<Vec<u8>, WireFault> {
    Ok(members_of(of, Fields::of(message))?.to_string().into_bytes())
}

fn put(of: &str, json: &Json, out: &mut Vec<u8>) -> Result<(), String> {
    let Json::Object(members) = json else { return Err(format!("{of} must be an object")) };
    for (name, value) in members {
        let field = ImSchema::get().named(of, name);
        let field = field.ok_or_else(|| format!("{of}: unknown field {name:?}"))?;
        match (value, field.repeated) {
            (Json::Null, _) => {}
            (Json::Array(items), true) => {
                items.iter().try_for_each(|item| put_one(field, item, out))?;
            }
            (value, false) => put_one(field, value, out)?,
            (_, true) => return Err(format!("{of}.{name} must be an array")),
        }
    }
    Ok(())
}

fn put_one(field: &SchemaLine, value: &Json, out: &mut Vec<u8>) -> Result<(), String> {
    let wrong = || format!("{}.{} is not a valid {}", field.of, json_name(field.name), field.kind);
    let number = field.number;
    match field.kind {
        "bool" => out.bool(number, value.as_bool().ok_or_else(wrong)?),
        "uint32" => {
            let it = unsigned(value).and_then(|it| u32::try_from(it).ok());
            out.u32(number, it.ok_or_else(wrong)?);
        }
        "uint64" => out.u64(number, unsigned(value).ok_or_else(wrong)?),
        "fixed64" => out.fixed64(number, unsigned(value).ok_or_else(wrong)?),
        "sint32" => {
            let it = value.as_i64().or_else(|| value.as_str()?.parse().ok());
            let it = it.and_then(|it| i32::try_from(it).ok());
            out.sint32(number, it.ok_or_else(wrong)?);
        }
        "string" => out.each_text(number, value.as_str().ok_or_else(wrong)?),
        "bytes" => {
            let it = value.as_str().and_then(|it| STANDARD.decode(it).ok());
            out.bytes(number, &it.ok_or_else(wrong)?);
        }
        kind if ImSchema::get().is_enumeration(kind) => {
            let words = ImSchema::get().lines(kind);
            let named = |it: &str| words.iter().find(|word| word.name == it).map(|it| it.number);
            let it = match value.as_str() {
                Some(it) => named(it),
                None => unsigned(value).and_then(|it| u32::try_from(it).ok()),
            };
            out.u32(number, it.ok_or_else(wrong)?);
        }
        kind => {
            let mut within = Vec::new();
            put(kind, value, &mut within)?;
            out.tag(number, 2);
            out.varint(within.len() as u64);
            out.raw(&within);
        }
    }
    Ok(())
}

/// A number, or a text that is one.
fn unsigned(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn members_of(of: &str, mut fields: Fields<'_>) -> Result<Json, WireFault> {
    let mut members = Map::new();
    while let Some((number, value)) = fields.next_field()? {
        let Some(field) = ImSchema::get().field(of, number) else { continue };
        let (name, value) = (json_name(field.name), json_of(field.kind, value)?);
        match members.get_mut(&name) {
            Some(Json::Array(items)) if field.repeated => items.push(value),
            _ if field.repeated => _ = members.insert(name, Json::Array(vec![value])),
            _ => _ = members.insert(name, value),
        }
    }
    Ok(Json::Object(members))
}

fn json_of(kind: &str, value: WireValue<'_>) -> Result<Json, WireFault> {
    Ok(match kind {
        "bool" => value.bool()?.into(),
        "uint32" => value.u32()?.into(),
        "sint32" => value.sint32()?.into(),
        "uint64" => value.u64()?.to_string().into(),
        "fixed64" => value.fixed64()?.to_string().into(),
        "string" => value.text()?.into(),
        "bytes" => STANDARD.encode(value.bytes()?).into(),
        kind if ImSchema::get().is_enumeration(kind) => {
            let number = value.u32()?;
            let word = ImSchema::get().field(kind, number);
            word.map_or_else(|| number.into(), |word| word.name.into())
        }
        kind => members_of(kind, value.fields()?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_im::codec::client_frame::ClientFrame;

    const SEND: &str = r#"{"number":7,"to":"bob","clientId":"MDEyMzQ1Njc4OWFiY2RlZg==",
        "content":{"kind":1,"text":"grüß dich","uncounted":true}}"#;

    #[test]
    fn what_is_said_in_json_is_the_message_that_the_codec_reads_and_back() {
        let message = to_message("Send", SEND.as_bytes()).expect("it is right");
        let mut frame = vec![0x1a, message.len() as u8];
        frame.extend_from_slice(&message);
        let Ok(ClientFrame::Send(send)) = ClientFrame::read(&frame) else { panic!("{frame:?}") };
        assert_eq!((send.number, send.to, send.client_id), (7, "bob", &b"0123456789abcdef"[..]));
        assert_eq!((send.content.text, send.content.kind), ("grüß dich", 1));
        let back = of_message("Send", &message).expect("it was written");
        let (back, said): (Json, Json) =
            (serde_json::from_slice(&back).unwrap(), serde_json::from_str(SEND).unwrap());
        assert_eq!(back, said);
    }

    #[test]
    fn texts_stand_for_long_numbers_words_for_enumerations_and_arrays_for_several() {
        let order = r#"{"client_id":"", "verb":"GROUP_VERB_CREATE","members":["bob","","cyd"],
            "title":null}"#;
        let message = to_message("GroupOrder", order.as_bytes()).expect("it is right");
        let back = of_message("GroupOrder", &message).expect("it was written");
        let expected = r#"{"members":["bob","","cyd"],"verb":"GROUP_VERB_CREATE"}"#;
        assert_eq!(String::from_utf8(back).unwrap(), expected);
        for after in ["18446744073709551615", "\"18446744073709551615\""] {
            let pull = to_message("Pull", format!(r#"{{"after":{after}}}"#).as_bytes());
            let back = of_message("Pull", &pull.expect("it is right")).expect("it was written");
            assert_eq!(back, br#"{"after":"18446744073709551615"}"#);
        }
        let unknown = to_message("GroupOrder", br#"{"verb":99}"#).expect("a later version's");
        let back = of_message("GroupOrder", &unknown).expect("it was written");
        assert_eq!(back, br#"{"verb":99}"#);
    }

    #[test]
    fn what_is_no_message_in_json_is_told_and_never_guessed() {
        for (text, told) in [
            ("", "EOF"),
            ("[]", "Send must be an object"),
            (r#"{"two":1}"#, "Send: unknown field \"two\""),
            (r#"{"number":-1}"#, "Send.number is not a valid uint32"),
            (r#"{"number":4294967296}"#, "Send.number is not a valid uint32"),
            (r#"{"to":7}"#, "Send.to is not a valid string"),
            (r#"{"clientId":"%"}"#, "Send.clientId is not a valid bytes"),
            (r#"{"content":[]}"#, "Content must be an object"),
            (r#"{"content":{"uncounted":1}}"#, "Content.uncounted is not a valid bool"),
        ] {
            let error = to_message("Send", text.as_bytes()).expect_err(text);
            assert!(error.contains(told), "{text}: {error}");
        }
        let wrong = to_message("GroupOrder", br#"{"members":"bob"}"#).expect_err("no array");
        assert_eq!(wrong, "GroupOrder.members must be an array");
        let wrong =
            to_message("GroupOrder", br#"{"verb":"GROUP_VERB_NONE"}"#).expect_err("no word");
        assert_eq!(wrong, "GroupOrder.verb is not a valid GroupVerb");
        assert_eq!(of_message("Send", b"\x08"), Err(WireFault::Truncated));
        assert_eq!(of_message("Send", b"\x12\x01\xff"), Err(WireFault::Text));
    }
}
