//! Connections: TCP, TLS with pins (feature `tls`), through a SOCKS5 or HTTP proxy.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long one address, or one step of a proxy, may take.
const STEP: Duration = Duration::from_secs(15);

/// An open connection: two directions, and how to end both from any thread.
pub struct Link {
    /// Bytes of the server.
    pub reader: Box<dyn Read + Send>,
    /// Bytes of the client.
    pub writer: Box<dyn Write + Send>,
    /// Tokens and passwords may be shown: TLS, or a server on this machine without a proxy.
    pub is_safe: bool,
    /// Ends the connection; bytes that were written before still leave.
    pub end: Box<dyn Fn() + Send>,
}

/// Why a connection was not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The word that the client's state shows: `unreachable` or `pin_mismatch`.
    pub why: &'static str,
    /// The fault in the system's words, for people.
    pub detail: String,
}

impl Failure {
    /// A word, and what the system said.
    pub fn new(why: &'static str, detail: impl ToString) -> Failure {
        Failure { why, detail: detail.to_string() }
    }
}

/// Opens connections.
pub trait Connector: Send + Sync {
    /// Opens one to `host:port`. It may block.
    fn connect(&self, address: &str) -> Result<Link, Failure>;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProxyKind {
    Socks5,
    Http,
}

struct Proxy {
    kind: ProxyKind,
    address: String,
    login: Option<(String, String)>,
}

/// TCP, directly or through a proxy, with TLS by choice.
#[derive(Default)]
pub struct TcpConnector {
    proxy: Option<Proxy>,
    #[cfg(feature = "tls")]
    tls: Option<secure::Tls>,
}

impl TcpConnector {
    /// Through a proxy: `socks5://user:password@host:port` or `http://…` (CONNECT). `None` if the
    /// text is neither.
    pub fn through(mut self, url: &str) -> Option<TcpConnector> {
        let (scheme, rest) = url.trim_end_matches('/').split_once("://")?;
        let (kind, port) = match scheme {
            "socks5" => (ProxyKind::Socks5, 1_080),
            "http" => (ProxyKind::Http, 8_080),
            _ => return None,
        };
        let (login, host) = match rest.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, rest),
        };
        let login = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => Some((unquote(user)?, unquote(password)?)),
            None => None,
        };
        let has_port = split(host).is_some();
        let address = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        self.proxy = Some(Proxy { kind, address, login });
        Some(self)
    }

    fn open(&self, address: &str) -> io::Result<TcpStream> {
        let Some(proxy) = &self.proxy else { return dial(address) };
        let mut stream = dial(&proxy.address)?;
        stream.set_read_timeout(Some(STEP))?;
        let (host, port) = split(address).ok_or_else(|| refused("not an address"))?;
        match proxy.kind {
            ProxyKind::Socks5 => socks5(&mut stream, host, port, proxy.login.as_ref())?,
            ProxyKind::Http => http_connect(&mut stream, host, port, proxy.login.as_ref())?,
        }
        stream.set_read_timeout(None)?;
        Ok(stream)
    }
}

impl Connector for TcpConnector {
    fn connect(&self, address: &str) -> Result<Link, Failure> {
        let failed = |error| Failure::new("unreachable", error);
        let stream = self.open(address).map_err(failed)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let host = split(address).map_or("", |(host, _)| host);
            return tls.connect(stream, host);
        }
        let is_local = stream.peer_addr().is_ok_and(|address| address.ip().is_loopback());
        plain(stream, self.proxy.is_none() && is_local).map_err(failed)
    }
}

fn plain(stream: TcpStream, is_safe: bool) -> io::Result<Link> {
    let (reader, writer) = (stream.try_clone()?, stream.try_clone()?);
    let end = move || drop(stream.shutdown(Shutdown::Both));
    Ok(Link { reader: Box::new(reader), writer: Box::new(writer), is_safe, end: Box::new(end) })
}

