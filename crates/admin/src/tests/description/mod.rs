//! The description against the orders, the answers and its own rules.

mod states;

use super::*;
use crate::orders::audience::{DeviceUserBody, SegmentBody, device_user};
use crate::orders::bans::BanBody;
use crate::orders::batch::BatchBody;
use crate::orders::chat::{
    BroadcastBody, ChangeBody, GroupBody, MessageBody, MuteBody, RecallBody,
};
use crate::orders::chatrooms::ChatroomBody;
use crate::orders::hooks::RedeliverBody;
use crate::orders::messages::{PublishBody, SubscribeBody};
use crate::orders::moves::MovesBody;
use crate::orders::notification::PlatformBody;
use crate::orders::presence_questions::{AuditBody, PrincipalsBody};
use crate::orders::push_outcomes::ReportBody;
use crate::orders::schedules::{ScheduleBody, ZoneBody};
use crate::orders::tokens::ApiTokenBody;
use crate::orders::users::{ImportBody, UserBody};
use crate::orders::{BackupBody, KickBody, ProductBody, PushBody, QueryBody, TagsBody, TokenBody};
use crate::routes::session::LogIn;
use model::account::AccountAddress;
use model::chat::ClientMessageId;
use std::collections::BTreeSet;

pub(super) fn document() -> Value {
    serde_json::from_str(openapi()).expect("the description is JSON")
}

/// The part of the document that a `$ref` names, or the part itself.
fn follow<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(place) => {
            document.pointer(place.trim_start_matches('#')).unwrap_or_else(|| panic!("no {place}"))
        }
        None => part,
    }
}

/// Checks a value against the part of JSON Schema that the description uses; panics where it does
/// not conform.
fn conform(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Err(why) = conforms(document, schema, value) {
        panic!("{place}: {why}: {value}");
    }
}

fn conforms(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = follow(document, schema);
    if let Some(any) = schema.as_bool() {
        return if any { Ok(()) } else { Err("nothing may be here".into()) };
    }
    for (word, all) in [("oneOf", false), ("anyOf", false), ("allOf", true)] {
        let Some(choices) = schema[word].as_array() else { continue };
        let fits = choices.iter().filter(|schema| conforms(document, schema, value).is_ok());
        let fits = fits.count();
        if fits == 0 || all && fits < choices.len() || word == "oneOf" && fits > 1 {
            return Err(format!("{fits} fit of {word} {}", schema[word]));
        }
    }
    if schema.get("not").is_some_and(|not| conforms(document, not, value).is_ok()) {
        return Err(format!("it must not be {}", schema["not"]));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let typed = &schema["type"];
    let allowed = typed.as_array().map_or(typed == kind, |kinds| kinds.iter().any(|k| k == kind));
    if !allowed && !typed.is_null() {
        return Err(format!("{kind} where {typed} is allowed"));
    }
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value)) {
        return Err(format!("{value} is none of {words:?}"));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return Err(format!("{value} is not {}", schema["const"]));
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        let first = schema["prefixItems"].get(at);
        let Some(schema) = first.or(schema.get("items")) else { continue };
        conforms(document, schema, item)?;
    }
    let Some(fields) = value.as_object() else { return Ok(()) };
    for (name, field) in fields {
        let Some(described) = schema["properties"].get(name).or(schema.get("additionalProperties"))
        else {
            // An answer may get fields later; those that it has are described.
            match schema.get("properties") {
                Some(_) => return Err(format!("the field {name} is not described")),
                None => continue,
            }
        };
        conforms(document, described, field).map_err(|why| format!("{name}: {why}"))?;
    }
    let mut required = schema["required"].as_array().into_iter().flatten();
    match required.find(|name| !fields.contains_key(name.as_str().expect("text"))) {
        Some(name) => Err(format!("the field {name} is missing")),
        None => Ok(()),
    }
}

/// The schema of an operation's good answer.
pub(super) fn check_answer(method: &str, path: &str, value: &Value) {
    let document = document();
    let answer = &document["paths"][path][method]["responses"]["200"]["content"];
    let schema = &answer["application/json"]["schema"];
    assert!(schema.is_object(), "{method} {path} is not described");
    conform(&document, schema, value, path);
}

pub(super) fn check_named(name: &str, value: &Value) {
    let document = document();
    conform(&document, &document["components"]["schemas"][name], value, name);
}

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("methods");
        methods.iter().map(|(method, operation)| (method.clone(), path.clone(), operation))
    });
    operations.collect()
}

