//! The receiving end of a connection.

use std::sync::Arc;

use super::{Outputs, TcpConfig};
use crate::packet::{FlowId, Packet};
use crate::units::{DataRate, Time};

/// Counters since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Data segments that arrived, duplicates included.
    pub segments_received: u64,
    /// Payload bytes handed to the application, in order.
    pub bytes_delivered: u64,
    /// Payload bytes that had arrived before.
    pub bytes_duplicate: u64,
    pub acks_sent: u64,
    /// Segments that arrived with the ECN mark CE.
    pub ce_received: u64,
}

pub struct Receiver {}

impl Receiver {
    pub fn new(_flow: FlowId, _incarnation: u8, _config: Arc<TcpConfig>) -> Receiver {
        todo!()
    }
    /// The application reads no faster than this; `None`: at once.
    pub fn set_read_rate(&mut self, _now: Time, _rate: Option<DataRate>) {
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
    pub fn stats(&self) -> &ReceiverStats {
        todo!()
    }
}
