//! A session over one connection after another.

use crate::driver::{Driver, WAIT_MAX, random};
use crate::fault::{ConnectError, ConnectErrorKind};
use crate::link::Link;
use crate::scram::{self, ScramProof};
use crate::settings::Settings;
use crate::{BrokerAddress, clock};
use base::prng::Prng;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::link::Protocol;
use model::topic::{Publication, SubscriptionOptions};
use proto_mqtt::client::{
    Client, ClientOrder, ConnectAccepted, Farewell, Formula, MqttEvent, Profile,
};
use proto_mqtt::codec::ReasonCode;
use proto_mqtt::codec::block::Block;
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A session with a broker.
pub struct Session {
    settings: Settings,
    tls: Option<Arc<ClientConfig>>,
    driver: Driver<Client>,
    /// Events that were not polled yet.
    events: VecDeque<MqttEvent>,
    /// Subscriptions, made again when the broker has none.
    wishes: Vec<(SubscriptionOptions, Block)>,
    proof: Option<ScramProof>,
    /// How often in a row it went wrong.
    tries: u32,
    /// When to come back.
    return_at: Instant,
    token: u32,
    random: Prng,
    /// The broker's last words on this connection, and whether they were a refusal.
    farewell: Option<(Box<Farewell>, bool)>,
}

/// Tokens from here on are the session's own.
const OWN_TOKENS: u32 = 1 << 31;

impl Session {
    /// A session that is not connected. Reads the files of certificates.
    pub fn new(mut settings: Settings) -> Result<Session, ConnectError> {
        let tls = if settings.address.tls { Some(settings.trust.config()?) } else { None };
        let random = random()?;
        if settings.scram.is_some() {
            settings.profile.method = Some((scram::METHOD.into(), Box::default()));
        }
        Ok(Session {
            driver: Driver::new(Client::new(Arc::new(settings.profile.clone()), 0), Protocol::Mqtt),
            settings,
            tls,
            events: VecDeque::new(),
            wishes: Vec::new(),
            proof: None,
            tries: 0,
            return_at: Instant::default(),
            token: 0,
            random: Prng::new(u64::from_le_bytes(*random.first_chunk().expect("18 bytes"))),
            farewell: None,
        })
    }

    /// Whether the broker has accepted it.
    pub fn is_online(&self) -> bool {
        self.driver.is_open() && self.driver.machine.is_online()
    }

    /// Messages of QoS 1 and 2 that were not completed yet, those that wait included.
    pub fn under_way(&self) -> usize {
        self.driver.machine.under_way()
    }

    /// Profile of the client, with the client identifier that the broker gave.
    pub fn profile(&self) -> &Profile {
        self.driver.machine.profile()
    }

    /// The address that it calls.
    pub fn address(&self) -> &BrokerAddress {
        &self.settings.address
    }

    /// Connects now, and waits for the broker's yes.
    pub fn connect(&mut self) -> Result<Box<ConnectAccepted>, ConnectError> {
        self.try_connect().map_err(|fault| self.failed(fault))
    }

