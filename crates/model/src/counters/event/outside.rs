//! Events of external services: directory, databases, hooks, bridges, gateways, collectors, and
//! callers of the API. Each logs once when it becomes unavailable, and once when it is back.

kinds! {
    Outside {
        /// A presence directory is configured. The fields name this server in it.
        DIRECTORY_TOLD "directory_told" info "presence directory in use"
            [node boot kind];
        /// See "Redis is unavailable" in docs/operate.md.
        DIRECTORY_AWAY "directory_away" warn
            "the presence directory is unavailable: changes are queued, nothing else waits"
            [fault unwritten] = "presence_unwritten";
        /// Queued changes are being written.
        DIRECTORY_BACK "directory_back" info
            "the presence directory is available again" [unwritten];
        /// The directory was compared with memory after an interruption.
        DIRECTORY_COMPARED "directory_compared" info
            "the presence directory was compared with memory" [];
        /// Retained presence events of an earlier start, which said online for devices that are
        /// offline now, were corrected.
        EVENTS_RECALLED "events_recalled" info
            "outdated retained presence events corrected" [count];
        /// Redis accepts no events for `events_stream` of `[presence]`.
        STREAM_AWAY "stream_away" warn "the event stream is unavailable: events are queued" [fault]
            = "events_stream_failures_total";
        /// Queued events are being appended.
        STREAM_BACK "stream_back" info "the event stream is available again" [];
        /// The queue of events was full while the stream was unavailable. An entry `gap` in the
        /// stream also says so.
        STREAM_LOST "stream_lost" warn "events for the stream were lost" [events]
            = "events_stream_lost_total";
        /// See "MySQL is unavailable" in docs/operate.md.
        ACCOUNTS_AWAY "accounts_away" warn
            "the accounts database is unavailable: accounts cannot be changed" [why logins];
        /// Accounts can be changed again.
        ACCOUNTS_BACK "accounts_back" info "the accounts database is available" [];
        /// Logins use the copy as it was before.
        ACCOUNTS_UNCOPIED "accounts_uncopied" warn "the local copy of the accounts was not updated"
            [fault];
        /// The tables were empty, and the data folder had accounts.
        ACCOUNTS_FILLED "accounts_filled" info "the accounts database was filled from the data \
                                                folder"
            [accounts];
        /// The database already uses a name or a number of one of these accounts for another
        /// account. Nothing was copied.
        ACCOUNTS_NOT_FILLED "accounts_not_filled" warn
            "the accounts database was not filled: it uses a name or a number of these accounts \
             for another"
            [accounts first];
        /// Progress of the first reading.
        ACCOUNTS_READING "accounts_reading" info "accounts are being read from the database"
            [loaded total];
        /// All accounts are loaded.
        ACCOUNTS_READ "accounts_read" info "accounts were read from the database" [loaded];
        /// Another program writes to the tables.
        ACCOUNT_ROW_IS_NONE "account_row_is_none" warn
            "a row of the accounts database is invalid and ignored" [name why];
        /// Keys that verify tokens were fetched.
        TOKEN_KEYS_FETCHED "token_keys_fetched" debug "token keys fetched" [url keys];
        /// Clients that log in by it are refused: server unavailable.
        ACCESS_SERVICE_AWAY "access_service_away" warn "an access service does not \
                                                        answer" [what url words];
        /// Logins by it are answered again.
        ACCESS_SERVICE_BACK "access_service_back" info "an access service answers again" [what url];
        /// Users of `[access.ldap]` are refused: server unavailable. `reason` is unreachable,
        /// timeout, tls, credentials, nonsense or refused. See "LDAP is unavailable" in
        /// docs/operate.md.
        LDAP_AWAY "ldap_away" warn "the LDAP server is unavailable: its users cannot log in"
            [reason words];
        /// Its users can log in again.
        LDAP_BACK "ldap_back" info "the LDAP server is available again" [];
        /// A user's entry cannot be used: the filter matches several (`reason` ambiguous), or the
        /// entry has no name (unnamed). The user is refused: server unavailable. `more` others were
        /// refused like this since the last such line.
        LDAP_ENTRY_UNUSABLE "ldap_entry_unusable" warn "an LDAP entry cannot be used"
            [reason words more];
        /// Access rules cannot be read or stored.
        ACCESS_FAULT "access_fault" warn "an access decision failed" [error];
        /// Messages are queued in the log. See "MySQL is unavailable" in docs/operate.md.
        ARCHIVE_AWAY "archive_away" warn "the archive is unavailable: messages are queued in the \
                                          log"
            [why];
        /// Queued messages are being written.
        ARCHIVE_BACK "archive_back" info "the archive is available again" [];
        /// Messages exceeded the age or number that `[store]` keeps for an unavailable archive, or
        /// were damaged.
        ARCHIVE_LOST "archive_lost" error "messages for the archive were lost" [dropped unread]
            = "archive_lost_total";
        /// See "The before-send hook fails" in docs/operate.md.
        REVIEWS_AWAY "reviews_away" warn
            "the before-send hook fails: it is not called for a while" [url error]
            = "chat_reviews_missed_total";
        /// Messages are submitted to the hook again.
        REVIEWS_BACK "reviews_back" info "the before-send hook answers again" [url];
        /// A bridge is connected and forwards messages.
        BRIDGE_UP "bridge_up" info "the bridge is up" [bridge address];
        /// The remote broker or this server refused a topic of the bridge.
        BRIDGE_REFUSED "bridge_refused" warn "a bridge's subscription was refused" [bridge side];
        /// The remote broker does not recognize bridges: it may send messages from here back, which
        /// the bridge then detects by a mark of its own.
        BRIDGE_UNMARKED "bridge_unmarked" warn
            "the remote broker refuses bridge connections: connected as an ordinary \
             client" [bridge];
        /// See "A bridge is down" in docs/operate.md.
        BRIDGE_AWAY "bridge_away" warn "the bridge is down" [bridge fault];
        /// The bridge's user lacks permissions on this server.
        BRIDGE_UNWELCOME "bridge_unwelcome" warn "this server refuses the bridge"
            [bridge fault];
        /// The batch is posted again.
        WEBHOOK_REFUSED "webhook_refused" debug "a webhook did not accept a batch" [url error];
        /// The events are stored as dead letters. See "A webhook fails" in docs/operate.md.
        WEBHOOK_DROPPED "webhook_dropped" warn "events for a webhook were dropped"
            [url events why];
        /// The log is full or failed: Reports stay queued.
        WEBHOOK_REPORTS_WAIT "webhook_reports_wait" warn
            "Reports for a webhook stay queued: the store refuses writes" [shard url error];
        /// A crash left an incomplete file; its intact dead letters are kept.
        LETTERS_DAMAGED "letters_damaged" warn
            "damaged dead letters were skipped" [path damaged];
        /// Dead letters were found at the start. `holdline webhook redeliver` posts them.
        LETTERS_WAIT "letters_wait" info "stored dead letters found" [url letters];
        /// Dead letters are in the file, but not in its index until the next start.
        LETTERS_FILE_REFUSES "letters_file_refuses" warn "the file of dead letters cannot be \
                                                          written"
            [error];
        /// Events that webhooks did not accept are lost. Check the disk of the data folder.
        LETTERS_UNKEPT "letters_unkept" error "dead letters cannot be stored" [error]
            = "webhook_dead_letters_total";
        /// Events that webhooks did not accept are stored again.
        LETTERS_KEPT "letters_kept" info "dead letters are stored again" [];
        /// The file occupies more space than its contents need.
        LETTERS_UNCUT "letters_uncut" debug
            "the file of dead letters cannot be shortened" [error];
        /// A call about dead letters failed.
        LETTERS_FAILED "letters_failed" error "the file of dead letters failed" [error url];
        /// See "A push gateway fails" in docs/operate.md.
        GATEWAY_AWAY "gateway_away" warn "the push gateway is unavailable" [url words]
            = "push_gateway_up";
        /// Pending notifications are being sent.
        GATEWAY_BACK "gateway_back" info "the push gateway answers again" [url]
            = "push_gateway_up";
        /// The gateway answered 4xx; the notification is dropped.
        GATEWAY_REFUSED "gateway_refused" debug "the push gateway refused a notification"
            [url status] = "push_gateway_refused_total";
        /// See "A push platform fails" in docs/operate.md.
        PLATFORM_AWAY "platform_away" warn "a push platform does not accept pushes"
            [platform words];
        /// Pending pushes are being sent.
        PLATFORM_BACK "platform_back" info "a push platform accepts pushes again" [platform];
        /// The key, certificate or account of the platform is refused: replace it. An alarm
        /// `platform_denied` is active until a push is accepted.
        PLATFORM_DENIED "platform_denied" error "a push platform refuses our credentials"
            [platform words];
        /// The platform refused a push for good, or our credentials for one device. The device
        /// gets the push when it connects.
        PLATFORM_REFUSED "platform_refused" debug "a push platform refused a push"
            [platform words];
        /// Nothing is lost: the next export contains the same totals.
        COLLECTOR_AWAY "collector_away" warn "the collector does not accept metrics" [url why]
            = "otlp_failures_total";
        /// The OpenTelemetry collector accepted an export.
        COLLECTOR_BACK "collector_back" info "the collector accepts metrics again" [url];
        /// The API has no thread or memory: restart.
        API_DOES_NOT_START "api_does_not_start" error "the API's runtime does not start" [error];
        /// The API lost its socket: restart.
        API_DOES_NOT_LISTEN "api_does_not_listen" error "the API cannot listen" [error];
        /// Requests were not finished within their time limits when the server stopped: they were
        /// aborted.
        API_CUT_OFF "api_cut_off" warn
            "API requests exceeded their time limits and were aborted" [within_ms];
        /// Callers did not read their responses while the server stopped.
        API_UNREAD "api_unread" warn
            "API connections were aborted: their callers did not read" [];
        /// Media lost its socket: restart.
        MEDIA_DOOR_SHUT "media_door_shut" error "media is no longer served" [error];
    }
}
