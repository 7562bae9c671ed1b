//! The audit log, page by page.

use super::super::{Asked, asked, page};
use crate::answers::tokens::AuditLogPage;
use crate::api::Api;
use crate::fault::Fault;
use crate::orders::tokens::AuditLogQuery;
use axum::Json;
use axum::extract::State;
use model::{event, tell};
use serde_json::Value;
use std::sync::Arc;

/// `GET /v1/audit_log`: the newest first. One reader at a time, for it may have to look far back.
pub(crate) async fn list(
    State(api): Api,
    query: Asked<AuditLogQuery>,
) -> Result<Json<AuditLogPage>, Fault> {
    let query = asked(query)?;
    let (count, outcome) = (page(query.limit)? as usize, query.outcome()?);
    let permit = Arc::clone(&api.looks_back).try_acquire_owned().map_err(|_| Fault::busy())?;
    let look = move || {
        let wanted = |entry: &Value| {
            query.token.as_ref().is_none_or(|token| entry["token"] == **token)
                && outcome.is_none_or(|outcome| entry["outcome"] == outcome)
        };
        let page = api.audit_log.page(query.after, count, &wanted);
        drop(permit);
        page
    };
    let looked = tokio::task::spawn_blocking(look).await.map_err(|_| Fault::internal())?;
    let page = looked.map_err(|error| {
        tell!(event::AUDIT_LOG_UNREADABLE, %error);
        Fault::audit_log()
    })?;
    let last = page.entries.last().filter(|_| page.more);
    let next = last.and_then(|entry| Some(entry["number"].as_str()?.to_owned()));
    Ok(Json(AuditLogPage { entries: page.entries, next }))
}
