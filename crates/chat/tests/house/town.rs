//! Shards that communicate, and devices on them.

use super::house::{House, plain};
use chat::Settings;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatRequest, PeopleAsk, PeopleRequest};
use model::id::{ConnRef, SessionRef, ShardId};
use model::service::Service;
use testkit::crossing::crossed;

#[derive(Clone, Copy)]
pub struct Device {
    pub shard: usize,
    pub conn: ConnRef,
    pub session: SessionRef,
}

pub struct Town(pub Vec<House>);

pub type Told = Vec<(ConnRef, ChatDelivery)>;

impl Town {
    /// This many shards, with these settings.
    pub fn of(shards: u16, settings: impl Fn(u16, u16) -> Settings) -> Town {
        Town((0..shards).map(|shard| House::of(settings(shard, shards))).collect())
    }

    /// The home shard of an account.
    pub fn home(&self, account: &AccountAddress) -> usize {
        let shards = self.0.len() as u16;
        usize::from(base::hash::home(account.home_hash(plain::HOME), shards))
    }

    /// A device of this account, which follows its contacts and is available.
    pub fn device_of(&mut self, account: AccountAddress, resource: &str) -> Device {
        let shard = self.home(&account);
        let conn = self.0[shard].conn(ShardId(shard as u16));
        let login = ChatRequest::Login(Box::new(plain::login(account, "")));
        let told = self.0[shard].ask(conn, login);
        let [(_, ChatDelivery::LoggedIn(logged_in))] = &told[..] else { panic!("{told:?}") };
        let device = Device { shard, conn, session: logged_in.session };
        let session = device.session;
        self.ask(device, ChatRequest::Bind { session, device: Some(resource.into()) });
        self.people(device, PeopleAsk::Contacts { after: None });
        self.people(device, PeopleAsk::Present(Some(Box::default())));
        device
    }

    pub fn people(&mut self, device: Device, ask: PeopleAsk) -> Told {
        let asked = PeopleRequest { session: device.session, number: 9, ask };
        self.ask(device, ChatRequest::People(Box::new(asked)))
    }

    pub fn ask(&mut self, device: Device, request: ChatRequest) -> Told {
        let told = self.0[device.shard].ask(device.conn, request);
        self.rest(told)
    }

    /// Delivers words between shards until none is left; returns the deliveries to devices.
    pub fn rest(&mut self, mut told: Told) -> Told {
        loop {
            let mut has_more = false;
            for from in 0..self.0.len() {
                for (to, word) in std::mem::take(&mut self.0[from].fx.peer_messages) {
                    let house = &mut self.0[usize::from(to.0)];
                    let from = ShardId(from as u16);
                    Service::peer_message(
                        &mut house.chat,
                        house.now,
                        from,
                        crossed(word),
                        &mut house.fx,
                    );
                    told.append(&mut house.rest());
                    has_more = true;
                }
            }
            if !has_more {
                return told;
            }
        }
    }
}
