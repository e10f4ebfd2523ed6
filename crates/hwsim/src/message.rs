//! The messages between a kernel with simulated radios and its medium: generic netlink, command
//! FRAME in both directions and TX_INFO_FRAME to the kernel
//! (`drivers/net/wireless/virtual/mac80211_hwsim.h`). Over a socket and over virtio they are the
//! same bytes.
//!
//! All that comes from a kernel is checked: any bytes give a message or an error, and nothing
//! panics.

use crate::frame::{Address, Header};
use crate::rate::{self, Stage};

/// Flag of [`Sent::flags`]: the medium does not wait for an acknowledgement.
pub const NO_ACK: u32 = 1 << 1;
/// The frame was acknowledged.
pub const ACKED: u32 = 1 << 2;
/// The frame arrived damaged (patch 1 of `kernel/mac80211-hwsim`).
pub const FAILED_FCS: u32 = 1 << 3;
/// The frame belongs to a Block Ack session (patch 5).
pub const AMPDU: u32 = 1 << 4;
/// The frame tests a rate (patch 8).
pub const PROBE: u32 = 1 << 5;
/// Flag of [`Sent::taken_for`]: the frame did not fit, and waits for the next A-MPDU of its queue.
/// Numbers of A-MPDUs are even (patch 6).
pub const OVER: u32 = 1;
/// Flags that go back with the status of a frame.
const KEPT: u32 = 3;

/// The longest message that a kernel takes: its buffers are a page, less what it keeps there
/// itself.
pub const LONGEST: usize = 3700;
/// The longest frame: the MPDU of 802.11 (IEEE 802.11-2020 Table 9-25).
pub const LONGEST_FRAME: usize = 11_454;
/// The most stages of a frame's series.
pub const STAGES: usize = 4;

const FRAME: u8 = 2;
const TX_INFO_FRAME: u8 = 3;
/// A radio has an address, or has it no longer.
const NEW_RADIO: u8 = 4;
const DEL_RADIO: u8 = 5;
const ADD_ADDRESS: u8 = 7;
const REMOVE_ADDRESS: u8 = 8;

const ADDR_RECEIVER: u16 = 1;
const ADDR_TRANSMITTER: u16 = 2;
const ATTR_FRAME: u16 = 3;
const ATTR_FLAGS: u16 = 4;
const RX_RATE: u16 = 5;
const SIGNAL: u16 = 6;
const TX_INFO: u16 = 7;
const COOKIE: u16 = 8;
const RADIO_ID: u16 = 10;
const FREQ: u16 = 19;
const TX_INFO_FLAGS: u16 = 21;
const RX_RATE_FLAGS: u16 = 30;
const AMPDU_REF: u16 = 31;
const AMPDU_LEN: u16 = 32;
const AMPDU_ACK_LEN: u16 = 33;

/// Headers of netlink and of generic netlink.
const HEADS: usize = 20;

/// Bytes of a kernel that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The lengths in it contradict each other.
    #[error("a message of the simulated radio is cut at byte {0}")]
    Cut(usize),
    /// A command that media do not get.
    #[error("a message of the simulated radio has the command {0}; known are 2 (FRAME), 7 and 8 (addresses)")]
    Command(u8),
    /// A message of netlink that is for somebody else.
    #[error("a message has the family {0}, which is not that of the simulated radios")]
    Family(u16),
    /// An attribute is missing, or too short.
    #[error("a message of the simulated radio has no {0}")]
    Missing(&'static str),
    /// The frame's header.
    #[error("a frame of the simulated radio is too short for its header")]
    Header,
    /// No radio sends it.
    #[error("a frame of the simulated radio has {0} bytes: 11454 are the most")]
    TooLong(usize),
    /// No rate at all.
    #[error("a frame of the simulated radio has no rate that a radio has")]
    Rate,
}

/// A frame that a kernel wants to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// The kernel's name of the radio.
    pub radio: Address,
    /// The kernel's name of the frame.
    pub cookie: u64,
    /// See [`NO_ACK`], [`AMPDU`] and [`PROBE`].
    pub flags: u32,
    /// MHz.
    pub frequency: u32,
    /// The A-MPDU for which the kernel took it from its queue (patch 6); with [`OVER`]: it had no
    /// room for it.
    pub taken_for: Option<u32>,
    /// The rates to try; one at least.
    pub series: Vec<Stage>,
    /// Its header.
    pub header: Header,
    /// All of it but the check sequence.
    pub bytes: Vec<u8>,
}

