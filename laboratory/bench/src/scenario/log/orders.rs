//! Our log in processes of their own: filled and killed, opened again, touched widely.
//!
//! | order | answer |
//! | --- | --- |
//! | `fill FOLDER MIB never\|now` | `ready MESSAGES BYTES`, then waits to be killed |
//! | `open FOLDER MESSAGES` | `ready` and what opening took, as JSON |
//! | `touch FOLDER MOST HEADS` | `ready` and what each step held, as JSON |
//! | `append NAME FAN WINDOW SECONDS` | one contestant alone, as JSON; by hand, for a profiler |
//!
//! The word behind `fill` says when a checkpoint is made. A process of its own is what can be
//! killed, and whose memory is its own. Stored messages are read back: by `open` as after every
//! measurement, by `touch` a part of them.

use super::lane::Ordered;
use super::ours::{Direct, Tuning};
use super::rival::Rival;
use super::traffic::{Traffic, timeline, timelines};
use super::{append, disk, meter};
use crate::clock;
use crate::measure::memory::Memory;
use model::ports::log::{APPEND_SLICE, Append, Pull};
use model::timeline::{Message, TimelineId};
use serde_json::json;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Timelines of what is filled: every one gets several messages.
const TIMELINES: u32 = 1 << 16;
const FAN: u32 = 2;
/// Messages that are made durable at once.
const BATCH: u64 = 1_024;
/// Steps in which timelines are touched, in tenths of all.
const STEPS: [u32; 5] = [1, 3, 5, 8, 10];
/// Of so many touched timelines one is read back.
const READ_BACK: usize = 97;

/// Carries out an order that another process of this program gave.
pub fn run(words: &[String]) -> io::Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u32>().map_err(io::Error::other);
    match words[..] {
        ["fill", folder, mib, when] => fill(Path::new(folder), number(mib)?, when == "now"),
        ["open", folder, messages] => open(Path::new(folder), number(messages)?),
        ["touch", folder, most, heads] => {
            touch(Path::new(folder), number(most)?, number(heads)? as usize)
        }
        ["append", name, fan, window, seconds] => {
            let (window, seconds) = (number(window)? as usize, number(seconds)?);
            println!("{}", append::alone(name, number(fan)?, window, seconds)?);
            Ok(())
        }
        _ => Err(io::Error::other("fill, open, touch or append")),
    }
}

fn traffic() -> Traffic {
    Traffic::new(23, FAN, &timelines(TIMELINES))
}

/// Appends until the log's files have so many MiB, and waits.
fn fill(folder: &Path, mib: u32, checkpoint: bool) -> io::Result<()> {
    let tuning = Tuning { still: true, ..Tuning::default() };
    let (mut log, mut traffic) = (Direct::open_with(folder, &tuning)?, traffic());
    let bytes_wanted = u64::from(mib) << 20;
    while log.log_bytes() < bytes_wanted {
        commit(&mut log, (0..BATCH).map(|_| traffic.append()))?;
    }
    if checkpoint {
        log.checkpoint()?;
    }
    println!("ready {} {}", traffic.messages(), log.log_bytes());
    io::stdout().flush()?;
    // Whoever gave the order kills this process, or lets its input end; nothing is closed either
    // way.
    let _ = io::stdin().read_line(&mut String::new());
    std::process::exit(0)
}

fn commit(log: &mut Direct, appends: impl Iterator<Item = Append>) -> io::Result<()> {
    let batch: Vec<Ordered> = appends.map(|append| (append.message.id, append)).collect();
    for (ticket, answer) in log.commit(batch)? {
        answer.map_err(|error| io::Error::other(format!("append {ticket}: {error:?}")))?;
    }
    Ok(())
}

/// Opens what a killed process left, and reads it back.
fn open(folder: &Path, messages: u32) -> io::Result<()> {
    let read_before = disk::read_by_us()?;
    let (at, cpu) = (clock::now(), meter::process());
    let mut log = Direct::open_with(folder, &Tuning { still: true, ..Tuning::default() })?;
    let ms = clock::since(at).as_secs_f64() * 1e3;
    let (cpu, read) = (meter::process() - cpu, disk::read_by_us()? - read_before);
    let memory = Memory::of(std::process::id())?;
    let mut traffic = traffic();
    (0..messages).for_each(|_| drop(traffic.append()));
    let rows = log.audit(&traffic)?;
    let told = json!({
        "ms": ms, "cpu_ms": cpu.as_secs_f64() * 1e3, "bytes_read": read, "rows": rows,
        "rss": memory.rss, "found": log.found(),
    });
    println!("ready {told}");
    Ok(())
}

/// Gives each of `most` timelines a message, and says in steps what the process holds.
fn touch(folder: &Path, most: u32, heads: usize) -> io::Result<()> {
    let tuning = Tuning { heads_resident_max: Some(heads), ..Tuning::default() };
    let mut log = Direct::open_with(folder, &tuning)?;
    let (mut touched, mut steps) = (0, Vec::new());
    let began = clock::now();
    for tenths in STEPS {
        let upto = most / 10 * tenths;
        while touched < upto {
            let next = upto.min(touched + APPEND_SLICE as u32);
            let message = message_to(touched);
            let to = (touched..next).map(in_order).collect();
            commit(
                &mut log,
                std::iter::once(Append { message, to, once: None, heard: None, ends: false }),
            )?;
            touched = next;
        }
        log.checkpoint()?;
        meter::rest();
        let Memory { rss, private_dirty, .. } = Memory::of(std::process::id())?;
        steps.push(json!({
            "timelines": touched, "private_dirty": private_dirty, "rss": rss,
            "heads_resident": log.heads_resident(),
        }));
    }
    let (ms, cpu) = (clock::since(began).as_millis() as u64, meter::process());
    let read_back = read_back(&mut log, touched)?;
    let told = json!({
        "steps": steps, "ms": ms, "cpu_ns_a_timeline": cpu.as_nanos() as u64 / u64::from(touched),
        "read_back": read_back, "bytes": disk::bytes(folder)?,
    });
    println!("ready {told}");
    Ok(())
}

/// Timeline `number` of those that are touched: their ids rise, so that state is written in the
/// order that costs it least. The memory of a head does not depend on it.
fn in_order(number: u32) -> TimelineId {
    let mut id = timeline(number).to_bytes();
    id[1..5].copy_from_slice(&number.to_be_bytes());
    TimelineId::from_bytes(id).expect("its space is as it was")
}

fn message_to(first: u32) -> Arc<Message> {
    let (label, body) = (Box::default(), vec![first as u8; 200].into());
    Arc::new(Message { id: u64::from(first), at_s: 0, label, body })
}

/// Timelines that hold what they were given, of those that were looked at.
fn read_back(log: &mut Direct, touched: u32) -> io::Result<u64> {
    let mut count = 0;
    for number in (0..touched).step_by(READ_BACK) {
        let timeline = in_order(number);
        let (count_max, bytes_max) = (10, usize::MAX);
        let page = log.page(&Pull { timeline, from: 0, backwards: false, count_max, bytes_max })?;
        let first = number / APPEND_SLICE as u32 * APPEND_SLICE as u32;
        if page.len() != 1 || page[0].seq != 1 || page[0].message.id > u64::from(number) {
            return Err(io::Error::other(format!("timeline {number} ({first}) holds {page:?}")));
        }
        count += 1;
    }
    Ok(count)
}
