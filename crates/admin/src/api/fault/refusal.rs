//! Refusals as the description tells them: groups of faults with one status that a route may
//! answer.

use super::{ElsewhereDevice, Fault};
use crate::tokens::Wrong;
use axum::http::StatusCode;
use model::chat::{ChatFault, SendRejected};
use model::id::DeviceId;
use model::ports::presence::directory::DirectoryError;
use model::presence::NodeName;
use std::path::Path;

/// A group of refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Bad,
    Unauthorized,
    Forbidden,
    NotFound,
    SlowBody,
    Conflict,
    NotTracked,
    NoReports,
    TooManyReports,
    FolderTaken,
    Refused,
    ChatRefused,
    TooFast,
    NoDirectory,
    NoHistory,
    NoDeadLetters,
    TooLarge,
    TooManyLogins,
    BackupFailed,
    ConfigurationInvalid,
    Busy,
    DirectoryFailed,
    NoAnswer,
}

impl Refusal {
    pub(crate) const ALL: [Refusal; 23] = [
        Refusal::Bad,
        Refusal::Unauthorized,
        Refusal::Forbidden,
        Refusal::NotFound,
        Refusal::SlowBody,
        Refusal::Conflict,
        Refusal::NotTracked,
        Refusal::NoReports,
        Refusal::TooManyReports,
        Refusal::FolderTaken,
        Refusal::Refused,
        Refusal::ChatRefused,
        Refusal::TooFast,
        Refusal::NoDirectory,
        Refusal::NoHistory,
        Refusal::NoDeadLetters,
        Refusal::TooLarge,
        Refusal::TooManyLogins,
        Refusal::BackupFailed,
        Refusal::ConfigurationInvalid,
        Refusal::Busy,
        Refusal::DirectoryFailed,
        Refusal::NoAnswer,
    ];

