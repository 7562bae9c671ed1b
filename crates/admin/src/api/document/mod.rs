//! The API's description for programs (OpenAPI 3.1), made of the table of routes, the types of
//! their handlers and a file of examples.
//!
//! Made once, when it is first asked for. It knows no handler. Invariant: whatever is served is in
//! it, with the types that are served.

mod settled;
mod tags;

pub(crate) use settled::settle;

use super::describe::{AnswerBody, Operation, Schemas};
use super::table::{Route, table};
use crate::answers::ErrorBody;
use crate::answers::hooks::WebhookBody;
use crate::fault::Refusal;
use serde_json::{Map, Value, json};
use settled::{name_alternatives, open};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Examples by operation: of its order and of its answer, each by a name.
const EXAMPLES: &str = include_str!("../examples.json");

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
    let batch = AnswerBody::json(schemas.written.subschema_for::<WebhookBody<'_>>());
    let batch = content(&batch, &examples["events"]["posted"]);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdline",
            "version": "1",
            "summary": "Push to devices, publish, chat and operate the server.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": ["admin"] }],
        "tags": tags::all(),
        "paths": paths,
        "webhooks": { "events": { "post": {
            "operationId": "receiveEvents",
            "tags": ["Webhooks"],
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
        content: AnswerBody::default(),
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
    let answer = content(&answer, &examples["answer"]);
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
        "tags": [tags::of(rule.path)],
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

fn content(content: &AnswerBody, examples: &Value) -> Value {
    let mut told = json!({ "schema": content.schema });
    if let Some(item) = &content.item {
        told["x-itemSchema"] = item.clone();
    }
    if !examples.is_null() {
        told["examples"] = named(examples);
    }
    content.kinds.iter().map(|&kind| (kind.to_owned(), told.clone())).collect::<Map<_, _>>().into()
}

/// Named schemas of orders and answers.
fn components(schemas: &mut Schemas) -> Map<String, Value> {
    let mut all = schemas.written.take_definitions(false);
    all.values_mut().for_each(settle);
    let mut answers: BTreeSet<String> = all.keys().cloned().collect();
    for (name, mut schema) in schemas.read.take_definitions(false) {
        settle(&mut schema);
        // An order has the fields that it is described with, also where an answer has them.
        answers.remove(&name);
        let other = all.insert(name.clone(), schema);
        assert!(other.is_none_or(|other| other == all[&name]), "two schemas are called {name}");
    }
    name_alternatives(&mut all);
    for name in answers {
        open(&mut all[&name]);
    }
    all
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
            "schema": { "$ref": "#/components/schemas/ApiError" },
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
