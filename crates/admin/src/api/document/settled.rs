//! Schemas in the form that programs which generate clients understand.
//!
//! `schemars` describes what `serde` reads and writes; generators know less of JSON Schema than
//! that, and name types after where they find them. So an alternative is a schema with a name, a
//! constant is an enumeration of one word, and a number has a size that OpenAPI names. This module
//! knows no route and no type. Invariant: a value conforms afterwards if it did before.

use super::super::describe::SCHEMAS;
use serde_json::{Map, Value, json};

/// One schema, in place, with all its parts.
pub(crate) fn settle(schema: &mut Value) {
    if let Some(items) = schema.as_array_mut() {
        return items.iter_mut().for_each(settle);
    }
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(Value::String(told)) = schema.get_mut("description") {
        *told = told.replace('\n', " ");
    }
    if let Some(only) = schema.remove("const") {
        schema.insert("enum".into(), json!([only]));
    }
    settle_words(schema);
    settle_number(schema);
    let is_alone = !schema.contains_key("$ref"); // with others, all would have to be named
    if is_alone && schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(json!(false));
    }
    settle_fields(schema);
    schema.values_mut().for_each(settle);
}

/// Numbers have the sizes that OpenAPI has formats for. All of ours fit into 63 bits.
fn settle_number(schema: &mut Map<String, Value>) {
    let size = match schema.get("format").and_then(Value::as_str) {
        Some("uint8" | "uint16") => "int32",
        Some("uint32") => {
            schema.entry("maximum").or_insert(json!(u32::MAX));
            "int64"
        }
        Some("uint64" | "uint") => {
            // OpenAPI has no format for them.
            schema.entry("maximum").or_insert(json!(u64::MAX));
            "int64"
        }
        _ => return,
    };
    schema.insert("format".into(), size.into());
}

/// One of several words, each with a description, is an enumeration whose description has these.
fn settle_words(schema: &mut Map<String, Value>) {
    let Some(words) = schema.get("oneOf").and_then(Value::as_array) else { return };
    if !words.iter().all(|word| word["const"].is_string()) {
        return;
    }
    let told = words.iter().filter_map(|word| {
        Some(format!("`{}`: {}", word["const"].as_str()?, word["description"].as_str()?))
    });
    let told = told.collect::<Vec<_>>().join(" ");
    let all = words.iter().map(|word| word["const"].clone()).collect::<Vec<_>>();
    schema.remove("oneOf");
    schema.insert("type".into(), json!("string"));
    schema.insert("enum".into(), all.into());
    let before = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    schema.insert("description".into(), format!("{before} {told}").trim().into());
}

/// Makes optional fields non-nullable: a client leaves such a field out and does not send null. A
/// field whose default is null stays nullable: there null means something else than leaving it out.
fn settle_fields(schema: &mut Map<String, Value>) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        let is_nullable = field.get("default").is_some_and(Value::is_null);
        if is_nullable {
            field.as_object_mut().and_then(|field| field.remove("default"));
        } else if !required.iter().any(|one| *one == **name) {
            without_null(field);
        }
    }
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

/// Fields that a later version adds to an answer are no fault of it: a client that was generated
/// before must read it. Patterns are for orders: clients in Go divide a pattern at its commas, and
/// then no answer matches it.
pub(crate) fn open(schema: &mut Value) {
    if schema.get("pattern").is_some_and(Value::is_string) {
        schema.as_object_mut().and_then(|schema| schema.remove("pattern"));
    }
    if schema.get("additionalProperties") == Some(&json!(false)) {
        schema.as_object_mut().and_then(|schema| schema.remove("additionalProperties"));
    }
    match schema {
        Value::Object(parts) => parts.values_mut().for_each(open),
        Value::Array(parts) => parts.iter_mut().for_each(open),
        _ => {}
    }
}

/// Alternatives of all of these: each is a schema with a name, told by a field where one tells it.
pub(crate) fn name_alternatives(all: &mut Map<String, Value>) {
    let parents: Vec<String> = all.keys().cloned().collect();
    for parent in &parents {
        let Some(choices) = all[parent].get_mut("oneOf").map(Value::take) else { continue };
        let choices = choices.as_array().cloned().expect("a list");
        let (mut named, mut told) = (Vec::new(), Map::new());
        for choice in choices {
            let (name, word) = names(parent, &choice);
            let place = format!("#{SCHEMAS}/{name}");
            named.push(json!({ "$ref": place }));
            let told_by = word.map(|word| told.insert(word, place.into()));
            let schema = whole(all, choice, told_by.is_some());
            let other = all.insert(name.clone(), schema);
            assert!(other.is_none(), "two schemas are called {name}");
        }
        all[parent]["oneOf"] = named.into();
        if !told.is_empty() {
            all[parent]["discriminator"] = json!({ "propertyName": "type", "mapping": told });
        }
    }
    for parent in parents {
        join(all, &parent);
    }
}

