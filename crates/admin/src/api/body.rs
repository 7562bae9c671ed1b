//! Bodies of requests: whole, within the limit, and read into the order they should be.
//!
//! A body that announces more than the limit is refused before it is read; an invalid one is
//! refused with the field and the permitted values, never with its value, which may be a secret. It
//! knows no order's meaning. Invariant: memory holds no more of a body than the limit.

use crate::fault::Fault;
use axum::body::{Body, BodyDataStream, HttpBody};
use futures_util::StreamExt;
use serde::Deserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_path_to_error::Track;
use std::borrow::Cow;
use std::fmt::{self, Formatter};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Time for what is left of a refused body.
const LEFT: Duration = Duration::from_secs(10);

/// Bytes of a body that are read on after it was refused; more breaks the connection.
const UNREAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The only field in which null has a meaning: it removes a product's topic.
const NULLABLE: &str = "topic";

/// A field that browsers set to null, wherever their subscription is.
const NULL_OF_BROWSERS: &str = "expirationTime";

/// Room for all bodies together, with a permit for each KiB. It grows at once; it shrinks as bodies
/// give back what they have.
pub(crate) struct BodyRoom {
    room: Arc<Semaphore>,
    /// KiB of the semaphore, free or in use, and the number it should have.
    kib: Mutex<(u64, u64)>,
}

impl BodyRoom {
    pub(crate) fn new(kib: u64) -> BodyRoom {
        BodyRoom { room: Arc::new(Semaphore::new(kib as usize)), kib: Mutex::new((kib, kib)) }
    }

    /// Sets the room, in KiB.
    pub(crate) fn set(&self, kib: u64) {
        let mut size = self.kib.lock().unwrap_or_else(PoisonError::into_inner);
        self.room.add_permits(kib.saturating_sub(size.0) as usize);
        *size = (size.0.max(kib), kib);
    }

    /// The room as it is now.
    pub(crate) fn room(&self) -> &Arc<Semaphore> {
        let mut size = self.kib.lock().unwrap_or_else(PoisonError::into_inner);
        let (has, wanted) = *size;
        if has > wanted {
            size.0 -= self.room.forget_permits((has - wanted) as usize) as u64;
        }
        &self.room
    }
}

/// Room that the bytes of a body take, given back when this is dropped.
pub(crate) type Held = Option<OwnedSemaphorePermit>;

/// Reads the whole body, of at most this many bytes, within this many milliseconds. `room` has a
/// permit for each KiB that all bodies together may have.
pub(crate) async fn whole(
    body: Body,
    (limit, ms_max): (usize, u32),
    room: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Held), Fault> {
    let announced = body.size_hint().lower();
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut held: Held = None;
    let arrival = async {
        let mut fits = announced <= limit as u64;
        while fits {
            let Some(chunk) = chunks.next().await else { break };
            bytes.extend_from_slice(&chunk.map_err(|_| Fault::bad("the body was cut off"))?);
            fits = bytes.len() <= limit;
            hold(&mut held, bytes.len(), room)?;
        }
        Ok(fits)
    };
    match timeout(Duration::from_millis(ms_max.into()), arrival).await {
        Ok(Ok(true)) => Ok((bytes, held)),
        Ok(Ok(false)) => {
            pass_over(chunks);
            Err(Fault::too_large(format!("the body of a request has at most {limit} bytes")))
        }
        Ok(Err(fault)) => {
            pass_over(chunks);
            Err(fault)
        }
        Err(_) => Err(Fault::slow_body()),
    }
}

/// Takes permits until `held` covers this many bytes.
fn hold(held: &mut Held, bytes: usize, room: &Arc<Semaphore>) -> Result<(), Fault> {
    let wanted = bytes.div_ceil(1024) - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let wanted = u32::try_from(wanted).map_err(|_| Fault::busy())?;
    if wanted == 0 {
        return Ok(());
    }
    let more = Arc::clone(room).try_acquire_many_owned(wanted).map_err(|_| Fault::busy())?;
    match held {
        Some(held) => held.merge(more),
        None => *held = Some(more),
    }
    Ok(())
}

/// Reads a body on for a while beside its refusal: who is answered while still sending may never
/// see the answer, and one whose body is left unread loses the connection with it.
pub(crate) fn pass_over(mut chunks: BodyDataStream) {
    let reading = async move {
        let mut read = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            read += chunk.len();
            if read > UNREAD_BYTES_MAX {
                return;
            }
        }
    };
    tokio::spawn(timeout(LEFT, reading));
}

/// A body as the order it should be; the message names the field that is wrong.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let order = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        wrong(&path, error.inner())
    })?;
    reader.end().map_err(|error| wrong(".", &error))?;
    refuse_null(body)?;
    Ok(order)
}

/// A null is refused where it says nothing: serde takes it for a field that was left out, and who
/// writes it may mean that something is taken away.
fn refuse_null(body: &[u8]) -> Result<(), Fault> {
    if !body.windows(4).any(|bytes| bytes == b"null") {
        return Ok(());
    }
    let (mut reader, mut track) = (serde_json::Deserializer::from_slice(body), Track::new());
    let reader = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    match (NoNull { is_body: true }).deserialize(reader) {
        Ok(()) => Ok(()),
        Err(_) => Err(Fault::bad(format!("`{}` must not be null: omit it", track.path()))),
    }
}

/// Passes over JSON that was read once already, so that a null is its only fault.
struct NoNull {
    is_body: bool,
}

impl<'de> DeserializeSeed<'de> for NoNull {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NoNull {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("no null")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        while from.next_element_seed(NoNull { is_body: false })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        while let Some(name) = from.next_key::<Cow<'de, str>>()? {
            match (self.is_body && name == NULLABLE) || name == NULL_OF_BROWSERS {
                true => drop(from.next_value::<IgnoredAny>()?),
                false => from.next_value_seed(NoNull { is_body: false })?,
            }
        }
        Ok(())
    }
}

/// `path` is `.` for the body itself.
fn wrong(path: &str, error: &serde_json::Error) -> Fault {
    let told = error.to_string();
    if error.classify() != Category::Data {
        return Fault::bad(format!("the body is not JSON: {told}"));
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let told = told.strip_suffix(&place).unwrap_or(&told);
    let what = if path == "." { "the body".to_owned() } else { format!("`{path}`") };
    // "invalid type: string \"long\", expected u32", or words about the names of fields.
    match told.rsplit_once(", expected ") {
        Some((found, expected)) if found.starts_with("unknown field ") => {
            Fault::bad(format!("unknown field {what}, expected {expected}"))
        }
        Some((found, expected)) if found.starts_with("invalid ") => {
            Fault::bad(format!("{what} must be {}", allowed(expected)))
        }
        _ => Fault::bad(format!("in {what}: {told}")),
    }
}

/// Allowed values, in JSON's words.
fn allowed(expected: &str) -> String {
    match expected {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" => "a whole number".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        "a tuple of size 2" => "a name and a value".into(),
        order if order.starts_with("struct ") => "an object".into(),
        other => other.into(),
    }
}
