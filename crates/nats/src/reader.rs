//! Pages of a stream, from a sequence on.
//!
//! The stream's leader says where it begins and ends; its messages come from a consumer, which is
//! kept for the next page. Invariant: the messages of a page have consecutive sequences and begin
//! with the one that was asked for, or with the stream's first if that is later.

use crate::NatsError;
use crate::api::ANSWER;
use crate::consumer::{Consumer, Delivered, Said, Start};
use crate::stream;
use async_nats::Client;

/// Messages of a page, at most ...
const PAGE: usize = 64;

/// ... and bytes, about.
const PAGE_BYTES: usize = 4 << 20;

/// Number of pages of a consumer after which the stream's leader is asked where the stream begins.
const LOOK_EVERY: u32 = 32;

/// The question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamRead {
    /// The stream.
    pub stream: String,
    /// First sequence to read; or the first of the stream, if that is higher.
    pub from: u64,
    /// Whether to wait for a message, some seconds. Else the page is what is there by the stream's
    /// leader.
    pub wait: bool,
}

/// A part of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamSlice {
    /// The sequence of the first message that the stream has; of an empty one, of the next.
    pub first: u64,
    /// The sequence of the last message that it has.
    pub last: u64,
    /// Messages, from the one that was asked for on.
    pub messages: Vec<(u64, Vec<u8>)>,
}

/// A consumer that goes on where the last page ended.
pub(crate) struct Kept {
    consumer: Consumer,
    next: u64,
    /// The first sequence of the stream, as it was known last.
    first: u64,
    pages: u32,
}

/// Reads a page; the consumer for the next one, if it is of use.
pub(crate) async fn page(
    client: &Client,
    read: &StreamRead,
    kept: Option<Kept>,
) -> (Result<StreamSlice, NatsError>, Option<Kept>) {
    let fits = |it: &Kept| it.consumer.stream() == read.stream && it.next == read.from;
    let mut kept = kept.filter(fits);
    let is_known = read.wait && kept.as_ref().is_some_and(|it| it.pages < LOOK_EVERY);
    let mut ends = None;
    if !is_known {
        match stream::state(client, &read.stream).await {
            Ok(state) => ends = Some((state.first, state.last)),
            Err(error) => return (Err(error), None),
        }
        if let (Some(kept), Some((first, _))) = (&mut kept, ends) {
            (kept.first, kept.pages) = (first, 0);
        }
    }
    if let Some((first, last)) = ends {
        let from = read.from.max(first);
        let is_behind = kept.as_ref().is_some_and(|it| it.next != from);
        kept = kept.filter(|_| !is_behind);
        if from > last && (!read.wait || from > read.from.max(1)) {
            return (Ok(StreamSlice { first, last, messages: Vec::new() }), kept);
        }
        if kept.is_none() {
            match Consumer::create(client, &read.stream, Start::At(from)).await {
                Ok(consumer) => kept = Some(Kept { consumer, next: from, first, pages: 0 }),
                Err(error) => return (Err(error), None),
            }
        }
    }
    let mut kept = kept.expect("one that fits, or one that was made");
    kept.pages += 1;
    match read.wait {
        true => waiting(client, kept).await,
        false => to_end(client, kept, ends.map_or(0, |(_, last)| last)).await,
    }
}

/// Messages up to a sequence that the stream's leader named.
async fn to_end(
    client: &Client,
    mut kept: Kept,
    last: u64,
) -> (Result<StreamSlice, NatsError>, Option<Kept>) {
    let first = kept.first;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while kept.next <= last && messages.len() < PAGE && bytes < PAGE_BYTES {
        let next = tokio::time::timeout(ANSWER, kept.consumer.next(client)).await;
        match next.unwrap_or(Err(NatsError::Silent)) {
            Ok(Said::Message(delivered)) if delivered.sequence == kept.next => {
                bytes += delivered.message.payload.len();
                kept.next += 1;
                messages.push((delivered.sequence, delivered.message.payload.to_vec()));
            }
            Ok(Said::Idle) => {}
            Ok(Said::Message(_)) | Err(_) if messages.is_empty() => {
                return (lost(client, &kept).await, None);
            }
            Ok(Said::Message(_)) | Err(_) => {
                return (Ok(StreamSlice { first, last, messages }), None);
            }
        }
    }
    (Ok(StreamSlice { first, last, messages }), Some(kept))
}

/// Messages that are there, or the next that comes.
async fn waiting(
    client: &Client,
    mut kept: Kept,
) -> (Result<StreamSlice, NatsError>, Option<Kept>) {
    let first = kept.first;
    let (mut messages, mut bytes, mut last) = (Vec::new(), 0, kept.next - 1);
    while messages.len() < PAGE && bytes < PAGE_BYTES {
        let next = match messages.is_empty() {
            true => kept.consumer.next(client).await,
            false => kept.consumer.next_now(client).await,
        };
        match next {
            Ok(Said::Message(Delivered { sequence, pending, message }))
                if sequence == kept.next =>
            {
                bytes += message.payload.len();
                kept.next += 1;
                last = sequence + pending;
                messages.push((sequence, message.payload.to_vec()));
            }
            Ok(Said::Idle) if messages.is_empty() => return idle(client, kept).await,
            Ok(Said::Idle) => break,
            Ok(Said::Message(_)) | Err(_) if messages.is_empty() => {
                return (lost(client, &kept).await, None);
            }
            Ok(Said::Message(_)) | Err(_) => {
                return (Ok(StreamSlice { first, last, messages }), None);
            }
        }
    }
    (Ok(StreamSlice { first, last, messages }), Some(kept))
}

/// Asks the stream's leader why messages did not come: they are purged or gone, or the consumer's
/// server is away.
async fn lost(client: &Client, kept: &Kept) -> Result<StreamSlice, NatsError> {
    let state = stream::state(client, kept.consumer.stream()).await?;
    match state.first > kept.next {
        true => Ok(StreamSlice { first: state.first, last: state.last, messages: Vec::new() }),
        false => Err(NatsError::Silent),
    }
}

/// Handles a silence of some seconds: asks the stream's leader, which may know better.
async fn idle(client: &Client, mut kept: Kept) -> (Result<StreamSlice, NatsError>, Option<Kept>) {
    let state = match stream::state(client, kept.consumer.stream()).await {
        Ok(state) => state,
        Err(error) => return (Err(error), None),
    };
    (kept.first, kept.pages) = (state.first, 0);
    let page = StreamSlice { first: state.first, last: state.last, messages: Vec::new() };
    let is_late = state.last >= kept.next;
    (Ok(page), Some(kept).filter(|_| !is_late))
}
