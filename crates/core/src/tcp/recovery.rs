//! How the window shrinks to `ssthresh` over the round trip after a loss: proportional rate
//! reduction (RFC 6937), or the rate halving of Linux before 3.2.

use crate::convert::saturate32;

/// One reduction. Segments throughout.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RateReduction {
    /// `RecoverFS`: the flight at the start. Linux's choice, the window before the reduction, is
    /// used here too: segments sent by limited transmit then count as delivered, not as flight.
    recover_fs: u32,
    delivered: u32,
    out: u32,
    /// The first retransmission went ahead of the ACK that asked for it being counted.
    ahead: bool,
    /// Rate halving: an ACK was counted that took nothing from the window.
    odd: bool,
}

impl RateReduction {
    // [RFC6937-3-1] [RFC8985-9.3-2]
    pub(super) fn begin(prior_cwnd: u32) -> RateReduction {
        RateReduction { recover_fs: prior_cwnd.max(1), ..RateReduction::default() }
    }

    // [RFC6937-3-3]
    pub(super) fn on_send(&mut self) {
        self.out += 1;
    }

    /// A segment that was counted has not left the host.
    pub(super) fn on_refused(&mut self) {
        self.out = self.out.saturating_sub(1);
    }

    /// The first retransmission has left whatever the window says. It is what the next ACK allows
    /// at least, not more.
    pub(super) fn on_first_retransmission(&mut self) {
        self.ahead = true;
    }

    /// The window after an ACK that delivered `delivered` segments and left `pipe` in flight. While
    /// the pipe is above `ssthresh`, proportional; below it the slow-start bound (PRR-SSRB),
    /// held to packet conservation unless the ACK is `safe`: it advances and shows no further
    /// loss (RFC 9937's SafeACK; Linux).
    pub(super) fn on_ack(&mut self, delivered: u32, pipe: u32, ssthresh: u32, safe: bool) -> u32 {
        let ahead = u32::from(std::mem::take(&mut self.ahead)).min(self.out);
        self.out -= ahead;
        let cwnd = self.window(delivered, pipe.saturating_sub(ahead), ssthresh, safe);
        self.out += ahead;
        cwnd
    }

    /// Rate halving: the window after an ACK that reported something and left `pipe` in flight.
    /// Every second such ACK takes a segment, down to `ssthresh`; and each ACK lets at most one
    /// segment leave (`tcp_cwnd_down` of Linux 2.6.32).
    pub(super) fn halve(&mut self, cwnd: u32, pipe: u32, ssthresh: u32) -> u32 {
        let pipe = pipe.saturating_sub(u32::from(std::mem::take(&mut self.ahead)));
        let cwnd = if self.odd && cwnd > ssthresh { cwnd - 1 } else { cwnd };
        self.odd = !self.odd;
        cwnd.min(pipe + 1)
    }

    // [RFC5681-4.3-4]
    fn window(&mut self, delivered: u32, pipe: u32, ssthresh: u32, safe: bool) -> u32 {
        // [RFC6937-3-2]
        self.delivered += delivered;
        let allowed = if pipe > ssthresh {
            // [RFC6937-3-4]
            let target = (u64::from(self.delivered) * u64::from(ssthresh)).div_ceil(u64::from(self.recover_fs));
            saturate32(target.saturating_sub(u64::from(self.out)))
        } else {
            // [RFC6937-3-5]
            let conserve = self.delivered.saturating_sub(self.out).max(delivered);
            let bound = conserve + u32::from(safe);
            // [RFC6937-3-6]
            bound.min(ssthresh - pipe)
        };
        // The first retransmission always leaves.
        let allowed = if self.out == 0 { allowed.max(1) } else { allowed };
        // [RFC6937-3-7]
        pipe + allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 20 segments in flight, the first lost, ssthresh 14. Each pair of ACKs lets one
    /// segment leave for two that arrived, until the window is 14; from there on one leaves for
    /// each.
    #[test]
    fn rate_halving_takes_a_segment_for_every_second_ack() {
        let mut halving = RateReduction::begin(20);
        let (mut cwnd, mut pipe, mut windows, mut sent) = (20, 20, Vec::new(), Vec::new());
        for _ in 0..16 {
            pipe -= 1;
            cwnd = halving.halve(cwnd, pipe, 14);
            sent.push(cwnd.saturating_sub(pipe));
            pipe = pipe.max(cwnd);
            windows.push(cwnd);
        }
        assert_eq!(windows, [20, 19, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 14, 14, 14]);
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1]);
        // With less in flight than the window, each ACK lets one segment leave.
        assert_eq!((halving.halve(14, 5, 14), halving.halve(6, 5, 14)), (6, 6));
    }

    /// RFC 6937 section 3: above `ssthresh` as many leave as are half of those that were delivered,
    /// rounded up.
    // [RFC6937-3-4]
    #[test]
    fn above_ssthresh_what_leaves_is_in_proportion_to_what_arrived() {
        let mut prr = RateReduction::begin(20);
        let mut pipe = 20;
        let sent: Vec<u32> = [1, 1, 1, 2, 1, 3]
            .map(|delivered| {
                pipe -= delivered;
                let n = prr.on_ack(delivered, pipe, 10, false) - pipe;
                (0..n).for_each(|_| prr.on_send());
                pipe += n;
                n
            })
            .into();
        // Half of 1, 2, 3, 5, 6 and 9, rounded up: 1, 1, 2, 3, 3, 5 in all.
        assert_eq!(sent, [1, 0, 1, 1, 0, 2]);
    }

    /// RFC 6937 section 3: below `ssthresh` a segment more than arrived, only as many where the ACK
    /// is not safe, and never past it.
    // [RFC6937-3-5] [RFC6937-3-6] [RFC6937-3-7] [RFC8985-9.3-2]
    #[test]
    fn below_ssthresh_it_grows_by_one_more_than_was_delivered() {
        for (pipe, delivered, safe, cwnd) in
            [(3, 1, true, 5), (3, 1, false, 4), (3, 2, true, 6), (3, 4, false, 7), (9, 3, true, 10), (10, 1, true, 10)]
        {
            let mut prr = RateReduction::begin(20);
            prr.on_send();
            assert_eq!(prr.on_ack(delivered, pipe, 10, safe), cwnd, "{pipe} {delivered} {safe}");
        }
        // Segments not sent when they might have been are made up for.
        let mut prr = RateReduction::begin(20);
        (0..4).for_each(|_| _ = prr.on_ack(1, 10, 10, false));
        assert_eq!(prr.on_ack(1, 3, 10, false), 8, "five were delivered and none sent");
    }

    /// RFC 6937 section 4, figure 1: 20 segments in flight, the first lost, halved to 10: one
    /// segment leaves for every second ACK and the window ends at `ssthresh`.
    // [RFC5681-4.3-4] [RFC6937-3-1] [RFC6937-3-2] [RFC6937-3-3] [RFC6937-3-4]
    #[test]
    fn halves_by_sending_on_every_second_ack() {
        let mut prr = RateReduction::begin(20);
        let mut pipe = 16; // three duplicates seen, one judged lost
        let mut sent = Vec::new();
        for ack in 0..16 {
            let cwnd = prr.on_ack(1, pipe, 10, false);
            let mut n = 0;
            while pipe < cwnd {
                prr.on_send();
                pipe += 1;
                n += 1;
            }
            sent.push(n);
            if ack < 15 {
                pipe -= 1;
            }
        }
        assert_eq!(sent.iter().sum::<u32>(), 8 + 1, "{sent:?}");
        assert!(pipe.abs_diff(10) <= 1, "pipe {pipe}");
    }
}