#[test]
fn every_route_is_described_once_with_its_scopes_and_its_path() {
    let document = document();
    let (mut ids, mut described) = (BTreeSet::new(), 0);
    for (method, path, operation) in operations(&document) {
        let rules = rules();
        let rule = rules.iter().find(|rule| (rule.method, rule.path) == (&method, &path));
        let wanted = rule.expect("it is served").scopes.iter().map(|scope| Some(scope.name()));
        let security = operation["security"].as_array().expect("what it wants");
        let told: Vec<_> = security.iter().map(|any| any["token"][0].as_str()).collect();
        assert_eq!(told, wanted.collect::<Vec<_>>(), "{path}");
        let id = operation["operationId"].as_str().expect("a name");
        assert!(!id.is_empty() && ids.insert(id.to_owned()), "{method} {path} is {id}");
        assert_ne!(operation["summary"], "", "{id}");
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let parts = parameters.filter(|part| part["in"] == "path").count();
        assert_eq!(parts, path.matches('{').count(), "{id}");
        described += 1;
    }
    assert_eq!(described, rules().len());
}

#[test]
fn every_field_says_what_it_is_and_may_be_null_only_where_it_is_always_there() {
    let document = document();
    let mut fields = 0;
    let mut look = |part: &Value, place: &str| {
        let required = part["required"].as_array().into_iter().flatten().collect::<Vec<_>>();
        for (name, field) in part["properties"].as_object().into_iter().flatten() {
            let is_told = field["description"].is_string()
                || field.get("$ref").is_some()
                || field.get("const").is_some();
            let is_part = part["type"] != "object"; // of a rule on several fields
            assert!(is_told || is_part, "{place}.{name}");
            let kinds = field["type"].as_array().into_iter().flatten();
            let is_nullable = kinds.into_iter().any(|kind| kind == "null");
            let is_known = required.iter().any(|one| **one == **name);
            assert!(is_known || !is_nullable || place == "ProductChange", "{place}.{name}");
            fields += 1;
        }
    };
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        assert!(!name.ends_with(|c: char| c.is_ascii_digit()), "two types are called {name}");
        look(schema, name);
        schema["oneOf"].as_array().into_iter().flatten().for_each(|one| look(one, name));
    }
    assert!(fields > 300, "{fields}");
}

#[test]
fn every_reference_leads_somewhere_and_every_example_conforms() {
    let document = document();
    let mut examples = 0;
    walk(&document, &document, &mut examples);
    assert!(examples > 30, "{examples}");
}

#[test]
fn every_route_has_an_example_of_its_order_and_of_its_answer() {
    let document = document();
    let mut without = Vec::new();
    let mut ids = BTreeSet::new();
    for (_, _, operation) in operations(&document) {
        let id = operation["operationId"].as_str().expect("a name");
        ids.insert(id);
        let answer = operation["responses"].get("200").map(|answer| ("answer", &answer["content"]));
        let order = operation.get("requestBody").map(|body| ("order", &body["content"]));
        for (which, content) in answer.into_iter().chain(order) {
            let mut bodies = content.as_object().into_iter().flatten();
            if !bodies.all(|(_, body)| body["examples"].is_object()) {
                without.push(format!("{which} of {id}"));
            }
        }
    }
    assert_eq!(without, [""; 0], "give them in api/examples.json");
    let examples: Value =
        serde_json::from_str(include_str!("../../api/examples.json")).expect("JSON");
    let mut known = examples.as_object().expect("by name").keys();
    assert_eq!(known.find(|id| !ids.contains(id.as_str())), None, "no route has this name");
}

fn walk(document: &Value, part: &Value, examples: &mut u32) {
    follow(document, part);
    if let Some(named) = part["examples"].as_object() {
        for (name, example) in named {
            conform(document, &part["schema"], &example["value"], name);
            *examples += 1;
        }
    }
    match part {
        Value::Object(fields) => fields.values().for_each(|part| walk(document, part, examples)),
        Value::Array(items) => items.iter().for_each(|part| walk(document, part, examples)),
        _ => {}
    }
}

/// Reads an order of chat.
fn read_of_chat(schema: &str, body: &[u8]) -> Result<(), crate::fault::Fault> {
    match schema {
        "ChatMessageOrder" => body::read::<MessageBody>(body)
            .and_then(|body| body.message(&Limits::default().chat, || ClientMessageId([0; 16])))
            .map(drop),
        "ChatBroadcastOrder" => {
            body::read::<BroadcastBody>(body).and_then(|body| body.targets()).map(drop)
        }
        "ChatGroupChange" => body::read::<ChangeBody>(body).and_then(|body| {
            let group = orders::chat::group("g", "a.example")?;
            body.order(&group, || ClientMessageId([0; 16])).map(drop)
        }),
        "ChatGroupOrder" => body::read::<GroupBody>(body)
            .and_then(|body| body.order("a.example", || ClientMessageId([0; 16])))
            .map(drop),
        "ChatMute" => body::read::<MuteBody>(body).and_then(|body| body.until_s(NOW_MS)).map(drop),
        "ChatRecall" => body::read::<RecallBody>(body).and_then(|body| body.with()).map(drop),
        "ChatroomChange" => body::read::<ChatroomBody>(body).and_then(|change| {
            let room = AccountAddress::parse("lobby@rooms.a.example", "").expect("one");
            change.order(&room).map(drop)
        }),
        "ChatMoves" => body::read::<MovesBody>(body).map(drop),
        other => panic!("no order is read from {other}"),
    }
}

