//! Clients of topics: their state and subscriptions, and what an operator does to them.
//!
//! A client is known while it has a session, online or not. Invariant: an identifier or filter is
//! checked before a shard hears of it.

use super::{Part, ask, done, page, part};
use crate::answers;
use crate::api::Api;
use crate::body::read;
use crate::fault::Fault;
use crate::orders::messages::{self, ClientsQuery, KickQuery, SubscribeBody, UnsubscribeQuery};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use model::ports::topics::{TopicAnswer, TopicCommand};
use serde_json::{Value, json};

type Told = Result<Json<Value>, Fault>;

/// `GET /v1/clients`
pub(crate) async fn list(
    State(api): Api,
    query: Result<Query<ClientsQuery>, QueryRejection>,
) -> Told {
    let Query(query) = query.map_err(|error| Fault::bad(error.body_text()))?;
    let command = TopicCommand::Clients {
        online: query.online,
        user: query.user.map(Into::into),
        prefix: query.prefix.map(Into::into),
        after: query.after,
        count: page(query.limit)?,
    };
    match ask(&api, command).await? {
        TopicAnswer::Clients { clients, next } => Ok(Json(json!({
            "clients": clients.iter().map(answers::client).collect::<Vec<_>>(),
            "next": next.map(|next| next.to_string()),
        }))),
        _ => Err(Fault::internal()),
    }
}

/// `GET /v1/clients/{client}`
pub(crate) async fn one(State(api): Api, path: Part) -> Told {
    let client = messages::client(part(path)?, &api.settings.limits.topics)?;
    match ask(&api, TopicCommand::Client(client)).await? {
        TopicAnswer::Client(Some(state)) => Ok(Json(answers::client(&state))),
        TopicAnswer::Client(None) => Err(Fault::unknown("client")),
        _ => Err(Fault::internal()),
    }
}

/// `DELETE /v1/clients/{client}`: its connection, or with `session=true` all that is known of it.
pub(crate) async fn kick(
    State(api): Api,
    path: Part,
    query: Result<Query<KickQuery>, QueryRejection>,
) -> Told {
    let Query(query) = query.map_err(|error| Fault::bad(error.body_text()))?;
    let client = messages::client(part(path)?, &api.settings.limits.topics)?;
    if query.session {
        let dropped = done(&api, TopicCommand::DropSession(client)).await?;
        return match dropped {
            true => Ok(Json(json!({ "dropped": true }))),
            false => Err(Fault::unknown("client")),
        };
    }
    let was_online = done(&api, TopicCommand::Kick(client)).await?;
    Ok(Json(json!({ "was_online": was_online })))
}

/// `GET /v1/clients/{client}/subscriptions`
pub(crate) async fn subscriptions(State(api): Api, path: Part) -> Told {
    let client = messages::client(part(path)?, &api.settings.limits.topics)?;
    match ask(&api, TopicCommand::Subscriptions(client)).await? {
        TopicAnswer::Subscriptions(Some(subscriptions)) => {
            let told = subscriptions.iter().map(answers::subscription);
            Ok(Json(json!({ "subscriptions": told.collect::<Vec<_>>() })))
        }
        TopicAnswer::Subscriptions(None) => Err(Fault::unknown("client")),
        _ => Err(Fault::internal()),
    }
}

/// `POST /v1/clients/{client}/subscriptions`
pub(crate) async fn subscribe(State(api): Api, path: Part, body: Bytes) -> Told {
    let limits = &api.settings.limits.topics;
    let client = messages::client(part(path)?, limits)?;
    let wish = read::<SubscribeBody>(&body)?.wish(limits)?;
    match done(&api, TopicCommand::Subscribe(client, wish)).await? {
        true => Ok(Json(json!({ "subscribed": true }))),
        false => Err(Fault::unknown("client")),
    }
}

/// `DELETE /v1/clients/{client}/subscriptions`
pub(crate) async fn unsubscribe(
    State(api): Api,
    path: Part,
    query: Result<Query<UnsubscribeQuery>, QueryRejection>,
) -> Told {
    let Query(query) = query.map_err(|error| Fault::bad(error.body_text()))?;
    let limits = &api.settings.limits.topics;
    let client = messages::client(part(path)?, limits)?;
    let filter = messages::filter(&query.filter, limits)?;
    match done(&api, TopicCommand::Unsubscribe(client, filter)).await? {
        true => Ok(Json(json!({ "unsubscribed": true }))),
        false => Err(Fault::unknown("subscription")),
    }
}