    /// The next event, after a wait of at most `span`. When the connection was lost, or a return
    /// failed, the fault is said once; where a return is wished, later polls go on.
    pub fn poll(&mut self, span: Duration) -> Result<Option<MqttEvent>, ConnectError> {
        let until = clock::now().after(span);
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let now = clock::now();
            if !self.driver.is_open() {
                self.come_back(now, until)?;
                if !self.driver.is_open() {
                    return Ok(None);
                }
                continue;
            }
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

    /// Connects when the time for it has come; else waits for that, or for `until`.
    fn come_back(&mut self, now: Now, until: Instant) -> Result<(), ConnectError> {
        if self.settings.retry.is_none() {
            return Err(ConnectError::new(
                ConnectErrorKind::Ended(CloseReason::PeerClosed),
                "not connected",
            ));
        }
        if now.mono < self.return_at {
            let at = self.return_at.min(until);
            if at > now.mono {
                std::thread::sleep((at - now.mono).min(WAIT_MAX));
            }
            if clock::now().mono < self.return_at {
                return Ok(());
            }
        }
        match self.try_connect() {
            Ok(accepted) => {
                self.events.push_front(MqttEvent::Connected(accepted));
                Ok(())
            }
            Err(fault) => Err(self.failed(fault)),
        }
    }

    /// Publishes; at QoS 1 and 2 it waits while there is no connection. The token comes back in
    /// [`MqttEvent::Published`].
    pub fn publish(&mut self, message: impl Into<Arc<Publication>>) -> u32 {
        let (token, message) = (self.take_token(), message.into());
        self.order(ClientOrder::Publish { token, message });
        token
    }

    /// Subscribes, and again whenever the broker has forgotten it. `properties` are those of the
    /// packet. The token comes back in [`MqttEvent::Subscribed`].
    pub fn subscribe(&mut self, wishes: Vec<SubscriptionOptions>, properties: Block) -> u32 {
        let token = self.take_token();
        for wish in &wishes {
            self.wishes.retain(|(old, _)| old.filter != wish.filter);
            self.wishes.push((wish.clone(), properties.clone()));
        }
        self.order(ClientOrder::Subscribe { token, wishes, properties });
        token
    }

    /// Ends subscriptions. The token comes back in [`MqttEvent::Unsubscribed`].
    pub fn unsubscribe(&mut self, filters: Vec<Box<str>>, properties: Block) -> u32 {
        let token = self.take_token();
        self.wishes.retain(|(wish, _)| !filters.contains(&wish.filter));
        self.order(ClientOrder::Unsubscribe { token, filters, properties });
        token
    }

    /// Acknowledges a message, where the profile leaves that to the caller.
    pub fn acknowledge(&mut self, token: u32, reason: ReasonCode) {
        self.order(ClientOrder::Ack { token, reason });
    }

    /// Says farewell and closes. It does not come back by itself any more until
    /// [`Session::connect`] is called.
    pub fn disconnect(&mut self, reason: ReasonCode, properties: Block) {
        self.order(ClientOrder::Disconnect { reason, properties });
        self.drop_link(CloseReason::OwnStop); // if it was not accepted yet
        self.settings.retry = None;
    }

    /// Whether something waits for the socket.
    pub fn is_writing(&self) -> bool {
        self.driver.is_writing()
    }

    /// Whether a poll has something at once.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Changes what it is; holds from the next connection on.
    fn change_profile(&mut self, change: impl FnOnce(&mut Profile)) {
        let mut profile = Profile::clone(self.profile());
        change(&mut profile);
        self.driver.machine.set_profile(Arc::new(profile));
    }

    fn take_token(&mut self) -> u32 {
        self.token = (self.token + 1) % OWN_TOKENS;
        self.token
    }

    fn order(&mut self, order: ClientOrder) {
        let now = clock::now();
        let told = self.driver.command(now, order);
        self.take_words(now);
        if let Err(reason) = told {
            self.drop_link(reason);
            self.return_at = now.mono;
        }
    }

    /// One connection, up to the broker's yes.
    fn try_connect(&mut self) -> Result<Box<ConnectAccepted>, ConnectError> {
        self.drop_link(CloseReason::OwnStop);
        self.farewell = None;
        self.prepare()?;
        let until = clock::now().after(self.settings.connect_timeout);
        let address = self.address().clone();
        let from = self.settings.from;
        let link = Link::open(&address, self.tls.as_ref(), from, until)?;
        let now = clock::now();
        let opened = self.driver.open(now, link);
        self.take_words(now);
        opened.map_err(|reason| self.ended(reason))?;
        loop {
            let now = clock::now();
            self.turn(now)?;
            let is_yes = |event: &MqttEvent| matches!(event, MqttEvent::Connected(_));
            if let Some(at) = self.events.iter().position(is_yes)
                && let Some(MqttEvent::Connected(accepted)) = self.events.remove(at)
            {
                return self.accepted(accepted);
            }
            if now.mono >= until {
                let text = format!("{address}: no CONNACK in time. Is it an MQTT broker?");
                return Err(ConnectError::new(ConnectErrorKind::TimedOut, text));
            }
            self.driver.wait(now, until);
        }
    }

    /// The profile of the next connection: a proof is made anew for each.
    fn prepare(&mut self) -> Result<(), ConnectError> {
        let Some(who) = &self.settings.scram else { return Ok(()) };
        let proof = ScramProof::new(who, random()?);
        let first = proof.first();
        self.change_profile(|profile| profile.method = Some((scram::METHOD.into(), first)));
        self.proof = Some(proof);
        Ok(())
    }

    fn accepted(
        &mut self,
        accepted: Box<ConnectAccepted>,
    ) -> Result<Box<ConnectAccepted>, ConnectError> {
        if let Some(proof) = self.proof.take()
            && !accepted.auth_data.as_ref().is_some_and(|last| proof.is_proved(last))
        {
            self.drop_link(CloseReason::AuthFailed);
            let text = "the broker could not prove that it knows the password: is the password \
                        right?";
            return Err(ConnectError::new(
                ConnectErrorKind::Refused(ReasonCode::NotAuthorized),
                text,
            ));
        }
        if let Some(given) = &accepted.client_id {
            let client_id = Formula::plain(given);
            self.change_profile(|profile| profile.client_id = client_id);
        }
        self.tries = 0;
        if !accepted.session_present {
            for at in 0..self.wishes.len() {
                let (wish, properties) = self.wishes[at].clone();
                let token = OWN_TOKENS;
                self.order(ClientOrder::Subscribe { token, wishes: vec![wish], properties });
            }
        }
        Ok(accepted)
    }

    /// Notes a failure, and when to come back.
    fn failed(&mut self, fault: ConnectError) -> ConnectError {
        self.drop_link(CloseReason::ConnectFailed);
        self.tries = self.tries.saturating_add(1);
        self.return_at = clock::now().after(self.pause(self.tries));
        fault
    }

    fn pause(&mut self, round: u32) -> Duration {
        let Some(retry) = self.settings.retry else { return Duration::ZERO };
        let doubled = retry.min.saturating_mul(1 << round.saturating_sub(1).min(16));
        let half = doubled.min(retry.max) / 2;
        half + Duration::from_nanos(self.random.below(half.as_nanos() as u64 + 1))
    }

    /// One look at the link and the clock.
    fn turn(&mut self, now: Now) -> Result<(), ConnectError> {
        let turned = self.driver.turn(now);
        self.take_words(now);
        turned.map_err(|reason| self.ended(reason))
    }

    /// Looks at what the machine said.
    fn take_words(&mut self, now: Now) {
        while let Some(word) = self.driver.words.pop_front() {
            self.note(now, word);
        }
    }

    /// Handles an event itself, or hands it on.
    fn note(&mut self, now: Now, word: MqttEvent) {
        match word {
            MqttEvent::Challenge(challenge) => {
                let answer = self.proof.as_mut().and_then(|proof| proof.answer(&challenge));
                let order = match answer {
                    Some(answer) => ClientOrder::Prove(answer),
                    None => ClientOrder::Disconnect {
                        reason: ReasonCode::UnspecifiedError,
                        properties: Block::default(),
                    },
                };
                if self.driver.command(now, order).is_err() {
                    self.drop_link(CloseReason::AuthFailed);
                }
            }
            // It may have come, or not: at QoS 1 and 2 it is better to send it again.
            MqttEvent::Lost { token, message: Some(message) } => {
                // Without a connection it waits for the next one.
                let _ = self.driver.command(now, ClientOrder::Publish { token, message });
            }
            MqttEvent::Subscribed { token: OWN_TOKENS, .. } | MqttEvent::Pong => {}
            MqttEvent::Refused(farewell) => self.farewell = Some((farewell, true)),
            MqttEvent::Disconnected(farewell) => self.farewell = Some((farewell, false)),
            word => self.events.push_back(word),
        }
    }

    /// The connection has ended; says why, with what the broker said.
    fn ended(&mut self, reason: CloseReason) -> ConnectError {
        let address = self.address().clone();
        self.drop_link(reason);
        let now = clock::now();
        self.return_at = now.after(self.pause(1));
        let Some((farewell, is_refusal)) = self.farewell.take() else {
            let text = format!("{address}: the connection ended: {}", reason.meaning());
            return ConnectError::new(ConnectErrorKind::Ended(reason), text);
        };
        ConnectError::said(&address, &farewell, is_refusal)
    }

    fn drop_link(&mut self, reason: CloseReason) {
        let now = clock::now();
        self.driver.drop_link(now, reason);
        self.take_words(now);
    }
}

impl Drop for Session {
    /// Without farewell: a will is published.
    fn drop(&mut self) {
        self.driver.forget_link();
    }
}
