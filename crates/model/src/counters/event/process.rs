//! What the process says of its start and end, its configuration, its threads and its memory.

kinds! {
    Process {
        /// The configuration can be used, and has something to look at.
        CONFIGURATION_WARNING "configuration_warning" warn "look at the configuration" [what];
        /// `connections_max = 0`: as many as the limit of descriptors allows.
        CONNECTIONS_BY_DESCRIPTORS "connections_by_descriptors" info "as many as there can be"
            [connections_max descriptors];
        /// A product was changed by the API after the configuration was written. That holds until
        /// its section in the configuration is changed.
        PRODUCT_OF_API "product_of_api" warn
            "the API changed it after the configuration was written: that holds until its section \
             in the configuration is changed" [product];
        /// A product is gone from the configuration. DELETE /v1/products/{key} drops it with all
        /// it has.
        PRODUCT_UNCONFIGURED "product_unconfigured" warn
            "it is not configured any more: it is served until the server is started again, and \
             what is stored for it stays; DELETE /v1/products/{key} drops it with all it has"
            [product];
        /// A reload, or a start, with a configuration that has a mistake. `holdline check` tells it
        /// before.
        CONFIGURATION_REFUSED "configuration_refused" error
            "the new configuration is refused, the old one stays" [error];
        /// A key has another value from now on.
        KEY_CHANGED "key_changed" info "changed" [key old new];
        /// A key has another value in the file, which counts after a restart.
        KEY_NEEDS_RESTART "key_needs_restart" warn "this change needs a restart" [key old new];
        /// New connections get the certificates that are in the files now.
        CERTIFICATES_READ "certificates_read" info "certificates were read again" [listener];
        /// The files of certificate and key do not belong together, or cannot be read.
        CERTIFICATES_REFUSED "certificates_refused" error "the old ones stay in use"
            [listener error];
        /// Password files, rules and keys of tokens count as they are in the files now.
        ACCESS_READ "access_read" info "users and rules were read again" [];
        /// A file of users or rules has a mistake, or cannot be read.
        ACCESS_REFUSED "access_refused" error "the old users and rules stay in use" [error];
        /// The words of `[chat] words_file` count as they are in the file now.
        WORDS_READ "words_read" info "words that may not be said were read again" [words];
        /// The file of words has a mistake, or cannot be read.
        WORDS_REFUSED "words_refused" error "the old words stay in use" [error];
        /// A reload did not reach a shard, which has too much to do: reload again.
        RELOAD_UNHEARD "reload_unheard" error "a shard's mailbox is full: reload again" []
            = "mailbox_full_total";
        /// A shard had too much to do to be told that the server ends: its connections are cut off.
        DRAIN_UNHEARD "drain_unheard" error
            "a shard's mailbox is full: it was not told to drain" [] = "mailbox_full_total";
        /// The level of the log was to be changed by a filter that is none.
        LOG_FILTER_REFUSED "log_filter_refused" error "the log's filter is what it was" [error];
        /// The server was told to stop: connections are let go over `limits.drain_ms`.
        DRAINING "draining" info
            "draining: no new connections, the others are let go over this time" [ms];
        /// All logs are closed.
        STOPPED "stopped" info "stopped" [];
        /// A thread that was told to stop waits for the directory of presence; other servers see
        /// the last ends when the lease is over.
        STOP_UNTOLD "stop_untold" warn
            "the directory of presence was not told of every end in time: the lease ends" [];
        /// The disk is slower than `limits.stop_ms_max`. Nothing acknowledged is lost.
        STOP_UNLOGGED "stop_unlogged" warn
            "the log did not answer in time: what some devices did last may not be in it, and a \
             push may come again" [];
        /// A defect: please report it, with the lines before it. What the thread did is not done
        /// any more until a restart.
        THREAD_PANICKED "thread_panicked" error "a thread panicked" [thread];
        /// The shard's thread runs where the kernel puts it.
        THREAD_UNPINNED "thread_unpinned" warn "the shard's thread is not pinned"
            [shard core error];
        /// `memory_max` is in force.
        MEMORY_WATCHED "memory_watched" info "memory is watched" [memory_max];
        /// Neither the container nor the kernel says how much memory there is: set `memory_max`.
        MEMORY_UNKNOWN "memory_unknown" warn
            "how much memory there is cannot be read: it is not watched" [];
        /// A share of `memory_max` is reached, and something is refused: `means` says what. See
        /// "Memory is short".
        MEMORY_SHORT "memory_short" warn "memory is short" [bytes memory_max level means]
            = "memory_pressure";
        /// Less is refused than before.
        MEMORY_EASED "memory_eased" info "there is more memory" [bytes memory_max level means]
            = "memory_pressure";
        /// A listener was taken out of the configuration, or has another address.
        SOCKET_UNCLAIMED "socket_unclaimed" warn
            "a socket that was kept is no listener's any more: it is closed" [name];
        /// The supervisor handed over more sockets than there can be.
        SOCKETS_TOO_MANY "sockets_too_many" warn "too many sockets: none is taken over"
            [count most];
        /// Something of another kind was handed over under a listener's name: look at the unit.
        SOCKET_IS_NONE "socket_is_none" warn
            "what was handed over is no socket of a stream" [name];
        /// `NOTIFY_SOCKET` names a socket that cannot be reached.
        SUPERVISOR_UNREACHED "supervisor_unreached" warn
            "the supervisor cannot be told anything" [address error];
        /// The supervisor left, or its queue is full.
        SUPERVISOR_DEAF "supervisor_deaf" warn "the supervisor does not listen" [error];
        /// `--take-over` where nobody serves: an ordinary start.
        NOBODY_TO_SUCCEED "nobody_to_succeed" info
            "no server runs on this data folder: there is no place to take over" [];
        /// The socket file for a take-over could not be made: the next upgrade needs a restart.
        SUCCESSION_OFF "succession_off" warn "no other server can take over from this one"
            [error];
        /// A new server wants to take over, and has not committed itself.
        SUCCESSOR_ASKS "successor_asks" info "a new server asks for the listeners" [pid];
        /// Who asked runs as another user.
        SUCCESSOR_FOREIGN "successor_foreign" warn
            "a process of another user asked for the listeners: refused" [pid];
        /// The new server saw that it could not serve, and says why itself.
        SUCCESSION_DROPPED "succession_dropped" info
            "nothing came of a take-over: this server serves on" [];
        /// The new server ended while it was asking.
        SUCCESSION_BROKEN "succession_broken" warn
            "a take-over broke off: this server serves on" [error];
        /// The new server committed itself: connections are let go over `limits.take_over_ms`.
        SUCCESSION_BEGINS "succession_begins" info
            "a new server takes over: the connections are let go over this time" [pid ms];
        /// The old server's part is over.
        SUCCESSION_DONE "succession_done" info "the new server serves: stopped" [];
        /// The new server ended after it had committed itself. Its own log says why.
        SUCCESSION_FAILED "succession_failed" error
            "the new server ended before it served: this one serves again" [pid];
        /// The old server is back at the listeners that it had kept.
        SERVING_AGAIN "serving_again" info "serving again" [];
        /// The old server is letting go its clients.
        PREDECESSOR_DRAINS "predecessor_drains" info "the old server lets its clients go" [pid];
        /// The old server's part is over: the data folder is opened.
        PREDECESSOR_CLOSED "predecessor_closed" info "the old server has closed its logs" [pid];
        /// The old server takes its time: who calls waits in the queues of the listeners.
        PREDECESSOR_SLOW "predecessor_slow" warn
            "the old server is not done yet: who calls waits. SIGKILL ends it and loses nothing \
             that was acknowledged" [pid];
        /// The old server ended by itself or was killed: the folder is opened as after a crash.
        PREDECESSOR_GONE "predecessor_gone" warn "the old server is gone" [pid];
    }
}
