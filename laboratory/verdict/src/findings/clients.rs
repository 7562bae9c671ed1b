//! Harm to clients: messages, heartbeats and answers that were lost, wrong or late.

pub(super) mod arrival;
pub(super) mod climb;
pub(super) mod heartbeats;
pub(super) mod late;
pub(super) mod latency;
pub(super) mod messages;
pub(super) mod stalls;
