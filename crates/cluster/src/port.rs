//! Commands of a log's state machine to the outside, and the events that it gets.
//!
//! Every question has a number and is answered at most once; an answer that does not come is given
//! up by the machine after [`ANSWER`]. The executor of commands keeps their order for each of three
//! kinds: the own log, the stream, everything else.

use crate::batch::{LogEnd, StreamBatch};
use crate::own_log::OwnLog;
use crate::wire::beat::LogBeat;
use crate::wire::table::LogEntry;
use model::id::NodeId;
use std::time::Duration;

/// Time without an answer after which the machine asks again, or asks the stream.
pub const ANSWER: Duration = Duration::from_secs(2);

/// The number of a question.
pub type Ask = u64;

/// Command of a log's state machine to the outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogCommand {
    /// Publish under the expected last sequence.
    Publish {
        /// To the stream of this generation.
        generation: u32,
        /// Which message of which round.
        number: PublishNumber,
        /// The sequence that the stream's last message must have.
        expected: u64,
        /// The message.
        message: Vec<u8>,
    },
    /// Read a stream.
    Read {
        /// The stream of this generation.
        generation: u32,
        /// The question.
        ask: Ask,
        /// First sequence to read; or the first of the stream, if that is higher.
        from: u64,
        /// Whether any replica may answer, as soon as something comes. Else its leader answers,
        /// at once.
        wait: bool,
    },
    /// Make the stream of a generation, if it is not there.
    Create {
        /// The generation.
        generation: u32,
        /// The question.
        ask: Ask,
    },
    /// Remove the stream of a generation that ended.
    Delete {
        /// The generation.
        generation: u32,
    },
    /// Purge a stream.
    Purge {
        /// The stream of this generation.
        generation: u32,
        /// The first sequence that stays.
        below: u64,
    },
    /// Change the log's value in the table by compare-and-set.
    Claim {
        /// The question.
        ask: Ask,
        /// The revision that the value must have.
        revision: u64,
        /// The new value.
        entry: LogEntry,
    },
    /// Ask the other copies how far they are.
    AskCopies {
        /// The question.
        ask: Ask,
    },
    /// Add a batch to the own log, behind its end, and sync it within a second.
    Append {
        /// The batch, which follows.
        batch: StreamBatch,
    },
    /// Cut the own log.
    Cut {
        /// End behind which the log is cut.
        behind: LogEnd,
    },
    /// The log is acknowledged up to here: remember it beside the log, without a sync.
    Mark {
        /// The index.
        index: u64,
    },
    /// Read batches of the own log.
    ReadLog {
        /// The question.
        ask: Ask,
        /// From the batch that begins with this index on.
        from: u64,
    },
    /// Replace the own log by another node's, as far as that is acknowledged and if it is not
    /// behind the own one by [`LogEnd::progress`]: its disk may be another since its last beat.
    Copy {
        /// The question.
        ask: Ask,
        /// Node whose log is copied.
        from: NodeId,
        /// End of the own log: what follows it is enough, if the other node has it; batches behind
        /// it are refused.
        have: LogEnd,
    },
    /// Serve the log: restore, and let writes begin.
    Open {
        /// The epoch of the node's Lead.
        epoch: u32,
    },
    /// Stop serving the log: end waits, send clients away.
    Close {
        /// Reason for closing.
        why: ClosedBy,
    },
    /// Answers to everything up to here may be given.
    Release {
        /// The index.
        index: u64,
    },
    /// Tell an operator.
    Tell(LogNotice),
}

/// Which message: answers name it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishNumber {
    /// The round; a new one begins where one is given up, and none comes again.
    pub round: u64,
    /// The number in the round.
    pub number: u32,
}

/// Why a log is not served any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClosedBy {
    /// Another node leads.
    Deposed,
    /// An operator asked for it.
    Asked,
    /// The disk failed.
    LogFailed,
}

/// Notice for an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogNotice {
    /// The log went on without records that had been acknowledged; the copy had them.
    AcknowledgedLost {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// The stream is nearly full, and is purged although one disk alone has its content.
    PurgedBehindOneDisk,
    /// A new generation of the stream begins.
    NewGeneration {
        /// Number of the generation.
        generation: u32,
    },
    /// The log is in no table. Nodes wait for `cluster recover`.
    WaitsForRecover,
}

/// Event for a log's state machine, from the outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogEvent {
    /// Time has passed.
    Tick,
    /// The table's value, as its watcher has it: none if there is none.
    Table {
        /// The revision.
        revision: u64,
        /// The value.
        entry: Option<LogEntry>,
    },
    /// The answer to [`LogCommand::Publish`]: the sequence.
    Published {
        /// Of the stream of this generation.
        generation: u32,
        /// Number of the message.
        number: PublishNumber,
        /// The sequence of the message.
        result: Result<u64, StreamError>,
    },
    /// The answer to [`LogCommand::Read`].
    Read {
        /// The question.
        ask: Ask,
        /// The page, or why the stream gave none.
        result: Result<StreamPage, StreamError>,
    },
    /// The answer to [`LogCommand::Create`].
    Created {
        /// The question.
        ask: Ask,
        /// Whether the stream is there. An answer that does not come is asked for again.
        result: Result<(), StreamError>,
    },
    /// The answer to [`LogCommand::Claim`]: the new revision, or none if the value had another.
    Claimed {
        /// The question.
        ask: Ask,
        /// The new revision.
        revision: Option<u64>,
    },
    /// An answer to [`LogCommand::AskCopies`].
    CopyState {
        /// The question.
        ask: Ask,
        /// Node that answers.
        node: NodeId,
        /// How far it is.
        state: LogBeat,
    },
    /// The own log is on the disk up to here.
    Synced {
        /// The index.
        index: u64,
    },
    /// The answer to [`LogCommand::ReadLog`].
    LogRead {
        /// The question.
        ask: Ask,
        /// The batches, to the end of the log.
        batches: Vec<StreamBatch>,
    },
    /// The answer to [`LogCommand::Copy`]: the own log as it is now, and up to which index it is
    /// what it was; none if it was not replaced.
    Copied {
        /// The question.
        ask: Ask,
        /// The log, and what was kept.
        log: Option<(OwnLog, u64)>,
    },
    /// The answer to [`LogCommand::Open`]; it does not come after [`LogCommand::Close`].
    Opened,
    /// The answer to [`LogCommand::Close`]: nothing is written any more, and every batch that is on
    /// the disk was reported by [`LogEvent::Written`] before.
    Closed,
    /// The log's writer has put a batch on the disk.
    Written {
        /// The batch.
        batch: StreamBatch,
    },
    /// The node's log failed: it refuses writes until a restart.
    LogFailed,
}

/// A part of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamPage {
    /// The sequence of the first message that the stream has; of an empty one, of the next.
    pub first: u64,
    /// The sequence of the last message that it has.
    pub last: u64,
    /// Messages, from the one that was asked for on.
    pub messages: Vec<(u64, Vec<u8>)>,
}

/// Why a stream did not do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// The last sequence is another one.
    Refused,
    /// The stream is full.
    Full,
    /// The stream does not exist. One that does not answer is [`StreamError::Silent`].
    Gone,
    /// The stream did not answer in time.
    Silent,
}
