//! Saved segments of a product: list, show, save, remove.

use super::{Pair, Part, pair, part};
use crate::answers::Removed;
use crate::answers::segments::{Segment, Segments};
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::orders;
use crate::orders::audience::{SegmentBody, segment};
use axum::Json;
use axum::extract::State;
use model::id::{ProductKey, SegmentName};
use model::ports::control::{Answer, Command};
use model::ports::pushes::{PushAnswer, PushCommand, SavedSegment};

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/products/{product}/segments`
pub(crate) async fn list(State(api): Api, path: Part) -> Told<Segments> {
    let all = segments(&api, orders::product(&part(path)?)?, None).await?;
    let segments = all.iter().map(|(name, tags)| Segment::new(name, tags));
    Ok(Json(Segments { segments: segments.collect() }))
}

/// `GET /v1/products/{product}/segments/{segment}`
pub(crate) async fn one(State(api): Api, path: Pair) -> Told<Segment> {
    let (product, name) = names(path)?;
    let found = segments(&api, product, Some(vec![name.clone()])).await?;
    let found = found.first().map(|(name, tags)| Json(Segment::new(name, tags)));
    found.ok_or_else(|| Fault::unknown_segment(name.as_str()))
}

/// `PUT /v1/products/{product}/segments/{segment}`
pub(crate) async fn put(State(api): Api, path: Pair, body: Body<SegmentBody>) -> Told<Segment> {
    let (product, segment) = names(path)?;
    let tags = body.read()?.tags()?;
    let told = Segment::new(&segment, &tags);
    done(&api, PushCommand::PutSegment { product, segment, tags }).await?;
    Ok(Json(told))
}

/// `DELETE /v1/products/{product}/segments/{segment}`
pub(crate) async fn remove(State(api): Api, path: Pair) -> Told<Removed> {
    let (product, segment) = names(path)?;
    let name = segment.clone();
    match done(&api, PushCommand::DropSegment { product, segment }).await? {
        true => Ok(Json(Removed { removed: true })),
        false => Err(Fault::unknown_segment(name.as_str())),
    }
}

fn names(path: Pair) -> Result<(ProductKey, SegmentName), Fault> {
    let (product, name) = pair(path)?;
    Ok((orders::product(&product)?, segment(&name)?))
}

async fn segments(
    api: &Shared,
    product: ProductKey,
    names: Option<Vec<SegmentName>>,
) -> Result<Vec<SavedSegment>, Fault> {
    match api.ask(Command::Push(PushCommand::Segments { product, names })).await? {
        Answer::Push(PushAnswer::Segments(segments)) => Ok(segments),
        _ => Err(Fault::internal()),
    }
}

async fn done(api: &Shared, command: PushCommand) -> Result<bool, Fault> {
    match api.ask(Command::Push(command)).await? {
        Answer::Push(PushAnswer::Done(done)) => Ok(done),
        _ => Err(Fault::internal()),
    }
}
