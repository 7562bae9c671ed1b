//! Routes of pushes: order, list, cancel, pause, resume, counts.

use super::elsewhere::refuse_elsewhere;
use super::{Asked, Part, asked, page, part};
use crate::answers::pushes::{self as answers, Pushed};
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::guard::Caller;
use crate::orders::batch::BatchBody;
use crate::orders::{self, CancelQuery, PushBody, PushesQuery};
use crate::table::About;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use model::audience::Audience;
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::control::{Answer, Command};
use model::ports::pushes::{PushAnswer, PushCommand, PushCounts, PushOrder, PushTarget};
use model::push::{Outcome, Rejection};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Largest body that is read by the task of its request, bytes.
const READ_BYTES_MAX: usize = 256 * 1024;

/// Interval between two queries for the counts of a push to many, milliseconds; it grows up to the
/// end of this range.
const LOOK_MS: std::ops::RangeInclusive<u64> = 5..=100;

/// `POST /v1/pushes`
pub(crate) async fn push(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body<PushBody>,
) -> Result<(Extension<About>, Json<Pushed>), Fault> {
    let key = orders::idempotency_key(&headers)?;
    let (is_dry_run, order) = read(&api, key, body).await?;
    caller.is_for(order.product.as_str())?;
    if is_dry_run {
        let about = Extension(About(format!("dry run {}", about(&order))));
        return Ok((about, Json(Pushed::Counted(count(&api, order).await?))));
    }
    if !order.is_scheduled() {
        refuse_elsewhere(&api, &order).await?;
    }
    let about = Extension(About(about(&order)));
    let named = matches!(order.target, PushTarget::Devices(_) | PushTarget::User(_));
    let listed = named && !order.is_scheduled() && !order.track;
    let wait = Duration::from_millis(order.wait_ms.into());
    let more = if listed { wait } else { Duration::ZERO };
    match api.ask_within(Command::Push(PushCommand::Push(order)), more).await? {
        // The push has failed at every device: the client may retry, here later or elsewhere.
        Answer::Push(PushAnswer::Pushed { outcomes, .. }) if listed && all_failed(&outcomes) => {
            Err(Fault::store())
        }
        Answer::Push(PushAnswer::Pushed { id, outcomes, .. }) if listed => {
            Ok((about, Json(Pushed::Outcomes(answers::PushOutcomes::new(id, &outcomes)))))
        }
        Answer::Push(PushAnswer::Pushed { id, counts, .. }) => {
            let counts = come_through(&api, (id, counts), wait).await;
            Ok((about, Json(Pushed::Counts(answers::PushCounts::new(id, &counts)))))
        }
        _ => Err(Fault::internal()),
    }
}

/// `POST /v1/pushes/batch`
pub(crate) async fn batch(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body<BatchBody>,
) -> Result<(Extension<About>, Json<answers::PushBatchOutcomes>), Fault> {
    let key = orders::idempotency_key(&headers)?;
    let hash: Box<[u8]> = Box::from(&*Sha256::digest(&body.0));
    let (product, read) = read_batch(&api, key.clone(), body).await?;
    caller.is_for(product.as_str())?;
    // An unknown product is an error of the whole batch: it is looked up before anything is sent.
    api.knows_product(&product).await?;
    let orders = read?;
    let devices: Vec<DeviceId> = orders.iter().flat_map(named).collect();
    let all = PushOrder { target: PushTarget::Devices(devices), ..orders[0].clone() };
    if !all.is_scheduled() {
        refuse_elsewhere(&api, &all).await?;
    }
    if let Some(key) = key {
        let (product, id) = (product.clone(), api.control.next_id());
        let claim = orders::batch::claim(product, id, (&key, hash));
        api.ask(Command::Push(PushCommand::Push(claim))).await?;
    }
    let about = Extension(About(format!("batch {}", about(&all))));
    let pose = |order: PushOrder| {
        let (id, devices, is_scheduled) = (order.id, named(&order), order.is_scheduled());
        (id, (devices, is_scheduled), api.pose(Command::Push(PushCommand::Push(order))))
    };
    let posed: Vec<_> = orders.into_iter().map(pose).collect();
    // From here on the answer has an outcome for each message: an error would hide what was sent.
    let (mut outcomes, until) = (Vec::new(), Shared::until(Duration::ZERO));
    for (id, (devices, is_scheduled), told) in posed {
        let rejection = match Shared::hear(told, until).await {
            Ok(Answer::Push(PushAnswer::Pushed { id, outcomes: told, .. })) => {
                let told = match is_scheduled {
                    true => devices.into_iter().map(|to| (to, Outcome::Stored)).collect(),
                    false => told,
                };
                let of = |(to, what): &(_, _)| answers::BatchOutcome::new(id, to, Some(*what));
                outcomes.extend(told.iter().map(of));
                continue;
            }
            Ok(_) => None,
            Err(fault) => fault.rejection(),
        };
        let of = |to| answers::BatchOutcome::new(id, to, rejection.map(Outcome::Rejected));
        outcomes.extend(devices.iter().map(of));
    }
    Ok((about, Json(answers::PushBatchOutcomes { outcomes })))
}