fn dial(address: &str) -> io::Result<TcpStream> {
    let mut failure = refused("no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, STEP) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(STEP))?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Host and port of `host:port` or `[v6]:port`.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        None
    } else {
        Some((host, port.parse().ok()?))
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

/// Percent-decoded text.
fn unquote(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

type Login<'a> = Option<&'a (String, String)>;

/// RFC 1928 and 1929. The proxy resolves the name.
fn socks5(stream: &mut TcpStream, host: &str, port: u16, login: Login<'_>) -> io::Result<()> {
    let method = if login.is_some() { 2 } else { 0 };
    stream.write_all(&[5, 1, method])?;
    if exactly::<2>(stream)? != [5, method] {
        return Err(refused("the proxy wants another login"));
    }
    if let Some((user, password)) = login {
        let mut message = vec![1];
        block(user, &mut message)?;
        block(password, &mut message)?;
        stream.write_all(&message)?;
        if exactly::<2>(stream)?[1] != 0 {
            return Err(refused("the proxy refused the login"));
        }
    }
    let mut message = vec![5, 1, 0, 3];
    block(host, &mut message)?;
    message.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&message)?;
    let [_, result, _, kind] = exactly::<4>(stream)?;
    if result != 0 {
        return Err(refused("the proxy refused the connection"));
    }
    let length = match kind {
        1 => 4,
        4 => 16,
        _ => exactly::<1>(stream)?[0].into(),
    };
    io::copy(&mut stream.take(length + 2), &mut io::sink()).map(drop)
}

fn exactly<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

fn block(text: &str, out: &mut Vec<u8>) -> io::Result<()> {
    out.push(u8::try_from(text.len()).map_err(|_| refused("a name is too long"))?);
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// RFC 9110 9.3.6.
fn http_connect(stream: &mut TcpStream, host: &str, port: u16, login: Login<'_>) -> io::Result<()> {
    let is_v6 = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
    let target = if is_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some((user, password)) = login {
        let login = base64(format!("{user}:{password}").as_bytes());
        request += &format!("Proxy-Authorization: Basic {login}\r\n");
    }
    stream.write_all((request + "\r\n").as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // Byte by byte: what follows the head belongs to the server.
        head.extend(exactly::<1>(stream)?);
        if head.len() > 16_384 {
            return Err(refused("the proxy's answer is too long"));
        }
    }
    let status = head.split(|byte| *byte == b' ').nth(1);
    match status.is_some_and(|status| status.starts_with(b"2")) {
        true => Ok(()),
        false => Err(refused("the proxy refused the connection")),
    }
}

/// RFC 4648 4.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let place = (bits >> (18 - 6 * digit)) & 63;
            let is_there = digit <= three.len();
            text.push(if is_there { DIGITS[place as usize] as char } else { '=' });
        }
    }
    text
}

/// RFC 4648 4; `None` if the text is none.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    if text.len() % 4 != 0 {
        return None;
    }
    let digits = text.trim_end_matches('=');
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    (text.len() - digits.len() < 3).then_some(bytes)
}

#[cfg(feature = "tls")]
mod secure {
    //! TLS by rustls. One lock for both directions: the reader waits for bytes without it.

