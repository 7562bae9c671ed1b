//! Descriptions of handlers' arguments and answers, derived from the types in their signatures.
//!
//! An argument that reads a part of a request ([`Takes`]) and the returned type ([`Answers`]) add
//! their part to the description of the route; so it cannot name another type than the handler has.
//! It knows no route. Invariant: a handler whose argument or answer is not described does not
//! compile as a route's handler.

use super::texts;
use crate::answers::events::{AnyEvent, Gap};
use crate::fault::{Fault, Refusal};
use crate::orders::DeviceQuery;
use crate::routes::devices::OfDevice;
use crate::table::About;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, Path, Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Sse;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::marker::PhantomData;

/// Where components of the description are.
pub(crate) const SCHEMAS: &str = "/components/schemas";

/// Schemas of requests and of answers, which differ: a field that may be omitted in an order is
/// always present in an answer.
pub(crate) struct Schemas {
    pub(crate) read: SchemaGenerator,
    pub(crate) written: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Schemas {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.meta_schema = None;
                settings.definitions_path = SCHEMAS.into();
            })
        };
        Schemas {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }
}

/// A route, while it is described.
pub(crate) struct Operation<'a> {
    pub(crate) path: &'static str,
    pub(crate) schemas: &'a mut Schemas,
    pub(crate) parameters: Vec<Value>,
    pub(crate) body: Option<Value>,
    /// Of answers that are none of a refusal.
    pub(crate) content: AnswerBody,
    pub(crate) refusals: Vec<Refusal>,
}

impl Operation<'_> {
    /// Parameters of a query with these fields.
    fn query<T: JsonSchema>(&mut self) {
        let mut schema = T::json_schema(&mut self.schemas.read).to_value();
        super::document::settle(&mut schema);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let fields = schema["properties"].as_object_mut().map(std::mem::take).unwrap_or_default();
        for (name, mut field) in fields {
            let told = field.as_object_mut().and_then(|field| field.remove("description"));
            let required = required.iter().any(|one| *one == *name);
            self.parameters.push(json!({
                "name": name, "in": "query", "description": told, "required": required,
                "schema": field,
            }));
        }
    }

    fn body<T: JsonSchema>(&mut self, required: bool) {
        let schema = self.schemas.read.subschema_for::<T>();
        self.body = Some(json!({
            "required": required, "content": { "application/json": { "schema": schema } },
        }));
        self.refusals.extend([Refusal::SlowBody, Refusal::TooLarge]);
    }

    /// Parameters of the path.
    pub(crate) fn path_parameters(&mut self) {
        let parts =
            self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        for name in parts {
            let (told, schema) = texts::of_path(name, &mut self.schemas.read);
            self.parameters.push(json!({
                "name": name, "in": "path", "description": told, "required": true,
                "schema": schema,
            }));
        }
    }
}

/// The body of an answer.
#[derive(Default)]
pub(crate) struct AnswerBody {
    /// Media types that it may have.
    pub(crate) kinds: &'static [&'static str],
    pub(crate) schema: Value,
    /// Of a sequence that is read piece by piece, as OpenAPI 3.2 calls it: the schema of a piece.
    pub(crate) item: Option<Value>,
}

impl AnswerBody {
    pub(crate) fn json(schema: Schema) -> AnswerBody {
        AnswerBody { kinds: &["application/json"], schema: schema.to_value(), item: None }
    }

    pub(crate) fn text(kinds: &'static [&'static str]) -> AnswerBody {
        AnswerBody { kinds, schema: json!({ "type": "string" }), item: None }
    }

    /// A text of which each piece is JSON with one of these schemas.
    pub(crate) fn pieces(kinds: &'static [&'static str], of: Vec<Schema>) -> AnswerBody {
        AnswerBody { item: Some(json!({ "anyOf": of })), ..AnswerBody::text(kinds) }
    }

    /// Server-sent events with one of these schemas.
    pub(crate) fn events(of: Vec<Schema>) -> AnswerBody {
        AnswerBody::pieces(&["text/event-stream"], of)
    }
}

