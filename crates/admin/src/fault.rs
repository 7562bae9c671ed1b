//! Refusals: every way in which the API says no, with its status and a word for programs.
//!
//! The body is always `{"error": {"code", "message"}}`. Messages say what is allowed; they never
//! repeat a secret. Invariant: each [`Answer`](model::ports::control::Answer) that refuses has one
//! row here.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::ports::directory::Fault as DirectoryFault;
use serde_json::{Value, json};

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

    pub(crate) fn unauthorized() -> Fault {
        let message = "send the API token: `Authorization: Bearer TOKEN`";
        Fault::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
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

    pub(crate) fn store() -> Fault {
        let message = "the store is full or failed and nothing was done: see the server's log";
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "store_failed", message);
        Fault { retry_after_s: Some(30), ..fault }
    }

    pub(crate) fn conflict() -> Fault {
        let message = "the Idempotency-Key was used for another push and nothing was done";
        Fault::new(StatusCode::CONFLICT, "idempotency_conflict", message)
    }

    /// The broker says no; the message says why, in its words.
    pub(crate) fn refused(why: &str) -> Fault {
        Fault::new(StatusCode::CONFLICT, "refused", why)
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

    /// The message says why, in the port's words.
    pub(crate) fn directory(why: DirectoryFault) -> Fault {
        let message = why.to_string();
        let fault = Fault::new(StatusCode::SERVICE_UNAVAILABLE, "directory_failed", message);
        Fault { retry_after_s: Some(5), ..fault }
    }

    pub(crate) fn no_dead_letters() -> Fault {
        let message = "this server keeps no dead letters: it has no folder for them";
        Fault::new(StatusCode::CONFLICT, "no_dead_letters", message)
    }

    /// As one of many in an answer that is none itself.
    pub(crate) fn told(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }

    /// The message says why, in the roof's words.
    pub(crate) fn backup(message: String) -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "backup_failed", message)
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
        let body = json!({ "error": self.told() });
        let mut response = (self.status, Json(body)).into_response();
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
