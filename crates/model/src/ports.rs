//! Ports: the interfaces of the services to the API, the log, access control and other outside
//! parts.
//!
//! Calls are submitted and completed later: the caller passes a place for the answer and goes on;
//! nothing blocks inside. [`control`] is the interface for the HTTP API; [`pushes`] and [`topics`]
//! are its parts about devices, and about topics and sessions. [`log`] is the interface to stable
//! storage, [`calls`] tracks its open calls, [`backlog`] reads what is stored for webhooks, and
//! [`files`] is the disk that a store writes to. [`presence`] has a copy of presence outside, and
//! queries about it. [`names`] resolves hosts and services; [`notifications`] notifies devices that
//! are not connected. [`media`] makes URLs of a file storage. [`trace`] shows operators what
//! connections send and receive, [`control::disconnections`] how connections ended, and
//! [`control::slow_clients`] which of them do not keep up. [`reviews`] asks an external service
//! about a message before it is stored. [`bans`] are addresses, clients and users that are refused.
//! [`access`] decides about rights, [`users`] changes them, and [`tokens`] stores the API's tokens;
//! [`databases`] are external ones for accounts and for archived messages.

pub mod access;
pub mod backlog;
pub mod calls;
pub mod chat;
pub mod control;
pub mod databases;
pub mod events;
pub mod files;
pub mod lead;
pub mod log;
pub mod media;
pub mod names;
pub mod notifications;
pub mod presence;
pub mod pushes;
pub mod requests;
pub mod reviews;
pub mod tokens;
pub mod topics;
pub mod trace;
pub mod users;
pub mod virtual_client;

pub use access::bans;
