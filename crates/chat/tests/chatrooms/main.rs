//! Chatrooms over several shards and logs in memory.

mod arena;
mod histories;
mod rooms;
