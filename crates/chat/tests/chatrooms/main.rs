//! Chatrooms over several shards and logs in memory: what those who are there may expect.

mod arena;
mod histories;
mod rooms;
