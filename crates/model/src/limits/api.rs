//! The limits of the HTTP API.

/// The limits of the API. Counts are for the whole process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiLimits {
    /// Connections held. One more takes the place of one that has not shown a token, else of one
    /// that has asked nothing for longest; where all are being answered it is told to come back.
    pub connections_max: u32,
    /// Event streams at once. One more is told to come back.
    pub streams_max: u32,
    /// Milliseconds for the head of a request. Then the connection ends.
    pub head_ms_max: u32,
    /// Milliseconds for the body of a request. Then it is refused.
    pub body_ms_max: u32,
    /// Milliseconds between two requests of a caller that has shown a token. Then the connection
    /// ends.
    pub idle_ms_max: u32,
    /// Milliseconds in which a caller takes nothing of what it is sent. Then the connection ends.
    pub write_ms_max: u32,
    /// Bytes of bodies of all requests that are read or answered, but for one that alone has more.
    /// Beyond, a request is told to come back.
    pub bodies_bytes_max: u64,
    /// Tokens, beside that of the file. One more is refused.
    pub tokens_max: u32,
    /// Bytes of the log of calls. The older half makes room.
    pub audit_log_bytes_max: u64,
}

impl Default for ApiLimits {
    fn default() -> Self {
        ApiLimits {
            connections_max: 512,
            streams_max: 64,
            head_ms_max: 10_000,
            body_ms_max: 30_000,
            idle_ms_max: 75_000,
            write_ms_max: 30_000,
            bodies_bytes_max: 64 * 1024 * 1024,
            tokens_max: 1_000,
            audit_log_bytes_max: 64 * 1024 * 1024,
        }
    }
}
