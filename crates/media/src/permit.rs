//! Permits: a signed address of the folder says what it allows, so that the server has to remember
//! nothing.
//!
//! ```text
//! /media/<sealed>/<name>
//! sealed = base64url( version 1 | may 1 | until 8 | kept_until 8 | bytes 8 | account 8 | id 16
//!                     | MAC 16 | type … )
//! ```
//! The MAC is of all the rest and of the name, by a key that follows from the cluster's secret, so
//! every node knows it and no restart changes it. Invariant: whoever has an address to get a file
//! cannot make one to put it, nor one that holds for longer.

use crate::keyed::{escaped, is_mac, mac, unescaped};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::media::{is_file_name, is_media_type};

/// Where files of the folder are.
pub const PATH: &str = "/media/";

const VERSION: u8 = 1;
const FIXED: usize = 2 + 4 * 8 + 16;
const MAC: usize = 16;
/// Longest sealed part, in letters: that of the longest type.
const SEALED_MAX: usize = (FIXED + MAC + model::media::MEDIA_TYPE_BYTES_MAX) * 4 / 3 + 4;

/// Operation that an address allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum May {
    /// Put the file there, once.
    Put,
    /// Get it.
    Get,
}

/// Permit of an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Permit {
    pub may: May,
    /// Unix second until which the permit holds.
    pub until_s: u64,
    /// Unix second until which the file is kept.
    pub kept_until_s: u64,
    /// The file's size.
    pub bytes: u64,
    /// Account of the file, for limits by account.
    pub account: u64,
    /// Name of the file in the folder.
    pub id: [u8; 16],
    pub media_type: String,
    pub name: String,
}

impl Permit {
    /// The path of this address.
    pub(crate) fn path(&self, key: &[u8]) -> String {
        let (fixed, name) = (self.fixed(), escaped(&self.name));
        let parts = [&fixed[..], self.media_type.as_bytes(), b"\0", self.name.as_bytes()];
        let mac = mac(key, &parts);
        let sealed = [&fixed[..], &mac[..MAC], self.media_type.as_bytes()].concat();
        format!("{PATH}{}/{name}", URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Decodes the permit of a path; `None`: the path is malformed or its signature wrong.
    pub(crate) fn of_path(path: &str, key: &[u8]) -> Option<Permit> {
        let (sealed, name) = path.strip_prefix(PATH)?.split_once('/')?;
        let name = unescaped(name).filter(|name| is_file_name(name))?;
        if sealed.len() > SEALED_MAX {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (fixed, rest) = sealed.split_first_chunk::<FIXED>()?;
        let (shown, media_type) = rest.split_first_chunk::<MAC>()?;
        if !is_mac(key, &[fixed, media_type, b"\0", name.as_bytes()], shown) {
            return None;
        }
        let media_type = std::str::from_utf8(media_type).ok().filter(|it| is_media_type(it))?;
        let word = |at: usize| {
            let bytes = &fixed[2 + 8 * at..10 + 8 * at];
            u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
        };
        let may = match (fixed[0], fixed[1]) {
            (VERSION, 0) => May::Put,
            (VERSION, 1) => May::Get,
            _ => return None,
        };
        Some(Permit {
            may,
            until_s: word(0),
            kept_until_s: word(1),
            bytes: word(2),
            account: word(3),
            id: fixed[FIXED - 16..].try_into().expect("sixteen bytes"),
            media_type: media_type.to_owned(),
            name,
        })
    }

    fn fixed(&self) -> Vec<u8> {
        let may = u8::from(self.may == May::Get);
        let mut fixed = vec![VERSION, may];
        for word in [self.until_s, self.kept_until_s, self.bytes, self.account] {
            fixed.extend_from_slice(&word.to_be_bytes());
        }
        fixed.extend_from_slice(&self.id);
        fixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit() -> Permit {
        Permit {
            may: May::Put,
            until_s: 1_700_000_000,
            kept_until_s: 1_800_000_000,
            bytes: 48_213,
            account: 7,
            id: *b"0123456789abcdef",
            media_type: "image/png".into(),
            name: "my cat/../.png".replace('/', "-"),
        }
    }

    #[test]
    fn an_address_says_what_it_was_made_of() {
        let path = permit().path(b"key");
        assert!(path.starts_with("/media/") && !path.contains(' '), "{path}");
        assert_eq!(Permit::of_path(&path, b"key"), Some(permit()));
        let get = Permit { may: May::Get, ..permit() };
        assert_eq!(Permit::of_path(&get.path(b"key"), b"key"), Some(get));
    }

    #[test]
    fn whatever_is_changed_in_an_address_it_allows_nothing() {
        let path = permit().path(b"key");
        assert_eq!(Permit::of_path(&path, b"other"), None);
        for at in PATH.len()..path.len() {
            let mut bent = path.clone().into_bytes();
            bent[at] = if bent[at] == b'A' { b'B' } else { b'A' };
            let bent = String::from_utf8(bent).expect("letters");
            if let Some(permit) = Permit::of_path(&bent, b"key") {
                // The last letter of base64 has bits that say nothing.
                panic!("{bent}: {permit:?}");
            }
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        let path = permit().path(b"key");
        let sealed = path.split('/').nth(2).expect("it is there");
        for bad in [
            "",
            "/media/",
            "/media//x",
            "/media/x",
            "/media/AAAA/x",
            "/media/../etc/passwd",
            &path[..path.len() - 1],
            &format!("/media/{sealed}"),
            &format!("/media/{sealed}/"),
            &format!("/media/{sealed}/.."),
            &format!("/media/{sealed}/%2e%2e%2fx"),
            &format!("/media/{}/x", "A".repeat(10_000)),
        ] {
            assert_eq!(Permit::of_path(bad, b"key"), None, "{bad}");
        }
    }
}
