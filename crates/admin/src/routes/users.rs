//! Users of the book: who they are and what they may do, changed at run time.
//!
//! The book may block (a slow hash of a password, stable storage, a row that is read), so it is
//! asked on threads of its own. Invariant: no answer has anything of a password,
//! but the keys for SCRAM that are asked for by name.

use super::{Asked, Part, asked, page, part};
use crate::answers::Removed;
use crate::answers::users::{self as answers, User};
use crate::api::{Api, Shared};
use crate::describe::{Body, OptionalBody};
use crate::fault::Fault;
use crate::guard::Caller;
use crate::orders::users::{self, ImportBody, UserBody, UsersQuery};
use crate::tokens::scope::Scope;
use axum::extract::State;
use axum::{Extension, Json};
use model::ports::users::{Authority, UserFault, Users};
use std::sync::Arc;

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/users`
pub(crate) async fn list(State(api): Api, query: Asked<UsersQuery>) -> Told<answers::Users> {
    let query = asked(query)?;
    let count = page(query.limit)? as usize;
    // One user more than requested shows whether there is a next page.
    let page = ask(&api, move |book| book.list(query.after.as_deref(), count + 1)).await?;
    let mut users = page.map_err(fault)?;
    let more = users.len() > count;
    users.truncate(count);
    let next = users.last().filter(|_| more).map(|user| user.name.clone());
    let users = users.iter().map(User::from).collect();
    let total = api.settings.users.count();
    Ok(Json(answers::Users { users, next, total }))
}

/// `GET /v1/users/{user}`
pub(crate) async fn one(State(api): Api, path: Part) -> Told<User> {
    let name = users::name(part(path)?)?;
    let found = ask(&api, move |book| book.user(&name)).await?.map_err(fault)?;
    found.map(|user| Json(User::from(&user))).ok_or(Fault::unknown("user"))
}

/// `GET /v1/users/{user}/keys`: keys by which someone without the password can log in, at another
/// server that checks them.
pub(crate) async fn keys(State(api): Api, path: Part) -> Told<answers::UserKeys> {
    let name = users::name(part(path)?)?;
    let found = ask(&api, move |book| book.keys(&name)).await?.map_err(fault)?;
    found.map(|keys| Json(answers::UserKeys { keys })).ok_or(Fault::unknown("user"))
}

/// `PUT /v1/users/{user}`
pub(crate) async fn put(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    path: Part,
    body: OptionalBody<UserBody>,
) -> Told<User> {
    let (name, authority) = (users::name(part(path)?)?, authority(&caller));
    let wish = body.read()?;
    let order = wish.order(name, &api.limits().topics)?;
    let user = ask(&api, move |book| book.put(order, authority)).await?.map_err(fault)?;
    end_outdated(&api, vec![user.name.clone()]).await;
    Ok(Json(User::from(&user)))
}

/// `DELETE /v1/users/{user}`
pub(crate) async fn remove(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    path: Part,
) -> Told<Removed> {
    let (name, authority) = (users::name(part(path)?)?, authority(&caller));
    let removed = name.clone();
    match ask(&api, move |book| book.remove(&name, authority)).await?.map_err(fault)? {
        true => {
            end_outdated(&api, vec![removed]).await;
            Ok(Json(Removed { removed: true }))
        }
        false => Err(Fault::unknown("user")),
    }
}

/// `POST /v1/users`: makes or changes many, as lines say.
pub(crate) async fn import(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    body: Body<ImportBody>,
) -> Told<answers::Imported> {
    let ((lines, form), authority) = (body.read()?.checked()?, authority(&caller));
    let done = ask(&api, move |book| book.import(&lines, form, authority)).await?.map_err(fault)?;
    let at_console = api.sessions.users();
    end_outdated(&api, at_console).await;
    Ok(Json(answers::Imported::from(done)))
}

/// `POST /v1/users/{user}/kick`
pub(crate) async fn kick(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    path: Part,
) -> Told<User> {
    let (name, authority) = (users::name(part(path)?)?, authority(&caller));
    let kicked = ask(&api, move |book| book.kick(&name, authority)).await?.map_err(fault)?;
    end_outdated(&api, kicked.iter().map(|user| user.name.clone()).collect()).await;
    kicked.map(|user| Json(User::from(&user))).ok_or(Fault::unknown("user"))
}

/// The authority of a caller: only `admin` may change administrators, or `users` would be `admin`
/// by a detour.
fn authority(caller: &Caller) -> Authority {
    if caller.0.scopes.allow(&[Scope::Admin]) { Authority::Admin } else { Authority::Users }
}

/// Ends outdated sessions of these users at the console (see [`Shared::end_outdated`]), on a thread
/// that may block.
pub(super) async fn end_outdated(api: &Arc<Shared>, users: Vec<String>) {
    let api = Arc::clone(api);
    // Its result is not needed; it fails only when the process ends.
    _ = tokio::task::spawn_blocking(move || api.end_outdated(users)).await;
}

pub(super) async fn ask<T: Send + 'static>(
    api: &Shared,
    question: impl FnOnce(&dyn Users) -> T + Send + 'static,
) -> Result<T, Fault> {
    let book = Arc::clone(&api.settings.users);
    tokio::task::spawn_blocking(move || question(&*book)).await.map_err(|_| Fault::internal())
}

pub(super) fn fault(fault: UserFault) -> Fault {
    match fault {
        UserFault::Wrong(why) => Fault::bad(why),
        UserFault::OutOfReach(name) => Fault::out_of_reach(&name),
        UserFault::Full => Fault::users_full(),
        UserFault::Busy => Fault::busy(),
        UserFault::StoreFailed => Fault::store(),
        UserFault::DatabaseFailed(why) => Fault::database(why),
    }
}
