//! Users of the book: who they are and what they may do, changed at run time.
//!
//! The book may block (a slow hash of a password, stable storage), so it is asked on threads of
//! its own. Invariant: no answer has anything of a password.

use super::{Part, page, part};
use crate::answers;
use crate::api::{Api, Shared};
use crate::body::read_or_empty;
use crate::fault::Fault;
use crate::orders::users::{self, UserBody, UsersQuery};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use model::ports::users::{UserFault, Users};
use serde_json::{Value, json};
use std::sync::Arc;

type Told = Result<Json<Value>, Fault>;

/// `GET /v1/users`
pub(crate) async fn list(
    State(api): Api,
    query: Result<Query<UsersQuery>, QueryRejection>,
) -> Told {
    let Query(query) = query.map_err(|error| Fault::bad(error.body_text()))?;
    let count = page(query.limit)? as usize;
    // One more tells whether there is a next page.
    let mut users = ask(&api, move |book| book.list(query.after.as_deref(), count + 1)).await?;
    let more = users.len() > count;
    users.truncate(count);
    let next = users.last().filter(|_| more).map(|user| user.name.clone());
    let told = users.iter().map(answers::user).collect::<Vec<_>>();
    Ok(Json(json!({ "users": told, "next": next })))
}

/// `GET /v1/users/{user}`
pub(crate) async fn one(State(api): Api, path: Part) -> Told {
    let name = users::name(part(path)?)?;
    let found = ask(&api, move |book| book.user(&name)).await?;
    found.map(|user| Json(answers::user(&user))).ok_or(Fault::unknown("user"))
}

/// `PUT /v1/users/{user}`
pub(crate) async fn put(State(api): Api, path: Part, body: Bytes) -> Told {
    let name = users::name(part(path)?)?;
    let wish: UserBody = read_or_empty(&body)?;
    let limits = api.settings.limits.topics.clone();
    let user = ask(&api, move |book| {
        let order = wish.order(name.clone(), book.user(&name).as_ref(), &limits)?;
        book.put(order).map_err(fault)?;
        book.user(&name).ok_or(Fault::internal())
    });
    Ok(Json(answers::user(&user.await??)))
}

/// `DELETE /v1/users/{user}`
pub(crate) async fn remove(State(api): Api, path: Part) -> Told {
    let name = users::name(part(path)?)?;
    match ask(&api, move |book| book.remove(&name)).await?.map_err(fault)? {
        true => Ok(Json(json!({ "removed": true }))),
        false => Err(Fault::unknown("user")),
    }
}

async fn ask<T: Send + 'static>(
    api: &Shared,
    question: impl FnOnce(&dyn Users) -> T + Send + 'static,
) -> Result<T, Fault> {
    let book = Arc::clone(&api.settings.users);
    tokio::task::spawn_blocking(move || question(&*book)).await.map_err(|_| Fault::internal())
}

fn fault(fault: UserFault) -> Fault {
    match fault {
        UserFault::Wrong(why) => Fault::bad(why),
        UserFault::Full => Fault::users_full(),
        UserFault::StoreFailed => Fault::store(),
    }
}