#[test]
fn every_example_of_an_order_is_one() {
    let document = document();
    let limits = Limits::default();
    let mut seen = BTreeSet::new();
    for (_, path, operation) in operations(&document) {
        let bodies = &operation["requestBody"]["content"]["application/json"];
        let schema = bodies["schema"]["$ref"].as_str().unwrap_or("").rsplit('/').next();
        let named = bodies["examples"].as_object().into_iter().flatten();
        for (name, example) in named {
            let body = example["value"].to_string().into_bytes();
            let read = match schema {
                Some("PushOrder") => body::read::<PushBody>(&body)
                    .and_then(|push| push.order(&limits, NOW_MS, None, || MessageId(1)))
                    .map(drop),
                Some("PushBatch") => body::read::<BatchBody>(&body)
                    .and_then(|batch| batch.orders(&limits, NOW_MS, None, || MessageId(1)))
                    .map(drop),
                Some("ProductChange") => body::read::<ProductBody>(&body)
                    .and_then(|change| {
                        let present = model::product::Product::new(key("shop"), 7);
                        change.product(key("shop"), Some(&present), &|_| {})
                    })
                    .map(drop),
                Some("BackupOrder") => {
                    body::read::<BackupBody>(&body).and_then(BackupBody::to).map(drop)
                }
                Some("DeviceQuery") => body::read::<QueryBody>(&body).map(drop),
                Some("Kick") => body::read::<KickBody>(&body).and_then(KickBody::addrs).map(drop),
                Some("Tags") => {
                    body::read::<TagsBody>(&body).and_then(|tags| tags.tags(&limits)).map(drop)
                }
                Some("DeviceUserOrder") => body::read::<DeviceUserBody>(&body)
                    .and_then(|order| device_user(&order.user))
                    .map(drop),
                Some("PlatformOrder") => {
                    body::read::<PlatformBody>(&body).and_then(PlatformBody::token).map(drop)
                }
                Some("DeviceZoneOrder") => {
                    body::read::<ZoneBody>(&body).and_then(|order| order.zone()).map(drop)
                }
                Some("ScheduleOrder") => body::read::<ScheduleBody>(&body)
                    .and_then(|order| order.schedule(&limits, NOW_MS, || MessageId(1)))
                    .map(drop),
                Some("SegmentOrder") => {
                    body::read::<SegmentBody>(&body).and_then(|segment| segment.tags()).map(drop)
                }
                Some("TokenOrder") => {
                    body::read::<TokenBody>(&body).and_then(|token| token.until(NOW_MS)).map(drop)
                }
                Some("PublishOrder") if body[0] == b'[' => body::read::<Vec<PublishBody>>(&body)
                    .and_then(|list| {
                        list.into_iter().try_for_each(|one| one.order(&limits, 1, "").map(drop))
                    }),
                Some("PublishOrder") => body::read::<PublishBody>(&body)
                    .and_then(|one| one.order(&limits, 1, ""))
                    .map(drop),
                Some("SubscribeOrder") => body::read::<SubscribeBody>(&body)
                    .and_then(|wish| wish.wish(&limits.topics))
                    .map(drop),
                Some("UserChange") => body::read::<UserBody>(&body)
                    .and_then(|user| user.order("u".into(), &limits.topics))
                    .map(drop),
                Some("UserImport") => {
                    body::read::<ImportBody>(&body).and_then(ImportBody::checked).map(drop)
                }
                Some("PrincipalsQuery") => body::read::<PrincipalsBody>(&body)
                    .and_then(|query| query.principals(&limits.topics))
                    .map(drop),
                Some("ApiTokenOrder") => body::read::<ApiTokenBody>(&body)
                    .and_then(|order| order.order(NOW_MS))
                    .map(drop),
                Some("BanOrder") => body::read::<BanBody>(&body)
                    .and_then(|ban| ban.order("a", "a.example"))
                    .map(drop),
                Some("RedeliverOrder") => body::read::<RedeliverBody>(&body).map(drop),
                Some("AuditOrder") => {
                    body::read::<AuditBody>(&body).and_then(|audit| audit.order()).map(drop)
                }
                Some("PushReport") => {
                    body::read::<ReportBody>(&body).and_then(ReportBody::command).map(drop)
                }
                Some("LogIn") => body::read::<LogIn>(&body).map(drop),
                Some(name) if name.starts_with("Chat") => read_of_chat(name, &body),
                other => panic!("{path}: no order is read from {other:?}"),
            };
            read.unwrap_or_else(|fault| panic!("{path}, {name}: {fault:?}"));
            seen.insert(schema.expect("named").to_owned());
        }
    }
    assert_eq!(seen.len(), 32);
}
