//! Devices of XMPP in groups, and what these tell some of their members.

use super::{World, person};
use model::account::AccountAddress;
use model::chat::{
    Affiliation, AffiliationItem, AsideWhat, ChatFault, ChatRequest, ClientMessageId, OccupancyAsk,
    OccupancyRequest, RoomChange,
};

impl World {
    /// Connects a device that gets its name after the login, as with XMPP.
    pub fn binds(&mut self, at: usize) {
        self.devices[at].binds = true;
        self.connect(at);
        self.rest();
        let device = Some(self.devices[at].name.as_str().into());
        let session = self.devices[at].session.expect("it is here");
        self.ask(at, ChatRequest::Bind { session, device });
        self.rest();
    }

    /// Gives accounts affiliations with a group, for reasons; returns the answer, when everything
    /// is at rest.
    pub fn affiliates(
        &mut self,
        at: usize,
        group: &AccountAddress,
        items: &[(u32, Affiliation, &str)],
    ) -> Result<(), ChatFault> {
        let items = items.iter().map(|(n, affiliation, reason)| AffiliationItem {
            account: person(*n).into(),
            affiliation: *affiliation,
            reason: (*reason).into(),
        });
        let change = RoomChange::Affiliations(items.collect());
        let session = self.devices[at].session.expect("it is here");
        let number = self.devices[at].number();
        let client_id = ClientMessageId((3 << 64 | u128::from(number)).to_be_bytes());
        let said = (self.devices[at].account.clone(), client_id);
        self.devices[at].waiting.insert(number, (said, String::new()));
        let ask = OccupancyAsk::Change { client_id, change };
        let asked = OccupancyRequest { session, number, group: group.clone().into(), ask };
        self.ask(at, ChatRequest::Room(Box::new(asked)));
        self.rest();
        self.devices[at].failed.take().map_or(Ok(()), Err)
    }

    /// Makes a device's request for voice in a group; returns the notices, when everything is at
    /// rest.
    pub fn asks_for_voice(&mut self, at: usize, group: &AccountAddress) -> Vec<(usize, String)> {
        let session = self.devices[at].session.expect("it is here");
        let group = Box::new(group.clone().into());
        self.ask(at, ChatRequest::Voice { session, group });
        self.rest();
        self.asides()
    }

    /// Notices of groups to single devices since the last call: the device, and account and content
    /// of the notice.
    pub fn asides(&mut self) -> Vec<(usize, String)> {
        let mut all = Vec::new();
        for (at, device) in self.devices.iter_mut().enumerate() {
            let told = device.asides.drain(..).map(|it| match &it.what {
                AsideWhat::Declined(why) => format!("{} declined: {why}", it.who),
                AsideWhat::Voice => format!("{} asks", it.who),
            });
            all.extend(told.map(|it| (at, it)));
        }
        all
    }
}
