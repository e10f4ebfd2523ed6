//! A world as one of several partitions.

use airtcp_core::units::{Span, Time};

use super::World;
use crate::capture::NoCapture;
use crate::engine::partitions::{Partition, Stop};
use crate::network::borders::Parcel;

impl Partition for World {
    type Parcel = Parcel;

    fn next_event(&self) -> Time {
        self.cx.engine.next_event()
    }
    fn run_before(&mut self, limit: Time) -> u64 {
        let before = self.cx.engine.events;
        World::run_before(self, limit, &mut NoCapture);
        self.cx.engine.events - before
    }
    fn outbox(&mut self) -> &mut [Vec<Parcel>] {
        self.network.outbox()
    }
    fn receive_parcels(&mut self, sent: &mut Vec<Parcel>) {
        self.network.receive_parcels(&mut self.cx.engine, sent);
    }
    fn arrive(&mut self, stop: &Stop) {
        self.cx.engine.now = self.now().max(stop.now);
        if stop.is_warmup {
            self.begin_summary();
        }
    }
}

impl World {
    /// Stops on the way to `time`.
    pub(crate) fn stops(&self, time: Time) -> Vec<Stop> {
        let warmup = Time::ZERO + self.spec.warmup;
        let mut stops = Vec::new();
        if self.cx.books.awaits_warmup(&self.spec, time) {
            stops.push(Stop { before: warmup, now: warmup, is_warmup: true });
        }
        stops.push(Stop { before: time + Span::from_ns(1), now: time, is_warmup: false });
        stops
    }
}
