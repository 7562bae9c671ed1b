//! Events of the cluster: who leads, how far the copies of the logs are, and what was lost.

kinds! {
    Cluster {
        /// The node follows: it copies the logs of the leader, and sends clients there.
        NODE_FOLLOWS "node_follows" info "this node follows" [node];
        /// Another node leads by now, or none: new clients are sent to this one.
        LEADER_KNOWN "leader_known" info "the leader of the cluster" [leader addresses];
        /// The node leads: it opens its logs and serves clients.
        NODE_LEADS "node_leads" warn "this node leads from now on" [node];
        /// The node serves clients, and acknowledges what the stream has.
        NODE_SERVES "node_serves" info "this node serves as the leader" [node ms];
        /// The node leads no longer: it closes connections over `limits.take_over_ms`, drops what
        /// it has in memory, and follows. `why`: `deposed` (another node leads), `asked` (by
        /// `holdline cluster promote`), `failed` (its disk).
        NODE_LEAVES "node_leaves" warn "this node leads no longer: connections are closed over \
                                        this time" [node why leader ms];
        /// The leader has reached no majority of the NATS servers for 15 s. Connections stay, and
        /// nothing is acknowledged. If it lasts, look at the NATS servers and at the network.
        NODE_ISOLATED "node_isolated" error
            "no majority of the NATS servers answers: nothing is acknowledged" [node]
            = "cluster_isolated";
        /// The leader reaches a majority of the NATS servers again.
        ISOLATION_ENDED "isolation_ended" info "a majority of the NATS servers answers again"
            [node] = "cluster_isolated";
        /// The log went on without records that had been acknowledged: the stream lost them, and
        /// the only node that had them was away. This node has removed them, to follow the others.
        /// See "Lost after all" in docs/cluster.md.
        ACKNOWLEDGED_LOST "acknowledged_lost" error
            "records that had been acknowledged are not in the log any more" [log first last]
            = "cluster_acknowledged_lost_total";
        /// A stream lost what it had acknowledged, or was removed. The log goes on in a new one,
        /// and nothing is lost. Find out why: `holdline doctor` checks the NATS servers.
        STREAM_FORGOT "stream_forgot" warn
            "a stream lost messages: the log goes on in a new one" [log generation]
            = "cluster_generation";
        /// NATS has no room for the messages of a log: its stream, its account or the disk of a
        /// server is full. New data is refused as if the log were full; what was written already
        /// waits. Make room: more disk, a higher `max_file_store` or limit of the account, or, if
        /// followers are away, start them. It goes on by itself.
        STREAM_FULL "stream_full" error
            "NATS has no room for a log: new data is refused" [log] = "cluster_stream_full";
        /// NATS takes the messages of the log again.
        STREAM_HAS_ROOM "stream_has_room" info "NATS has room for a log again" [log]
            = "cluster_stream_full";
        /// No follower has what the stream was nearly full of; the leader's disk alone has it now.
        /// Start the followers.
        PURGED_BEHIND_ONE_DISK "purged_behind_one_disk" error
            "a stream was nearly full, and its older messages are on this disk alone" [log];
        /// The table of the cluster does not know a log: `holdline cluster recover` makes it anew.
        WAITS_FOR_RECOVER "waits_for_recover" error
            "the table of the cluster is empty: check [cluster] name and nats; if they are right, \
             no node leads before `holdline cluster recover`"
            [log];
        /// A value of the cluster's table cannot be read, or was removed, and this node does not
        /// know it or does not lead. A leader that runs writes it anew; otherwise stop the server
        /// of one node and run `holdline cluster recover` there, which does.
        TABLE_VALUE_DAMAGED "table_value_damaged" error
            "a value of the cluster's table cannot be read: if no node repairs it, run `holdline \
             cluster recover`" [key];
        /// A value of the cluster's table could not be read, or was removed; this node leads and
        /// has written it anew. Find out who changed it.
        TABLE_VALUE_REPAIRED "table_value_repaired" warn
            "a value of the cluster's table could not be read, and is written anew" [key];
        /// The clocks of two nodes differ. Messages with an expiry go by the clock of the node that
        /// leads. Synchronise both clocks (NTP).
        CLOCK_DIFFERS "clock_differs" warn
            "the clock of another node differs from this one's" [node other seconds]
            = "cluster_clock_skew_seconds";
        /// The clocks of two nodes agree again, within 10 s.
        CLOCK_AGREES "clock_agrees" info "the clocks of two nodes agree again" [node other]
            = "cluster_clock_skew_seconds";
        /// This node cannot connect to addresses that another node advertises. Clients are sent
        /// there when that node leads: correct its `[cluster] advertise`, its listeners, or the
        /// firewall between them.
        NODE_UNREACHABLE "node_unreachable" warn
            "this node cannot connect to addresses that another node advertises"
            [node other addresses] = "cluster_unreachable_addresses";
        /// This node can connect to all addresses that the other node advertises.
        NODE_REACHED "node_reached" info
            "this node can connect to all addresses of another node" [node other]
            = "cluster_unreachable_addresses";
        /// An address in `[cluster] advertise` leads to no other machine.
        ADVERTISE_UNUSUAL "advertise_unusual" warn
            "an advertised address leads to no other machine" [why];
        /// A follower begins to copy a whole log from another node, for this reason: it is new, was
        /// away for long, or its own log is damaged.
        LOG_COPIES_ANEW "log_copies_anew" warn "copying a log from another node" [log why];
        /// The copy is complete, and follows.
        LOG_COPIED "log_copied" info "the copy of a log is complete" [log bytes];
        /// NATS answers.
        NATS_CONNECTED "nats_connected" info "connected to NATS" [];
        /// The connection to NATS is lost. It is tried again at once, and then each second.
        NATS_LOST "nats_lost" warn "NATS does not answer" [] = "cluster_connected";
        /// NATS, or a part of it, complains: a permission is missing, JetStream is off, a request
        /// was refused. What waits for it waits on.
        NATS_COMPLAINS "nats_complains" warn "NATS refuses something" [error];
        /// The disk of this node, which follows, is full. It follows again when there is room.
        FOLLOWER_FULL "follower_full" error "the disk is full: a log follows no longer" [log];
        /// The table of the cluster does not know this node: it was removed, or the table is
        /// another one. `holdline cluster join` adds it.
        NOT_A_MEMBER "not_a_member" error
            "this node is not in the cluster: run `holdline cluster join`" [node];
        /// The table under this name belongs to a cluster with another secret, or another number
        /// of logs: `[cluster] name` or `nats` is wrong, or the data folder is.
        OTHER_CLUSTER "other_cluster" error "the cluster under this name is another one" [why];
        /// Another process has this node's number: a copied data folder. The one that reached NATS
        /// first goes on; the other does not lead while it runs. Stop the copy; nothing need be
        /// restarted.
        SAME_NODE_NUMBER "same_node_number" error
            "another process has the number of this node" [node];
        /// The other process with this node's number has been silent for 15 s.
        SAME_NODE_NUMBER_ENDED "same_node_number_ended" info
            "no other process has the number of this node any more" [node];
        /// A new leader could not start, for this reason. The process ends, and another node takes
        /// over.
        LEAD_FAILED "lead_failed" error "this node was to lead, and could not start" [error];
    }
}
