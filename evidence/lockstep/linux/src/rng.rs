//! Seeded numbers that do not depend on the order in which they are asked for.

/// A number by seed and keys (splitmix64's finaliser over each).
pub fn hash(seed: u64, keys: &[u64]) -> u64 {
    keys.iter().fold(mix(seed), |state, &key| mix(state ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of them.
pub struct Rng {
    seed: u64,
    drawn: u64,
}

impl Rng {
    pub fn new(seed: u64, keys: &[u64]) -> Rng {
        Rng { seed: hash(seed, keys), drawn: 0 }
    }

    pub fn next(&mut self) -> u64 {
        self.drawn += 1;
        hash(self.seed, &[self.drawn])
    }

    /// In `low..=high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.next() % of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_every_key_and_on_nothing_else() {
        assert_eq!(hash(1, &[2, 3]), hash(1, &[2, 3]));
        assert_ne!(hash(1, &[2, 3]), hash(1, &[3, 2]));
        assert_ne!(hash(1, &[2, 3]), hash(2, &[2, 3]));
        let mut rng = Rng::new(7, &[]);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.range(3, 5)).collect();
        assert!((3..=5).all(|n| drawn.iter().filter(|&&d| d == n).count() > 250));
    }
}