    /// Meaning of the refusal.
    pub(crate) const fn told(self) -> &'static str {
        match self {
            Refusal::Bad => "The request is invalid; the message says what is allowed.",
            Refusal::Unauthorized => {
                "The token is missing, wrong or expired: `unauthorized`, `wrong_token`, \
                 `expired_token`; or the console session has ended: `session_over`."
            }
            Refusal::Forbidden => {
                "The token lacks the scope (`scope_missing`), or is for another product \
                 (`product_forbidden`), or only `admin` may change this user (`administrator`), \
                 or a page of another origin used the console's session \
                 (`cross_origin`), or the address or the user is banned (`banned`)."
            }
            Refusal::NotFound => {
                "The product, device, push, segment, schedule, client, subscription, retained \
                 message, user, principal, record, webhook, token, ban, account, group, message or \
                 broadcast is not known."
            }
            Refusal::SlowBody => "The body did not arrive in time ([api] body_ms_max).",
            Refusal::Conflict => {
                "Nothing was done. `idempotency_conflict`: the Idempotency-Key was used for \
                 another push. `too_many_scheduled`: as many pushes are scheduled as \
                 [limits] scheduled_max allows. `lists_full`: the lists of open and scheduled \
                 pushes have as many bytes as [limits] lists_bytes_max allows. `elsewhere`: \
                 devices are online at other servers, which `elsewhere` names with the addresses \
                 of their APIs: send the push there."
            }
            Refusal::NotTracked => "The push was not tracked (`not_tracked`).",
            Refusal::NoReports => "The product takes no reports (`no_reports`).",
            Refusal::TooManyReports => {
                "The device sends more reports than [products] reports_per_s allows."
            }
            Refusal::FolderTaken => "The folder exists and is not empty.",
            Refusal::Refused => {
                "Nothing was done. `refused`: refused by the broker. `users_full`, `tokens_full`, \
                 `bans_full`, `too_many_segments`, `too_many_schedules`, `too_many_devices`: the \
                 maximum number is reached. `token_exists`: the name is taken."
            }
            Refusal::ChatRefused => {
                "Nothing was done, and the code says why, as in the IM protocol (IM 8.2): \
                 `conflict`, `forbidden`, `muted`, `group_full`, `unchanged`, `too_late`, \
                 `blocked`, `silenced`, `rejected`; or `mutes_full`; or `erasing`: the account \
                 is being erased, and its data cannot be changed any more."
            }
            Refusal::TooFast => "The account or the group exceeds its rate limit.",
            Refusal::NoDirectory => "No presence directory is configured.",
            Refusal::NoHistory => "The presence history is disabled or unreadable.",
            Refusal::NoDeadLetters => "This server does not store dead letters.",
            Refusal::TooLarge => "The body is too large.",
            Refusal::TooManyLogins => "Too many failed logins from this address within a minute.",
            Refusal::BackupFailed => "The backup failed; the message says why.",
            Refusal::ConfigurationInvalid => {
                "The configuration is invalid; nothing changed. The message names each problem."
            }
            Refusal::Busy => {
                "`busy`: a queue was full; nothing was done. `store_failed`: the store is full \
                 or has failed; nothing was done. `database_failed`: the account database is \
                 unreachable or refused; the message says which, and whether it may have been done."
            }
            Refusal::DirectoryFailed => {
                "`directory_failed`: the directory is unreachable or slow, refused, or returned \
                 invalid data; the message says which. `busy`: too many requests are running."
            }
            Refusal::NoAnswer => {
                "The shards did not answer in time; the request may have been carried out."
            }
        }
    }

    /// One of each kind, as examples; all have one status.
    pub(crate) fn faults(self) -> Vec<Fault> {
        match self {
            Refusal::Bad => vec![Fault::bad("`wait_ms` must be at most 30000")],
            Refusal::Unauthorized => [
                Wrong::Missing,
                Wrong::Unknown,
                Wrong::NoSuchUser,
                Wrong::Expired,
                Wrong::SessionOver,
            ]
            .map(Fault::unauthorized)
            .into(),
            Refusal::Forbidden => {
                let message = "this needs a token with the scope `push` (or `admin`), but ci has \
                               `read`: create another one (POST /v1/tokens)";
                let missing = Fault::new(StatusCode::FORBIDDEN, "scope_missing", message);
                vec![missing, Fault::unauthorized(Wrong::CrossOrigin)]
            }
            Refusal::NotFound => vec![Fault::unknown("product")],
            Refusal::SlowBody => vec![Fault::slow_body()],
            Refusal::Conflict => {
                let device = DeviceId::parse("till-7").expect("a name");
                let node = NodeName::parse("node-2").expect("a name");
                let address = Some("http://10.0.0.7:7080".into());
                let device = ElsewhereDevice { device, node, address };
                vec![
                    Fault::conflict(),
                    Fault::too_many_scheduled(),
                    Fault::lists_full(),
                    Fault::elsewhere(vec![device]),
                ]
            }
            Refusal::NotTracked => vec![Fault::not_tracked()],
            Refusal::NoReports => vec![Fault::no_reports()],
            Refusal::TooManyReports => vec![Fault::too_many_reports()],
            Refusal::FolderTaken => {
                vec![Fault::folder_taken(Path::new("/var/backups/holdline"))]
            }
            Refusal::Refused => {
                vec![Fault::refused("the topic is not accepted"), Fault::users_full()]
            }
            Refusal::ChatRefused => {
                vec![
                    Fault::chat(ChatFault::Unchanged),
                    Fault::chat(ChatFault::GroupFull),
                    Fault::erasing(),
                ]
            }
            Refusal::TooFast => {
                let (number, why, retry_after_ms) = (0, ChatFault::RateLimited, 1_500);
                let reason = Box::default();
                vec![Fault::rejected(&SendRejected { number, why, reason, retry_after_ms })]
            }
            Refusal::NoDirectory => vec![Fault::no_directory()],
            Refusal::NoHistory => vec![Fault::no_history()],
            Refusal::NoDeadLetters => vec![Fault::no_dead_letters()],
            Refusal::TooLarge => {
                vec![Fault::too_large("the push has 5000 bytes; the maximum is 4096")]
            }
            Refusal::TooManyLogins => vec![Fault::too_many_logins(60)],
            Refusal::BackupFailed => {
                vec![Fault::backup("/var/backups/holdline: No space left on device".into())]
            }
            Refusal::ConfigurationInvalid => {
                let why = "holdline.toml:3: [limits] drain_ms = 9999999999: must be 0 to 86400000 \
                           milliseconds";
                vec![Fault::configuration(why.into())]
            }
            Refusal::Busy => {
                let why = "the database is unreachable: it did not answer within 5000 ms";
                vec![Fault::busy(), Fault::store(), Fault::database(why.into())]
            }
            Refusal::DirectoryFailed => vec![Fault::directory(DirectoryError::Slow)],
            Refusal::NoAnswer => vec![Fault::no_answer()],
        }
    }

    pub(crate) fn status(self) -> u16 {
        self.faults()[0].status.as_u16()
    }

    /// Whether a repetition is worth while, and when.
    pub(crate) fn comes_back(self) -> bool {
        self.faults().iter().all(|fault| fault.retry_after_s.is_some())
    }
}
