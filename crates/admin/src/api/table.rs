//! Every route of the API: method, path, who may, what it is about, handler, and what is said of
//! it.
//!
//! The one list of them: the router and the description for programs are made of it. What a route
//! takes and answers its handler's types say ([`super::describe`]). Invariant: a route that wants
//! no scope is open to everybody.

mod chat;

use crate::api::Shared;
use crate::describe::{Described, Operation};
use crate::fault::Refusal;
use crate::routes::{
    audit_log, clients, console_files, dead_letters, devices, insight, messages, operations,
    overview, presence_routes, products, pushes, session, stream, tokens, trace, users,
};
use crate::texts::IdempotencyKey;
use crate::tokens::scope::Scope;
use axum::handler::Handler;
use axum::routing::{self, MethodRouter};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};
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
    /// Its calls are kept in the audit log although it is open.
    pub(crate) is_log_in: bool,
    /// The same although it changes nothing: it shows what people say.
    pub(crate) is_watched: bool,
}

impl Rule {
    /// Whether its calls are kept in the audit log: `None` where nothing is changed; whether they
    /// are messages, of which there may be many.
    pub(crate) fn kept(self) -> Option<bool> {
        let looks = |scope: &Scope| matches!(scope, Scope::Metrics | Scope::Read);
        let is_message =
            |scope: &Scope| matches!(scope, Scope::Push | Scope::Publish | Scope::Chat);
        let changes =
            self.method != "get" && !self.scopes.is_empty() && !self.scopes.iter().any(looks);
        let is_gathered = || self.is_log_in || self.scopes.iter().any(is_message);
        (changes || self.is_log_in || self.is_watched).then(is_gathered)
    }
}

/// What the body of a call is about, for the audit log; in the extensions of its answer.
#[derive(Clone)]
pub(crate) struct About(pub(crate) String);

type Methods = MethodRouter<Arc<Shared>>;

