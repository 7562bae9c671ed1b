//! `holdline cluster`: a cluster and its nodes, by NATS and this node's data folder.
//!
//! Each command says what it will do and asks before it does it; `--yes` answers. It ends with 0,
//! with 2 if it could not be done, with 3 if the answer was no, and with 4 if it is done but waits
//! for a node that is away.

use crate::client::consent::consent;
use crate::client::moment;
use base::secret::ClusterSecret;
use clap::{Args, Subcommand};
use model::id::NodeId;
use server::config::{Config, environment};
use server::start::cluster::tools::{self, ClusterPlan, LOGS_MAX};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code of a command that failed.
const CANNOT: u8 = 2;

/// Exit code of a change that is wanted, and waits for a node that is away.
const AWAY: u8 = 4;

/// Arguments of `holdline cluster`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Configuration file with the section [cluster]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Data folder of this node, instead of server.data
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// Do not ask
    #[arg(long, global = true)]
    yes: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Create a cluster whose first node this is; its data folder, if it has one, becomes the
    /// cluster's data
    Create {
        /// Number of logs, which never changes; by default those of the data folder, or one per
        /// core
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(LOGS_MAX)))]
        logs: Option<u16>,
    },
    /// Add this node to a cluster; it copies the cluster's data when it is started
    Join {
        /// File with the secret of the cluster, as `holdline store secret --reveal` prints it at
        /// another node; -: standard input
        #[arg(long, value_name = "FILE")]
        secret: Option<PathBuf>,
        /// Number of the node; by default the lowest that is free
        #[arg(long, value_parser = node)]
        node: Option<NodeId>,
        /// Create the cluster if there is none, and do nothing if the data folder belongs to a node
        /// already: for containers, before each start
        #[arg(long, conflicts_with = "node")]
        or_create: bool,
    },
    /// List the nodes, who leads, and the logs
    List,
    /// Move the lead to a node that follows
    Promote {
        /// Number of the node
        #[arg(value_parser = node)]
        node: NodeId,
    },
    /// Remove a node that does not lead
    Remove {
        /// Number of the node
        #[arg(value_parser = node)]
        node: NodeId,
        /// Only make the data folder here, which must be that node's, one of a server that is alone
        #[arg(long)]
        alone: bool,
    },
    /// Make the table and the streams anew from this node's data, after NATS lost them; or write
    /// damaged values of the table anew
    Recover,
    /// List acknowledged records that logs of this node's data folder went on without
    Lost {
        /// You have seen them: the alarm ends
        #[arg(long)]
        seen: bool,
    },
}

