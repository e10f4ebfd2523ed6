//! Congestion controls, one file each. Shaped like Linux's `tcp_congestion_ops` so that a control
//! can also live in the kernel: windows in segments, integers, small state.

pub mod hystart;
pub mod hystart_plus_plus;
#[cfg(test)]
mod invariants;
#[cfg(test)]
pub(crate) mod rounds;
pub mod slow_start;

use self::slow_start::SlowStart;
use crate::policy::policies;
use crate::rng::Stream;
use crate::units::{DataRate, Span, Time};

/// The sender's congestion state, as in Linux's `tcp_ca_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CaState {
    /// Nothing is wrong.
    #[default]
    Open,
    /// Duplicate ACKs or SACKs, not yet a loss.
    Disorder,
    /// Window reduction after an ECN echo.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// Fields that a congestion control may write; the sender keeps them. In the kernel, a
/// `tcp_congestion_ops` in BPF may likewise write `snd_cwnd`, `snd_cwnd_cnt` and `snd_ssthresh`.
/// All that it may read besides is [`Path`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Congestion window, segments. At least 1.
    pub cwnd: u32,
    /// Segments credited towards the next increase of `cwnd` in congestion avoidance.
    pub cwnd_cnt: u32,
    /// Slow-start threshold, segments; `u32::MAX` until the first reduction. The sender sets it to
    /// what [`CongestionControl::ssthresh`] says; a control may write it, too (HyStart++, BBR).
    pub ssthresh: u32,
}

/// Fields that a congestion control may read of its connection. A control cannot write them: it
/// gets a shared reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The instant of this call.
    pub now: Time,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Span,
    /// Smallest round-trip time so far; `Span::MAX` before the first sample.
    pub min_rtt: Span,
    /// Segments in the network: sent, not acknowledged, not SACKed, not lost, plus retransmissions.
    pub in_flight: u32,
    /// `cwnd` just before the last reduction, segments.
    pub prior_cwnd: u32,
    /// Upper bound of `cwnd`, segments.
    pub cwnd_clamp: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Bytes on the wire of a full segment (IP layer); pacing rates count these.
    pub wire_bytes: u32,
    /// State of the sender.
    pub state: CaState,
    /// When the pacing lets the next segment leave; it may be past.
    pub next_send_at: Time,
    /// A send quantum is what passes in a second / 2^this at the pacing rate: Linux's
    /// `sk_pacing_shift`, which Wi-Fi lowers from 10 to 7.
    pub pacing_shift: u32,
}

impl Window {
    /// True if the window doubles per round trip: `cwnd` is below `ssthresh`.
    // [RFC5681-3.1-1] [RFC5681-3.1-8]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// RFC 5681 slow start: one segment per credited segment, up to `ssthresh`. Returns the credit
    /// that is left over.
    pub fn slow_start(&mut self, path: &Path, credit: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(credit).min(self.ssthresh);
        let left = credit - (cwnd - self.cwnd);
        self.cwnd = cwnd.min(path.cwnd_clamp);
        left
    }

    /// Additive increase: one segment per `per` credited segments (`per` = `cwnd` gives RFC 5681
    /// congestion avoidance).
    // [RFC5681-3.1-10] [RFC5681-3.1-11]
    pub fn increase_additively(&mut self, path: &Path, per: u32, credit: u32) {
        let per = per.max(1);
        if self.cwnd_cnt >= per {
            // `per` shrank below what has been credited: use up the old credit first.
            self.cwnd_cnt = 0;
            self.cwnd += 1;
        }
        // [RFC5681-3.1-12]
        self.cwnd_cnt += credit;
        if self.cwnd_cnt >= per {
            let steps = self.cwnd_cnt / per;
            self.cwnd_cnt -= steps * per;
            self.cwnd = self.cwnd.saturating_add(steps);
        }
        self.cwnd = self.cwnd.min(path.cwnd_clamp);
    }
}

