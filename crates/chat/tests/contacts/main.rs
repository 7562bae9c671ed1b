//! People who know each other, over shards and logs in memory: who sees whom.

mod detached;
mod directed;
mod histories;
mod last_there;
mod nodes;
mod nodes_histories;
mod removed;
mod storm;
mod world;
