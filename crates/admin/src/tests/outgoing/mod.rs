//! Requests that the server makes by itself: Reports to webhooks, dead letters, pushes to a
//! gateway, and metrics to a collector.

pub(super) mod backlog;
mod dead;
mod live;
mod otlp;
mod push_gateway;
