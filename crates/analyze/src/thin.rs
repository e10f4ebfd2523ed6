//! Series of bounded length: when one is full, every other point goes, and from then on only every
//! second as many come in.

#[derive(Debug)]
pub(crate) struct Thinned<T> {
    points: Vec<T>,
    stride: u64,
    offered: u64,
}

impl<T> Default for Thinned<T> {
    fn default() -> Thinned<T> {
        Thinned { points: Vec::new(), stride: 1, offered: 0 }
    }
}

impl<T> Thinned<T> {
    /// `limit` may change from call to call; at least 2 are kept.
    #[inline]
    pub(crate) fn offer(&mut self, limit: usize, point: impl FnOnce() -> T) {
        if self.offered % self.stride == 0 {
            while self.points.len() >= limit.max(2) {
                let mut index = 0;
                self.points.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            // The points since the last one kept may be fewer than the new stride.
            if self.offered % self.stride == 0 {
                self.points.push(point());
            }
        }
        self.offered += 1;
    }
    pub(crate) fn into_points(self) -> Vec<T> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stay_evenly_spaced() {
        for (offered, limit, stride) in [(10u64, 10, 1), (11, 10, 2), (20, 10, 2), (21, 10, 4), (1000, 10, 128)] {
            let mut series = Thinned::default();
            for i in 0..offered {
                series.offer(limit, || i);
            }
            let expected: Vec<u64> = (0..offered).step_by(stride).collect();
            assert_eq!(series.into_points(), expected, "{offered} at most {limit}");
        }
    }
}
