//! Texts and numbers of a form that bodies, queries and paths share, for the API's description.
//!
//! A field names its form by `#[schemars(with = "…")]`; what is read is checked where an order is
//! made. Patterns are those of JSON Schema (ECMA-262). It knows no field.

use crate::LogHealth;
use crate::answers::clients::top::TopOrder;
use crate::answers::pushes::BatchOutcome;
use crate::orders::disconnections::PROTOCOLS;
use crate::orders::schedules::WEEKDAYS;
use crate::tokens::scope::Scope;
use model::close::CloseReason;
use model::link::Protocol;
use model::ports::bans::BanSubject;
use model::ports::control::top::TopKind;
use model::ports::pushes::{PushOrder, PushState};
use model::push::{Outcome, PushReport, Rejection, StepKind};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::borrow::Cow;

/// An account, with a domain of at most four labels of ASCII; others are taken too.
const ACCOUNT: &str = "^[a-z0-9._+-]{1,64}(@[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\
    ([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){0,3})?$";
/// A domain that is blocked, likewise.
const BLOCKED_DOMAIN: &str = "^@[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\
    ([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){0,3}$";
/// Pattern of names of products, devices and tags.
const NAME: &str = "^[A-Za-z0-9._+:/=-]+$";
const KEY: &str = r"^([A-Za-z0-9._+:/=-]{1,32}#[A-Za-z0-9._+:/=-]{1,64}|#[^\u0000]{1,480})$";
const FILTER: &str =
    r"^(([^+#/\u0000-\u001f\u007f-\u009f]*|\+)/)*([^+#/\u0000-\u001f\u007f-\u009f]*|\+|#)$";
const KNOWN_FILTER: &str = r"^(([^+#/\u0000]*|\+)/)*([^+#/\u0000]*|\+|#)$";
const TOPIC: &str = r"^[^+#\u0000-\u001f\u007f-\u009f]+$";
const BASE64: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

