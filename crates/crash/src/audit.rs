//! The audit's visits: devices come while nothing is asked, and everything that waits must come.
//!
//! A visit that drains acknowledges all of it, one that peeks nothing. A push that the server
//! announces and then does not send is wrong by itself; the book judges the rest.

use crate::api::{Api, Reply};
use crate::book::fact::{Ack, Fact, Visit};
use crate::clock;
use crate::dice::Dice;
use crate::line::{Came, Heard, Line};
use crate::load::Scene;
use crate::plan::{CROWD, DeviceNumber, GROUPS, members, names, version};
use proto_miop::codec::Version;
use std::collections::HashSet;
use std::time::Duration;

/// Pushes that may be unacknowledged on a connection, as the products are configured.
const WINDOW: usize = 1_024;
/// Acknowledged at once while a visit drains.
const ACK_COUNT: usize = 256;
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest visit, if the server says that more will come and nothing does.
const WAITS_MAX_US: u64 = 30_000_000;
/// Silence after which nothing more comes of what was there before.
const SILENCE: Duration = Duration::from_millis(1_000);
/// That silence for classic versions, whose count is asked for beforehand and is wrong more often.
const SILENCE_CLASSIC: Duration = Duration::from_millis(400);

/// Which devices are visited, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Some are drained, some peeked at, some left alone.
    Some,
    /// All are drained.
    All,
}

/// Visits devices of the crowd and `fleeting` ones.
pub fn run(scene: &Scene, depth: Depth, fleeting: &[DeviceNumber], dice: &mut Dice) -> Vec<Fact> {
    let api = Api::new(scene.api);
    let mut facts = Vec::new();
    for device in (0..CROWD).chain(fleeting.iter().copied()) {
        let group = (0..GROUPS).find(|group| members(*group).contains(&device));
        // A server that forgets tags is told them again by each member's Bind.
        let tag = group.filter(|_| !scene.tags).map(|group| format!("group-{group}"));
        let throw = dice.below(100);
        let drains = depth == Depth::All || throw < 25;
        if !drains && throw >= 40 && tag.is_none() {
            continue;
        }
        match visit(scene, &api, (device, tag.as_deref()), drains) {
            Ok(visit) => facts.push(Fact::Visited(visit)),
            Err(text) => {
                let text = format!("device {device}: {text}");
                facts.push(Fact::Wrong("a device could not have what waits for it", text));
            }
        }
    }
    facts
}

fn visit(
    scene: &Scene,
    api: &Api,
    (device, tag): (DeviceNumber, Option<&str>),
    drains: bool,
) -> Result<Visit, String> {
    let told = |error: std::io::Error| error.to_string();
    // Classic versions announce no count, so the API is asked before the device comes. What is
    // announced may expire before it is sent, so silence ends a visit too; what is missing then is
    // for the book to judge.
    let silence = if version(device) == Version::V7 { SILENCE } else { SILENCE_CLASSIC };
    let known = match version(device) {
        Version::V7 => 0,
        _ => waiting(api, device)?,
    };
    let (acks, came) = (Vec::new(), Vec::new());
    let (began_at, epoch) = (clock::now_us(), None);
    let mut visit = Visit { device, began_at, epoch, full: true, came, acks };
    let (product, name) = names(device);
    let named = (device, product.as_str(), name.as_str());
    let bound = Line::bind_patiently(scene.devices, named, tag.as_slice());
    let (mut line, answer) = bound.map_err(told)?;
    let announced = match answer {
        Some(Heard::Bound { waiting: announced, epoch }) => {
            visit.epoch = epoch;
            announced.map_or(known, |count| count as usize)
        }
        other => return Err(format!("its Bind was answered by {other:?}")),
    };
    let (mut ids, mut open) = (HashSet::new(), Vec::new());
    let enough = if drains { announced } else { announced.min(WINDOW) };
    // An order that a start resumes may bring another push meanwhile, ahead of those announced.
    let is_over = |ids: &HashSet<u64>, open: &[u64]| {
        let all_came = ids.len() >= enough;
        let is_peek = enough < announced;
        Ok::<bool, String>(all_came && (is_peek || waiting(api, device)? <= open.len()))
    };
    while !is_over(&ids, &open)? {
        match line.hear(silence).map_err(told)? {
            Some(Heard::Push(came)) => take(came, &mut visit, &mut ids, &mut open),
            // A busy machine is silent, too: whether more will come than what was not acknowledged
            // the server knows.
            None if clock::now_us() - began_at < WAITS_MAX_US
                && waiting(api, device)? > open.len() => {}
            None => break,
            other => {
                let count = ids.len();
                return Err(format!("{announced} announced, {count} came, then {other:?}"));
            }
        }
        if drains && open.len() >= ACK_COUNT {
            acknowledge(&mut line, &mut visit, &mut open).map_err(told)?;
        }
    }
    visit.full = enough == announced;
    if drains {
        acknowledge(&mut line, &mut visit, &mut open).map_err(told)?;
    }
    line.ping().map_err(told)?;
    loop {
        match line.hear(PATIENCE).map_err(told)? {
            Some(Heard::Pong) => break,
            Some(Heard::Push(came)) => take(came, &mut visit, &mut ids, &mut open),
            other => return Err(format!("its heartbeat was answered by {other:?}")),
        }
    }
    let now = clock::now_us();
    visit.acks.iter_mut().for_each(|ack| ack.read_at = Some(now));
    Ok(visit)
}

fn waiting(api: &Api, device: DeviceNumber) -> Result<usize, String> {
    let (product, name) = names(device);
    match api.get(&format!("/v1/products/{product}/devices/{name}")) {
        Reply::Done(value) => Ok(value["waiting"].as_u64().unwrap_or(0) as usize),
        Reply::Refused(404, _) => Ok(0),
        other => Err(format!("its state is {other:?}")),
    }
}

fn take(came: Came, visit: &mut Visit, ids: &mut HashSet<u64>, open: &mut Vec<u64>) {
    if ids.insert(came.id) {
        open.push(came.id);
    }
    visit.came.push(came);
}

fn acknowledge(line: &mut Line, visit: &mut Visit, open: &mut Vec<u64>) -> std::io::Result<()> {
    if open.is_empty() {
        return Ok(());
    }
    line.acknowledge(open)?;
    visit.acks.extend(open.drain(..).map(|id| Ack { id, read_at: None }));
    Ok(())
}