/// The devices that an order names.
fn named(order: &PushOrder) -> Vec<DeviceId> {
    match &order.target {
        PushTarget::Devices(devices) => devices.clone(),
        _ => Vec::new(),
    }
}

/// The product of a batch, and its orders. A large one is read beside the tasks of other requests.
async fn read_batch(
    api: &Arc<Shared>,
    key: Option<Box<str>>,
    body: Body<BatchBody>,
) -> Result<(ProductKey, Result<Vec<PushOrder>, Fault>), Fault> {
    let (api, is_large) = (Arc::clone(api), body.0.len() > READ_BYTES_MAX);
    let read = move || {
        let (limits, now_ms) = (&api.limits(), (api.settings.wall_ms)());
        let body = body.read()?;
        let product = orders::product(&body.product)?;
        Ok((product, body.orders(limits, now_ms, key.as_deref(), || api.control.next_id())))
    };
    match is_large {
        true => tokio::task::spawn_blocking(read).await.map_err(|_| Fault::internal())?,
        false => read(),
    }
}

/// The order in a body, and whether its devices are only to be counted. A large body is read beside
/// the tasks of other requests.
async fn read(
    api: &Arc<Shared>,
    key: Option<Box<str>>,
    body: Body<PushBody>,
) -> Result<(bool, PushOrder), Fault> {
    let (api, is_large) = (Arc::clone(api), body.0.len() > READ_BYTES_MAX);
    let read = move || {
        let (limits, now_ms) = (&api.limits(), (api.settings.wall_ms)());
        let body = body.read()?;
        let is_dry_run = body.is_dry_run();
        Ok((is_dry_run, body.order(limits, now_ms, key, || api.control.next_id())?))
    };
    match is_large {
        true => tokio::task::spawn_blocking(read).await.map_err(|_| Fault::internal())?,
        false => read(),
    }
}

/// Counts the devices of an order that is not carried out.
async fn count(api: &Shared, order: PushOrder) -> Result<answers::DryRun, Fault> {
    let product = order.product;
    let target = match order.target {
        PushTarget::Devices(devices) => PushTarget::Audience(Arc::new(Audience::named(&devices))),
        target => target,
    };
    let (at_ms, began) = ((api.settings.wall_ms)(), tokio::time::Instant::now());
    match api.ask(Command::Push(PushCommand::Count { product, target })).await? {
        Answer::Push(PushAnswer::Counted(counts)) => {
            let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            Ok(answers::DryRun::new(&counts, at_ms, took_ms))
        }
        _ => Err(Fault::internal()),
    }
}

/// `GET /v1/pushes`
pub(crate) async fn list(
    State(api): Api,
    query: Asked<PushesQuery>,
) -> Result<Json<answers::PushPage>, Fault> {
    let query = asked(query)?;
    let (state, count) = (query.state()?, page(query.limit)?);
    let product = query.product.as_deref().map(orders::product).transpose()?;
    let before = query.after.as_deref().map(orders::push_id).transpose()?;
    match api.ask(Command::Push(PushCommand::Orders { product, before, count })).await? {
        Answer::Push(PushAnswer::Orders(orders)) => {
            let is_full = orders.len() >= count as usize;
            Ok(Json(answers::PushPage::new(&orders, is_full, state)))
        }
        _ => Err(Fault::internal()),
    }
}