/// A handler with these arguments.
pub(crate) trait Described<Arguments> {
    fn describe(operation: &mut Operation<'_>);
}

macro_rules! described {
    ($($argument:ident)*) => {
        impl<F, Fut, R, $($argument,)*> Described<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Fut,
            Fut: Future<Output = R>,
            R: Answers,
            $($argument: Takes,)*
        {
            fn describe(operation: &mut Operation<'_>) {
                $($argument::takes(operation);)*
                R::answers(operation);
            }
        }
    };
}

described!();
described!(A);
described!(A B);
described!(A B C);
described!(A B C D);

/// An argument of a handler.
pub(crate) trait Takes {
    /// A path's parameters are described by the path, and most arguments are none of the request.
    fn takes(_: &mut Operation<'_>) {}
}

impl<S> Takes for State<S> {}
impl<T> Takes for Extension<T> {}
impl<T> Takes for Result<Path<T>, PathRejection> {}
/// A header is described where the route is.
impl Takes for HeaderMap {}

impl<T: JsonSchema> Takes for Result<Query<T>, QueryRejection> {
    fn takes(operation: &mut Operation<'_>) {
        operation.query::<T>();
    }
}

impl Takes for OfDevice {
    fn takes(operation: &mut Operation<'_>) {
        if !operation.path.contains("{device}") {
            operation.query::<DeviceQuery>();
        }
    }
}

/// The body of a request: JSON of this type.
pub(crate) struct Body<T>(pub(crate) Bytes, PhantomData<fn() -> T>);

impl<T: DeserializeOwned> Body<T> {
    pub(crate) fn read(&self) -> Result<T, Fault> {
        crate::body::read(&self.0)
    }
}

/// As [`Body`], where an empty body means an empty object.
pub(crate) struct OptionalBody<T>(Bytes, PhantomData<fn() -> T>);

impl<T: DeserializeOwned> OptionalBody<T> {
    pub(crate) fn read(&self) -> Result<T, Fault> {
        crate::body::read(if self.0.is_empty() { b"{}" } else { &self.0 })
    }
}

impl<T, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = BytesRejection;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, BytesRejection> {
        Ok(Body(Bytes::from_request(request, state).await?, PhantomData))
    }
}

impl<T, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = BytesRejection;

    async fn from_request(request: Request, state: &S) -> Result<OptionalBody<T>, BytesRejection> {
        Ok(OptionalBody(Bytes::from_request(request, state).await?, PhantomData))
    }
}

impl<T: JsonSchema> Takes for Body<T> {
    fn takes(operation: &mut Operation<'_>) {
        operation.body::<T>(true);
    }
}

impl<T: JsonSchema> Takes for OptionalBody<T> {
    fn takes(operation: &mut Operation<'_>) {
        operation.body::<T>(false);
    }
}

/// Type that a handler returns.
pub(crate) trait Answers {
    fn answers(operation: &mut Operation<'_>);
}

impl<T: JsonSchema> Answers for Json<T> {
    fn answers(operation: &mut Operation<'_>) {
        operation.content = AnswerBody::json(operation.schemas.written.subschema_for::<T>());
    }
}

impl<T: Answers> Answers for Result<T, Fault> {
    fn answers(operation: &mut Operation<'_>) {
        T::answers(operation);
    }
}

impl<T: Answers> Answers for (Extension<About>, T) {
    fn answers(operation: &mut Operation<'_>) {
        T::answers(operation);
    }
}

impl<T: Answers> Answers for (StatusCode, T) {
    fn answers(operation: &mut Operation<'_>) {
        T::answers(operation);
    }
}

impl<S> Answers for Sse<S> {
    fn answers(operation: &mut Operation<'_>) {
        let written = &mut operation.schemas.written;
        let of = vec![written.subschema_for::<AnyEvent>(), written.subschema_for::<Gap>()];
        operation.content = AnswerBody::events(of);
    }
}

impl Answers for &'static str {
    fn answers(operation: &mut Operation<'_>) {
        operation.content = AnswerBody::text(&["text/plain"]);
    }
}

/// A page of text of this type.
pub(crate) struct Page(pub(crate) &'static str, pub(crate) String);

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, self.0)], self.1).into_response()
    }
}

impl Answers for Page {
    fn answers(operation: &mut Operation<'_>) {
        <&str>::answers(operation);
    }
}

/// The description itself.
pub(crate) struct Description(pub(crate) &'static str);

impl IntoResponse for Description {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

impl Answers for Description {
    fn answers(operation: &mut Operation<'_>) {
        operation.content = AnswerBody::json(json_schema!({ "type": "object" }));
    }
}
