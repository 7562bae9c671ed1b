//! Messages: how one comes in, finds who wants it, and goes out.
//!
//! Read `publish` (it is taken), `route` (it finds its receivers), `deliver` (it goes out and is
//! acknowledged), `queue` (where it waits); `answers` holds what logs and other shards
//! have to allow, `answer` gives it.

pub(crate) mod answer;
pub(crate) mod answers;
pub(crate) mod delayed;
pub(crate) mod deliver;
pub(crate) mod fan_out;
pub(crate) mod groups;
pub(crate) mod handover;
pub(crate) mod keep;
pub(crate) mod packets;
pub(crate) mod publish;
pub(crate) mod queue;
pub(crate) mod replay;
pub(crate) mod retain;
pub(crate) mod route;
pub(crate) mod shared;
pub(crate) mod subscribe;
pub(crate) mod subscriptions;
