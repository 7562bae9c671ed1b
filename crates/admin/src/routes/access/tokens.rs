//! Tokens of the API: made, listed, revoked.
//!
//! The store may block, so whatever changes a token is done on a thread that may wait. Invariant:
//! the token itself is in the answer that made it and nowhere else.

use super::super::{Asked, Part, asked, page, part};
use crate::answers::tokens::{ApiToken, ApiTokens, MadeApiToken, Revoked};
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::guard::Caller;
use crate::orders::tokens::{self, ApiTokenBody, TokensQuery};
use crate::table::About;
use crate::tokens::{TokenFault, Tokens};
use axum::extract::State;
use axum::{Extension, Json};
use std::sync::Arc;

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/tokens`
pub(crate) async fn list(State(api): Api, query: Asked<TokensQuery>) -> Told<ApiTokens> {
    let query = asked(query)?;
    let count = page(query.limit)? as usize;
    // One token more than requested shows whether there is a next page.
    let mut found = api.tokens.list(query.after.as_deref(), count + 1);
    let more = found.len() > count;
    found.truncate(count);
    let next = found.last().filter(|_| more).map(|token| token.name.clone());
    let now_ms = (api.settings.wall_ms)();
    let tokens = found.iter().map(|token| ApiToken::new(token, now_ms)).collect();
    Ok(Json(ApiTokens { tokens, next }))
}

/// `POST /v1/tokens`
pub(crate) async fn make(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    body: Body<ApiTokenBody>,
) -> Result<(Extension<About>, Json<MadeApiToken>), Fault> {
    let now_ms = (api.settings.wall_ms)();
    let order = body.read()?.order(now_ms)?;
    let scopes = order.scopes.names().join(",");
    let about = Extension(About(format!("{} for {scopes}", order.name)));
    let mut random = [0; 24];
    (api.settings.random)(&mut random);
    let made = change(&api, move |tokens| tokens.make(order, (now_ms, &caller.0.name), random));
    let (token, text) = made.await?;
    let made = ApiToken::new(&token, now_ms);
    Ok((about, Json(MadeApiToken { made, token: text })))
}

/// `GET /v1/tokens/{token}`
pub(crate) async fn one(State(api): Api, path: Part) -> Told<ApiToken> {
    let name = tokens::name(part(path)?)?;
    let found = api.tokens.one(&name).ok_or(Fault::unknown("token"))?;
    Ok(Json(ApiToken::new(&found, (api.settings.wall_ms)())))
}

/// `DELETE /v1/tokens/{token}`
pub(crate) async fn revoke(State(api): Api, path: Part) -> Told<Revoked> {
    let name = tokens::name(part(path)?)?;
    match change(&api, move |tokens| tokens.revoke(&name)).await? {
        true => Ok(Json(Revoked { revoked: true })),
        false => Err(Fault::unknown("token")),
    }
}

async fn change<T: Send + 'static>(
    api: &Arc<Shared>,
    order: impl FnOnce(&Tokens) -> Result<T, TokenFault> + Send + 'static,
) -> Result<T, Fault> {
    let api = Arc::clone(api);
    let done = tokio::task::spawn_blocking(move || order(&api.tokens)).await;
    done.map_err(|_| Fault::internal())?.map_err(Fault::token)
}
