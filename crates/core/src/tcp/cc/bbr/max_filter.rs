//! The bandwidth: a maximum over the last rounds.

/// Maximum over the last rounds, in constant space: the best value, the best since a quarter of the window, the best since
/// half of it (the filter of K. Nichols that Linux uses).
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
        // Runners-up take the place of a best that has expired.
        while age(self.0[0]) > window {
            self.0 = [self.0[1], self.0[2], new];
        }
        // Keep the runners-up recent, so that there is one when the best expires.
        if self.0[1].round == self.0[0].round && age(self.0[1]) > window / 4 {
            self.0[1] = new;
            self.0[2] = new;
        } else if self.0[2].round == self.0[1].round && age(self.0[2]) > window / 2 {
            self.0[2] = new;
        }
    }
}
