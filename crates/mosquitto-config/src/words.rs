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
    pub(crate) const ADDRESS: &str = "address";
    pub(crate) const ENABLED: &str = "enabled";
    pub(crate) const PROTOCOL: &str = "protocol";
    pub(crate) const TLS: &str = "tls";
    pub(crate) const WEB_SOCKET: &str = "websocket";
    pub(crate) const PROXY: &str = "proxy";
    pub(crate) const PROXY_FROM: &str = "proxy_from";
    pub(crate) const CLIENT_CERTIFICATES: &str = "client_certificates";
    pub(crate) const CERTIFICATE: &str = "certificate";
    pub(crate) const KEY: &str = "key";
    pub(crate) const CLIENT_CA: &str = "client_ca";
    pub(crate) const REVOKED: &str = "revoked";
    pub(crate) const TLS_MIN: &str = "tls_min";
    pub(crate) const IDENTITY: &str = "identity";
    pub(crate) const ANONYMOUS: &str = "anonymous";
    pub(crate) const METHODS: &str = "methods";
    pub(crate) const BELIEVE_NAMES: &str = "believe_names";
    pub(crate) const ORIGINS: &str = "websocket_origins";
    pub(crate) const CONNECTIONS_MAX: &str = "connections_max";
}

/// Any path of WebSockets, as with mosquitto.
pub(super) const ANY_PATH: &str = "*";

/// Keys of a bridge.
pub(super) mod bridge {
    pub(crate) const ADDRESSES: &str = "addresses";
    pub(crate) const TOPICS: &str = "topics";
    pub(crate) const ROUND_ROBIN: &str = "round_robin";
    pub(crate) const CLIENT_ID: &str = "client_id";
    pub(crate) const USER: &str = "user";
    pub(crate) const PASSWORD: &str = "password";
    pub(crate) const CLEAN: &str = "clean";
    pub(crate) const KEEP_ALIVE: &str = "keep_alive_s";
    pub(crate) const PROTOCOL: &str = "protocol";
    pub(crate) const TRY_PRIVATE: &str = "try_private";
    pub(crate) const RESTART_MIN: &str = "restart_s_min";
    pub(crate) const RESTART_MAX: &str = "restart_s_max";
    pub(crate) const NOTIFICATIONS: &str = "notifications";
    pub(crate) const LOCAL_ONLY: &str = "notifications_local_only";
    pub(crate) const NOTIFICATION_TOPIC: &str = "notification_topic";
    pub(crate) const LOCAL_CLIENT_ID: &str = "local_client_id";
    pub(crate) const CA: &str = "ca";
    pub(crate) const CERTIFICATE: &str = "certificate";
    pub(crate) const KEY: &str = "key";
    pub(crate) const INSECURE: &str = "insecure";
    pub(crate) const INFLIGHT_MAX: &str = "inflight_max";
    pub(crate) const OUTGOING_RETAIN: &str = "outgoing_retain";
}
