//! Presence of members in groups, as devices send and get it.

use super::World;
use model::account::AccountAddress;
use model::chat::{AsideWhat, ChatRequest, GroupLook, LookAtGroup, MemberShow, Show};

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

    /// Disconnects a device; returns the presences that each device gets, when everything is at
    /// rest.
    pub fn goes_from_groups(&mut self, at: usize) -> Vec<(usize, Option<String>)> {
        self.devices.iter_mut().for_each(|device| device.shown.clear());
        self.disconnect(at);
        self.rest();
        self.shown()
    }

    /// Sends a device's presence; returns the presences that each device gets, when everything is
    /// at rest.
    pub fn shows(
        &mut self,
        at: usize,
        group: &AccountAddress,
        how: Option<(Show, &str)>,
    ) -> Vec<(usize, Option<String>)> {
        self.devices.iter_mut().for_each(|device| device.shown.clear());
        let session = self.devices[at].session.expect("it is here");
        let show = how.map(|(show, status)| MemberShow { show, status: status.into() });
        let (group, look) = (group.clone().into(), show.map_or(GroupLook::Ends, GroupLook::Shows));
        self.ask(at, ChatRequest::LookAtGroup(Box::new(LookAtGroup { session, group, look })));
        self.rest();
        self.shown()
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

    /// The status texts of presences that each device got, if any.
    fn shown(&self) -> Vec<(usize, Option<String>)> {
        let all = self.devices.iter().enumerate();
        let all = all.flat_map(|(at, device)| device.shown.iter().map(move |it| (at, it)));
        let words =
            all.map(|(at, it)| (at, it.status.show.as_ref().map(|it| it.status.to_string())));
        words.collect()
    }
}
