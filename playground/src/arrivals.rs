//! When clients come: each client for its next round, and the crowd, which is one lane for many more clients.
//!
//! Random times between comings need a logarithm, whose last digit may differ between machines. Here they are drawn
//! by comparisons of whole numbers alone (von Neumann, 1951), so the page and a native run agree.

use crate::draw::Draws;
use crate::settings::{Arrival, Settings};

/// Into how many waves a crowd is divided.
const WAVES: u64 = 10;

/// How long a client rests before its next round.
pub(crate) fn rest(settings: &Settings, draws: &mut Draws, now: u32, is_first: bool) -> u32 {
    let gap = settings.gap;
    match settings.arrival {
        Arrival::Once if is_first => 1,
        Arrival::Steady | Arrival::Once => draws.around(gap),
        Arrival::Poisson => exponential(draws, gap),
        Arrival::Bursts => {
            let gap = gap.max(1);
            gap - now % gap + draws.between(0, gap / 16)
        }
    }
}

/// How many of the crowd have come by now.
pub(crate) fn have_come(settings: &Settings, now: u32) -> u32 {
    let (all, end, now) = (u64::from(settings.crowd), u64::from(settings.end), u64::from(now));
    let come = match settings.arrival {
        Arrival::Once => all,
        Arrival::Steady | Arrival::Poisson => all * now / end + 1,
        Arrival::Bursts => all * (now * WAVES / end + 1) / WAVES,
    };
    come.min(all) as u32
}

/// When this one of the crowd comes, counted from 0.
pub(crate) fn comes_at(settings: &Settings, number: u32) -> u32 {
    let (all, end, number) = (u64::from(settings.crowd), u64::from(settings.end), u64::from(number));
    let at = match settings.arrival {
        Arrival::Once => 0,
        Arrival::Steady | Arrival::Poisson => (number * end).div_ceil(all),
        Arrival::Bursts => (number * WAVES / all * end).div_ceil(WAVES),
    };
    at as u32
}

/// A time between two comings by chance, with this mean.
fn exponential(draws: &mut Draws, mean: u32) -> u32 {
    const ONE: u32 = 1 << 16;
    for whole in 0..12 {
        let first = draws.between(0, ONE - 1);
        let (mut last, mut is_odd) = (first, true);
        loop {
            let next = draws.between(0, ONE - 1);
            if next >= last {
                break;
            }
            (last, is_odd) = (next, !is_odd);
        }
        if is_odd {
            return ((u64::from(whole * ONE + first) * u64::from(mean)) >> 16) as u32;
        }
    }
    mean * 12
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(arrival: &str) -> Settings {
        Settings::read(&format!("v2;crowd=1000;end=5000;gap=100;arrival={arrival}")).unwrap()
    }

    #[test]
    fn times_by_chance_have_their_mean_and_their_tail() {
        let mut draws = Draws::new(7, 1);
        let times: Vec<u32> = (0..20_000).map(|_| exponential(&mut draws, 1000)).collect();
        let mean = times.iter().sum::<u32>() / 20_000;
        assert!((960..1040).contains(&mean), "{mean}");
        let late = times.iter().filter(|time| **time > 2000).count(); // e^-2 of them: 13.5 %
        assert!((2500..2900).contains(&late), "{late}");
    }

    #[test]
    fn the_crowd_has_come_when_it_comes() {
        for arrival in ["steady", "once", "poisson", "bursts"] {
            let settings = with(arrival);
            for number in 0..1000 {
                let at = comes_at(&settings, number);
                assert!(have_come(&settings, at) > number, "{arrival}: {number} comes at {at}");
                assert!(at == 0 || have_come(&settings, at - 1) <= number + 1, "{arrival}: {number}, {at}");
            }
            assert_eq!(have_come(&settings, 5000), 1000);
        }
    }

    #[test]
    fn waves_come_together() {
        let settings = with("bursts");
        let mut draws = Draws::new(1, 1);
        for now in [0, 30, 99, 130] {
            let at = now + rest(&settings, &mut draws, now, false);
            assert!(at % 100 <= 7, "{now}: {at}");
        }
    }
}