impl Sent {
    /// Reads a message of a kernel; `None`: a notice about addresses.
    ///
    /// # Errors
    /// It is no message.
    pub fn read(message: &[u8]) -> Result<Option<Sent>, Malformed> {
        let length = u32_at(message, 0).ok_or(Malformed::Cut(0))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let body = message.get(..length).and_then(|whole| whole.get(HEADS..)).ok_or(Malformed::Cut(message.len()))?;
        let command = message[16];
        if [ADD_ADDRESS, REMOVE_ADDRESS].contains(&command) {
            return Ok(None);
        }
        if command != FRAME {
            return Err(Malformed::Command(command));
        }
        let (mut radio, mut bytes, mut cookie, mut flags, mut frequency) = (None, None, None, None, None);
        let (mut tries, mut rate_flags, mut taken_for) = (None, None, None);
        let mut at = 0;
        while at < body.len() {
            let (attribute, value) = attribute(body, at).ok_or(Malformed::Cut(HEADS + at))?;
            at += (4 + value.len()).next_multiple_of(4);
            match attribute {
                ADDR_TRANSMITTER => radio = value.first_chunk().copied(),
                ATTR_FRAME => bytes = Some(value),
                ATTR_FLAGS => flags = u32_at(value, 0),
                COOKIE => cookie = value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
                FREQ => frequency = u32_at(value, 0),
                TX_INFO => tries = Some(value),
                TX_INFO_FLAGS => rate_flags = Some(value),
                AMPDU_REF => taken_for = u32_at(value, 0),
                _ => {}
            }
        }
        let bytes = bytes.ok_or(Malformed::Missing("frame"))?;
        let frequency = frequency.ok_or(Malformed::Missing("frequency"))?;
        if bytes.len() > LONGEST_FRAME {
            return Err(Malformed::TooLong(bytes.len()));
        }
        let header = Header::read(bytes).ok_or(Malformed::Header)?;
        let series = series(tries.ok_or(Malformed::Missing("rates"))?, rate_flags.unwrap_or(&[]), frequency);
        if series.is_empty() {
            return Err(Malformed::Rate);
        }
        Ok(Some(Sent {
            radio: radio.ok_or(Malformed::Missing("transmitter"))?,
            cookie: cookie.ok_or(Malformed::Missing("cookie"))?,
            flags: flags.ok_or(Malformed::Missing("flags"))?,
            frequency,
            taken_for,
            series,
            header,
            bytes: bytes.to_vec(),
        }))
    }
}

/// Notice of a kernel about a radio's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The kernel's name of the radio.
    pub radio: Address,
    /// The address.
    pub address: Address,
    /// It has it from now on; otherwise no longer.
    pub is_new: bool,
}

impl Notice {
    /// Reads a message of a kernel; `None`: it is something else, or nothing.
    pub fn read(message: &[u8]) -> Option<Notice> {
        let command = *message.get(16)?;
        let length = usize::try_from(u32_at(message, 0)?).ok()?;
        let body = message.get(HEADS..length)?;
        let (mut radio, mut address, mut at) = (None, None, 0);
        while at < body.len() {
            let (number, value) = attribute(body, at)?;
            at += (4 + value.len()).next_multiple_of(4);
            match number {
                ADDR_TRANSMITTER => radio = value.first_chunk().copied(),
                ADDR_RECEIVER => address = value.first_chunk().copied(),
                _ => {}
            }
        }
        let is_new = command == ADD_ADDRESS;
        (is_new || command == REMOVE_ADDRESS).then_some(Notice { radio: radio?, address: address?, is_new })
    }
}

/// News of the module for all who listen about its radios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The radio of this number is there now.
    Came(u32),
    /// It is there no longer.
    Gone(u32),
}

