//! Listeners: for an address, one socket a shard that share its port; for a path, one socket that
//! all shards share, since its file has room for no second. Sockets that were kept over a restart
//! ([`kept`]) are taken before any is opened.
//!
//! Invariant: a socket file is replaced only when nobody listens at it, and removed by whoever
//! made it.

mod kept;

pub use self::kept::{KeptSocket, TakenSockets, has as has_kept, kept_name, take as take_kept};

use crate::layer::{ListenEndpoint, ListenerSetup};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Access, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reason why a listener could not be opened.
#[derive(Debug)]
pub struct ListenError {
    /// The listener's name in the configuration.
    pub name: Arc<str>,
    /// Its address.
    pub address: ListenEndpoint,
    errno: Errno,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, address) = (&self.name, &self.address);
        if let ListenEndpoint::Unix(path, _) = address {
            return self.about_file(path, f);
        }
        match self.errno {
            Errno::ADDRINUSE => write!(
                f,
                "listen.{name}: address {address} is in use by another program (or by an outgoing \
                 connection, if its port lies in net.ipv4.ip_local_port_range). Stop it, or set \
                 listen.{name}.address to a free port; `ss -ltnp` shows the program"
            ),
            Errno::ACCESS => write!(
                f,
                "listen.{name}: ports below 1024 need a privilege: give the binary \
                 CAP_NET_BIND_SERVICE, or set listen.{name}.address to a port above 1023 \
                 (now {address})"
            ),
            Errno::ADDRNOTAVAIL => write!(
                f,
                "listen.{name}: no interface of this machine has the address {address}; \
                 `ip address` shows its addresses"
            ),
            errno => write!(f, "listen.{name}: cannot listen on {address}: {errno}"),
        }
    }
}

impl std::error::Error for ListenError {}

impl ListenError {
    /// Error of opening this listener.
    fn of(door: &ListenerSetup) -> impl Fn(Errno) -> ListenError + Copy {
        |errno| {
            let (name, address) = (door.name.clone(), door.address.clone());
            ListenError { name, address, errno }
        }
    }

    fn about_file(&self, path: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path) = (&self.name, path.display());
        match self.errno {
            Errno::ADDRINUSE => write!(
                f,
                "listen.{name}: another program listens on {path}. Stop it, or name another file \
                 in listen.{name}.address"
            ),
            Errno::EXIST => write!(
                f,
                "listen.{name}: {path} exists and is not a socket. Remove it, or name another \
                 file in listen.{name}.address"
            ),
            Errno::NAMETOOLONG | Errno::INVAL => {
                write!(f, "listen.{name}: the socket path {path} is too long (107 bytes at most)")
            }
            errno => write!(f, "listen.{name}: cannot listen on {path}: {errno}"),
        }
    }
}

/// Opens `count` sockets for each door, one a shard, unless sockets of it are in `kept`: then it
/// has those, and nobody who waits at them is refused. The first of a door is opened without
/// sharing, so that an address another server holds (even one that shares its ports) is reported as
/// in use. Port 0 is resolved once, for all shards: the address that came out is in the result.
pub fn open(
    doors: &[ListenerSetup],
    count: usize,
    user_timeout_ms: u32,
    mut kept: Vec<KeptSocket>,
) -> Result<OpenListeners, ListenError> {
    let mut open = OpenListeners {
        shards: (0..count).map(|_| Vec::new()).collect(),
        addresses: Vec::new(),
        files: SocketFiles::default(),
        names: Vec::new(),
        fresh: Vec::new(),
        unclaimed: Vec::new(),
    };
    for (number, door) in doors.iter().enumerate() {
        let failed = ListenError::of(door);
        let settings = (user_timeout_ms, door.backlog);
        let (address, sockets) = match take_kept(&mut kept, (&door.name, &door.address)) {
            Some(TakenSockets { address, sockets, names }) => {
                kept::prepare(&address, &sockets, settings).map_err(failed)?;
                open.names.push(names);
                (address, sockets)
            }
            None => {
                open.fresh.push(number);
                let opened = fresh(door, (count, settings), &mut open.files).map_err(failed)?;
                let numbers = 0..opened.1.len();
                open.names.push(numbers.map(|at| kept_name(&door.name, at)).collect());
                opened
            }
        };
        let shared = kept::share_out(sockets, count).map_err(failed)?;
        open.shards.iter_mut().zip(shared).for_each(|(shard, sockets)| shard.push(sockets));
        open.addresses.push(address);
    }
    open.unclaimed = kept;
    Ok(open)
}

