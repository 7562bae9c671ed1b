//! Events of logs, checkpoints and the data folder.

kinds! {
    Storage {
        /// This server's identity in its data folder: the node's name, the number of this start,
        /// and a fingerprint of the key that assigns devices to shards.
        FOLDER_IDENTITY "folder_identity" info "data folder identity" [node boot cluster];
        /// The number of shards differs from that of the last start. All live data is written to
        /// new logs, which needs disk space for a second copy.
        SHARDS_CHANGED "shards_changed" info "the number of shards changed: all data is moved"
            [logs shards];
        /// One log was read at the start.
        LOG_READ "log_read" info "log read"
            [log segments bytes bytes_read records rebuilt];
        /// All logs were read.
        FOLDER_READ "folder_read" info "data folder read" [logs ms];
        /// Sessions, devices and accounts have been loaded from the logs: the server can serve.
        KEPT_IN_MEMORY "kept_in_memory" info "state loaded into memory" [taken ms];
        /// Entries of the logs could not be read, or limits are lower than before. The entries stay
        /// on disk and are loaded when the limits allow it.
        KEPT_LEFT_OUT "kept_left_out" warn
            "unreadable entries, and entries beyond the limits, stay in the logs" [left];
        /// Undelivered Reports for a webhook that was removed from the configuration were dropped.
        REPORTS_ORPHANED "reports_orphaned" warn
            "Reports for a webhook that is no longer configured: dropped" [count];
        /// Messages are stored for an archive that was removed from the configuration.
        ARCHIVE_ORPHANED "archive_orphaned" warn
            "messages are stored for an archive that is no longer configured" [count];
        /// A copy of the data folder is complete.
        BACKUP_MADE "backup_made" info "backup complete" [to bytes linked];
        /// A scheduled backup failed; the error says why. It is retried after an hour. Older copies
        /// are kept. Check that the folder of `[backup]` exists, belongs to the server's user and
        /// has room.
        BACKUP_FAILED "backup_failed" error "a scheduled backup failed" [to error]
            = "backup_failures_total";
        /// The log ends before data that was already acknowledged. The disk lost it, or the file
        /// was truncated; with `fsync` other than "always" a power failure has this effect. The
        /// server continues with what is left; a backup may have more.
        PROMISED_MISSING "promised_missing" error
            "acknowledged data is missing at the end of the log. The disk lost it, or the file was \
             truncated; with `fsync` other than \"always\" a power failure has this effect. The \
             server continues with what is left; a backup may have more" [log promised end records];
        /// The last record of a log was incomplete, as a kill during a write leaves it. With
        /// `promised`, the cut is behind everything that is known to be acknowledged; "unknown"
        /// means that this is not known.
        TORN_END_CUT "torn_end_cut" warn "an incomplete record at the end of a log was \
                                          removed" [log torn promised];
        /// Other users on this machine can read the key that signs device tokens: chmod 600 it.
        SECRET_READABLE "secret_readable" warn
            "other users on this machine can read this secret, which signs device tokens and \
             challenges: chmod 600 it" [path mode];
        /// Other users on this machine can read a token with all permissions. chmod 600 it; if they
        /// may have read it, replace it: remove the file and restart.
        TOKEN_READABLE "token_readable" warn
            "other users on this machine can read the API's token with all permissions: chmod 600 \
             it, and replace it if they may have read it (remove the file and restart)"
            [path mode];
        /// The disk refused a write or a sync. Writes to this log are refused, and `/readyz`
        /// responds with 503. Repair the disk, then restart. See "The store failed" in
        /// docs/operate.md.
        LOG_FAILED "log_failed" error
            "the log failed: writes are refused until the disk is repaired and the server \
             restarted" [error folder] = "store_failures_total";
        /// A log has reached seven tenths of its limit. Find out what fills it, shorten the
        /// retention, or raise `log_bytes_max`, before it is full.
        LOG_FILLS "log_fills" warn "a log is 70 % full" [bytes limit folder]
            = "store_used_percent";
        /// `log_bytes_max` of `[store]` is reached, or the disk is full. Writes are refused until
        /// data is deleted or expires.
        LOG_FULL "log_full" warn "the log or its disk is full" [bytes limit folder]
            = "store_failures_total";
        /// The presence history in the data folder cannot be written: the disk is full or failed.
        /// Nothing else depends on it; missing entries are counted.
        HISTORY_AWAY "history_away" warn "the presence history cannot be written" [error]
            = "presence_history_lost_total";
        /// The presence history is written again.
        HISTORY_BACK "history_back" info "the presence history is written again" [];
        /// Writes are accepted again.
        LOG_HAS_ROOM "log_has_room" info "the log has room again" [folder];
        /// The file that records how far the log was acknowledged cannot be written. This matters
        /// only after a power failure that loses the end of the log.
        MARK_UNWRITTEN "mark_unwritten" warn
            "if the end of the log is lost, the server cannot know how much of it was acknowledged"
            [error file];
        /// A read of the state failed, and its caller got an error. Check the disk, then run
        /// `holdline store check`.
        STATE_UNREADABLE "state_unreadable" error "state cannot be read" [error];
        /// The embedded engine was closed after a failure and opened again.
        STATE_OPENED_AGAIN "state_opened_again" info "state was opened again" [folder];
        /// Expired data could not be deleted, because the state could not be read.
        RETENTION_FAILED "retention_failed" error
            "expired data cannot be deleted: state cannot be read" [error];
        /// A log came near `log_bytes_max` of `[store]`: chat messages from before `before_s` (Unix
        /// seconds) are deleted, until `bytes` are free. Raise `log_bytes_max`, or shorten the
        /// retention of chat (`[chat] keep_...`).
        LOG_GIVES_WAY "log_gives_way" warn
            "the log is near its limit: the oldest chat messages are deleted" [before_s bytes]
            = "store_gave_way_total";
        /// A message's segment file is missing: somebody removed it. Run `holdline store check`.
        SEGMENT_MISSING "segment_missing" error "the segment of a message is missing"
            [file offset];
        /// A message's checksum is wrong: the disk changed it. The message is not delivered. See
        /// "Damaged data folder" in docs/operate.md.
        MESSAGE_DAMAGED "message_damaged" error "a message is damaged" [file offset why];
        /// The start found a record that differs from what was written. See "Damaged data folder"
        /// in docs/operate.md.
        RECORD_DAMAGED "record_damaged" error "a record is damaged" [log file offset why];
        /// A stored message was in a damaged record. It is not delivered.
        MESSAGE_LOST "message_lost" error "a stored message is damaged" [owner message place];
        /// Number of damaged stored messages that the start found, including those that are not
        /// logged one by one.
        MESSAGES_LOST "messages_lost" error "stored messages are damaged" [log messages];
        /// A message could not be read. Check the disk.
        MESSAGE_UNREADABLE "message_unreadable" error "a message cannot be read"
            [file offset error];
        /// The log grows until a checkpoint succeeds.
        CHECKPOINT_FAILED "checkpoint_failed" warn "a checkpoint failed; it is retried"
            [error];
        /// Its disk space is not free yet.
        SEGMENT_KEPT "segment_kept" warn
            "a segment cannot be removed; it is retried later" [error segment];
        /// A defect, or a modified file. The segment is kept. Run `holdline store check`.
        SEGMENT_UNNAMED "segment_unnamed" error
            "a segment has entries that its records do not name" [segment left];
        /// A record of an old segment is damaged. The segment is kept as it is. See "Damaged data
        /// folder" in docs/operate.md.
        SEGMENT_DAMAGED "segment_damaged" error "a segment cannot be compacted"
            [file offset why];
        /// The Reports with these numbers were damaged; no webhook will receive them.
        REPORTS_UNREADABLE "reports_unreadable" error
            "Reports cannot be read from the log: dropped" [shard seqs];
        /// A log was full or had failed. The write of account data is retried.
        ROW_REFUSED "row_refused" warn "a log refused a write" [error];
        /// A user's row is damaged: this user cannot log in.
        USER_UNREADABLE "user_unreadable" error "a user's row cannot be read" [user];
        /// A token's row is damaged.
        API_TOKEN_UNREADABLE "api_token_unreadable" warn
            "an API token cannot be read: it is invalid" [name];
        /// Calls are answered but not recorded. Check the disk of the data folder.
        AUDIT_LOG_UNWRITTEN "audit_log_unwritten" error
            "the audit log cannot be written: calls are not recorded" [error];
        /// A request for the audit log failed, because it could not be read.
        AUDIT_LOG_UNREADABLE "audit_log_unreadable" error "the audit log cannot be read"
            [error];
        /// A file of the media folder could not be read or written; the client got an error.
        MEDIA_FILE_FAILED "media_file_failed" warn "a file of the media folder cannot be read or \
                                                    written" [error];
        /// Expired files were removed.
        MEDIA_FILES_OVER "media_files_over" info
            "expired files of the media folder removed" [files];
        /// The files occupy disk space until their removal succeeds.
        MEDIA_FILES_KEPT "media_files_kept" warn
            "files of the media folder cannot be removed" [error];
    }
}
