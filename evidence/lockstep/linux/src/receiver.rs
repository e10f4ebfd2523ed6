//! The receiver that answers the kernel: RFC 9293, 2018, 2883, 3168 and 7323, in whole segments.

use crate::plan::Plan;

/// Fields of an ACK; `echo`: the packet whose timestamp it has (in order of sending), `None`: the
/// SYN's.
#[derive(Clone, Debug, Default)]
pub struct Said {
    pub ack: u64,
    pub blocks: Vec<(u64, u64)>,
    pub window: u64,
    pub ece: bool,
    pub echo: Option<usize>,
}

#[derive(Default)]
pub struct Receiver {
    next: u64,
    /// Above `next`, the newest first.
    ahead: Vec<(u64, u64)>,
    duplicate: Option<(u64, u64)>,
    echo: Option<usize>,
    acked: u64,
    waiting: u64,
    arrivals: u64,
    ece: bool,
    right_edge: u64,
}

/// In segments: more than any path sends.
const WIDE: u64 = 2000;
const SACK_BLOCKS: usize = 4;
const SACK_BLOCKS_BESIDE_TIMESTAMPS: usize = 3;

impl Receiver {
    /// A segment arrives; whether it is acknowledged at once.
    pub fn on_segment(&mut self, plan: &Plan, segment: u64, packet: usize, marked: bool, reduced: bool) -> bool {
        self.arrivals += 1;
        if plan.forgets_at.contains(&self.arrivals) {
            self.ahead.clear();
        }
        if reduced {
            self.ece = false;
        }
        self.ece |= marked;
        if segment <= self.acked && self.echo.is_none_or(|echo| echo < packet) {
            self.echo = Some(packet);
        }
        let known = segment < self.next || self.ahead.iter().any(|b| (b.0..b.1).contains(&segment));
        if known {
            self.duplicate = plan.dsack.then_some((segment, segment + 1));
            return true;
        }
        let had_holes = !self.ahead.is_empty();
        let (mut start, mut end) = (segment, segment + 1);
        self.ahead.retain(|b| {
            let touches = b.0 <= end && start <= b.1;
            if touches {
                (start, end) = (start.min(b.0), end.max(b.1));
            }
            !touches
        });
        if start == self.next {
            self.next = end;
        } else {
            self.ahead.insert(0, (start, end));
        }
        self.waiting += 1;
        had_holes
            || !self.ahead.is_empty()
            || self.waiting >= plan.ack_every
            || self.arrivals <= plan.quick_acks
            || marked
    }

    pub fn must_acknowledge(&self) -> bool {
        self.waiting > 0
    }

    pub fn acknowledge(&mut self, plan: &Plan) -> Said {
        self.waiting = 0;
        self.acked = self.next;
        let mut blocks: Vec<(u64, u64)> =
            if plan.sack { self.duplicate.take().into_iter().collect() } else { Vec::new() };
        if plan.sack {
            blocks.extend(&self.ahead);
        }
        blocks.truncate(if plan.timestamps { SACK_BLOCKS_BESIDE_TIMESTAMPS } else { SACK_BLOCKS });
        let window = plan.window(self.arrivals).unwrap_or(WIDE);
        self.right_edge = self.right_edge.max(self.next + window);
        Said { ack: self.next, blocks, window: self.right_edge - self.next, ece: self.ece, echo: self.echo }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Topic;

    #[test]
    fn holes_duplicates_and_their_end_are_told() {
        let mut plan = Plan::new(Topic::Sack, 1, None);
        (plan.sack, plan.dsack, plan.timestamps, plan.ack_every, plan.quick_acks) = (true, true, true, 2, 0);
        let mut r = Receiver::default();
        assert!(!r.on_segment(&plan, 0, 0, false, false));
        assert!(r.on_segment(&plan, 2, 1, false, false));
        let said = r.acknowledge(&plan);
        assert_eq!((said.ack, said.blocks, said.echo), (1, vec![(2, 3)], Some(0)));
        assert!(r.on_segment(&plan, 5, 2, false, false));
        assert_eq!(r.acknowledge(&plan).blocks, [(5, 6), (2, 3)]);
        assert!(r.on_segment(&plan, 2, 3, false, false));
        assert_eq!(r.acknowledge(&plan).blocks, [(2, 3), (5, 6), (2, 3)]);
        assert!(r.on_segment(&plan, 1, 4, false, false));
        let said = r.acknowledge(&plan);
        assert_eq!((said.ack, said.blocks, said.echo), (3, vec![(5, 6)], Some(4)));
    }
}
