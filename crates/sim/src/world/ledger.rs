//! What became of packets.

/// What became of all packets so far. What is neither delivered, dropped nor lost is in the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    pub sent: Count,
    /// Reached its flow's other end.
    pub delivered: Count,
    /// Of these, on the way from source to destination.
    pub delivered_forward: Count,
    pub dropped: Count,
    pub lost: Count,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    #[inline]
    pub(super) fn add(&mut self, size: u16) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
}
