//! Rates in bytes per second: limits to the storage that accounts, the source networks of their
//! devices, and domains of other servers use.
//!
//! An account's bytes are counted on its own shard. Devices of one network, and accounts of one
//! domain, are on all shards: each shard has an equal part of their limits. The number of messages
//! has a rate of its own elsewhere. Invariant: a refused request takes nothing from the rates that
//! are checked after the one that refused.

use crate::Settings;
use base::hash::HashKey;
use base::pace::buckets::Buckets;
use base::time::Now;
use model::account::AccountAddress;
use model::timeline::TimelineId;

/// Approximate storage of a message beside its content, bytes: envelope, records, and its entries
/// in two inboxes.
pub(crate) const BESIDE_BYTES: u64 = 512;

/// Token buckets of bytes.
pub(crate) struct ByteRates {
    accounts: Buckets<TimelineId>,
    sources: Buckets<u32>,
    domains: Buckets<u64>,
    home: HashKey,
}

/// The kind of rate that is exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Used {
    Account,
    Source,
    Domain,
}

/// The account whose message is to be stored.
#[derive(Clone, Copy)]
pub(crate) struct Storer<'a> {
    pub(crate) inbox: TimelineId,
    pub(crate) address: &'a AccountAddress,
    /// The account is of another server.
    pub(crate) is_foreign: bool,
    /// The network that the account's device connects from.
    pub(crate) source: Option<u32>,
}

impl ByteRates {
    pub(crate) fn new(settings: &Settings) -> ByteRates {
        let mut rates = ByteRates {
            accounts: Buckets::new((0, 0), 0),
            sources: Buckets::new((0, 0), 0),
            domains: Buckets::new((0, 0), 0),
            home: settings.home,
        };
        rates.configure(settings);
        rates
    }

    /// Applies changed limits.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        let (chat, shards) = (&settings.limits.chat, u64::from(settings.shards.max(1)));
        let most = chat.rates_known_max as usize;
        // A limit that is set stays at least 1, since 0 means no limit.
        let part = |all: u64| if all == 0 { 0 } else { (all / shards).max(1) };
        let of_sources = (part(chat.bytes_a_source_per_s), part(chat.bytes_a_source_burst));
        let of_domains = (part(chat.bytes_a_domain_per_s), part(chat.bytes_a_domain_burst));
        let of_accounts = (chat.bytes_an_account_per_s, chat.bytes_an_account_burst);
        self.accounts.set_rate(of_accounts, most);
        self.sources.set_rate(of_sources, most);
        self.domains.set_rate(of_domains, most);
    }

    /// Takes this many bytes. `Err`: the rate that is exceeded, and the milliseconds until it is
    /// not.
    pub(crate) fn take(
        &mut self,
        now: Now,
        storer: Storer<'_>,
        bytes: u64,
    ) -> Result<(), (Used, u32)> {
        let Storer { inbox, address, is_foreign, source } = storer;
        if is_foreign {
            // A domain can make names at no cost, so its accounts have no rates of their own.
            let domain = self.home.of(&[address.domain().as_bytes()]);
            return self.domains.take(now, domain, bytes).map_err(|ms| (Used::Domain, ms));
        }
        self.accounts.take(now, inbox, bytes).map_err(|ms| (Used::Account, ms))?;
        let of_source = source.map_or(Ok(()), |source| self.sources.take(now, source, bytes));
        of_source.map_err(|ms| (Used::Source, ms))
    }
}
