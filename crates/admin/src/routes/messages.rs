//! Messages on topics: publish them, and look at those that are retained.
//!
//! A list is checked whole before its first message is published; then each has its own answer, in
//! the order of the list. Invariant: the messages of one request reach the shards in their order.

use super::{Asked, Part, ask, asked, done, page, part, topics};
use crate::answers::Removed;
use crate::answers::messages::{
    Message, MessagePage, PublishAnswer, PublishResult, PublishResults, Published,
};
use crate::api::{Api, Shared};
use crate::body::read;
use crate::describe::Body;
use crate::fault::Fault;
use crate::orders::messages::{
    self, MESSAGES_MAX, PublishBody, PublishOrder, RetainedQuery, TopicQuery,
};
use crate::table::About;
use axum::extract::State;
use axum::{Extension, Json};
use model::ports::control::{Answer, Command};
use model::ports::topics::{TopicAnswer, TopicCommand};
use std::time::Duration;

type Told<T> = Result<Json<T>, Fault>;

/// `POST /v1/publish`
pub(crate) async fn publish(
    State(api): Api,
    body: Body<PublishOrder>,
) -> Result<(Extension<About>, Json<PublishAnswer>), Fault> {
    let body = body.0;
    let (limits, now_s) = (&api.limits(), (api.settings.wall_ms)() / 1_000);
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        let message = read::<PublishBody>(&body)?;
        let about = Extension(About(message.topic().to_owned()));
        let command = message.order(limits, now_s, "")?;
        let told = published(api.ask(Command::Topics(command)).await)?;
        return Ok((about, Json(PublishAnswer::One(told))));
    }
    let list: Vec<PublishBody> = read(&body)?;
    if list.is_empty() || list.len() > MESSAGES_MAX {
        return Err(Fault::bad(format!("a list must have 1 to {MESSAGES_MAX} messages")));
    }
    let about = format!("{} and {} more", list[0].topic(), list.len() - 1);
    let order =
        |(at, message): (usize, PublishBody)| message.order(limits, now_s, &format!("[{at}]."));
    let commands = list.into_iter().enumerate().map(order).collect::<Result<Vec<_>, _>>()?;
    let asked = commands.into_iter().map(|command| api.pose(Command::Topics(command)));
    let (mut results, until) = (Vec::new(), Shared::until(Duration::ZERO));
    for told in asked.collect::<Vec<_>>() {
        let told = published(Shared::hear(told, until).await);
        results.push(PublishResult::from(told.map_err(|fault| fault.told())));
    }
    Ok((Extension(About(about)), Json(PublishAnswer::List(PublishResults { results }))))
}

fn published(answer: Result<Answer, Fault>) -> Result<Published, Fault> {
    match topics(answer?)? {
        TopicAnswer::Published { matched } => Ok(Published { matched }),
        _ => Err(Fault::internal()),
    }
}

/// `GET /v1/retained`
pub(crate) async fn retained(State(api): Api, query: Asked<RetainedQuery>) -> Told<MessagePage> {
    let query = asked(query)?;
    let filter = query.filter.as_deref().unwrap_or("#");
    let command = TopicCommand::Retained {
        filter: messages::known_filter(filter, &api.limits().topics)?,
        after: query.after.map(Into::into),
        count: page(query.limit)?,
    };
    match ask(&api, command).await? {
        TopicAnswer::Retained { messages, next } => {
            let messages = messages.iter().map(|message| Message::from(&**message)).collect();
            Ok(Json(MessagePage { messages, next: next.map(String::from) }))
        }
        _ => Err(Fault::internal()),
    }
}

/// `GET /v1/retained/{topic}`
pub(crate) async fn retained_one(State(api): Api, path: Part) -> Told<Message> {
    show(&api, part(path)?).await
}

/// `GET /v1/retained_message`: any topic, also one that a path does not carry.
pub(crate) async fn retained_named(State(api): Api, query: Asked<TopicQuery>) -> Told<Message> {
    show(&api, asked(query)?.topic).await
}

async fn show(api: &Shared, topic: String) -> Told<Message> {
    let topic = messages::known_name(topic, &api.limits().topics)?;
    match ask(api, TopicCommand::Retained { filter: topic, after: None, count: 1 }).await? {
        TopicAnswer::Retained { messages, .. } => {
            let found = messages.first().map(|message| Json(Message::from(&**message)));
            found.ok_or(Fault::unknown("retained"))
        }
        _ => Err(Fault::internal()),
    }
}

/// `DELETE /v1/retained/{topic}`
pub(crate) async fn clear(State(api): Api, path: Part) -> Told<Removed> {
    forget(&api, part(path)?).await
}

/// `DELETE /v1/retained_message`
pub(crate) async fn clear_named(State(api): Api, query: Asked<TopicQuery>) -> Told<Removed> {
    forget(&api, asked(query)?.topic).await
}

async fn forget(api: &Shared, topic: String) -> Told<Removed> {
    let topic = messages::known_name(topic, &api.limits().topics)?;
    match done(api, TopicCommand::ClearRetained(topic)).await? {
        true => Ok(Json(Removed { removed: true })),
        false => Err(Fault::unknown("retained")),
    }
}
