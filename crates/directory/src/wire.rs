//! A connection to one server: commands out, replies in, in the order of the commands.
//!
//! Replies that are errors are values here, for what they mean depends on who asked. A fault is
//! about the connection itself; after one it must be dropped, because nobody knows any more which
//! reply belongs to which command.

use crate::clock::Deadline;
use crate::reply::refusal;
use crate::settings::Access;
use crate::socket::Socket;
use crate::url::HostPort;
use model::ports::presence::directory::DirectoryError;
use redis::{Parser, RedisError, Value};

/// A connection.
pub(crate) struct Wire {
    socket: Socket,
    parser: Parser,
    place: HostPort,
}

impl Wire {
    /// Connects, says who we are and chooses the database.
    pub(crate) fn open(
        place: &HostPort,
        access: &Access,
        deadline: Deadline,
    ) -> Result<Wire, DirectoryError> {
        let socket = Socket::open(place, access, deadline)?;
        let mut wire = Wire { socket, parser: Parser::new(), place: place.clone() };
        let mut greeting = Vec::new();
        let mut replies = 0;
        if let Some(password) = &access.account.password {
            match &access.account.user {
                Some(user) => pack(&mut greeting, &[b"AUTH", user.as_bytes(), password.as_bytes()]),
                None => pack(&mut greeting, &[b"AUTH", password.as_bytes()]),
            }
            replies += 1;
        }
        if access.db != 0 {
            pack(&mut greeting, &[b"SELECT", access.db.to_string().as_bytes()]);
            replies += 1;
        }
        if replies > 0 {
            wire.send(&greeting, deadline)?;
        }
        for _ in 0..replies {
            if let Value::ServerError(error) = wire.receive()? {
                return Err(refusal(&error));
            }
        }
        Ok(wire)
    }

    /// Address of the server.
    pub(crate) fn place(&self) -> &HostPort {
        &self.place
    }

    /// Sends commands, and says until when their replies must be here.
    pub(crate) fn send(&mut self, packed: &[u8], deadline: Deadline) -> Result<(), DirectoryError> {
        self.socket.begin(deadline);
        self.socket.send(packed)
    }

    /// Sets another time at which replies must be here.
    pub(crate) fn wait(&mut self, deadline: Deadline) {
        self.socket.begin(deadline);
    }

    /// The next reply.
    pub(crate) fn receive(&mut self) -> Result<Value, DirectoryError> {
        self.parser.parse_value(&mut self.socket).map_err(|error| self.misheard(&error))
    }

    /// One command and its reply.
    pub(crate) fn ask(
        &mut self,
        command: &[&[u8]],
        deadline: Deadline,
    ) -> Result<Value, DirectoryError> {
        let mut packed = Vec::new();
        pack(&mut packed, command);
        self.send(&packed, deadline)?;
        self.receive()
    }

    fn misheard(&mut self, error: &RedisError) -> DirectoryError {
        let nonsense = || {
            let text: String = error.to_string().chars().take(200).collect();
            DirectoryError::Nonsense(format!("{}: {text}", self.place))
        };
        self.socket.take_fault().unwrap_or_else(nonsense)
    }
}

/// Appends a command as it goes over the wire: an array of strings.
pub(crate) fn pack<A: AsRef<[u8]>>(out: &mut Vec<u8>, command: &[A]) {
    let head = |out: &mut Vec<u8>, sign: char, count: usize| {
        out.extend_from_slice(format!("{sign}{count}\r\n").as_bytes());
    };
    head(out, '*', command.len());
    for argument in command.iter().map(AsRef::as_ref) {
        head(out, '$', argument.len());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}
