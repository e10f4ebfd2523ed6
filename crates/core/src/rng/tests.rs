use proptest::prelude::{prop_assert, prop_assert_eq, prop_assert_ne, proptest};
use rand::RngExt;

use super::{Purpose, Rng, Stream, coin, stream};

proptest! {
    #[test]
    fn seed_component_and_purpose_each_make_another_stream(seed: u64, component: u64, other: u64, p in 0..Purpose::ALL.len()) {
        let purpose = Purpose::ALL[p];
        let first = |seed, component, purpose| stream(seed, component, purpose).random::<u64>();
        let drawn = first(seed, component, purpose);
        prop_assert_eq!(drawn, first(seed, component, purpose));
        if other != seed {
            prop_assert_ne!(drawn, first(other, component, purpose));
        }
        if other != component {
            prop_assert_ne!(drawn, first(seed, other, purpose));
        }
        for another in Purpose::ALL {
            prop_assert!(another == purpose || drawn != first(seed, component, another));
        }
        let name = Stream::new(seed, component, purpose);
        prop_assert_ne!(drawn, name.again(1).open().random::<u64>());
        prop_assert_ne!(name.again(2).open().random::<u64>(), name.again(1).open().random::<u64>());
    }

    #[test]
    fn coins_of_two_components_and_of_two_seeds_fall_independently(seed: u64, component in 0u64..1 << 40) {
        let fall = |seed, component| (0..64).fold(0u64, |all, t| all << 1 | u64::from(coin(seed, component, Purpose::LinkTie, 1000 * t)));
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
