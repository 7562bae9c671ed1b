//! Files that people send: addresses where they are put, and a folder that takes them.
//!
//! ```text
//! chat ─► MediaStorage: signs an address ─► device ─► bucket elsewhere
//!                                                └──► listener ─► MediaDoor ─► folder
//! ```
//! A bucket that speaks S3 is given signatures alone. The folder is served by a thread of its own,
//! over connections that the shards hand over as soon as they ask for a file. It knows neither
//! accounts nor messages: an address allows what is signed in it. Invariants: nobody who was not
//! told an address can make one; a file that was answered is whole and on stable storage.

mod answer;
mod bucket;
mod door;
mod folder;
mod keyed;
mod permit;
mod range;
mod storage;
mod stream;
mod tally;
mod uploads;

pub use bucket::{BUCKET_S_MAX, BucketSettings, origin};
pub use door::MediaDoor;
pub use permit::PATH;
pub use storage::{AddressSigner, FolderSettings, StorageSettings};
pub use stream::{Cipher, Handed, Incoming};
pub use tally::{MediaTally, TransferOutcome};
