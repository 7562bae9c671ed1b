//! What goes out by itself: what waits for webhooks, what they give up, pushes to a
//! gateway, and metrics to a collector.

pub(super) mod backlog;
mod dead;
mod live;
mod otlp;
mod push_gateway;
