//! The recipient of Block Ack: MPDUs that arrive in any order go up in order, each once.
//!
//! One [`ReorderBuffer`] per sender and TID, by mac80211's rules (net/mac80211/rx.c), which are
//! IEEE 802.11-2020 clause 10.25.6.6 with a timer. An MPDU at the head of the window goes up at
//! once, with those that waited for it. One ahead of the head is held. One beyond the window's end
//! moves the window, and held MPDUs that fall behind it go up. One behind the head is refused. An
//! MPDU held longer than [`ReorderConfig::timeout`] makes the gaps before it count as lost. A BAR
//! moves the head likewise.
//!
//! With [`ReorderConfig::retry_out`] the buffer also applies retry-out of the study `ap-retry-out`
//! (section 3.2). Copies that arrive corrupt, their header intact, are counted for each number
//! inside the window; one reception is the first try, so receptions less one are the estimated
//! retries. Once these reach the index, an MPDU that carries TCP is **given up**: the window passes
//! over it and correct copies that still come are refused. The sender does not notice: the chip has
//! acknowledged them, or will.
//!
//! The study leaves some cases open. A number that reaches the index ahead of the head is given up
//! in place, and the head passes over it later. A copy that arrives correct in between is refused
//! like any later one (the study's "ignore"). A number counts until the window has left it behind
//! by its own length, and starts anew when it comes round again.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::early_drop::{EarlyDrop, PacketFacts};
use super::retry_out::{RetryOutConfig, TcpEarlyDrop, TcpKnownBy};
use crate::policy::checked;
use crate::range::within;
use crate::units::{DataRate, Probability, Seq12, Span, Time};

/// When the MPDUs of an A-MPDU leave the receiving radio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandsUp {
    /// All of them at the end of the PPDU: the driver gets them at once.
    #[default]
    AtPpduEnd,
    /// Each at its own last bit, as ns-3 does. The chips of ath9k write each MPDU to memory by
    /// itself, too. Their interrupt follows 0.5 ms after the last one, or 2 ms after the first.
    /// Before AR9300 it was 0.25 and 0.7 ms. See `rimt_last` and `rimt_first` in drivers/net/
    /// wireless/ath/ath9k/hw.c, Linux 6.12. That time is left out.
    AtLastBit,
}

/// Parameters of the recipient's side of Block Ack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "ReorderConfig")]
pub struct ReorderConfig {
    /// Time for which an MPDU is held before the gaps in front of it count as lost, or "never" (as
    /// ns-3). mac80211: 100 ms. Above zero.
    #[serde(serialize_with = "write_timeout", deserialize_with = "read_timeout")]
    #[schemars(with = "String")]
    pub timeout: Span,
    /// Numbers that the window spans, as agreed by ADDBA. 802.11n and ac: 64; ax: 256; be: 1024.
    #[schemars(range(min = 1, max = 1024))]
    pub window: u16,
    /// A BAR moves the head (clause 10.25.6.6.3). If off, the hole that the sender announces stays
    /// until `timeout` or the window's end.
    pub obey_bar: bool,
    /// Part of the corrupt MPDUs with an intact header that the chip reports to the driver.
    /// Retry-out counts retries by them. 1: all, as ath9k does (the study `ap-retry-out`, section
    /// 3.3). 0: none, as chips do that drop them.
    pub reports_corrupt: Probability,
    /// When the MPDUs of an A-MPDU go up.
    pub hands_up: HandsUp,
    /// Retry-out: gives up MPDUs that keep arriving corrupt. Default: off.
    pub retry_out: Option<RetryOutConfig>,
    /// Evidence by which retry-out takes a corrupt MPDU for one with a TCP segment. Only `payload`
    /// needs a network without encryption.
    pub tcp_known_by: TcpKnownBy,
}

impl Default for ReorderConfig {
    fn default() -> Self {
        ReorderConfig {
            timeout: Span::from_ms(100),
            window: 64,
            obey_bar: true,
            reports_corrupt: Probability::ONE,
            hands_up: HandsUp::AtPpduEnd,
            retry_out: None,
            tcp_known_by: TcpKnownBy::default(),
        }
    }
}

/// The largest window of the standard (802.11be); half the number space would be ambiguous.
const MAX_WINDOW: u16 = 1024;

