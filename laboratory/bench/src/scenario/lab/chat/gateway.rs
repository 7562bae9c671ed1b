//! A push gateway of an operator, in a process of its own: it takes every notification at once.
//!
//! The gateway prints `ready ADDRESS` and serves until its input ends: HTTP/1.1 with connections
//! that are kept, a thread each, as many as the server opens. It reads a request whole, counts it,
//! and answers 200 without lost devices; it does not look at the notification. To `count` it prints
//! the number of requests so far. Invariant: a request without a length ends its connection.

use crate::child::Child;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest line of a head, and the longest body: beyond, the connection ends.
const LINE_BYTES_MAX: u64 = 8 << 10;
const BODY_BYTES_MAX: usize = 1 << 20;
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

/// A gateway in a process of its own.
pub struct Gateway {
    child: Child,
    /// Address of the gateway.
    pub address: SocketAddr,
}

impl Gateway {
    /// Starts one on this core.
    pub fn start(core: usize) -> io::Result<Gateway> {
        let mut child = Child::again(&["gateway"], Some(core))?;
        let address = child.ready()?.parse().map_err(io::Error::other)?;
        Ok(Gateway { child, address })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Notifications that it has taken.
    pub fn count(&mut self) -> io::Result<u64> {
        self.child.ask("count")?.parse().map_err(io::Error::other)
    }
}

/// Runs one.
pub fn run() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("ready {}", listener.local_addr()?);
    io::stdout().flush()?;
    let count = Arc::new(AtomicU64::new(0));
    let taken = Arc::clone(&count);
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&taken);
            let serve = std::thread::Builder::new().name("gateway".into());
            // Where there is no thread the server sees its connection end, and opens another.
            let _ = serve.spawn(move || while let Ok(true) = answer(&stream, &count) {});
        }
    };
    std::thread::Builder::new().name("door".into()).spawn(accept)?;
    for line in io::stdin().lines() {
        if line? == "count" {
            println!("{}", count.load(Ordering::Relaxed));
            io::stdout().flush()?;
        }
    }
    Ok(())
}

/// Takes requests of a connection until one ends it.
fn answer(stream: &TcpStream, count: &AtomicU64) -> io::Result<bool> {
    let mut reader = BufReader::new(stream);
    while request(&mut reader)? {
        count.fetch_add(1, Ordering::Relaxed);
        let mut writer = stream;
        writer.write_all(ANSWER)?;
    }
    Ok(false)
}

/// Reads a request whole; false if there is none any more.
fn request(reader: &mut impl BufRead) -> io::Result<bool> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if reader.take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let fits = length.filter(|length| *length <= BODY_BYTES_MAX);
    let length = fits.ok_or_else(|| io::Error::other("a request without a length"))?;
    io::copy(&mut reader.take(length as u64), &mut io::sink()).map(|read| read == length as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_whole_one_after_the_other() {
        let text = "POST /a HTTP/1.1\r\ncontent-LENGTH: 3\r\n\r\nabcPOST /b HTTP/1.1\r\n\
                    Content-Length: 0\r\n\r\n";
        let mut reader = text.as_bytes();
        assert!(request(&mut reader).unwrap() && request(&mut reader).unwrap());
        assert!(!request(&mut reader).unwrap(), "there is no third one");
    }

    #[test]
    fn a_request_that_is_cut_off_or_has_no_length_is_none() {
        assert!(
            !request(&mut "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc".as_bytes()).unwrap()
        );
        assert!(request(&mut "POST / HTTP/1.1\r\n\r\n".as_bytes()).is_err());
        let large = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", BODY_BYTES_MAX + 1);
        assert!(request(&mut large.as_bytes()).is_err());
    }
}
