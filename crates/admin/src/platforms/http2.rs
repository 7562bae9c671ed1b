//! One connection of HTTP/2 to one service, for a thread that waits (RFC 9113).
//!
//! A request is made at a time. Between requests nothing reads the connection, so it may have ended
//! meanwhile: a request that finds it so is made once more, over a new one. Invariant: a request
//! ends within its time, and with it what it needs of the connection.

use axum::body::Bytes;
use axum::http::{HeaderMap, Request};
use h2::client::SendRequest;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A service: its address, and how its certificate is checked.
pub(super) struct Endpoint {
    host: String,
    port: u16,
    tls: Arc<ClientConfig>,
}

/// The client of one thread.
pub(super) struct Http2 {
    runtime: Runtime,
    link: Option<SendRequest<Bytes>>,
}

/// An answer.
pub(super) struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, as far as it was read.
    pub body: Vec<u8>,
}

impl Endpoint {
    /// From a URL of https; an error says what is wrong with it.
    pub fn new(url: &str, tls: Arc<ClientConfig>) -> Result<Endpoint, String> {
        let wrong =
            || format!("url {} is not https://HOST or https://HOST:PORT", base::text::quoted(url));
        let rest = url.strip_prefix("https://").ok_or_else(wrong)?.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (rest, 443),
        };
        match ServerName::try_from(host.to_owned()) {
            Ok(_) if !host.is_empty() => Ok(Endpoint { host: host.into(), port, tls }),
            _ => Err(wrong()),
        }
    }
}

impl Http2 {
    /// Without a connection.
    pub fn new() -> Result<Http2, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Http2 { runtime: runtime.map_err(|error| error.to_string())?, link: None })
    }

    /// Posts a body, and waits for the answer.
    pub fn post(
        &mut self,
        to: &Endpoint,
        (path, headers): (&str, &[(&str, String)]),
        body: &str,
        ms_max: u32,
    ) -> Result<Answer, String> {
        let Http2 { runtime, link } = self;
        let post = async {
            if let Some(kept) = link.take()
                && let Ok((kept, answer)) = exchange(kept, to, (path, headers), body).await
            {
                *link = Some(kept);
                return Ok(answer);
            }
            let fresh = connect(to).await?;
            let (kept, answer) = exchange(fresh, to, (path, headers), body).await?;
            *link = Some(kept);
            Ok(answer)
        };
        let within = Duration::from_millis(ms_max.into());
        runtime
            .block_on(async { timeout(within, post).await })
            .unwrap_or_else(|_| Err("timeout: no answer".into()))
    }
}

async fn connect(to: &Endpoint) -> Result<SendRequest<Bytes>, String> {
    let words = |error: std::io::Error| error.to_string();
    let socket = TcpStream::connect((&*to.host, to.port)).await.map_err(words)?;
    socket.set_nodelay(true).map_err(words)?;
    let name = ServerName::try_from(to.host.clone()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(to.tls.clone()).connect(name, socket).await.map_err(words)?;
    let (sender, connection) = h2::client::handshake(stream).await.map_err(|it| it.to_string())?;
    tokio::spawn(async move {
        // How it ends is told to the request that is under way.
        let _ = connection.await;
    });
    Ok(sender)
}

/// One request and its answer; the connection comes back.
async fn exchange(
    sender: SendRequest<Bytes>,
    to: &Endpoint,
    (path, headers): (&str, &[(&str, String)]),
    body: &str,
) -> Result<(SendRequest<Bytes>, Answer), String> {
    let words = |error: h2::Error| error.to_string();
    let mut sender = sender.ready().await.map_err(words)?;
    let mut request = Request::post(format!("https://{}:{}{path}", to.host, to.port));
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(()).map_err(|error| error.to_string())?;
    let (answer, mut stream) = sender.send_request(request, false).map_err(words)?;
    stream.send_data(Bytes::copy_from_slice(body.as_bytes()), true).map_err(words)?;
    let (head, mut told) = answer.await.map_err(words)?.into_parts();
    let mut body = Vec::new();
    while let Some(part) = told.data().await {
        let part = part.map_err(words)?;
        let _ = told.flow_control().release_capacity(part.len());
        if body.len() + part.len() > ANSWER_BYTES_MAX {
            return Err("the answer is too long".into());
        }
        body.extend_from_slice(&part);
    }
    Ok((sender, Answer { status: head.status.as_u16(), headers: head.headers, body }))
}
