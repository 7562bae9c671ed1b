//! Refusals: every way in which the API says no, with its status and a word for programs.
//!
//! The body is always `{"error": {"code", "message"}}`. Messages say what is allowed; they never
//! repeat a secret. Invariant: each [`Answer`](model::ports::control::Answer) that refuses has one
//! row here.

mod refusal;

use crate::answers::{DeviceElsewhere, ErrorBody, ErrorWords};
use crate::tokens::scope::Scope;
use crate::tokens::{Token, TokenFault, Wrong};
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::chat::{ChatFault, SendRejected};
use model::id::{DeviceId, ProductKey};
use model::ports::bans::BanFault;
use model::ports::presence::directory::DirectoryError;
use model::presence::NodeName;
use model::push::Rejection;
pub(crate) use refusal::Refusal;
use std::path::Path;

/// The code of a refusal, in the extensions of its answer.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) &'static str);

/// Devices at other servers that a message names.
const TOLD_MAX: usize = 4;

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after_s: Option<u32>,
    elsewhere: Vec<ElsewhereDevice>,
}

/// A device that is online at another server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ElsewhereDevice {
    pub(crate) device: DeviceId,
    pub(crate) node: NodeName,
    /// Where that one's API is reached, if it says so.
    pub(crate) address: Option<Box<str>>,
}