impl Told {
    /// Reads a message of a kernel; `None`: it is something else, or nothing.
    pub fn read(message: &[u8]) -> Option<Told> {
        let of: fn(u32) -> Told = match *message.get(16)? {
            NEW_RADIO => Told::Came,
            DEL_RADIO => Told::Gone,
            _ => return None,
        };
        let length = usize::try_from(u32_at(message, 0)?).ok()?;
        let body = message.get(HEADS..length)?;
        let mut at = 0;
        while at < body.len() {
            let (number, value) = attribute(body, at)?;
            at += (4 + value.len()).next_multiple_of(4);
            if number == RADIO_ID {
                return Some(of(u32_at(value, 0)?));
            }
        }
        None
    }
}

/// The stages up to the first that is none.
fn series(tries: &[u8], flags: &[u8], frequency: u32) -> Vec<Stage> {
    let stage = |n: usize| {
        let &[index, count] = tries.get(2 * n..)?.first_chunk()?;
        let index = i8::from_ne_bytes([index]);
        let flags = flags.get(3 * n + 1..).and_then(|rest| rest.first_chunk()).map_or(0, |f| u16::from_ne_bytes(*f));
        let mode = rate::mode(index, flags, frequency)?;
        Some(Stage { index, flags, count: count.max(1), mode })
    };
    (0..STAGES).map_while(stage).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Number and value of the attribute at a place.
fn attribute(body: &[u8], at: usize) -> Option<(u16, &[u8])> {
    let rest = body.get(at..)?;
    let &[l0, l1, t0, t1] = rest.first_chunk()?;
    let value = rest.get(4..usize::from(u16::from_ne_bytes([l0, l1])))?;
    // Two bits say that it is nested, or in which order its bytes are.
    Some((u16::from_ne_bytes([t0, t1]) & 0x3fff, value))
}

/// A message under way to a kernel.
struct Writer(Vec<u8>);

impl Writer {
    fn new(command: u8) -> Writer {
        let mut bytes = vec![0; HEADS];
        // A device has one family, and its number is not looked at; over a socket [`address_to`]
        // says it. A request.
        bytes[6] = 1;
        bytes[16] = command;
        bytes[17] = 1;
        Writer(bytes)
    }
    fn put(&mut self, attribute: u16, value: &[u8]) -> &mut Writer {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&attribute.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
    fn end(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// Says which family of generic netlink a message is for, as the kernel has numbered it.
pub fn address_to(message: &mut [u8], family: u16) {
    if let Some(place) = message.get_mut(4..6) {
        place.copy_from_slice(&family.to_ne_bytes());
    }
}

/// How a frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its rate.
    pub stage: Stage,
    /// dBm.
    pub signal: i32,
    /// Number of the A-MPDU that it came in.
    pub ampdu: Option<u32>,
    /// Its check fails.
    pub is_damaged: bool,
}

/// The message that hands a radio a frame; `None`: it is too long for a kernel.
pub fn received(radio: Address, frame: &[u8], frequency: u32, how: &Arrived) -> Option<Vec<u8>> {
    let mut message = Writer::new(FRAME);
    message.put(ADDR_RECEIVER, &radio).put(ATTR_FRAME, frame);
    message.put(ATTR_FLAGS, &(if how.is_damaged { FAILED_FCS } else { 0 }).to_ne_bytes());
    message.put(RX_RATE, &i32::from(how.stage.index).to_ne_bytes());
    message.put(SIGNAL, &how.signal.to_ne_bytes()).put(FREQ, &frequency.to_ne_bytes());
    // Modules without patches do not know it; a legacy rate needs none.
    if how.stage.flags != 0 {
        message.put(RX_RATE_FLAGS, &how.stage.flags.to_ne_bytes());
    }
    if let Some(ampdu) = how.ampdu {
        message.put(AMPDU_REF, &ampdu.to_ne_bytes());
    }
    let message = message.end();
    (message.len() <= LONGEST).then_some(message)
}

/// Status of an A-MPDU for a kernel, with the first of its frames that ends: rate control counts by
/// A-MPDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregate {
    /// MPDUs in it; 0: another frame's status tells of it.
    pub mpdus: u8,
    /// Those that were acknowledged.
    pub acked: u8,
}

/// The message that tells a kernel how a frame of it ended. `used`: the rates that it, or the
/// A-MPDU that is told of, was sent at, with the number of tries. `aggregate`: modules without
/// patch 8 do not know it.
pub fn status(sent: &Sent, used: &[Stage], is_acked: bool, signal: i32, aggregate: Option<Aggregate>) -> Vec<u8> {
    let mut info = [0; 2 * STAGES];
    let mut rate_flags = [0; 3 * STAGES];
    for (n, (pair, flags)) in info.chunks_exact_mut(2).zip(rate_flags.chunks_exact_mut(3)).enumerate() {
        let never_sent = sent.series.first().filter(|_| n == 0).map(|first| (first, 0));
        let stage = used.get(n).map(|stage| (stage, stage.count)).or(never_sent);
        let [index] = stage.map_or(-1, |(stage, _)| stage.index).to_ne_bytes();
        pair.copy_from_slice(&[index, stage.map_or(0, |(_, tries)| tries)]);
        let [low, high] = stage.map_or(0, |(stage, _)| stage.flags).to_ne_bytes();
        flags.copy_from_slice(&[index, low, high]);
    }
    let flags = sent.flags & KEPT | if is_acked { ACKED } else { 0 };
    let mut message = Writer::new(TX_INFO_FRAME);
    message.put(ADDR_TRANSMITTER, &sent.radio).put(ATTR_FLAGS, &flags.to_ne_bytes());
    message.put(SIGNAL, &signal.to_ne_bytes()).put(TX_INFO, &info);
    if let Some(Aggregate { mpdus, acked }) = aggregate {
        message.put(TX_INFO_FLAGS, &rate_flags).put(AMPDU_LEN, &[mpdus]).put(AMPDU_ACK_LEN, &[acked]);
    }
    message.put(COOKIE, &sent.cookie.to_ne_bytes());
    message.end()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::address;

    /// The kernel's name of its radio.
    pub const RADIO: Address = [0x42, 0, 0, 0, 0, 0];

    /// The message by which a kernel hands over a frame, at HT MCS `mcs`, tried four times.
    pub fn handed_over(cookie: u64, flags: u32, mcs: u8, frame: &[u8]) -> Vec<u8> {
        handed_over_by(RADIO, cookie, flags, mcs, frame)
    }

    /// The same of another radio.
    pub fn handed_over_by(radio: Address, cookie: u64, flags: u32, mcs: u8, frame: &[u8]) -> Vec<u8> {
        let mut message = Writer::new(FRAME);
        message.put(ADDR_TRANSMITTER, &radio).put(ATTR_FRAME, frame).put(ATTR_FLAGS, &flags.to_ne_bytes());
        message.put(FREQ, &2412u32.to_ne_bytes()).put(TX_INFO, &[mcs, 4, 255, 0, 255, 0, 255, 0]);
        let [low, high] = rate::HT.to_ne_bytes();
        message.put(TX_INFO_FLAGS, &[mcs, low, high, 255, 0, 0, 255, 0, 0, 255, 0, 0]);
        message.put(COOKIE, &cookie.to_ne_bytes());
        message.end()
    }

    /// As [`handed_over`], from a kernel that says for which A-MPDU it took the frame.
    pub fn taken_for(number: u32, cookie: u64, flags: u32, mcs: u8, frame: &[u8]) -> Vec<u8> {
        let mut message = handed_over(cookie, flags, mcs, frame);
        let mut more = Writer::new(FRAME);
        more.put(AMPDU_REF, &(number << 1).to_ne_bytes());
        message.extend_from_slice(&more.end()[HEADS..]);
        let length = u32::try_from(message.len()).unwrap();
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message
    }

    /// As [`taken_for`], of a frame that did not fit.
    pub fn left_over(number: u32, cookie: u64, flags: u32, mcs: u8, frame: &[u8]) -> Vec<u8> {
        let mut message = taken_for(number, cookie, flags, mcs, frame);
        let at = message.len() - 4;
        message[at..].copy_from_slice(&(number << 1 | OVER).to_ne_bytes());
        message
    }

    /// The message by which a kernel tells of a radio's address.
    pub fn notice(radio: Address, address: Address, is_new: bool) -> Vec<u8> {
        let mut message = Writer::new(if is_new { ADD_ADDRESS } else { REMOVE_ADDRESS });
        message.put(ADDR_TRANSMITTER, &radio).put(ADDR_RECEIVER, &address);
        message.end()
    }

    /// The message by which a module tells that a radio has gone.
    pub fn gone(number: u32) -> Vec<u8> {
        let mut message = Writer::new(DEL_RADIO);
        message.put(RADIO_ID, &number.to_ne_bytes()).put(17, b"phy1");
        message.end()
    }

    #[test]
    fn what_the_module_tells_is_read() {
        let mut whole = gone(3);
        assert_eq!(Told::read(&whole), Some(Told::Gone(3)));
        assert_eq!(Told::read(&whole[..22]), None);
        whole[16] = NEW_RADIO;
        assert_eq!(Told::read(&whole), Some(Told::Came(3)));
        assert_eq!(Told::read(&handed_over(7, 0, 3, &frame(99))), None);
    }

    #[test]
    fn notices_are_read() {
        for is_new in [true, false] {
            let (radio, address) = (RADIO, address(9));
            let whole = notice(radio, address, is_new);
            assert_eq!(Notice::read(&whole), Some(Notice { radio, address, is_new }));
            assert_eq!(Notice::read(&whole[..30]), None);
        }
        assert_eq!(Notice::read(&handed_over(7, 0, 3, &frame(99))), None);
    }

    /// Reads a message as a kernel does: its command and attributes.
    pub fn as_kernel(message: &[u8]) -> (u8, Vec<(u16, Vec<u8>)>) {
        assert_eq!(u32_at(message, 0), u32::try_from(message.len()).ok());
        let (body, mut at, mut found) = (&message[HEADS..], 0, Vec::new());
        while at < body.len() {
            let (number, value) = attribute(body, at).unwrap();
            found.push((number, value.to_vec()));
            at += (4 + value.len()).next_multiple_of(4);
        }
        (message[16], found)
    }

    fn frame(len: usize) -> Vec<u8> {
        let mut frame = vec![0x88, 1, 0, 0];
        frame.extend_from_slice(&[address(0), address(1), address(0)].concat());
        frame.resize(len.max(26), 3);
        frame
    }

    #[test]
    fn a_frame_is_read_as_it_was_handed_over() {
        let sent = Sent::read(&handed_over(7, AMPDU | 1, 3, &frame(99))).unwrap().unwrap();
        assert_eq!((sent.radio, sent.cookie, sent.flags, sent.frequency), (RADIO, 7, AMPDU | 1, 2412));
        assert_eq!(sent.bytes, frame(99));
        assert_eq!((sent.series.len(), sent.series[0].count, sent.series[0].mode.mcs()), (1, 4, Some(3)));
        // Behind the message there may be anything: a kernel hands over its whole buffer.
        let mut buffer = handed_over(7, AMPDU | 1, 3, &frame(99));
        buffer.resize(4000, 0xee);
        assert_eq!(Sent::read(&buffer), Ok(Some(sent)));
    }

    #[test]
    fn a_status_has_what_hwsim_asks_for() {
        let sent = Sent::read(&handed_over(1 << 40, NO_ACK | AMPDU, 3, &frame(50))).unwrap().unwrap();
        let used = [Stage { count: 3, ..sent.series[0] }];
        let (command, attributes) = as_kernel(&status(&sent, &used, true, -50, None));
        assert_eq!(command, TX_INFO_FRAME);
        assert!(attributes.iter().all(|(number, _)| *number < 30));
        let of = |number| &attributes.iter().find(|(own, _)| *own == number).unwrap().1;
        assert_eq!(*of(COOKIE), (1u64 << 40).to_ne_bytes());
        assert_eq!(*of(ATTR_FLAGS), (NO_ACK | ACKED).to_ne_bytes());
        assert_eq!(*of(TX_INFO), [3, 3, 255, 0, 255, 0, 255, 0]);
        assert_eq!(*of(ADDR_TRANSMITTER), RADIO);
        assert_eq!(*of(SIGNAL), (-50i32).to_ne_bytes());
    }

    #[test]
    fn a_status_tells_of_the_ampdu_and_its_rates() {
        let sent = Sent::read(&handed_over(9, AMPDU, 3, &frame(50))).unwrap().unwrap();
        let stage = |index, flags, count| Stage { index, flags, count, mode: rate::mode(index, flags, 2412).unwrap() };
        let used = [stage(7, rate::HT, 2), stage(1, rate::HT | rate::RTS, 4)];
        let (_, attributes) = as_kernel(&status(&sent, &used, true, -50, Some(Aggregate { mpdus: 20, acked: 13 })));
        let of = |number| &attributes.iter().find(|(own, _)| *own == number).unwrap().1;
        assert_eq!(*of(TX_INFO), [7, 2, 1, 4, 255, 0, 255, 0]);
        assert_eq!(*of(TX_INFO_FLAGS), [7, 8, 0, 1, 9, 0, 255, 0, 0, 255, 0, 0]);
        assert_eq!((&of(AMPDU_LEN)[..], &of(AMPDU_ACK_LEN)[..]), (&[20][..], &[13][..]));
        // Never sent, it names its first rate.
        let (_, attributes) = as_kernel(&status(&sent, &[], false, -50, Some(Aggregate { mpdus: 0, acked: 0 })));
        let of = |number| &attributes.iter().find(|(own, _)| *own == number).unwrap().1;
        assert_eq!((&of(TX_INFO)[..2], &of(AMPDU_LEN)[..]), (&[3, 0][..], &[0][..]));
    }

    #[test]
    fn what_arrives_has_rate_and_ampdu() {
        let stage = Stage { index: 5, flags: rate::HT, count: 1, mode: rate::mode(5, rate::HT, 2412).unwrap() };
        let how = Arrived { stage, signal: -61, ampdu: Some(8), is_damaged: true };
        let (command, attributes) = as_kernel(&received(RADIO, &frame(60), 2412, &how).unwrap());
        assert_eq!(command, FRAME);
        let of = |number| attributes.iter().find(|(own, _)| *own == number).map(|(_, value)| value.clone());
        assert_eq!(of(ATTR_FRAME), Some(frame(60)));
        assert_eq!(of(ATTR_FLAGS), Some(FAILED_FCS.to_ne_bytes().to_vec()));
        assert_eq!(of(RX_RATE), Some(5u32.to_ne_bytes().to_vec()));
        assert_eq!(of(RX_RATE_FLAGS), Some(rate::HT.to_ne_bytes().to_vec()));
        assert_eq!(of(AMPDU_REF), Some(8u32.to_ne_bytes().to_vec()));
        let alone = Arrived { ampdu: None, ..how };
        assert!(as_kernel(&received(RADIO, &frame(60), 2412, &alone).unwrap()).1.iter().all(|(n, _)| *n != AMPDU_REF));
        assert_eq!(received(RADIO, &frame(LONGEST), 2412, &how), None);
    }

    #[test]
    fn what_is_missing_is_named() {
        let whole = handed_over(7, 0, 3, &frame(99));
        assert_eq!(Sent::read(&[]), Err(Malformed::Cut(0)));
        assert_eq!(Sent::read(&whole[..50]), Err(Malformed::Cut(50)));
        let mut other = whole.clone();
        other[16] = 1;
        assert_eq!(Sent::read(&other), Err(Malformed::Command(1)));
        other[16] = 7;
        assert_eq!(Sent::read(&other), Ok(None));
        assert_eq!(Sent::read(&handed_over(7, 0, 99, &frame(99))), Err(Malformed::Rate));
        assert_eq!(Sent::read(&handed_over(7, 0, 3, &[0x88, 1, 0])), Err(Malformed::Header));
        assert_eq!(Sent::read(&Writer::new(FRAME).end()), Err(Malformed::Missing("frame")));
        // The first attribute says that it is shorter than its own head.
        let mut short = whole;
        short[HEADS] = 3;
        assert_eq!(Sent::read(&short), Err(Malformed::Cut(HEADS)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Sent::read(&bytes), Notice::read(&bytes));
        }

        #[test]
        fn changed_messages_are_messages_or_errors(
            changes in proptest::collection::vec((0usize..200, any::<u8>()), 1..8),
            cut in 0usize..200,
        ) {
            let mut message = handed_over(7, AMPDU, 3, &frame(60));
            for (at, byte) in changes {
                if let Some(place) = message.get_mut(at) {
                    *place = byte;
                }
            }
            let _ = Sent::read(&message);
            message.truncate(cut);
            let _ = Sent::read(&message);
        }
    }
}