/// Carries out the command; its result is in the exit code.
pub fn cluster(arguments: Arguments) -> ExitCode {
    match run(arguments) {
        Ok(code) => code,
        Err(why) => {
            note!("{}", why.trim_end());
            ExitCode::from(CANNOT)
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, String> {
    let Arguments { command, config, data, yes } = arguments;
    let config = Config::load(config.as_deref(), environment());
    let mut config = config.map_err(|error| error.to_string())?;
    if let Some(data) = data {
        config.server.data = data;
    }
    let plan = match command {
        Command::Create { logs } => tools::create(&config, logs, None)?,
        Command::Join { secret, or_create: true, .. } => {
            let secret = secret.as_deref().map(read_secret).transpose()?;
            match tools::join_or_create(&config, secret)? {
                Some(plan) => plan,
                None => {
                    out!("{} belongs to a node of a cluster", config.server.data.display());
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
        Command::Join { secret, node, .. } => {
            let secret = secret.as_deref().map(read_secret).transpose()?;
            tools::join(&config, secret, node)?
        }
        Command::List => return list(&config),
        Command::Promote { node } => tools::promote(&config, node)?,
        Command::Remove { node, alone: true } => tools::leave(&config, node)?,
        Command::Remove { node, alone: false } => tools::remove(&config, node)?,
        Command::Recover => tools::recover(&config)?,
        Command::Lost { seen } => return lost(&config, seen),
    };
    agree(plan, (&config, yes))
}

/// Prints the plan, asks, and carries it out.
fn agree(plan: ClusterPlan, (config, yes): (&Config, bool)) -> Result<ExitCode, String> {
    for line in plan.lines() {
        out!("{line}");
    }
    if let Err(code) = consent("Do this?", yes) {
        return Ok(code);
    }
    let is_away = plan.is_away();
    plan.carry_out(&config.server.data)?;
    if is_away {
        out!("the node is away: it takes over when it is back and follows closely");
        return Ok(ExitCode::from(AWAY));
    }
    out!("done");
    Ok(ExitCode::SUCCESS)
}

/// Losses of the data folder here.
fn lost(config: &Config, seen: bool) -> Result<ExitCode, String> {
    let lost = tools::lost(config)?;
    out!("{:<20}  {:>3}  {:>10}  INDEXES", "TIME", "LOG", "RECORDS");
    for it in &lost.all {
        let time = moment(&(it.at_s * 1_000).into(), "-");
        out!("{time:<20}  {:>3}  {:>10}  {}-{}", it.log, it.records, it.first, it.last);
    }
    let unseen = if seen { tools::see_lost(config)? } else { lost.unseen() };
    let word = if seen { "seen now" } else { "not seen" };
    out!("\n{} records, {unseen} of them {word}", lost.total());
    Ok(ExitCode::SUCCESS)
}

fn list(config: &Config) -> Result<ExitCode, String> {
    let listed = tools::list(config)?;
    let own = tools::own_node(config)?;
    out!("cluster {} {:016x}, {} logs", config.cluster.name, listed.fingerprint, listed.logs);
    out!("\n{:>5}  {:<20} {:<8} ADDRESSES", "NODE", "NAME", "ROLE");
    for node in &listed.nodes {
        let leads = listed.table.first().and_then(|(_, log)| log.leader).map(|it| it.node);
        let role = match (node.beat_age.is_some(), leads == Some(node.node)) {
            (false, _) => "away",
            (true, true) => "leads",
            (true, false) => "follows",
        };
        let here = if own == node.node { "*" } else { " " };
        let (number, name) = (node.node.number(), &node.name);
        out!("{here}{number:>4}  {name:<20} {role:<8} {}", node.addresses.join(" "));
    }
    out!("\n{:>5}  {:<20} {:>10} {:>6}  COPIES", "LOG", "LEADER", "GENERATION", "EPOCH");
    for (log, entry) in &listed.table {
        let leader = entry.leader.map(|it| tools::told(&listed.nodes, it.node));
        let copies: Vec<String> =
            entry.followers.iter().map(|node| tools::told(&listed.nodes, *node)).collect();
        let leader = leader.unwrap_or_else(|| "-".into());
        let (generation, epoch) = (entry.generation, entry.epoch);
        out!("{log:>5}  {leader:<20} {generation:>10} {epoch:>6}  {}", copies.join(", "));
    }
    if own != NodeId::ALONE {
        out!("\n* this node");
    }
    if !listed.damaged.is_empty() {
        let keys = listed.damaged.join(", ");
        out!("\nDAMAGED values of the table: {keys}. `holdline cluster recover` writes them anew");
    }
    let lost = tools::lost(config)?;
    if lost.unseen() > 0 {
        out!("\nLOST: {} acknowledged records; `holdline cluster lost`", lost.unseen());
    }
    Ok(ExitCode::SUCCESS)
}

fn read_secret(from: &Path) -> Result<ClusterSecret, String> {
    let mut bytes = Vec::new();
    let read = match from.as_os_str() == "-" {
        true => std::io::stdin().read_to_end(&mut bytes).map(drop),
        false => std::fs::read(from).map(|read| bytes = read),
    };
    read.map_err(|error| format!("{}: {error}", from.display()))?;
    tools::secret_of(&bytes).ok_or_else(|| {
        format!(
            "{} must contain the 64 hexadecimal digits that `holdline store secret --reveal` \
             prints, and nothing else",
            from.display()
        )
    })
}

/// The number of a node.
fn node(text: &str) -> Result<NodeId, String> {
    let number = text.parse().ok().filter(|number| *number > 0).and_then(NodeId::new);
    number.ok_or_else(|| format!("a node is a number from 1 to {}", NodeId::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_number_above_zero() {
        assert_eq!(node("7").ok(), NodeId::new(7));
        for wrong in ["0", "1024", "-1", "x", ""] {
            assert!(node(wrong).is_err(), "{wrong}");
        }
    }
}
