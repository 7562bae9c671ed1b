//! The kernel's facts about a TCP connection's bytes (`TCP_INFO`, tcp(7)).
//!
//! The facts are read of few connections: of those that end, and of some that were written to. A
//! connection stores none of them.

use nix::libc;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::GetStruct;
use nix::sys::utsname::uname;
use rustix::fd::{AsFd, OwnedFd};
use std::mem::offset_of;

/// The kernel's facts about a connection's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpFacts {
    /// Received from the peer.
    pub received: u64,
    /// Sent and acknowledged by the peer's kernel.
    pub acknowledged: u64,
    /// In the socket, not acknowledged yet.
    pub waiting: u64,
    /// Bytes wait and the peer's receive window has no room for a segment: it does not read.
    pub is_stalled: bool,
}

/// `struct tcp_info` of linux/tcp.h up to `tcpi_snd_wnd`, which Linux has since 5.4.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct TcpAnswer {
    _states: [u8; 8],
    _timeouts: [u32; 2],
    /// Largest segment to the peer.
    snd_mss: u32,
    _counts: [u32; 21],
    _pacing: [u64; 2],
    bytes_acked: u64,
    bytes_received: u64,
    _segments: [u32; 2],
    notsent_bytes: u32,
    _times: [u32; 3],
    _rates: [u64; 4],
    _delivered: [u32; 2],
    bytes_sent: u64,
    bytes_retrans: u64,
    _reordering: [u32; 3],
    /// The peer's receive window.
    snd_wnd: u32,
}

const _: () = assert!(size_of::<TcpAnswer>() == 232);
const _: () = assert!(offset_of!(TcpAnswer, bytes_acked) == 120);
const _: () = assert!(offset_of!(TcpAnswer, notsent_bytes) == 144);
const _: () = assert!(offset_of!(TcpAnswer, bytes_sent) == 200);

#[derive(Clone, Copy, Debug)]
struct TcpQuestion;

nix::getsockopt_impl!(
    TcpQuestion,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    TcpAnswer,
    GetStruct<TcpAnswer>
);

/// Whether this kernel's answer has all of [`TcpAnswer`]: a shorter one cannot be read.
pub(crate) fn is_told() -> bool {
    uname().is_ok_and(|system| is_new(&system.release().to_string_lossy()))
}

/// Whether this release of Linux is 5.4 or newer.
fn is_new(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 4)
}

/// The facts of a socket; `None`: it is not one of TCP.
pub(crate) fn facts(socket: &OwnedFd) -> Option<TcpFacts> {
    let info = getsockopt(&socket.as_fd(), TcpQuestion).ok()?;
    let unsent = u64::from(info.notsent_bytes);
    let sent = info.bytes_sent.saturating_sub(info.bytes_retrans);
    Some(TcpFacts {
        received: info.bytes_received,
        acknowledged: info.bytes_acked,
        waiting: unsent + sent.saturating_sub(info.bytes_acked),
        is_stalled: unsent > 0 && info.snd_wnd < info.snd_mss,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        (near, listener.accept().expect("it called").0)
    }

    #[test]
    fn a_peer_that_does_not_read_closes_its_window_and_bytes_wait_in_the_socket() {
        assert!(is_told(), "this machine's kernel is new enough");
        let (mut near, mut far) = pair();
        far.write_all(b"hello").expect("written");
        near.read_exact(&mut [0; 5]).expect("read");
        near.set_nonblocking(true).expect("set");
        let (mut written, socket) = (0, OwnedFd::from(near.try_clone().expect("one more")));
        // Loopback takes a moment until the window is closed, and more bytes until then.
        let told = loop {
            while let Ok(count) = near.write(&[0; 65_536]) {
                written += count as u64;
            }
            match facts(&socket).expect("TCP") {
                told if told.is_stalled => break told,
                _ => std::thread::yield_now(),
            }
        };
        assert_eq!(told.received, 5);
        // A SYN counts as one byte on one side.
        assert!(written.abs_diff(told.waiting + told.acknowledged) <= 1, "{written} {told:?}");
        let mut left = written;
        while left > 0 {
            left -= far.read(&mut vec![0; 1 << 20]).expect("it reads now") as u64;
        }
        assert!(!facts(&socket).expect("TCP").is_stalled);
    }

    #[test]
    fn old_kernels_are_not_asked() {
        assert!(is_new("5.4.0-arch1") && is_new("6.18.44-fc") && is_new("10.0"));
        assert!(!is_new("5.3.18") && !is_new("4.19.0") && !is_new("") && !is_new("unknown"));
    }

    #[test]
    fn other_sockets_have_no_facts() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!(facts(&OwnedFd::from(one)), None);
    }
}
