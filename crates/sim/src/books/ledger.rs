//! Fates of packets.

/// Fates of all packets so far. A packet that is neither delivered, dropped nor lost is in the
/// network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By sources.
    pub sent: Count,
    /// Reached its flow's other end.
    pub delivered: Count,
    /// Delivered packets that went from source to destination.
    pub delivered_forward: Count,
    /// At queues, or given up in the air.
    pub dropped: Count,
    /// On lines.
    pub lost: Count,
    /// Delivered packets that interfaces of hosts took, and passed up.
    pub taken_by_interfaces: Count,
    /// See there.
    pub passed_by_interfaces: Count,
}

/// How many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes at the IP layer.
    pub bytes: u64,
}

impl Ledger {
    /// Adds the counts of another part of the same world.
    pub(crate) fn join(&mut self, other: &Ledger) {
        let add = |to: &mut Count, from: Count| to.add_all(from.packets, from.bytes);
        add(&mut self.sent, other.sent);
        add(&mut self.delivered, other.delivered);
        add(&mut self.delivered_forward, other.delivered_forward);
        add(&mut self.dropped, other.dropped);
        add(&mut self.lost, other.lost);
        add(&mut self.taken_by_interfaces, other.taken_by_interfaces);
        add(&mut self.passed_by_interfaces, other.passed_by_interfaces);
    }
}

impl Count {
    #[inline]
    pub(crate) fn add(&mut self, size: u16) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
    /// Several at once.
    #[inline]
    pub(crate) fn add_all(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}
