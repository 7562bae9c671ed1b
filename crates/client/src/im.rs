//! One device of an account, from a thread that waits.
//!
//! An [`ImSession`] is the client machine of `proto-im` with a link under it. It logs in once; when
//! the connection ends, that is an error, and whoever wants to come back logs in again.

use crate::driver::{Driver, random};
use crate::fault::{ConnectError, ConnectErrorKind};
use crate::link::Link;
use crate::scram::{self, ScramProof};
use crate::settings::Scram;
use crate::{BrokerAddress, Trust, clock};
use base::time::Now;
use model::chat::ClientMessageId;
use model::close::CloseReason;
use model::link::Protocol;
use proto_im::client::Client;
pub use proto_im::client::{
    ChatroomEntry, ChatroomTold, ImEvent, ImOrder, Profile, SaidEnd, Welcome,
};
pub use proto_im::codec::EndReason;
pub use proto_im::codec::push::{RegisteredPush, RegisteredPushes};
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// An id for a message that nobody else gives: a UUID of version 4 (RFC 9562 5.4).
pub fn client_message_id() -> Result<ClientMessageId, ConnectError> {
    let random = random()?;
    let mut id: [u8; 16] = *random.first_chunk().expect("18 bytes");
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    Ok(ClientMessageId(id))
}

/// Settings of a session of instant messaging.
#[derive(Clone)]
pub struct ImSettings {
    /// Where the server is.
    pub address: BrokerAddress,
    /// Certificates to trust, and the session's own.
    pub trust: Trust,
    /// Account, device and terms of the log-in.
    pub profile: Profile,
    /// A proof that does not show the password, in place of the profile's.
    pub scram: Option<Scram>,
    /// Time for name, connection, TLS, WebSocket and the answer to the login.
    pub connect_timeout: Duration,
}

/// A session of a device.
pub struct ImSession {
    settings: ImSettings,
    tls: Option<Arc<ClientConfig>>,
    driver: Driver<Client>,
    proof: Option<ScramProof>,
    /// Events that were not polled yet.
    events: VecDeque<ImEvent>,
    /// The server's last words on this connection.
    farewell: Option<SaidEnd>,
}

impl ImSession {
    /// A session that is not connected. Reads the files of certificates.
    pub fn new(settings: ImSettings) -> Result<ImSession, ConnectError> {
        let tls = if settings.address.tls { Some(settings.trust.config()?) } else { None };
        let client = Client::new(Arc::new(settings.profile.clone()));
        Ok(ImSession {
            settings,
            tls,
            driver: Driver::new(client, Protocol::Im),
            proof: None,
            events: VecDeque::new(),
            farewell: None,
        })
    }

    /// The address that it calls.
    pub fn address(&self) -> &BrokerAddress {
        &self.settings.address
    }

    /// Connects and logs in, and waits for the server's yes.
    pub fn login(&mut self) -> Result<Box<Welcome>, ConnectError> {
        self.drop_link(CloseReason::OwnStop);
        self.events.clear();
        self.farewell = None;
        self.prepare()?;
        let until = clock::now().after(self.settings.connect_timeout);
        let link = Link::open(&self.settings.address, self.tls.as_ref(), None, until)?;
        let now = clock::now();
        let opened = self.driver.open(now, link);
        self.take_words(now);
        opened.map_err(|reason| self.ended(reason))?;
        loop {
            let now = clock::now();
            self.turn(now)?;
            let is_yes = |event: &ImEvent| matches!(event, ImEvent::LoggedIn(_));
            if let Some(at) = self.events.iter().position(is_yes)
                && let Some(ImEvent::LoggedIn(welcome)) = self.events.remove(at)
            {
                return self.accepted(welcome);
            }
            if now.mono >= until {
                self.drop_link(CloseReason::OwnStop);
                let address = &self.settings.address;
                let text = format!("{address}: no answer to the login. Is it an IM server?");
                return Err(ConnectError::new(ConnectErrorKind::TimedOut, text));
            }
            self.driver.wait(now, until);
        }
    }