/// Opens what is missing of a server's listeners among those that are kept, and has it kept as
/// well: so is seen before whether all of them can be had. The files of what was opened come along.
pub fn complete(
    doors: &[ListenerSetup],
    count: usize,
    user_timeout_ms: u32,
    kept: &mut Vec<KeptSocket>,
) -> Result<SocketFiles, ListenError> {
    let mut files = SocketFiles::default();
    for door in doors {
        if has_kept(kept, (&door.name, &door.address)) {
            continue;
        }
        let settings = (count, (user_timeout_ms, door.backlog));
        let opened = fresh(door, settings, &mut files);
        let (_, sockets) = opened.map_err(ListenError::of(door))?;
        let named = sockets.into_iter().enumerate();
        kept.extend(
            named.map(|(at, socket)| KeptSocket { name: kept_name(&door.name, at), socket }),
        );
    }
    Ok(files)
}

/// Opens a listener while the server runs, with sockets for `count` shards. The port or the file
/// of its address may belong to a listener of this process that will close: `beside` says so.
/// Then whether another program shares the port is not looked for.
pub fn open_one(
    door: &ListenerSetup,
    (count, user_timeout_ms): (usize, u32),
    beside: bool,
) -> Result<OpenListener, ListenError> {
    let failed = ListenError::of(door);
    let mut files = SocketFiles::default();
    let settings = (count, (user_timeout_ms, door.backlog));
    let opened = match (&door.address, beside) {
        (ListenEndpoint::Tcp(address), true) => {
            let sockets = (0..count).map(|_| listener(*address, user_timeout_ms, door.backlog));
            sockets.collect::<Result<_, _>>().map(|sockets| (door.address.clone(), sockets))
        }
        _ => fresh(door, settings, &mut files),
    };
    let (address, sockets) = opened.map_err(failed)?;
    let copy = |(at, socket): (usize, &OwnedFd)| {
        let socket = rustix::io::fcntl_dupfd_cloexec(socket, 0)?;
        Ok(KeptSocket { name: kept_name(&door.name, at), socket })
    };
    let copies = sockets.iter().enumerate().map(copy).collect::<Result<_, _>>().map_err(failed)?;
    let shards = kept::share_out(sockets, count).map_err(failed)?;
    Ok(OpenListener { address, shards, copies, files })
}

/// Whether a listener could be opened now: whether this process may have its port or its file, and
/// nobody else has it. Opens nothing.
pub fn check(door: &ListenerSetup) -> Result<(), ListenError> {
    let is_free = match &door.address {
        ListenEndpoint::Tcp(address) => probe(*address).map(drop),
        ListenEndpoint::Unix(path, _) => SocketAddrUnix::new(path)
            .and_then(|address| is_left_over(path, &address).map(drop))
            .and_then(|()| {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                fs::access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)
            }),
    };
    is_free.map_err(ListenError::of(door))
}

/// Changes the length of the queue, and the permissions of the file, of sockets that listen.
pub fn adjust<'a>(
    door: &ListenerSetup,
    sockets: impl Iterator<Item = &'a OwnedFd>,
) -> Result<(), ListenError> {
    let failed = ListenError::of(door);
    for socket in sockets {
        net::listen(socket, door.backlog).map_err(failed)?;
    }
    match &door.address {
        ListenEndpoint::Unix(path, mode) => {
            fs::chmod(path, Mode::from_raw_mode(*mode)).map_err(failed)
        }
        ListenEndpoint::Tcp(_) => Ok(()),
    }
}

/// A listener that was opened while the server runs.
pub struct OpenListener {
    /// Its address.
    pub address: ListenEndpoint,
    /// For each shard, its sockets.
    pub shards: Vec<Vec<OwnedFd>>,
    /// Duplicates of its sockets.
    pub copies: Vec<KeptSocket>,
    /// Its file, if it has one.
    pub files: SocketFiles,
}

/// Opens the sockets of a door: one for each shard, or one for all.
fn fresh(
    door: &ListenerSetup,
    (count, (user_timeout_ms, backlog)): (usize, (u32, i32)),
    files: &mut SocketFiles,
) -> Result<(ListenEndpoint, Vec<OwnedFd>), Errno> {
    match &door.address {
        ListenEndpoint::Tcp(address) => {
            let address = probe(*address)?;
            let sockets = (0..count).map(|_| listener(address, user_timeout_ms, backlog));
            Ok((ListenEndpoint::Tcp(address), sockets.collect::<Result<_, _>>()?))
        }
        ListenEndpoint::Unix(path, mode) => {
            let socket = unix_listener((path, backlog), *mode, files)?;
            Ok((door.address.clone(), vec![socket]))
        }
    }
}

/// Listeners that are open.
pub struct OpenListeners {
    /// For each shard, its sockets of each door.
    pub shards: Vec<Vec<Vec<OwnedFd>>>,
    /// The address of each door.
    pub addresses: Vec<ListenEndpoint>,
    /// Names under which the sockets of each door are kept, or would be.
    pub names: Vec<Vec<String>>,
    /// Socket files.
    pub files: SocketFiles,
    /// Kept sockets that are no door's.
    pub unclaimed: Vec<KeptSocket>,
    /// Doors that were opened now.
    fresh: Vec<usize>,
}

