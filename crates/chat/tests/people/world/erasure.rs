//! Erasures of accounts: the command, and the result.

use super::{HOME, World, person};
use model::account::AccountAddress;
use model::ports::chat::{ChatAnswer, ChatCommand, ErasureStatus};
use model::service::Service;

impl World {
    /// Gives an operator's command to erase a person; returns the status, when everything is at
    /// rest.
    pub fn erases(&mut self, who: u32) -> Option<ErasureStatus> {
        self.asks_erasure(who);
        self.rest();
        match self.erasure_answers().pop() {
            Some(ChatAnswer::Erasing(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    /// Gives the command without waiting: the process may crash meanwhile.
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

    /// Kinds of the messages of this sender that a device has.
    pub fn kinds(&self, at: usize, from: &AccountAddress) -> Vec<u16> {
        let said = self.devices[at].has.values().filter(|message| message.from == *from);
        said.map(|message| message.content.kind).collect()
    }

    /// Lets this many events happen that are no requests of devices, some of them crashes; nothing
    /// else is lost.
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
