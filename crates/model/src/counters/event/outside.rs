//! What is said of that which the server asks or tells elsewhere: directory, databases, hooks,
//! bridges, gateways, collectors, and who asks its API. Each says once that it is away, and once
//! that it is back.

kinds! {
    Outside {
        /// A directory of presence is configured: this is how the server is called there.
        DIRECTORY_TOLD "directory_told" info "a directory is told who is online"
            [node boot kind];
        /// See "Redis is gone".
        DIRECTORY_AWAY "directory_away" warn
            "the directory of presence is away: changes wait, nothing else does"
            [fault unwritten] = "presence_unwritten";
        /// What waited is being written.
        DIRECTORY_BACK "directory_back" info "the directory of presence is back" [unwritten];
        /// Directory and memory were held against each other after a gap.
        DIRECTORY_COMPARED "directory_compared" info
            "the directory of presence was compared with memory" [];
        /// Retained events of presence of an earlier start, which say online of who is not here,
        /// were mended.
        EVENTS_RECALLED "events_recalled" info
            "retained events that say online were looked at" [count];
        /// Redis takes no events; `events_stream` of `[presence]`.
        STREAM_AWAY "stream_away" warn "the stream of events takes nothing: they wait" [fault]
            = "events_stream_failures_total";
        /// What waited is being appended.
        STREAM_BACK "stream_back" info "the stream of events takes them again" [];
        /// Events found no room while the stream was away. An entry `gap` says so there, too.
        STREAM_LOST "stream_lost" warn "events never came to the stream" [events]
            = "events_stream_lost_total";
        /// See "MySQL is gone".
        ACCOUNTS_AWAY "accounts_away" warn
            "the database of accounts does not answer: nothing can be changed" [why logins];
        /// Accounts can be changed again.
        ACCOUNTS_BACK "accounts_back" info "the database of accounts is there" [];
        /// People log in by what the copy had.
        ACCOUNTS_UNCOPIED "accounts_uncopied" warn "the copy of the accounts was not written"
            [fault];
        /// The tables were empty, and the data folder had accounts.
        ACCOUNTS_FILLED "accounts_filled" info "the database was filled from the data folder"
            [accounts];
        /// It has a name or a number of one of these accounts for another: nothing is filled in.
        ACCOUNTS_NOT_FILLED "accounts_not_filled" warn
            "the database is not filled: it has a name or a number of these accounts for another"
            [accounts first];
        /// How far the first reading is.
        ACCOUNTS_READING "accounts_reading" info "accounts are being read from the database"
            [loaded total];
        /// All accounts are known.
        ACCOUNTS_READ "accounts_read" info "accounts were read from the database" [loaded];
        /// Somebody else writes to the tables.
        ACCOUNT_ROW_IS_NONE "account_row_is_none" warn
            "a row of the database is no account: nobody logs in by it" [name why];
        /// Keys by which tokens are checked were fetched.
        TOKEN_KEYS_FETCHED "token_keys_fetched" debug "keys of tokens were fetched" [url keys];
        /// Who logs in by it is refused as not available.
        ACCESS_SERVICE_AWAY "access_service_away" warn "it does not answer" [what url words];
        /// Logins by it are answered.
        ACCESS_SERVICE_BACK "access_service_back" info "it answers again" [what url];
        /// Rules of access cannot be read, or cannot be kept.
        ACCESS_FAULT "access_fault" warn "a question of access was not answered" [error];
        /// Messages wait in the log. See "MySQL is gone".
        ARCHIVE_AWAY "archive_away" warn "the archive takes no messages: they wait in the log"
            [why];
        /// What waited is being written.
        ARCHIVE_BACK "archive_back" info "the archive takes messages" [];
        /// Messages were older or more than `[store]` keeps for an archive that is away, or
        /// damaged.
        ARCHIVE_LOST "archive_lost" error "messages do not get to the archive" [dropped unread]
            = "archive_lost_total";
        /// See "The hook before sending fails".
        REVIEWS_AWAY "reviews_away" warn
            "the hook before sending fails: it is asked no more for a while" [url error]
            = "chat_reviews_missed_total";
        /// Messages are asked about again.
        REVIEWS_BACK "reviews_back" info "the hook before sending answers again" [url];
        /// A bridge is connected, and crosses messages.
        BRIDGE_UP "bridge_up" info "the bridge is up" [bridge address];
        /// The remote broker, or ours, says that a topic of the bridge is not allowed.
        BRIDGE_REFUSED "bridge_refused" warn "a subscription was refused" [bridge side];
        /// The remote broker does not know bridges: messages that it has from here may come back,
        /// and are found by a mark of their own.
        BRIDGE_UNMARKED "bridge_unmarked" warn
            "the remote broker takes no marked bridge: unmarked" [bridge];
        /// See "A bridge is away".
        BRIDGE_AWAY "bridge_away" warn "the bridge is away" [bridge fault];
        /// The bridge's user may not do here what the bridge is to do.
        BRIDGE_UNWELCOME "bridge_unwelcome" warn "our own broker lets the bridge down"
            [bridge fault];
        /// What it was to take is posted again.
        WEBHOOK_REFUSED "webhook_refused" debug "a webhook did not take a batch" [url error];
        /// They are dead letters. See "A webhook takes nothing".
        WEBHOOK_DROPPED "webhook_dropped" warn "events for a webhook were dropped"
            [url events why];
        /// The log is full or failed: Reports wait where they are.
        WEBHOOK_REPORTS_WAIT "webhook_reports_wait" warn
            "Reports for a webhook wait: the store refuses" [shard url error];
        /// A crash left a half-written file; what was whole in it is kept.
        LETTERS_DAMAGED "letters_damaged" warn
            "dead letters are damaged and were passed over" [path damaged];
        /// They were there at the start. `holdline events redeliver` posts them.
        LETTERS_WAIT "letters_wait" info "dead letters wait for a redelivery" [url letters];
        /// Letters are in the file and not in its index until the next start.
        LETTERS_FILE_REFUSES "letters_file_refuses" warn "the dead letters' file refuses"
            [error];
        /// What webhooks give up is lost. Look at the disk of the data folder.
        LETTERS_UNKEPT "letters_unkept" error "dead letters are not kept" [error]
            = "webhook_dead_letters_total";
        /// What webhooks give up is kept.
        LETTERS_KEPT "letters_kept" info "dead letters are kept again" [];
        /// It takes more room than what is in it.
        LETTERS_UNCUT "letters_uncut" debug
            "the dead letters' file stays as long as it is" [error];
        /// A call about dead letters could not be carried out.
        LETTERS_FAILED "letters_failed" error "the file of dead letters failed" [error url];
        /// See "A push gateway takes nothing".
        GATEWAY_AWAY "gateway_away" warn "the push gateway does not take anything" [url words]
            = "push_gateway_up";
        /// What is owed is told.
        GATEWAY_BACK "gateway_back" info "the push gateway answers again" [url]
            = "push_gateway_up";
        /// It answered 4xx, which gives this notification up.
        GATEWAY_REFUSED "gateway_refused" debug "the push gateway refused a notification"
            [url status] = "push_gateway_refused_total";
        /// Nothing is lost: the next export says all that this one would have.
        COLLECTOR_AWAY "collector_away" warn "the collector does not take metrics" [url why]
            = "otlp_failures_total";
        /// The collector of OpenTelemetry took an export.
        COLLECTOR_BACK "collector_back" info "the collector takes metrics again" [url];
        /// No thread or memory for it: restart.
        API_DOES_NOT_START "api_does_not_start" error "the API's runtime does not start" [error];
        /// Its socket was taken from it: restart.
        API_DOES_NOT_LISTEN "api_does_not_listen" error "the API cannot listen" [error];
        /// At the server's end requests were not done within their limits: they were cut off.
        API_CUT_OFF "api_cut_off" warn
            "requests to the API took longer than their limits allow" [within_ms];
        /// At the server's end somebody did not read what he was sent.
        API_UNREAD "api_unread" warn
            "connections of the API were cut off: nobody read what they were sent" [];
        /// Its socket was taken from it: restart.
        MEDIA_DOOR_SHUT "media_door_shut" error "media is served no longer" [error];
    }
}