/// Delivery rate over the flight of the newest segment that this ACK reports
/// (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered during `interval`.
    pub delivered: u32,
    /// The longer of the send and the ACK phase; never zero.
    pub interval: Span,
    /// Total delivered segments when that segment was sent: a round trip has passed when this
    /// reaches the total that was delivered at the start of the round.
    pub prior_delivered: u64,
    /// The sample may understate the path: the sender had nothing to send.
    pub app_limited: bool,
}

/// Information of one ACK. Segments are counted, not bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckSample {
    /// Newly covered by the cumulative acknowledgement.
    pub acked: u32,
    /// Newly known to have arrived: cumulatively or by SACK.
    pub delivered: u32,
    /// Credit for window growth: `acked` under the connection's byte-counting rule (RFC 3465).
    pub credit: u32,
    /// Newly judged lost.
    pub lost: u32,
    /// Round-trip time measured by this ACK, if it measured one.
    pub rtt: Option<Span>,
    /// In flight before this ACK was processed.
    pub prior_in_flight: u32,
    /// Delivered since the connection began, this ACK included.
    pub total_delivered: u64,
    /// Where the control asks for it ([`CongestionControl::wants_rate`]) and this ACK measured one.
    pub rate: Option<RateSample>,
    /// The ACK carried an ECN echo.
    pub ece: bool,
    /// Newly delivered segments that came with a congestion mark, as far as the echo tells: counted
    /// by Accurate ECN, else all or none.
    pub marked: u32,
    /// The window, not the application or the receiver, limits the sender: only then may it grow
    /// (RFC 7661).
    pub cwnd_limited: bool,
    /// First stream offset not acknowledged yet, bytes; for controls that count rounds by sequence
    /// (Vegas, HyStart++).
    pub snd_una: u64,
    /// First stream offset not sent yet, bytes.
    pub snd_nxt: u64,
}

/// Context in which a control is built, besides its parameters.
pub struct CcContext {
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Segments.
    pub initial_cwnd: u32,
    /// The connection spaces its segments (its pacing option is not `off`).
    pub paced: bool,
    /// For what it draws.
    pub stream: Stream,
}

