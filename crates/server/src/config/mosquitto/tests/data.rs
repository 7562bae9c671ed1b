//! What mosquitto knows, to hold the table against: the names of its options, and the lines of the
//! example file that Debian ships with 2.0, without its prose.

/// Options that mosquitto.conf(5) of 2.0.11 describes.
pub(super) const OPTIONS_OF_2_0: &[&str] = &[
    "acl_file",
    "address",
    "addresses",
    "allow_anonymous",
    "allow_duplicate_messages",
    "allow_zero_length_clientid",
    "auth_opt_*",
    "auth_plugin",
    "auth_plugin_deny_special_chars",
    "auto_id_prefix",
    "autosave_interval",
    "autosave_on_changes",
    "bind_address",
    "bind_interface",
    "bridge_alpn",
    "bridge_attempt_unsubscribe",
    "bridge_bind_address",
    "bridge_cafile",
    "bridge_capath",
    "bridge_certfile",
    "bridge_identity",
    "bridge_insecure",
    "bridge_keyfile",
    "bridge_max_packet_size",
    "bridge_outgoing_retain",
    "bridge_protocol_version",
    "bridge_psk",
    "bridge_require_ocsp",
    "bridge_tls_version",
    "cafile",
    "capath",
    "certfile",
    "check_retain_source",
    "ciphers",
    "ciphers_tls1.3",
    "cleansession",
    "clientid_prefixes",
    "connection",
    "connection_messages",
    "crlfile",
    "dhparamfile",
    "http_dir",
    "idle_timeout",
    "include_dir",
    "keepalive_interval",
    "keyfile",
    "listener",
    "local_cleansession",
    "local_clientid",
    "local_password",
    "local_username",
    "log_dest",
    "log_facility",
    "log_timestamp",
    "log_timestamp_format",
    "log_type",
    "max_connections",
    "max_inflight_bytes",
    "max_inflight_messages",
    "max_keepalive",
    "max_packet_size",
    "max_qos",
    "max_queued_bytes",
    "max_queued_messages",
    "max_topic_alias",
    "memory_limit",
    "message_size_limit",
    "mount_point",
    "notification_topic",
    "notifications",
    "notifications_local_only",
    "password_file",
    "per_listener_settings",
    "persistence",
    "persistence_file",
    "persistence_location",
    "persistent_client_expiration",
    "pid_file",
    "port",
    "protocol",
    "psk_file",
    "psk_hint",
    "queue_qos0_messages",
    "remote_clientid",
    "remote_password",
    "remote_username",
    "require_certificate",
    "restart_timeout",
    "retain_available",
    "round_robin",
    "set_tcp_nodelay",
    "socket_domain",
    "start_type",
    "sys_interval",
    "threshold",
    "tls_engine",
    "tls_engine_kpass_sha1",
    "tls_keyform",
    "tls_version",
    "topic",
    "try_private",
    "upgrade_outgoing_qos",
    "use_identity_as_username",
    "use_subject_as_username",
    "use_username_as_clientid",
    "user",
    "websockets_headers_size",
    "websockets_log_level",
];

