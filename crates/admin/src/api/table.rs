//! Every route of the API: method, path, who may, what it is about, handler.
//!
//! The one list of them. `openapi.json` says the same to programs, which a test holds. Invariant: a
//! route that wants no scope is open to everybody.

use crate::api::Shared;
use crate::routes::{
    audit_log, clients, dead_letters, devices, messages, operations, presence_routes, products,
    pushes, stream, tokens, users,
};
use crate::tokens::scope::Scope;
use axum::routing::{MethodRouter, delete, get, post, put};
use std::sync::Arc;

/// Where a route says which product it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// In its path.
    Path,
    /// In its query, or it is about all of them.
    Query,
    /// In its body: the handler holds it against the token.
    Body,
    /// Nowhere, and what it tells is only for who knows a push's id.
    Free,
    /// Nowhere: a token that is bound to products is not for it.
    Other,
}

/// What holds for a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Any of these will do; none: it is open.
    pub(crate) scopes: &'static [Scope],
    pub(crate) of: Of,
}

impl Rule {
    /// Whether its calls are kept in the audit log: `None` where nothing is changed; whether they
    /// are messages, of which there may be many.
    pub(crate) fn kept(self) -> Option<bool> {
        let looks = |scope: &Scope| matches!(scope, Scope::Metrics | Scope::Read);
        let is_message = |scope: &Scope| matches!(scope, Scope::Push | Scope::Publish);
        let changes =
            self.method != "get" && !self.scopes.is_empty() && !self.scopes.iter().any(looks);
        changes.then(|| self.scopes.iter().any(is_message))
    }
}

/// What the body of a call is about, for the audit log; in the extensions of its answer.
#[derive(Clone)]
pub(crate) struct About(pub(crate) String);

type Methods = MethodRouter<Arc<Shared>>;

/// Every route.
pub(crate) fn table() -> Vec<(Rule, Methods)> {
    [of_devices(), of_topics(), of_access()].into_iter().flatten().collect()
}

/// Open ones, figures, products, their devices and what is pushed to them.
#[rustfmt::skip] // a row a route
fn of_devices() -> Vec<(Rule, Methods)> {
    use Of::{Body, Free, Other, Path, Query};
    use Scope::{Admin, Manage, Metrics, Push, Read};
    let row = |method, path, scopes, of, methods| (Rule { method, path, scopes, of }, methods);
    vec![
        row("get", "/", &[], Free, get(operations::index)),
        row("get", "/healthz", &[], Free, get(operations::healthz)),
        row("get", "/readyz", &[], Free, get(operations::readyz)),
        row("get", "/openapi.json", &[], Free, get(operations::openapi)),
        row("get", "/metrics", &[Metrics], Other, get(operations::metrics)),
        row("get", "/v1/status", &[Metrics], Other, get(operations::status)),
        row("post", "/v1/backup", &[Admin], Other, post(operations::backup)),
        row("get", "/v1/events", &[Read], Query, get(stream::events)),
        row("post", "/v1/pushes", &[Push], Body, post(pushes::push)),
        row("get", "/v1/pushes/{id}", &[Push, Read], Free, get(pushes::counts)),
        row("get", "/v1/devices", &[Read], Query, get(devices::list)),
        row("get", "/v1/products", &[Read], Other, get(products::list)),
        row("get", "/v1/products/{product}", &[Read], Path, get(products::one)),
        row("put", "/v1/products/{product}", &[Admin], Path, put(products::put)),
        row("delete", "/v1/products/{product}", &[Admin], Path, delete(products::remove)),
        row("post", "/v1/products/{product}/devices/query", &[Read], Path, post(devices::query)),
        row("get", "/v1/products/{product}/devices/{device}", &[Read], Path, get(devices::one)),
        row("post", "/v1/products/{product}/devices/{device}/kick",
            &[Manage], Path, post(devices::kick)),
        row("put", "/v1/products/{product}/devices/{device}/block",
            &[Manage], Path, put(devices::block)),
        row("delete", "/v1/products/{product}/devices/{device}/block",
            &[Manage], Path, delete(devices::unblock)),
        row("put", "/v1/products/{product}/devices/{device}/tags",
            &[Manage], Path, put(devices::tags)),
        row("post", "/v1/products/{product}/devices/{device}/token",
            &[Manage], Path, post(devices::token)),
        row("get", "/v1/device", &[Read], Query, get(devices::one)),
        row("post", "/v1/device/kick", &[Manage], Query, post(devices::kick)),
        row("put", "/v1/device/block", &[Manage], Query, put(devices::block)),
        row("delete", "/v1/device/block", &[Manage], Query, delete(devices::unblock)),
        row("put", "/v1/device/tags", &[Manage], Query, put(devices::tags)),
        row("post", "/v1/device/token", &[Manage], Query, post(devices::token)),
    ]
}