/// A congestion control. Every window is in segments; the time of a call is [`Path::now`].
pub trait CongestionControl {
    /// An ACK arrived that delivered something. Called while the sender lets the window grow
    /// (`Open`, `Disorder`, `Loss`); in `Recovery` and `Cwr` the sender's reduction (PRR, RFC
    /// 6937) sets `cwnd`, unless [`Self::owns_window`].
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample);

    /// The slow-start threshold to fall to: a loss was found, a timeout fired or an ECN echo
    /// arrived. Called once per reduction, before `cwnd` changes and before [`Self::on_state`]
    /// reports the state that goes with it. At least 2.
    fn ssthresh(&mut self, w: &Window, path: &Path) -> u32;

    /// The sender enters `to`; `path.state` is still the state it leaves and `w.cwnd` the window
    /// before the change. A control with [`Self::owns_window`] sets the window of the new state
    /// itself; for the others the sender does.
    fn on_state(&mut self, _w: &mut Window, _path: &Path, _to: CaState) {}

    /// The slow start with an exit of its own that the control has, which is to hear an ACK that
    /// arrives at `now`. `None`: it has none, or this ACK says nothing to it. Every control has
    /// to answer, so that none can forget its exit: the exits learn from every ACK, and
    /// [`Self::on_ack`] does not see them all.
    fn slow_start(&mut self, now: Time) -> Option<&mut SlowStart>;

    /// An ACK arrived that delivered something, whatever the state, before anything is made of it.
    /// `ack.lost` is not known yet. The window may not grow. Only if [`Self::wants_every_ack`].
    fn on_every_ack(&mut self, _w: &mut Window, _path: &Path, _ack: &AckSample) {}

    /// The sender calls this for every ACK if [`Self::needs_every_ack`]: the control hears it, then
    /// its slow start.
    fn pass_every_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        self.on_every_ack(w, path, ack);
        if let Some(slow_start) = self.slow_start(path.now) {
            slow_start.on_every_ack(w, path, ack);
        }
    }

    /// The control or its slow start asks for every ACK. Asked once, at the beginning.
    fn needs_every_ack(&mut self) -> bool {
        self.wants_every_ack() || self.slow_start(Time::ZERO).is_some_and(|s| s.wants_every_ack())
    }

    /// The handshake is over, and `path` knows its round trip, if that could be measured.
    fn on_established(&mut self, _w: &mut Window, _path: &Path) {}

    /// Transmission starts again after `idle` without anything in flight.
    fn on_restart(&mut self, _w: &mut Window, _path: &Path, _idle: Span) {}

    /// Data leaves with nothing in flight, `since_last` after the last that left. Linux has
    /// CA_EVENT_TX_START. `app_limited`: the application had nothing to send in between.
    fn on_transmission_start(&mut self, _w: &mut Window, _path: &Path, _since_last: Span, _app_limited: bool) {}

    /// The host says that its path has changed, as after a handover: what was learnt of the old one
    /// may mislead. `path.min_rtt` still is that of the whole connection.
    fn on_path_change(&mut self, _w: &mut Window, _path: &Path) {}

    /// The window to return to when a reduction proves to have been spurious.
    // [RFC9438-4.9.2-3]
    fn undo(&mut self, w: &Window, path: &Path) -> u32 {
        w.cwnd.max(path.prior_cwnd)
    }

    /// A rate of its own at which to pace, counted in wire bytes; `None`: the connection's pacing
    /// option decides.
    fn pacing_rate(&self, _w: &Window, _path: &Path) -> Option<DataRate> {
        None
    }

    /// Segments handed down at once at least, whatever the rate: `min_tso_segs` of Linux's
    /// `tcp_congestion_ops`. `None`: as many as the connection's option says.
    fn min_tso_segs(&self, _w: &Window, _path: &Path) -> Option<u32> {
        None
    }

    /// Part of the window above `cwnd`, in 2^-32 segments, if a control keeps the window as a real
    /// number. Pacing by cwnd counts this part; the limit of packets in flight does not.
    fn cwnd_fraction(&self) -> u32 {
        0
    }

    /// Window that a retransmission timeout leaves, segments, at least 1 (RFC 5681's loss window).
    /// It never raises `cwnd`.
    fn loss_window(&self, _path: &Path) -> u32 {
        1
    }

    /// A timeout that sends one segment (`timeout_sends_one`) lets new data leave at once, as far
    /// as [`Self::loss_window`] has room.
    fn sends_new_data_after_timeout(&self) -> bool {
        false
    }

    /// True if the control sets `cwnd` on every ACK in every state (Linux's `cong_control`; BBR).
    fn owns_window(&self) -> bool {
        false
    }

    /// True for [`Self::on_every_ack`]; Linux has `in_ack_event` and `pkts_acked`.
    fn wants_every_ack(&self) -> bool {
        false
    }

    /// True if the control reads [`AckSample::rate`]; the others are spared the measurement and
    /// find `None` there.
    fn wants_rate(&self) -> bool {
        false
    }
}

/// Whole microseconds, the controls' unit of round trips; saturates at 71 minutes.
pub(crate) fn micros(span: Span) -> u32 {
    u32::try_from(span.as_ns() / 1_000).unwrap_or(u32::MAX)
}

policies! {
    /// One of the registered congestion controls.
    AnyCc: CongestionControl,
    /// Parameters of a congestion control.
    CcConfig("a congestion control"), built with CcContext {
        reno => Reno / RenoConfig,
        cubic => Cubic / CubicConfig,
        vegas => Vegas / VegasConfig,
        bbr => Bbr in Box / BbrConfig,
        tcp_av => TcpAv in Box / TcpAvConfig,
        dctcp => Dctcp / DctcpConfig,
        prague => Prague / PragueConfig,
        bbr3 => Bbr3 in Box / Bbr3Config,
    }
}
