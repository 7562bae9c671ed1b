//! People who talk, over shards and logs in memory: what they may expect.

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
mod shows;
mod transients;
mod world;