impl ReorderConfig {
    fn check(&self) -> Result<(), String> {
        if self.timeout.is_zero() {
            return Err("`timeout` = 0ns: must be above zero, such as \"100ms\", or \"never\"".into());
        }
        within("window", self.window, 1..=MAX_WINDOW, "")
    }

    /// The rule by which the recipient of one sender and TID gives MPDUs up, if there is one.
    pub fn early_drop(&self) -> Option<TcpEarlyDrop> {
        self.retry_out.as_ref().map(|config| TcpEarlyDrop::new(config, self.tcp_known_by))
    }
}
checked!(ReorderConfig);

fn write_timeout<S: Serializer>(timeout: &Span, s: S) -> Result<S::Ok, S::Error> {
    if *timeout == Span::MAX { s.serialize_str("never") } else { timeout.serialize(s) }
}

fn read_timeout<'de, D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
    let text = String::deserialize(d)?;
    if text == "never" {
        return Ok(Span::MAX);
    }
    text.parse().map_err(|e| serde::de::Error::custom(format!("{e}, or \"never\"")))
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReorderStats {
    /// MPDUs that went up.
    pub delivered: u64,
    /// Numbers given up by retry-out.
    pub given_up: u64,
    /// Correct copies refused because their number had been given up.
    pub late: u64,
    /// Copies refused because their number had gone up or was held.
    pub duplicates: u64,
    /// Copies refused because their number counted as lost (by timeout, BAR or the window's end),
    /// or was too far behind.
    pub stale: u64,
    /// Numbers that counted as lost by timeout, BAR or the window's end.
    pub lost: u64,
    /// Times that an MPDU had been held for the timeout.
    pub timeouts: u64,
    /// Times that an MPDU beyond the window's end moved it.
    pub window_moves: u64,
    /// BARs that moved the head.
    pub bar_moves: u64,
}

/// State of a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum NumberState {
    /// In the window: not yet arrived. Behind it: counted as lost.
    Missing,
    Held,
    GivenUp,
    Delivered,
}

#[derive(Debug, Clone, Copy)]
struct Number {
    state: NumberState,
    /// Corrupt receptions.
    corrupt: u16,
}

impl Number {
    const NEW: Number = Number { state: NumberState::Missing, corrupt: 0 };
}

#[derive(Debug, Clone, Copy)]
struct HeldMpdu<T> {
    payload: T,
    since: Time,
}

/// Puts the MPDUs of one sender and TID back in order. `T` stands for an MPDU, such as a packet's
/// index in a pool, and `D` for the rule by which MPDUs are given up.
#[derive(Debug)]
pub struct ReorderBuffer<T: Copy, D: EarlyDrop> {
    /// The number that must go up next (the standard's WinStart_B).
    head: Seq12,
    window: u16,
    /// `window` rounded up to a power of two; numbers are remembered for `reach` on either side of
    /// the head.
    reach: u16,
    numbers: Box<[Number]>,
    held: Box<[Option<HeldMpdu<T>>]>,
    held_count: u16,
    /// Numbers given up that the head has not passed.
    marked_count: u16,
    deadline: Time,
    timeout: Span,
    obey_bar: bool,
    early_drop: Option<D>,
    stats: ReorderStats,
}

impl<T: Copy, D: EarlyDrop> ReorderBuffer<T, D> {
    /// A buffer whose first number is `start` (the starting sequence number of the ADDBA
    /// agreement). `early_drop`: the rule that gives MPDUs up, if there is one.
    pub fn new(config: &ReorderConfig, start: Seq12, early_drop: Option<D>) -> ReorderBuffer<T, D> {
        let window = config.window.clamp(1, MAX_WINDOW);
        let reach = window.next_power_of_two();
        ReorderBuffer {
            head: start,
            window,
            reach,
            numbers: vec![Number::NEW; 2 * usize::from(reach)].into(),
            held: vec![None; usize::from(reach)].into(),
            held_count: 0,
            marked_count: 0,
            deadline: Time::NEVER,
            timeout: config.timeout,
            obey_bar: config.obey_bar,
            early_drop,
            stats: ReorderStats::default(),
        }
    }

