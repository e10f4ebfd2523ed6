//! The interface between a medium and the MAC above it: frames to be sent, their arrival, and the
//! outcome.

use nonempty::NonEmpty;

use super::reception::Reception;
use super::signals::Signals;
use crate::rng::Rng;
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::phy::Mode;
use crate::wifi::trace::{Ac, FrameKind};

/// The functions of radios above the medium: one value for all of its radios.
///
/// `airtcp_core::wifi::Channel` has queues, sessions and rate control; others may hold frames that
/// a real stack has handed over. A [`Medium`](super::Medium) calls it through a type parameter, so
/// that the compiler makes one piece of both.
pub trait Mac {
    /// Fills in the radio's next PPDU in this category; returns false if there is none after all.
    /// The medium asks anew for each try: an exchange that failed may be repeated in another mode,
    /// or another frame may take its place. `request` comes with radio and category filled in, and
    /// with one user, which is blank. A PPDU that does not fit into the rest of a TXOP is asked for
    /// again.
    fn next(&mut self, now: Time, signals: &mut Signals, request: &mut TxRequest) -> bool;

    /// MPDUs of a user have ended; `arrival` tells which of them a radio has received. The receiver
    /// of each user gets this call even if nothing arrived. Radios get it for a group-addressed
    /// frame if something arrived.
    fn heard(&mut self, now: Time, request: &TxRequest, arrival: Arrival<'_>);

    /// The exchange is over, and its originator knows the outcome. The medium asks for the next
    /// PPDU after this call.
    fn done(&mut self, now: Time, signals: &mut Signals, request: &TxRequest, outcome: &Outcome<'_>);

    /// True if a frame of this category waits for transmission after an exchange.
    fn has_frame(&self, radio: RadioId, ac: Ac) -> bool;

    /// True if a radio accepts a group-addressed frame.
    fn listens(&self, _at: RadioId, _request: &TxRequest) -> bool {
        true
    }

    /// The frame of this category found the medium busy as often as it may, and is dropped
    /// (WaveLAN). Returns true if another waits, and `None` if there was no frame to drop.
    fn give_up(&mut self, _now: Time, _signals: &mut Signals, _radio: RadioId, _ac: Ac) -> Option<bool> {
        None
    }

    /// A control frame has ended; only where
    /// [`MediumSetup::reports_control`](super::MediumSetup::reports_control) asks for it.
    fn control(&mut self, _now: Time, _request: &TxRequest, _frame: &Control) {}
}

/// Receiver of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// One radio.
    Radio(RadioId),
    /// All radios that hear it and accept it ([`Mac::listens`]).
    Group,
}

/// Content of a PPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// One MPDU, data or management, answered by an ACK.
    Mpdu,
    /// Several, answered by a Block Ack.
    Ampdu,
    /// A Block Ack request.
    BlockAckRequest,
}

/// A PPDU that a Mac wants sent: everything that the medium knows of it.
#[derive(Debug)]
pub struct TxRequest {
    /// Its sender.
    pub from: RadioId,
    /// Its access category.
    pub ac: Ac,
    /// RTS and CTS go before it, if it is for one radio.
    pub rts: bool,
    /// Its receivers. A group-addressed frame has one user, the group. Several users are radios,
    /// and none of them acknowledges.
    pub users: NonEmpty<TxUser>,
}

/// A receiver of a PPDU, and the part of the PPDU that is for it.
#[derive(Debug)]
pub struct TxUser {
    /// The receiver.
    pub to: To,
    /// The Mac's own name for this part.
    pub id: u64,
    /// Its content.
    pub payload: Payload,
    /// Its mode. A Block Ack request goes at the rate of the answer to this mode.
    pub mode: Mode,
    /// It is acknowledged. Frames for a group are not, whatever this says.
    pub acked: bool,
    /// Size of the PSDU.
    pub psdu_bytes: u32,
    /// Bytes of each MPDU that a receiver must get to know the frame.
    pub header_bytes: u32,
    /// Size of each MPDU, in order, as many as there are; none in a Block Ack request.
    pub mpdus: Vec<u32>,
}

