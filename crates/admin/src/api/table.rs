//! Table of all routes of the API: method, path, required scope, subject, handler, and description.
//!
//! The router and the machine-readable description are both made from this table. The types of a
//! route's handler describe its parameters and answers ([`super::describe`]). Invariant: a route
//! without a scope is open to everyone.

mod chat;
mod outcomes;
mod schedules;

use crate::api::Shared;
use crate::describe::{Described, Operation};
use crate::fault::Refusal;
use crate::routes::access::{audit_log, bans, tokens};
use crate::routes::{
    clients, console_files, dead_letters, devices, insight, messages, operations, overview,
    presence_routes, products, pushes, segments, session, stream, trace, users,
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
    /// No product: the answer is protected only by knowledge of a push's id.
    Free,
    /// Nowhere: a token that is bound to products is not for it.
    Other,
}

/// Rule of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Scopes of which one is enough; none: the route is open.
    pub(crate) scopes: &'static [Scope],
    pub(crate) of: Of,
    /// Calls of the route are in the audit log although it is open.
    pub(crate) is_log_in: bool,
    /// Whether its calls are kept in the audit log although it changes nothing: it shows what users
    /// say.
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

/// Subject of a call that its body names, for the audit log; in the extensions of its answer.
#[derive(Clone)]
pub(crate) struct About(pub(crate) String);

type Methods = MethodRouter<Arc<Shared>>;

