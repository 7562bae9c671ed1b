//! `holdline schedule`: messages that are sent to devices again and again.

use crate::client::{Server, encoded, entries, moment, named, query, tell};
use crate::clients::{lines, text};
use crate::push::{Manner, Target};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Action of `holdline schedule`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// List schedules
    List {
        /// Only those of this product
        #[arg(long, value_parser = named)]
        product: Option<String>,
    },
    /// Show a schedule
    Show(Name),
    /// Save a schedule, or replace it
    Save(Box<Save>),
    /// Pause a schedule; messages that it has sent go on
    Pause(Name),
    /// Resume a schedule with its times to come
    Resume(Name),
    /// Remove a schedule; messages that it has sent go on
    Remove(Name),
}

#[derive(Args)]
struct Name {
    /// Key of the product
    #[arg(long, value_parser = named)]
    product: String,
    /// Name of the schedule
    #[arg(value_parser = named)]
    schedule: String,
}

impl Name {
    fn path(&self) -> String {
        format!("/v1/schedules/{}/{}", encoded(&self.product), encoded(&self.schedule))
    }
}

#[derive(Args)]
struct Save {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    rule: Rule,
    /// Time zone of the times, and of devices without one: Europe/Berlin [default: UTC]
    #[arg(long)]
    zone: Option<String>,
    /// Send it by the clock of each device
    #[arg(long)]
    local: bool,
    /// Not before this time: 2027-01-31T00:00
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Not after this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Number of messages after which it ends
    #[arg(long)]
    count: Option<u32>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    manner: Manner,
    /// The message
    body: String,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Rule {
    /// Every day at this time: 09:00
    #[arg(long, value_name = "TIME")]
    daily: Option<String>,
    /// On days of the week: mon,thu@09:00
    #[arg(long, value_name = "DAYS@TIME", value_parser = weekly)]
    weekly: Option<Value>,
    /// On days of the month: 1,15@09:00
    #[arg(long, value_name = "DAYS@TIME", value_parser = monthly)]
    monthly: Option<Value>,
    /// A cron line of five fields: '0 9 * * 1-5'
    #[arg(long, value_name = "LINE")]
    cron: Option<String>,
}

/// The days and the time of a text such as mon,thu@09:00.
fn weekly(text: &str) -> Result<Value, String> {
    let (days, at) = text.split_once('@').ok_or("give days and time as mon,thu@09:00")?;
    Ok(json!({ "days": days.split(',').collect::<Vec<_>>(), "at": at }))
}

/// The days and the time of a text such as 1,15@09:00.
fn monthly(text: &str) -> Result<Value, String> {
    let wrong = "give days and time as 1,15@09:00";
    let (days, at) = text.split_once('@').ok_or(wrong)?;
    let days: Result<Vec<u8>, _> = days.split(',').map(str::parse).collect();
    Ok(json!({ "days": days.map_err(|_| wrong)?, "at": at }))
}

impl Save {
    fn order(&self) -> Result<Value, String> {
        let mut push = self.manner.order(Some(&self.name.product), &self.body);
        self.target.set(&mut push)?;
        let mut order = json!({ "name": self.name.schedule, "local": self.local, "push": push });
        let Rule { daily, weekly, monthly, cron } = &self.rule;
        let fields = [
            ("daily", daily.as_ref().map(|at| json!({ "at": at }))),
            ("weekly", weekly.clone()),
            ("monthly", monthly.clone()),
            ("cron", cron.as_ref().map(|line| json!(line))),
            ("zone", self.zone.as_ref().map(|zone| json!(zone))),
            ("from", self.from.as_ref().map(|time| json!(time))),
            ("until", self.until.as_ref().map(|time| json!(time))),
            ("count", self.count.map(|count| json!(count))),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                order[name] = value;
            }
        }
        Ok(order)
    }
}

/// Shows or changes schedules.
pub fn schedule(arguments: Arguments) -> ExitCode {
    tell(answer(&arguments))
}

fn answer(arguments: &Arguments) -> Result<String, String> {
    let Arguments { action, server, json: as_json } = arguments;
    let told = match action {
        Action::List { product } => {
            let path = query("/v1/schedules", &[("product", product.clone())]);
            let answer = server.call("GET", &path, None)?;
            let found = entries(&answer, "schedules");
            return Ok(match as_json {
                true => lines(found),
                false => found.iter().map(line).collect(),
            });
        }
        Action::Show(name) => server.call("GET", &name.path(), None)?,
        Action::Save(save) => server.call("POST", "/v1/schedules", Some(&save.order()?))?,
        Action::Pause(name) => server.call("POST", &format!("{}/pause", name.path()), None)?,
        Action::Resume(name) => server.call("POST", &format!("{}/resume", name.path()), None)?,
        Action::Remove(name) => {
            let answer = server.call("DELETE", &name.path(), None)?;
            return Ok(match as_json {
                true => format!("{answer}\n"),
                false => format!("{}: removed\n", name.schedule),
            });
        }
    };
    Ok(if *as_json { format!("{told}\n") } else { line(&told) })
}

fn line(schedule: &Value) -> String {
    let next = match schedule["paused"].as_bool() {
        Some(true) => "paused".to_owned(),
        _ => moment(&schedule["next_ms"][0], "ended"),
    };
    let clock = match schedule["local"].as_bool() {
        Some(true) => "each device".to_owned(),
        _ => text(&schedule["zone"]),
    };
    let (product, name) = (text(&schedule["product"]), text(&schedule["name"]));
    let (rule, sent) = (text(&schedule["cron"]), &schedule["sent"]);
    format!("{product:<16} {name:<24} {rule:<20} {clock:<20} {next:<20} {sent} sent\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_read_as_they_are_written() {
        assert_eq!(weekly("mon,thu@09:00"), Ok(json!({"days": ["mon", "thu"], "at": "09:00"})));
        assert_eq!(monthly("1,15@09:00"), Ok(json!({"days": [1, 15], "at": "09:00"})));
        assert!(weekly("mon").is_err() && monthly("x@09:00").is_err() && monthly("1").is_err());
    }
}
