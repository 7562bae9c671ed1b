//! Clients of topics: their state and subscriptions, and operators' changes to them.
//!
//! A client is known while it has a session, online or not. A client of any identifier can be named
//! here: in the path, or, for characters that a path does not carry, in the query. Invariant: an
//! identifier or filter is checked before it reaches a shard.

pub(crate) mod disconnections;
pub(crate) mod top;

use super::{Asked, Part, ask, asked, done, page, part};
use crate::answers::clients::{
    Client, ClientKicked, ClientPage, SessionDropped, Subscribed, Subscription, Subscriptions,
    Unsubscribed,
};
use crate::answers::devices::Kicked;
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::orders::messages::{
    self, ClientQuery, ClientsQuery, KickQuery, NamedKickQuery, NamedUnsubscribeQuery,
    SubscribeBody, UnsubscribeQuery,
};
use axum::Json;
use axum::extract::State;
use model::ports::topics::{ClientFilter, TopicAnswer, TopicCommand};

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/clients`
pub(crate) async fn list(State(api): Api, query: Asked<ClientsQuery>) -> Told<ClientPage> {
    let query = asked(query)?;
    let command = TopicCommand::Clients {
        of: ClientFilter {
            online: query.online,
            user: query.user.map(Into::into),
            prefix: query.prefix.map(Into::into),
            address: query.address,
            queued_min: query.queued_min,
            dropped_min: query.dropped_min,
        },
        after: query.after,
        count: page(query.limit)?,
    };
    match ask(&api, command).await? {
        TopicAnswer::Clients { clients, next } => Ok(Json(ClientPage {
            clients: clients.iter().map(Client::from).collect(),
            next: next.map(|next| next.to_string()),
        })),
        _ => Err(Fault::internal()),
    }
}

/// `GET /v1/clients/{client}`
pub(crate) async fn one(State(api): Api, path: Part) -> Told<Client> {
    show(&api, part(path)?).await
}

/// `GET /v1/client`: any identifier, also one that a path does not carry.
pub(crate) async fn one_named(State(api): Api, query: Asked<ClientQuery>) -> Told<Client> {
    show(&api, asked(query)?.client_id).await
}

async fn show(api: &Shared, client: String) -> Told<Client> {
    let client = messages::client(client, &api.limits().topics)?;
    match ask(api, TopicCommand::Client(client)).await? {
        TopicAnswer::Client(Some(state)) => Ok(Json(Client::from(&*state))),
        TopicAnswer::Client(None) => Err(Fault::unknown("client")),
        _ => Err(Fault::internal()),
    }
}

/// `DELETE /v1/clients/{client}`: its connection, or with `session=true` all that is known of it.
pub(crate) async fn kick(
    State(api): Api,
    path: Part,
    query: Asked<KickQuery>,
) -> Told<ClientKicked> {
    end(&api, part(path)?, asked(query)?.session).await
}

/// `DELETE /v1/client`: the same.
pub(crate) async fn kick_named(
    State(api): Api,
    query: Asked<NamedKickQuery>,
) -> Told<ClientKicked> {
    let NamedKickQuery { client_id, session } = asked(query)?;
    end(&api, client_id, session).await
}

async fn end(api: &Shared, client: String, session: bool) -> Told<ClientKicked> {
    let client = messages::client(client, &api.limits().topics)?;
    if session {
        let dropped = done(api, TopicCommand::DropSession(client)).await?;
        return match dropped {
            true => Ok(Json(ClientKicked::Session(SessionDropped { dropped: true }))),
            false => Err(Fault::unknown("client")),
        };
    }
    let was_online = done(api, TopicCommand::Kick(client)).await?;
    Ok(Json(ClientKicked::Connection(Kicked { was_online })))
}

/// `GET /v1/clients/{client}/subscriptions`
pub(crate) async fn subscriptions(State(api): Api, path: Part) -> Told<Subscriptions> {
    list_subscriptions(&api, part(path)?).await
}

/// `GET /v1/client/subscriptions`
pub(crate) async fn subscriptions_named(
    State(api): Api,
    query: Asked<ClientQuery>,
) -> Told<Subscriptions> {
    list_subscriptions(&api, asked(query)?.client_id).await
}

async fn list_subscriptions(api: &Shared, client: String) -> Told<Subscriptions> {
    let client = messages::client(client, &api.limits().topics)?;
    match ask(api, TopicCommand::Subscriptions(client)).await? {
        TopicAnswer::Subscriptions(Some(subscriptions)) => {
            let subscriptions = subscriptions.iter().map(Subscription::from).collect();
            Ok(Json(Subscriptions { subscriptions }))
        }
        TopicAnswer::Subscriptions(None) => Err(Fault::unknown("client")),
        _ => Err(Fault::internal()),
    }
}

/// `POST /v1/clients/{client}/subscriptions`
pub(crate) async fn subscribe(
    State(api): Api,
    path: Part,
    body: Body<SubscribeBody>,
) -> Told<Subscribed> {
    add_subscription(&api, part(path)?, &body).await
}

/// `POST /v1/client/subscriptions`
pub(crate) async fn subscribe_named(
    State(api): Api,
    query: Asked<ClientQuery>,
    body: Body<SubscribeBody>,
) -> Told<Subscribed> {
    add_subscription(&api, asked(query)?.client_id, &body).await
}

async fn add_subscription(
    api: &Shared,
    client: String,
    body: &Body<SubscribeBody>,
) -> Told<Subscribed> {
    let limits = api.limits();
    let limits = &limits.topics;
    let client = messages::client(client, limits)?;
    let wish = body.read()?.wish(limits)?;
    match done(api, TopicCommand::Subscribe(client, wish)).await? {
        true => Ok(Json(Subscribed { subscribed: true })),
        false => Err(Fault::unknown("client")),
    }
}

/// `DELETE /v1/clients/{client}/subscriptions`
pub(crate) async fn unsubscribe(
    State(api): Api,
    path: Part,
    query: Asked<UnsubscribeQuery>,
) -> Told<Unsubscribed> {
    end_subscription(&api, part(path)?, &asked(query)?.filter).await
}

/// `DELETE /v1/client/subscriptions`
pub(crate) async fn unsubscribe_named(
    State(api): Api,
    query: Asked<NamedUnsubscribeQuery>,
) -> Told<Unsubscribed> {
    let NamedUnsubscribeQuery { client_id, filter } = asked(query)?;
    end_subscription(&api, client_id, &filter).await
}

async fn end_subscription(api: &Shared, client: String, filter: &str) -> Told<Unsubscribed> {
    let limits = api.limits();
    let limits = &limits.topics;
    let client = messages::client(client, limits)?;
    let filter = messages::known_filter(filter, limits)?;
    match done(api, TopicCommand::Unsubscribe(client, filter)).await? {
        true => Ok(Json(Unsubscribed { unsubscribed: true })),
        false => Err(Fault::unknown("subscription")),
    }
}
