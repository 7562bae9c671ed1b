//! The seeded world: the shard and the hub that are shipped, over a network that is made up.
//!
//! A [`simulation::Simulation`] holds the shards of a server, a shard of virtual clients, an
//! application that orders pushes and logs on a disk that fails and forgets, all in one thread, all
//! from one seed. A step is one turn of one shard. After the steps the checks say whether every
//! promise was kept; a failure prints the seed and how to run it again.
//!
//! A [`topics::TopicSimulation`] is the same with clients of MQTT: publish and subscribe instead of
//! pushes. In both, [`copies`] has a directory of who is online, which fails, forgets and lies.
//!
//! Read [`fabric`] (the network) and [`simulation`] first; [`hold`] is something else, a
//! measurement of memory over a network that owns nothing.

pub mod application;
pub mod copies;
pub mod disk;
pub mod fabric;
pub mod hold;
pub mod net;
pub mod post;
pub mod simulation;
pub mod topics;
pub mod virtual_clients;
pub mod weather;
