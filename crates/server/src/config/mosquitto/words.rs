//! The names of Holdline's keys that a translation uses, in one place.
//!
//! A test parses what is written with them, so a key that is renamed is found here.

/// Sections.
pub(super) const SERVER: &str = "server";
pub(super) const LIMITS: &str = "limits";
pub(super) const MQTT: &str = "mqtt";
pub(super) const ACCESS: &str = "access";

/// Keys of a listener.
pub(super) mod listen {
    pub(in super::super) const ADDRESS: &str = "address";
    pub(in super::super) const ENABLED: &str = "enabled";
    pub(in super::super) const PROTOCOL: &str = "protocol";
    pub(in super::super) const TLS: &str = "tls";
    pub(in super::super) const WEB_SOCKET: &str = "websocket";
    pub(in super::super) const PROXY: &str = "proxy";
    pub(in super::super) const PROXY_FROM: &str = "proxy_from";
    pub(in super::super) const CLIENT_CERTIFICATES: &str = "client_certificates";
    pub(in super::super) const CERTIFICATE: &str = "certificate";
    pub(in super::super) const KEY: &str = "key";
    pub(in super::super) const CLIENT_CA: &str = "client_ca";
    pub(in super::super) const REVOKED: &str = "revoked";
    pub(in super::super) const TLS_MIN: &str = "tls_min";
    pub(in super::super) const IDENTITY: &str = "identity";
    pub(in super::super) const ANONYMOUS: &str = "anonymous";
    pub(in super::super) const METHODS: &str = "methods";
    pub(in super::super) const BELIEVE_NAMES: &str = "believe_names";
    pub(in super::super) const ORIGINS: &str = "websocket_origins";
    pub(in super::super) const CONNECTIONS_MAX: &str = "connections_max";
}

/// Any path of WebSockets, as with mosquitto.
pub(super) const ANY_PATH: &str = "*";

/// Keys of a bridge.
pub(super) mod bridge {
    pub(in super::super) const ADDRESSES: &str = "addresses";
    pub(in super::super) const TOPICS: &str = "topics";
    pub(in super::super) const ROUND_ROBIN: &str = "round_robin";
    pub(in super::super) const CLIENT_ID: &str = "client_id";
    pub(in super::super) const USER: &str = "user";
    pub(in super::super) const PASSWORD: &str = "password";
    pub(in super::super) const CLEAN: &str = "clean";
    pub(in super::super) const KEEP_ALIVE: &str = "keep_alive_s";
    pub(in super::super) const PROTOCOL: &str = "protocol";
    pub(in super::super) const TRY_PRIVATE: &str = "try_private";
    pub(in super::super) const RESTART_MIN: &str = "restart_s_min";
    pub(in super::super) const RESTART_MAX: &str = "restart_s_max";
    pub(in super::super) const NOTIFICATIONS: &str = "notifications";
    pub(in super::super) const LOCAL_ONLY: &str = "notifications_local_only";
    pub(in super::super) const NOTIFICATION_TOPIC: &str = "notification_topic";
    pub(in super::super) const LOCAL_CLIENT_ID: &str = "local_client_id";
    pub(in super::super) const CA: &str = "ca";
    pub(in super::super) const CERTIFICATE: &str = "certificate";
    pub(in super::super) const KEY: &str = "key";
    pub(in super::super) const INSECURE: &str = "insecure";
    pub(in super::super) const OUTGOING_RETAIN: &str = "outgoing_retain";
}
