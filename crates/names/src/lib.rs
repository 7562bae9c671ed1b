//! DNS look-ups, on a thread of their own.
//!
//! Questions of all shards go through one bounded channel to a runtime of one thread, which asks
//! /etc/hosts and then the servers of /etc/resolv.conf; each asker chooses how its answers come
//! back. Records are remembered for as long as they say, absences for as long as their zone says
//! (RFC 2308), both within bounds. This crate does not know what an address is for, nor in which
//! order places are tried.
//!
//! Invariant: each question is answered once, in time, whatever the servers do.

use base::section;
use base::setting::{list, whole};
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{TokioResolver, system_conf};
use model::ports::names::{
    NameAnswer, NameFault, NameQuestion, NameRecords, NameResolver, ServiceRecord,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, Receiver, Sender};

section! {
    /// `[names]`: look-ups of hosts and services.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NameSettings {
        /// DNS servers; [] is those of /etc/resolv.conf.
        servers: Vec<String> = Vec::new(), list(
            8,
            "addresses with a port, such as \"192.0.2.53:53\"",
            |text| text.parse::<SocketAddr>().is_ok(),
        );
        /// Look-ups in progress or queued. One more fails at once.
        questions_max: u32 = 1_024, whole(1..=65_536, "questions");
        /// Cached answers, including negative ones. One more replaces one that is rarely used.
        answers_max: u32 = 10_000, whole(1..=1_000_000, "answers");
        /// Longest time that an answer is cached, whatever its TTL.
        answer_s_max: u32 = 86_400, whole(0..=604_800, "seconds");
        /// Longest time that a negative answer is cached.
        absence_s_max: u32 = 300, whole(0..=86_400, "seconds");
        /// Timeout of one server.
        server_ms_max: u32 = 2_000, whole(50..=30_000, "milliseconds");
    }
}

/// Records of one answer. Those beyond are left out.
const RECORDS_MAX: usize = 64;

/// How an answer goes back: the ticket, and what was found.
pub type TellName = Arc<dyn Fn(u64, NameAnswer) + Send + Sync>;

struct Asked {
    ticket: u64,
    question: NameQuestion,
    tell: TellName,
}

/// DNS resolver. Its thread ends when it and all who ask by it are dropped.
pub struct Resolver {
    ask: Sender<Asked>,
}

impl Resolver {
    /// Starts the thread. An error says what to change.
    pub fn start(settings: &NameSettings) -> Result<Resolver, String> {
        let questions_max = settings.questions_max as usize;
        let (ask, asked) = mpsc::channel(questions_max);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("names: no runtime: {error}"))?;
        let resolver = {
            let _inside = runtime.enter();
            resolver(settings)?
        };
        let serve = move || runtime.block_on(serve(asked, resolver, questions_max));
        let thread = std::thread::Builder::new().name("names".into()).spawn(serve);
        thread.map_err(|error| format!("names: cannot start a thread: {error}"))?;
        Ok(Resolver { ask })
    }

    /// A client of the resolver, whose answers go to `tell`, on another thread.
    pub fn asker(&self, tell: TellName) -> NameAsker {
        NameAsker { ask: self.ask.clone(), tell }
    }
}

/// Way to ask the look-up thread.
pub struct NameAsker {
    ask: Sender<Asked>,
    tell: TellName,
}

impl NameResolver for NameAsker {
    fn ask(&mut self, ticket: u64, question: NameQuestion) {
        let asked = Asked { ticket, question, tell: self.tell.clone() };
        if self.ask.try_send(asked).is_err() {
            (self.tell)(ticket, Err(NameFault::Busy));
        }
    }
}

fn resolver(settings: &NameSettings) -> Result<TokioResolver, String> {
    let wrong = |error: NetError| format!("names: {error}");
    let servers: Vec<SocketAddr> =
        settings.servers.iter().filter_map(|server| server.parse().ok()).collect();
    let (config, mut options) = match servers.as_slice() {
        // Where that cannot be read there is /etc/hosts alone.
        [] => {
            system_conf::read_system_conf().unwrap_or_else(|_| (told(&[]), ResolverOpts::default()))
        }
        servers => (told(servers), ResolverOpts::default()),
    };
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    options.timeout = Duration::from_millis(settings.server_ms_max.into());
    options.attempts = 1;
    options.cache_size = settings.answers_max.into();
    options.positive_max_ttl = Some(seconds(settings.answer_s_max));
    options.negative_max_ttl = Some(seconds(settings.absence_s_max));
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build().map_err(wrong)
}

/// Configuration with these servers, by UDP and, where an answer does not fit, TCP.
fn told(servers: &[SocketAddr]) -> ResolverConfig {
    let mut config = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
    for server in servers {
        let mut each = NameServerConfig::udp_and_tcp(server.ip());
        each.connections.iter_mut().for_each(|connection| connection.port = server.port());
        config.add_name_server(each);
    }
    config
}

/// Answers questions until nobody can ask any more.
async fn serve(mut asked: Receiver<Asked>, resolver: TokioResolver, questions_max: usize) {
    let room = Arc::new(Semaphore::new(questions_max));
    while let Some(Asked { ticket, question, tell }) = asked.recv().await {
        // Never closed. While all places are taken the channel fills, which says Busy.
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let resolver = resolver.clone();
        tokio::spawn(async move {
            let answer = answer(&resolver, &question).await;
            drop(place);
            tell(ticket, answer);
        });
    }
}

async fn answer(resolver: &TokioResolver, question: &NameQuestion) -> NameAnswer {
    let name = match question {
        NameQuestion::Addresses(name) => Name::from_ascii(name),
        // Of a service nobody asks beneath the own domain.
        NameQuestion::Services(name) => Name::from_ascii(name).map(|mut name| {
            name.set_fqdn(true);
            name
        }),
    };
    let name = name.map_err(|_| NameFault::Malformed)?;
    if name.num_labels() == 0 {
        return Err(NameFault::Malformed);
    }
    match question {
        NameQuestion::Addresses(_) => {
            let found = resolver.lookup_ip(name).await.map_err(|error| fault(&error))?;
            let all: Arc<[IpAddr]> = found.iter().take(RECORDS_MAX).collect();
            if all.is_empty() { Err(NameFault::Absent) } else { Ok(NameRecords::Addresses(all)) }
        }
        NameQuestion::Services(_) => {
            let found = resolver.lookup(name, RecordType::SRV).await;
            let found = found.map_err(|error| fault(&error))?;
            let records = found.answers().iter().filter_map(|record| match &record.data {
                RData::SRV(srv) => Some(ServiceRecord {
                    priority: srv.priority,
                    weight: srv.weight,
                    port: srv.port,
                    target: srv.target.to_ascii().trim_end_matches('.').into(),
                }),
                _ => None,
            });
            let all: Arc<[ServiceRecord]> = records.take(RECORDS_MAX).collect();
            if all.is_empty() { Err(NameFault::Absent) } else { Ok(NameRecords::Services(all)) }
        }
    }
}

/// Why there is no answer. Only an absence that a server has told is one.
fn fault(error: &NetError) -> NameFault {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain | ResponseCode::NoError => NameFault::Absent,
            _ => NameFault::Failed,
        },
        _ => NameFault::Failed,
    }
}

#[cfg(test)]
mod tests;
