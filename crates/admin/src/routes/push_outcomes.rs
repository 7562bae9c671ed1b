//! Routes of the outcomes of tracked pushes, and of reports of devices about pushes.

use super::{Asked, Part, asked, page, part};
use crate::answers::push_outcomes::{Minutes, OutcomesPage, ReportTaken};
use crate::api::Api;
use crate::describe::Body;
use crate::fault::Fault;
use crate::guard::{Visitor, login_failed};
use crate::orders;
use crate::orders::push_outcomes::{MinutesQuery, OutcomesQuery, ReportBody};
use axum::extract::State;
use axum::{Extension, Json};
use model::ports::control::{Answer, Command};
use model::ports::pushes::{PushAnswer, PushCommand};

/// `GET /v1/pushes/{id}/devices`
pub(crate) async fn devices(
    State(api): Api,
    path: Part,
    query: Asked<OutcomesQuery>,
) -> Result<Json<OutcomesPage>, Fault> {
    let (push, query) = (orders::push_id(&part(path)?)?, asked(query)?);
    let (kind, after, count) = (query.kind()?, query.places()?, page(query.limit)?);
    let product = query.product.as_deref().map(orders::product).transpose()?;
    let places = after.clone();
    let command = PushCommand::Outcomes { push, product, after, kind, count };
    match api.ask(Command::Push(command)).await? {
        Answer::Push(PushAnswer::Outcomes(Some(parts))) => {
            Ok(Json(OutcomesPage::new(push, places, &parts, count as usize)))
        }
        Answer::Push(PushAnswer::Outcomes(None)) => Err(Fault::unknown("push")),
        _ => Err(Fault::internal()),
    }
}

/// `GET /v1/pushes/{id}/minutes`
pub(crate) async fn minutes(
    State(api): Api,
    path: Part,
    query: Asked<MinutesQuery>,
) -> Result<Json<Minutes>, Fault> {
    let (push, query) = (orders::push_id(&part(path)?)?, asked(query)?);
    let product = query.product.as_deref().map(orders::product).transpose()?;
    match api.ask(Command::Push(PushCommand::Minutes { push, product })).await? {
        Answer::Push(PushAnswer::Minutes(Some(minutes))) => Ok(Json(Minutes::new(push, &minutes))),
        Answer::Push(PushAnswer::Minutes(None)) => Err(Fault::unknown("push")),
        _ => Err(Fault::internal()),
    }
}

/// `POST /v1/reports`
pub(crate) async fn report(
    State(api): Api,
    Extension(visitor): Extension<Visitor>,
    body: Body<ReportBody>,
) -> Result<Json<ReportTaken>, Fault> {
    let command = body.read()?.command()?;
    if let PushCommand::ReportPush { device, .. } = &command
        && api.settings.bans.refuses_client(device.as_str())
    {
        return Err(Fault::banned());
    }
    let answer = api.ask(Command::Push(command)).await;
    if let (Err(fault), Some(address)) = (&answer, visitor.address)
        && *fault == Fault::device_token()
    {
        login_failed(&api, address, None);
    }
    match answer? {
        Answer::Push(PushAnswer::Done(true)) => Ok(Json(ReportTaken { taken: true })),
        Answer::Push(PushAnswer::Done(false)) => Err(Fault::unknown("device")),
        _ => Err(Fault::internal()),
    }
}
