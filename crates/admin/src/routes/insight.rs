//! For operators: what names mean, the newest lines of the log, the configuration.

use crate::Configuration;
use crate::answers::log::RecentLines;
use crate::answers::meanings::{self, Meanings};
use crate::api::{Api, Shared};
use crate::fault::Fault;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// `GET /v1/meanings`
pub(crate) async fn meanings() -> Json<Meanings> {
    Json(meanings::all())
}

/// `GET /v1/log`
pub(crate) async fn log(State(api): Api) -> Json<RecentLines> {
    Json(RecentLines { lines: (api.settings.log)() })
}

/// `GET /v1/configuration`: on a thread that may wait for the disk.
pub(crate) async fn configuration(State(api): Api) -> Result<Json<Configuration>, Fault> {
    let read = Arc::clone(&api.settings.configuration);
    let told = Shared::begin(&api.configurations, "holdline-config", move || read())?;
    told.await.map(Json).map_err(|_| Fault::internal())
}
