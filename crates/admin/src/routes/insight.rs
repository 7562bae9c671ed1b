//! For operators: what names mean, the newest lines of the log, the configuration.

use crate::answers::log::RecentLines;
use crate::answers::meanings::{self, Meanings};
use crate::api::{Api, Shared};
use crate::fault::Fault;
use crate::{Configuration, ReloadPreview, Reloaded};
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

/// `POST /v1/configuration/reload`: on a thread that may wait for the disk.
pub(crate) async fn reload(State(api): Api) -> Result<Json<Reloaded>, Fault> {
    let reload = Arc::clone(&api.settings.reload);
    let told = Shared::begin(&api.configurations, "holdline-config", move || reload())?;
    let reloaded = told.await.map_err(|_| Fault::internal())?;
    reloaded.map(Json).map_err(Fault::configuration)
}

/// `POST /v1/configuration/preview`: on a thread that may wait for the disk.
pub(crate) async fn preview(State(api): Api) -> Result<Json<ReloadPreview>, Fault> {
    let preview = Arc::clone(&api.settings.preview);
    let told = Shared::begin(&api.configurations, "holdline-config", move || preview())?;
    let previewed = told.await.map_err(|_| Fault::internal())?;
    previewed.map(Json).map_err(Fault::configuration)
}

/// `GET /v1/configuration`: on a thread that may wait for the disk.
pub(crate) async fn configuration(State(api): Api) -> Result<Json<Configuration>, Fault> {
    let read = Arc::clone(&api.settings.configuration);
    let told = Shared::begin(&api.configurations, "holdline-config", move || read())?;
    told.await.map(Json).map_err(|_| Fault::internal())
}
