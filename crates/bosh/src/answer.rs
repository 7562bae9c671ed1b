//! HTTP of BOSH: a request is read, handed to its session, and answered when that says so.
//!
//! Faults of sessions are answered in their own words with status 200, as XEP-0124 17 has it; what
//! is no request of BOSH at all, in those of HTTP. Invariant: a page of a site that the listener
//! does not let in changes nothing here.

use crate::door::{BoshBounds, Caller};
use crate::host_meta;
use crate::sessions::{Posted, Sessions};
use crate::tally::{BoshOutcome, BoshTally};
use axum::body::{Body, HttpBody};
use axum::http::header;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use model::limits::seats::{NoSeat, SourceSeat, SourceSeats};
use model::link::Source;
use net::layer::websocket::is_known;
use proto_xmpp::bosh::{BoshFault, BoshRequest};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How stanzas are sent.
const XML: &str = "text/xml; charset=utf-8";

/// A listener that is handed here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BoshListener {
    /// The path of BOSH; empty: there is none.
    pub path: Box<str>,
    /// That of XMPP in WebSockets.
    pub web_socket: Option<Box<str>>,
    /// Origins of pages that may connect, besides those of the host that they ask for.
    pub origins: Vec<String>,
    /// Whether the listener serves nothing else by HTTP: then further requests on a connection are
    /// for this thread, too.
    pub keeps_alone: bool,
}

/// Why a body was not read.
enum Unread {
    /// The limit of bodies being read is reached, in all or of one source.
    Full(NoSeat),
    /// The body is larger than the limit, or broke off.
    TooLarge,
}

/// The sessions with what serves them.
pub(crate) struct Desk {
    pub(crate) sessions: Sessions,
    pub(crate) tally: Arc<BoshTally>,
    /// Its bounds in force.
    pub(crate) bounds: RwLock<Arc<BoshBounds>>,
    /// Memory that all requests being read may take together, KiB.
    pub(crate) reading: Arc<SourceSeats>,
    /// The listeners, by their numbers.
    pub(crate) listeners: RwLock<Vec<Arc<BoshListener>>>,
}

impl Desk {
    /// Answers a request.
    pub(crate) async fn answer(
        self: Arc<Desk>,
        caller: Caller,
        request: Request<Body>,
    ) -> Response<Body> {
        let Some(listener) = self.listener(caller.door) else {
            return self.refuse(BoshOutcome::Method, StatusCode::NOT_FOUND, "no such listener");
        };
        let mut response = self.answer_at(&listener, caller, request).await;
        if !listener.keeps_alone {
            // What this connection asks next may be for a shard.
            put(response.headers_mut(), header::CONNECTION, "close");
        }
        response
    }

