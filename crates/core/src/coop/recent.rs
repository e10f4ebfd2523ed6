//! The greatest value of late: what a minimum or maximum is when it must be able to be forgotten.

use crate::units::{Span, Time};

/// Greatest value of the running half of `window` and of the half before, so that it keeps two
/// values only. It covers between half of the window and all of it. For the least value put
/// [`std::cmp::Reverse`] around it.
#[derive(Debug, Clone)]
pub struct Recent<T> {
    half: Span,
    began: Time,
    running: Option<T>,
    before: Option<T>,
}

impl<T: Ord + Copy> Recent<T> {
    /// Nothing yet; values older than `window` do not count.
    pub fn new(window: Span) -> Recent<T> {
        Recent { half: Span::from_ns(window.as_ns() / 2), began: Time::ZERO, running: None, before: None }
    }

    /// Another value.
    pub fn push(&mut self, now: Time, value: T) {
        self.turn(now);
        self.running = self.running.max(Some(value));
    }

    /// The largest value that is not too old.
    pub fn get(&mut self, now: Time) -> Option<T> {
        self.turn(now);
        self.running.max(self.before)
    }

    fn turn(&mut self, now: Time) {
        let age = now.since(self.began);
        if age < self.half {
            return;
        }
        let one = age < self.half.saturating_mul(2);
        self.before = self.running.take().filter(|_| one);
        self.began = if one { self.began + self.half } else { now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_forgotten_between_half_a_window_and_a_whole_one() {
        let at = |s| Time::ZERO + Span::from_secs(s);
        let mut greatest = Recent::new(Span::from_secs(10));
        greatest.push(at(4), 9);
        greatest.push(at(6), 5);
        assert_eq!(greatest.get(at(9)), Some(9));
        assert_eq!(greatest.get(at(10)), Some(5));
        greatest.push(at(11), 1);
        assert_eq!(greatest.get(at(14)), Some(5));
        assert_eq!(greatest.get(at(15)), Some(1));
        assert_eq!(greatest.get(at(40)), None);
    }
}