impl TxRequest {
    pub(super) fn blank() -> TxRequest {
        TxRequest { from: RadioId(0), ac: Ac::Be, rts: false, users: NonEmpty::new(TxUser::default()) }
    }
    /// Makes it a new request with one blank user, whose list of MPDUs keeps its memory.
    #[inline]
    pub(super) fn renew(&mut self, from: RadioId, ac: Ac) {
        (self.from, self.ac, self.rts) = (from, ac, false);
        self.users.tail.clear();
        let user = &mut self.users.head;
        user.mpdus.clear();
        (user.to, user.id, user.payload, user.mode) = (To::Group, 0, Payload::Mpdu, Mode::DSSS[0]);
        (user.acked, user.psdu_bytes, user.header_bytes) = (false, 0, 0);
    }
    /// It is for all.
    #[inline]
    pub fn is_group(&self) -> bool {
        self.users.head.to == To::Group
    }
    /// The user of a PPDU that has one. A Mac that asks for no others calls this, and is the place
    /// to change when it does.
    #[inline]
    pub fn only_user(&self) -> &TxUser {
        debug_assert!(self.users.tail.is_empty(), "this Mac asks for PPDUs of one user");
        &self.users.head
    }
}

impl TxUser {
    /// It is a Block Ack request.
    #[inline]
    pub fn is_bar(&self) -> bool {
        self.payload == Payload::BlockAckRequest
    }
    /// It is acknowledged by its receiver.
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.acked && self.to != To::Group
    }
}

impl Default for TxUser {
    /// A blank user.
    #[inline]
    fn default() -> TxUser {
        TxUser {
            to: To::Group,
            id: 0,
            payload: Payload::Mpdu,
            mode: Mode::DSSS[0],
            acked: false,
            psdu_bytes: 0,
            header_bytes: 0,
            mpdus: Vec::new(),
        }
    }
}

/// The part of an MPDU that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// All of it.
    Whole,
    /// It is corrupt, but its header is not.
    HeaderOk,
    /// Nothing.
    Lost,
}

/// Reception, by one radio, of the MPDUs of a user that have just ended.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// The radio that receives.
    pub at: RadioId,
    /// Place of the user in [`TxRequest::users`].
    pub user: usize,
    /// The mode of its part of the PPDU.
    pub mode: Mode,
    /// The receiver has caught the beginning of the PPDU; otherwise nothing of it has arrived.
    pub caught: bool,
    /// Place among the user's MPDUs of the first of `fates`: above 0 where MPDUs go up one by one.
    pub first: usize,
    /// The fate of each MPDU that has ended. A Block Ack request has one fate, its own.
    pub fates: &'a [Fate],
    /// Nothing of this PPDU had arrived before.
    pub is_first: bool,
    /// NaN where the signal has no SNR.
    pub snr_db: f32,
    /// Duration of the answer to come; zero if there is none.
    pub response: Span,
    /// Random numbers of errors in this direction, for further draws by the receiver.
    pub chance: &'a mut Rng,
}

/// How an exchange ended.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The data was sent, and not only an RTS.
    pub is_data_sent: bool,
    /// When it began.
    pub start: Time,
    /// When the PPDU with data began, and its length.
    pub data_start: Time,
    /// Length of the PPDU with data: that of its longest user.
    pub data: Span,
    pub(super) receptions: &'a NonEmpty<Reception>,
}

impl Outcome<'_> {
    /// How it ended for each of [`TxRequest::users`].
    #[inline]
    pub fn users(&self) -> impl Iterator<Item = &UserOutcome> {
        self.receptions.iter().map(|reception| &reception.outcome)
    }
    /// The outcome for [`TxRequest::only_user`].
    #[inline]
    pub fn only_user(&self) -> &UserOutcome {
        debug_assert!(self.receptions.tail.is_empty(), "this Mac asks for PPDUs of one user");
        &self.receptions.head.outcome
    }
}

/// How an exchange ended for one user.
#[derive(Debug, Clone, Copy)]
pub struct UserOutcome {
    /// True if the answer has come. For frames without acknowledgement: true if the data has
    /// arrived.
    pub answered: bool,
    /// Another transmission hit it.
    pub collided: bool,
    /// Its mode.
    pub mode: Mode,
    /// MPDUs that arrived whole.
    pub received: u16,
    /// MPDUs that arrived corrupt with an intact header.
    pub header_ok: u16,
    /// NaN where the signal has no SNR.
    pub snr_db: f32,
}

impl UserOutcome {
    /// The outcome of a PPDU in this mode that has not begun.
    #[inline]
    pub(super) fn none_yet(mode: Mode) -> UserOutcome {
        UserOutcome { answered: false, collided: false, mode, received: 0, header_ok: 0, snr_db: f32::NAN }
    }
}

/// A control frame that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Control {
    /// Its kind.
    pub kind: FrameKind,
    /// Its sender.
    pub from: RadioId,
    /// Its receiver.
    pub to: RadioId,
    /// Its mode.
    pub mode: Mode,
    /// Duration for which it reserves the medium.
    pub left: Span,
    /// It has arrived.
    pub decoded: bool,
    /// NaN where the signal has no SNR.
    pub snr_db: f32,
}