/// Clients, what is published and retained, presence, webhooks.
#[rustfmt::skip] // a row a route
fn of_topics() -> Vec<(Rule, Methods)> {
    use Of::Other;
    use Scope::{Manage, Metrics, Publish, Read};
    let row = |method, path, scopes, of, methods| (Rule { method, path, scopes, of }, methods);
    vec![
        row("get", "/v1/clients", &[Read], Other, get(clients::list)),
        row("get", "/v1/clients/{client}", &[Read], Other, get(clients::one)),
        row("delete", "/v1/clients/{client}", &[Manage], Other, delete(clients::kick)),
        row("get", "/v1/clients/{client}/subscriptions",
            &[Read], Other, get(clients::subscriptions)),
        row("post", "/v1/clients/{client}/subscriptions",
            &[Manage], Other, post(clients::subscribe)),
        row("delete", "/v1/clients/{client}/subscriptions",
            &[Manage], Other, delete(clients::unsubscribe)),
        row("get", "/v1/client", &[Read], Other, get(clients::one_named)),
        row("delete", "/v1/client", &[Manage], Other, delete(clients::kick_named)),
        row("get", "/v1/client/subscriptions", &[Read], Other, get(clients::subscriptions_named)),
        row("post", "/v1/client/subscriptions", &[Manage], Other, post(clients::subscribe_named)),
        row("delete", "/v1/client/subscriptions",
            &[Manage], Other, delete(clients::unsubscribe_named)),
        row("get", "/v1/presence", &[Read], Other, get(presence_routes::one)),
        row("post", "/v1/presence", &[Read], Other, post(presence_routes::many)),
        row("get", "/v1/presence/stored", &[Read], Other, get(presence_routes::stored_one)),
        row("post", "/v1/presence/stored", &[Read], Other, post(presence_routes::stored_many)),
        row("get", "/v1/presence/status", &[Metrics], Other, get(presence_routes::status)),
        row("get", "/v1/presence/counts", &[Metrics], Other, get(presence_routes::counts)),
        row("get", "/v1/presence/statistics", &[Metrics], Other, get(presence_routes::statistics)),
        row("post", "/v1/presence/audit", &[Manage], Other, post(presence_routes::audit)),
        row("get", "/v1/webhooks", &[Read], Other, get(dead_letters::webhooks)),
        row("get", "/v1/webhooks/{webhook}/dead_letters", &[Read], Other, get(dead_letters::list)),
        row("delete", "/v1/webhooks/{webhook}/dead_letters",
            &[Manage], Other, delete(dead_letters::clear)),
        row("post", "/v1/webhooks/{webhook}/dead_letters/redeliver",
            &[Manage], Other, post(dead_letters::redeliver)),
        row("post", "/v1/publish", &[Publish], Other, post(messages::publish)),
        row("get", "/v1/retained", &[Read], Other, get(messages::retained)),
        row("get", "/v1/retained/{topic}", &[Read], Other, get(messages::retained_one)),
        row("delete", "/v1/retained/{topic}", &[Manage], Other, delete(messages::clear)),
        row("get", "/v1/retained_message", &[Read], Other, get(messages::retained_named)),
        row("delete", "/v1/retained_message", &[Manage], Other, delete(messages::clear_named)),
    ]
}

/// Users, tokens, and what was done with them.
#[rustfmt::skip] // a row a route
fn of_access() -> Vec<(Rule, Methods)> {
    use Of::Other;
    use Scope::{Admin, Users};
    let row = |method, path, scopes, of, methods| (Rule { method, path, scopes, of }, methods);
    vec![
        row("get", "/v1/users", &[Users], Other, get(users::list)),
        row("get", "/v1/users/{user}", &[Users], Other, get(users::one)),
        row("put", "/v1/users/{user}", &[Users], Other, put(users::put)),
        row("delete", "/v1/users/{user}", &[Users], Other, delete(users::remove)),
        row("get", "/v1/tokens", &[Admin], Other, get(tokens::list)),
        row("post", "/v1/tokens", &[Admin], Other, post(tokens::make)),
        row("get", "/v1/tokens/{token}", &[Admin], Other, get(tokens::one)),
        row("delete", "/v1/tokens/{token}", &[Admin], Other, delete(tokens::revoke)),
        row("get", "/v1/audit_log", &[Admin], Other, get(audit_log::list)),
    ]
}
