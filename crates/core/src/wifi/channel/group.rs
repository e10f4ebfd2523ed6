//! Group-addressed frames: what an access point sends to all its stations at once.
//!
//! Sent at the lowest basic rate, one by one, without acknowledgement or retries (IEEE 802.11-2020 10.3.7, 10.6.5.3): each
//! station receives its copy or not by its own signal. A station's own broadcast goes to its access point first, as any frame of its,
//! and the access point sends it to all (4.3.5.2): also to the station that it came from, which ignores it.
//!
//! Assumptions: what disturbs a group-addressed frame at the access point disturbs it for all stations; nobody saves power, so
//! nothing waits for a DTIM beacon.

use super::exchange::{draw, mark_sent};
use super::records::record_data;
use super::{AirOutputs, Channel, Gate, Link, fastest};
use crate::packet::Pool;
use crate::rng::{Purpose, Stream, stream};
use crate::units::Time;
use crate::wifi::ids::{PairId, RadioId};
use crate::wifi::phy::ErrorModel;
use crate::wifi::radio::Radio;
use crate::wifi::rate::{RateConfig, RateContext};
use crate::wifi::trace::AirStats;

/// The link from an access point to its group.
pub(super) fn link(ap: RadioId, radio: &Radio, errors: &ErrorModel, seed: u64, component: u64) -> Link {
    // [IEEE80211-10.6.5-1]
    let lowest = radio.config.phy.basic_modes().first().copied();
    let context = RateContext {
        modes: vec![lowest.unwrap_or_else(|| fastest(&radio.config.phy.modes()))],
        timing: radio.timing.clone(),
        stream: Stream::new(seed, component, Purpose::RateControl),
        errors: errors.clone(),
    };
    let rate = RateConfig::by_name("fixed").expect("registered").build(&context);
    Link {
        from: ap,
        to: ap,
        pair: None,
        gate: Gate::Open,
        rate_setup: None,
        sessions: [None; 4],
        wants_snr: false,
        rate,
        tcp_limit: None,
        stats: AirStats::default(),
        counted_to: Time::ZERO,
        error_rng: stream(seed, component, Purpose::AirErrors),
    }
}

impl Channel {
    /// A group-addressed frame has ended: whom it reached. True if anybody.
    pub(super) fn group_arrives(&mut self, now: Time, i: usize, pool: &mut Pool, out: &mut AirOutputs) -> bool {
        let x = &mut self.exchanges[i];
        let radio = &mut self.radios[x.from.index()];
        let framing = radio.framing;
        let ppdu = radio.queues[x.ac.index()].formed.front_mut().expect("on the air");
        let session = ppdu.session;
        let is_spoilt = x.is_spoilt();
        let link = &mut self.links[x.link.index()];
        let [mpdu] = &mut ppdu.mpdus[..] else { unreachable!("no Block Ack agreement with a group") };
        let bytes = framing.mpdu_bytes(u32::from(mpdu.size));
        let mut reached = false;
        for (p, pair) in (0..).map(PairId).zip(&mut self.pairs) {
            if is_spoilt || pair.access_point != x.from || !pair.is_associated {
                continue;
            }
            let signal = &mut pair.signal;
            let quality = signal.link(now);
            let chance = || signal.preamble_success(quality, x.mode) * signal.mpdu_success(quality, x.mode, bytes);
            if quality.is_perfect() || draw(chance(), &mut link.error_rng) {
                out.heard.push((p, mpdu.packet));
                reached = true;
            }
        }
        x.received = u16::from(reached);
        if self.trace.frames {
            record_data(&mut self.frames, &mut self.ampdus, now, x, ppdu, 0..1, pool, |_| (reached, false));
        }
        if reached {
            let mpdu = &mut ppdu.mpdus[0];
            mpdu.set_arrived();
            self.up.push(mpdu.packet);
        }
        mark_sent(ppdu);
        self.hand_up(session, pool, out);
        reached
    }
}
