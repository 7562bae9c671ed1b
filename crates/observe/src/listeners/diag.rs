//! The kernel asked for its listening sockets over netlink (sock_diag(7)).
//!
//! Two questions, one a family, each answered by messages until one says that it is done. Anything
//! that is not such an answer ends the reading with `None`; nobody has to be root for it.

use super::ListeningSocket;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    sockopt,
};
use std::time::Duration;

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP` (linux/netlink.h).
const DUMP: u16 = 0x301;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `TCP_LISTEN` (linux/tcp_states.h).
const LISTEN: u32 = 10;
/// `INET_DIAG_SKMEMINFO` (linux/inet_diag.h): what a socket's memory is used for, and, after eight
/// other figures, what it dropped.
const MEMORY: u16 = 7;
const DROPS_AT: usize = 32;
/// Bytes of `inet_diag_msg`.
const TOLD: usize = 72;
/// Bytes of `nlmsghdr`, and of `inet_diag_req_v2` (linux/inet_diag.h).
const HEAD: usize = 16;
const REQUEST: usize = 56;
/// Time for an answer, which a kernel gives at once.
const PATIENCE: Duration = Duration::from_millis(250);

/// All listeners of this network namespace, up to a number; `None`: it does not say.
pub(super) fn listeners(max: usize) -> Option<Vec<ListeningSocket>> {
    let protocol = Some(netlink::SOCK_DIAG);
    let kind = (AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = socket_with(kind.0, kind.1, kind.2, protocol).ok()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).ok()?;
    let mut found = Vec::new();
    let mut bytes = vec![0_u8; 32 << 10];
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let question = question(family.as_raw() as u8);
        send(&socket, &question, SendFlags::empty()).ok()?;
        while found.len() < max {
            let (length, _) = recv(&socket, &mut bytes[..], RecvFlags::empty()).ok()?;
            if !answer(&bytes[..length], &mut found)? {
                break;
            }
        }
    }
    Some(found)
}

fn question(family: u8) -> Vec<u8> {
    let length = HEAD + REQUEST;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).expect("a constant").to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP.to_ne_bytes());
    bytes.resize(HEAD, 0);
    // Family, IPPROTO_TCP, which extensions, padding; then which states; then any address.
    bytes.extend([family, 6, 1 << (MEMORY - 1), 0]);
    bytes.extend((1_u32 << LISTEN).to_ne_bytes());
    bytes.resize(length, 0);
    bytes
}

/// Takes the messages of one datagram; whether more will come. `None`: it is no answer.
fn answer(mut bytes: &[u8], found: &mut Vec<ListeningSocket>) -> Option<bool> {
    while bytes.len() >= HEAD {
        let length = u32::from_ne_bytes(bytes[..4].try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes[4..6].try_into().ok()?);
        let body = bytes.get(HEAD..length)?;
        match kind {
            DONE => return Some(false),
            ERROR => return None,
            BY_FAMILY => found.push(listener(body)?),
            _ => {}
        }
        // Messages begin at multiples of four.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(true)
}

/// `inet_diag_msg`: four bytes, the address of 48, time-out, Recv-Q, Send-Q, user and inode.
fn listener(body: &[u8]) -> Option<ListeningSocket> {
    let word = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let port = u16::from_be_bytes(body.get(4..6)?.try_into().ok()?);
    let (waiting, backlog, inode) = (word(56)?, word(60)?, word(68)?);
    let memory = attribute(&body[TOLD..], MEMORY);
    let drops = memory.and_then(|memory| memory.get(DROPS_AT..DROPS_AT + 4)?.try_into().ok());
    let drops = drops.map(u32::from_ne_bytes);
    Some(ListeningSocket { port, inode: inode.into(), waiting, backlog: Some(backlog), drops })
}

/// The attribute of this kind: each has a length, its own four bytes included, and a kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let body = bytes.get(4..length)?;
        if kind == wanted {
            return Some(body);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEAD + body.len()).expect("small");
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn messages_are_taken_until_the_last_one() {
        let mut body = vec![0_u8; TOLD];
        body[4..6].copy_from_slice(&1_883_u16.to_be_bytes());
        for (at, value) in [(56, 7_u32), (60, 128), (68, 4_711)] {
            body[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        // Another attribute of five bytes, then the memory's, whose last figure is the ninth.
        body.extend([5, 0, 1, 0, 0, 0, 0, 0, 40, 0, 7, 0]);
        body.extend([0; DROPS_AT]);
        body.extend(9_u32.to_ne_bytes());
        let (one, end) = (message(BY_FAMILY, &body), message(DONE, &[0; 4]));
        let mut found = Vec::new();
        assert_eq!(answer(&one, &mut found), Some(true));
        assert_eq!(answer(&[one.clone(), end, one.clone()].concat(), &mut found), Some(false));
        let listener = ListeningSocket {
            port: 1_883,
            inode: 4_711,
            waiting: 7,
            backlog: Some(128),
            drops: Some(9),
        };
        assert_eq!(found, [listener.clone(), listener]);
        assert_eq!(answer(&message(ERROR, &[0; 20]), &mut found), None);
        for cut in HEAD..one.len() {
            assert_eq!(answer(&one[..cut], &mut found), None, "{cut}");
        }
        assert_eq!(answer(&message(BY_FAMILY, &body[..71]), &mut found), None);
        assert_eq!(answer(&[0; 64], &mut found), None);
        found.clear();
        assert_eq!(answer(&message(BY_FAMILY, &body[..TOLD + 15]), &mut found), Some(true));
        assert_eq!((found[0].waiting, found[0].drops), (7, None));
        assert_eq!(attribute(&[0, 0, 1, 0], 7), None);
    }

    #[test]
    fn this_kernel_tells_of_a_listener_made_here() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("it is bound").port();
        let waiting = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let Some(found) = listeners(1_024) else { return };
        let one = found.iter().find(|one| one.port == port).expect("it is there");
        assert_eq!((one.waiting, one.backlog.is_some_and(|most| most >= 128)), (1, true));
        assert_eq!(one.drops, Some(0));
        drop(waiting);
    }
}
