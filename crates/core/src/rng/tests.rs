use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use rand::RngExt;

use super::{Purpose, Rng, Stream, coin, stream};
use crate::units::Time;

proptest! {
    #[test]
    fn seed_component_and_purpose_each_make_another_stream(seed: u64, component: u64, other: u64) {
        let first = |seed, component, purpose| stream(seed, component, purpose).random::<[u64; 4]>();
        let apart = |a: [u64; 4], b: [u64; 4]| a.iter().all(|x| !b.contains(x));
        for purpose in Purpose::ALL {
            let drawn = first(seed, component, purpose);
            prop_assert_eq!(drawn, first(seed, component, purpose));
            // Any other, the neighbour, and one that differs where the purpose's number goes.
            for n in [other, seed.wrapping_add(1), seed ^ 1 << 32] {
                prop_assert!(n == seed || apart(drawn, first(n, component, purpose)), "{:?}: seeds {} and {}", purpose, seed, n);
            }
            for n in [other, component.wrapping_add(1), component ^ 1 << 32] {
                prop_assert!(n == component || apart(drawn, first(seed, n, purpose)), "{:?}: components {} and {}", purpose, component, n);
            }
            for another in Purpose::ALL {
                prop_assert!(another == purpose || apart(drawn, first(seed, component, another)), "{:?} and {:?}", purpose, another);
            }
            let name = Stream::new(seed, component, purpose);
            let again = |n| name.again(n).open().random::<[u64; 4]>();
            prop_assert!(apart(drawn, again(1)) && apart(again(1), again(2)), "{:?} again", purpose);
        }
    }

    #[test]
    fn coins_of_two_components_and_of_two_seeds_fall_independently(seed: u64, component in 0u64..1 << 40) {
        let fall = |seed, component| (0..64).fold(0u64, |all, t| all << 1 | u64::from(coin(seed, component, Purpose::LinkTie, Time::from_ns(1000 * t))));
        let coins = fall(seed, component);
        // Binomial(64, 1/2): outside of 6..58 once in 10^10.
        for others in [fall(seed ^ 1, component), fall(seed, component ^ 1)] {
            prop_assert!((6..58).contains(&(coins ^ others).count_ones()));
        }
        prop_assert!((6..58).contains(&coins.count_ones()));
    }
}

#[test]
fn purposes_are_numbered_from_one_without_a_gap() {
    for (n, purpose) in (1u64..).zip(Purpose::ALL) {
        assert_eq!(purpose as u64, n);
    }
}

/// Mean of `f` over draws, and its standard error.
fn mean(seed: u64, f: impl Fn(&mut Rng) -> f64) -> (f64, f64) {
    const N: u32 = 200_000;
    let mut rng = stream(seed, 0, Purpose::Signal);
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..N {
        let x = f(&mut rng);
        sum += x;
        squares += x * x;
    }
    let mean = sum / f64::from(N);
    (mean, ((squares / f64::from(N) - mean * mean) / f64::from(N)).sqrt())
}

#[test]
fn distributions_have_their_moments_and_tails() {
    type Case = (&'static str, fn(&mut Rng) -> f64, f64);
    let cases: [Case; 9] = [
        ("mean of the exponential", |r| r.exponential(), 1.0),
        ("its second moment", |r| r.exponential().powi(2), 2.0),
        ("its tail", |r| f64::from(r.exponential() > 3.0), (-3.0f64).exp()),
        ("mean of the normal", |r| r.normal(), 0.0),
        ("its variance", |r| r.normal().powi(2), 1.0),
        ("its fourth moment", |r| r.normal().powi(4), 3.0),
        ("its tail", |r| f64::from(r.normal() > 2.0), 0.022_750_131_948),
        ("median of the lognormal", |r| f64::from(r.lognormal(9.357, 1.318) > 9.357f64.exp()), 0.5),
        ("tail of the Pareto", |r| f64::from(r.pareto(133_000.0, 1.1) > 1_330_000.0), 10f64.powf(-1.1)),
    ];
    for (seed, (what, f, expected)) in (1..).zip(cases) {
        let (mean, error) = mean(seed, f);
        assert!((mean - expected).abs() < 4.0 * error, "{what}: {mean} against {expected}, error {error}");
    }
    assert!(mean(1, |r| f64::from(r.pareto(2.0, 0.5) < 2.0)).0 == 0.0);
}
