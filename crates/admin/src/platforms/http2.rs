//! One connection of HTTP/2 to one service, for a thread that waits (RFC 9113).
//!
//! A request is made at a time. Between requests nothing reads the connection, so it may have ended
//! meanwhile, or hang because a firewall forgot it: a request gets half of its time on it, and is
//! then made once more, over a new one. Invariant: a request ends within its time, and a connection
//! over which it got no answer ends with it.

use super::{ANSWER_BYTES_MAX, Answer};
use axum::body::Bytes;
use axum::http::Request;
use h2::client::SendRequest;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

/// How long a connection may be unused: after that, firewalls begin to forget it.
const UNUSED_MAX: Duration = Duration::from_secs(60);

/// A service: its address, and how its certificate is checked.
pub(super) struct Endpoint {
    host: String,
    port: u16,
    tls: Arc<ClientConfig>,
}

/// The client of one thread.
pub(super) struct Http2 {
    runtime: Runtime,
    link: Option<Link>,
}

/// A connection, and the task that drives it.
struct Link {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<()>,
    used: Instant,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
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
        let within = Duration::from_millis(ms_max.into());
        let post = async {
            if let Some(mut kept) = link.take().filter(|it| it.used.elapsed() < UNUSED_MAX)
                && let Ok(Ok(answer)) =
                    timeout(within / 2, exchange(&mut kept, to, (path, headers), body)).await
            {
                *link = Some(kept);
                return Ok(answer);
            }
            let mut fresh = connect(to).await?;
            let answer = exchange(&mut fresh, to, (path, headers), body).await?;
            *link = Some(fresh);
            Ok(answer)
        };
        runtime.block_on(async {
            let answer = timeout(within, post).await;
            // Drivers that were aborted end here, and with them their sockets.
            tokio::task::yield_now().await;
            answer.unwrap_or_else(|_| Err("timeout: no answer".into()))
        })
    }
}

async fn connect(to: &Endpoint) -> Result<Link, String> {
    let words = |error: std::io::Error| error.to_string();
    let socket = TcpStream::connect((&*to.host, to.port)).await.map_err(words)?;
    socket.set_nodelay(true).map_err(words)?;
    let name = ServerName::try_from(to.host.clone()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(to.tls.clone()).connect(name, socket).await.map_err(words)?;
    let (sender, connection) = h2::client::handshake(stream).await.map_err(|it| it.to_string())?;
    let driver = tokio::spawn(async move {
        // The request that is under way gets the error with which the connection ends.
        let _ = connection.await;
    });
    Ok(Link { sender, driver, used: Instant::now() })
}

/// One request and its answer.
async fn exchange(
    link: &mut Link,
    to: &Endpoint,
    (path, headers): (&str, &[(&str, String)]),
    body: &str,
) -> Result<Answer, String> {
    let words = |error: h2::Error| error.to_string();
    let mut sender = link.sender.clone().ready().await.map_err(words)?;
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
    link.used = Instant::now();
    Ok(Answer::new(head.status, &head.headers, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Response;
    use rustls::{RootCertStore, ServerConfig};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    /// Serves two connections: answers one request over the first, and all over the second.
    async fn serve(listener: TcpListener, tls: TlsAcceptor) {
        for answers in [1, usize::MAX] {
            let (socket, _) = listener.accept().await.expect("a connection");
            let stream = tls.accept(socket).await.expect("TLS");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            tokio::spawn(async move {
                let (mut count, mut held) = (0, Vec::new());
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    count += 1;
                    match count <= answers {
                        true => drop(respond.send_response(Response::new(()), true)),
                        false => held.push(respond),
                    }
                }
            });
        }
        std::future::pending().await
    }

    #[test]
    fn a_connection_that_hangs_is_replaced_within_the_time_of_one_request() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("made");
        let (key, certificate) = (made.signing_key.serialize_der(), made.cert.der().clone());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.try_into().expect("a key"))
            .expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("a certificate");
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec()];
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        runtime.spawn(serve(listener, TlsAcceptor::from(Arc::new(server))));
        let url = format!("https://localhost:{port}");
        let endpoint = Endpoint::new(&url, Arc::new(client)).expect("a URL");
        let mut http2 = Http2::new().expect("a client");
        for ms_max in [10_000, 2_000] {
            let answer = http2.post(&endpoint, ("/x", &[]), "{}", ms_max);
            assert_eq!(answer.map(|it| it.status), Ok(200));
        }
    }
}
