//! Rates in bytes: how much accounts, the sources that their devices come from, and domains of
//! other servers have stored.
//!
//! An account's bytes are counted on its own shard. Devices of one source, and names of one domain,
//! are on all of them: each shard has an equal part of what those may. It does not know how many
//! messages that is: those have a rate of their own. Invariant: what is refused took nothing of
//! whatever comes behind it.

use crate::Settings;
use base::hash::HashKey;
use base::pace::buckets::Buckets;
use base::time::Now;
use model::account::AccountAddress;
use model::timeline::TimelineId;

/// What is stored of a message beside what it says, bytes, about: its envelope, its records, and
/// what stands of it in two inboxes.
pub(crate) const BESIDE_BYTES: u64 = 512;

/// Buckets of bytes.
pub(crate) struct ByteRates {
    accounts: Buckets<TimelineId>,
    sources: Buckets<u32>,
    domains: Buckets<u64>,
    home: HashKey,
}

/// Whose rate is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Used {
    Account,
    Source,
    Domain,
}

/// Who has something stored.
#[derive(Clone, Copy)]
pub(crate) struct Storer<'a> {
    pub(crate) inbox: TimelineId,
    pub(crate) address: &'a AccountAddress,
    /// It is of another server.
    pub(crate) is_foreign: bool,
    /// Where its device came from.
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

    /// From now on other limits are in force.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        let (chat, shards) = (&settings.limits.chat, u64::from(settings.shards.max(1)));
        let most = chat.rates_known_max as usize;
        // A rate that is set never becomes none.
        let part = |all: u64| if all == 0 { 0 } else { (all / shards).max(1) };
        let of_sources = (part(chat.bytes_a_source_per_s), part(chat.bytes_a_source_burst));
        let of_domains = (part(chat.bytes_a_domain_per_s), part(chat.bytes_a_domain_burst));
        let of_accounts = (chat.bytes_an_account_per_s, chat.bytes_an_account_burst);
        self.accounts.set_rate(of_accounts, most);
        self.sources.set_rate(of_sources, most);
        self.domains.set_rate(of_domains, most);
    }

    /// Takes so many bytes. `Err`: whose rate is used up, and after how many milliseconds it is
    /// not.
    pub(crate) fn take(
        &mut self,
        now: Now,
        storer: Storer<'_>,
        bytes: u64,
    ) -> Result<(), (Used, u32)> {
        let Storer { inbox, address, is_foreign, source } = storer;
        if is_foreign {
            // Names of a domain cost it nothing: of those none has a rate of its own.
            let domain = self.home.of(&[address.domain().as_bytes()]);
            return self.domains.take(now, domain, bytes).map_err(|ms| (Used::Domain, ms));
        }
        self.accounts.take(now, inbox, bytes).map_err(|ms| (Used::Account, ms))?;
        let of_source = source.map_or(Ok(()), |source| self.sources.take(now, source, bytes));
        of_source.map_err(|ms| (Used::Source, ms))
    }
}
