//! The E-model's rating of a conversation by its delay and its loss (ITU-T G.107), with all other
//! inputs at their defaults.
//!
//! R is 93.2 without delay and loss. ITU-T G.109 calls 90 and more best, 80 high, 70 medium, 60
//! low, 50 poor; below, nearly all listeners are dissatisfied.

/// R at the default values of all inputs (G.107 table 3).
const DEFAULT_R: f64 = 93.2;
/// Robustness of a codec that conceals losses: G.711 with packet loss concealment (G.113 appendix
/// I, Bpl of random losses).
const BPL: f64 = 25.1;

/// The rating R for a one-way delay from mouth to ear and a part of packets that is missing at
/// playout, losses being random.
pub fn rating(delay_ms: f64, lost: f64) -> f64 {
    let percent = 100.0 * lost.clamp(0.0, 1.0);
    let loss = 95.0 * percent / (percent + BPL);
    (DEFAULT_R - delay_impairment(delay_ms) - loss).max(0.0)
}

/// Idd of G.107 section 7.4: nothing up to 100 ms.
fn delay_impairment(delay_ms: f64) -> f64 {
    if delay_ms <= 100.0 {
        return 0.0;
    }
    let x = libm::log2(delay_ms / 100.0);
    let root = |y: f64| libm::pow(1.0 + libm::pow(y, 6.0), 1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_are_those_of_the_recommendation() {
        assert!((rating(0.0, 0.0) - 93.2).abs() < 1e-12);
        assert!((rating(100.0, 0.0) - 93.2).abs() < 1e-12);
        // G.107 figure of R over the delay: about 90 at 200 ms, 77 at 300 ms, 66 at 400 ms, without
        // echo.
        for (delay_ms, low, high) in [(200.0, 88.0, 92.5), (300.0, 74.0, 84.0), (400.0, 62.0, 73.0)] {
            let r = rating(delay_ms, 0.0);
            assert!((low..high).contains(&r), "{delay_ms} ms: {r}");
        }
        // Ie,eff = 95 * 1 / (1 + 25.1).
        assert!((rating(0.0, 0.01) - (93.2 - 95.0 / 26.1)).abs() < 1e-9);
        assert!(rating(1e6, 1.0) >= 0.0);
    }

    #[test]
    fn more_delay_or_loss_is_never_better() {
        let mut last = f64::INFINITY;
        for step in 0..1000 {
            let r = rating(f64::from(step), 0.02);
            assert!(r <= last);
            last = r;
        }
        assert!(rating(50.0, 0.02) < rating(50.0, 0.01));
    }
}
