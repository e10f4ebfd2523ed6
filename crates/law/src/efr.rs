//! Efficient Fast Retransmit's threshold: duplicate ACKs that declare a loss, from the window at
//! the first of them.

/// `window` less `less`, between `least` and `most`, segments. `most` wins where they contradict.
#[inline]
pub fn threshold(window: u64, less: u64, least: u64, most: u64) -> u64 {
    crate::at_most(crate::at_least(window.saturating_sub(less), least), most)
}

#[cfg(test)]
mod tests {
    use super::threshold;

    #[test]
    fn a_small_window_needs_fewer_duplicates() {
        for (window, needed) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 3), (6, 3), (u64::MAX, 3)] {
            assert_eq!(threshold(window, 2, 1, 3), needed, "window {window}");
        }
        assert_eq!(threshold(2, 2, 0, 3), 0);
        assert_eq!(threshold(2, 2, 5, 3), 3);
    }
}
