//! The scripts that run inside of Redis, and the names under which it knows them.
//!
//! A script is called by the SHA-1 of its text. A server that answers that it does not have the
//! script, because it is new or was told to forget its scripts, is sent the text.

use std::sync::LazyLock;

/// A script of one key.
pub(crate) struct Script {
    pub(crate) text: &'static str,
    /// Its SHA-1, hexadecimal.
    pub(crate) name: String,
}

impl Script {
    fn new(text: &'static str) -> Script {
        Script { text, name: redis::Script::new(text).get_hash().to_string() }
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!($file)));)*
    };
}

scripts! {
    /// Puts records into a bucket.
    PUT = "script/put.lua";
    /// Takes records out of a bucket.
    REMOVE = "script/remove.lua";
    /// The digest of a bucket.
    DIGEST = "script/digest.lua";
    /// Ends a lease.
    RELEASE = "script/release.lua";
    /// Takes a node off the list.
    UNLIST = "script/unlist.lua";
}