impl Fault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Fault {
        Fault { status, code, message: message.into(), retry_after_s: None, elsewhere: Vec::new() }
    }

    /// The request is invalid; the message says what would be valid.
    pub(crate) fn bad(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// The fault, of a part of the request.
    pub(crate) fn within(self, part: &str) -> Fault {
        Fault { message: format!("in {part}: {}", self.message), ..self }
    }

    /// The request's token, or its cookie, opens nothing.
    pub(crate) fn unauthorized(wrong: Wrong) -> Fault {
        if wrong == Wrong::CrossOrigin {
            let message = "a page of another origin must not use the console's session";
            return Fault::new(StatusCode::FORBIDDEN, "cross_origin", message);
        }
        let (code, message) = match wrong {
            Wrong::Missing => (
                "unauthorized",
                "API token missing: send `Authorization: Bearer TOKEN`; the first token is in the \
                 server's data folder, in api.token",
            ),
            Wrong::Unknown => (
                "wrong_token",
                "invalid or revoked token: `holdline token list` shows \
                 the valid ones",
            ),
            Wrong::NoSuchUser => (
                "wrong_user",
                "wrong user name or password, or the user has no role: roles are set in [api] \
                 viewers, operators and admins, passwords in the user database or the \
                 password file",
            ),
            Wrong::Expired => {
                ("expired_token", "the token has expired: create a new one (POST /v1/tokens)")
            }
            Wrong::SessionOver | Wrong::CrossOrigin => {
                ("session_over", "the console session has ended: log in again")
            }
        };
        Fault::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// The token is good for something else.
    pub(crate) fn scope_missing(token: &Token, wanted: &[Scope]) -> Fault {
        let wanted: Vec<_> = wanted.iter().map(|scope| format!("`{}`", scope.name())).collect();
        let (name, has, wanted) =
            (&token.name, token.scopes.names().join("`, `"), wanted.join(" or "));
        if let Some(role) = token.role {
            let role = role.name();
            let message = format!(
                "{name} has the role {role} with the scopes `{has}`; this needs {wanted} (or \
                 `admin`): ask somebody with a higher role ([api] operators, admins)"
            );
            return Fault::new(StatusCode::FORBIDDEN, "scope_missing", message);
        }
        let or_admin = if wanted.contains("`admin`") { "" } else { " (or `admin`)" };
        let message = format!(
            "this needs a token with the scope {wanted}{or_admin}, but {name} has `{has}`: create \
             another one (POST /v1/tokens)"
        );
        Fault::new(StatusCode::FORBIDDEN, "scope_missing", message)
    }

    /// The user administers the server, or is to: its account is for `admin`.
    pub(crate) fn out_of_reach(user: &str) -> Fault {
        let message = format!(
            "{user} is an administrator of the server, or would become one (named in [api], in \
             [chat] administrators or in [access] superusers, or a superuser): this needs the \
             scope `admin`"
        );
        Fault::new(StatusCode::FORBIDDEN, "administrator", message)
    }

    /// The token is for other products.
    pub(crate) fn product_forbidden(token: &Token) -> Fault {
        let products: Vec<_> = token.products.iter().map(ProductKey::as_str).collect();
        let message = format!(
            "the token {} is limited to the products {}: name one of them, or use a token without \
             this limit",
            token.name,
            products.join(", ")
        );
        Fault::new(StatusCode::FORBIDDEN, "product_forbidden", message)
    }

    /// Too many wrong log-ins came from there.
    pub(crate) fn too_many_logins(wait_s: u32) -> Fault {
        let message = "too many failed logins from this address: try again later";
        let fault = Fault::new(StatusCode::TOO_MANY_REQUESTS, "too_many_logins", message);
        Fault { retry_after_s: Some(wait_s), ..fault }
    }

    pub(crate) fn token(fault: TokenFault) -> Fault {
        match fault {
            TokenFault::Taken => {
                let message = "a token with this name exists: revoke it, or choose another name";
                Fault::new(StatusCode::CONFLICT, "token_exists", message)
            }
            TokenFault::Full => {
                let message = "the maximum number of tokens is reached ([api] tokens_max): \
                               revoke one";
                Fault::new(StatusCode::CONFLICT, "tokens_full", message)
            }
            TokenFault::NotKept => Fault::store(),
        }
    }

    pub(crate) fn ban(fault: BanFault) -> Fault {
        match fault {
            BanFault::Full => {
                let message = "the list of bans is full ([bans] max): remove one";
                Fault::new(StatusCode::CONFLICT, "bans_full", message)
            }
            BanFault::NotKept => Fault::store(),
        }
    }

    /// The address or the user is banned.
    pub(crate) fn banned() -> Fault {
        let message = "this address or user is banned: an operator can lift the ban";
        Fault::new(StatusCode::FORBIDDEN, "banned", message)
    }

    /// The files of the audit log cannot be read.
    pub(crate) fn audit_log() -> Fault {
        let message = "the audit log cannot be read: see the server's log";
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "audit_log_failed", message)
    }

    /// No product has this key.
    pub(crate) fn unknown_product(key: &ProductKey) -> Fault {
        let message = format!("unknown product {}", key.as_str());
        Fault { message, ..Fault::unknown("product") }
    }

    /// Fault that names the product's key, if the product is unknown.
    pub(crate) fn about_product(self, key: Option<&ProductKey>) -> Fault {
        match (key, self.code) {
            (Some(key), "unknown_product") => Fault::unknown_product(key),
            _ => self,
        }
    }

    pub(crate) fn unknown(what: &'static str) -> Fault {
        let (code, message) = match what {
            "product" => ("unknown_product", "unknown product"),
            "device" => ("unknown_device", "unknown device"),
            "platform" => ("unknown_platform", "unknown platform"),
            "push" => ("unknown_push", "unknown push, or it is no longer remembered"),
            "schedule" => {
                ("unknown_schedule", "unknown schedule: GET /v1/schedules lists those there are")
            }
            "client" => ("unknown_client", "unknown client: no session with this identifier"),
            "subscription" => {
                ("unknown_subscription", "no subscription of the client to this filter")
            }
            "retained" => ("unknown_retained", "no message is retained on this topic"),
            "principal" => ("unknown_principal", "unknown device or client"),
            "record" => ("unknown_record", "no record in the directory"),
            "webhook" => ("unknown_webhook", "unknown webhook: GET /v1/webhooks lists them"),
            "user" => ("unknown_user", "unknown user"),
            "account" => ("unknown_account", "unknown account"),
            "group" => ("unknown_group", "unknown group, or the account is not a member of it"),
            "chatroom" => ("unknown_chatroom", "unknown chatroom"),
            "message" => ("unknown_message", "unknown message in this conversation"),
            "alarm" => ("unknown_alarm", "unknown alarm, or it is no longer remembered"),
            "list" => ("unknown_list", "unknown list: clients, users, topics, groups or addresses"),
            "broadcast" => {
                ("unknown_broadcast", "unknown broadcast, or it is no longer remembered")
            }
            "ban" => ("unknown_ban", "unknown ban: GET /v1/bans lists them"),
            "token" => ("unknown_token", "unknown token"),
            _ => ("unknown_path", "unknown path: GET /openapi.json lists the API"),
        };
        Fault::new(StatusCode::NOT_FOUND, code, message)
    }

    pub(crate) fn method() -> Fault {
        let message = "method not allowed: GET /openapi.json lists the API";
        Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub(crate) fn slow_body() -> Fault {
        Fault::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "the body did not arrive in time")
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    pub(crate) fn busy() -> Fault {
        let fault =
            Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "busy; nothing was done: retry");
        Fault { retry_after_s: Some(1), ..fault }
    }

    /// Why a push was rejected, if this says that it was.
    pub(crate) fn rejection(&self) -> Option<Rejection> {
        match self.code {
            "busy" => Some(Rejection::Busy),
            "store_failed" => Some(Rejection::StoreFailed),
            // No more pushes may be scheduled.
            "too_many_scheduled" => Some(Rejection::QueueFull),
            // The product was removed meanwhile, and its devices with it.
            "unknown_product" => Some(Rejection::UnknownDevice),
            _ => None,
        }
    }

    /// The source of the caller has its share of answers that go on.
    pub(crate) fn source_full() -> Fault {
        let message = "the maximum number of streams per address is reached ([api] \
                       streams_a_source_max): end one";
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Fault { retry_after_s: Some(1), ..fault }
    }

    /// Fault: the limit of running traces is reached.
    pub(crate) fn traces_full(most: u32) -> Fault {
        let message = format!("{most} traces are running, the maximum: end one");
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Fault { retry_after_s: Some(1), ..fault }
    }

    pub(crate) fn store() -> Fault {
        let message = "the store is full or has failed; nothing was done: see the server's log";
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "store_failed", message);
        Fault { retry_after_s: Some(30), ..fault }
    }

    /// The database of accounts is away or refuses; the message says which.
    pub(crate) fn database(why: String) -> Fault {
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "database_failed", why);
        Fault { retry_after_s: Some(5), ..fault }
    }

    pub(crate) fn conflict() -> Fault {
        let message = "the Idempotency-Key was used for another push; nothing was done";
        Fault::new(StatusCode::CONFLICT, "idempotency_conflict", message)
    }

    /// No further push may be scheduled.
    pub(crate) fn too_many_scheduled() -> Fault {
        let message = "as many pushes are scheduled as [limits] scheduled_max allows; nothing was \
                       done: cancel one, or raise the limit";
        Fault::new(StatusCode::CONFLICT, "too_many_scheduled", message)
    }

    /// No further push with a list of devices may be ordered now.
    pub(crate) fn lists_full() -> Fault {
        let message = "the lists of devices of open and scheduled pushes have as many bytes as \
                       [limits] lists_bytes_max allows; nothing was done: order it when one of \
                       them is finished, cancel one, or raise the limit";
        Fault::new(StatusCode::CONFLICT, "lists_full", message)
    }

    /// The outcome of the push at each device is not known.
    pub(crate) fn not_tracked() -> Fault {
        let message = "the push was not tracked: order the next one with `track`";
        Fault::new(StatusCode::CONFLICT, "not_tracked", message)
    }

    /// The token in a report is not that of its device.
    pub(crate) fn device_token() -> Fault {
        let message = "invalid or expired token of the device, or its product accepts none: \
                       POST /v1/products/PRODUCT/devices/DEVICE/token makes one";
        Fault::new(StatusCode::UNAUTHORIZED, "wrong_token", message)
    }

    /// A device reports more than its product allows.
    pub(crate) fn too_many_reports() -> Fault {
        let message = "the device sends more reports than reports_per_s of its product allows; \
                       nothing was done: retry";
        let fault = Fault::new(StatusCode::TOO_MANY_REQUESTS, "too_many_reports", message);
        Fault { retry_after_s: Some(1), ..fault }
    }

    /// The product takes no reports of its devices.
    pub(crate) fn no_reports() -> Fault {
        let message = "the product takes no reports: its reports_per_s is 0";
        Fault::new(StatusCode::CONFLICT, "no_reports", message)
    }

    /// A push names a segment that the product does not have.
    pub(crate) fn unknown_segment(name: &str) -> Fault {
        let message = format!(
            "unknown segment {name}: GET /v1/products/PRODUCT/segments lists those of the product"
        );
        Fault::new(StatusCode::NOT_FOUND, "unknown_segment", message)
    }

    /// A platform of no section of the configuration.
    pub(crate) fn unknown_platform(message: String) -> Fault {
        Fault { message, ..Fault::unknown("platform") }
    }

    /// No further device may belong to the user.
    pub(crate) fn too_many_devices(max: u16) -> Fault {
        let message = format!(
            "the user has {max} devices on a shard, as many as [limits] devices_a_user_max allows; \
             nothing was done: take one from the user, or raise the limit"
        );
        Fault::new(StatusCode::CONFLICT, "too_many_devices", message)
    }

    /// No further segment may be saved.
    pub(crate) fn too_many_segments() -> Fault {
        let message = "the product has as many segments as [limits] segments_a_product_max \
                       allows; nothing was done: remove one, or raise the limit";
        Fault::new(StatusCode::CONFLICT, "too_many_segments", message)
    }

    /// No further schedule may be saved.
    pub(crate) fn too_many_schedules() -> Fault {
        let message = "the product has as many schedules as [limits] schedules_a_product_max \
                       allows; nothing was done: remove one, or raise the limit";
        Fault::new(StatusCode::CONFLICT, "too_many_schedules", message)
    }

    /// The broker says no; the message says why, in its words.
    pub(crate) fn refused(why: &str) -> Fault {
        Fault::new(StatusCode::CONFLICT, "refused", why)
    }

    /// The chat service says no, for this reason.
    pub(crate) fn chat(why: ChatFault) -> Fault {
        match why {
            ChatFault::UnknownAccount => Fault::unknown("account"),
            ChatFault::NotMember => Fault::unknown("group"),
            ChatFault::NoChatroom => Fault::unknown("chatroom"),
            ChatFault::UnknownMessage => Fault::unknown("message"),
            ChatFault::Invalid => Fault::bad("invalid chat request"),
            ChatFault::TooLarge => Fault::too_large("larger than [chat] allows"),
            ChatFault::Busy => {
                // The order may have been executed: a retry with the same id does not repeat it.
                let busy = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", why.meaning());
                Fault { retry_after_s: Some(1), ..busy }
            }
            ChatFault::StoreFull | ChatFault::StoreFailed => Fault::store(),
            why => Fault::new(StatusCode::CONFLICT, why.name(), why.meaning()),
        }
    }

    /// Fault of a refused message, with the reason for its sender.
    pub(crate) fn rejected(rejected: &SendRejected) -> Fault {
        let SendRejected { why, reason, retry_after_ms, .. } = rejected;
        let message = if reason.is_empty() { why.meaning() } else { reason };
        let retry_after_s = Some(retry_after_ms.div_ceil(1_000)).filter(|seconds| *seconds > 0);
        let status = match why {
            ChatFault::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::CONFLICT,
        };
        Fault { retry_after_s, ..Fault::new(status, why.name(), message) }
    }

    /// The account is being erased: the call is refused, because its result would be erased too.
    pub(crate) fn erasing() -> Fault {
        let message = "the account is being erased: retry when that is finished (DELETE reports \
                       the progress)";
        Fault::new(StatusCode::CONFLICT, "erasing", message)
    }

    pub(crate) fn mutes_full() -> Fault {
        let message = "the maximum number of muted accounts is reached ([chat] muted_accounts_max)";
        Fault::new(StatusCode::CONFLICT, "mutes_full", message)
    }

    /// Fault: the limit of running broadcasts is reached.
    pub(crate) fn broadcasts_full(most: usize) -> Fault {
        let message = format!("{most} broadcasts are running, the maximum: wait, or cancel one");
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Fault { retry_after_s: Some(1), ..fault }
    }

    pub(crate) fn users_full() -> Fault {
        let message = "the maximum number of users is reached: remove one";
        Fault::new(StatusCode::CONFLICT, "users_full", message)
    }

    /// Devices of a push order are online at other servers.
    pub(crate) fn elsewhere(devices: Vec<ElsewhereDevice>) -> Fault {
        let one = |it: &ElsewhereDevice| {
            let place = match &it.address {
                Some(address) => format!("{} ({address})", it.node),
                None => format!("{} (it has no [presence] address)", it.node),
            };
            format!("{} is online at {place}", it.device)
        };
        let mut words: Vec<String> = devices.iter().take(TOLD_MAX).map(one).collect();
        if devices.len() > TOLD_MAX {
            words.push(format!("and {} more", devices.len() - TOLD_MAX));
        }
        let message = format!("nothing was stored: {}: send the push there", words.join(", "));
        let fault = Fault::new(StatusCode::CONFLICT, "elsewhere", message);
        Fault { elsewhere: devices, ..fault }
    }

    pub(crate) fn no_directory() -> Fault {
        let message = "no presence directory is configured: set `[presence] directory`, for \
                       example to \"redis://127.0.0.1:6379\"";
        Fault::new(StatusCode::CONFLICT, "no_directory", message)
    }

    pub(crate) fn no_history() -> Fault {
        let message = "the presence history is disabled (`[presence] history_bytes_max` \
                       is 0) or unreadable: see the server's log";
        Fault::new(StatusCode::CONFLICT, "no_history", message)
    }

    /// The message says why, in the port's words.
    pub(crate) fn directory(why: DirectoryError) -> Fault {
        let message = why.to_string();
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "directory_failed", message);
        Fault { retry_after_s: Some(5), ..fault }
    }

    pub(crate) fn no_dead_letters() -> Fault {
        let message = "dead letters are not stored: this server has no folder for them";
        Fault::new(StatusCode::CONFLICT, "no_dead_letters", message)
    }

    /// As one of many in an answer that is none itself.
    pub(crate) fn told(&self) -> ErrorWords {
        let text = |it: &ElsewhereDevice| DeviceElsewhere {
            device: it.device.as_str().into(),
            node: it.node.as_str().into(),
            address: it.address.as_deref().map(Into::into),
        };
        let elsewhere = self.elsewhere.iter().map(text).collect();
        ErrorWords { code: self.code, message: self.message.clone(), elsewhere }
    }

    /// Whether a repetition is worth while.
    pub(crate) fn comes_back(&self) -> bool {
        self.retry_after_s.is_some() || self.status == StatusCode::GATEWAY_TIMEOUT
    }

    /// The word for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// The message for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn folder_taken(folder: &Path) -> Fault {
        let folder = folder.display();
        let message = format!("{folder} exists and is not empty: name a new folder");
        Fault::new(StatusCode::CONFLICT, "folder_taken", message)
    }

    /// The message says why, in the roof's words.
    pub(crate) fn backup(message: String) -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "backup_failed", message)
    }

    /// The message names each problem.
    pub(crate) fn configuration(message: String) -> Fault {
        Fault::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration_invalid", message)
    }

    pub(crate) fn stopping() -> Fault {
        let message = "the server is stopping; nothing was done";
        Fault::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message)
    }

    pub(crate) fn no_answer() -> Fault {
        let message = "the shards did not answer in time; the request may have been carried out";
        Fault::new(StatusCode::GATEWAY_TIMEOUT, "no_answer", message)
    }

    pub(crate) fn internal() -> Fault {
        let message = "internal error: a bug in this server";
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = ErrorBody { error: self.told() };
        let mut response = (self.status, Json(body)).into_response();
        response.extensions_mut().insert(Code(self.code));
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