/// One route.
pub(crate) struct Route {
    pub(crate) rule: Rule,
    pub(crate) methods: Methods,
    /// Tells its types.
    pub(crate) describe: fn(&mut Operation<'_>),
    /// Its name for programs, which are generated with it.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    /// What is to be said beyond the summary.
    pub(crate) more: &'static str,
    /// What its body means, by status.
    pub(crate) answers: Vec<(u16, &'static str)>,
    /// Refusals, beside those that all routes of its kind have.
    pub(crate) refusals: &'static [Refusal],
    /// Headers it reads.
    pub(crate) headers: Vec<Value>,
}

macro_rules! methods {
    ($($method:ident)*) => {$(
        fn $method<H, T, A>(path: &'static str, handler: H) -> Route
        where
            H: Handler<T, Arc<Shared>> + Described<A>,
            T: 'static,
        {
            let (method, of) = (stringify!($method), Of::Free);
            let (scopes, is_log_in, is_watched) = (&[], false, false);
            let rule = Rule { method, path, scopes, of, is_log_in, is_watched };
            Route {
                rule,
                methods: routing::$method(handler),
                describe: H::describe,
                id: "",
                summary: "",
                more: "",
                answers: Vec::new(),
                refusals: &[],
                headers: Vec::new(),
            }
        }
    )*};
}

methods!(get put post delete);

impl Route {
    /// One of these scopes, and what it is about.
    fn wants(mut self, scopes: &'static [Scope], of: Of) -> Route {
        (self.rule.scopes, self.rule.of) = (scopes, of);
        self
    }

    /// It is for everybody, and shows a token.
    fn logs_in(mut self) -> Route {
        self.rule.is_log_in = true;
        self
    }

    /// Who calls it, and with what, is kept.
    fn watched(mut self) -> Route {
        self.rule.is_watched = true;
        self
    }

    fn refuses(self, refusals: &'static [Refusal]) -> Route {
        Route { refusals, ..self }
    }

    /// Its name, a summary, and what its answer is.
    fn told(self, id: &'static str, summary: &'static str, answer: &'static str) -> Route {
        Route { id, summary, answers: vec![(200, answer)], ..self }
    }

    /// The same body comes with another status.
    fn unless(mut self, status: u16, answer: &'static str) -> Route {
        self.answers.push((status, answer));
        self
    }

    fn more(self, more: &'static str) -> Route {
        Route { more, ..self }
    }

    fn header<T: JsonSchema>(mut self, name: &'static str, told: &'static str) -> Route {
        let schema = T::json_schema(&mut SchemaGenerator::default());
        let header = json!({ "name": name, "in": "header", "description": told, "schema": schema });
        self.headers.push(header);
        self
    }
}

/// Of a route that asks the shards.
const ASKS: &[Refusal] = &[Refusal::Busy, Refusal::NoAnswer];

/// Of one that asks them about something that may not be there.
const FINDS: &[Refusal] = &[Refusal::NotFound, Refusal::Busy, Refusal::NoAnswer];

/// Of one that asks for dead letters.
const LETTERS: &[Refusal] = &[Refusal::NotFound, Refusal::NoDeadLetters, Refusal::Busy];

/// Every route.
pub(crate) fn table() -> Vec<Route> {
    let of_devices = [general(), products_and_devices(), devices_by_query()];
    let of_topics = [
        sessions(),
        insights(),
        clients(),
        presence(),
        bridges(),
        webhooks(),
        messages(),
        access(),
        chat::accounts(),
        chat::broadcasts(),
        chat::groups(),
        chat::chatrooms(),
    ];
    of_devices.into_iter().chain(of_topics).flatten().collect()
}

/// Open ones, figures, pushes, events.
#[rustfmt::skip] // a row a route
fn general() -> Vec<Route> {
    use Of::{Body, Free, Other, Query};
    use Refusal::{BackupFailed, Busy, Conflict, FolderTaken, NoAnswer, NotFound};
    use Scope::{Admin, Metrics, Push, Read};
    vec![
        get("/", console_files::page)
            .told("index", "What there is, for people",
                "The console, for who takes `text/html`; else a page of text."),
        get("/console/{file}", console_files::file).refuses(&[NotFound])
            .told("consoleFile", "A file of the console", "It."),
        get("/healthz", operations::healthz)
            .told("health", "Whether the process is alive", "`ok`."),
        get("/readyz", operations::readyz)
            .told("ready", "Whether the server takes everything that belongs here", "It does.")
            .unless(503, "It lets its connections go, or a log is full or failed: `reasons` says \
                which."),
        get("/readyz/connections", operations::readyz_connections)
            .told("readyConnections", "Whether clients belong here", "They do.")
            .more("A log that is full takes nothing new; clients come in, read and remove.")
            .unless(503, "It lets its connections go, or a log failed."),
        get("/openapi.json", operations::openapi)
            .told("describe", "This description", "OpenAPI 3.1."),
        get("/metrics", operations::metrics).wants(&[Metrics], Other).refuses(ASKS)
            .told("metrics", "Counters and gauges for Prometheus", "Text format 0.0.4."),
        get("/v1/status", operations::status).wants(&[Metrics], Other).refuses(ASKS)
            .told("status", "Counters and gauges", "Added up over the shards."),
        post("/v1/backup", operations::backup)
            .wants(&[Admin], Other).refuses(&[FolderTaken, BackupFailed, Busy])
            .told("backup", "Copy the data folder while the server runs", "The copy is whole.")
            .more("Answers when the copy is whole and on stable storage. One at a time."),
        get("/v1/events", stream::events).wants(&[Read], Query).refuses(&[Busy])
            .told("events", "Events as they happen",
                "Server-sent events. Each has an id; comments keep a quiet stream alive every 15 \
                 s. An event `gap` tells what is missing.")
            .header::<String>("Last-Event-ID", "Go on after this event."),
        post("/v1/pushes", pushes::push)
            .wants(&[Push], Body).refuses(&[NotFound, Conflict, Busy, NoAnswer])
            .told("push", "Push to a device, a list, a tag or a product",
                "For `device` and `devices` an outcome for each; for `tag` and `all` counts, as \
                 far as the push has come.")
            .header::<IdempotencyKey>("Idempotency-Key",
                "The application's own name for this push. The push is on stable storage before \
                 it is answered; a repeated request is answered with the first one's id and \
                 changes nothing; the same key with another push is refused."),
        get("/v1/pushes/{id}", pushes::counts).wants(&[Push, Read], Free).refuses(FINDS)
            .told("pushCounts", "How far a push has come",
                "Its counts. The server remembers the last pushes only."),
    ]
}

/// The console's way in.
#[rustfmt::skip] // a row a route
fn sessions() -> Vec<Route> {
    use Of::Free;
    use Refusal::{Forbidden, TooManyLogins, Unauthorized};
    use Scope::{Admin, Chat, Manage, Metrics, Publish, Push, Read, Trace, Users, View};
    const ANY: &[Scope] =
        &[Metrics, Read, Push, Publish, Manage, Users, Chat, Admin, View, Trace];
    vec![
        post("/v1/session", session::begin).logs_in()
            .refuses(&[Unauthorized, Forbidden, TooManyLogins])
            .told("logIn", "Log in to the console", "Who that is; the answer sets a cookie.")
            .more("With a token, or as a user of the book who has a role ([api] viewers, \
                   operators, admins). For scripts of the console, which send a header \
                   `Holdline-Console`; a request that a browser makes for another origin is \
                   refused. Programs show their token with each call instead."),
        get("/v1/session", session::whose)
            .told("getSession", "Who asks, and what for its token is good",
                "The caller; for a stranger nobody."),
        delete("/v1/session", session::end).wants(ANY, Free)
            .told("logOut", "Log out of the console", "The session and its streams are over."),
    ]
}

/// What operators look at beside figures.
#[rustfmt::skip] // a row a route
fn insights() -> Vec<Route> {
    use Of::Other;
    use Refusal::Busy;
    use Scope::{Manage, Metrics, Read, Trace, View};
    vec![
        get("/v1/overview", overview::one).wants(&[Metrics], Other).refuses(ASKS)
            .told("overview", "Everything that says how the server is", "It, now."),
        get("/v1/overview/stream", overview::stream).wants(&[Metrics], Other).refuses(&[Busy])
            .told("overviewStream", "The same, once a second",
                "Server-sent events, each called `overview`. All who look see the same ones."),
        get("/v1/meanings", insight::meanings).wants(&[Metrics], Other)
            .told("meanings", "What names of counters and reasons mean", "All of them."),
        get("/v1/log", insight::log).wants(&[Read], Other)
            .told("log", "The newest warnings and errors of the server's log",
                "As many as are kept, oldest first."),
        get("/v1/trace", trace::follow).wants(&[Trace], Other).watched().refuses(&[Busy])
            .told("trace", "What a client, a user, an address or a topic says, live and decoded",
                "Server-sent events: `trace` for each packet, frame or stanza, and for what the \
                 server noticed; `left_out` where some are missing; `over` at the end.")
            .more("Passwords, tokens, signatures and what SASL says are never told. A client that \
                   is not there yet is followed from its first packet. The call is kept in the \
                   audit log."),
        get("/v1/configuration", insight::configuration)
            .wants(&[Manage, View], Other).refuses(&[Busy])
            .told("configuration", "The configuration in force, with its documentation",
                "Every key. Secrets are hidden. What a reload would change is told too."),
    ]
}

/// Products and their devices.
#[rustfmt::skip] // a row a route
fn products_and_devices() -> Vec<Route> {
    use Of::{Other, Path, Query};
    use Scope::{Admin, Manage, Read};
    vec![
        get("/v1/devices", devices::list).wants(&[Read], Query).refuses(FINDS)
            .told("listDevices", "Devices, page by page", "A page, in no particular order."),
        get("/v1/products", products::list).wants(&[Read], Other).refuses(ASKS)
            .told("listProducts", "All products", "By key."),
        get("/v1/products/{product}", products::one).wants(&[Read], Path).refuses(FINDS)
            .told("product", "A product", "The product."),
        put("/v1/products/{product}", products::put).wants(&[Admin], Path).refuses(ASKS)
            .told("putProduct", "Make or change a product",
                "The product as it is now, with the secret if one was made."),
        delete("/v1/products/{product}", products::remove).wants(&[Admin], Path).refuses(FINDS)
            .told("removeProduct", "Remove a product; its devices are kicked", "It is gone."),
        post("/v1/products/{product}/devices/query", devices::query)
            .wants(&[Read], Path).refuses(FINDS)
            .told("queryDevices", "The state of many devices", "Those that are known."),
        get("/v1/products/{product}/devices/{device}", devices::one)
            .wants(&[Read], Path).refuses(FINDS)
            .told("device", "The state of a device", "The device."),
        post("/v1/products/{product}/devices/{device}/kick", devices::kick)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("kick", "End a device's connection", "It is told to go."),
        put("/v1/products/{product}/devices/{device}/block", devices::block)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("block", "Block a device; its connection ends", "It is blocked."),
        delete("/v1/products/{product}/devices/{device}/block", devices::unblock)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("unblock", "Unblock a device", "It is not blocked."),
        put("/v1/products/{product}/devices/{device}/tags", devices::tags)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("setTags", "Set a device's tags", "Its tags from now on."),
        post("/v1/products/{product}/devices/{device}/token", devices::token)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("makeDeviceToken", "Make a token for a device", "The token."),
    ]
}

/// Devices that a path does not carry.
#[rustfmt::skip] // a row a route
fn devices_by_query() -> Vec<Route> {
    use Of::Query;
    use Scope::{Manage, Read};
    vec![
        get("/v1/device", devices::one).wants(&[Read], Query).refuses(FINDS)
            .told("deviceNamed", "The state of a device, whatever it is called", "The device."),
        post("/v1/device/kick", devices::kick).wants(&[Manage], Query).refuses(FINDS)
            .told("kickNamed", "End a device's connection, whatever it is called",
                "It is told to go."),
        put("/v1/device/block", devices::block).wants(&[Manage], Query).refuses(FINDS)
            .told("blockNamed", "Block a device; its connection ends, whatever it is called",
                "It is blocked."),
        delete("/v1/device/block", devices::unblock).wants(&[Manage], Query).refuses(FINDS)
            .told("unblockNamed", "Unblock a device, whatever it is called", "It is not blocked."),
        put("/v1/device/tags", devices::tags).wants(&[Manage], Query).refuses(FINDS)
            .told("setTagsNamed", "Set a device's tags, whatever it is called",
                "Its tags from now on."),
        post("/v1/device/token", devices::token).wants(&[Manage], Query).refuses(FINDS)
            .told("makeDeviceTokenNamed", "Make a token for a device, whatever it is called",
                "The token."),
    ]
}

/// Clients and their subscriptions.
#[rustfmt::skip] // a row a route
fn clients() -> Vec<Route> {
    use Of::Other;
    use Refusal::{Busy, NoAnswer, NotFound, Refused};
    use Scope::{Manage, Read};
    vec![
        get("/v1/clients", clients::list).wants(&[Read], Other).refuses(ASKS)
            .told("listClients", "Clients of topics, page by page",
                "A page, in no particular order."),
        get("/v1/clients/{client}", clients::one).wants(&[Read], Other).refuses(FINDS)
            .told("getClient", "One client", "What is known of it."),
        delete("/v1/clients/{client}", clients::kick).wants(&[Manage], Other).refuses(FINDS)
            .told("kickClient", "End a client's connection, or its session too", "It is over."),
        get("/v1/clients/{client}/subscriptions", clients::subscriptions)
            .wants(&[Read], Other).refuses(FINDS)
            .told("getSubscriptions", "A client's subscriptions", "All of them."),
        post("/v1/clients/{client}/subscriptions", clients::subscribe)
            .wants(&[Manage], Other).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("subscribeClient", "Subscribe a client",
                "Retained messages follow as its wish says."),
        delete("/v1/clients/{client}/subscriptions", clients::unsubscribe)
            .wants(&[Manage], Other).refuses(FINDS)
            .told("unsubscribeClient", "End a subscription", "It is over."),
        get("/v1/client", clients::one_named).wants(&[Read], Other).refuses(FINDS)
            .told("getClientNamed", "One client, whatever it is called", "What is known of it."),
        delete("/v1/client", clients::kick_named).wants(&[Manage], Other).refuses(FINDS)
            .told("kickClientNamed", "End its connection, or its session, whatever it is called",
                "It is over."),
        get("/v1/client/subscriptions", clients::subscriptions_named)
            .wants(&[Read], Other).refuses(FINDS)
            .told("listSubscriptionsNamed", "Its subscriptions, whatever it is called",
                "All of them."),
        post("/v1/client/subscriptions", clients::subscribe_named)
            .wants(&[Manage], Other).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("subscribeNamed", "Subscribe for it, whatever it is called",
                "Retained messages follow as its wish says."),
        delete("/v1/client/subscriptions", clients::unsubscribe_named)
            .wants(&[Manage], Other).refuses(FINDS)
            .told("unsubscribeNamed", "End a subscription of it, whatever it is called",
                "It is over."),
    ]
}

/// Who is online, by memory and by the directory.
#[rustfmt::skip] // a row a route
fn presence() -> Vec<Route> {
    use Of::Other;
    use Refusal::{Busy, DirectoryFailed, NoAnswer, NoDirectory, NoHistory, NotFound};
    use Scope::{Manage, Metrics, Read};
    vec![
        get("/v1/presence", presence_routes::one).wants(&[Read], Other).refuses(FINDS)
            .told("getPresence", "Is it online, by this server's memory",
                "What memory knows of it."),
        post("/v1/presence", presence_routes::many).wants(&[Read], Other).refuses(ASKS)
            .told("queryPresence", "The same of up to 1000", "What memory knows of them."),
        get("/v1/presence/history", presence_routes::history)
            .wants(&[Read], Other).refuses(&[NoHistory, Busy, NoAnswer])
            .told("presenceHistory", "The last times that it came and went",
                "Its transitions that this server's history has, oldest first.")
            .more("When, from which address, over which protocol, and how each connection ended."),
        get("/v1/presence/stored", presence_routes::stored_one)
            .wants(&[Read], Other).refuses(&[NotFound, NoDirectory, DirectoryFailed])
            .told("getStoredPresence", "What the directory has of it",
                "Its record, and what that means."),
        post("/v1/presence/stored", presence_routes::stored_many)
            .wants(&[Read], Other).refuses(&[NoDirectory, DirectoryFailed])
            .told("queryStoredPresence", "The same of up to 1000", "Their records."),
        get("/v1/presence/status", presence_routes::status).wants(&[Metrics], Other)
            .told("presenceStatus", "How the directory stands",
                "Circuit, lag, last fault, counters."),
        get("/v1/presence/counts", presence_routes::counts).wants(&[Metrics], Other).refuses(ASKS)
            .told("presenceCounts", "How many are online, by product and protocol",
                "Of this server, by its memory."),
        get("/v1/presence/statistics", presence_routes::statistics).wants(&[Metrics], Other)
            .told("presenceStatistics", "Figures over time", "Oldest first."),
        post("/v1/presence/audit", presence_routes::audit)
            .wants(&[Manage], Other).refuses(&[NoDirectory, DirectoryFailed])
            .told("auditPresence", "Compare memory and directory", "What was found.")
            .more("By digests of 16384 buckets; records are read only where these differ. A \
                   difference that is still there after the settle time is persistent. Answers \
                   when it is done. One at a time."),
    ]
}

/// Bridges to other brokers.
#[rustfmt::skip] // a row a route
fn bridges() -> Vec<Route> {
    use Of::Other;
    use Scope::Read;
    vec![
        get("/v1/bridges", operations::bridges).wants(&[Read], Other)
            .told("listBridges", "Bridges, and whether their brokers are there",
                "All that are enabled."),
    ]
}

/// Webhooks, and what they gave up.
#[rustfmt::skip] // a row a route
fn webhooks() -> Vec<Route> {
    use Of::Other;
    use Scope::{Manage, Read};
    vec![
        get("/v1/webhooks", dead_letters::webhooks).wants(&[Read], Other)
            .told("listWebhooks", "Webhooks, and what became of their events",
                "All of them, as configured."),
        get("/v1/webhooks/{webhook}/dead_letters", dead_letters::list)
            .wants(&[Read], Other).refuses(LETTERS)
            .told("listDeadLetters", "Events that a webhook gave up, page by page",
                "A page, oldest first."),
        delete("/v1/webhooks/{webhook}/dead_letters", dead_letters::clear)
            .wants(&[Manage], Other).refuses(LETTERS)
            .told("clearDeadLetters", "Clear events that a webhook gave up", "Cleared."),
        post("/v1/webhooks/{webhook}/dead_letters/redeliver", dead_letters::redeliver)
            .wants(&[Manage], Other).refuses(LETTERS)
            .told("redeliverDeadLetters", "Post to a webhook again what it gave up",
                "It ended; `failure` says whether before it was through.")
            .more("Oldest first, in batches of 100 marked `redelivered`, until `limit` is reached \
                   or one is not taken. One at a time a webhook."),
    ]
}

/// What is published and retained.
#[rustfmt::skip] // a row a route
fn messages() -> Vec<Route> {
    use Of::Other;
    use Refusal::{Busy, NoAnswer, Refused};
    use Scope::{Manage, Publish, Read};
    vec![
        post("/v1/publish", messages::publish)
            .wants(&[Publish], Other).refuses(&[Refused, Busy, NoAnswer])
            .told("publish", "Publish to a topic, once or many times",
                "It is where it has to be: what waits for somebody is on stable storage. A list \
                 has a result for each; it is checked whole before its first message is \
                 published."),
        get("/v1/retained", messages::retained).wants(&[Read], Other).refuses(ASKS)
            .told("listRetained", "Retained messages, page by page",
                "A page, in the order of topics."),
        get("/v1/retained/{topic}", messages::retained_one).wants(&[Read], Other).refuses(FINDS)
            .told("getRetained", "The retained message of a topic", "It."),
        delete("/v1/retained/{topic}", messages::clear).wants(&[Manage], Other).refuses(FINDS)
            .told("clearRetained", "Forget the retained message of a topic", "It is gone."),
        get("/v1/retained_message", messages::retained_named).wants(&[Read], Other).refuses(FINDS)
            .told("getRetainedNamed", "The retained message of a topic, whatever it is called",
                "It."),
        delete("/v1/retained_message", messages::clear_named).wants(&[Manage], Other).refuses(FINDS)
            .told("clearRetainedNamed", "Forget it, whatever the topic is called", "It is gone."),
    ]
}

/// Users, tokens, and what was done with them.
#[rustfmt::skip] // a row a route
fn access() -> Vec<Route> {
    use Of::Other;
    use Refusal::{Busy, NoAnswer, NotFound, Refused};
    use Scope::{Admin, Users, View};
    vec![
        get("/v1/users", users::list).wants(&[Users, View], Other).refuses(ASKS)
            .told("listUsers", "Users of the book, page by page",
                "A page, in an order that stays the same and is not that of names. Users of a \
                 password file are not in the book."),
        post("/v1/users", users::import).wants(&[Users], Other).refuses(&[Refused, Busy, NoAnswer])
            .told("importUsers", "Make or change many users, as lines say",
                "How many lines are done: their users are on stable storage and can log in. It \
                 stops before a line that is wrong, behind 64 plain passwords, and before a name \
                 that stood there already.")
            .more("A line that says what is so changes nothing: an import that broke off is made \
                   again from its beginning. A user's rules stay."),
        get("/v1/users/{user}", users::one).wants(&[Users, View], Other).refuses(FINDS)
            .told("getUser", "One user", "Without anything of its password."),
        get("/v1/users/{user}/keys", users::keys).wants(&[Admin], Other).watched().refuses(FINDS)
            .told("getUserKeys", "A user's keys for SCRAM",
                "As lines of a password file have them. With them another server lets the user in \
                 by the password that it has; they are secrets. The call is kept in the audit \
                 log."),
        put("/v1/users/{user}", users::put)
            .wants(&[Users], Other).refuses(&[Refused, Busy, NoAnswer])
            .told("putUser", "Make or change a user",
                "As it is now, on stable storage and in force."),
        delete("/v1/users/{user}", users::remove).wants(&[Users], Other).refuses(FINDS)
            .told("removeUser", "Remove a user", "It is gone; its connections end."),
        post("/v1/users/{user}/kick", users::kick)
            .wants(&[Users], Other).refuses(&[Refused, NotFound, Busy, NoAnswer])
            .told("kickUser", "End all sessions of a user",
                "As it is now, with a higher epoch: whatever was begun before is over, on every \
                 shard. It may come again."),
        get("/v1/tokens", tokens::list).wants(&[Admin, View], Other).refuses(&[Busy])
            .told("listTokens", "Tokens of the API, page by page",
                "A page, in the order of names. The tokens themselves are never shown again, and \
                 the file's is not among them."),
        post("/v1/tokens", tokens::make).wants(&[Admin], Other).refuses(&[Refused, Busy])
            .told("makeToken", "Make a token", "It is on stable storage, and shown this once."),
        get("/v1/tokens/{token}", tokens::one)
            .wants(&[Admin, View], Other).refuses(&[NotFound, Busy])
            .told("getToken", "One token, but for itself", "What it is good for."),
        delete("/v1/tokens/{token}", tokens::revoke)
            .wants(&[Admin], Other).refuses(&[NotFound, Busy])
            .told("revokeToken", "Revoke a token",
                "It opens nothing any more; its event streams end."),
        get("/v1/audit_log", audit_log::list).wants(&[Admin, View], Other).refuses(&[Busy])
            .told("listAuditLog", "Who called what, and what came of it",
                "A page, the newest first.")
            .more("Each call that changes something, and calls that were refused. An entry is on \
                   stable storage before its call is answered. Messages (`POST /v1/pushes`, `POST \
                   /v1/publish`) and refusals that are alike share an entry: the first is told at \
                   once, `more` counts those since the one before."),
    ]
}
