//! The order in which the places of a service, and the addresses of a host, are tried.
//!
//! Pure: records in, an order out. Weights are drawn from a generator that is an argument.

use base::prng::Prng;
use model::ports::names::ServiceRecord;
use std::net::IpAddr;

/// Puts places in the order in which they are tried (RFC 2782): by priority, and among equals at
/// random, each with the likelihood that its weight is among those that are left.
pub(super) fn order<T>(
    mut places: Vec<(ServiceRecord, T)>,
    rng: &mut Prng,
) -> Vec<(ServiceRecord, T)> {
    let mut ordered = Vec::with_capacity(places.len());
    while let Some(first) = places.iter().map(|(place, _)| place.priority).min() {
        let mut equals: Vec<_> =
            places.extract_if(.., |(place, _)| place.priority == first).collect();
        // Those of weight 0 stand first, so that they have a small chance (RFC 2782).
        equals.sort_by_key(|(place, _)| place.weight != 0);
        while !equals.is_empty() {
            let sum: u64 = equals.iter().map(|(place, _)| u64::from(place.weight)).sum();
            let drawn = rng.below(sum + 1);
            let mut running = 0;
            let chosen = equals.iter().position(|(place, _)| {
                running += u64::from(place.weight);
                running >= drawn
            });
            ordered.push(equals.remove(chosen.unwrap_or(0)));
        }
    }
    ordered
}

/// Puts the addresses of a host in the order in which they are tried: families take turns, IPv6
/// first (RFC 8305 4).
pub(super) fn interleave(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let of = |is_6| addresses.iter().copied().filter(move |address| address.is_ipv6() == is_6);
    let (mut six, mut four) = (of(true), of(false));
    let mut ordered = Vec::with_capacity(addresses.len());
    loop {
        let next = [six.next(), four.next()];
        if next == [None, None] {
            return ordered;
        }
        ordered.extend(next.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(priority: u16, weight: u16, port: u16) -> (ServiceRecord, ()) {
        (ServiceRecord { priority, weight, port, target: "h".into() }, ())
    }

    #[test]
    fn lower_priorities_come_first_and_weights_share_the_rest() {
        let mut first = [0_u32; 4];
        let mut rng = Prng::new(7);
        for _ in 0..10_000 {
            let places = vec![place(20, 100, 9), place(10, 0, 0), place(10, 1, 1), place(10, 3, 3)];
            let ordered = order(places, &mut rng);
            let ports: Vec<u16> = ordered.iter().map(|(place, ())| place.port).collect();
            assert_eq!((ports.len(), ports[3]), (4, 9));
            first[usize::from(ports[0])] += 1;
        }
        // Of five draws, one is for weight 0, one for weight 1, three for weight 3.
        for (at, share) in [(0, 2_000), (1, 2_000), (3, 6_000)] {
            assert!(first[at].abs_diff(share) < 300, "{first:?}");
        }
    }

    #[test]
    fn one_seed_has_one_order_and_nothing_is_lost() {
        let places = || (0..9).map(|n| place(n % 3, n, n)).collect::<Vec<_>>();
        let ports = |seed| -> Vec<u16> {
            let ordered = order(places(), &mut Prng::new(seed));
            ordered.iter().map(|(place, ())| place.port).collect()
        };
        assert_eq!(ports(5), ports(5));
        let mut all = ports(6);
        all.sort_unstable();
        assert_eq!(all, (0..9).collect::<Vec<_>>());
        assert!(order(Vec::<(ServiceRecord, ())>::new(), &mut Prng::new(1)).is_empty());
    }

    #[test]
    fn families_take_turns() {
        let of = |all: &[&str]| -> Vec<IpAddr> {
            all.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let all = of(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1", "2001:db8::2"]);
        let expected = of(&["2001:db8::1", "10.0.0.1", "2001:db8::2", "10.0.0.2", "10.0.0.3"]);
        assert_eq!(interleave(&all), expected);
        assert!(interleave(&[]).is_empty());
    }
}
