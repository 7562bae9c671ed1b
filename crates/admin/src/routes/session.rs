//! Sessions of the console: a browser shows a token once, and has a cookie from then on.
//!
//! Users of the book and of the password file log in by name and password if they have a role.
//! Invariant: a log-in is made by a script of this origin, and neither
//! an answer nor the audit log has the token or the cookie.

use crate::answers::session::{Session, SessionEnded, WhoAsks};
use crate::api::{Api, Shared};
use crate::describe::{Answers, Body, Operation};
use crate::fault::Fault;
use crate::guard::{By, Caller, Visitor, login_failed};
use crate::routes::users;
use crate::sessions::origin;
use crate::tokens::{Token, Wrong};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, SET_COOKIE};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use model::ports::users::UserOrder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Longest text that is looked at as a token, bytes.
const TOKEN_BYTES_MAX: usize = 1_024;

/// Bytes of a log-in: strangers send it, and it has little to say. A token one too long fits,
/// however its characters are escaped (RFC 8259 7), and gets that error.
pub(crate) const LOG_IN_BYTES_MAX: usize = 16 * TOKEN_BYTES_MAX;

/// A log-in: either a token, or a user who has a role, with its password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogIn {
    /// A token of the API.
    #[schemars(length(min = 1, max = TOKEN_BYTES_MAX))]
    token: Option<String>,
    /// The name of a user.
    #[schemars(length(min = 1, max = UserOrder::NAME_BYTES_MAX))]
    user: Option<String>,
    /// Its password.
    #[schemars(length(min = 1, max = UserOrder::PASSWORD_BYTES_MAX))]
    password: Option<String>,
}

/// Credentials of a log-in.
enum Who {
    Token(String),
    User(String, String),
}

impl LogIn {
    fn who(self) -> Result<Who, Fault> {
        let within = |text: &str, max: usize| (1..=max).contains(&text.len());
        match (self.token, self.user, self.password) {
            (Some(token), None, None) if within(&token, TOKEN_BYTES_MAX) => Ok(Who::Token(token)),
            (Some(_), None, None) => {
                Err(Fault::bad(format!("`token` must have 1 to {TOKEN_BYTES_MAX} bytes")))
            }
            (None, Some(user), Some(password))
                if within(&user, UserOrder::NAME_BYTES_MAX)
                    && within(&password, UserOrder::PASSWORD_BYTES_MAX) =>
            {
                Ok(Who::User(user, password))
            }
            (None, Some(_), Some(_)) => Err(Fault::bad(format!(
                "`user` must have 1 to {} bytes, `password` 1 to {}",
                UserOrder::NAME_BYTES_MAX,
                UserOrder::PASSWORD_BYTES_MAX
            ))),
            _ => Err(Fault::bad("give either `token`, or `user` and `password`")),
        }
    }
}

/// An answer with a cookie, and whose it is.
pub(crate) struct WithCookie<T> {
    line: String,
    by: Option<String>,
    told: T,
}

impl<T: Serialize> IntoResponse for WithCookie<T> {
    fn into_response(self) -> Response {
        let head = [(SET_COOKIE, self.line), (CACHE_CONTROL, "no-store".into())];
        let mut response = (head, Json(self.told)).into_response();
        if let Some(name) = self.by {
            response.extensions_mut().insert(By(name));
        }
        response
    }
}

impl<T: JsonSchema> Answers for WithCookie<T> {
    fn answers(operation: &mut Operation<'_>) {
        Json::<T>::answers(operation);
    }
}

/// `POST /v1/session`
pub(crate) async fn begin(
    State(api): Api,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    body: Body<LogIn>,
) -> Result<WithCookie<WhoAsks>, Fault> {
    if !origin::is_own(&Method::POST, &headers) {
        return Err(Fault::unauthorized(Wrong::CrossOrigin));
    }
    let now_ms = (api.settings.wall_ms)();
    if let Some(wait_s) = api.attempts.wait_s(now_ms, visitor.address) {
        return Err(Fault::too_many_logins(wait_s));
    }
    let found = match body.read()?.who()? {
        Who::Token(token) => api.tokens.find(Some(&token), now_ms).map(|token| (token, 0)),
        Who::User(user, _) if api.settings.bans.refuses(None, Some(&user)) => {
            return Err(Fault::banned());
        }
        Who::User(user, password) => user_of(&api, user, password).await?,
    };
    let token = found.map_err(|wrong| {
        api.attempts.fail(now_ms, visitor.address);
        if let Some(address) = visitor.address {
            login_failed(&api, address, None);
        }
        Fault::unauthorized(wrong)
    })?;
    let of_user = token.0.role.map(|_| token.0.name.clone());
    let mut random = [0; 24];
    (api.settings.random)(&mut random);
    let (session, cookie) = api.sessions.begin(now_ms, token, (random, visitor.source()));
    if let Some(user) = of_user {
        // The user may have been changed while its password was being checked.
        users::end_outdated(&api, vec![user]).await;
    }
    let age_s = api.api_limits().console_age_s_max;
    let line = origin::set_cookie(&headers, Some((&cookie, age_s)));
    let by = Some(session.token.name.clone());
    let caller = Caller(Arc::clone(&session.token), Some(session));
    let told = WhoAsks { session: Some(Session::from(&caller)) };
    Ok(WithCookie { line, by, told })
}

/// The token and epoch of a user who has a role and this password. A user without one takes as
/// long.
async fn user_of(
    api: &Shared,
    user: String,
    password: String,
) -> Result<Result<(Arc<Token>, u64), Wrong>, Fault> {
    let _one = api.hashing.acquire().await.map_err(|_| Fault::internal())?;
    let (name, people) = (user.clone(), Arc::clone(&api.settings.people));
    let found = tokio::task::spawn_blocking(move || people.check(&name, &password)).await;
    let standing = found.map_err(|_| Fault::internal())?.map_err(users::fault)?;
    Ok(match (standing, api.role(&user)) {
        (Some(standing), Some(role)) => Ok((Arc::new(Token::of_user(user, role)), standing)),
        _ => Err(Wrong::NoSuchUser),
    })
}

/// `GET /v1/session`: a good answer for a stranger too, so that a page can ask before anybody
/// logged in.
pub(crate) async fn whose(Extension(visitor): Extension<Visitor>) -> Json<WhoAsks> {
    Json(WhoAsks { session: visitor.caller.as_ref().map(Session::from) })
}

/// `DELETE /v1/session`
pub(crate) async fn end(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> WithCookie<SessionEnded> {
    let session = caller.1.as_ref();
    session.into_iter().for_each(|session| api.sessions.end(session));
    let told = SessionEnded { ended: session.is_some() };
    WithCookie { line: origin::set_cookie(&headers, None), by: None, told }
}
