//! What logs, checkpoints and the data folder say.

kinds! {
    Storage {
        /// Who this server is in its data folder: the node's name, which start it is, and a
        /// fingerprint of the key by which devices are spread.
        FOLDER_IDENTITY "folder_identity" info "whose it is" [node boot cluster];
        /// The number of shards differs from that of the last start. Everything that is alive is
        /// written to new logs, which needs room for a second copy.
        SHARDS_CHANGED "shards_changed" info "the number of shards changed: everything moves"
            [logs shards];
        /// One of the logs was read at the start.
        LOG_READ "log_read" info "a log was read"
            [log segments bytes bytes_read records rebuilt];
        /// All logs were read.
        FOLDER_READ "folder_read" info "the data folder was read" [logs ms];
        /// Sessions, devices and accounts of the logs are in memory: the server can serve.
        KEPT_IN_MEMORY "kept_in_memory" info "what the logs kept is in memory" [taken ms];
        /// Entries of the logs could not be read, or limits are lower than they were. They stay on
        /// the disk and come back when there is room.
        KEPT_LEFT_OUT "kept_left_out" warn
            "what could not be read, or has no room, stays in the logs" [left];
        /// Reports are kept until a webhook took them, and it was taken out of the configuration.
        REPORTS_ORPHANED "reports_orphaned" warn
            "Reports waited for a webhook that is configured no more: dropped" [count];
        /// Messages are kept until an archive took them, and it was taken out of the
        /// configuration.
        ARCHIVE_ORPHANED "archive_orphaned" warn
            "messages waited for an archive that is configured no more" [count];
        /// A copy of the data folder is done.
        BACKUP_MADE "backup_made" info "a backup was made" [to bytes linked];
        /// The log ends before the place up to which answers had been given. The disk lost it, or
        /// the file was cut; with `fsync` other than "always" a power cut does that. The server
        /// goes on with what is there; a backup may have more.
        PROMISED_MISSING "promised_missing" error
            "what had been promised is missing: the log ends before the place up to which answers \
             had been given. The disk lost it, or the file was cut; with `fsync` other than \
             \"always\" a power cut does that. The server goes on with what is there; a backup may \
             have more" [log promised end records];
        /// A record at the end of a log was written in part, as a kill in the middle of a write
        /// leaves it. With `promised` the cut lies behind everything that is known to have been
        /// promised; where that is "unknown", nobody knows.
        TORN_END_CUT "torn_end_cut" warn "a torn end was cut off" [log torn promised];
        /// Others on the machine can read the key under which tokens of devices are made: chmod
        /// 600 it.
        SECRET_READABLE "secret_readable" warn
            "others on this machine can read this secret, under which tokens and challenges of \
             devices are made: chmod 600 it" [path mode];
        /// Others on the machine can read a token that may do everything. chmod 600 it, and have a
        /// new one made if they may have: remove the file and restart.
        TOKEN_READABLE "token_readable" warn
            "others on this machine can read the API's token, which may do everything: chmod 600 \
             it, and have a new one made if they may have (remove the file and restart)"
            [path mode];
        /// The disk refused a write or a sync. Nothing more is stored in this log, `/readyz` is
        /// 503. Mend the disk, then restart.
        LOG_FAILED "log_failed" error
            "the log failed: nothing more is stored in it until the disk is mended and the server \
             restarted" [error folder] = "store_failures_total";
        /// A log has seven tenths of what it may store. Find out who stores so much, shorten what
        /// is kept, or raise `log_bytes_max`, before it is full.
        LOG_FILLS "log_fills" warn "a log is 70 % full" [bytes limit folder]
            = "store_used_percent";
        /// `log_bytes_max` of `[store]` is reached, or the disk has no room. What would be stored
        /// is refused until something is taken or expires.
        LOG_FULL "log_full" warn "the log or its disk is full" [bytes limit folder]
            = "store_failures_total";
        /// The history of presence in the data folder cannot be written: the disk is full, or
        /// refuses. Nothing else depends on it; what is missing is counted.
        HISTORY_AWAY "history_away" warn "the history of presence is not written" [error]
            = "presence_history_lost_total";
        /// The history of presence is written again.
        HISTORY_BACK "history_back" info "the history of presence is written again" [];
        /// What is to be stored is taken again.
        LOG_HAS_ROOM "log_has_room" info "the log has room again" [folder];
        /// The file that says up to where answers were given cannot be written. Only after a
        /// power cut that loses the log's end does it matter.
        MARK_UNWRITTEN "mark_unwritten" warn
            "should the log's end be lost, it will not be known how much of it had been promised"
            [error file];
        /// A read of the state failed. It is as good as away for who asked; look at the disk, then
        /// `holdline store check`.
        STATE_UNREADABLE "state_unreadable" error "state cannot be read" [error];
        /// The embedded engine was closed after a failure and opened again.
        STATE_OPENED_AGAIN "state_opened_again" info "state was opened again" [folder];
        /// What is over could not be dropped, for the state could not be read.
        RETENTION_FAILED "retention_failed" error
            "state cannot be read to drop what is over" [error];
        /// A log came near `log_bytes_max` of `[store]`: of chat's messages the oldest go, those
        /// that were made before this Unix second, until so many bytes are free. Raise
        /// `log_bytes_max`, or let chat keep less (`[chat] keep_...`).
        LOG_GIVES_WAY "log_gives_way" warn
            "the log comes near its limit: the oldest of what was said goes" [before_s bytes]
            = "store_gave_way_total";
        /// A message's segment is missing: somebody removed a file. `holdline store check`.
        SEGMENT_MISSING "segment_missing" error "the segment of a message is not there"
            [file offset];
        /// A message's checksum is wrong: the disk changed it. It is not delivered. See "When the
        /// folder is damaged".
        MESSAGE_DAMAGED "message_damaged" error "a message is damaged" [file offset why];
        /// The start found a record that is not as it was written. See "When the folder is
        /// damaged".
        RECORD_DAMAGED "record_damaged" error "a record is damaged" [log file offset why];
        /// A message that was stored stood in a damaged record. It is not delivered.
        MESSAGE_LOST "message_lost" error "a stored message is damaged" [owner message place];
        /// How many stored messages the start found to be damaged, those included that are not
        /// told one by one.
        MESSAGES_LOST "messages_lost" error "stored messages are damaged" [log messages];
        /// A read of a message failed. Look at the disk.
        MESSAGE_UNREADABLE "message_unreadable" error "a message cannot be read"
            [file offset error];
        /// The log grows until one succeeds.
        CHECKPOINT_FAILED "checkpoint_failed" warn "a checkpoint failed; it is tried again"
            [error];
        /// Its room on the disk is not free yet.
        SEGMENT_KEPT "segment_kept" warn
            "a segment cannot be removed; it is tried again later" [error segment];
        /// A defect, or a file that was changed. The segment is kept; `holdline store check`.
        SEGMENT_UNNAMED "segment_unnamed" error
            "a segment has entries that its records do not name" [segment left];
        /// A record of an old segment is damaged. The segment is kept as it is; see "When the
        /// folder is damaged".
        SEGMENT_DAMAGED "segment_damaged" error "a segment cannot be compacted"
            [file offset why];
        /// Reports of these numbers were damaged, and no webhook will have them.
        REPORTS_UNREADABLE "reports_unreadable" error
            "Reports cannot be read from the log: they are dropped" [shard seqs];
        /// A log was full, or failed; what was to be written of accounts is tried again.
        ROW_REFUSED "row_refused" warn "a log did not take a call" [error];
        /// A row of the book of users is damaged: this user does not get in.
        USER_UNREADABLE "user_unreadable" error "the row of a user cannot be read" [user];
        /// A row of the book of tokens is damaged.
        API_TOKEN_UNREADABLE "api_token_unreadable" warn
            "a token of the API cannot be read: it opens nothing" [name];
        /// Calls are answered and leave no trace. Look at the disk of the data folder.
        AUDIT_LOG_UNWRITTEN "audit_log_unwritten" error
            "the audit log cannot be written: calls are answered and not kept in it" [error];
        /// Somebody asked for the audit log, and it could not be read.
        AUDIT_LOG_UNREADABLE "audit_log_unreadable" error "the audit log cannot be read"
            [error];
        /// A file of the media folder could not be read or written; who asked was told so.
        MEDIA_FILE_FAILED "media_file_failed" warn "a file of the media folder" [error];
        /// Files whose time is over were removed.
        MEDIA_FILES_OVER "media_files_over" info
            "files of the media folder are over, and removed" [files];
        /// They take room until it works.
        MEDIA_FILES_KEPT "media_files_kept" warn
            "files of the media folder cannot be removed" [error];
    }
}