    use super::{base64, Failure, Link, TcpConnector};
    use crate::sha256::sha256;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection};
    use std::fmt;
    use std::io::{self, Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::sync::{Arc, Mutex, PoisonError};

    pub(super) struct Tls {
        config: Arc<ClientConfig>,
        name: Option<String>,
        pins: Vec<String>,
    }

    impl TcpConnector {
        /// With TLS. `name` is the name in the server's certificate, at every address; `None`: the
        /// host of the address. With pins, the server's key must be one of them: `sha256/BASE64` of
        /// SubjectPublicKeyInfo.
        pub fn tls(
            mut self,
            config: Arc<ClientConfig>,
            name: Option<&str>,
            pins: &[&str],
        ) -> TcpConnector {
            let pins = pins.iter().map(|pin| (*pin).to_owned()).collect();
            self.tls = Some(Tls { config, name: name.map(str::to_owned), pins });
            self
        }
    }

    impl Tls {
        pub fn connect(&self, mut stream: TcpStream, host: &str) -> Result<Link, Failure> {
            let failed = |error: &dyn fmt::Display| Failure::new("unreachable", error);
            let name = self.name.as_deref().unwrap_or(host).to_owned();
            let name = ServerName::try_from(name).map_err(|error| failed(&error))?;
            let mut session =
                ClientConnection::new(self.config.clone(), name).map_err(|error| failed(&error))?;
            stream.set_read_timeout(Some(super::STEP)).map_err(|error| failed(&error))?;
            while session.is_handshaking() {
                session.complete_io(&mut stream).map_err(|error| failed(&error))?;
            }
            while session.wants_write() {
                session.write_tls(&mut stream).map_err(|error| failed(&error))?;
            }
            stream.set_read_timeout(None).map_err(|error| failed(&error))?;
            if !self.is_pinned(&session) {
                let _ = stream.shutdown(Shutdown::Both);
                return Err(Failure::new("pin_mismatch", "the server's key is not pinned"));
            }
            link(session, stream).map_err(|error| failed(&error))
        }

        fn is_pinned(&self, session: &ClientConnection) -> bool {
            if self.pins.is_empty() {
                return true;
            }
            let certificate = session.peer_certificates().and_then(|chain| chain.first());
            let key = certificate.and_then(|it| public_key(it.as_ref()));
            let Some(key) = key else { return false };
            self.pins.contains(&format!("sha256/{}", base64(&sha256(key))))
        }
    }

    /// SubjectPublicKeyInfo of a certificate (RFC 5280 4.1), DER.
    fn public_key(certificate: &[u8]) -> Option<&[u8]> {
        let (_, content, _) = element(certificate)?; // Certificate
        let (_, mut rest, _) = element(content)?; // TBSCertificate
        if rest.first() == Some(&0xa0) {
            rest = element(rest)?.2; // version
        }
        for _ in 0..5 {
            rest = element(rest)?.2; // serial number, algorithm, issuer, validity, subject
        }
        Some(element(rest)?.0)
    }

    /// The first element of some DER, its content, and what follows it.
    fn element(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
        let mut length = usize::from(*bytes.get(1)?);
        let mut at = 2;
        if length & 0x80 != 0 {
            let width = length & 0x7f;
            let digits = bytes.get(at..at + width)?;
            length = digits.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            at += width;
        }
        let end = at.checked_add(length)?;
        Some((bytes.get(..end)?, &bytes[at..end], &bytes[end..]))
    }

    type Shared = Arc<Mutex<ClientConnection>>;

    fn link(session: ClientConnection, stream: TcpStream) -> io::Result<Link> {
        let shared: Shared = Arc::new(Mutex::new(session));
        let reader = Reader { shared: shared.clone(), stream: stream.try_clone()? };
        let writer = Writer { shared: shared.clone(), stream: stream.try_clone()? };
        let end = move || {
            let mut session = shared.lock().unwrap_or_else(PoisonError::into_inner);
            session.send_close_notify();
            let _ = session.write_tls(&mut &stream);
            let _ = stream.shutdown(Shutdown::Both);
        };
        let (reader, writer) = (Box::new(reader), Box::new(writer));
        Ok(Link { reader, writer, is_safe: true, end: Box::new(end) })
    }

    struct Reader {
        shared: Shared,
        stream: TcpStream,
    }

    impl Read for Reader {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let mut bytes = [0; 16_384];
            loop {
                {
                    let mut session = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                    match session.reader().read(out) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        other => return other,
                    }
                }
                let count = self.stream.read(&mut bytes)?;
                let mut session = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                let mut rest = &bytes[..count];
                loop {
                    session.read_tls(&mut rest)?;
                    session.process_new_packets().map_err(io::Error::other)?;
                    if rest.is_empty() {
                        break;
                    }
                }
                while session.wants_write() {
                    session.write_tls(&mut self.stream)?;
                }
            }
        }
    }

    struct Writer {
        shared: Shared,
        stream: TcpStream,
    }

    impl Write for Writer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut session = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            let count = session.writer().write(bytes)?;
            while session.wants_write() {
                session.write_tls(&mut self.stream)?;
            }
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (text, expected) in vectors {
            assert_eq!(base64(text.as_bytes()), expected);
            assert_eq!(unbase64(expected).as_deref(), Some(text.as_bytes()));
        }
        for bad in ["Z", "Zg=", "Zg*=", "===="] {
            assert_eq!(unbase64(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_and_proxies_are_read() {
        assert_eq!(split("a.example:80"), Some(("a.example", 80)));
        assert_eq!(split("[::1]:80"), Some(("::1", 80)));
        for bad in ["a", "a:", ":80", "a:70000"] {
            assert_eq!(split(bad), None, "{bad}");
        }
        let proxy =
            TcpConnector::default().through("socks5://a%20b:c%3A@h").expect("a proxy").proxy;
        let proxy = proxy.expect("it was given");
        assert_eq!(proxy.address, "h:1080");
        assert_eq!(proxy.login, Some(("a b".to_owned(), "c:".to_owned())));
        assert!(TcpConnector::default().through("ftp://h").is_none());
        assert!(TcpConnector::default().through("http://%zz@h").is_none());
    }
}
