//! Events of connections in the log: single connections at `debug` only, refused clients at a
//! bounded rate.

kinds! {
    Connections {
        /// A listener accepted a connection.
        CONNECTION_CAME "connection_came" debug "connection accepted"
            [shard conn peer] = "connections_accepted_total";
        /// TLS and WebSocket are established, and the first bytes show which protocol the
        /// connection speaks.
        PROTOCOL_BEGAN "protocol_began" debug "protocol detected" [shard conn proto peer];
        /// A connection ended. The reasons are those of the metric; the console explains them.
        CONNECTION_ENDED "connection_ended" debug "connection ended"
            [shard conn proto peer reason] = "connections_closed_total";
        /// A MIOP device sent its Bind and waits for the answer.
        DEVICE_ASKS "device_asks" debug "device requests a bind" [shard conn product device];
        /// A login was refused, a limit was reached, or a reader was too slow. The first client of
        /// each reason is logged, with its name and address.
        CLIENT_TURNED_AWAY "client_turned_away" warn "a client was turned away"
            [shard reason client peer] = "connections_closed_total";
        /// Number of further clients refused for this reason in the ten seconds after the one that
        /// was logged.
        MORE_TURNED_AWAY "more_turned_away" warn "... and more of them in 10 s"
            [shard reason count] = "connections_closed_total";
        /// A TLS handshake with a client failed, or its TLS connection broke. The first one of each
        /// reason is logged, with its address; `more_turned_away` counts the others in the next ten
        /// seconds.
        TLS_FAILED "tls_failed" warn "TLS with a client failed"
            [shard listener reason peer] = "connections_closed_total";
        /// A login failed: its name, password, token or proof was wrong. Made for `fail2ban`, see
        /// docs/security.md: its words and the field `address` stay as they are. At most
        /// `bans.login_lines_per_s` a second.
        LOGIN_FAILED "login_failed" info "login failed" [address proto user client];
        /// An operator banned an address, a client or a user.
        BAN_ADDED "ban_added" info "banned" [kind subject by until_s ended note];
        /// A rule of `[bans]` banned an address or a client. `holdline ban remove` lifts it.
        BANNED_BY_RULE "banned_by_rule" warn "banned by a rule" [kind subject cause until_s];
        /// Number of further bans by rules in the last ten seconds: `holdline ban list` shows them.
        MORE_BANNED "more_banned" warn "... and more were banned by rules" [count];
        /// A ban was lifted.
        BAN_REMOVED "ban_removed" info "a ban was lifted" [kind subject by];
        /// The list has `bans.max` bans: bans by rules are not added.
        BANS_FULL "bans_full" warn "the list of bans is full" [count];
        /// A stored ban cannot be read, and is not in force.
        BAN_UNREADABLE "ban_unreadable" error "a stored ban cannot be read" [kind subject];
        /// A client reads more slowly than messages arrive for it, or not at all. The first one is
        /// logged, with the bytes that wait for it; `more_slow_clients` counts the others in the
        /// next ten seconds. `GET /v1/slow_clients` lists them.
        CLIENT_SLOW "client_slow" warn "a client does not keep up"
            [shard client user peer queue_bytes socket_bytes bytes_per_s dropped]
            = "slow_clients";
        /// Number of further clients that fell behind in the ten seconds after the one that was
        /// logged.
        MORE_SLOW_CLIENTS "more_slow_clients" warn "... and more of them in 10 s" [shard count]
            = "slow_clients";
        /// No client of this shard is slow any more.
        CLIENTS_KEEP_UP "clients_keep_up" info "all clients keep up again" [shard]
            = "slow_clients";
        /// A stream to another XMPP server is established.
        FOREIGN_STREAM_OPEN "foreign_stream_open" debug "stream to another server \
                                                         established" [peer];
        /// A stream to or from another XMPP server ended.
        FOREIGN_STREAM_OVER "foreign_stream_over" debug "stream ended" [peer reason];
        /// No address of another domain answered, or the answering server could not prove that it
        /// is that domain. Senders of stanzas to it get an error.
        FOREIGN_UNREACHED "foreign_unreached" debug "another server was not reached"
            [peer reason];
        /// An XMPP component has logged in.
        COMPONENT_CAME "component_came" info "component connected" [peer];
        /// A connection for an upload or download could not be served.
        MEDIA_CONNECTION_LOST "media_connection_lost" debug "a media connection could not be served"
            [error];
    }
}
