//! People who know each other, over shards and logs in memory: who sees whom.

mod detached;
mod directed;
mod histories;
mod nodes;
mod nodes_histories;
mod storm;
mod world;
