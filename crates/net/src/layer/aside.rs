//! Facts that rustls reports only during a handshake: the host that a client asks for, the
//! certificate that it is shown, and the channel bindings of the connection.
//!
//! The unbuffered interface of rustls gives none of the three afterwards. It gives them to a
//! certificate resolver and to a key log, which are a configuration's and know no connection; but
//! both are called on the thread that works on a connection, within the call that does. They leave
//! it here, and the session takes it when the call returns. The exporter's secret itself is never
//! kept: the key log derives the one value that is wanted (RFC 9266) and forgets the rest.
//!
//! Invariant: between two calls nothing is here.

use crate::layer::binding;
use rustls::KeyLog;
use std::cell::RefCell;
use std::sync::Arc;

/// Facts that rustls reported during one call.
#[derive(Default)]
pub(super) struct Aside {
    /// The host that the client asks for.
    pub server_name: Option<Box<str>>,
    /// `tls-server-end-point` of the certificate that it is shown.
    pub end_point: Option<Arc<[u8]>>,
    /// `tls-exporter`.
    pub exporter: Option<[u8; 32]>,
}

thread_local! {
    static ASIDE: RefCell<Aside> = RefCell::default();
}

/// A resolver has chosen.
pub(super) fn chosen(server_name: Option<&str>, end_point: Option<Arc<[u8]>>) {
    ASIDE.with_borrow_mut(|aside| {
        aside.server_name = server_name.map(Box::from);
        aside.end_point = end_point;
    });
}

/// Takes what was said.
pub(super) fn take() -> Aside {
    ASIDE.take()
}

/// A key log that writes nothing: of all secrets it takes the exporter's, and derives the binding.
#[derive(Debug)]
pub(super) struct BindingLog;

/// The label of the secret under all exporters of TLS 1.3 (RFC 8446 7.5), in key logs.
const EXPORTER_SECRET: &str = "EXPORTER_SECRET";

impl KeyLog for BindingLog {
    fn will_log(&self, label: &str) -> bool {
        label == EXPORTER_SECRET
    }

    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label == EXPORTER_SECRET {
            ASIDE.with_borrow_mut(|aside| aside.exporter = binding::exporter(secret));
        }
    }
}
