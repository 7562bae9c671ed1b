//! The API's description for programs (OpenAPI 3.1), made of the table of routes, the types of
//! their handlers and a file of examples.
//!
//! Made once, when it is first asked for. It knows no handler. Invariant: whatever is served is in
//! it, with the types that are served.

use super::describe::{Operation, Schemas, components};
use super::table::{Route, table};
use crate::answers::ErrorBody;
use crate::answers::hooks::WebhookBody;
use crate::fault::Refusal;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Examples by operation: of its order and of its answer, each by a name.
const EXAMPLES: &str = include_str!("examples.json");

/// The description, as it is served and as the tests read it.
pub(crate) static OPENAPI: LazyLock<String> =
    LazyLock::new(|| serde_json::to_string_pretty(&document()).expect("a description is JSON"));

fn document() -> Value {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("the examples are JSON");
    let mut schemas = Schemas::default();
    schemas.written.subschema_for::<ErrorBody>();
    let mut paths = Map::new();
    for route in table() {
        let told = operation(&route, &mut schemas, &examples[route.id]);
        let item = paths.entry(route.rule.path).or_insert_with(|| json!({}));
        item[route.rule.method] = told;
    }
    let batch = content(
        ("application/json", schemas.written.subschema_for::<WebhookBody<'_>>().to_value()),
        &examples["events"]["posted"],
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdline",
            "version": "1",
            "summary": "Push to devices, publish, chat and operate the server.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": ["admin"] }],
        "paths": paths,
        "webhooks": { "events": { "post": {
            "summary": "A batch of events, posted to each configured webhook",
            "description": "`Holdline-Signature: t=<Unix seconds>,v1=<HMAC-SHA256 of \
                \"<t>.<body>\" in hex>`. Any 2xx accepts the batch; otherwise it is posted \
                again later, in order. A batch may arrive twice: deduplicate events by `id`.",
            "requestBody": { "content": batch },
            "responses": { "200": { "description": "Accepted." } },
        } } },
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API token. The role that an operation names is the scope \
                    that the token needs; `admin` includes all scopes, `read` includes `metrics`.",
            } },
            "responses": Refusal::ALL.map(refusal).into_iter().collect::<Map<_, _>>(),
            "schemas": components(&mut schemas),
        },
    })
}

fn operation(route: &Route, schemas: &mut Schemas, examples: &Value) -> Value {
    let rule = route.rule;
    let mut operation = Operation {
        path: rule.path,
        schemas,
        parameters: route.headers.to_vec(),
        body: None,
        content: ("", Value::Null),
        refusals: route.refusals.to_vec(),
    };
    operation.path_parameters();
    (route.describe)(&mut operation);
    let Operation { parameters, body, content: answer, mut refusals, .. } = operation;
    if !rule.scopes.is_empty() {
        refusals.extend([Refusal::Unauthorized, Refusal::Forbidden]);
    }
    if !parameters.is_empty() || body.is_some() {
        refusals.push(Refusal::Bad);
    }
    let answer = content(answer, &examples["answer"]);
    let mut responses = Map::new();
    for refusal in refusals {
        let place = format!("#/components/responses/{refusal:?}");
        responses.insert(refusal.status().to_string(), json!({ "$ref": place }));
    }
    for (status, told) in &route.answers {
        let answer = json!({ "description": told, "content": answer });
        responses.insert(status.to_string(), answer);
    }
    let security = rule.scopes.iter().map(|scope| json!({ "token": [scope.name()] }));
    let mut told = json!({
        "operationId": route.id,
        "summary": route.summary,
        "security": security.collect::<Vec<_>>(),
        "responses": responses,
    });
    if !route.more.is_empty() {
        told["description"] = json!(route.more);
    }
    if !parameters.is_empty() {
        told["parameters"] = json!(parameters);
    }
    if let Some(mut body) = body {
        if !examples["order"].is_null() {
            body["content"]["application/json"]["examples"] = named(&examples["order"]);
        }
        told["requestBody"] = body;
    }
    told
}

fn content((kind, schema): (&str, Value), examples: &Value) -> Value {
    let mut content = json!({ "schema": schema });
    if !examples.is_null() {
        content["examples"] = named(examples);
    }
    json!({ kind: content })
}

fn named(examples: &Value) -> Value {
    let examples = examples.as_object().into_iter().flatten();
    examples
        .map(|(name, value)| (name.clone(), json!({ "value": value })))
        .collect::<Map<_, _>>()
        .into()
}

fn refusal(refusal: Refusal) -> (String, Value) {
    let faults = refusal.faults();
    let examples = faults.iter().map(|fault| {
        (fault.code().to_owned(), json!({ "value": ErrorBody { error: fault.told() } }))
    });
    let mut told = json!({
        "description": refusal.told(),
        "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/Error" },
            "examples": examples.collect::<Map<_, _>>(),
        } },
    });
    if refusal.comes_back() {
        let told_s = "Seconds after which to retry.";
        told["headers"] = json!({
            "Retry-After": { "description": told_s, "schema": { "type": "integer" } },
        });
    }
    (format!("{refusal:?}"), told)
}

/// What holds for schemas of orders and answers alike, and no attribute says.
pub(super) fn settle(schema: &mut Value) {
    if let Some(items) = schema.as_array_mut() {
        return items.iter_mut().for_each(settle);
    }
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(Value::String(told)) = schema.get_mut("description") {
        *told = told.replace('\n', " ");
    }
    if schema.get("format").is_some_and(|format| format == "uint32") {
        schema.entry("maximum").or_insert(json!(u32::MAX));
    }
    if schema.get("type").is_some_and(|kind| kind == "object") && schema.contains_key("properties")
    {
        schema.entry("additionalProperties").or_insert(json!(false));
    }
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for (name, field) in
        schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        // What may be left out is left out and not null, but for a field that says so by a default,
        // which is none: left out, it says another thing.
        let is_nullable = field.get("default").is_some_and(Value::is_null);
        if is_nullable {
            field.as_object_mut().and_then(|field| field.remove("default"));
        } else if !required.iter().any(|one| *one == **name) {
            without_null(field);
        }
    }
    schema.values_mut().for_each(settle);
}

fn without_null(schema: &mut Value) {
    let is_null = |value: &Value| *value == json!("null") || value.is_null();
    if let Some(kinds) = schema.get_mut("type").filter(|kinds| kinds.is_array()) {
        kinds.as_array_mut().expect("an array").retain(|kind| !is_null(kind));
        if let [kind] = &kinds.as_array().expect("an array")[..] {
            *kinds = kind.clone();
        }
    }
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.retain(|word| !is_null(word));
    }
    let Some(any) = schema.get_mut("anyOf").and_then(Value::as_array_mut) else { return };
    any.retain(|one| one["type"] != "null");
    if let [Value::Object(alone)] = &mut any[..] {
        let alone = std::mem::take(alone);
        let schema = schema.as_object_mut().expect("it has fields");
        schema.remove("anyOf");
        for (name, part) in alone {
            schema.entry(name).or_insert(part);
        }
    }
}
