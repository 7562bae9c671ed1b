//! Guard of the API: token, scope, product, size of the body, and an entry in the audit log.
//!
//! Every request passes [`guard`] before its handler. The [table](crate::table) has the demands of
//! a route; this file knows no path's meaning. A call that changes something continues when its
//! caller disconnects, so that no change is missing in the audit log. Invariant: without a token
//! only the open routes answer, no handler sees a body above the limit, and the entry of a call is
//! stored before the call is answered.

use crate::api::Shared;
use crate::audit_log::{Entry, Keep, Outcome, cut};
use crate::body::{self, Held};
use crate::fault::{Code, Fault};
use crate::listener::ApiSlot;
use crate::sessions::{Session, origin};
use crate::table::{About, Of, Rule};
use crate::tokens::scope::Scope;
use crate::tokens::{Token, Wrong};
use axum::body::Body;
use axum::extract::connect_info::ConnectInfo;
use axum::extract::{FromRequestParts, Query, RawPathParams, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use model::link::Source;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Milliseconds in which messages that are alike share an entry of the audit log.
const MESSAGES_MS: u64 = 10_000;

/// Milliseconds in which refusals that are alike share an entry of the audit log.
const REFUSALS_MS: u64 = 1_000;

/// The caller: its token, and its session where it is a browser. In the extensions of a request to
/// a route that is not open.
#[derive(Clone)]
pub(crate) struct Caller(pub(crate) Arc<Token>, pub(crate) Option<Arc<Session>>);

/// The caller of a route without required scopes: its token or session, and the address it comes
/// from, as far as they are known. In the extensions of every request.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) caller: Option<Caller>,
    pub(crate) address: Option<IpAddr>,
}

impl Visitor {
    /// Source of the request; all unknown addresses are one source.
    pub(crate) fn source(&self) -> Source {
        Source::of(self.address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))
    }
}

impl Caller {
    /// Checks that the caller may ask about this product.
    pub(crate) fn is_for(&self, product: &str) -> Result<(), Fault> {
        match self.0.is_for(product) {
            true => Ok(()),
            false => Err(Fault::product_forbidden(&self.0)),
        }
    }

    /// Checks that the caller has one of these scopes.
    pub(crate) fn is_good_for(&self, wanted: &[Scope]) -> Result<(), Fault> {
        match self.0.scopes.allow(wanted) {
            true => Ok(()),
            false => Err(Fault::scope_missing(&self.0, wanted)),
        }
    }

    /// Whether the token is revoked or expired, or the session has ended.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        let is_session_over = self.1.as_ref().is_some_and(|session| session.is_over(now_ms));
        is_session_over || self.0.is_revoked() || self.0.is_expired(now_ms)
    }

    /// Returns when it is revoked, or its session ended.
    pub(crate) async fn ended(&self) {
        // An error means that what it is about is gone: the same.
        let mut token = self.0.over();
        let Some(session) = &self.1 else {
            _ = token.wait_for(|over| *over).await;
            return;
        };
        let mut session = session.over();
        tokio::select! {
            _ = token.wait_for(|over| *over) => {}
            _ = session.wait_for(|over| *over) => {}
        }
    }

    /// Marks the caller's session as not idle, because it reads a live stream.
    pub(crate) fn see(&self, now_ms: u64) {
        if let Some(session) = &self.1 {
            session.see(now_ms);
        }
    }
}

/// Name of the token that a call without required scopes showed; in the extensions of its answer.
#[derive(Clone)]
pub(crate) struct By(pub(crate) String);

/// A call's part of its entry in the audit log, known before the call is carried out.
struct Call {
    token: Option<String>,
    peer: Option<String>,
    action: String,
    on: String,
}

/// A route's own guard.
pub(crate) type Post = (Arc<Shared>, Rule);

/// Lets a request in, with its whole body.
pub(crate) async fn guard(
    State((api, rule)): State<Post>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, stream) = request.into_parts();
    let (found, seat) = (identify(&api, &parts), seat(&parts));
    let is_open = rule.scopes.is_empty();
    let caller = found.as_ref().ok().filter(|_| !is_open).cloned();
    let name = caller.as_ref().map(|caller| caller.0.name.clone());
    let address = seat.as_ref().map(|seat| seat.peer().ip());
    parts.extensions.insert(Visitor { caller: found.as_ref().ok().cloned(), address });
    let call = Call::new(&parts, rule.path, (name, seat));
    if is_banned(&api, found.as_ref().ok(), address) {
        body::pass_over(stream.into_data_stream());
        return refuse(&api, call, Fault::banned()).await;
    }
    if !is_open {
        let allowed = match found {
            Ok(caller) => may(&caller.0, rule, &mut parts).await,
            Err(wrong) => {
                if let (Wrong::Unknown, Some(address)) = (wrong, address) {
                    login_failed(&api, address, None);
                }
                Err(Fault::unauthorized(wrong))
            }
        };
        if let Err(fault) = allowed {
            body::pass_over(stream.into_data_stream());
            return refuse(&api, call, fault).await;
        }
    }
    if let Some(caller) = caller {
        parts.extensions.insert(caller);
    }
    let bounds = (api.body_bytes_max(parts.uri.path()), api.api_limits().body_ms_max);
    let (bytes, held) = match body::whole(stream, bounds, api.bodies.room()).await {
        Ok(whole) => whole,
        Err(fault) => return fault.into_response(),
    };
    let request = Request::from_parts(parts, Body::from(bytes));
    let Some(messages) = rule.kept() else { return answered(next.run(request), held).await };
    let keep = if messages { Keep::Gathered(MESSAGES_MS) } else { Keep::Each };
    let at_work = api.seats.at_work();
    let work = async move {
        let response = answered(next.run(request), held).await;
        let entry = call.entry((api.settings.wall_ms)(), &response);
        note(&api, keep, entry).await;
        drop(at_work);
        response
    };
    // The caller may disconnect; its order is executed and logged all the same.
    tokio::spawn(work).await.unwrap_or_else(|_| Fault::internal().into_response())
}

