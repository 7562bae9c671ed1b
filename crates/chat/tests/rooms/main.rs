//! Rooms of groups: who is in them, over shards and the deaths of sessions.

#[path = "../house/plain.rs"]
mod plain;
#[path = "../house/shard.rs"]
mod shard;

mod occupants;
mod rules;
mod temporary;
mod world;
