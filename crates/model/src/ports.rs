//! The outer contracts: what the outside may ask of the hub, and what the hub asks of the store.
//!
//! Submit and complete: whoever asks hands over a place for the answer and goes on; nobody waits
//! inside. [`control`] is the way in for the HTTP API; [`pushes`] and [`topics`] are its parts
//! about devices, and about topics and sessions. [`log`] is the way out to stable storage,
//! [`calls`] what whoever takes it has to remember, [`backlog`] what waits there for webhooks, and
//! [`files`] the disk that a store writes to.
//! [`presence`] has a copy of presence outside, and what is asked about it.
//! [`names`] is who looks up where a host or a service is; [`notifications`] who tells devices
//! something that are not connected.
//! [`media`] makes addresses of a storage of files.
//! [`trace`] is what operators see of connections, [`control::disconnections`] how they ended,
//! and [`control::slow_clients`] which of them do not keep up.
//! [`reviews`] is who is asked about a message before it is stored.
//! [`bans`] are addresses, clients and users that are refused.
//! [`access`] says who may do what, [`users`] changes it, and [`tokens`] keeps what opens the API;
//! [`databases`] are those outside that the book of users is kept in and that messages go to.

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
pub mod reviews;
pub mod tokens;
pub mod topics;
pub mod trace;
pub mod users;
pub mod virtual_client;

pub use access::bans;
