//! Schedules of pushes: save, list, show, pause, resume, remove.

use super::{Asked, Pair, asked, pair};
use crate::answers::Removed;
use crate::answers::schedules::{Schedule, Schedules};
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::guard::Caller;
use crate::orders;
use crate::orders::schedules::{ScheduleBody, SchedulesQuery};
use crate::table::About;
use axum::extract::State;
use axum::{Extension, Json};
use model::calendar::ScheduleState;
use model::id::{ProductKey, ScheduleName};
use model::ports::control::{Answer, Command};
use model::ports::pushes::{PushAnswer, PushCommand};

type Told<T> = Result<Json<T>, Fault>;

/// `POST /v1/schedules`
pub(crate) async fn save(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    body: Body<ScheduleBody>,
) -> Result<(Extension<About>, Json<Schedule>), Fault> {
    let now_ms = (api.settings.wall_ms)();
    let schedule = body.read()?.schedule(&api.limits(), now_ms, || api.control.next_id())?;
    let (product, name) = (schedule.product().clone(), schedule.name.clone());
    caller.is_for(product.as_str())?;
    done(&api, PushCommand::PutSchedule(Box::new(schedule))).await?;
    let about = format!("{} schedule {}", product.as_str(), name.as_str());
    Ok((Extension(About(about)), state(&api, product, name).await?))
}

/// `GET /v1/schedules`
pub(crate) async fn list(State(api): Api, query: Asked<SchedulesQuery>) -> Told<Schedules> {
    let product = asked(query)?.product.as_deref().map(orders::product).transpose()?;
    let all = states(&api, product, None).await?;
    Ok(Json(Schedules { schedules: all.iter().map(Schedule::from).collect() }))
}

/// `GET /v1/schedules/{product}/{schedule}`
pub(crate) async fn one(State(api): Api, path: Pair) -> Told<Schedule> {
    let (product, name) = names(path)?;
    state(&api, product, name).await
}

/// `DELETE /v1/schedules/{product}/{schedule}`
pub(crate) async fn remove(State(api): Api, path: Pair) -> Told<Removed> {
    let (product, schedule) = names(path)?;
    match done(&api, PushCommand::DropSchedule { product, schedule }).await? {
        true => Ok(Json(Removed { removed: true })),
        false => Err(Fault::unknown("schedule")),
    }
}

/// `POST /v1/schedules/{product}/{schedule}/pause`
pub(crate) async fn pause(State(api): Api, path: Pair) -> Told<Schedule> {
    set_paused(&api, path, true).await
}

/// `POST /v1/schedules/{product}/{schedule}/resume`
pub(crate) async fn resume(State(api): Api, path: Pair) -> Told<Schedule> {
    set_paused(&api, path, false).await
}

async fn set_paused(api: &Shared, path: Pair, paused: bool) -> Told<Schedule> {
    let (product, schedule) = names(path)?;
    let (of, name) = (product.clone(), schedule.clone());
    match done(api, PushCommand::PauseSchedule { product, schedule, paused }).await? {
        true => state(api, of, name).await,
        false => Err(Fault::unknown("schedule")),
    }
}

fn names(path: Pair) -> Result<(ProductKey, ScheduleName), Fault> {
    let (product, name) = pair(path)?;
    let name = ScheduleName::parse(&name)
        .map_err(|error| Fault::bad(format!("the name of a schedule {error}")))?;
    Ok((orders::product(&product)?, name))
}

async fn state(api: &Shared, product: ProductKey, name: ScheduleName) -> Told<Schedule> {
    let found = states(api, Some(product), Some(name)).await?;
    let found = found.first().map(|state| Json(Schedule::from(state)));
    found.ok_or_else(|| Fault::unknown("schedule"))
}

async fn states(
    api: &Shared,
    product: Option<ProductKey>,
    schedule: Option<ScheduleName>,
) -> Result<Vec<ScheduleState>, Fault> {
    match api.ask(Command::Push(PushCommand::Schedules { product, schedule })).await? {
        Answer::Push(PushAnswer::Schedules(all)) => Ok(all),
        _ => Err(Fault::internal()),
    }
}

async fn done(api: &Shared, command: PushCommand) -> Result<bool, Fault> {
    match api.ask(Command::Push(command)).await? {
        Answer::Push(PushAnswer::Done(done)) => Ok(done),
        _ => Err(Fault::internal()),
    }
}
