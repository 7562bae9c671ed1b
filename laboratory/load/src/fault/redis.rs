//! One word to a Redis: forget everything (RESP, the protocol of Redis, version 2).

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const FLUSH: &[u8] = b"*1\r\n$8\r\nFLUSHALL\r\n";
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer that is looked at, bytes.
const ANSWER_MAX: usize = 512;

/// Has the Redis at `address` (`host:port`) forget everything.
pub(super) fn flush(address: &str) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("Redis at {address}: {error}");
    let mut found = address.to_socket_addrs().map_err(wrong)?;
    let first = found.next().ok_or_else(|| format!("Redis at {address}: the name is unknown"))?;
    let mut stream = TcpStream::connect_timeout(&first, PATIENCE).map_err(wrong)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
    stream.write_all(FLUSH).map_err(wrong)?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n") && answer.len() < ANSWER_MAX {
        let mut byte = [0];
        if stream.read(&mut byte).map_err(wrong)? == 0 {
            break;
        }
        answer.extend_from_slice(&byte);
    }
    match answer.as_slice() {
        b"+OK\r\n" => Ok(()),
        answer => {
            let words = String::from_utf8_lossy(answer);
            Err(format!("Redis at {address} answered `{}`", words.trim_end().escape_debug()))
        }
    }
}