/// Options that 2.1 reads.
pub(super) const OPTIONS_OF_2_1: &[&str] = &[
    "accept_protocol_versions",
    "acl_file",
    "address",
    "addresses",
    "allow_anonymous",
    "allow_duplicate_messages",
    "allow_zero_length_clientid",
    "auth_opt_*",
    "auth_plugin",
    "auth_plugin_deny_special_chars",
    "auto_id_prefix",
    "autosave_interval",
    "autosave_on_changes",
    "bind_address",
    "bind_interface",
    "bridge_alpn",
    "bridge_attempt_unsubscribe",
    "bridge_bind_address",
    "bridge_cafile",
    "bridge_capath",
    "bridge_certfile",
    "bridge_ciphers",
    "bridge_ciphers_tls1.3",
    "bridge_identity",
    "bridge_insecure",
    "bridge_keyfile",
    "bridge_max_packet_size",
    "bridge_max_topic_alias",
    "bridge_outgoing_retain",
    "bridge_protocol_version",
    "bridge_psk",
    "bridge_receive_maximum",
    "bridge_reload_type",
    "bridge_require_ocsp",
    "bridge_session_expiry_interval",
    "bridge_tcp_keepalive",
    "bridge_tcp_user_timeout",
    "bridge_tls_use_os_certs",
    "bridge_tls_version",
    "cafile",
    "capath",
    "certfile",
    "check_retain_source",
    "ciphers",
    "ciphers_tls1.3",
    "cleansession",
    "clientid",
    "clientid_prefixes",
    "connection",
    "connection_messages",
    "crlfile",
    "dhparamfile",
    "disable_client_cert_date_checks",
    "enable_control_api",
    "enable_proxy_protocol",
    "global_max_clients",
    "global_max_connections",
    "global_plugin",
    "http_dir",
    "idle_timeout",
    "include_dir",
    "keepalive_interval",
    "keyfile",
    "listener",
    "listener_allow_anonymous",
    "listener_auto_id_prefix",
    "local_cleansession",
    "local_clientid",
    "local_password",
    "local_username",
    "log_dest",
    "log_facility",
    "log_timestamp",
    "log_timestamp_format",
    "log_type",
    "max_connections",
    "max_inflight_bytes",
    "max_inflight_messages",
    "max_keepalive",
    "max_packet_size",
    "max_qos",
    "max_queued_bytes",
    "max_queued_messages",
    "max_topic_alias",
    "max_topic_alias_broker",
    "maximum_qos",
    "memory_limit",
    "message_size_limit",
    "mount_point",
    "notification_topic",
    "notifications",
    "notifications_local_only",
    "packet_buffer_size",
    "password",
    "password_file",
    "per_listener_settings",
    "persistence",
    "persistence_file",
    "persistence_location",
    "persistent_client_expiration",
    "pid_file",
    "plugin",
    "plugin_load",
    "plugin_opt_*",
    "plugin_use",
    "port",
    "protocol",
    "proxy_protocol_v2_require_tls",
    "psk_file",
    "psk_hint",
    "queue_qos0_messages",
    "remote_clientid",
    "remote_password",
    "remote_username",
    "require_certificate",
    "restart_timeout",
    "retain_available",
    "retain_expiry_interval",
    "retained_persistence",
    "retry_interval",
    "round_robin",
    "set_tcp_nodelay",
    "socket_domain",
    "start_type",
    "sys_interval",
    "threshold",
    "tls_engine",
    "tls_engine_kpass_sha1",
    "tls_keyform",
    "tls_version",
    "topic",
    "try_private",
    "upgrade_outgoing_qos",
    "use_identity_as_username",
    "use_subject_as_username",
    "use_username_as_clientid",
    "user",
    "username",
    "websockets_headers_size",
    "websockets_log_level",
    "websockets_origin",
];

/// Every option of the example, as it stands there: commented out, with its default.
pub(super) const DEBIAN_EXAMPLE: &str = r###"#
#per_listener_settings false
#
#allow_zero_length_clientid true
#
#auto_id_prefix auto-
#
#check_retain_source true
#
#max_inflight_bytes 0
#
#max_inflight_messages 20
#
#max_keepalive 65535
#
#max_packet_size 0
#
#max_queued_bytes 0
#
#max_qos 2
#
#max_queued_messages 1000
#
#memory_limit 0
#
#message_size_limit 0
#
#persistent_client_expiration
#
#pid_file
#
#queue_qos0_messages false
#
#retain_available true
#
#set_tcp_nodelay false
#
#sys_interval 10
#
#upgrade_outgoing_qos false
#
#user mosquitto
#
#listener
#
#socket_domain
#
#bind_interface
#
#http_dir
#
#max_connections -1
#
#mount_point
#
#protocol mqtt
#
#use_username_as_clientid
#
#websockets_headers_size
#
#certfile
#
#keyfile
#
#ciphers
#
#ciphers_tls1.3
#
#crlfile
#
#dhparamfile
#
#require_certificate false
#
#cafile
#capath
#
#use_identity_as_username false
#
#psk_hint
#
#ciphers
#
#use_identity_as_username false
#
#autosave_interval 1800
#
#autosave_on_changes false
#
#persistence false
#
#persistence_file mosquitto.db
#
#persistence_location
#
#log_dest stderr
#
#log_type error
#log_type warning
#log_type notice
#log_type information
#
#connection_messages true
#
#log_facility
#
#log_timestamp true
#
#log_timestamp_format
#
#websockets_log_level 0
#
#clientid_prefixes
#
#allow_anonymous false
#
#password_file
#
#psk_file
#
#acl_file
#
#auth_plugin
#
#connection <name>
#address <host>[:<port>] [<host>[:<port>]]
#topic <topic> [[[out | in | both] qos-level] local-prefix remote-prefix]
#
#bridge_bind_address
#
#bridge_attempt_unsubscribe true
#
#bridge_protocol_version mqttv311
#
#cleansession false
#
#idle_timeout 60
#
#keepalive_interval 60
#
#local_clientid
#
#notifications true
#
#notification_topic
#
#remote_clientid
#
#remote_password
#
#remote_username
#
#restart_timeout 5 30
#
#round_robin false
#
#start_type automatic
#
#threshold 10
#
#try_private true
#
#bridge_outgoing_retain true
#
#bridge_max_packet_size 0
#
#bridge_cafile
#bridge_capath
#
#bridge_alpn
#
#bridge_insecure false
#
#bridge_certfile
#
#bridge_keyfile
#
#bridge_identity
#bridge_psk
#
#include_dir
"###;
