//! Events of the process: start and end, configuration, threads and memory.

kinds! {
    Process {
        /// The configuration is valid, but contains something to check.
        CONFIGURATION_WARNING "configuration_warning" warn "configuration warning" [what];
        /// The file has `[listen.NAME]` sections, which replace all default listeners. Those named
        /// are closed. To keep one, copy its section from the output of `holdline check`.
        DEFAULT_LISTENERS_CLOSED "default_listeners_closed" info "default listeners closed" [what];
        /// `connections_max = 0`: the maximum follows from the limit of file descriptors.
        CONNECTIONS_BY_DESCRIPTORS "connections_by_descriptors" info "connections limited by file \
                                                                      descriptors"
            [connections_max descriptors];
        /// The API changed a product after the configuration was written. The change is in force
        /// until the product's section in the configuration is changed.
        PRODUCT_OF_API "product_of_api" warn
            "the API changed this product after the configuration was written; the change is in \
             force until the product's section is changed" [product];
        /// A product was removed from the configuration. DELETE /v1/products/{key} deletes it with
        /// all its data.
        PRODUCT_UNCONFIGURED "product_unconfigured" warn
            "this product is no longer configured: it is served until the next restart, and its \
             data is kept; DELETE /v1/products/{key} deletes both"
            [product];
        /// A reload, or a start, found an error in the configuration. `holdline check` finds errors
        /// beforehand.
        CONFIGURATION_REFUSED "configuration_refused" error
            "the new configuration is invalid; the old one stays in use" [error];
        /// A reload changed a key.
        KEY_CHANGED "key_changed" info "setting changed" [key old new];
        /// A part of the server could not follow a valid new value, for the reason given: it keeps
        /// the old one.
        CHANGE_FAILED "change_failed" error "this change failed; the old value stays in use"
            [key error];
        /// A condition that needs an operator began. `holdline alarms` lists those that last.
        ALARM_BEGAN "alarm_began" warn "alarm raised" [alarm kind level subject text]
            = "alarms_raised_total";
        /// The condition of an alarm is over.
        ALARM_ENDED "alarm_ended" info "alarm cleared" [alarm kind level subject text];
        /// Past alarms of earlier starts are not listed. The next alarm replaces the file.
        ALARMS_UNREADABLE "alarms_unreadable" warn "the file of alarms cannot be read" [path error];
        /// A restart will forget the newest alarms. Check the disk of the data folder.
        ALARMS_UNKEPT "alarms_unkept" warn "alarms cannot be stored" [path error];
        /// `holdline token reset` replaced the first token of the API.
        TOKEN_RESET "token_reset" warn "the first token of the API was replaced" [];
        /// A key has a new value in the file, which takes effect at the next restart.
        KEY_NEEDS_RESTART "key_needs_restart" warn "this change needs a restart" [key old new];
        /// New connections get the certificates that are in the files now.
        CERTIFICATES_READ "certificates_read" info "certificates reloaded" [listener];
        /// Certificate and key do not belong together, or a file cannot be read.
        CERTIFICATES_REFUSED "certificates_refused" error "certificates not reloaded; the old ones \
                                                           stay in use"
            [listener error];
        /// A certificate, an authority of clients or a list of revoked certificates expires within
        /// 30 days. Logged at the start, after a reload and once a day: renew it and reload.
        CERTIFICATE_EXPIRES "certificate_expires" warn "a certificate expires soon"
            [listener kind file subject days] = "certificate_expiry_timestamp_seconds";
        /// A certificate, an authority of clients or a list of revoked certificates has expired:
        /// clients that check it do not connect. Logged at the start, after a reload and once a
        /// day.
        CERTIFICATE_EXPIRED "certificate_expired" error "a certificate has expired"
            [listener kind file subject days] = "certificate_expiry_timestamp_seconds";
        /// Password files, rules and token keys are in force as they are in the files now.
        ACCESS_READ "access_read" info "users and rules reloaded" [];
        /// A file of users or rules has an error, or cannot be read.
        ACCESS_REFUSED "access_refused" error "users and rules not reloaded; the old ones stay in \
                                               use" [error];
        /// The words of `[chat] words_file` are in force as they are in the file now.
        WORDS_READ "words_read" info "list of forbidden words reloaded" [words];
        /// The file of words has an error, or cannot be read.
        WORDS_REFUSED "words_refused" error "list of forbidden words not reloaded; the old one \
                                             stays in use" [error];
        /// A reload did not reach a busy shard. Reload again.
        RELOAD_UNHEARD "reload_unheard" error "a shard's mailbox is full: reload again" []
            = "mailbox_full_total";
        /// A reload opened a listener.
        LISTENER_OPENED "listener_opened" info "listener opened" [listener address];
        /// A reload closed a listener. Its connections stay until they end.
        LISTENER_CLOSED "listener_closed" info "listener closed; its connections stay"
            [listener address connections];
        /// A shard cannot wait for connections at a listener that a reload opened: memory for it
        /// is short, or `fs.epoll.max_user_watches` is reached. Restart the server.
        LISTENER_UNWATCHED "listener_unwatched" error "a shard cannot accept at a listener"
            [shard listener error];
        /// The drain did not reach a busy shard: its connections are closed abruptly.
        DRAIN_UNHEARD "drain_unheard" error
            "a shard's mailbox is full: it does not drain" [] = "mailbox_full_total";
        /// The level of the log was to be changed to an invalid filter.
        LOG_FILTER_REFUSED "log_filter_refused" error "invalid log filter; the old one stays in \
                                                       use" [error];
        /// The server was told to stop: it closes connections over `limits.drain_ms`.
        DRAINING "draining" info
            "draining: no new connections; the existing ones are closed over this time" [ms];
        /// An operator drains this server, which goes on running: `holdline undrain` ends it.
        DRAIN_BEGUN "drain_begun" warn
            "draining by order: new clients are refused; the existing ones are closed over this \
             time" [ms];
        /// An operator ended the drain.
        DRAIN_ENDED "drain_ended" info "the drain has ended: clients are accepted again" [];
        /// All logs are closed.
        STOPPED "stopped" info "stopped" [];
        /// A thread that was told to stop waits for the presence directory. Other servers see the
        /// last disconnects when the lease has expired.
        STOP_UNTOLD "stop_untold" warn
            "the presence directory did not receive every disconnect in time; the lease expires" [];
        /// The disk, or a request to a push platform, did not finish within the time that a stop
        /// waits for it. Nothing acknowledged is lost.
        STOP_UNLOGGED "stop_unlogged" warn
            "the log or a push platform did not answer in time: the log may miss the last actions \
             of some devices, and a push may be delivered again" [];
        /// A defect: please report it, with the lines before it. The thread's work is not done
        /// until the server restarts.
        THREAD_PANICKED "thread_panicked" error "a thread panicked" [thread];
        /// The kernel chooses the core of the shard's thread.
        THREAD_UNPINNED "thread_unpinned" warn "the shard's thread is not pinned"
            [shard core error];
        /// `memory_max` is in force.
        MEMORY_WATCHED "memory_watched" info "memory limit in force" [memory_max];
        /// Neither the control group nor the kernel says how much memory exists: set `memory_max`.
        MEMORY_UNKNOWN "memory_unknown" warn
            "the amount of memory is unknown: no memory limit" [];
        /// Memory use reached a level of `memory_max`, and the server refuses what `means` says.
        /// See "Memory is low" in docs/operate.md.
        MEMORY_SHORT "memory_short" warn "memory is short" [bytes memory_max level means]
            = "memory_pressure";
        /// Memory use fell below a level: the server refuses less than before.
        MEMORY_EASED "memory_eased" info "memory pressure decreased" [bytes memory_max level means]
            = "memory_pressure";
        /// A listener was removed from the configuration, or has another address.
        SOCKET_UNCLAIMED "socket_unclaimed" warn
            "a kept socket belongs to no listener any more: closed" [name];
        /// The supervisor passed more sockets than the server can have.
        SOCKETS_TOO_MANY "sockets_too_many" warn "too many sockets passed: none is used"
            [count most];
        /// The socket passed under a listener's name is of another kind. Check the unit.
        SOCKET_IS_NONE "socket_is_none" warn
            "the passed file descriptor is not a stream socket" [name];
        /// `NOTIFY_SOCKET` names a socket that cannot be reached.
        SUPERVISOR_UNREACHED "supervisor_unreached" warn
            "the supervisor cannot be reached" [address error];
        /// The supervisor exited, or its queue is full.
        SUPERVISOR_DEAF "supervisor_deaf" warn "the supervisor does not receive messages" [error];
        /// `--take-over` without a running server: an ordinary start.
        NOBODY_TO_SUCCEED "nobody_to_succeed" info
            "no server runs on this data folder: nothing to take over" [];
        /// The socket file for take-overs could not be created: the next upgrade needs a restart.
        SUCCESSION_OFF "succession_off" warn "take-over is disabled for this server"
            [error];
        /// A new server wants to take over, and has not committed itself.
        SUCCESSOR_ASKS "successor_asks" info "a new server asks for the listeners" [pid];
        /// The requesting process runs as another user.
        SUCCESSOR_FOREIGN "successor_foreign" warn
            "a process of another user asked for the listeners: refused" [pid];
        /// The new server found that it cannot serve; its own log says why.
        SUCCESSION_DROPPED "succession_dropped" info
            "take-over cancelled: this server continues" [];
        /// The new server exited during the request.
        SUCCESSION_BROKEN "succession_broken" warn
            "take-over failed: this server continues" [error];
        /// The new server committed itself: this server closes connections over
        /// `limits.take_over_ms`.
        SUCCESSION_BEGINS "succession_begins" info
            "a new server takes over: connections are closed over this time" [pid ms];
        /// The old server's part is complete.
        SUCCESSION_DONE "succession_done" info "the new server serves: stopped" [];
        /// The new server exited after it had committed itself. Its own log says why.
        SUCCESSION_FAILED "succession_failed" error
            "the new server exited before it served: this one serves again" [pid];
        /// The old server accepts connections again at the listeners that it had kept.
        SERVING_AGAIN "serving_again" info "serving again" [];
        /// The old server is closing its connections.
        PREDECESSOR_DRAINS "predecessor_drains" info "the old server closes its connections" [pid];
        /// The old server's part is complete: the new server opens the data folder.
        PREDECESSOR_CLOSED "predecessor_closed" info "the old server has closed its logs" [pid];
        /// The old server takes long. New connections wait in the accept queues of the listeners.
        PREDECESSOR_SLOW "predecessor_slow" warn
            "the old server has not finished: new connections wait. SIGKILL ends it without losing \
             acknowledged data" [pid];
        /// The old server exited or was killed: the data folder is opened as after a crash.
        PREDECESSOR_GONE "predecessor_gone" warn "the old server exited" [pid];
    }
}