    /// The next event, after a wait of at most `span`. An error is the connection's end.
    pub fn poll(&mut self, span: Duration) -> Result<Option<ImEvent>, ConnectError> {
        let until = clock::now().after(span);
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if !self.driver.is_open() {
                return Err(self.ended(CloseReason::PeerClosed));
            }
            let now = clock::now();
            self.turn(now)?;
            if !self.events.is_empty() {
                continue;
            }
            let now = clock::now();
            if now.mono >= until {
                return Ok(None);
            }
            self.driver.wait(now, until);
        }
    }

    /// Does something. Its results are polled, an end of the connection too.
    pub fn order(&mut self, order: ImOrder) {
        let now = clock::now();
        let told = self.driver.command(now, order);
        self.take_words(now);
        if let Err(reason) = told {
            self.drop_link(reason);
        }
    }

    /// Whether something waits for the socket.
    pub fn is_writing(&self) -> bool {
        self.driver.is_writing()
    }

    /// A proof is made anew for each login.
    fn prepare(&mut self) -> Result<(), ConnectError> {
        let Some(who) = &self.settings.scram else { return Ok(()) };
        let proof = ScramProof::new(who, random()?);
        let method = Some((scram::METHOD.into(), proof.first()));
        let profile = Profile { method, ..self.settings.profile.clone() };
        self.driver.machine.set_profile(Arc::new(profile));
        self.proof = Some(proof);
        Ok(())
    }

    fn accepted(&mut self, welcome: Box<Welcome>) -> Result<Box<Welcome>, ConnectError> {
        if self.proof.take().is_some_and(|proof| !proof.is_proved(&welcome.data)) {
            self.drop_link(CloseReason::AuthFailed);
            let text = "the server could not prove that it knows the password: is the password \
                        right?";
            let what = ConnectErrorKind::Denied(EndReason::BadCredentials);
            return Err(ConnectError::new(what, text));
        }
        Ok(welcome)
    }

    fn turn(&mut self, now: Now) -> Result<(), ConnectError> {
        let turned = self.driver.turn(now);
        self.take_words(now);
        match turned {
            // What came before the end is polled first.
            Err(reason) if self.events.is_empty() => Err(self.ended(reason)),
            Err(reason) => {
                self.drop_link(reason);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn take_words(&mut self, now: Now) {
        while let Some(word) = self.driver.words.pop_front() {
            match word {
                ImEvent::Challenge(challenge) => {
                    let answer = self.proof.as_mut().and_then(|proof| proof.answer(&challenge));
                    let order = answer.map_or(ImOrder::Goodbye, ImOrder::Proceed);
                    if self.driver.command(now, order).is_err() {
                        self.drop_link(CloseReason::AuthFailed);
                    }
                }
                ImEvent::Refused(said) | ImEvent::End(said) => self.farewell = Some(said),
                ImEvent::Pong => {}
                word => self.events.push_back(word),
            }
        }
    }

    /// The connection has ended; says why, with what the server said.
    fn ended(&mut self, reason: CloseReason) -> ConnectError {
        self.drop_link(reason);
        let address = &self.settings.address;
        let Some(said) = self.farewell.take() else {
            let text = format!("{address}: the connection ended: {}", reason.meaning());
            return ConnectError::new(ConnectErrorKind::Ended(reason), text);
        };
        let (meaning, advice) = (said.reason.meaning(), advice(said.reason));
        let text = format!("{address}: the server answered {}: {meaning}{advice}", said.word);
        ConnectError::new(ConnectErrorKind::Denied(said.reason), text)
    }

    fn drop_link(&mut self, reason: CloseReason) {
        let now = clock::now();
        self.driver.drop_link(now, reason);
        self.take_words(now);
    }
}

/// Advice for a user whose log-in the server refused.
fn advice(reason: EndReason) -> &'static str {
    match reason {
        EndReason::BadCredentials | EndReason::NotAuthorized => {
            " Give a user and password (--user, --password), or check them."
        }
        EndReason::NameInvalid => {
            " Names consist of a to z, digits and . _ + - (--user, \
                                   --device)."
        }
        EndReason::TakenOver => " Give each client its own device (--device).",
        EndReason::Busy
        | EndReason::Full
        | EndReason::Rate
        | EndReason::Banned
        | EndReason::Unavailable
        | EndReason::ShuttingDown => " Try again later.",
        _ => "",
    }
}
