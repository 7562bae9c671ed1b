//! Moderation of chat: configuration's words become the desk that asks the hook, and the words of
//! the file.

use super::Mailboxes;
use super::reviews::{ReviewDesk, ReviewHook};
use crate::config::{ChatSection, Config};
use crate::shard_logic::Mail;
use crate::shard_logic::outside::Outside;
use chat::ReviewSettings;
use chat::words::{WORDS_FILE_BYTES_MAX, WordList, WordShelf};
use model::limits::ChatLimits;
use model::ports::requests::PortReply;
use model::ports::reviews::Reviewed;
use net::shard::ShardMessage;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// State shared by all shards.
pub struct Moderation {
    /// Caller of the hook, where there is one.
    pub desk: Option<Arc<ReviewDesk>>,
    /// The words in force.
    pub words: Arc<WordShelf>,
}

impl Moderation {
    /// Reads the file of words.
    pub fn new(config: &Config) -> Result<Moderation, String> {
        let words = Arc::new(WordShelf::default());
        words.put(words_of(&config.chat)?);
        let section = &config.chat;
        let desk = (!section.before_send_url.is_empty()).then(|| {
            ReviewDesk::new(ReviewHook {
                url: section.before_send_url.clone(),
                secret: section.before_send_secret.reveal().as_bytes().to_vec(),
                calls_max: section.before_send_calls_max,
                ms_max: section.before_send_ms_max,
                bytes_max: bytes_max(&section.limits),
            })
        });
        Ok(Moderation { desk, words })
    }

    /// How the service of a shard reviews messages.
    pub fn settings(&self, section: &ChatSection) -> Option<ReviewSettings> {
        self.desk.as_ref()?;
        let named = |kind: &Reviewed| section.before_send_kinds.iter().any(|it| it == kind.name());
        let kinds: Vec<Reviewed> = Reviewed::ALL.iter().copied().filter(named).collect();
        let (ms_max, unanswered) = (section.before_send_ms_max, section.before_send_unanswered);
        Some(ReviewSettings::of(&kinds, ms_max, unanswered))
    }

    /// Mailboxes are there: messages may be asked about.
    pub fn begin<O: Outside + Send + 'static>(&self, boxes: &Mailboxes<O>) -> Result<(), String> {
        let Some(desk) = &self.desk else { return Ok(()) };
        let boxes = boxes.clone();
        let tell = move |(service, shard): (_, model::id::ShardId), number, verdict| {
            let mailbox = &boxes[usize::from(shard.0)];
            // One that is full loses it: the service has a time for each.
            let reply = Mail::PortReply(service, number, PortReply::Review(verdict));
            drop(mailbox.put(ShardMessage::Mail(reply)));
            mailbox.ring();
        };
        desk.start(Box::new(tell)).map_err(|error| format!("cannot start the hook thread: {error}"))
    }

    /// Sets other limits.
    pub fn set_limits(&self, limits: &ChatLimits) {
        if let Some(desk) = &self.desk {
            desk.set_bytes_max(bytes_max(limits));
        }
    }

    /// Reads the file of words again.
    pub fn reload(&self, section: &ChatSection) -> Result<usize, String> {
        let list = words_of(section)?;
        let count = list.len();
        self.words.put(list);
        Ok(count)
    }

    /// Stops asking the hook.
    pub fn close(&self) {
        if let Some(desk) = &self.desk {
            desk.close();
        }
    }
}

/// Bytes that the hook may put in place of a message.
fn bytes_max(limits: &ChatLimits) -> u64 {
    u64::from(limits.text_bytes_max) + u64::from(limits.extra_bytes_max)
}

/// Fault of the file of words.
pub fn unusable(config: &Config) -> Option<String> {
    words_of(&config.chat).err()
}

fn words_of(section: &ChatSection) -> Result<WordList, String> {
    let Some(path) = &section.words_file else { return Ok(WordList::none()) };
    let wrong = |why: String| format!("[chat] words_file {}: {why}", path.display());
    let file = read(path).map_err(|error| wrong(error.to_string()))?;
    WordList::parse(&file).map_err(|fault| wrong(fault.to_string()))
}

/// Reads the file, up to one byte more than it may have.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(WORDS_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