impl OpenListeners {
    /// All sockets, each once, with the name to keep it under, for whoever takes over.
    pub fn copies(&self, doors: &[ListenerSetup]) -> std::io::Result<Vec<KeptSocket>> {
        let mut copies = Vec::new();
        for (number, door) in doors.iter().enumerate() {
            let mut known = Vec::new();
            for socket in self.shards.iter().flat_map(|shard| &shard[number]) {
                let cookie = sockopt::socket_cookie(socket)?;
                if !known.contains(&cookie) {
                    let usual = kept_name(&door.name, known.len());
                    let name = self.names[number].get(known.len()).cloned().unwrap_or(usual);
                    copies.push(KeptSocket { name, socket: socket.try_clone()? });
                    known.push(cookie);
                }
            }
        }
        Ok(copies)
    }

    /// Sockets that were opened now, each with the name to keep it under. A socket that several
    /// shards have is listed once.
    pub fn fresh<'a>(
        &'a self,
        doors: &'a [ListenerSetup],
    ) -> impl Iterator<Item = (String, BorrowedFd<'a>)> {
        self.fresh.iter().flat_map(move |&number| {
            let is_shared = matches!(doors[number].address, ListenEndpoint::Unix(..));
            let shards = if is_shared { 1 } else { self.shards.len() };
            let sockets = self.shards[..shards].iter().flat_map(move |shard| &shard[number]);
            let name = move |at| kept_name(&doors[number].name, at);
            sockets.enumerate().map(move |(at, socket)| (name(at), socket.as_fd()))
        })
    }
}

/// Socket files that were made here. They are removed with this, unless another program has put
/// its own in their place.
#[derive(Default)]
pub struct SocketFiles(Vec<(PathBuf, u64)>);

impl SocketFiles {
    /// Has these files too, whose sockets were taken over with them.
    pub fn adopt<'a>(&mut self, listening: impl Iterator<Item = &'a ListenEndpoint>) {
        for endpoint in listening {
            let ListenEndpoint::Unix(path, _) = endpoint else { continue };
            let Ok(found) = fs::lstat(path) else { continue };
            let file = (path.clone(), found.st_ino);
            if !self.0.contains(&file) {
                self.0.push(file);
            }
        }
    }

    /// Has those too.
    pub fn add(&mut self, mut others: SocketFiles) {
        self.0.append(&mut others.0);
    }

    /// Removes the file at this path.
    pub fn remove(&mut self, path: &Path) {
        let (gone, rest) = std::mem::take(&mut self.0).into_iter().partition(|it| it.0 == path);
        self.0 = rest;
        drop(SocketFiles(gone));
    }

    /// Their sockets are kept by others: the files stay.
    pub fn leave(&mut self) {
        self.0.clear();
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for (path, inode) in self.0.drain(..) {
            if fs::lstat(&path).is_ok_and(|found| found.st_ino == inode) {
                // If it cannot be removed, the next start finds that nobody listens at it.
                let _ = fs::unlink(&path);
            }
        }
    }
}

/// Finds out whether the address is free, and which port it is if none was named.
fn probe(address: SocketAddr) -> Result<SocketAddr, Errno> {
    let socket = socket_for(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    let bound = net::getsockname(&socket)?;
    SocketAddr::try_from(bound).map_err(|_| Errno::AFNOSUPPORT)
}

fn listener(address: SocketAddr, user_timeout_ms: u32, backlog: i32) -> Result<OwnedFd, Errno> {
    let socket = socket_for(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    // Accepted sockets inherit these: no call for each of them.
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_tcp_user_timeout(&socket, user_timeout_ms)?;
    // Who neither speaks nor has to is asked now and then whether it is there (`tcp_keepalive_time`
    // of the system): a peer that vanished would hold its place for ever.
    sockopt::set_socket_keepalive(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, backlog)?;
    Ok(socket)
}

fn unix_listener(
    (path, backlog): (&Path, i32),
    mode: u32,
    files: &mut SocketFiles,
) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    if is_left_over(path, &address)? {
        fs::unlink(path)?;
    }
    net::bind(&socket, &address)?;
    files.0.push((path.to_path_buf(), fs::lstat(path)?.st_ino));
    fs::chmod(path, Mode::from_raw_mode(mode))?;
    net::listen(&socket, backlog)?;
    Ok(socket)
}

/// Whether a socket file is there at which nobody listens. An error: the path is taken.
fn is_left_over(path: &Path, address: &SocketAddrUnix) -> Result<bool, Errno> {
    let Ok(found) = fs::lstat(path) else { return Ok(false) };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(Errno::EXIST);
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let caller = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match net::connect(&caller, address) {
        Err(Errno::CONNREFUSED) => Ok(true),
        Ok(()) | Err(Errno::AGAIN) => Err(Errno::ADDRINUSE),
        Err(errno) => Err(errno),
    }
}

fn socket_for(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(family, SocketType::STREAM, flags, None)
}

#[cfg(test)]
mod tests;
