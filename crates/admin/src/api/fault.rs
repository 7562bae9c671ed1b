//! Refusals: every way in which the API says no, with its status and a word for programs.
//!
//! The body is always `{"error": {"code", "message"}}`. Messages say what is allowed; they never
//! repeat a secret. Invariant: each [`Answer`](model::ports::control::Answer) that refuses has one
//! row here.

mod refusal;

use crate::answers::{ErrorBody, ErrorWords};
use crate::tokens::scope::Scope;
use crate::tokens::{Token, TokenFault, Wrong};
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::chat::{ChatFault, SendRejected};
use model::id::ProductKey;
use model::ports::presence::directory::DirectoryError;
pub(crate) use refusal::Refusal;
use std::path::Path;

/// The code of a refusal, in the extensions of its answer.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) &'static str);

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after_s: Option<u32>,
}

impl Fault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Fault {
        Fault { status, code, message: message.into(), retry_after_s: None }
    }

    /// The request makes no sense; the message says what would.
    pub(crate) fn bad(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// The request's token, or its cookie, opens nothing.
    pub(crate) fn unauthorized(wrong: Wrong) -> Fault {
        if wrong == Wrong::CrossOrigin {
            let message = "a page of another origin may not use the console's session";
            return Fault::new(StatusCode::FORBIDDEN, "cross_origin", message);
        }
        let (code, message) = match wrong {
            Wrong::Missing => (
                "unauthorized",
                "send a token of the API: `Authorization: Bearer TOKEN`; the first one is in the \
                 server's data folder, in api.token",
            ),
            Wrong::Unknown => (
                "wrong_token",
                "this server has no such token, or it was revoked: `holdline token list` shows \
                 which there are",
            ),
            Wrong::NoSuchUser => (
                "wrong_user",
                "no user with a role has this name and this password: roles stand in [api] \
                 viewers, operators and admins, passwords in the book of users or the \
                 password file",
            ),
            Wrong::Expired => {
                ("expired_token", "the token's time is over: have a new one made (POST /v1/tokens)")
            }
            Wrong::SessionOver | Wrong::CrossOrigin => {
                ("session_over", "the session of the console is over: log in again")
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
                "{name} has the role {role}, which is good for `{has}`; this wants {wanted} (or \
                 `admin`): ask somebody whose role may do more ([api] operators, admins)"
            );
            return Fault::new(StatusCode::FORBIDDEN, "scope_missing", message);
        }
        let message = format!(
            "this wants a token with {wanted} (or `admin`), and {name} has `{has}`: have another \
             one made (POST /v1/tokens)"
        );
        Fault::new(StatusCode::FORBIDDEN, "scope_missing", message)
    }

    /// The user administers the server, or is to: its account is for `admin`.
    pub(crate) fn out_of_reach(user: &str) -> Fault {
        let message = format!(
            "{user} administers the server, or would afterwards (it is named in [api], in [chat] \
             administrators or in [access] superusers, or is a superuser): this wants `admin`"
        );
        Fault::new(StatusCode::FORBIDDEN, "administrator", message)
    }

    /// The token is for other products.
    pub(crate) fn product_forbidden(token: &Token) -> Fault {
        let products: Vec<_> = token.products.iter().map(ProductKey::as_str).collect();
        let message = format!(
            "the token {} is for products by name ({}): name one of them, or take a token that is \
             bound to none",
            token.name,
            products.join(", ")
        );
        Fault::new(StatusCode::FORBIDDEN, "product_forbidden", message)
    }

    /// Too many wrong log-ins came from there.
    pub(crate) fn too_many_logins(wait_s: u32) -> Fault {
        let message = "too many wrong tokens or passwords came from this address: come back later";
        let fault = Fault::new(StatusCode::TOO_MANY_REQUESTS, "too_many_logins", message);
        Fault { retry_after_s: Some(wait_s), ..fault }
    }

    pub(crate) fn token(fault: TokenFault) -> Fault {
        match fault {
            TokenFault::Taken => {
                let message = "there is a token with this name: revoke it, or take another name";
                Fault::new(StatusCode::CONFLICT, "token_exists", message)
            }
            TokenFault::Full => {
                let message = "there are as many tokens as there may be ([api] tokens_max): \
                               revoke one";
                Fault::new(StatusCode::CONFLICT, "tokens_full", message)
            }
            TokenFault::NotKept => Fault::store(),
        }
    }

    /// The files of the audit log cannot be read.
    pub(crate) fn audit_log() -> Fault {
        let message = "the audit log cannot be read: see the server's log";
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "audit_log_failed", message)
    }

    pub(crate) fn unknown(what: &'static str) -> Fault {
        let (code, message) = match what {
            "product" => ("unknown_product", "the product is not known"),
            "device" => ("unknown_device", "the device is not known"),
            "push" => ("unknown_push", "the push is not remembered"),
            "client" => ("unknown_client", "no client with this identifier has a session"),
            "subscription" => ("unknown_subscription", "the client has no such subscription"),
            "retained" => ("unknown_retained", "no message is retained on this topic"),
            "principal" => ("unknown_principal", "memory knows nothing of it"),
            "record" => ("unknown_record", "the directory has no record of it"),
            "webhook" => ("unknown_webhook", "GET /v1/webhooks lists what there is"),
            "user" => ("unknown_user", "the book has no such user"),
            "account" => ("unknown_account", "there is no such account of chat"),
            "group" => (
                "unknown_group",
                "there is no such group of chat, or the account is no member of it",
            ),
            "chatroom" => ("unknown_chatroom", "there is no such chatroom"),
            "message" => ("unknown_message", "there is no such message in the conversation"),
            "broadcast" => ("unknown_broadcast", "the broadcast is not remembered"),
            "token" => ("unknown_token", "there is no token with this name"),
            _ => ("unknown_path", "there is nothing here: GET /openapi.json lists what there is"),
        };
        Fault::new(StatusCode::NOT_FOUND, code, message)
    }

    pub(crate) fn method() -> Fault {
        let message = "not with this method: GET /openapi.json lists what there is";
        Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub(crate) fn slow_body() -> Fault {
        Fault::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "the body did not come in time")
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    pub(crate) fn busy() -> Fault {
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "nothing was done: retry");
        Fault { retry_after_s: Some(1), ..fault }
    }

    /// The source of the caller has its share of answers that go on.
    pub(crate) fn source_full() -> Fault {
        let message = "as many streams go on as one address may have ([api] \
                       streams_a_source_max): end one";
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Fault { retry_after_s: Some(1), ..fault }
    }

    /// As many traces go on as may.
    pub(crate) fn traces_full(most: u32) -> Fault {
        let message = format!("{most} traces go on already: end one");
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Fault { retry_after_s: Some(1), ..fault }
    }

    pub(crate) fn store() -> Fault {
        let message = "the store is full or failed and nothing was done: see the server's log";
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "store_failed", message);
        Fault { retry_after_s: Some(30), ..fault }
    }

    /// The database of accounts is away or refuses; the message says which.
    pub(crate) fn database(why: String) -> Fault {
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "database_failed", why);
        Fault { retry_after_s: Some(5), ..fault }
    }

    pub(crate) fn conflict() -> Fault {
        let message = "the Idempotency-Key was used for another push and nothing was done";
        Fault::new(StatusCode::CONFLICT, "idempotency_conflict", message)
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
            ChatFault::Invalid => Fault::bad("the chat service cannot make sense of it"),
            ChatFault::TooLarge => Fault::too_large("it is larger than [chat] allows"),
            ChatFault::Busy => {
                // It may have been done: whoever asks again with the same id has it once.
                let busy = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", why.meaning());
                Fault { retry_after_s: Some(1), ..busy }
            }
            ChatFault::StoreFull | ChatFault::StoreFailed => Fault::store(),
            why => Fault::new(StatusCode::CONFLICT, why.name(), why.meaning()),
        }
    }

    /// The same of a message, with what its sender is told.
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

    /// What would be gone with the rest is not done.
    pub(crate) fn erasing() -> Fault {
        let message = "the account is being erased: ask again when that is over, which a DELETE of \
                       it tells";
        Fault::new(StatusCode::CONFLICT, "erasing", message)
    }

    pub(crate) fn mutes_full() -> Fault {
        let message = "as many accounts are muted as may be ([chat] muted_accounts_max)";
        Fault::new(StatusCode::CONFLICT, "mutes_full", message)
    }

    /// As many broadcasts go on as may.
    pub(crate) fn broadcasts_full(most: usize) -> Fault {
        let message = format!("{most} broadcasts go on already: wait for one, or cancel it");
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Fault { retry_after_s: Some(1), ..fault }
    }

    pub(crate) fn users_full() -> Fault {
        let message = "the book holds as many users as it may: remove one";
        Fault::new(StatusCode::CONFLICT, "users_full", message)
    }

    pub(crate) fn no_directory() -> Fault {
        let message = "no directory is configured: set `[presence] directory`, for example to \
                       \"redis://127.0.0.1:6379\"";
        Fault::new(StatusCode::CONFLICT, "no_directory", message)
    }

    pub(crate) fn no_history() -> Fault {
        let message = "this server keeps no history of presence (`[presence] history_bytes_max` \
                       is 0), or cannot read it: its log says why";
        Fault::new(StatusCode::CONFLICT, "no_history", message)
    }

    /// The message says why, in the port's words.
    pub(crate) fn directory(why: DirectoryError) -> Fault {
        let message = why.to_string();
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "directory_failed", message);
        Fault { retry_after_s: Some(5), ..fault }
    }

    pub(crate) fn no_dead_letters() -> Fault {
        let message = "this server keeps no dead letters: it has no folder for them";
        Fault::new(StatusCode::CONFLICT, "no_dead_letters", message)
    }

    /// As one of many in an answer that is none itself.
    pub(crate) fn told(&self) -> ErrorWords {
        ErrorWords { code: self.code, message: self.message.clone() }
    }

    /// Whether a repetition is worth while.
    pub(crate) fn comes_back(&self) -> bool {
        self.retry_after_s.is_some() || self.status == StatusCode::GATEWAY_TIMEOUT
    }

    /// The word for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// What people are told.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn folder_taken(folder: &Path) -> Fault {
        let folder = folder.display();
        let message = format!("{folder} is there already and not empty: name a new folder");
        Fault::new(StatusCode::CONFLICT, "folder_taken", message)
    }

    /// The message says why, in the roof's words.
    pub(crate) fn backup(message: String) -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "backup_failed", message)
    }

    pub(crate) fn stopping() -> Fault {
        let message = "the server is being stopped, and what was begun of it is nothing";
        Fault::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message)
    }

    pub(crate) fn no_answer() -> Fault {
        let message = "the shards did not answer, in time or at all; it may have been done";
        Fault::new(StatusCode::GATEWAY_TIMEOUT, "no_answer", message)
    }

    pub(crate) fn internal() -> Fault {
        let message = "a defect of this server";
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
