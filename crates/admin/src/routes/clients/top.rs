//! Top talkers: the names with the most traffic, or with the most bytes queued.

use super::super::{Asked, Part, asked, page, part};
use super::disconnections::waiting;
use crate::answers::clients::disconnections::SlowClients;
use crate::answers::clients::top::{TopList, TopOrder};
use crate::api::Api;
use crate::fault::Fault;
use crate::texts::{PageLimit, TopOrderName};
use axum::Json;
use axum::extract::State;
use model::ports::control::top::TopKind;
use model::ports::control::{Answer, Command};
use schemars::JsonSchema;
use serde::Deserialize;

/// Query of `/v1/top/{of}`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopQuery {
    /// Figure that the list is ranked by; `memory` for clients, users and addresses only.
    #[schemars(with = "Option<TopOrderName>", extend("default" = "bytes"))]
    by: Option<String>,
    /// Entries in the answer.
    #[schemars(with = "Option<PageLimit>")]
    limit: Option<u32>,
}

/// `GET /v1/top/{of}`
pub(crate) async fn top(
    State(api): Api,
    path: Part,
    query: Asked<TopQuery>,
) -> Result<Json<TopList>, Fault> {
    let (word, query) = (part(path)?, asked(query)?);
    let count = page(query.limit)?;
    let kind = TopKind::ALL.into_iter().find(|kind| kind.name() == word);
    let kind = kind.ok_or(Fault::unknown("list"))?;
    let by = query.by.as_deref().unwrap_or(TopOrder::Bytes.name());
    let order = TopOrder::ALL.into_iter().find(|order| order.name() == by);
    let order = order.ok_or_else(|| Fault::bad("`by` must be bytes, messages or memory"))?;
    let memory = match (order, kind) {
        (TopOrder::Memory, TopKind::Topics | TopKind::Groups) => {
            return Err(Fault::bad("memory is known for clients, users and addresses only"));
        }
        (TopOrder::Memory, _) => {
            let Answer::SlowClients(slow) = api.ask(Command::SlowClients).await? else {
                return Err(Fault::internal());
            };
            Some(SlowClients::of(&slow, &waiting(&api).await?, u32::MAX).waiting_by(kind))
        }
        _ => None,
    };
    let Answer::Top(page) = api.ask(Command::Top(kind)).await? else {
        return Err(Fault::internal());
    };
    let at_ms = (api.settings.wall_ms)();
    Ok(Json(TopList::of((kind, order), &page, memory.as_ref(), (at_ms, count))))
}
