//! What connections do, as the log hears of it: nothing above `debug` for each of them, and who
//! was turned away at a bounded rate.

kinds! {
    Connections {
        /// A connection was taken from a listener.
        CONNECTION_CAME "connection_came" debug "a connection came"
            [shard conn peer] = "connections_accepted_total";
        /// TLS and WebSocket are open, and the first bytes said which protocol it speaks.
        PROTOCOL_BEGAN "protocol_began" debug "its protocol begins" [shard conn proto peer];
        /// A connection is over. Reasons are those of the metric, explained in the console.
        CONNECTION_ENDED "connection_ended" debug "the connection ended"
            [shard conn proto peer reason] = "connections_closed_total";
        /// A MIOP device sent its Bind and waits for the answer.
        DEVICE_ASKS "device_asks" debug "it asks to be let in" [shard conn product device];
        /// A login was refused, a limit was reached, or a reader was too slow. Of each reason the
        /// first is told, with whose it was and from where.
        CLIENT_TURNED_AWAY "client_turned_away" warn "a client was turned away"
            [shard reason client peer] = "connections_closed_total";
        /// So many more were turned away for this reason in the ten seconds after the one that was
        /// told.
        MORE_TURNED_AWAY "more_turned_away" warn "... and more of them in 10 s"
            [shard reason count] = "connections_closed_total";
        /// TLS of somebody who called did not come about, or broke. Of each reason the first is
        /// told, with its address; others in ten seconds are counted by `more_turned_away`.
        TLS_FAILED "tls_failed" warn "TLS with a client failed"
            [shard listener reason peer] = "connections_closed_total";
        /// A stream to another server of XMPP is open.
        FOREIGN_STREAM_OPEN "foreign_stream_open" debug "a stream to another server" [peer];
        /// A stream to or from another server of XMPP is over.
        FOREIGN_STREAM_OVER "foreign_stream_over" debug "a stream is over" [peer reason];
        /// No address of another domain answered, or what answered could not show that it is that
        /// domain. Who said something to it is told.
        FOREIGN_UNREACHED "foreign_unreached" debug "another server was not reached"
            [peer reason];
        /// A component of XMPP has logged in.
        COMPONENT_CAME "component_came" info "a component is there" [peer];
        /// A connection that was handed over for an upload or download could not be served.
        MEDIA_CONNECTION_LOST "media_connection_lost" debug "a connection for media is none"
            [error];
    }
}