/// One route.
pub(crate) struct Route {
    pub(crate) rule: Rule,
    pub(crate) methods: Methods,
    /// Describes the handler's types.
    pub(crate) describe: fn(&mut Operation<'_>),
    /// The route's name for generated clients.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    /// Description beyond the summary.
    pub(crate) more: &'static str,
    /// Meaning of its answer's body, by status.
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
    /// Requires one of these scopes, for calls about `of`.
    fn wants(mut self, scopes: &'static [Scope], of: Of) -> Route {
        (self.rule.scopes, self.rule.of) = (scopes, of);
        self
    }

    /// Makes the route a log-in: open to everyone, with a token in its body.
    fn logs_in(mut self) -> Route {
        self.rule.is_log_in = true;
        self
    }

    /// Makes the audit log keep the caller and subject of each call.
    fn watched(mut self) -> Route {
        self.rule.is_watched = true;
        self
    }

    fn refuses(self, refusals: &'static [Refusal]) -> Route {
        Route { refusals, ..self }
    }

    /// Sets the route's name, a summary, and a description of its answer.
    fn told(self, id: &'static str, summary: &'static str, answer: &'static str) -> Route {
        Route { id, summary, answers: vec![(200, answer)], ..self }
    }

    /// Adds another status with the same body.
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

/// Refusals of a route that asks the shards about something that may not exist.
const FINDS: &[Refusal] = &[Refusal::NotFound, Refusal::Busy, Refusal::NoAnswer];

/// Refusals of a route about dead letters.
const LETTERS: &[Refusal] = &[Refusal::NotFound, Refusal::NoDeadLetters, Refusal::Busy];

/// Every route.
pub(crate) fn table() -> Vec<Route> {
    let of_devices = [
        general(),
        outcomes::outcomes(),
        schedules::schedules(),
        products_and_devices(),
        devices_by_query(),
    ];
    let of_topics = [
        sessions(),
        insights(),
        clients(),
        presence(),
        bridges(),
        webhooks(),
        messages(),
        access(),
        banned(),
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
            .told("index", "The start page",
                "The console for clients that accept `text/html`; otherwise a page of text."),
        get("/console/{file}", console_files::file).refuses(&[NotFound])
            .told("consoleFile", "A file of the console", "The file."),
        get("/healthz", operations::healthz)
            .told("health", "Whether the process is alive", "`ok`."),
        get("/readyz", operations::readyz)
            .told("ready", "Whether the server accepts all requests", "It is ready.")
            .unless(503, "The server is draining, a log is full or failed, or the node leads and \
                          reaches no majority of the NATS servers: `reasons` says which."),
        get("/readyz/connections", operations::readyz_connections)
            .told("readyConnections", "Whether the server accepts clients", "It accepts clients.")
            .more("A full log refuses new data, but clients can connect, read and delete.")
            .unless(503, "The server is draining, or a log failed."),
        get("/openapi.json", operations::openapi)
            .told("describe", "This description", "OpenAPI 3.1."),
        get("/im.proto", operations::im_proto)
            .told("imSchema", "The schema of IM, for clients", "Protocol Buffers, proto3."),
        get("/metrics", operations::metrics).wants(&[Metrics], Other).refuses(ASKS)
            .told("metrics", "Counters and gauges for Prometheus", "Text format 0.0.4."),
        get("/v1/status", operations::status).wants(&[Metrics], Other).refuses(ASKS)
            .told("status", "Counters and gauges", "The sums over all shards."),
        get("/v1/cluster", operations::cluster).wants(&[Read], Other)
            .told("cluster", "The cluster: who leads, and how the copies of the logs are",
                "As this node knows it; null for a server that is alone.")
            .more("A node that follows answers this call, `/healthz`, `/readyz`, `/metrics` and \
                   `/v1/status`, and 503 to all others, with the leader's address."),
        post("/v1/drain", operations::drain).wants(&[Admin], Other)
            .told("drain", "Drain the server, which goes on running",
                "New clients are refused from now on.")
            .more("`/readyz` and `/readyz/connections` answer 503, and open connections are closed \
                   over [limits] drain_ms in the words of their protocols. The API, bridges and \
                   streams with other XMPP servers go on. A restart ends the drain, too."),
        delete("/v1/drain", operations::undrain).wants(&[Admin], Other)
            .told("undrain", "End a drain", "Clients are accepted again."),
        post("/v1/backup", operations::backup)
            .wants(&[Admin], Other).refuses(&[FolderTaken, BackupFailed, Busy])
            .told("backup", "Back up the data folder while the server runs",
                "The copy is complete.")
            .more("Responds when the copy is complete and on stable storage. It has no first \
                   token, audit log, alarms, history of presence and dead letters. Only one \
                   backup runs at a time."),
        get("/v1/events", stream::events).wants(&[Read], Query).refuses(&[Busy])
            .told("events", "Events as they happen",
                "Server-sent events. Each has an id; comments keep a quiet stream alive every 15 \
                 s. An event `gap` reports missing events.")
            .header::<String>("Last-Event-ID", "Continue after this event."),
        post("/v1/pushes", pushes::push)
            .wants(&[Push], Body).refuses(&[NotFound, Conflict, Busy, NoAnswer])
            .told("push", "Push to a device, a list, a user, a tag, an audience or a product",
                "For `device`, `devices` and `user`, an outcome for each; for `tag`, `audience` \
                 and `all`, and for a push that is scheduled or tracked, the counts so far; for \
                 `dry_run`, \
                 the number of devices.")
            .more("With `send_at_ms` the push is sent later, within a second of that time, to the \
                   devices that are there then. It is on stable storage before the response. If \
                   the server was down at that time, it is sent at the next start, unless `ttl_s` \
                   is over. With `at_local` each device gets it when its own clock shows that \
                   time, and the rest is the same.")
            .header::<IdempotencyKey>("Idempotency-Key",
                "The application's own identifier of this push. The push is on stable storage \
                 before the response; a repeated request gets the id of the first one and changes \
                 nothing; the same key with a different push is refused."),
        post("/v1/pushes/batch", pushes::batch)
            .wants(&[Push], Body).refuses(&[NotFound, Conflict, Busy, NoAnswer])
            .told("pushBatch", "Different pushes for up to 1,000 devices",
                "An outcome for each message, in their order.")
            .more("All messages are checked before the first is sent: a batch with a fault sends \
                   nothing. A message that cannot be sent is `rejected`, and one whose shard does \
                   not answer in time is `unknown`; the others are sent. With `send_at_ms` each \
                   message is a scheduled push with the id in its outcome.")
            .header::<IdempotencyKey>("Idempotency-Key",
                "The application's own identifier of this batch. A repeated request gets the ids \
                 of the first one and goes on where that was cut off; the same key with a \
                 different body is refused."),
        get("/v1/pushes", pushes::list).wants(&[Push, Read], Query).refuses(ASKS)
            .told("listPushes", "Pushes that are scheduled, running or remembered, page by page",
                "A page: those to be sent last come first, then the latest.")
            .more("Pushes to named devices are listed if they were tracked, scheduled or \
                   cancelled."),
        get("/v1/pushes/{id}", pushes::counts).wants(&[Push, Read], Free).refuses(FINDS)
            .told("pushCounts", "Progress of a push",
                "Its counts. The server remembers only the latest pushes."),
        post("/v1/pushes/{id}/pause", pushes::pause).wants(&[Push], Query).refuses(FINDS)
            .told("pausePush", "Pause a push to a tag or a product, or a scheduled one",
                "Its counts. No further device is visited until it is resumed, also after a \
                 restart; a push that is finished stays so.")
            .more("Other pushes overtake a paused one, and its `ttl_s` goes on. A device that \
                   changes its tags gets it before."),
        post("/v1/pushes/{id}/resume", pushes::resume).wants(&[Push], Query).refuses(FINDS)
            .told("resumePush", "Resume a paused push", "Its counts. It goes on where it was."),
        delete("/v1/pushes/{id}", pushes::cancel).wants(&[Push], Query).refuses(FINDS)
            .told("cancelPush", "Cancel a push",
                "Its counts: what was delivered before, and what was recalled.")
            .more("Stops a push to a tag or a product, and recalls any push from the queues of all \
                   devices that have not acknowledged it. The cancel is on stable storage before \
                   the response; a repeated one gets the same response. A token with `products` \
                   names one of them in `product`. Of a push to named devices, `counts` covers the \
                   devices where it was still queued."),
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
            .told("logIn", "Log in to the console", "The user; the response sets a cookie.")
            .more("With a token, or as a user of the user database who has a role ([api] viewers, \
                   operators, admins). For scripts of the console, which send a header \
                   `Holdline-Console`; browser requests from another origin are refused. Programs \
                   send their token with each call instead."),
        get("/v1/session", session::whose)
            .told("getSession", "The caller and its permissions",
                "The caller; empty without valid credentials."),
        delete("/v1/session", session::end).wants(ANY, Free)
            .told("logOut", "Log out of the console", "The session and its streams have ended."),
    ]
}

/// Routes for operators beside those of figures.
#[rustfmt::skip] // a row a route
fn insights() -> Vec<Route> {
    use Of::Other;
    use Refusal::{Busy, ConfigurationInvalid, NotFound};
    use Scope::{Admin, Manage, Metrics, Read, Trace, View};
    vec![
        get("/v1/overview", overview::one).wants(&[Metrics], Other).refuses(ASKS)
            .told("overview", "Overview of the server's state", "The current overview."),
        get("/v1/overview/stream", overview::stream).wants(&[Metrics], Other).refuses(&[Busy])
            .told("overviewStream", "The overview, once a second",
                "Server-sent events of type `overview`. All callers get the same ones."),
        get("/v1/overview/history", overview::history::history).wants(&[Metrics], Other)
            .told("overviewHistory", "The last hour of the overview's figures",
                "Lists of the same length, oldest first.")
            .more("The server keeps a moment every 10 s from its start on, in memory."),
        get("/v1/alarms", overview::alarms::list).wants(&[Read], Other)
            .told("listAlarms", "Alarms, active and past", "The newest first.")
            .more("Conditions that need an operator: the server looks every 10 s. The newest \
                   1000 past alarms are kept, also over a restart."),
        post("/v1/alarms/{alarm}/acknowledge", overview::alarms::acknowledge)
            .wants(&[Manage], Other).refuses(&[NotFound])
            .told("acknowledgeAlarm", "Acknowledge an alarm",
                "The alarm; the first acknowledgement holds. It stays active while its condition \
                 holds."),
        get("/v1/meanings", insight::meanings).wants(&[Metrics], Other)
            .told("meanings", "Meanings of counters and reasons", "All of them."),
        get("/v1/log", insight::log).wants(&[Read], Other)
            .told("log", "The newest warnings and errors of the server's log",
                "All that are kept, oldest first."),
        get("/v1/trace", trace::follow).wants(&[Trace], Other).watched().refuses(&[Busy])
            .told("trace", "Live, decoded traffic of a client, a user, an address or a topic",
                "Server-sent events: `trace` for each packet, frame or stanza, and for the \
                 server's observations; `left_out` if some are missing; `over` at the end.")
            .more("Passwords, tokens, signatures and SASL messages are never shown. A client that \
                   is not connected yet is followed from its first packet. The call is recorded in \
                   the audit log."),
        get("/v1/configuration", insight::configuration)
            .wants(&[Manage, View], Other).refuses(&[Busy])
            .told("getConfiguration", "The configuration in force, with its documentation",
                "Every key, and what a reload would change. Secrets are hidden."),
        post("/v1/configuration/reload", insight::reload)
            .wants(&[Admin], Other).refuses(&[ConfigurationInvalid, Busy])
            .told("reloadConfiguration", "Read the configuration file again",
                "What changed, what needs a restart, and what failed.")
            .more("As SIGHUP does. If the file contains any error, nothing changes. Files that it \
                   names (certificates, passwords, rules, keys, words) are read again, too."),
        post("/v1/configuration/preview", insight::preview)
            .wants(&[Admin], Other).refuses(&[ConfigurationInvalid, Busy])
            .told("previewReload", "Show what a reload would do",
                "What would change, and what would fail.")
            .more("Reads the file and the files that it names, and looks whether the ports of new \
                   listeners are free. Changes nothing."),
    ]
}

/// Products and their devices.
#[rustfmt::skip] // a row a route
fn products_and_devices() -> Vec<Route> {
    use Of::{Other, Path, Query};
    use Refusal::{Busy, NoAnswer, NotFound, Refused};
    use Scope::{Admin, Manage, Push, Read};
    vec![
        get("/v1/devices", devices::list).wants(&[Read], Query).refuses(FINDS)
            .told("listDevices", "Devices, page by page", "A page, in no particular order."),
        get("/v1/products", products::list).wants(&[Read], Other).refuses(ASKS)
            .told("listProducts", "All products", "By key."),
        get("/v1/products/{product}", products::one).wants(&[Read], Path).refuses(FINDS)
            .told("product", "A product", "The product."),
        put("/v1/products/{product}", products::put).wants(&[Admin], Path).refuses(ASKS)
            .told("putProduct", "Create or change a product",
                "The product as it is now, with the secret if one was made."),
        delete("/v1/products/{product}", products::remove).wants(&[Admin], Path).refuses(FINDS)
            .told("removeProduct", "Delete a product and disconnect its devices",
                "The product is deleted."),
        get("/v1/products/{product}/segments", segments::list)
            .wants(&[Push, Read], Path).refuses(FINDS)
            .told("listSegments", "The saved segments of a product", "By name."),
        get("/v1/products/{product}/segments/{segment}", segments::one)
            .wants(&[Push, Read], Path).refuses(FINDS)
            .told("segment", "A saved segment", "The segment."),
        put("/v1/products/{product}/segments/{segment}", segments::put)
            .wants(&[Manage], Path).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("putSegment", "Save or change a segment of a product's devices",
                "The segment as it is now.")
            .more("A segment is an expression over tags with a name. The audience of a push may \
                   name it; pushes that were ordered before a change keep what they had."),
        delete("/v1/products/{product}/segments/{segment}", segments::remove)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("removeSegment", "Remove a saved segment", "It is removed."),
        post("/v1/products/{product}/devices/query", devices::query)
            .wants(&[Read], Path).refuses(FINDS)
            .told("queryDevices", "The state of many devices", "The known ones."),
        get("/v1/products/{product}/devices/{device}", devices::one)
            .wants(&[Read], Path).refuses(FINDS)
            .told("device", "The state of a device", "The device."),
        post("/v1/products/{product}/devices/{device}/kick", devices::kick)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("kick", "Disconnect a device", "The device was told to disconnect."),
        put("/v1/products/{product}/devices/{device}/block", devices::block)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("block", "Block a device and disconnect it", "The device is blocked."),
        delete("/v1/products/{product}/devices/{device}/block", devices::unblock)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("unblock", "Unblock a device", "The device is not blocked."),
        put("/v1/products/{product}/devices/{device}/tags", devices::tags)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("setTags", "Set a device's tags", "The new tags."),
        put("/v1/products/{product}/devices/{device}/user", devices::give)
            .wants(&[Manage], Path).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("giveDevice", "Give a device to a user", "The user.")
            .more("If the device belonged to another user, pushes that are queued for it are \
                   removed (`rejected`, `user_changed`)."),
        delete("/v1/products/{product}/devices/{device}/user", devices::take_away)
            .wants(&[Manage], Path).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("takeDevice", "Take a device from its user", "It belongs to nobody.")
            .more("Pushes that are queued for it are removed (`rejected`, `user_changed`)."),
        put("/v1/products/{product}/devices/{device}/zone", devices::set_zone)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("setZone", "Set the time zone of a device", "The zone.")
            .more("Pushes with `at_local` are sent to the device by the clock of this zone."),
        delete("/v1/products/{product}/devices/{device}/zone", devices::unset_zone)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("unsetZone", "Remove the time zone of a device", "It has none."),
        put("/v1/products/{product}/devices/{device}/platform", devices::register)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("registerPlatformToken", "Set a device's token at its platform", "Its platform.")
            .more("While the device is away, its pushes go there. A device has one token; this one \
                   replaces it."),
        delete("/v1/products/{product}/devices/{device}/platform", devices::unregister)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("removePlatformToken", "Remove a device's token at its platform", "It has none."),
        get("/v1/products/{product}/owners/{owner}/devices", devices::of_user)
            .wants(&[Read], Path).refuses(FINDS)
            .told("devicesOfUser", "The devices of a user", "Those that belong to the user now."),
        post("/v1/products/{product}/devices/{device}/token", devices::token)
            .wants(&[Manage], Path).refuses(FINDS)
            .told("makeDeviceToken", "Make a token for a device", "The token."),
    ]
}

/// Devices that a path does not carry.
#[rustfmt::skip] // a row a route
fn devices_by_query() -> Vec<Route> {
    use Of::Query;
    use Refusal::{Busy, NoAnswer, NotFound, Refused};
    use Scope::{Manage, Read};
    vec![
        get("/v1/device", devices::one).wants(&[Read], Query).refuses(FINDS)
            .told("deviceNamed", "The state of a device, with any name", "The device."),
        post("/v1/device/kick", devices::kick).wants(&[Manage], Query).refuses(FINDS)
            .told("kickNamed", "Disconnect a device, with any name",
                "The device was told to disconnect."),
        put("/v1/device/block", devices::block).wants(&[Manage], Query).refuses(FINDS)
            .told("blockNamed", "Block a device and disconnect it, with any name",
                "The device is blocked."),
        delete("/v1/device/block", devices::unblock).wants(&[Manage], Query).refuses(FINDS)
            .told("unblockNamed", "Unblock a device, with any name", "The device is not blocked."),
        put("/v1/device/tags", devices::tags).wants(&[Manage], Query).refuses(FINDS)
            .told("setTagsNamed", "Set a device's tags, with any name", "The new tags."),
        put("/v1/device/user", devices::give)
            .wants(&[Manage], Query).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("giveDeviceNamed", "Give a device to a user, with any name", "The user."),
        delete("/v1/device/user", devices::take_away)
            .wants(&[Manage], Query).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("takeDeviceNamed", "Take a device from its user, with any name",
                "It belongs to nobody."),
        put("/v1/device/zone", devices::set_zone).wants(&[Manage], Query).refuses(FINDS)
            .told("setZoneNamed", "Set the time zone of a device, with any name", "The zone."),
        delete("/v1/device/zone", devices::unset_zone).wants(&[Manage], Query).refuses(FINDS)
            .told("unsetZoneNamed", "Remove the time zone of a device, with any name",
                "It has none."),
        put("/v1/device/platform", devices::register).wants(&[Manage], Query).refuses(FINDS)
            .told("registerPlatformTokenNamed",
                "Set a device's token at its platform, with any name", "Its platform."),
        delete("/v1/device/platform", devices::unregister).wants(&[Manage], Query).refuses(FINDS)
            .told("removePlatformTokenNamed",
                "Remove a device's token at its platform, with any name", "It has none."),
        post("/v1/device/token", devices::token).wants(&[Manage], Query).refuses(FINDS)
            .told("makeDeviceTokenNamed", "Make a token for a device, with any name", "The token."),
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
            .told("listClients", "MQTT clients, page by page", "A page, in no particular order."),
        get("/v1/disconnections", clients::disconnections::list)
            .wants(&[Read], Other).refuses(&[Busy, NoAnswer])
            .told("listDisconnections", "Connections that ended or were refused",
                "A page, newest first.")
            .more("The newest since the start, of all protocols, as many as \
                   `[limits] disconnections_max` keeps in memory: who, from where, when, why, for \
                   how long, and how many bytes. Refused logins and failed TLS handshakes are \
                   among them."),
        get("/v1/slow_clients", clients::disconnections::slow)
            .wants(&[Read], Other).refuses(&[Busy, NoAnswer])
            .told("listSlowClients", "Clients that do not keep up", "The worst first.")
            .more("A client is listed while it reads more slowly than it is sent messages, or \
                   loses messages because its queue is full, and for a minute afterwards."),
        get("/v1/top/{of}", clients::top::top).wants(&[Read], Other).refuses(FINDS)
            .told("listTop", "Clients, users, topics, groups or addresses with most traffic",
                "The first first, of the last one to two minutes.")
            .more("Counted by sampling under load, so that it costs next to nothing: the shares \
                   are right on average. Messages of the API and of bridges are not counted."),
        get("/v1/clients/{client}", clients::one).wants(&[Read], Other).refuses(FINDS)
            .told("getClient", "An MQTT client", "The client."),
        delete("/v1/clients/{client}", clients::kick).wants(&[Manage], Other).refuses(FINDS)
            .told("kickClient", "Disconnect a client, or end its session as well", "Done."),
        get("/v1/clients/{client}/subscriptions", clients::subscriptions)
            .wants(&[Read], Other).refuses(FINDS)
            .told("getSubscriptions", "A client's subscriptions", "All of them."),
        post("/v1/clients/{client}/subscriptions", clients::subscribe)
            .wants(&[Manage], Other).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("subscribeClient", "Subscribe a client",
                "Retained messages follow according to the request."),
        delete("/v1/clients/{client}/subscriptions", clients::unsubscribe)
            .wants(&[Manage], Other).refuses(FINDS)
            .told("unsubscribeClient", "Unsubscribe a client", "The subscription is removed."),
        get("/v1/client", clients::one_named).wants(&[Read], Other).refuses(FINDS)
            .told("getClientNamed", "An MQTT client, with any name", "The client."),
        delete("/v1/client", clients::kick_named).wants(&[Manage], Other).refuses(FINDS)
            .told("kickClientNamed", "Disconnect a client, or end its session, with any name",
                "Done."),
        get("/v1/client/subscriptions", clients::subscriptions_named)
            .wants(&[Read], Other).refuses(FINDS)
            .told("listSubscriptionsNamed", "A client's subscriptions, with any name",
                "All of them."),
        post("/v1/client/subscriptions", clients::subscribe_named)
            .wants(&[Manage], Other).refuses(&[NotFound, Refused, Busy, NoAnswer])
            .told("subscribeNamed", "Subscribe a client, with any name",
                "Retained messages follow according to the request."),
        delete("/v1/client/subscriptions", clients::unsubscribe_named)
            .wants(&[Manage], Other).refuses(FINDS)
            .told("unsubscribeNamed", "Unsubscribe a client, with any name",
                "The subscription is removed."),
    ]
}

/// Routes of presence, by memory and by the directory.
#[rustfmt::skip] // a row a route
fn presence() -> Vec<Route> {
    use Of::Other;
    use Refusal::{Busy, DirectoryFailed, NoAnswer, NoDirectory, NoHistory, NotFound};
    use Scope::{Manage, Metrics, Read};
    vec![
        get("/v1/presence", presence_routes::one).wants(&[Read], Other).refuses(FINDS)
            .told("getPresence", "Presence of a device or client, from this server's memory",
                "Its presence."),
        post("/v1/presence", presence_routes::many).wants(&[Read], Other).refuses(ASKS)
            .told("queryPresence", "Presence of up to 1000, from this server's memory",
                "Their presence."),
        get("/v1/presence/history", presence_routes::history)
            .wants(&[Read], Other).refuses(&[NoHistory, Busy, NoAnswer])
            .told("presenceHistory", "The latest connects and disconnects of a device or client",
                "The transitions in this server's history, oldest first.")
            .more("Each with time, address, protocol, and how the connection ended."),
        get("/v1/presence/stored", presence_routes::stored_one)
            .wants(&[Read], Other).refuses(&[NotFound, NoDirectory, DirectoryFailed])
            .told("getStoredPresence", "Directory record of a device or client",
                "Its record, and what it means."),
        post("/v1/presence/stored", presence_routes::stored_many)
            .wants(&[Read], Other).refuses(&[NoDirectory, DirectoryFailed])
            .told("queryStoredPresence", "Directory records of up to 1000 devices or clients",
                "Their records."),
        get("/v1/presence/status", presence_routes::status).wants(&[Metrics], Other)
            .told("presenceStatus", "State of the directory",
                "Circuit breaker, lag, last fault, counters."),
        get("/v1/presence/counts", presence_routes::counts).wants(&[Metrics], Other).refuses(ASKS)
            .told("presenceCounts", "Number of online devices and clients, by product and protocol",
                "The counts, from this server's memory."),
        get("/v1/presence/statistics", presence_routes::statistics).wants(&[Metrics], Other)
            .told("presenceStatistics", "Presence figures over time", "Oldest first."),
        post("/v1/presence/audit", presence_routes::audit)
            .wants(&[Manage], Other).refuses(&[NoDirectory, DirectoryFailed])
            .told("auditPresence", "Compare memory and directory", "The differences.")
            .more("Compares digests of 16384 buckets, and reads records only where these differ. A \
                   difference that remains after the settle time is persistent. Responds when the \
                   comparison is complete. Only one runs at a time."),
    ]
}

/// Bridges to other brokers.
#[rustfmt::skip] // a row a route
fn bridges() -> Vec<Route> {
    use Of::Other;
    use Scope::Read;
    vec![
        get("/v1/bridges", operations::bridges).wants(&[Read], Other)
            .told("listBridges", "Bridges, and whether they are connected",
                "All that are enabled."),
        get("/v1/platforms", operations::platforms).wants(&[Read], Other)
            .told("listPlatforms", "Push services of platforms, and whether they accept pushes",
                "All of the configuration."),
        get("/v1/certificates", operations::certificates).wants(&[Read], Other)
            .told("listCertificates", "Certificates in use, and when they expire",
                "The first to expire comes first; with client authorities and revocation lists."),
    ]
}

/// Webhooks, and what they gave up.
#[rustfmt::skip] // a row a route
fn webhooks() -> Vec<Route> {
    use Of::Other;
    use Scope::{Manage, Read};
    vec![
        get("/v1/webhooks", dead_letters::webhooks).wants(&[Read], Other)
            .told("listWebhooks", "Webhooks, and the results of their events",
                "All of them, as configured."),
        get("/v1/webhooks/{webhook}/dead_letters", dead_letters::list)
            .wants(&[Read], Other).refuses(LETTERS)
            .told("listDeadLetters", "Dead letters of a webhook, page by page",
                "A page, oldest first."),
        delete("/v1/webhooks/{webhook}/dead_letters", dead_letters::clear)
            .wants(&[Manage], Other).refuses(LETTERS)
            .told("clearDeadLetters", "Delete dead letters of a webhook", "Deleted."),
        post("/v1/webhooks/{webhook}/dead_letters/redeliver", dead_letters::redeliver)
            .wants(&[Manage], Other).refuses(LETTERS)
            .told("redeliverDeadLetters", "Redeliver dead letters to a webhook",
                "The redelivery ended; `failure` says whether it was incomplete.")
            .more("Oldest first, in batches of 100 marked `redelivered`, until `limit` is reached \
                   or a batch fails. Only one redelivery runs for each webhook."),
    ]
}

/// Routes of published and retained messages.
#[rustfmt::skip] // a row a route
fn messages() -> Vec<Route> {
    use Of::Other;
    use Refusal::{Busy, NoAnswer, Refused};
    use Scope::{Manage, Publish, Read};
    vec![
        post("/v1/publish", messages::publish)
            .wants(&[Publish], Other).refuses(&[Refused, Busy, NoAnswer])
            .told("publish", "Publish to a topic, once or many times",
                "Published: queued messages are on stable storage. A list has a result for each \
                 message; the whole list is checked before its first message is published."),
        get("/v1/retained", messages::retained).wants(&[Read], Other).refuses(ASKS)
            .told("listRetained", "Retained messages, page by page",
                "A page, in the order of topics."),
        get("/v1/retained/{topic}", messages::retained_one).wants(&[Read], Other).refuses(FINDS)
            .told("getRetained", "The retained message of a topic", "The message."),
        delete("/v1/retained/{topic}", messages::clear).wants(&[Manage], Other).refuses(FINDS)
            .told("clearRetained", "Delete the retained message of a topic",
                "The message is deleted."),
        get("/v1/retained_message", messages::retained_named).wants(&[Read], Other).refuses(FINDS)
            .told("getRetainedNamed", "The retained message of a topic, with any name",
                "The message."),
        delete("/v1/retained_message", messages::clear_named).wants(&[Manage], Other).refuses(FINDS)
            .told("clearRetainedNamed", "Delete the retained message of a topic, with any name",
                "The message is deleted."),
    ]
}

/// Bans.
#[rustfmt::skip] // a row a route
fn banned() -> Vec<Route> {
    use Of::Other;
    use Refusal::{Busy, NoAnswer, NotFound, Refused};
    use Scope::{Manage, View};
    vec![
        get("/v1/bans", bans::list).wants(&[Manage, View], Other).refuses(&[Busy])
            .told("listBans", "Banned addresses, clients and users, page by page",
                "A page: addresses first, then clients, then users. Bans of rules are among them, \
                 with their cause."),
        post("/v1/bans", bans::add).wants(&[Manage], Other).refuses(&[Refused, Busy, NoAnswer])
            .told("addBan", "Ban an address, a network, a client or a user",
                "The ban, on stable storage and in force. `ended` is how many connections it has \
                 ended so far.")
            .more("A subject has one ban: another one takes its place. A ban of the address that \
                   the call comes from is refused."),
        delete("/v1/bans/{kind}/{subject}", bans::remove)
            .wants(&[Manage], Other).refuses(&[NotFound, Busy])
            .told("removeBan", "Lift a ban", "It is gone."),
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
            .told("listUsers", "Users of the user database, page by page",
                "A page, in a stable order, not by name. Users of a password file are not in the \
                 user database."),
        post("/v1/users", users::import).wants(&[Users], Other).refuses(&[Refused, Busy, NoAnswer])
            .told("importUsers", "Create or change many users, one a line",
                "The number of processed lines: their users are on stable storage and can log in. \
                 The import stops before an invalid line, after 64 plain passwords, and before a \
                 repeated name.")
            .more("A line that matches the current state changes nothing: an interrupted import \
                   can be repeated from its beginning. The rules of users are kept."),
        get("/v1/users/{user}", users::one).wants(&[Users, View], Other).refuses(FINDS)
            .told("getUser", "A user", "The user, without password data."),
        get("/v1/users/{user}/keys", users::keys).wants(&[Admin], Other).watched().refuses(FINDS)
            .told("getUserKeys", "A user's keys for SCRAM",
                "In the format of a password file. With them, another server can authenticate the \
                 user with its current password; they are secrets. The call is recorded in the \
                 audit log."),
        put("/v1/users/{user}", users::put)
            .wants(&[Users], Other).refuses(&[Refused, Busy, NoAnswer])
            .told("putUser", "Create or change a user",
                "The user as it is now, on stable storage and in force."),
        delete("/v1/users/{user}", users::remove).wants(&[Users], Other).refuses(FINDS)
            .told("removeUser", "Delete a user",
                "The user is deleted; its connections are closed."),
        post("/v1/users/{user}/kick", users::kick)
            .wants(&[Users], Other).refuses(&[Refused, NotFound, Busy, NoAnswer])
            .told("kickUser", "End all sessions of a user",
                "The user with a higher epoch: all earlier sessions have ended, on every shard. \
                 The user may log in again."),
        get("/v1/tokens", tokens::list).wants(&[Admin, View], Other).refuses(&[Busy])
            .told("listTokens", "Tokens of the API, page by page",
                "A page, by name. The tokens themselves are never shown again, and the token of \
                 the file is not listed."),
        post("/v1/tokens", tokens::make).wants(&[Admin], Other).refuses(&[Refused, Busy])
            .told("makeToken", "Make a token",
                "The token, on stable storage; it is shown only once."),
        get("/v1/tokens/{token}", tokens::one)
            .wants(&[Admin, View], Other).refuses(&[NotFound, Busy])
            .told("getToken", "A token's description",
                "Its name and permissions, not the token itself."),
        delete("/v1/tokens/{token}", tokens::revoke)
            .wants(&[Admin], Other).refuses(&[NotFound, Busy])
            .told("revokeToken", "Revoke a token",
                "The token is invalid from now on; its event streams end."),
        get("/v1/audit_log", audit_log::list).wants(&[Admin, View], Other).refuses(&[Busy])
            .told("listAuditLog", "Audit log: callers, calls and results",
                "A page, the newest first.")
            .more("Calls that change something, and refused calls. An entry is on stable storage \
                   before its call is answered. Similar messages (`POST /v1/pushes`, `POST \
                   /v1/publish`) and refusals share an entry: the first is recorded at once, \
                   `more` counts the others."),
    ]
}
