//! Presence in Redis: standalone, Sentinel, Cluster.
