//! One order for all, made one for each agent: together they do what a single load generator would.
//!
//! Clients are dealt out like cards: of `n` clients agent `k` of `K` has those with the places `k`,
//! `k + K`, `k + 2K` ..., and their numbers are interleaved likewise, so that all numbers are
//! there once however often clients are added. Rates are divided by clients. Shares stay shares.
//! Pure. Invariant: clients and rates of all parts sum up to the whole.

use lab::order::Order;
use lab::plan::{Arrival, Group, Pace, Traffic};
use std::collections::BTreeMap;

/// Change of an agent's share of a group's clients at which its rates are sent anew.
const DRIFT: f64 = 0.01;

/// Numbers dealt out to agents so far.
#[derive(Clone, Debug)]
pub struct Split {
    agents: u32,
    groups: BTreeMap<String, Dealt>,
}

#[derive(Clone, Default, Debug)]
struct Dealt {
    clients: u32,
    traffic: Vec<Traffic>,
}

impl Split {
    /// Makes an empty split among so many agents that make load.
    pub fn among(agents: u32) -> Split {
        assert!(agents > 0, "somebody must make the load");
        Split { agents, groups: BTreeMap::new() }
    }

    /// The orders of each agent that come of an order for all, agent by agent.
    pub fn deal(&mut self, order: &Order) -> Vec<Vec<Order>> {
        let agents = 0..self.agents;
        match order {
            Order::Found { group, clients_max } => {
                self.groups.insert(group.name.clone(), Dealt::default());
                let order = |agent| Order::Found {
                    group: Box::new(self.own(group, agent)),
                    clients_max: self.part(*clients_max, agent),
                };
                agents.map(|agent| vec![order(agent)]).collect()
            }
            Order::Arrive { group, clients, arrival } => self.arrive(group, *clients, *arrival),
            Order::Traffic { group, traffic } => {
                self.groups.entry(group.clone()).or_default().traffic.clone_from(traffic);
                agents.map(|agent| vec![self.traffic(group, agent)]).collect()
            }
            Order::Cut { .. } | Order::Flap { .. } | Order::Stop => {
                agents.map(|_| vec![order.clone()]).collect()
            }
        }
    }

    /// Clients of all groups that an agent was given.
    pub fn clients(&self, agent: u32) -> u64 {
        self.groups.values().map(|dealt| u64::from(self.part(dealt.clients, agent))).sum()
    }

    fn own(&self, group: &Group, agent: u32) -> Group {
        let step = group.step.max(1).saturating_mul(self.agents);
        Group { first: group.number_of(agent), step, ..group.clone() }
    }

    fn arrive(&mut self, group: &str, clients: u32, arrival: Arrival) -> Vec<Vec<Order>> {
        let before = self.groups.get(group).map_or(0, |dealt| dealt.clients);
        self.groups.entry(group.to_owned()).or_default().clients = clients;
        let agents = 0..self.agents;
        let all = self.agents;
        let moved = agents.clone().any(|agent| {
            let share = |clients| share(self.part(clients, agent), clients, all);
            (share(before) - share(clients)).abs() > DRIFT
        });
        let parts = agents.map(|agent| {
            let mine = self.part(clients, agent);
            let arrival = self.arrival(arrival, share(mine, clients, all), agent);
            let arrive = Order::Arrive { group: group.to_owned(), clients: mine, arrival };
            // Whoever sends is told its new part before the senders come.
            let traffic = moved.then(|| self.traffic(group, agent)).filter(has_rates);
            traffic.into_iter().chain([arrive]).collect()
        });
        parts.collect()
    }

    fn arrival(&self, arrival: Arrival, share: f64, agent: u32) -> Arrival {
        match arrival {
            Arrival::Rate { per_s } => Arrival::Rate { per_s: per_s * share },
            Arrival::Poisson { per_s } => Arrival::Poisson { per_s: per_s * share },
            Arrival::Burst => Arrival::Burst,
            Arrival::Steps { clients, every } => {
                Arrival::Steps { clients: self.part(clients, agent).max(1), every }
            }
            Arrival::Window { open } => Arrival::Window { open: self.part(open, agent).max(1) },
        }
    }

    fn traffic(&self, group: &str, agent: u32) -> Order {
        let dealt = self.groups.get(group).cloned().unwrap_or_default();
        let share = share(self.part(dealt.clients, agent), dealt.clients, self.agents);
        let traffic = dealt.traffic.into_iter().map(|traffic| {
            let pace = match traffic.pace {
                Pace::PerS(per_s) => Pace::PerS(per_s * share),
                Pace::Wave { low, high, period } => {
                    Pace::Wave { low: low * share, high: high * share, period }
                }
                Pace::Window(_) | Pace::Every(_) => traffic.pace,
            };
            Traffic { pace, ..traffic }
        });
        // A rate of nothing is no traffic: there is nobody to send it.
        let traffic = traffic.filter(|traffic| !idle(traffic.pace)).collect();
        Order::Traffic { group: group.to_owned(), traffic }
    }

    fn part(&self, clients: u32, agent: u32) -> u32 {
        clients / self.agents + u32::from(agent < clients % self.agents)
    }
}

