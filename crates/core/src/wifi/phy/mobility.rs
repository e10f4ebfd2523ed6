//! Position of a device: a walk along straight lines between given points at a given speed.
//!
//! A [`Track`] gives the position at any time, from the time alone. Before `start` the walker
//! stands at the first point; after the last it stands there, or, `there_and_back`, walks back and
//! forth without end. It turns at a point without slowing down.

use std::sync::Arc;

use crate::units::{Span, Time};

/// Times between looks at a walker that has a decision to take: a centimetre at walking speed (1.4
/// m/s).
pub const POSITION_INTERVAL: Span = Span::from_ms(10);

/// A walk. See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Points, each with its distance from the first along the track, m.
    points: Vec<([f64; 2], f64)>,
    speed_m_per_s: f64,
    start: Time,
    there_and_back: bool,
}

impl Track {
    /// `points_m`: at least one. `speed_m_per_s`: above zero.
    pub fn new(points_m: &[[f64; 2]], speed_m_per_s: f64, start: Time, there_and_back: bool) -> Track {
        let mut points: Vec<([f64; 2], f64)> = Vec::with_capacity(points_m.len());
        for &point in points_m {
            let along = points.last().map_or(0.0, |&(before, along)| along + distance_m(before, point));
            points.push((point, along));
        }
        Track { points, speed_m_per_s, start, there_and_back }
    }

    /// Length from the first point to the last, m.
    pub fn length_m(&self) -> f64 {
        self.points.last().map_or(0.0, |&(_, along)| along)
    }

    /// Time at which the walk begins.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Time at which the walk ends; [`Time::NEVER`] if it never does.
    pub fn arrival(&self) -> Time {
        match self.length_m() {
            0.0 => self.start,
            _ if self.there_and_back => Time::NEVER,
            length => self.start + Span::from_secs_f64(length / self.speed_m_per_s),
        }
    }

    /// Position at `now`, m.
    pub fn at(&self, now: Time) -> [f64; 2] {
        let length = self.length_m();
        let mut along = now.since(self.start.min(now)).as_secs_f64() * self.speed_m_per_s;
        if self.there_and_back && length > 0.0 {
            along %= 2.0 * length;
            along = along.min(2.0 * length - along);
        }
        let next = self.points.partition_point(|&(_, there)| there <= along);
        match (next.checked_sub(1).and_then(|i| self.points.get(i)), self.points.get(next)) {
            (Some(&(a, from)), Some(&(b, to))) => {
                let part = (along - from) / (to - from);
                [a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part]
            }
            // `along` is never negative, so no position is before the first point.
            (last, first) => last.or(first).map_or([0.0; 2], |&(point, _)| point),
        }
    }
}

/// Distance of two devices while one of them walks.
#[derive(Debug, Clone, PartialEq)]
pub struct Motion {
    /// The walk of the one.
    pub track: Arc<Track>,
    /// Position of the other.
    pub from_m: [f64; 2],
}

impl Motion {
    /// Distance of the two at `now`.
    pub fn distance_m(&self, now: Time) -> f64 {
        distance_m(self.track.at(now), self.from_m)
    }
}

/// Distance between two places, m.
pub fn distance_m(a: [f64; 2], b: [f64; 2]) -> f64 {
    libm::hypot(a[0] - b[0], a[1] - b[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(track: &Track, seconds: f64) -> [f64; 2] {
        track.at(Time::ZERO + Span::from_secs_f64(seconds))
    }

    #[test]
    fn a_walk_round_a_corner() {
        let start = Time::ZERO + Span::from_secs(10);
        let track = Track::new(&[[0.0, 0.0], [4.0, 0.0], [4.0, 3.0]], 2.0, start, false);
        let cases = [
            (0.0, [0.0, 0.0]),
            (10.0, [0.0, 0.0]),
            (11.0, [2.0, 0.0]),
            (12.0, [4.0, 0.0]),
            (12.5, [4.0, 1.0]),
            (13.5, [4.0, 3.0]),
            (99.0, [4.0, 3.0]),
        ];
        for (seconds, place) in cases {
            assert_eq!(at(&track, seconds), place, "{seconds} s");
        }
        assert_eq!(track.length_m(), 7.0);
        assert_eq!(track.arrival(), start + Span::from_ms(3500));
    }

    #[test]
    fn there_and_back_turns_at_both_ends() {
        let track = Track::new(&[[0.0, 5.0], [20.0, 5.0]], 1.0, Time::ZERO, true);
        for (seconds, x) in
            [(0.0, 0.0), (15.0, 15.0), (20.0, 20.0), (25.0, 15.0), (40.0, 0.0), (47.0, 7.0), (61.0, 19.0)]
        {
            let [found, y] = at(&track, seconds);
            assert!((found - x).abs() < 1e-9 && y == 5.0, "{seconds} s: {found}");
        }
        assert!(track.arrival().is_never());
    }

    #[test]
    fn who_has_one_place_stays_there() {
        for there_and_back in [false, true] {
            let track = Track::new(&[[3.0, 4.0], [3.0, 4.0]], 1.0, Time::ZERO, there_and_back);
            assert_eq!(at(&track, 7.0), [3.0, 4.0]);
            assert_eq!(track.arrival(), Time::ZERO);
        }
    }

    fn points() -> impl Strategy<Value = Vec<[f64; 2]>> {
        proptest::collection::vec([-50.0..50.0f64, -50.0..50.0f64], 1..6)
    }

    proptest! {
        /// Never faster than its speed, never off its lines, and where the distance walked says it
        /// is.
        #[test]
        fn it_walks_its_lines_at_its_speed(
            points in points(), speed in 0.1..20.0f64, start in 0u64..20_000, from in 0u64..100_000, step in 1u64..3_000,
            there_and_back: bool,
        ) {
            let ms = |t: u64| Time::ZERO + Span::from_ms(t);
            let track = Track::new(&points, speed, ms(start), there_and_back);
            let (a, b) = (track.at(ms(from)), track.at(ms(from + step)));
            prop_assert!(distance_m(a, b) <= speed * step as f64 / 1000.0 + 1e-6);
            let gap = |p: [f64; 2]| {
                let off = |w: &[[f64; 2]]| distance_m(w[0], p) + distance_m(p, w[1]) - distance_m(w[0], w[1]);
                points.windows(2).map(off).fold(distance_m(points[0], p), f64::min)
            };
            prop_assert!(gap(a) < 1e-6, "{a:?} is off the way");
            if from <= start {
                prop_assert_eq!(a, points[0]);
            }
            if ms(from) >= track.arrival() {
                prop_assert!(distance_m(a, points[points.len() - 1]) < 1e-6);
            }
        }

        /// Back and forth is the same way in the same time.
        #[test]
        fn the_way_back_mirrors_the_way_there(points in points(), speed in 0.1..20.0f64, t in 0.0..1.0f64) {
            let track = Track::new(&points, speed, Time::ZERO, true);
            let one_way = track.length_m() / speed;
            let (out, back) = (at(&track, t * one_way), at(&track, (2.0 - t) * one_way));
            prop_assert!(distance_m(out, back) < 1e-4, "{out:?} {back:?}");
        }
    }
}
