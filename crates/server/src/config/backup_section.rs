//! `[backup]`: scheduled copies of the data folder.

use base::section;
use base::setting::whole;
use std::path::PathBuf;

section! {
    /// `[backup]`: scheduled copies of the data folder.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct BackupSection {
        /// Folder for the copies, outside the data folder; "" is none. Each copy is a folder of its
        /// own there, named by its time in UTC. The server's user must be able to write to it. The
        /// Debian package creates /var/backups/holdline for this. A copy on the same disk does not
        /// survive the loss of that disk: move copies to another machine.
        folder: Option<PathBuf> = None;
        /// Hours between two copies. The time of the newest copy counts, also across restarts. A
        /// copy that fails is logged (`backup_failed`) and retried after an hour.
        every_h: u32 = 24, whole(1..=8_760, "hours");
        /// Number of copies kept: after each new one the oldest beyond this number are removed.
        keep: u32 = 7, whole(1..=1_000, "copies");
    }
}
