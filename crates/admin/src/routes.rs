//! The handlers, one file per noun: each reads an order, asks the shards and answers.
//!
//! A handler holds no state between requests and knows no other handler.

pub(crate) mod access;
pub(crate) mod broadcasts;
pub(crate) mod chat;
pub(crate) mod clients;
pub(crate) mod console_files;
pub(crate) mod dead_letters;
pub(crate) mod devices;
pub(crate) mod elsewhere;
pub(crate) mod insight;
pub(crate) mod messages;
pub(crate) mod operations;
pub(crate) mod overview;
pub(crate) mod presence_routes;
pub(crate) mod products;
pub(crate) mod push_outcomes;
pub(crate) mod pushes;
pub(crate) mod schedules;
pub(crate) mod segments;
pub(crate) mod session;
pub(crate) mod stream;
pub(crate) mod trace;
pub(crate) mod users;

use crate::api::Shared;
use crate::fault::Fault;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use model::ports::control::{Answer, Command};
use model::ports::topics::{TopicAnswer, TopicCommand};

/// A percent-decoded part of a path; one that is not UTF-8 is refused as invalid.
type Part = Result<Path<String>, PathRejection>;

fn part(part: Part) -> Result<String, Fault> {
    part.map(|Path(text)| text).map_err(|error| Fault::bad(error.body_text()))
}

/// Two percent-decoded parts of a path.
type Pair = Result<Path<(String, String)>, PathRejection>;

fn pair(pair: Pair) -> Result<(String, String), Fault> {
    pair.map(|Path(texts)| texts).map_err(|error| Fault::bad(error.body_text()))
}

/// A query; an invalid one is refused likewise.
pub(crate) type Asked<T> = Result<Query<T>, QueryRejection>;

fn asked<T>(query: Asked<T>) -> Result<T, Fault> {
    query.map(|Query(query)| query).map_err(|error| invalid_query(&error.body_text()))
}

/// The refusal of a query, which names the parameter as the refusal of a body names its field.
/// `text` is the extractor's: `Failed to deserialize query string: limit: invalid digit`.
fn invalid_query(text: &str) -> Fault {
    let told = text.split_once("query string: ").map_or(text, |(_, told)| told);
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match told.split_once(": ").filter(|(name, _)| is_name(name)) {
        Some((name, why)) => Fault::bad(format!("`{name}`: {why}")),
        None => Fault::bad(format!("the query is invalid: {told}")),
    }
}

/// Asks about topics and sessions; a refusal is a fault.
async fn ask(api: &Shared, command: TopicCommand) -> Result<TopicAnswer, Fault> {
    topics(api.ask(Command::Topics(command)).await?)
}

fn topics(answer: Answer) -> Result<TopicAnswer, Fault> {
    match answer {
        Answer::Topics(TopicAnswer::Refused(why)) => Err(Fault::refused(why)),
        Answer::Topics(answer) => Ok(answer),
        _ => Err(Fault::internal()),
    }
}

/// As `ask`, for a command whose answer is whether it was done.
async fn done(api: &Shared, command: TopicCommand) -> Result<bool, Fault> {
    match ask(api, command).await? {
        TopicAnswer::Done(done) => Ok(done),
        _ => Err(Fault::internal()),
    }
}

/// Entries on a page: what the query wishes for, or the usual.
fn page(limit: Option<u32>) -> Result<u32, Fault> {
    const PAGE_MAX: u32 = 1_000;
    const PAGE_DEFAULT: u32 = 100;
    match limit.unwrap_or(PAGE_DEFAULT) {
        count @ 1..=PAGE_MAX => Ok(count),
        _ => Err(Fault::bad(format!("`limit` must be 1 to {PAGE_MAX}"))),
    }
}
