//! Accounts that are erased: the command, and what is left.

use super::{HOME, World, person};
use model::account::AccountAddress;
use model::ports::chat::{ChatAnswer, ChatCommand, ErasureStatus};
use model::service::Service;

impl World {
    /// An operator wants somebody erased, or to know how far that is; as it is answered when
    /// everything is at rest.
    pub fn erases(&mut self, who: u32) -> Option<ErasureStatus> {
        self.asks_erasure(who);
        self.rest();
        match self.erasure_answers().pop() {
            Some(ChatAnswer::Erasing(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    /// The same without waiting: the process may die meanwhile.
    pub fn asks_erasure(&mut self, who: u32) {
        let address = person(who);
        let shards = self.shards.len() as u16;
        let shard = usize::from(base::hash::home(address.home_hash(HOME), shards));
        let (now, at) = (self.now, &mut self.shards[shard]);
        Service::command(&mut at.chat, now, 1, ChatCommand::Erase(address), &mut at.fx);
        self.collect(shard);
    }

    fn erasure_answers(&mut self) -> Vec<ChatAnswer> {
        let all = self.shards.iter_mut().flat_map(|shard| std::mem::take(&mut shard.answers));
        all.map(|(_, answer)| answer).collect()
    }

    /// Of which kinds what somebody said is that a device has.
    pub fn kinds(&self, at: usize, from: &AccountAddress) -> Vec<u16> {
        let said = self.devices[at].has.values().filter(|message| message.from == *from);
        said.map(|message| message.content.kind).collect()
    }

    /// So many things happen that are no wishes of devices, some of them kills; nothing is lost but
    /// by these.
    pub fn goes_on(&mut self, steps: u32, kills: bool) {
        self.calm = true;
        for _ in 0..steps {
            match self.rng.below(40) {
                0 if kills => self.dies(),
                1..=19 => {
                    let shard = self.a_shard();
                    self.shards[shard].log_works(&mut self.rng);
                    self.shards[shard].completes(self.now);
                    self.collect(shard);
                }
                20..=29 => self.a_bag_arrives(),
                _ => {
                    let shard = self.a_shard();
                    let ms = self.rng.below(1_500);
                    self.pass_ms(ms);
                    self.shards[shard].turn(self.now);
                    self.collect(shard);
                }
            }
        }
    }
}
