//! The loop that moves packets between real hosts and a network in virtual time. It does no I/O and
//! reads no clock of its own: both are arguments, so the tests run it by hand.
//!
//! A turn: the network catches up with the clock, what it delivers goes to the hosts, then what the
//! hosts have sent goes in, each packet at the time at which it was read. The network may be late;
//! it catches up, and packets keep their virtual times.

use airtcp_core::units::{Span, Time};

use crate::common::clock::Clock;
use crate::common::network::{Delivered, Network, Tap};
use crate::common::payloads::Payloads;
use crate::shell::gate::{Gate, GateReport};
use crate::shell::watch::Watch;

/// The hosts' devices.
pub trait Port {
    /// How many there are.
    fn count(&self) -> usize;
    /// The next packet that a host sends; `None`: there is none now.
    fn read(&mut self, host: usize, buffer: &mut [u8]) -> Option<usize>;
    /// True if the host has handed over its next packet together with the last one.
    fn has_more(&self, _host: usize) -> bool {
        false
    }
    /// Hands a host a packet; false: its device did not take it.
    fn write(&mut self, host: usize, packet: &[u8]) -> bool;
}

/// Packets of a host that are read before others have their turn.
const READ_BATCH: usize = 64;
/// While nothing real is inside, the network may fall behind the clock by this: simulated traffic
/// alone wakes nobody.
const IDLE_LAG: Span = Span::from_ms(1);
/// The largest packet that a device hands over.
const BUFFER_BYTES: usize = 65536;

/// Packets between hosts and a network.
#[derive(Debug)]
pub struct Driver<N, P> {
    /// Behind the hosts.
    pub network: N,
    /// The hosts.
    pub ports: P,
    payloads: Payloads,
    may_have: Vec<bool>,
    /// By host: since when its device may have had a packet. Since then at the earliest the next
    /// one has waited there.
    may_wait_since: Vec<Time>,
    /// By host.
    gates: Vec<Option<Gate>>,
    has_gates: bool,
    buffer: Vec<u8>,
}

impl<N: Network, P: Port> Driver<N, P> {
    /// Hosts on a network.
    pub fn new(network: N, ports: P) -> Driver<N, P> {
        let hosts = ports.count();
        Driver {
            network,
            ports,
            payloads: Payloads::default(),
            may_have: vec![true; hosts],
            may_wait_since: vec![Time::ZERO; hosts],
            gates: (0..hosts).map(|_| None).collect(),
            has_gates: false,
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Has a gate hold back what small queues would. The network has to report what its radios
    /// release.
    pub fn gate(&mut self, host: usize) {
        if let Some(gate) = self.gates.get_mut(host) {
            *gate = Some(Gate::default());
            self.has_gates = true;
        }
    }

    /// Counts of a host's gate, if it has one.
    pub fn gate_report(&self, host: usize) -> Option<GateReport> {
        Some(self.gates.get(host)?.as_ref()?.report())
    }

    /// Something may have come from this host.
    pub fn wake(&mut self, host: usize) {
        if let Some(may_have) = self.may_have.get_mut(host) {
            *may_have = true;
        }
    }

    /// Packets whose bytes have been kept at once, at most.
    pub fn most_inside(&self) -> usize {
        self.payloads.len()
    }

    /// Does all there is to do now, and returns until when nothing will be, unless a host sends.
    pub fn turn(&mut self, clock: &impl Clock, watch: &mut Watch, tap: &mut impl Tap) -> Time {
        let began = clock.now();
        watch.begin_turn(began);
        for (since, _) in
            self.may_wait_since.iter_mut().zip(&self.may_have).filter(|(since, has)| **has && **since == Time::NEVER)
        {
            *since = began;
        }
        self.catch_up(began, clock, watch, tap);
        // Where the network is; packets that are handed over together enter it together.
        let mut now = began;
        for host in 0..self.may_have.len() {
            let mut read = 0;
            while self.may_have[host] {
                let is_joined = self.ports.has_more(host);
                if read >= READ_BATCH && !is_joined {
                    break;
                }
                read += 1;
                let Some(len) = self.ports.read(host, &mut self.buffer) else {
                    self.may_have[host] = false;
                    self.may_wait_since[host] = Time::NEVER;
                    break;
                };
                if !is_joined {
                    now = clock.now();
                    watch.read(now.since(self.may_wait_since[host].min(now)));
                    self.catch_up(now, clock, watch, tap);
                }
                let bytes = self.buffer.get(..len).unwrap_or(&[]);
                tap.packet(now, host, true, bytes);
                let bulk = if self.gates[host].is_some() { self.network.tcp_data(bytes) } else { None };
                if let (Some(gate), Some(bulk)) = (&mut self.gates[host], bulk) {
                    if !gate.admits(now, bulk, bytes) {
                        watch.sent(host, len);
                        continue;
                    }
                }
                match self.network.inject(host, bytes) {
                    Ok(id) => {
                        self.payloads.put(id, bytes);
                        watch.sent(host, len);
                        if let (Some(gate), Some(holding)) = (&mut self.gates[host], self.network.holding()) {
                            gate.entered(now, holding, bulk, len);
                        }
                    }
                    Err(why) => watch.not_sent(why),
                }
            }
        }
        let now = clock.now();
        watch.end_turn(now);
        if self.may_have.contains(&true) {
            return now;
        }
        let deadline = self.network.deadline();
        if self.network.inside() > 0 { deadline } else { deadline.max(now + IDLE_LAG) }
    }

    /// Lets in what waits at gates, as far as radios have made room.
    fn open_gates(&mut self, now: Time, watch: &mut Watch) {
        while let Some((holding, packets)) = self.network.take_released() {
            self.gates.iter_mut().flatten().for_each(|gate| gate.released(now, holding, packets));
        }
        let is_empty = self.network.inside() == 0;
        for (host, gate) in self.gates.iter_mut().enumerate() {
            let Some(gate) = gate.as_mut().filter(|gate| gate.has_waiting()) else { continue };
            if is_empty {
                gate.emptied();
            }
            while let Some((bulk, bytes)) = gate.take_next() {
                match self.network.inject(host, &bytes) {
                    Ok(id) => {
                        self.payloads.put(id, &bytes);
                        if let Some(holding) = self.network.holding() {
                            gate.entered(now, holding, Some(bulk), bytes.len());
                        }
                    }
                    Err(why) => watch.not_sent(why),
                }
            }
        }
    }

    fn catch_up(&mut self, now: Time, clock: &impl Clock, watch: &mut Watch, tap: &mut impl Tap) {
        let Driver { network, ports, payloads, may_have, may_wait_since, .. } = self;
        network.run_until(now);
        let mut give = |delivered: Delivered| {
            let packet = payloads.get(delivered.id);
            if delivered.is_marked {
                N::write_mark(&delivered, packet);
            }
            watch.delivered(delivered.to, packet.len(), clock.now().since(delivered.time));
            if ports.write(delivered.to, packet) {
                tap.packet(delivered.time, delivered.to, false, packet);
            } else {
                watch.not_taken();
            }
            // Its answer is in the other direction already: the stack runs within the write.
            may_have.fill(true);
            for since in may_wait_since.iter_mut().filter(|since| **since == Time::NEVER) {
                *since = now;
            }
        };
        while network.take_egress(&mut give) {}
        if self.has_gates {
            self.open_gates(now, watch);
        }
    }
}

#[cfg(test)]
mod tests;
