//! One of several shards, over a log in memory that outlives its service.

use base::time::Now;
use chat::{ChatService, Effects, Settings};
use model::id::ShardId;
use model::service::Service;
use testkit::log::{LogOptions, MemoryLog};

pub struct Shard {
    pub chat: ChatService,
    pub fx: Effects,
    pub log: MemoryLog,
}

impl Shard {
    pub fn new(settings: &Settings, n: u16) -> Shard {
        let (chat, log) = (service(settings, n), MemoryLog::new(LogOptions::default()));
        Shard { chat, fx: Effects::default(), log }
    }

    /// Kills the shard, and starts it again from its log.
    pub fn restart(&mut self, now: Now, settings: &Settings, n: u16) {
        (self.chat, self.fx) = (service(settings, n), Effects::default());
        self.log.restoration().each(|restored| {
            assert!(Service::restore(&mut self.chat, now, restored), "it is its own");
            true
        });
        Service::restored(&mut self.chat, now, &mut self.fx);
    }
}

fn service(settings: &Settings, n: u16) -> ChatService {
    ChatService::new(Settings { shard: ShardId(n), ..settings.clone() })
}
