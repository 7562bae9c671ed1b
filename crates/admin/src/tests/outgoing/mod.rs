//! What goes out by itself: what waits for webhooks, what they give up, and pushes to a gateway.

pub(super) mod backlog;
mod dead;
mod push_gateway;
