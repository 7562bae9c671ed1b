//! The description against the routes, the orders and the answers.

use super::*;
use crate::orders::hooks::RedeliverBody;
use crate::orders::messages::{PublishBody, SubscribeBody};
use crate::orders::presence_questions::{AuditBody, PrincipalsBody};
use crate::orders::tokens::ApiTokenBody;
use crate::orders::users::UserBody;
use crate::orders::{BackupBody, KickBody, ProductBody, PushBody, QueryBody, TagsBody, TokenBody};
use std::collections::BTreeSet;

pub(super) fn document() -> Value {
    serde_json::from_str(routes::operations::OPENAPI).expect("openapi.json is JSON")
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

/// What of JSON Schema the description uses; panics where the value does not conform.
fn conform(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Err(why) = conforms(document, schema, value) {
        panic!("{place}: {why}: {value}");
    }
}

fn conforms(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = follow(document, schema);
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().filter(|schema| conforms(document, schema, value).is_ok());
        return if fits.count() == 1 { Ok(()) } else { Err("not exactly one schema".into()) };
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
    if !allowed {
        return Err(format!("{kind} where {typed} is allowed"));
    }
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value)) {
        return Err(format!("{value} is none of {words:?}"));
    }
    for item in value.as_array().into_iter().flatten() {
        conforms(document, &schema["items"], item)?;
    }
    let Some(fields) = value.as_object() else { return Ok(()) };
    for (name, field) in fields {
        let described = match &schema["properties"][name] {
            Value::Null => &schema["additionalProperties"],
            described => described,
        };
        if !described.is_object() {
            return Err(format!("the field {name} is not described"));
        }
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
fn every_route_is_described_and_nothing_else() {
    let document = document();
    let described: BTreeSet<_> =
        operations(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
    let served: BTreeSet<_> = table::table()
        .into_iter()
        .map(|(rule, _)| (rule.method.to_owned(), rule.path.to_owned()))
        .collect();
    assert_eq!(described, served);
    for (rule, _) in table::table() {
        let wanted: Vec<_> = rule.scopes.iter().map(|scope| scope.name()).collect();
        let operation = &document["paths"][rule.path][rule.method];
        let security = operation["security"]
            .as_array()
            .unwrap_or_else(|| panic!("{} {} says nothing of scopes", rule.method, rule.path));
        let told: Vec<_> = security.iter().map(|any| any["token"][0].as_str()).collect();
        assert_eq!(told, wanted.into_iter().map(Some).collect::<Vec<_>>(), "{}", rule.path);
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_example_conforms() {
    let document = document();
    let mut examples = 0;
    walk(&document, &document, &mut examples);
    assert!(examples > 30, "{examples}");
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
                    .and_then(|push| push.order(&limits, None, || MessageId(1)))
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
                    .and_then(|user| user.order("u".into(), None, &limits.topics))
                    .map(drop),
                Some("PrincipalsQuery") => body::read::<PrincipalsBody>(&body)
                    .and_then(|query| query.principals(&limits.topics))
                    .map(drop),
                Some("ApiTokenOrder") => body::read::<ApiTokenBody>(&body)
                    .and_then(|order| order.order(NOW_MS))
                    .map(drop),
                Some("RedeliverOrder") => body::read::<RedeliverBody>(&body).map(drop),
                Some("AuditOrder") => {
                    body::read::<AuditBody>(&body).and_then(|audit| audit.order()).map(drop)
                }
                other => panic!("{path}: no order is read from {other:?}"),
            };
            read.unwrap_or_else(|fault| panic!("{path}, {name}: {fault:?}"));
            seen.insert(schema.expect("named").to_owned());
        }
    }
    assert_eq!(seen.len(), 14);
}
