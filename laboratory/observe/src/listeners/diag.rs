//! The kernel asked for its sockets over netlink (sock_diag(7)): the listening ones, and how many
//! are in a state.
//!
//! The kernel picks the sockets of the wanted states itself: those that are merely established cost
//! a look each and no message. Two questions, one a family, each answered by messages until one
//! says that it is done. Anything
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
    let mut found = Vec::new();
    ask(1 << LISTEN, |body| {
        found.push(listener(body)?);
        Some(found.len() < max)
    })?;
    Some(found)
}

/// How many sockets of this network namespace are in each of the states of a mask, by the state's
/// number; `None`: the kernel does not say. It counts up to a number in all.
pub(crate) fn states(mask: u32, max: u32) -> Option<[u32; 16]> {
    let (mut by_state, mut all) = ([0_u32; 16], 0);
    ask(mask, |body| {
        by_state[usize::from(*body.get(1)?).min(15)] += 1;
        all += 1;
        Some(all < max)
    })?;
    Some(by_state)
}

/// Asks for the sockets in the states of a mask, and hands on each until the callee has enough;
/// `None`: no answer, or not one of these.
fn ask(states: u32, mut each: impl FnMut(&[u8]) -> Option<bool>) -> Option<()> {
    let protocol = Some(netlink::SOCK_DIAG);
    let kind = (AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = socket_with(kind.0, kind.1, kind.2, protocol).ok()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).ok()?;
    let mut bytes = vec![0_u8; 32 << 10];
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let question = question(family.as_raw() as u8, states);
        send(&socket, &question, SendFlags::empty()).ok()?;
        loop {
            let (length, _) = recv(&socket, &mut bytes[..], RecvFlags::empty()).ok()?;
            match answer(&bytes[..length], &mut each)? {
                Heard::More => {}
                Heard::All => break,
                Heard::Enough => return Some(()),
            }
        }
    }
    Some(())
}

/// State after a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    /// More datagrams will come.
    More,
    /// The datagram was the last.
    All,
    /// The caller wants no more.
    Enough,
}

fn question(family: u8, states: u32) -> Vec<u8> {
    let length = HEAD + REQUEST;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).expect("a constant").to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP.to_ne_bytes());
    bytes.resize(HEAD, 0);
    // Family, IPPROTO_TCP, which extensions, padding; then which states; then any address.
    bytes.extend([family, 6, 1 << (MEMORY - 1), 0]);
    bytes.extend(states.to_ne_bytes());
    bytes.resize(length, 0);
    bytes
}

/// Takes the messages of one datagram. `None`: it is no answer.
fn answer(mut bytes: &[u8], each: &mut impl FnMut(&[u8]) -> Option<bool>) -> Option<Heard> {
    while bytes.len() >= HEAD {
        let length = u32::from_ne_bytes(bytes[..4].try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes[4..6].try_into().ok()?);
        let body = bytes.get(HEAD..length)?;
        match kind {
            DONE => return Some(Heard::All),
            ERROR => return None,
            BY_FAMILY if !each(body)? => return Some(Heard::Enough),
            _ => {}
        }
        // Messages begin at multiples of four.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Heard::More)
}

/// `inet_diag_msg`: family, state and two bytes, the address of 48, time-out, Recv-Q, Send-Q, user
/// and inode.
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
        let take = |bytes: &[u8], found: &mut Vec<ListeningSocket>| {
            answer(bytes, &mut |body| {
                found.push(listener(body)?);
                Some(true)
            })
        };
        assert_eq!(take(&one, &mut found), Some(Heard::More));
        let ends = [one.clone(), end, one.clone()].concat();
        assert_eq!(take(&ends, &mut found), Some(Heard::All));
        assert_eq!(answer(&one, &mut |_| Some(false)), Some(Heard::Enough));
        let listener = ListeningSocket {
            port: 1_883,
            inode: 4_711,
            waiting: 7,
            backlog: Some(128),
            drops: Some(9),
        };
        assert_eq!(found, [listener.clone(), listener]);
        assert_eq!(take(&message(ERROR, &[0; 20]), &mut found), None);
        for cut in HEAD..one.len() {
            assert_eq!(take(&one[..cut], &mut found), None, "{cut}");
        }
        assert_eq!(take(&message(BY_FAMILY, &body[..71]), &mut found), None);
        assert_eq!(take(&[0; 64], &mut found), None);
        found.clear();
        let short = message(BY_FAMILY, &body[..TOLD + 15]);
        assert_eq!(take(&short, &mut found), Some(Heard::More));
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

    #[test]
    fn a_socket_whose_peer_has_closed_is_counted_and_established_ones_are_not() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let gone = std::net::TcpStream::connect(address).expect("it listens");
        let (kept, _) = socket.accept().expect("it called");
        drop(gone);
        // What the peer sent last has come when its end can be read.
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut &kept, &mut byte).expect("its end"), 0);
        const CLOSE_WAIT: usize = 8;
        let Some(found) = states(1 << CLOSE_WAIT, 1 << 16) else { return };
        assert!(found[CLOSE_WAIT] >= 1, "{found:?}");
        assert_eq!(found.iter().sum::<u32>(), found[CLOSE_WAIT], "no other state was wanted");
        assert_eq!(states(1 << CLOSE_WAIT, 1).expect("it was asked before")[CLOSE_WAIT], 1);
    }
}
