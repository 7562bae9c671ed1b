//! HTTP of the folder: a file is put once, and given to whoever has its address.
//!
//! A file is written and read piece by piece, on threads that may wait for the disk. A file runs
//! nothing in a browser: only pictures are shown, everything else is saved by it. Invariant: every
//! request has one answer and is counted once.

use crate::bucket::shown_how;
use crate::door::outcome;
use crate::folder::{Folder, Unwritten, Written};
use crate::keyed::escaped;
use crate::permit::{May, Permit};
use crate::range::{self, Part};
use crate::tally::{MediaTally, TransferOutcome};
use crate::uploads::{Refused, Uploads};
use axum::body::{Body, BodyDataStream};
use axum::http::header;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use base::hex;
use futures_util::{StreamExt, stream};
use model::link::Source;
use model::media::UNKNOWN_TYPE;
use model::{event, tell};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Bytes that are written, and read, at once.
const PIECE: usize = 128 * 1024;

/// A browser that shows what is here runs nothing of it.
const POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// The folder with what serves it.
pub(crate) struct Desk {
    pub(crate) folder: Folder,
    pub(crate) key: Vec<u8>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) tally: Arc<MediaTally>,
    /// Unix seconds.
    pub(crate) now_s: fn() -> u64,
}

/// Answer without a file.
type Answer = (TransferOutcome, StatusCode, &'static str);

impl Desk {
    /// Answers a request.
    pub(crate) async fn answer(
        self: Arc<Desk>,
        source: Source,
        request: Request<Body>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        let answered = match head.method {
            Method::OPTIONS => Ok(self.options()),
            Method::GET | Method::HEAD => self.clone().give(&head).await,
            Method::PUT => self.clone().take(source, &head, body).await,
            _ => {
                Err((TransferOutcome::Method, StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD and PUT"))
            }
        };
        let mut response = answered.unwrap_or_else(|(outcome, status, why)| {
            self.tally.count(outcome);
            let mut response = Response::new(Body::from(format!("{why}\n")));
            *response.status_mut() = status;
            put(response.headers_mut(), header::CONTENT_TYPE, "text/plain; charset=utf-8");
            let passes = [TransferOutcome::Busy, TransferOutcome::Source, TransferOutcome::Account];
            if passes.contains(&outcome) {
                put(response.headers_mut(), header::RETRY_AFTER, "5");
            }
            response
        });
        let headers = response.headers_mut();
        put(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        put(headers, header::CONTENT_SECURITY_POLICY, POLICY);
        put(headers, header::REFERRER_POLICY, "no-referrer");
        put(headers, HeaderName::from_static("cross-origin-resource-policy"), "cross-origin");
        // Whoever has an address may use it, from wherever: it is the proof, and no cookie is.
        put(headers, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        put(headers, header::ALLOW, "GET, HEAD, PUT, OPTIONS");
        // What this connection asks next may be for a shard.
        put(headers, header::CONNECTION, "close");
        response
    }

    fn options(&self) -> Response<Body> {
        self.tally.count(TransferOutcome::Asked);
        let mut response = empty(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        put(headers, header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, PUT, OPTIONS");
        put(headers, header::ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type, Range");
        put(headers, header::ACCESS_CONTROL_MAX_AGE, "7200");
        response
    }

    /// The permit of an address, if it is for this operation and not expired; otherwise the answer
    /// that refuses it.
    fn permit(&self, head: &Parts, may: May) -> Result<Permit, Answer> {
        let permit = Permit::of_path(head.uri.path(), &self.key);
        let Some(permit) = permit.filter(|permit| permit.may == may) else {
            return Err((TransferOutcome::Forbidden, StatusCode::FORBIDDEN, "invalid address"));
        };
        if permit.until_s < (self.now_s)() {
            return Err((TransferOutcome::Expired, StatusCode::GONE, "this address has expired"));
        }
        Ok(permit)
    }

    async fn give(self: Arc<Desk>, request: &Parts) -> Result<Response<Body>, Answer> {
        let permit = self.permit(request, May::Get)?;
        let tag = format!("\"{}\"", hex::encode(&permit.id));
        if text(&request.headers, header::IF_NONE_MATCH).is_some_and(|known| known.contains(&tag)) {
            self.tally.count(TransferOutcome::Asked);
            let mut response = empty(StatusCode::NOT_MODIFIED);
            put(response.headers_mut(), header::ETAG, &tag);
            return Ok(response);
        }
        let desk = self.clone();
        let (id, kept_until_s) = (permit.id, permit.kept_until_s);
        let opened = spawn_blocking(move || desk.folder.open_file(&id, kept_until_s)).await;
        let (file, size) = match opened.map_err(io::Error::other).flatten() {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err((TransferOutcome::Missing, StatusCode::NOT_FOUND, "no such file"));
            }
            Err(error) => return Err(failed(&error)),
        };
        // A part of what is something else now is no part: then all of it is given.
        let same = text(&request.headers, header::IF_RANGE).is_none_or(|known| known == tag);
        let wanted = text(&request.headers, header::RANGE).filter(|_| same);
        let (status, from, count) = match range::of(wanted, size) {
            Part::Whole => (StatusCode::OK, 0, size),
            Part::Bytes(from, count) => (StatusCode::PARTIAL_CONTENT, from, count),
            Part::Beyond => {
                self.tally.count(TransferOutcome::Range);
                let mut response = empty(StatusCode::RANGE_NOT_SATISFIABLE);
                put(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{size}"));
                return Ok(response);
            }
        };
        let is_head = request.method == Method::HEAD;
        self.tally.count(if is_head { TransferOutcome::Asked } else { TransferOutcome::Given });
        let body = if is_head { Body::empty() } else { pieces(file, from, count) };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if status == StatusCode::PARTIAL_CONTENT {
            let range = format!("bytes {from}-{}/{size}", from + count - 1);
            put(headers, header::CONTENT_RANGE, &range);
        }
        put(headers, header::CONTENT_LENGTH, &count.to_string());
        put(headers, header::ACCEPT_RANGES, "bytes");
        put(headers, header::CONTENT_TYPE, &permit.media_type);
        put(headers, header::CONTENT_DISPOSITION, &disposition(&permit));
        put(headers, header::ETAG, &tag);
        put(headers, header::CACHE_CONTROL, "private, max-age=86400, immutable");
        put(headers, header::ACCESS_CONTROL_EXPOSE_HEADERS, "Content-Range, ETag");
        Ok(response)
    }

    async fn take(
        self: Arc<Desk>,
        source: Source,
        request: &Parts,
        body: Body,
    ) -> Result<Response<Body>, Answer> {
        let permit = self.permit(request, May::Put)?;
        self.agreed(&request.headers, &permit)?;
        let seat = self.uploads.take(permit.account, source).map_err(|refused| match refused {
            Refused::Room(why) => {
                (outcome(why), StatusCode::SERVICE_UNAVAILABLE, "too many transfers")
            }
            Refused::Account => (
                TransferOutcome::Account,
                StatusCode::TOO_MANY_REQUESTS,
                "too many transfers of your account",
            ),
        })?;
        let (desk, bytes) = (self.clone(), permit.bytes);
        let created =
            spawn_blocking(move || desk.folder.create(&permit.id, permit.kept_until_s, bytes));
        let written = created.await.map_err(lost).and_then(|made| made.map_err(unwritten))?;
        let written = fill(written, body.into_data_stream(), bytes).await?;
        let finished = spawn_blocking(move || written.finish());
        finished.await.map_err(lost).and_then(|made| made.map_err(unwritten))?;
        drop(seat);
        self.tally.count(TransferOutcome::Stored);
        Ok(empty(StatusCode::CREATED))
    }

    /// Whether what comes is what was agreed.
    fn agreed(&self, headers: &HeaderMap, permit: &Permit) -> Result<(), Answer> {
        let length = text(headers, header::CONTENT_LENGTH).and_then(|it| it.parse::<u64>().ok());
        match length {
            None => {
                let why = "Content-Length is missing";
                return Err((TransferOutcome::Length, StatusCode::LENGTH_REQUIRED, why));
            }
            Some(length) if length > permit.bytes => {
                let why = "larger than announced";
                return Err((TransferOutcome::Length, StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            Some(length) if length < permit.bytes => {
                return Err((
                    TransferOutcome::Length,
                    StatusCode::BAD_REQUEST,
                    "smaller than announced",
                ));
            }
            Some(_) => {}
        }
        let said = text(headers, header::CONTENT_TYPE).unwrap_or(&permit.media_type);
        let said = said.split(';').next().unwrap_or_default().trim();
        // Where none was agreed any will do: it is given as one that nothing is known of.
        if permit.media_type == UNKNOWN_TYPE || said.eq_ignore_ascii_case(&permit.media_type) {
            return Ok(());
        }
        let why = "another media type than announced";
        Err((TransferOutcome::MediaType, StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
    }
}

/// Writes what comes, to its end.
async fn fill(
    mut written: Written,
    mut body: BodyDataStream,
    bytes: u64,
) -> Result<Written, Answer> {
    let torn = (TransferOutcome::Torn, StatusCode::BAD_REQUEST, "the upload is incomplete");
    let (mut left, mut piece) = (bytes, Vec::with_capacity(PIECE));
    loop {
        let next = body.next().await;
        let is_over = next.is_none();
        if let Some(chunk) = next {
            let chunk = chunk.map_err(|_| torn)?;
            left = left.checked_sub(chunk.len() as u64).ok_or(torn)?;
            piece.extend_from_slice(&chunk);
        }
        if piece.len() >= PIECE || is_over && !piece.is_empty() {
            let full = std::mem::replace(&mut piece, Vec::with_capacity(PIECE));
            let wrote = spawn_blocking(move || written.write(&full).map(|()| written));
            written = wrote.await.map_err(lost)?.map_err(unwritten)?;
        }
        if is_over {
            return if left == 0 { Ok(written) } else { Err(torn) };
        }
    }
}

/// A part of a file, piece by piece.
fn pieces(file: File, from: u64, count: u64) -> Body {
    Body::from_stream(stream::try_unfold(
        (file, from, count),
        |(mut file, from, left)| async move {
            if left == 0 {
                return Ok(None);
            }
            let read = spawn_blocking(move || {
                let mut piece = vec![0; left.min(PIECE as u64) as usize];
                file.seek(SeekFrom::Start(from))?;
                file.read_exact(&mut piece)?;
                Ok::<_, io::Error>((piece, file))
            });
            let (piece, file) = read.await.map_err(io::Error::other)??;
            let count = piece.len() as u64;
            Ok::<_, io::Error>(Some((piece, (file, from + count, left - count))))
        },
    ))
}

/// How a browser is to take a file, and under which name it keeps it.
fn disposition(permit: &Permit) -> String {
    let how = shown_how(&permit.media_type);
    format!("{how}; filename*=UTF-8''{}", escaped(&permit.name))
}

fn unwritten(why: Unwritten) -> Answer {
    match why {
        Unwritten::Taken => (
            TransferOutcome::Taken,
            StatusCode::CONFLICT,
            "the file exists \
                                                                            already",
        ),
        Unwritten::Full => {
            (TransferOutcome::Full, StatusCode::INSUFFICIENT_STORAGE, "no space left")
        }
        Unwritten::Failed(error) => failed(&error),
    }
}

fn lost(error: tokio::task::JoinError) -> Answer {
    failed(&io::Error::other(error))
}

fn failed(error: &io::Error) -> Answer {
    tell!(event::MEDIA_FILE_FAILED, %error);
    (TransferOutcome::Failed, StatusCode::INTERNAL_SERVER_ERROR, "the storage failed")
}

/// An answer without a body.
fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
