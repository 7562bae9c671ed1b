//! People who communicate, over shards and logs in memory.

mod amendments;
mod anew;
mod archive;
mod asides;
mod authority;
mod erasure;
mod groups;
mod histories;
mod invitations;
mod knowledge;
mod leavers;
mod names;
mod push_services;
mod pushes;
mod quotes;
mod read_groups;
mod receipts;
mod search;
mod transients;
mod world;