macro_rules! forms {
    ($($(#[$doc:meta])+ $name:ident $schema:tt)+) => {$(
        $(#[$doc])+
        pub(crate) enum $name {}

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )+};
}

forms! {
    /// Key of a product.
    ProductName { "type": "string", "minLength": 1, "maxLength": 32, "pattern": NAME }
    /// Name of a device within its product.
    DeviceName { "type": "string", "minLength": 1, "maxLength": 64, "pattern": NAME }
    /// Name of a tag.
    TagName { "type": "string", "minLength": 1, "maxLength": 64, "pattern": NAME }
    /// Name of a saved segment.
    SegmentText { "type": "string", "minLength": 1, "maxLength": 64, "pattern": NAME }
    /// Name of a schedule.
    ScheduleText { "type": "string", "minLength": 1, "maxLength": 64, "pattern": NAME }
    /// Time zone of the IANA database, such as Europe/Berlin.
    ZoneName { "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9/_+-]+$" }
    /// Time as a clock shows it, such as 2026-12-24T18:00.
    CivilTimeText {
        "type": "string",
        "pattern": "^[1-8][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$",
    }
    /// Hour and minute, such as 09:30.
    ClockText { "type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$" }
    /// Day of the week.
    WeekdayWord { "type": "string", "enum": WEEKDAYS }
    /// Name of the user of devices.
    DeviceUserName {
        "type": "string",
        "minLength": 1,
        "maxLength": 128,
        "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
    }
    /// Identifier of a client of topics.
    ClientName { "type": "string", "minLength": 1, "maxLength": 480, "pattern": r"^[^\u0000]+$" }
    /// Name of a user.
    UserName {
        "type": "string",
        "minLength": 1,
        "maxLength": 256,
        "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
    }
    /// Account or group of chat: a name, or a name with its domain.
    AccountName {
        "type": "string",
        "pattern": ACCOUNT,
    }
    /// Blocked address: an account as above, or a whole domain of another server, `@` and the
    /// domain.
    BlockedName {
        "type": "string",
        "pattern": format!("({ACCOUNT})|({BLOCKED_DOMAIN})"),
    }
    /// Id that an application gives a message: a UUID, with or without hyphens.
    MessageId16 {
        "type": "string",
        "pattern": "^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$",
    }
    /// Names that are ranked by traffic.
    TopKindName { "type": "string", "enum": TopKind::ALL.map(TopKind::name) }
    /// Order of a ranked list.
    TopOrderName { "type": "string", "enum": TopOrder::ALL.map(TopOrder::name) }
    /// Whether the condition of an alarm holds.
    AlarmStateName { "type": "string", "enum": ["active", "past"] }
    /// Kind of what is banned.
    BanKindName { "type": "string", "enum": BanSubject::KINDS }
    /// Subject of a ban: an address, a network or a name.
    BanSubjectName {
        "type": "string", "minLength": 1, "maxLength": 480, "pattern": r"^[^\u0000]+$",
    }
    /// Place in a list of contacts.
    ContactsPlace { "type": "string", "pattern": "^[0-9]{1,20}-[0-9]{1,20}$" }
    /// Place in a list of all groups.
    GroupsPlace { "type": "string", "pattern": "^[0-9]{1,5}-([0-9a-f]{2})*$" }
    /// Name of a token of the API.
    TokenName {
        "type": "string",
        "minLength": 1,
        "maxLength": 64,
        "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
    }
    /// Topic to publish to.
    TopicName { "type": "string", "minLength": 1, "pattern": TOPIC }
    /// Topic that something may be retained on.
    RetainedTopic { "type": "string", "minLength": 1, "pattern": r"^[^+#\u0000]+$" }
    /// Topic filter.
    TopicFilter { "type": "string", "minLength": 1, "pattern": FILTER }
    /// Topic filter to look with: whatever a client may have sent.
    KnownFilter { "type": "string", "minLength": 1, "pattern": KNOWN_FILTER }
    /// Key of a principal.
    PrincipalKey { "type": "string", "minLength": 2, "pattern": KEY }
    /// Address and port.
    Address { "type": "string", "pattern": r"^([0-9.]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$" }
    /// The application's own name for a push.
    IdempotencyKey {
        "type": "string",
        "minLength": 1,
        "maxLength": PushOrder::KEY_BYTES_MAX,
        "pattern": "^[!-~]+$",
    }
    /// Name and value.
    Pair { "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 2 }
    /// Bytes in Base64.
    Base64 { "type": "string", "contentEncoding": "base64", "pattern": BASE64 }
    /// A number of 64 bits, as text.
    Decimal { "type": "string", "pattern": "^[0-9]{1,20}$" }
    /// Place in a list that goes on.
    Place { "type": "string", "pattern": "^[0-9]{1,18}$" }
    /// Number of a webhook, in a path.
    Number { "type": "string", "pattern": "^[0-9]{1,9}$" }
    /// Address or network: `10.1.2.3`, `10.1.0.0/16`.
    NetworkText { "type": "string", "pattern": "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$" }
    /// Place in the list of ended connections.
    EndedPlace { "type": "string", "pattern": "^[0-9]{1,20}-[0-9]{1,5}-[0-9]{1,20}$" }
    /// Protocol of a connection.
    EndedProtocol { "type": "string", "enum": PROTOCOLS.map(Protocol::name) }
    /// Address of a host.
    IpText { "type": "string", "pattern": "^[0-9A-Fa-f:.]+$" }
    /// Name of a file of the console.
    FileName { "type": "string", "pattern": "^[a-z]+[.](css|html|js|svg)$" }
    /// Version of a transition.
    Version { "type": "string", "pattern": "^[0-9a-f]{16}$" }
    /// Quality of service.
    QosNumber { "type": "integer", "enum": [0, 1, 2] }
    /// Entries on a page.
    PageLimit { "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 }
    /// Bucket of a directory.
    Bucket { "type": "integer", "minimum": 0, "maximum": 16383 }
    /// Word for the health of a log.
    LogWord {
        "type": "string",
        "enum": LOGS.map(LogHealth::name),
    }
    /// Word for what a token is good for.
    ScopeWord { "type": "string", "enum": Scope::ALL.map(|(word, _)| word) }
    /// Word for the end of a connection.
    CloseWord { "type": "string", "enum": close_words() }
    /// Word for the outcome of a push.
    OutcomeWord { "type": "string", "enum": OUTCOMES.map(Outcome::name) }
    /// Word for the outcome of a message of a batch.
    BatchOutcomeWord { "type": "string", "enum": batch_words() }
    /// Outcome of a push at a device, or a report about it.
    StepWord { "type": "string", "enum": StepKind::ALL.map(StepKind::name) }
    /// Word for a report of a device about a push.
    PushReportWord { "type": "string", "enum": PushReport::ALL.map(PushReport::name) }
    /// Place in the list of a push's outcomes: one number for each shard.
    OutcomesPlace { "type": "string", "pattern": "^[0-9a-f]{1,16}(-[0-9a-f]{1,16}){0,255}$" }
    /// Word for the state of a push.
    PushStateWord { "type": "string", "enum": PushState::ALL.map(PushState::name) }
    /// Word for the reason of a rejection.
    RejectionWord { "type": "string", "enum": Rejection::ALL.map(Rejection::name) }
}

const LOGS: [LogHealth; 3] = [LogHealth::Good, LogHealth::Full, LogHealth::Failed];

const OUTCOMES: [Outcome; 4] =
    [Outcome::Delivered, Outcome::Stored, Outcome::Expired, Outcome::Rejected(Rejection::Busy)];

fn batch_words() -> Vec<&'static str> {
    OUTCOMES.map(Outcome::name).into_iter().chain([BatchOutcome::UNKNOWN]).collect()
}

fn close_words() -> Vec<&'static str> {
    CloseReason::ALL.iter().map(|reason| reason.name()).collect()
}

/// The form of a part of a path with this name, and what it is.
pub(crate) fn of_path(name: &str, generator: &mut SchemaGenerator) -> (&'static str, Value) {
    let (told, schema) = match name {
        "product" => ("Key of the product.", ProductName::json_schema(generator)),
        "device" => {
            ("Name of the device; slashes are percent-encoded.", DeviceName::json_schema(generator))
        }
        "owner" => (
            "Name of the user to whom devices belong, percent-encoded.",
            DeviceUserName::json_schema(generator),
        ),
        "segment" => ("Name of the segment.", SegmentText::json_schema(generator)),
        "schedule" => ("Name of the schedule.", ScheduleText::json_schema(generator)),
        "client" => ("Client identifier, percent-encoded.", ClientName::json_schema(generator)),
        "topic" => {
            ("Topic name, percent-encoded: slashes as %2F.", RetainedTopic::json_schema(generator))
        }
        "user" => (
            "Name of the user, percent-encoded; `*`: the rules for everybody.",
            UserName::json_schema(generator),
        ),
        "account" => ("Chat account: name or address.", AccountName::json_schema(generator)),
        "group" => ("Chat group: name or address.", AccountName::json_schema(generator)),
        "room" => ("Chatroom: name or address.", AccountName::json_schema(generator)),
        "broadcast" => ("Number of the broadcast.", Decimal::json_schema(generator)),
        "token" => ("Name of a token.", TokenName::json_schema(generator)),
        "file" => ("Name of the file.", FileName::json_schema(generator)),
        "webhook" => ("Number of the webhook.", Number::json_schema(generator)),
        "id" => ("Id of the push.", Decimal::json_schema(generator)),
        "alarm" => ("Id of the alarm.", Decimal::json_schema(generator)),
        "of" => ("What is ranked.", TopKindName::json_schema(generator)),
        "kind" => ("Kind of what is banned.", BanKindName::json_schema(generator)),
        "subject" => {
            ("Address, network or name, percent-encoded.", BanSubjectName::json_schema(generator))
        }
        other => unreachable!("a path has {other}, which has no form here"),
    };
    (told, schema.to_value())
}
