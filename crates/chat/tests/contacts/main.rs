//! Contacts and presence, over shards and logs in memory.

mod detached;
mod directed;
mod histories;
mod last_there;
mod nodes;
mod nodes_histories;
mod removed;
mod storm;
mod world;
