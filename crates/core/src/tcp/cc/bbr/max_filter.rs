//! The bandwidth: a maximum over the last rounds.

/// Maximum over the last rounds, in constant space: the best value, the best since a quarter of the
/// window, the best since half of it (the filter of K. Nichols that Linux uses).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MaxFilter([Stamped; 3]);

#[derive(Debug, Clone, Copy, Default)]
struct Stamped {
    round: u32,
    value: u32,
}

impl MaxFilter {
    pub(super) fn max(&self) -> u32 {
        self.0[0].value
    }

    pub(super) fn update(&mut self, window: u32, round: u32, value: u32) {
        let new = Stamped { round, value };
        let age = |s: Stamped| round.wrapping_sub(s.round);
        if value >= self.0[0].value || age(self.0[2]) > window {
            self.0 = [new; 3];
            return;
        }
        // A newcomer displaces every runner-up that is no better.
        for runner_up in &mut self.0[1..] {
            if value >= runner_up.value {
                *runner_up = new;
            }
        }
        // Linux 6.12, lib/win_minmax.c, `minmax_subwin_update`: one of three, and all by the age of
        // the best.
        let of_best = age(self.0[0]);
        if of_best > window {
            // Runners-up take the place of a best that has expired.
            while age(self.0[0]) > window {
                self.0 = [self.0[1], self.0[2], new];
            }
        } else if self.0[1].round == self.0[0].round && of_best > window / 4 {
            // Keep the runners-up recent, so that there is one when the best expires.
            self.0[1] = new;
            self.0[2] = new;
        } else if self.0[2].round == self.0[1].round && of_best > window / 2 {
            self.0[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maximum(samples: impl IntoIterator<Item = (u32, u32)>) -> u32 {
        let mut filter = MaxFilter::default();
        samples.into_iter().for_each(|(round, value)| filter.update(10, round, value));
        filter.max()
    }

    /// By hand with `minmax_running_max` of Linux 6.12, a window of 10. The best is of round 0.
    /// After a quarter of the window a runner-up is taken (round 3), after half of it a third
    /// (round 6), whatever the age of the runner-up. Both get their turn.
    #[test]
    fn runners_up_are_taken_at_a_quarter_and_at_half_the_age_of_the_best() {
        let samples = [(0, 100), (3, 50), (6, 40), (9, 30), (11, 30), (14, 20)];
        let after = |n: usize| maximum(samples.into_iter().take(n));
        assert_eq!((after(4), after(5), after(6)), (100, 50, 40));
    }

    /// When the best expires the runners-up move up, and nothing more happens with that sample.
    #[test]
    fn an_expired_best_only_moves_the_runners_up() {
        // The best is of round 3 then, and at round 12 more than a quarter of the window old. So 25
        // takes the place of both runners-up.
        assert_eq!(maximum([(0, 100), (3, 50), (11, 30), (12, 25)]), 50);
        assert_eq!(maximum([(0, 100), (3, 50), (11, 30), (12, 25), (14, 20)]), 25);
    }
}
