//! The example file that Debian ships with mosquitto 2.0, without its prose.

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