/// The name of an alternative, and the word by which its field `type` tells it.
fn names(parent: &str, choice: &Value) -> (String, Option<String>) {
    let word = choice["properties"]["type"]["enum"][0].as_str();
    let field = choice["required"][0].as_str();
    let told = word.or(field).unwrap_or_else(|| panic!("an alternative of {parent} has no name"));
    let pascal = told.split('_').map(|part| part[..1].to_uppercase() + &part[1..]);
    // `Event` of `ClientEvent`, so that `client_connected` is a `ClientConnectedEvent`.
    let last = parent.rfind(char::is_uppercase).unwrap_or(0);
    (pascal.collect::<String>() + &parent[last..], word.map(str::to_owned))
}

/// The alternative with the fields of the schema that it refers to.
fn whole(all: &Map<String, Value>, mut choice: Value, is_told: bool) -> Value {
    let parts = choice.as_object_mut().expect("an object");
    if let Some(place) = parts.remove("$ref") {
        let name = place.as_str().and_then(|place| place.rsplit('/').next()).expect("a place");
        let of = &all[name];
        let fields = of["properties"].as_object().cloned().expect("fields");
        parts["properties"].as_object_mut().expect("fields").extend(fields);
        let required = of["required"].as_array().cloned().unwrap_or_default();
        parts["required"].as_array_mut().expect("names").extend(required);
        parts.insert("additionalProperties".into(), json!(false));
    }
    if is_told {
        choice["properties"]["type"]["description"] = json!("Its type.");
    }
    choice
}

/// A choice of schemas with names is one of them, if a field tells them apart; and a choice of
/// several such choices is one of all.
fn join(all: &mut Map<String, Value>, parent: &str) {
    let Some(choices) = all[parent].get("anyOf").and_then(Value::as_array) else { return };
    let (mut named, mut told) = (Vec::new(), Map::new());
    for choice in choices {
        let Some(place) = choice["$ref"].as_str() else { return };
        let of = &all[place.rsplit('/').next().expect("a name")];
        match of["oneOf"].as_array() {
            Some(inner) => named.extend(inner.clone()),
            None => named.push(choice.clone()),
        }
        told.extend(of["discriminator"]["mapping"].as_object().cloned().unwrap_or_default());
    }
    let is_told = told.len() == named.len();
    let schema = all[parent].as_object_mut().expect("an object");
    schema.remove("anyOf");
    schema.insert("oneOf".into(), named.into());
    if is_told {
        let by = json!({ "propertyName": "type", "mapping": told });
        schema.insert("discriminator".into(), by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_understand_a_settled_schema() {
        let mut schema = json!({ "type": "object", "properties": {
            "kind": { "const": "a" },
            "at_ms": { "type": "integer", "format": "uint64" },
            "count": { "type": "integer", "format": "uint32" },
            "how": { "description": "How.", "oneOf": [
                { "const": "head", "description": "The first." },
                { "const": "whole", "description": "All." },
            ] },
        } });
        settle(&mut schema);
        let wanted = json!({ "type": "object", "additionalProperties": false, "properties": {
            "kind": { "enum": ["a"] },
            "at_ms": { "type": "integer", "format": "int64", "maximum": u64::MAX },
            "count": { "type": "integer", "format": "int64", "maximum": u32::MAX },
            "how": { "type": "string", "enum": ["head", "whole"],
                "description": "How. `head`: The first. `whole`: All." },
        } });
        assert_eq!(schema, wanted);
        let id = json!({ "type": "string", "pattern": "^[0-9]{1,20}$" });
        schema["properties"]["id"] = id;
        open(&mut schema);
        assert_eq!(schema.get("additionalProperties"), None);
        assert_eq!(schema["properties"]["id"], json!({ "type": "string" }));
    }

    #[test]
    fn alternatives_get_names_and_unions_of_them_are_one() {
        let of = |word: &str| {
            json!({ "type": "object", "required": ["type"],
                "properties": { "type": { "type": "string", "enum": [word] } } })
        };
        let place = |name: &str| json!({ "$ref": format!("#{SCHEMAS}/{name}") });
        let mut all = Map::new();
        all.insert("ClientEvent".into(), json!({ "oneOf": [of("client_connected")] }));
        all.insert("ChatEvent".into(), json!({ "oneOf": [of("chat_message")] }));
        let any = [place("ClientEvent"), place("ChatEvent")];
        all.insert("AnyEvent".into(), json!({ "anyOf": any }));
        name_alternatives(&mut all);
        let (client, chat) = (place("ClientConnectedEvent"), place("ChatMessageEvent"));
        assert_eq!(all["ClientEvent"]["oneOf"], json!([client]));
        assert_eq!(all["AnyEvent"]["oneOf"], json!([client, chat]));
        let told = &all["AnyEvent"]["discriminator"];
        let mapping = json!({ "client_connected": client["$ref"], "chat_message": chat["$ref"] });
        assert_eq!(*told, json!({ "propertyName": "type", "mapping": mapping }));
        assert_eq!(all["ChatMessageEvent"]["required"], json!(["type"]));
    }
}