/// An agent's share; while there is no client, all have the same.
fn share(part: u32, of: u32, agents: u32) -> f64 {
    if of == 0 { 1.0 / f64::from(agents) } else { f64::from(part) / f64::from(of) }
}

fn idle(pace: Pace) -> bool {
    match pace {
        Pace::PerS(per_s) => per_s <= 0.0,
        Pace::Wave { high, .. } => high <= 0.0,
        Pace::Window(_) | Pace::Every(_) => false,
    }
}

fn has_rates(order: &Order) -> bool {
    matches!(order, Order::Traffic { traffic, .. } if !traffic.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::plan::Span;

    fn group(name: &str, first: u32) -> Order {
        let text = format!("{{\"name\": \"{name}\", \"first\": {first}}}");
        let group = Box::new(serde_json::from_str(&text).expect("a group"));
        Order::Found { group, clients_max: 0 }
    }

    fn arrive(clients: u32, arrival: Arrival) -> Order {
        Order::Arrive { group: "a".to_owned(), clients, arrival }
    }

    fn per_s(rate: f64) -> Order {
        let text = format!("{{\"what\": \"publish\", \"pace\": {{\"per_s\": {rate}}}}}");
        let traffic = vec![serde_json::from_str(&text).expect("traffic")];
        Order::Traffic { group: "a".to_owned(), traffic }
    }

    /// Rates that agents have in the end.
    fn rates(orders: &[Vec<Order>]) -> Vec<f64> {
        let rate = |orders: &Vec<Order>| {
            let mut rate = 0.0;
            for order in orders {
                let Order::Traffic { traffic, .. } = order else { continue };
                rate = match traffic.first().map(|traffic| traffic.pace) {
                    Some(Pace::PerS(rate)) => rate,
                    _ => 0.0,
                };
            }
            rate
        };
        orders.iter().map(rate).collect()
    }

    #[test]
    fn all_numbers_are_there_once_whatever_is_added() {
        for agents in 1..=5 {
            let mut split = Split::among(agents);
            let founded = split.deal(&group("a", 100));
            for clients in [1_u32, 7, 1_000, 1_003] {
                let arrived = split.deal(&arrive(clients, Arrival::Burst));
                let mut numbers = Vec::new();
                for (founded, arrived) in founded.iter().zip(&arrived) {
                    let Order::Found { group, .. } = &founded[0] else { panic!("no group") };
                    let Some(Order::Arrive { clients, .. }) = arrived.last() else {
                        panic!("none")
                    };
                    numbers.extend((0..*clients).map(|place| group.number_of(place)));
                }
                numbers.sort_unstable();
                assert_eq!(numbers, (100..100 + clients).collect::<Vec<_>>());
                let given: u64 = (0..agents).map(|agent| split.clients(agent)).sum();
                assert_eq!(given, u64::from(clients));
            }
        }
    }

    #[test]
    fn rates_sum_up_and_go_where_the_clients_are() {
        let mut split = Split::among(3);
        split.deal(&group("a", 0));
        assert_eq!(rates(&split.deal(&per_s(90.0))), [30.0; 3]);
        // One client: one agent sends everything, and is told so before the client comes.
        let orders = split.deal(&arrive(1, Arrival::Burst));
        assert_eq!(rates(&orders), [90.0, 0.0, 0.0]);
        assert!(matches!(orders[0][..], [Order::Traffic { .. }, Order::Arrive { clients: 1, .. }]));
        let orders = split.deal(&arrive(3_000, Arrival::Rate { per_s: 300.0 }));
        assert_eq!(rates(&orders), [30.0; 3]);
        // From here on the shares hardly change, and senders are left alone.
        let orders = split.deal(&arrive(3_001, Arrival::Rate { per_s: 300.0 }));
        assert!(orders.iter().all(|orders| orders.len() == 1));
        let arriving = orders.iter().map(|orders| match orders[0] {
            Order::Arrive { arrival: Arrival::Rate { per_s }, .. } => per_s,
            _ => panic!("no rate"),
        });
        assert!((arriving.sum::<f64>() - 300.0).abs() < 1e-6);
    }

    #[test]
    fn a_window_or_a_step_never_becomes_nothing() {
        let mut split = Split::among(4);
        split.deal(&group("a", 0));
        let steps = Arrival::Steps { clients: 2, every: Span::from_secs(1) };
        for arrival in [steps, Arrival::Window { open: 2 }] {
            for orders in split.deal(&arrive(100, arrival)) {
                let Some(Order::Arrive { arrival, .. }) = orders.last() else { panic!("none") };
                let one = Arrival::Steps { clients: 1, every: Span::from_secs(1) };
                assert!(*arrival == one || *arrival == Arrival::Window { open: 1 }, "{arrival:?}");
            }
        }
    }

    #[test]
    fn shares_and_the_end_are_the_same_for_all() {
        let mut split = Split::among(2);
        let flap = Order::Flap { group: None, share_per_s: 0.1 };
        assert_eq!(split.deal(&flap), [vec![flap.clone()], vec![flap]]);
        assert_eq!(split.deal(&Order::Stop), [vec![Order::Stop], vec![Order::Stop]]);
    }
}
