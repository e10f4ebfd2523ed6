//! Queue and radio that the packets of a flow go into first, as the sender above them knows it.

use airtcp_core::wifi::TransmitConfig;

use crate::spec::{LinkId, RunSpec};
use crate::traffic::{FirstQueue, RadioTsq};

/// Notices of the queue that a sender's packets go into first.
pub(super) fn first_queue(spec: &RunSpec, first: LinkId) -> Option<FirstQueue> {
    let link = spec.links.get(first.index())?;
    let queue = match link.air {
        None => &link.queue,
        Some(air) => {
            let channel = &spec.channels[air.channel.index()];
            let pair = &channel.pairs[usize::from(air.pair)];
            let radio = if air.down { pair.access_point } else { pair.station };
            match &channel.radios[radio.index()].config.transmit {
                TransmitConfig::Qdisc(path) => &path.qdisc,
                _ => return None,
            }
        }
    };
    FirstQueue::new(first, queue)
}

/// Reports of the radio that a sender's packets go into first; `None` for a wire.
pub(crate) fn radio_tsq(spec: &RunSpec, first: LinkId) -> Option<RadioTsq> {
    let air = spec.links.get(first.index())?.air?;
    if air.is_group {
        return None;
    }
    let channel = &spec.channels[air.channel.index()];
    let pair = &channel.pairs[usize::from(air.pair)];
    let radio = if air.down { pair.access_point } else { pair.station };
    let pacing_shift = channel.radios[radio.index()].config.transmit.tsq_pacing_shift();
    Some(RadioTsq { pacing_shift })
}
