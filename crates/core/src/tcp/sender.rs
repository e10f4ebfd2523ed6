//! The sending end of a connection.

use std::sync::Arc;

use super::cc::Window;
use super::{Outputs, TcpConfig};
use crate::packet::{FlowId, Packet};
use crate::rng::Rng;
use crate::units::{Span, Time};

/// Counters since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments put on the line, retransmissions included.
    pub segments_sent: u64,
    pub segments_retransmitted: u64,
    /// Payload bytes cumulatively acknowledged.
    pub bytes_acked: u64,
    pub fast_retransmits: u64,
    pub timeouts: u64,
    pub window_probes: u64,
    pub ecn_reductions: u64,
    /// Round-trip samples: number, sum, least and greatest.
    pub rtt_count: u64,
    pub rtt_sum_ns: u64,
    pub rtt_min_ns: u64,
    pub rtt_max_ns: u64,
}

pub struct Sender {}

impl Sender {
    pub fn new(_flow: FlowId, _incarnation: u8, _config: Arc<TcpConfig>, _rng: Rng) -> Sender {
        todo!()
    }
    /// Connects; data written before or after flows as soon as the handshake allows.
    pub fn open(&mut self, _now: Time, _out: &mut Outputs) {
        todo!()
    }
    /// The application has `bytes` more to send; `u64::MAX`: it never runs out.
    pub fn write(&mut self, _now: Time, _bytes: u64, _out: &mut Outputs) {
        todo!()
    }
    /// No more will be written: FIN after the last byte.
    pub fn close(&mut self, _now: Time, _out: &mut Outputs) {
        todo!()
    }
    pub fn on_packet(&mut self, _now: Time, _packet: &Packet, _out: &mut Outputs) {
        todo!()
    }
    pub fn on_deadline(&mut self, _now: Time, _out: &mut Outputs) {
        todo!()
    }
    pub fn deadline(&self) -> Time {
        todo!()
    }
    pub fn window(&self) -> &Window {
        todo!()
    }
    pub fn stats(&self) -> &SenderStats {
        todo!()
    }
    /// Smoothed round-trip time, if measured.
    pub fn srtt(&self) -> Option<Span> {
        todo!()
    }
}
