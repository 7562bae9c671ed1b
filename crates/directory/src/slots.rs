//! Slot map of a Redis Cluster: which master has which slot.
//!
//! A key's slot is the CRC-16 of the key, or of what stands between its first braces (Redis Cluster
//! specification, "Hash tags"). The map is what some node said last, corrected by every MOVED
//! since; it may be wrong, and then a node says so instead of doing anything.

use crate::reply;
use crate::url::HostPort;
use model::ports::presence::directory::DirectoryError;
use redis::Value;

/// Slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;
/// Masters that a map may name: the index is kept in 16 bits.
const MASTERS_MAX: usize = 4_096;
/// No master.
const NONE: u16 = u16::MAX;

/// The slot of a key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    // CRC-16/XMODEM: polynomial 0x1021, from zero, no reflection.
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

/// The map.
#[derive(Default)]
pub(crate) struct SlotMap {
    masters: Vec<HostPort>,
    /// Index into `masters` of each slot; empty: nothing is known.
    of: Vec<u16>,
}

impl SlotMap {
    /// Reads an answer to CLUSTER SLOTS that came from this place.
    pub(crate) fn read(answer: Value, from: &HostPort) -> Result<SlotMap, DirectoryError> {
        let mut map = SlotMap { masters: Vec::new(), of: vec![NONE; usize::from(SLOTS)] };
        for range in reply::list(answer)? {
            let mut range = reply::list(range)?.into_iter();
            let mut next = || range.next().unwrap_or(Value::Nil);
            let (first, last) = (reply::number(next())?, reply::number(next())?);
            let mut master = reply::list(next())?.into_iter();
            let mut next = || master.next().unwrap_or(Value::Nil);
            let (host, port) = (reply::bytes(next())?, reply::number(next())?);
            if first > last || last >= u64::from(SLOTS) {
                return Err(DirectoryError::Nonsense(format!(
                    "a range of slots {first} to {last}"
                )));
            }
            let Some(place) = place(host, port, from) else { continue };
            let index = map.index(place)?;
            map.of[first as usize..=last as usize].fill(index);
        }
        if map.masters.is_empty() {
            return Err(DirectoryError::Refused(format!(
                "{from}: no node of the cluster has any slots"
            )));
        }
        Ok(map)
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The master of a slot.
    pub(crate) fn master(&self, slot: u16) -> Option<&HostPort> {
        self.masters.get(usize::from(*self.of.get(usize::from(slot))?))
    }

    /// All masters.
    pub(crate) fn masters(&self) -> &[HostPort] {
        &self.masters
    }

    /// A node said that this slot is there now.
    pub(crate) fn moved(&mut self, slot: u16, to: HostPort) -> Result<(), DirectoryError> {
        let index = self.index(to)?;
        if let Some(of) = self.of.get_mut(usize::from(slot)) {
            *of = index;
        }
        Ok(())
    }

    /// The lowest numbers whose keys, made by `key`, lie on each master that has slots.
    pub(crate) fn one_each(&self, key: impl Fn(u32) -> String) -> Vec<String> {
        let mut missing: Vec<bool> = vec![false; self.masters.len()];
        self.of.iter().filter(|of| **of != NONE).for_each(|of| missing[usize::from(*of)] = true);
        let mut left = missing.iter().filter(|missing| **missing).count();
        let mut keys = Vec::with_capacity(left);
        // Numbers hit a master with a single slot after 16,384 of them on average; one that is
        // not hit at all is watched by nobody, which costs a resync that would have been due.
        for key in (0..u32::from(SLOTS) * 16).map(key) {
            if left == 0 {
                break;
            }
            let of = self.of[usize::from(slot(key.as_bytes()))];
            if of != NONE && std::mem::take(&mut missing[usize::from(of)]) {
                keys.push(key);
                left -= 1;
            }
        }
        keys
    }

    fn index(&mut self, place: HostPort) -> Result<u16, DirectoryError> {
        let known = self.masters.iter().position(|master| *master == place);
        let index = known.unwrap_or(self.masters.len());
        if index >= MASTERS_MAX {
            return Err(DirectoryError::Nonsense(format!("more than {MASTERS_MAX} masters")));
        }
        if known.is_none() {
            self.masters.push(place);
        }
        Ok(index as u16)
    }
}

/// A node as answers name it; one that does not know its host means the host that was asked.
fn place(host: Option<Vec<u8>>, port: u64, from: &HostPort) -> Option<HostPort> {
    let host = match host.map(|host| String::from_utf8_lossy(&host).into_owned()) {
        Some(host) if host == "?" => return None,
        Some(host) if !host.is_empty() => host.into_boxed_str(),
        _ => from.host.clone(),
    };
    let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
    Some(HostPort { host, port })
}

/// Slot and place of the details of MOVED and ASK: `3999 127.0.0.1:6381`.
pub(crate) fn redirection(
    details: Option<&str>,
    from: &HostPort,
) -> Result<(u16, HostPort), DirectoryError> {
    let text = details.unwrap_or("");
    let read = || {
        let (slot, place) = text.split_once(' ')?;
        let (host, port) = place.rsplit_once(':')?;
        let host = Some(host.as_bytes().to_vec());
        let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
        Some((slot, self::place(host, port.parse().ok()?, from)?))
    };
    read().ok_or_else(|| DirectoryError::Nonsense(format!("{from}: a redirection `{text}`")))
}

#[cfg(test)]
mod tests;
