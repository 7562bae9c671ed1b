//! Both storages, as the code that gives leave to upload sees them.
//!
//! The name of a file in the storage follows from a seed of this start and a count, by a MAC: names
//! cannot be guessed, and none is given twice.

use crate::bucket::{Bucket, BucketSettings};
use crate::keyed::mac;
use crate::permit::{May, Permit};
use base::hex;
use base::secret::ClusterSecret;
use model::limits::MediaLimits;
use model::media::{UploadSlot, UploadWish};
use model::ports::media::MediaStorage;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A folder of this machine.
#[derive(Clone)]
pub struct FolderSettings {
    /// Path of the folder.
    pub folder: PathBuf,
    /// Bytes of all files in it. One that would be more is refused.
    pub folder_bytes_max: u64,
    /// Scheme and host under which listeners with it are reached: `https://chat.example.org`.
    pub url: String,
    /// Secret from which the key of addresses is derived.
    pub secret: ClusterSecret,
}

/// Which storage it is.
#[derive(Clone)]
pub enum StorageSettings {
    /// A bucket elsewhere.
    Bucket(BucketSettings),
    /// A folder here.
    Folder(FolderSettings),
}

/// A storage that addresses are made for.
pub struct AddressSigner {
    at: At,
    upload_s: AtomicU32,
    keep_s: AtomicU32,
    seed: [u8; 32],
    given: AtomicU64,
}

enum At {
    Bucket(Bucket),
    Folder { url: String, key: Vec<u8> },
}

impl AddressSigner {
    /// Addresses for it. `seed`: 32 bytes at random, others at each start.
    pub fn new(settings: StorageSettings, limits: &MediaLimits, seed: [u8; 32]) -> AddressSigner {
        let at = match settings {
            StorageSettings::Bucket(settings) => At::Bucket(Bucket::new(settings)),
            StorageSettings::Folder(settings) => At::Folder {
                url: settings.url.trim_end_matches('/').to_owned(),
                key: folder_key(&settings.secret),
            },
        };
        let [upload_s, keep_s] = [limits.upload_s, limits.keep_s].map(AtomicU32::new);
        AddressSigner { at, upload_s, keep_s, seed, given: AtomicU64::new(0) }
    }

    /// Addresses that are made from now on are good for so long. Earlier ones stay as they are.
    pub fn set_limits(&self, limits: &MediaLimits) {
        self.upload_s.store(limits.upload_s, Ordering::Relaxed);
        self.keep_s.store(limits.keep_s, Ordering::Relaxed);
    }

    /// Seconds in which an upload may begin, and for which a file is kept.
    fn times_s(&self) -> (u32, u32) {
        (self.upload_s.load(Ordering::Relaxed), self.keep_s.load(Ordering::Relaxed))
    }

    fn next_id(&self) -> [u8; 16] {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let mac = mac(&self.seed, &[b"file", &number.to_be_bytes()]);
        mac[..16].try_into().expect("a MAC has 32 bytes")
    }
}

impl MediaStorage for AddressSigner {
    fn slot(&self, now_s: u64, account: u64, wish: &UploadWish) -> UploadSlot {
        let (id, times_s) = (self.next_id(), self.times_s());
        let (url, key) = match &self.at {
            At::Bucket(bucket) => {
                let key = format!("{}/{}", hex::encode(&id), wish.name);
                return bucket.slot(now_s, &key, times_s, wish);
            }
            At::Folder { url, key } => (url, key),
        };
        let (until_s, kept_until_s) = (now_s + u64::from(times_s.0), now_s + u64::from(times_s.1));
        let put = Permit {
            may: May::Put,
            until_s,
            kept_until_s,
            bytes: wish.bytes,
            account,
            id,
            media_type: wish.media_type().to_owned(),
            name: wish.name.clone().into(),
        };
        // Whose it is is nobody's business.
        let get = Permit { may: May::Get, until_s: kept_until_s, account: 0, ..put.clone() };
        UploadSlot {
            put_url: format!("{url}{}", put.path(key)).into(),
            headers: wish.headers(),
            get_url: format!("{url}{}", get.path(key)).into(),
            put_until_s: until_s,
            get_until_s: kept_until_s,
        }
    }
}

/// Key that signs addresses of the folder.
pub(crate) fn folder_key(secret: &ClusterSecret) -> Vec<u8> {
    mac(secret.bytes(), &[b"media folder 1"]).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(seed: [u8; 32]) -> AddressSigner {
        let settings = FolderSettings {
            folder: PathBuf::new(),
            folder_bytes_max: 0,
            url: "http://a.example/".into(),
            secret: ClusterSecret::new([7; 32]),
        };
        AddressSigner::new(StorageSettings::Folder(settings), &MediaLimits::default(), seed)
    }

    fn wish() -> UploadWish {
        UploadWish { name: "cat.png".into(), media_type: "image/png".into(), bytes: 9 }
    }

    #[test]
    fn one_address_puts_and_the_other_gets_the_same_file() {
        let slot = storage([1; 32]).slot(1_000, 77, &wish());
        let key = folder_key(&ClusterSecret::new([7; 32]));
        let of = |url: &str| {
            let path = url.strip_prefix("http://a.example").expect("the base").to_owned();
            Permit::of_path(&path, &key).expect("an address of ours")
        };
        let (put, get) = (of(&slot.put_url), of(&slot.get_url));
        assert_eq!((put.may, get.may), (May::Put, May::Get));
        assert_eq!((put.id, put.kept_until_s), (get.id, get.kept_until_s));
        assert_eq!((put.account, get.account), (77, 0), "whose it is is not told");
        assert_eq!((put.until_s, slot.put_until_s), (1_300, 1_300));
        assert_eq!(get.until_s, slot.get_until_s);
    }

    #[test]
    fn no_name_is_given_twice_nor_at_another_start() {
        let (one, other) = (storage([1; 32]), storage([2; 32]));
        let mut urls: Vec<_> = [&one, &one, &other, &other]
            .map(|storage| storage.slot(1_000, 7, &wish()).get_url)
            .to_vec();
        urls.sort_unstable();
        urls.dedup();
        assert_eq!(urls.len(), 4);
    }

    #[test]
    fn other_limits_hold_for_addresses_that_are_made_from_then_on() {
        let storage = storage([1; 32]);
        let until = |slot: UploadSlot| (slot.put_until_s, slot.get_until_s);
        assert_eq!(until(storage.slot(1_000, 7, &wish())), (1_300, 1_000 + 30 * 86_400));
        storage.set_limits(&MediaLimits { upload_s: 10, keep_s: 60, ..MediaLimits::default() });
        assert_eq!(until(storage.slot(1_000, 7, &wish())), (1_010, 1_060));
    }
}
