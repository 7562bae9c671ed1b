//! Presence: what memory says, what the directory says, and whether they agree.
//!
//! Memory is asked through the shards, the directory through the process's queries. Queries may
//! block, so they are asked on threads that may wait: a bounded number of questions, and one audit.
//! Invariant: an answer about the directory never comes from memory, nor the other way round.

use super::{Asked, asked};
use crate::answers::presence as answers;
use crate::answers::presence::{
    Audit, Presence, PresenceHistory, PresenceList, PresenceMoment, PresenceStatistics,
    StoredPresence, StoredPresenceList,
};
use crate::api::{Api, Shared};
use crate::describe::{Body, OptionalBody};
use crate::fault::Fault;
use crate::orders::presence_questions::{
    AuditBody, HistoryQuery, PrincipalQuery, PrincipalsBody, StatisticsQuery,
};
use axum::Json;
use axum::extract::State;
use model::ports::control::{Answer, Command};
use model::ports::presence::directory::Lease;
use model::ports::presence::queries::{
    PresenceAnswer, PresenceCommand, PresenceCounts, PresenceStatus,
};
use model::presence::{PresenceRecord, Principal};
use std::collections::HashMap;
use std::sync::Arc;

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/presence`
pub(crate) async fn one(State(api): Api, query: Asked<PrincipalQuery>) -> Told<Presence> {
    let who = asked(query)?.principal(&api.limits().topics)?;
    let found = find(&api, vec![who]).await?;
    let node = api.settings.presence.standing().node;
    let told = found.first().map(|found| Json(Presence::new(&node, found)));
    told.ok_or(Fault::unknown("principal"))
}

/// `POST /v1/presence`
pub(crate) async fn many(State(api): Api, body: Body<PrincipalsBody>) -> Told<PresenceList> {
    let who = body.read()?.principals(&api.limits().topics)?;
    let found = find(&api, who.clone()).await?;
    let node = api.settings.presence.standing().node;
    let found: HashMap<_, _> = found.iter().map(|found| (&found.who, found)).collect();
    let known = who.iter().filter_map(|who| Some(Presence::new(&node, found.get(who)?)));
    let unknown = who.iter().filter(|who| !found.contains_key(who)).map(Principal::key);
    let unknown = unknown.map(String::from).collect();
    Ok(Json(PresenceList { found: known.collect(), unknown }))
}

/// `GET /v1/presence/stored`
pub(crate) async fn stored_one(
    State(api): Api,
    query: Asked<PrincipalQuery>,
) -> Told<StoredPresence> {
    let who = vec![asked(query)?.principal(&api.limits().topics)?];
    let (who, records, leases) = stored(&api, who).await?;
    let found = who.first().zip(records.first().and_then(Option::as_ref));
    let told = found.map(|(who, record)| Json(StoredPresence::new(who, record, &leases)));
    told.ok_or(Fault::unknown("record"))
}

/// `POST /v1/presence/stored`
pub(crate) async fn stored_many(
    State(api): Api,
    body: Body<PrincipalsBody>,
) -> Told<StoredPresenceList> {
    let who = body.read()?.principals(&api.limits().topics)?;
    let (who, records, leases) = stored(&api, who).await?;
    let both = || who.iter().zip(&records);
    let known = both().filter_map(|(who, record)| {
        record.as_ref().map(|record| StoredPresence::new(who, record, &leases))
    });
    let unknown = both().filter(|(_, record)| record.is_none()).map(|(who, _)| who.key().into());
    Ok(Json(StoredPresenceList {
        found: known.collect(),
        unknown: unknown.collect(),
        leases: leases.iter().map(Into::into).collect(),
    }))
}

/// `GET /v1/presence/history`
pub(crate) async fn history(State(api): Api, query: Asked<HistoryQuery>) -> Told<PresenceHistory> {
    let (who, count) = asked(query)?.wish(&api.limits().topics)?;
    // The shard hands over what it has noted of it before it answers.
    find(&api, vec![who.clone()]).await?;
    let permit = Arc::clone(&api.lookups).try_acquire_owned().map_err(|_| Fault::busy())?;
    let queries = Arc::clone(&api.settings.presence);
    let asked = tokio::task::spawn_blocking(move || {
        let found = queries.history(&who, count);
        drop(permit);
        found.map(|found| Json(PresenceHistory::new(&who, &found)))
    });
    asked.await.map_err(|_| Fault::internal())?.ok_or(Fault::no_history())
}

/// `GET /v1/presence/status`
pub(crate) async fn status(State(api): Api) -> Json<answers::PresenceStatus> {
    Json(api.settings.presence.standing().into())
}

/// `GET /v1/presence/counts`
pub(crate) async fn counts(State(api): Api) -> Told<answers::PresenceCounts> {
    counted(&api).await.map(|counts| Json((&counts).into()))
}

/// `GET /v1/presence/statistics`
pub(crate) async fn statistics(
    State(api): Api,
    query: Asked<StatisticsQuery>,
) -> Told<PresenceStatistics> {
    let (step, word, count) = asked(query)?.wish()?;
    let moments = api.settings.presence.statistics(step);
    let last = &moments[moments.len().saturating_sub(count)..];
    let moments = last.iter().map(PresenceMoment::from).collect();
    Ok(Json(PresenceStatistics { step: word, moments }))
}

/// `POST /v1/presence/audit`: runs on a thread of its own, without a time limit. Only one audit
/// runs at a time, even if its caller has gone meanwhile.
pub(crate) async fn audit(State(api): Api, body: OptionalBody<AuditBody>) -> Told<Audit> {
    let order = body.read()?.order()?;
    is_there(&api)?;
    let queries = Arc::clone(&api.settings.presence);
    let told = Shared::begin(&api.audits, "holdline-audit", move || queries.audit(order))?;
    let done = told.await.map_err(|_| Fault::internal())?;
    done.map(|audit| Json(Audit::from(&audit))).map_err(Fault::directory)
}

/// Counts of all shards.
pub(crate) async fn counted(api: &Shared) -> Result<PresenceCounts, Fault> {
    match api.ask(Command::Presence(PresenceCommand::Counts)).await? {
        Answer::Presence(PresenceAnswer::Counts(counts)) => Ok(counts),
        _ => Err(Fault::internal()),
    }
}

pub(super) async fn find(api: &Shared, who: Vec<Principal>) -> Result<Vec<PresenceStatus>, Fault> {
    match api.ask(Command::Presence(PresenceCommand::Find(who))).await? {
        Answer::Presence(PresenceAnswer::Found(found)) => Ok(found),
        _ => Err(Fault::internal()),
    }
}

/// Requested principals, the directory's record of each, and the leases in force.
pub(super) type Stored = (Vec<Principal>, Vec<Option<PresenceRecord>>, Vec<Lease>);

pub(super) async fn stored(api: &Shared, who: Vec<Principal>) -> Result<Stored, Fault> {
    is_there(api)?;
    let permit = Arc::clone(&api.lookups).try_acquire_owned().map_err(|_| Fault::busy())?;
    let queries = Arc::clone(&api.settings.presence);
    let asked = tokio::task::spawn_blocking(move || {
        let found = queries.stored(&who);
        drop(permit);
        found.map(|(records, leases)| (who, records, leases))
    });
    asked.await.map_err(|_| Fault::internal())?.map_err(Fault::directory)
}

/// Refuses where no directory is configured.
fn is_there(api: &Shared) -> Result<(), Fault> {
    match api.settings.presence.standing().kind {
        "none" => Err(Fault::no_directory()),
        _ => Ok(()),
    }
}
