//! How members of groups are there, as devices say and are told.

use super::World;
use model::account::AccountAddress;
use model::chat::{AsideWhat, ChatRequest, GroupLook, LookAtGroup, MemberShow, Show};

impl World {
    /// A device comes that is given its name when it is here, as those of XMPP are.
    pub fn binds(&mut self, at: usize) {
        self.devices[at].binds = true;
        self.connect(at);
        self.rest();
        let device = Some(self.devices[at].name.as_str().into());
        let session = self.devices[at].session.expect("it is here");
        self.ask(at, ChatRequest::Bind { session, device });
        self.rest();
    }

    /// A device goes; what each device is told, when everything is at rest.
    pub fn goes_from_groups(&mut self, at: usize) -> Vec<(usize, Option<String>)> {
        self.devices.iter_mut().for_each(|device| device.shown.clear());
        self.disconnect(at);
        self.rest();
        self.shown()
    }

    /// A device says how it is there; what each device is told, when everything is at rest.
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

    /// A device asks for voice in a group; what each device is told, when everything is at rest.
    pub fn asks_for_voice(&mut self, at: usize, group: &AccountAddress) -> Vec<(usize, String)> {
        let session = self.devices[at].session.expect("it is here");
        let group = Box::new(group.clone().into());
        self.ask(at, ChatRequest::Voice { session, group });
        self.rest();
        self.asides()
    }

    /// What groups have told each device alone since this was asked last: whom it is about, and
    /// what.
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

    /// What each device was told: the words with which somebody is there, if any.
    fn shown(&self) -> Vec<(usize, Option<String>)> {
        let all = self.devices.iter().enumerate();
        let all = all.flat_map(|(at, device)| device.shown.iter().map(move |it| (at, it)));
        let words =
            all.map(|(at, it)| (at, it.status.show.as_ref().map(|it| it.status.to_string())));
        words.collect()
    }
}
