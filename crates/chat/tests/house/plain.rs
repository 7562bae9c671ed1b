//! Common beginnings of tests of the service: settings, and a device's login.
//!
//! A test changes only the settings that it is about. Tests that are crates of their own include
//! this file by its path.

use base::hash::HashKey;
use model::account::AccountAddress;
use model::chat::{Adding, Login};
use model::id::{NodeId, ShardId};
use model::ports::access::AllowAll;
use std::sync::Arc;

/// The hash key that assigns accounts and conversations to shards.
pub const HOME: HashKey = HashKey::new(11, 12);

/// Settings of one shard of this many: every login is admitted, and optional parts are absent.
pub fn settings(shard: ShardId, shards: u16) -> chat::Settings {
    chat::Settings {
        shard,
        shards,
        node: NodeId::ALONE,
        limits: Arc::default(),
        home: HOME,
        access: Arc::new(AllowAll),
        push: chat::PushPolicy::default(),
        domain: "a.example".into(),
        adding: Adding::Everybody,
        foreign: Arc::default(),
        log_bytes: 0,
        reviews: None,
        words: Arc::default(),
        book: chat::BookPolicy::default(),
        media: None,
        bookmarks: None,
    }
}

/// A login of an account's device; a device without a name gets it after the login.
pub fn login(account: AccountAddress, device: &str) -> Login {
    Login {
        protocol: "im",
        account,
        device: device.into(),
        binds: device.is_empty(),
        password: None,
        method: None,
        certificate: None,
        bindings: None,
        peer: ([127, 0, 0, 1], 1).into(),
        near: true,
        door: 0,
        tls: false,
        crowded: false,
    }
}