    /// Its bounds in force.
    pub(crate) fn bounds(&self) -> Arc<BoshBounds> {
        self.bounds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets other bounds.
    pub(crate) fn set_bounds(&self, bounds: BoshBounds) {
        *self.bounds.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(bounds);
    }

    /// The listener of this number.
    fn listener(&self, door: u8) -> Option<Arc<BoshListener>> {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        listeners.get(usize::from(door)).cloned()
    }

    /// Sets the listener of this number.
    pub(crate) fn set_listener(&self, door: u8, listener: BoshListener) {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        let at = usize::from(door);
        if at >= listeners.len() {
            listeners.resize_with(at + 1, Arc::default);
        }
        listeners[at] = Arc::new(listener);
    }

    async fn answer_at(
        &self,
        listener: &BoshListener,
        caller: Caller,
        request: Request<Body>,
    ) -> Response<Body> {
        let path = request.uri().path();
        if path.starts_with(host_meta::PATH) {
            let mut response = self.host_meta(listener, caller, &request);
            put(response.headers_mut(), header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
            return response;
        }
        if path != &*listener.path {
            let why = "BOSH is served at another path";
            return self.refuse(BoshOutcome::Method, StatusCode::NOT_FOUND, why);
        }
        let origin = text(request.headers(), header::ORIGIN).map(str::to_owned);
        let host = host_of(&request);
        if origin.as_ref().is_some_and(|origin| !is_known(origin, host, &listener.origins)) {
            let why = "origin not allowed: see websocket_origins of the listener";
            return self.refuse(BoshOutcome::Origin, StatusCode::FORBIDDEN, why);
        }
        let mut response = match *request.method() {
            Method::POST => self.post(caller, request).await,
            Method::OPTIONS => self.preflight(),
            _ => {
                let why = "only POST is supported";
                let mut response =
                    self.refuse(BoshOutcome::Method, StatusCode::METHOD_NOT_ALLOWED, why);
                put(response.headers_mut(), header::ALLOW, "POST, OPTIONS");
                response
            }
        };
        let headers = response.headers_mut();
        put(headers, header::VARY, "Origin");
        if let Some(origin) = origin {
            put(headers, header::ACCESS_CONTROL_ALLOW_ORIGIN, &origin);
        }
        response
    }

    /// Reads a body. It takes room as it comes: what is announced and never sent takes none from
    /// others.
    async fn whole(&self, source: Source, mut body: Body) -> Result<(Vec<u8>, SourceSeat), Unread> {
        let most = self.bounds().request_bytes_max();
        let (mut bytes, mut room) = (Vec::new(), self.reading.take(source).map_err(Unread::Full)?);
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let Ok(piece) = frame.map_err(|_| Unread::TooLarge)?.into_data() else { continue };
            let length = bytes.len() + piece.len();
            if length > most {
                return Err(Unread::TooLarge);
            }
            let more = (length as u32 / 1_024 + 1).saturating_sub(room.count());
            if more > 0 {
                room.grow(more).map_err(Unread::Full)?;
            }
            bytes.extend_from_slice(&piece);
        }
        Ok((bytes, room))
    }

    async fn post(&self, caller: Caller, request: Request<Body>) -> Response<Body> {
        let source = Source::of(caller.peer.ip());
        let time = self.bounds().request_time();
        let whole = timeout(time, self.whole(source, request.into_body())).await;
        let (bytes, room) = match whole.unwrap_or(Err(Unread::TooLarge)) {
            Ok(whole) => whole,
            Err(Unread::Full(why)) => return self.is_full(BoshOutcome::of(why)),
            Err(Unread::TooLarge) => {
                let why = "the request is too large or did not arrive in time";
                return self.refuse(BoshOutcome::TooLarge, StatusCode::PAYLOAD_TOO_LARGE, why);
            }
        };
        let request = match BoshRequest::read(&bytes) {
            Ok(request) => request,
            Err(fault) => return self.ended(BoshOutcome::BadRequest, fault),
        };
        drop(bytes);
        let (reply, told) = oneshot::channel();
        match &request.sid {
            None if request.to.is_empty() => {
                return self.ended(BoshOutcome::BadRequest, BoshFault::ImproperAddressing);
            }
            None => {
                if let Err(why) = self
                    .sessions
                    .begin((caller, self.bounds().terms()), Posted { request, reply, room })
                {
                    return self.is_full(BoshOutcome::of(why));
                }
                self.tally.count(BoshOutcome::Begun);
            }
            Some(sid) => {
                let Some(session) = self.sessions.find(sid, caller) else {
                    return self.ended(BoshOutcome::Unknown, BoshFault::ItemNotFound);
                };
                if session.send(Posted { request, reply, room }).await.is_err() {
                    return self.ended(BoshOutcome::Unknown, BoshFault::ItemNotFound);
                }
                self.tally.count(BoshOutcome::Taken);
            }
        }
        match told.await {
            Ok(answer) => stanzas(Body::from(Vec::from(&*answer))),
            // It ended while this one was on its way.
            Err(_) => stanzas(Body::from(BoshFault::ItemNotFound.answer())),
        }
    }

    fn is_full(&self, outcome: BoshOutcome) -> Response<Body> {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let why = match outcome {
            BoshOutcome::Source => "too many sessions or connections from your address",
            _ => "too many sessions or requests",
        };
        let mut response = self.refuse(outcome, status, why);
        put(response.headers_mut(), header::RETRY_AFTER, "5");
        response
    }

    fn preflight(&self) -> Response<Body> {
        self.tally.count(BoshOutcome::Told);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        put(headers, header::ACCESS_CONTROL_ALLOW_METHODS, "POST, OPTIONS");
        put(headers, header::ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type");
        put(headers, header::ACCESS_CONTROL_MAX_AGE, "7200");
        response
    }

    fn host_meta(
        &self,
        listener: &BoshListener,
        caller: Caller,
        request: &Request<Body>,
    ) -> Response<Body> {
        let asked = (host_of(request), caller.encrypted);
        let told =
            host_meta::answer(request.uri().path(), (listener, &self.bounds().limits.url), asked);
        match (request.method(), told) {
            (&Method::GET | &Method::HEAD, Some((media_type, text))) => {
                self.tally.count(BoshOutcome::Told);
                let mut response = Response::new(Body::from(text));
                put(response.headers_mut(), header::CONTENT_TYPE, media_type);
                response
            }
            (_, Some(_)) => {
                let status = StatusCode::METHOD_NOT_ALLOWED;
                let mut response = self.refuse(
                    BoshOutcome::Method,
                    status,
                    "only GET is \
                                                                             supported",
                );
                put(response.headers_mut(), header::ALLOW, "GET, HEAD");
                response
            }
            (_, None) => self.refuse(BoshOutcome::Method, StatusCode::NOT_FOUND, "not found"),
        }
    }

    /// The answer to a request without a session.
    fn ended(&self, outcome: BoshOutcome, fault: BoshFault) -> Response<Body> {
        self.tally.count(outcome);
        stanzas(Body::from(fault.answer()))
    }

    fn refuse(&self, outcome: BoshOutcome, status: StatusCode, why: &str) -> Response<Body> {
        self.tally.count(outcome);
        let mut response = Response::new(Body::from(format!("{why}\n")));
        *response.status_mut() = status;
        put(response.headers_mut(), header::CONTENT_TYPE, "text/plain; charset=utf-8");
        response
    }
}

/// The host that is asked for, with its port.
fn host_of(request: &Request<Body>) -> &str {
    text(request.headers(), header::HOST).unwrap_or_default()
}

fn stanzas(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    put(headers, header::CONTENT_TYPE, XML);
    put(headers, header::CACHE_CONTROL, "no-store");
    put(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // What cannot stand there came from nobody who could read the answer.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