    /// An MPDU arrived correct. Appends to `up`, in order, the MPDUs that may go up. Appends `p` to
    /// `refused` if it must not go up; the caller owns it again then.
    #[inline]
    // [IEEE80211-10.25.6.6.2-1]
    pub fn on_mpdu(&mut self, now: Time, sn: Seq12, p: T, up: &mut Vec<T>, refused: &mut Vec<T>) {
        if sn == self.head && self.held_count == 0 && self.marked_count == 0 {
            self.stats.delivered += 1;
            self.pass(NumberState::Delivered);
            up.push(p);
        } else {
            self.on_out_of_order(now, sn, p, up, refused);
        }
    }

    fn on_out_of_order(&mut self, now: Time, sn: Seq12, p: T, up: &mut Vec<T>, refused: &mut Vec<T>) {
        // [IEEE80211-10.25.6.6.2-4]
        if sn.is_before(self.head) {
            self.refuse(self.known_behind(sn), p, refused);
            return;
        }
        if !sn.is_in_window(self.head, self.window) {
            // [IEEE80211-10.25.6.6.2-3]
            self.stats.window_moves += 1;
            self.move_head(sn.back(self.window - 1), up);
        }
        let number = &mut self.numbers[index(sn, 2 * self.reach)];
        if number.state != NumberState::Missing {
            let state = number.state;
            self.refuse(Some(state), p, refused);
            return;
        }
        // [IEEE80211-10.25.6.6.2-2]
        number.state = NumberState::Held;
        self.held[index(sn, self.reach)] = Some(HeldMpdu { payload: p, since: now });
        self.held_count += 1;
        self.release(up);
        if now >= self.deadline {
            self.on_deadline(now, up);
        }
    }

    /// An MPDU with that packet arrived corrupt with an intact header. Returns true if the MPDU is
    /// given up now.
    pub fn on_corrupt(&mut self, now: Time, sn: Seq12, facts: PacketFacts, up: &mut Vec<T>) -> bool {
        let Some(early_drop) = &mut self.early_drop else { return false };
        // A sequence number is plausible only near the window. Counts of numbers behind the head
        // change nothing.
        if !sn.is_in_window(self.head.back(self.reach), self.reach + self.window) {
            return false;
        }
        let number = &mut self.numbers[index(sn, 2 * self.reach)];
        number.corrupt = number.corrupt.saturating_add(1);
        let retries = u32::from(number.corrupt) - 1;
        if sn.is_before(self.head) || number.state != NumberState::Missing {
            return false;
        }
        if !early_drop.gives_up(now, retries, facts) {
            return false;
        }
        number.state = NumberState::GivenUp;
        self.stats.given_up += 1;
        self.marked_count += 1;
        if sn == self.head {
            self.release(up);
        }
        true
    }

    /// An A-MPDU, or an MPDU sent alone, was heard at `rate`, corrupt or not. The owner reports
    /// each once, before its MPDUs.
    pub fn on_ppdu(&mut self, now: Time, rate: DataRate) {
        if let Some(early_drop) = &mut self.early_drop {
            early_drop.on_ppdu(now, rate);
        }
    }

    /// A block ack request arrived: the sender has given up all MPDUs before `ssn`.
    // [IEEE80211-10.25.6.6.3-1]
    pub fn on_bar(&mut self, _now: Time, ssn: Seq12, up: &mut Vec<T>) {
        if self.obey_bar && self.head.is_before(ssn) {
            self.stats.bar_moves += 1;
            self.move_head(ssn, up);
            self.release(up);
        }
    }

    /// Time at which the held MPDU nearest the head has been held for the timeout.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Releases MPDUs that have been held for the timeout, and those that follow without a gap.
    /// Harmless before the deadline.
    pub fn on_deadline(&mut self, now: Time, up: &mut Vec<T>) {
        while now >= self.deadline && self.held_count > 0 {
            self.stats.timeouts += 1;
            while self.numbers[index(self.head, 2 * self.reach)].state != NumberState::Held {
                self.pass_lost();
            }
            self.release(up);
        }
    }

    /// Takes out all held MPDUs, in order, as when the agreement ends (DELBA, or the station
    /// leaves). They do not count as delivered.
    pub fn clear(&mut self, out: &mut Vec<T>) {
        let mut sn = self.head;
        while self.held_count > 0 {
            if let Some(held) = self.held[index(sn, self.reach)].take() {
                self.numbers[index(sn, 2 * self.reach)].state = NumberState::Missing;
                self.held_count -= 1;
                out.push(held.payload);
            }
            sn = sn.forward(1);
        }
        self.deadline = Time::NEVER;
    }

