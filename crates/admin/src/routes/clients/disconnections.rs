//! Ended connections, and clients that do not keep up. Both lists are in the memory of the shards.

use crate::answers::clients::disconnections::{DisconnectionPage, SlowClients};
use crate::api::{Api, Shared};
use crate::fault::Fault;
use crate::orders::disconnections::{DisconnectionsQuery, SlowClientsQuery};
use crate::routes::{Asked, ask, asked, page};
use axum::Json;
use axum::extract::State;
use model::ports::control::{Answer, Command};
use model::ports::topics::{ClientFilter, ClientState, TopicAnswer, TopicCommand};

/// Clients on a page of those with messages in their sessions, and such pages that are read.
const WAITING_PAGE: u32 = 1_000;
const WAITING_PAGES_MAX: u32 = 5;

/// `GET /v1/disconnections`: the newest first.
pub(crate) async fn list(
    State(api): Api,
    query: Asked<DisconnectionsQuery>,
) -> Result<Json<DisconnectionPage>, Fault> {
    let query = asked(query)?;
    let count = page(query.limit)?;
    let question = Command::Disconnections(Box::new(query.question(count)?));
    match api.ask(question).await? {
        Answer::Disconnections(found) => Ok(Json(DisconnectionPage::of(&found, count))),
        _ => Err(Fault::internal()),
    }
}

/// `GET /v1/slow_clients`: those with most waiting bytes first.
pub(crate) async fn slow(
    State(api): Api,
    query: Asked<SlowClientsQuery>,
) -> Result<Json<SlowClients>, Fault> {
    let count = page(asked(query)?.limit)?;
    let Answer::SlowClients(found) = api.ask(Command::SlowClients).await? else {
        return Err(Fault::internal());
    };
    Ok(Json(SlowClients::of(&found, &waiting(&api).await?, count)))
}

/// Clients with messages in their sessions, as many as are looked at.
pub(super) async fn waiting(api: &Shared) -> Result<Vec<ClientState>, Fault> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..WAITING_PAGES_MAX {
        let of =
            ClientFilter { online: Some(true), queued_min: Some(1), ..ClientFilter::default() };
        let command = TopicCommand::Clients { of, after, count: WAITING_PAGE };
        let TopicAnswer::Clients { clients, next } = ask(api, command).await? else {
            return Err(Fault::internal());
        };
        found.extend(clients);
        after = next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}