/// `DELETE /v1/pushes/{id}`
pub(crate) async fn cancel(
    State(api): Api,
    path: Part,
    query: Asked<CancelQuery>,
) -> Result<Json<answers::PushCounts>, Fault> {
    let (id, push, product) = change(&api, path, query)?;
    progress(&api, push, PushCommand::Cancel { id, push, product }).await
}

/// `POST /v1/pushes/{id}/pause`
pub(crate) async fn pause(
    State(api): Api,
    path: Part,
    query: Asked<CancelQuery>,
) -> Result<Json<answers::PushCounts>, Fault> {
    let (id, push, product) = change(&api, path, query)?;
    progress(&api, push, PushCommand::Pause { id, push, product, paused: true }).await
}

/// `POST /v1/pushes/{id}/resume`
pub(crate) async fn resume(
    State(api): Api,
    path: Part,
    query: Asked<CancelQuery>,
) -> Result<Json<answers::PushCounts>, Fault> {
    let (id, push, product) = change(&api, path, query)?;
    progress(&api, push, PushCommand::Pause { id, push, product, paused: false }).await
}

/// The id of a change, the id of its push, and the product that the push must be for.
fn change(
    api: &Shared,
    path: Part,
    query: Asked<CancelQuery>,
) -> Result<(MessageId, MessageId, Option<ProductKey>), Fault> {
    let push = orders::push_id(&part(path)?)?;
    let product = asked(query)?.product.as_deref().map(orders::product).transpose()?;
    Ok((api.control.next_id(), push, product))
}

/// Sends a command about a push and returns the counts in its answer.
async fn progress(
    api: &Shared,
    push: MessageId,
    command: PushCommand,
) -> Result<Json<answers::PushCounts>, Fault> {
    match api.ask(Command::Push(command)).await? {
        Answer::Push(PushAnswer::Counts(Some(counts))) => {
            Ok(Json(answers::PushCounts::new(push, &counts)))
        }
        Answer::Push(PushAnswer::Counts(None)) => Err(Fault::unknown("push")),
        _ => Err(Fault::internal()),
    }
}

/// Whether the push failed at every device because of the log.
fn all_failed(outcomes: &[(DeviceId, Outcome)]) -> bool {
    let failed = |outcome| matches!(outcome, Outcome::Rejected(Rejection::StoreFailed));
    !outcomes.is_empty() && outcomes.iter().all(|(_, outcome)| failed(*outcome))
}

/// Receivers of a push, for the audit log.
fn about(order: &PushOrder) -> String {
    let (id, product) = (order.id.0, order.product.as_str());
    match &order.target {
        PushTarget::Devices(devices) => match &devices[..] {
            [device] => format!("{product} device {} push {id}", device.as_str()),
            devices => format!("{product} {} devices push {id}", devices.len()),
        },
        PushTarget::Tag(tag) => format!("{product} tag {} push {id}", tag.as_str()),
        PushTarget::Product => format!("{product} all push {id}"),
        PushTarget::Audience(_) => format!("{product} audience push {id}"),
        PushTarget::User(of) => format!("{product} user {} push {id}", of.user.as_str()),
    }
}

/// `GET /v1/pushes/{id}`
pub(crate) async fn counts(
    State(api): Api,
    path: Part,
) -> Result<Json<answers::PushCounts>, Fault> {
    let id = orders::push_id(&part(path)?)?;
    progress(&api, id, PushCommand::PushCounts(id)).await
}

/// Waits until a push to many is through, or the time to wait is over, and returns its last known
/// counts. The push was accepted already, so an error here is no error of the request.
async fn come_through(
    api: &Shared,
    (id, mut counts): (MessageId, PushCounts),
    wait: Duration,
) -> PushCounts {
    if wait.is_zero() {
        return counts;
    }
    let looks = async {
        let mut pause_ms = *LOOK_MS.start();
        while counts.running || counts.pending > 0 {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(*LOOK_MS.end());
            if let Ok(Answer::Push(PushAnswer::Counts(Some(now)))) =
                api.ask(Command::Push(PushCommand::PushCounts(id))).await
            {
                counts = now;
            }
        }
    };
    // A timeout is no fault: the counts say how far the push has come.
    drop(tokio::time::timeout(wait, looks).await);
    counts
}