/// Whether the address is banned, or the user who is at the console.
fn is_banned(api: &Shared, caller: Option<&Caller>, address: Option<IpAddr>) -> bool {
    let token = caller.map(|caller| &caller.0).filter(|token| token.role.is_some());
    api.settings.bans.refuses(address, token.map(|token| &*token.name))
}

/// A token or a password was wrong that came from elsewhere.
pub(crate) fn login_failed(api: &Shared, address: IpAddr, user: Option<&str>) {
    if !address.to_canonical().is_loopback() {
        api.settings.bans.login_failed(address, user);
    }
}

/// The answer for an unknown route: only a caller with a token learns that it does not exist.
pub(crate) async fn nothing(api: &Arc<Shared>, request: Request, fault: Fault) -> Response {
    let (parts, stream) = request.into_parts();
    body::pass_over(stream.into_data_stream());
    match identify(api, &parts) {
        Ok(_) => fault.into_response(),
        Err(wrong) => {
            let call = Call::new(&parts, parts.uri.path(), (None, seat(&parts)));
            refuse(api, call, Fault::unauthorized(wrong)).await
        }
    }
}

/// The caller of a request, by its token or else by the console's cookie; a connection with a valid
/// one is known from then on.
fn identify(api: &Shared, parts: &Parts) -> Result<Caller, Wrong> {
    let now_ms = (api.settings.wall_ms)();
    let found = match (bearer(&parts.headers), origin::cookie(&parts.headers)) {
        (None, Some(_)) if !origin::is_own(&parts.method, &parts.headers) => {
            Err(Wrong::CrossOrigin)
        }
        (None, Some(cookie)) => api
            .sessions
            .find(now_ms, cookie)
            .map(|session| Caller(Arc::clone(&session.token), Some(session))),
        (token, _) => api.tokens.find(token, now_ms).map(|token| Caller(token, None)),
    };
    if let (Ok(_), Some(seat)) = (&found, seat(parts)) {
        seat.know();
    }
    found
}

fn seat(parts: &Parts) -> Option<ApiSlot> {
    parts.extensions.get::<ConnectInfo<ApiSlot>>().map(|info| info.0.clone())
}

/// The answer, while the bytes of the body are counted.
async fn answered(response: impl Future<Output = Response>, held: Held) -> Response {
    let response = response.await;
    drop(held);
    response
}

/// The token in a request, if it brings one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether this token may do that.
async fn may(token: &Token, rule: Rule, parts: &mut Parts) -> Result<(), Fault> {
    if !token.scopes.allow(rule.scopes) {
        return Err(Fault::scope_missing(token, rule.scopes));
    }
    if token.products.is_empty() {
        return Ok(());
    }
    let named = match rule.of {
        // The handler looks: it is in the body, or in what the id stands for.
        Of::Body | Of::Free => return Ok(()),
        Of::Other => Vec::new(),
        Of::Path => path_product(parts).await.into_iter().collect(),
        Of::Query => query_products(&parts.uri),
    };
    match !named.is_empty() && named.iter().all(|product| token.is_for(product)) {
        true => Ok(()),
        false => Err(Fault::product_forbidden(token)),
    }
}

async fn path_product(parts: &mut Parts) -> Option<String> {
    let params = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    let mut params = params.iter();
    params.find(|(name, _)| *name == "product").map(|(_, value)| value.to_owned())
}

fn query_products(uri: &Uri) -> Vec<String> {
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return Vec::new();
    };
    let products = pairs.into_iter().filter(|(name, _)| name == "product");
    products.map(|(_, value)| value).collect()
}

impl Call {
    fn new(parts: &Parts, path: &str, who: (Option<String>, Option<ApiSlot>)) -> Call {
        let on = parts.uri.path_and_query().map_or("", |on| on.as_str());
        Call {
            token: who.0,
            peer: who.1.map(|seat| seat.peer().to_string()),
            action: cut(&format!("{} {path}", parts.method)),
            on: cut(on),
        }
    }

    fn entry(self, at_ms: u64, response: &Response) -> Entry {
        let by = response.extensions().get::<By>().map(|By(name)| name.clone());
        let about = response.extensions().get::<About>().map(|About(about)| cut(about));
        let status = response.status().as_u16();
        Entry {
            at_ms,
            token: self.token.or(by),
            peer: self.peer,
            action: self.action,
            on: about.unwrap_or(self.on),
            outcome: Outcome::of(status),
            status,
            code: response.extensions().get::<Code>().map(|Code(code)| *code),
            more: 0,
        }
    }
}

async fn refuse(api: &Arc<Shared>, mut call: Call, fault: Fault) -> Response {
    let response = fault.into_response();
    if call.token.is_none() {
        // A stranger chooses the path freely, so all its requests share one entry.
        call.action = "any".into();
    }
    let entry = call.entry((api.settings.wall_ms)(), &response);
    note(api, Keep::Gathered(REFUSALS_MS), entry).await;
    response
}

async fn note(api: &Arc<Shared>, keep: Keep, entry: Entry) {
    let entries = api.audit_log.gather(keep, entry);
    if entries.is_empty() {
        return;
    }
    let api = Arc::clone(api);
    // The audit log itself reports a failure to write.
    let _ = tokio::task::spawn_blocking(move || api.audit_log.keep(keep, &entries)).await;
}
