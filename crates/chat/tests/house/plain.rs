//! What tests of the service begin with: settings, and a device that wants to come in.
//!
//! Whoever wants something else says that alone. Tests that are crates of their own have it by its
//! path.

use base::hash::HashKey;
use model::account::AccountAddress;
use model::chat::{Adding, Login};
use model::id::{NodeId, ShardId};
use model::ports::access::AllowAll;
use std::sync::Arc;

/// By this accounts and conversations are at home.
pub const HOME: HashKey = HashKey::new(11, 12);

/// Settings of one shard of so many: whoever comes is let in, and nothing is there that need not
/// be.
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

/// A device of an account wants to come in; one without a name is given it when it is here.
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