    /// The rule that gives MPDUs up, for reports about packets, which only the owner can make.
    #[inline]
    pub fn early_drop_mut(&mut self) -> Option<&mut D> {
        self.early_drop.as_mut()
    }

    /// The number that must go up next.
    pub fn head(&self) -> Seq12 {
        self.head
    }

    /// MPDUs now held, in no particular order.
    pub fn all_held(&self) -> impl Iterator<Item = &T> {
        self.held.iter().flatten().map(|held| &held.payload)
    }

    /// MPDUs now held.
    pub fn held(&self) -> usize {
        usize::from(self.held_count)
    }

    /// Corrupt receptions of `sn`, as long as it is in the window or no further behind it than its
    /// length.
    pub fn corrupt_receptions(&self, sn: Seq12) -> u32 {
        let known = sn.is_in_window(self.head.back(self.reach), 2 * self.reach);
        if known { self.numbers[index(sn, 2 * self.reach)].corrupt.into() } else { 0 }
    }

    /// Counters since the start.
    pub fn stats(&self) -> ReorderStats {
        self.stats
    }

    /// State of `sn`, which the head has passed; `None` if it is too far behind.
    fn known_behind(&self, sn: Seq12) -> Option<NumberState> {
        (sn.distance_to(self.head) <= self.reach).then(|| self.numbers[index(sn, 2 * self.reach)].state)
    }

    // [IEEE80211-10.3.2.14-1]
    fn refuse(&mut self, state: Option<NumberState>, p: T, refused: &mut Vec<T>) {
        *match state {
            Some(NumberState::GivenUp) => &mut self.stats.late,
            Some(NumberState::Delivered | NumberState::Held) => &mut self.stats.duplicates,
            Some(NumberState::Missing) | None => &mut self.stats.stale,
        } += 1;
        refused.push(p);
    }

    /// Moves the head by one, leaving behind a number with this state.
    fn pass(&mut self, state: NumberState) {
        self.numbers[index(self.head, 2 * self.reach)].state = state;
        // The number that comes into reach takes the place of the one that leaves it.
        self.numbers[index(self.head.forward(self.reach), 2 * self.reach)] = Number::NEW;
        self.head = self.head.forward(1);
    }

    fn pass_held(&mut self, up: &mut Vec<T>) {
        if let Some(held) = self.held[index(self.head, self.reach)].take() {
            self.held_count -= 1;
            self.stats.delivered += 1;
            up.push(held.payload);
        }
        self.pass(NumberState::Delivered);
    }

    /// Passes a number that is not held.
    fn pass_lost(&mut self) {
        let state = self.numbers[index(self.head, 2 * self.reach)].state;
        if state == NumberState::GivenUp {
            self.marked_count -= 1;
        } else {
            self.stats.lost += 1;
        }
        self.pass(state);
    }

    /// Moves the head to `to`, which is not behind it.
    fn move_head(&mut self, to: Seq12, up: &mut Vec<T>) {
        while self.head != to {
            match self.numbers[index(self.head, 2 * self.reach)].state {
                NumberState::Held => self.pass_held(up),
                _ => self.pass_lost(),
            }
        }
    }

    /// Passes the numbers at the head that are held or given up, and sets the deadline anew.
    fn release(&mut self, up: &mut Vec<T>) {
        loop {
            match self.numbers[index(self.head, 2 * self.reach)].state {
                NumberState::Held => self.pass_held(up),
                NumberState::GivenUp => self.pass_lost(),
                NumberState::Missing | NumberState::Delivered => break,
            }
        }
        self.deadline = Time::NEVER;
        if self.held_count > 0 {
            let mut sn = self.head;
            self.deadline = loop {
                if let Some(held) = &self.held[index(sn, self.reach)] {
                    break held.since + self.timeout;
                }
                sn = sn.forward(1);
            };
        }
    }
}

/// Place of `sn` in a ring of `size`, a power of two.
#[inline]
fn index(sn: Seq12, size: u16) -> usize {
    usize::from(sn.get() & (size - 1))
}

#[cfg(test)]
mod story;
#[cfg(test)]
mod tests;
