//! The conversation with a kernel over a socket of generic netlink: the medium registers, and from
//! then on gets every frame that a radio of the module sends. Messages are those of
//! [`crate::message`], with the number of the family in each.
//!
//! Nothing here does I/O: a driver reads datagrams and hands them over, with the time, and sends
//! what it is given. Whatever is in a datagram, it is a message, or it is counted as none.

use std::collections::VecDeque;

use airtcp_core::convert::count;
use airtcp_core::units::Time;
use airtcp_core::wifi::RadioId;

use crate::air::Air;
use crate::frame::{self, Address};
use crate::message::{self, AMPDU, Malformed, Notice, Sent, Told};
use crate::sessions::Sessions;

/// The name of the module's family.
pub const FAMILY: &str = "MAC80211_HWSIM";

/// Bytes of the header of netlink.
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
/// Kinds below are netlink's own.
const NLMSG_MIN_TYPE: u16 = 16;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// HWSIM_CMD_REGISTER.
const REGISTER: u8 = 1;
/// Number of the registration. All other messages have the number 0.
const REGISTRATION: u32 = 1;
/// A status needs a power.
const SIGNAL: i32 = -50;

/// Facts that are known of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// The number of its family.
    pub family: u16,
    /// It has the patches of `kernel/mac80211-hwsim`.
    pub has_patches: bool,
}

/// Counts of the socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames of radios.
    pub frames: u64,
    /// Frames of radios that this medium does not know. They are given up.
    pub unknown: u64,
    /// Messages to the kernel.
    pub sent: u64,
    /// Those of them that it refused: the radio is gone, is down, or listens at another frequency.
    pub refused: u64,
    /// Messages that could not be read.
    pub malformed: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Conversation {
    /// The medium.
    pub air: Air,
    /// So far.
    pub counts: Counts,
    module: Module,
    names: Vec<Address>,
    gone: VecDeque<RadioId>,
    sessions: Sessions,
    out: VecDeque<Vec<u8>>,
    registered: Option<i32>,
    fault: Option<Malformed>,
}

/// The kernel's name of the radio to which its module has given this address.
pub fn name_of(mut address: Address) -> Address {
    address[0] |= frame::NAME;
    address
}

/// The address that the module gives the radio of this number, unless it is told another.
pub fn numbered(number: u16) -> Address {
    let [high, low] = number.to_be_bytes();
    [0x02, 0, 0, high, low, 0]
}

impl Conversation {
    /// A medium whose radios have these addresses in the kernel, by place.
    pub fn new(mut air: Air, addresses: &[Address], module: Module) -> Conversation {
        if !module.has_patches {
            air.mac.speak_plainly();
        }
        let names: Vec<Address> = addresses.iter().take(air.mac.count()).map(|own| name_of(*own)).collect();
        for (place, name) in names.iter().enumerate() {
            air.mac.rename(RadioId::at(place), *name);
            // Radios that did not ask for them drop them.
            air.mac.want_damaged(RadioId::at(place), module.has_patches);
        }
        let (counts, sessions) = (Counts::default(), Sessions::default());
        let (gone, out) = (VecDeque::new(), VecDeque::new());
        Conversation { air, counts, module, names, gone, sessions, out, registered: None, fault: None }
    }

    /// The message with which the medium registers.
    pub fn registration(&self) -> Vec<u8> {
        let body = [REGISTER, 1, 0, 0];
        let length = count(HEADER + body.len()).to_ne_bytes();
        let kind = [self.module.family.to_ne_bytes(), (REQUEST | ACKNOWLEDGE).to_ne_bytes()].concat();
        [&length[..], &kind, &REGISTRATION.to_ne_bytes(), &[0; 4], &body].concat()
    }

    /// Answer of the kernel to the registration: 0, or the number of an error. `None`: nothing yet.
    pub fn registered(&self) -> Option<i32> {
        self.registered
    }

    /// Why what came was no message, the first time.
    pub fn fault(&self) -> Option<Malformed> {
        self.fault
    }

    /// A radio that has vanished since this was last asked. Nothing reaches it, and it sends no
    /// more.
    pub fn take_gone(&mut self) -> Option<RadioId> {
        self.gone.pop_front()
    }

    /// A datagram has come, now. The medium has caught up.
    pub fn take_in(&mut self, now: Time, datagram: &[u8]) {
        let mut rest = datagram;
        while !rest.is_empty() {
            let Some((message, kind, next)) = split(rest) else {
                self.is_malformed(Malformed::Cut(datagram.len() - rest.len()));
                return;
            };
            rest = next;
            if kind == NLMSG_ERROR {
                self.answer(message);
            } else if kind == self.module.family {
                self.message(now, message);
            } else if kind >= NLMSG_MIN_TYPE {
                self.is_malformed(Malformed::Family(kind));
            }
        }
    }

    fn is_malformed(&mut self, why: Malformed) {
        self.counts.malformed += 1;
        self.fault.get_or_insert(why);
    }

    fn answer(&mut self, message: &[u8]) {
        let word = |at: usize| message.get(at..)?.first_chunk().copied();
        let (Some(sequence), Some(code)) = (word(8), word(HEADER)) else {
            self.is_malformed(Malformed::Cut(message.len()));
            return;
        };
        let code = i32::from_ne_bytes(code);
        if u32::from_ne_bytes(sequence) == REGISTRATION {
            self.registered = Some(code.saturating_neg());
        } else if code != 0 {
            self.counts.refused += 1;
        }
    }

    fn message(&mut self, now: Time, message: &[u8]) {
        if let Some(notice) = Notice::read(message) {
            if let (Some(radio), true) = (self.place(notice.radio), notice.is_new) {
                self.air.mac.add_address(radio, notice.address);
            } else if !notice.is_new {
                self.air.mac.remove_address(notice.address);
            }
            return;
        }
        match Told::read(message) {
            // A number comes once. A radio that came late was one of this medium's before, or is
            // none.
            Some(Told::Came(_)) => return,
            Some(Told::Gone(number)) => {
                let name = u16::try_from(number).ok().map(|number| name_of(numbered(number)));
                if let Some(radio) = name.and_then(|name| self.place(name)) {
                    if self.air.mac.vanish(radio) {
                        self.gone.push_back(radio);
                    }
                }
                return;
            }
            None => {}
        }
        let mut sent = match Sent::read(message) {
            Ok(Some(sent)) => sent,
            Ok(None) => return,
            Err(why) => {
                self.is_malformed(why);
                return;
            }
        };
        self.counts.frames += 1;
        let Some(radio) = self.place(sent.radio) else {
            // Its kernel waits for an answer.
            self.counts.unknown += 1;
            self.out.push_back(message::status(&sent, &[], false, SIGNAL, None));
            return;
        };
        if let Some(from) = sent.header.transmitter(&sent.bytes) {
            if self.air.mac.radio_of(from) == self.air.mac.nobody() {
                self.air.mac.add_address(radio, from);
            }
            if !self.module.has_patches {
                self.sessions.see(&sent.bytes);
                let to = sent.header.receiver;
                if sent.header.tid.is_some_and(|tid| self.sessions.has(from, to, tid)) {
                    sent.flags |= AMPDU;
                }
            }
        }
        self.air.frame(now, radio, sent);
    }

    fn place(&self, name: Address) -> Option<RadioId> {
        self.names.iter().position(|own| *own == name).map(RadioId::at)
    }

    /// The next message for the kernel.
    pub fn take_out(&mut self) -> Option<Vec<u8>> {
        let mut message = self.out.pop_front().or_else(|| self.air.mac.take_out().map(|(_, message)| message))?;
        message::address_to(&mut message, self.module.family);
        self.counts.sent += 1;
        Some(message)
    }
}

/// The first message of a datagram, its kind, and what comes after it.
fn split(bytes: &[u8]) -> Option<(&[u8], u16, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let message = bytes.get(..length).filter(|message| message.len() >= HEADER)?;
    let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    Some((message, kind, bytes.get(length.next_multiple_of(4)..).unwrap_or(&[])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::tests::qos;
    use crate::message::tests::{as_kernel, gone, handed_over_by, notice};
    use crate::sessions::tests::action;
    use crate::tests::setup;

    const PATCHED: Module = Module { family: 27, has_patches: true };
    const PLAIN: Module = Module { family: 27, has_patches: false };
    /// As the module numbers its radios.
    const ADDRESSES: [Address; 3] = [[2, 0, 0, 0, 0, 0], [2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 2, 0]];

    /// A kernel without one: it hands frames over and reads what comes back.
    fn conversation(module: Module) -> Conversation {
        Conversation::new(Air::new(&setup(2, 0.0)), &ADDRESSES, module)
    }

    fn of_family(mut message: Vec<u8>) -> Vec<u8> {
        message::address_to(&mut message, 27);
        message
    }

    /// QoS data between two radios, handed over.
    fn data(from: usize, to: Address, cookie: u64, sn: u16, flags: u32) -> Vec<u8> {
        let mut frame = qos(0, sn);
        frame[4..10].copy_from_slice(&to);
        frame[10..16].copy_from_slice(&ADDRESSES[from]);
        of_family(handed_over_by(name_of(ADDRESSES[from]), cookie, flags, 7, &frame))
    }

    /// Command and attributes of a message.
    type Read = (u8, Vec<(u16, Vec<u8>)>);

    fn later(conversation: &mut Conversation) -> Vec<Read> {
        conversation.air.run_until(Time::from_ns(1_000_000_000));
        let out: Vec<Vec<u8>> = std::iter::from_fn(|| conversation.take_out()).collect();
        assert!(out.iter().all(|message| message[4..6] == 27u16.to_ne_bytes()));
        out.iter().map(|message| as_kernel(message)).collect()
    }

    fn value(attributes: &[(u16, Vec<u8>)], number: u16) -> Option<&[u8]> {
        attributes.iter().find(|(own, _)| *own == number).map(|(_, value)| value.as_slice())
    }

    #[test]
    fn the_medium_registers_and_hears_of_it() {
        let mut own = conversation(PATCHED);
        let registration = own.registration();
        assert_eq!(registration.len(), 20);
        assert_eq!((registration[16], u16::from_ne_bytes([registration[4], registration[5]])), (1, 27));
        assert_eq!(own.registered(), None);
        for (code, expected) in [(0i32, 0), (-16, 16)] {
            let mut answer = Vec::new();
            answer.extend_from_slice(&36u32.to_ne_bytes());
            answer.extend_from_slice(&NLMSG_ERROR.to_ne_bytes());
            answer.extend_from_slice(&[0; 2]);
            answer.extend_from_slice(&registration[8..12]);
            answer.extend_from_slice(&[0; 4]);
            answer.extend_from_slice(&code.to_ne_bytes());
            answer.extend_from_slice(&registration[..16]);
            own.take_in(Time::ZERO, &answer);
            assert_eq!(own.registered(), Some(expected));
            // Another message that is refused is a radio that does not listen.
            answer[8..12].fill(0);
            own.take_in(Time::ZERO, &answer);
        }
        assert_eq!((own.counts.refused, own.counts.malformed), (1, 0));
    }

    #[test]
    fn frames_go_from_radio_to_radio_and_end_with_a_status() {
        let mut own = conversation(PATCHED);
        // Two messages in one datagram.
        let both = [data(1, ADDRESSES[0], 1, 5, AMPDU), data(1, ADDRESSES[0], 2, 6, AMPDU)].concat();
        own.take_in(Time::ZERO, &both);
        let out = later(&mut own);
        let frames: Vec<_> = out.iter().filter(|(command, _)| *command == 2).collect();
        assert_eq!(frames.len(), 2);
        for (_, attributes) in frames {
            assert_eq!(value(attributes, 1), Some(&name_of(ADDRESSES[0])[..]));
            // The frame is of an A-MPDU, and at the rate of the sender.
            assert_eq!(value(attributes, 30), Some(&crate::rate::HT.to_ne_bytes()[..]));
            assert!(value(attributes, 31).is_some());
        }
        let ended: Vec<_> = out.iter().filter(|(command, _)| *command == 3).collect();
        assert_eq!(ended.len(), 2);
        assert_eq!(value(&ended[0].1, 2), Some(&name_of(ADDRESSES[1])[..]));
        assert_eq!((own.counts.frames, own.counts.sent, own.counts.malformed), (2, 4, 0));
    }

    #[test]
    fn modules_without_patches_get_what_they_know_and_still_have_ampdus() {
        let mut own = conversation(PLAIN);
        let (ap, sta) = (ADDRESSES[0], ADDRESSES[1]);
        own.take_in(Time::ZERO, &data(1, ap, 1, 4, 0));
        // The access point agrees to a session.
        let agreed = action(sta, ap, &[1, 9, 0, 0, 2, 16, 0, 0]);
        own.take_in(Time::ZERO, &of_family(handed_over_by(name_of(ap), 9, 0, 0, &agreed)));
        for sn in 5..15 {
            own.take_in(Time::ZERO, &data(1, ap, u64::from(sn), sn, 0));
        }
        let out = later(&mut own);
        assert!(out.iter().all(|(_, attributes)| value(attributes, 30).is_none() && value(attributes, 31).is_none()));
        let to_ap = |(command, attributes): &&Read| *command == 2 && value(attributes, 1) == Some(&name_of(ap)[..]);
        // 54 Mbit/s stands for MCS 7.
        let rates: Vec<_> = out.iter().filter(to_ap).map(|(_, attributes)| value(attributes, 5).unwrap()).collect();
        assert_eq!(rates, vec![&11u32.to_ne_bytes()[..]; 11]);
        let traffic = own.air.mac.traffic()[&(RadioId(1), RadioId(0))];
        assert_eq!((traffic.mpdus, traffic.ampdus, traffic.frames), (10, 1, 1));
    }

    #[test]
    fn addresses_are_learnt_and_unlearnt() {
        let mut own = conversation(PATCHED);
        let (other, third) = ([2, 9, 9, 9, 9, 9], [2, 9, 9, 9, 9, 8]);
        let whom = |own: &Conversation, address| own.air.mac.radio_of(address);
        own.take_in(Time::ZERO, &of_family(notice(name_of(ADDRESSES[2]), other, true)));
        assert_eq!(whom(&own, other), RadioId(2));
        own.take_in(Time::ZERO, &of_family(notice(name_of(ADDRESSES[2]), other, false)));
        assert_eq!(whom(&own, other), own.air.mac.nobody());
        // An address that the module has given a radio lasts.
        own.take_in(Time::ZERO, &of_family(notice(name_of(ADDRESSES[2]), ADDRESSES[2], false)));
        assert_eq!(whom(&own, ADDRESSES[2]), RadioId(2));
        // The sender of a frame that nobody knows is the radio that sends it.
        let mut frame = qos(0, 3);
        frame[10..16].copy_from_slice(&third);
        own.take_in(Time::ZERO, &of_family(handed_over_by(name_of(ADDRESSES[1]), 1, 0, 7, &frame)));
        assert_eq!(whom(&own, third), RadioId(1));
        // However many a radio invents.
        for n in 0..200 {
            own.take_in(Time::ZERO, &of_family(notice(name_of(ADDRESSES[2]), [2, 8, 8, 8, 8, n], true)));
        }
        assert_eq!(whom(&own, [2, 8, 8, 8, 8, 199]), RadioId(2));
        assert_eq!(whom(&own, [2, 8, 8, 8, 8, 0]), own.air.mac.nobody());
        assert_eq!(whom(&own, ADDRESSES[2]), RadioId(2));
    }

    #[test]
    fn a_radio_that_vanishes_answers_no_more() {
        let mut own = conversation(PATCHED);
        own.take_in(Time::ZERO, &data(1, ADDRESSES[0], 1, 5, AMPDU));
        assert_eq!(later(&mut own).len(), 2);
        // One of another medium is not looked at.
        own.take_in(Time::from_ns(1_000_000_000), &of_family(gone(7)));
        assert_eq!(own.take_gone(), None);
        own.take_in(Time::from_ns(1_000_000_000), &of_family(gone(0)));
        assert_eq!((own.take_gone(), own.take_gone()), (Some(RadioId(0)), None));
        own.take_in(Time::from_ns(1_000_000_000), &data(1, ADDRESSES[0], 2, 6, AMPDU));
        own.air.run_until(Time::from_ns(2_000_000_000));
        let out: Vec<_> = std::iter::from_fn(|| own.take_out()).map(|message| as_kernel(&message)).collect();
        // No frame arrives, and the sender hears that nobody has acknowledged.
        assert_eq!(out.iter().map(|(command, _)| *command).collect::<Vec<_>>(), [3]);
        assert_eq!(value(&out[0].1, 4), Some(&0u32.to_ne_bytes()[..]));
        assert!(own.air.mac.traffic()[&(RadioId(1), own.air.mac.nobody())].ppdus > 1);
        // Nor does what it had handed over itself go out.
        own.take_in(Time::from_ns(2_000_000_000), &data(2, ADDRESSES[1], 3, 7, AMPDU));
        own.take_in(Time::from_ns(2_000_000_000), &data(2, ADDRESSES[1], 4, 8, AMPDU));
        own.take_in(Time::from_ns(2_000_000_000), &of_family(gone(2)));
        assert!(own.air.mac.held(RadioId(2)) <= 1);
        own.air.run_until(Time::from_ns(3_000_000_000));
        assert_eq!(own.air.mac.held(RadioId(2)), 0);
        assert_eq!(own.counts.malformed, 0);
    }

    #[test]
    fn frames_of_radios_that_are_not_of_this_medium_are_given_up() {
        let mut own = conversation(PATCHED);
        let stranger = [2, 0, 0, 0, 7, 0];
        own.take_in(Time::ZERO, &of_family(handed_over_by(name_of(stranger), 77, 0, 7, &qos(0, 1))));
        let out = later(&mut own);
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].0, value(&out[0].1, 8)), (3, Some(&77u64.to_ne_bytes()[..])));
        assert_eq!((own.counts.unknown, own.counts.malformed), (1, 0));
    }

    #[test]
    fn what_is_no_message_is_counted_and_named_once() {
        let mut own = conversation(PATCHED);
        own.take_in(Time::ZERO, &[1, 2, 3]);
        assert_eq!(own.fault(), Some(Malformed::Cut(0)));
        let mut other = data(1, ADDRESSES[0], 1, 5, 0);
        message::address_to(&mut other, 99);
        own.take_in(Time::ZERO, &other);
        own.take_in(Time::ZERO, &data(1, ADDRESSES[0], 1, 5, 0)[..60]);
        assert_eq!((own.counts.malformed, own.fault()), (3, Some(Malformed::Cut(0))));
        // It goes on.
        own.take_in(Time::ZERO, &data(1, ADDRESSES[0], 1, 5, 0));
        assert_eq!(later(&mut own).len(), 2);
    }

    /// Frames without end: the radio holds so many, and the others are given up at once, each with
    /// a status.
    #[test]
    fn a_flood_is_given_up_and_each_frame_of_it_answered() {
        let mut own = conversation(PATCHED);
        let many = 10_000u64;
        for cookie in 0..many {
            // Identifiers and receivers vary from frame to frame.
            let mut frame = qos(u16::try_from(cookie % 8).unwrap() as u8, (cookie & 0xfff) as u16);
            frame[4..10].copy_from_slice(&ADDRESSES[(cookie % 3) as usize]);
            frame[10..16].copy_from_slice(&ADDRESSES[1]);
            let message = handed_over_by(name_of(ADDRESSES[1]), cookie, AMPDU, 7, &frame);
            own.take_in(Time::ZERO, &of_family(message));
            assert!(own.air.mac.held(RadioId(1)) <= 2048);
        }
        let at_once: Vec<Read> = std::iter::from_fn(|| own.take_out()).map(|message| as_kernel(&message)).collect();
        assert_eq!(at_once.len() as u64, many - 2048);
        own.air.run_until(Time::from_ns(600_000_000_000));
        let later: Vec<Read> = std::iter::from_fn(|| own.take_out()).map(|message| as_kernel(&message)).collect();
        let statuses = at_once.iter().chain(&later).filter(|(command, _)| *command == 3);
        let cookies: std::collections::BTreeSet<_> = statuses.map(|(_, of)| value(of, 8).unwrap().to_vec()).collect();
        assert_eq!((cookies.len() as u64, own.air.mac.held(RadioId(1))), (many, 0));
    }

    #[test]
    fn frames_that_no_radio_sends_are_refused() {
        let mut own = conversation(PATCHED);
        let of = |len: usize| {
            let mut frame = qos(0, 1);
            frame.resize(len, 7);
            of_family(handed_over_by(name_of(ADDRESSES[1]), 1, 0, 7, &frame))
        };
        own.take_in(Time::ZERO, &of(11_455));
        assert_eq!((own.fault(), own.counts.malformed), (Some(Malformed::TooLong(11_455)), 1));
        own.take_in(Time::ZERO, &of(11_454));
        assert_eq!((own.counts.malformed, own.air.mac.held(RadioId(1))), (1, 1));
    }

    #[test]
    fn a_radio_vanishes_once() {
        let mut own = conversation(PATCHED);
        for _ in 0..1000 {
            own.take_in(Time::ZERO, &of_family(gone(1)));
        }
        assert_eq!((own.take_gone(), own.take_gone()), (Some(RadioId(1)), None));
    }

    /// A message with random attributes, of which most are those that are known, with lengths that
    /// fit or do not.
    fn attributes() -> impl Strategy<Value = Vec<u8>> {
        let known = prop::sample::select(vec![1u16, 2, 3, 4, 5, 6, 7, 8, 10, 19, 21, 30, 31, 32, 33]);
        let value = prop_oneof![
            4 => proptest::collection::vec(any::<u8>(), 0..24),
            // A frame's header.
            2 => proptest::collection::vec(any::<u8>(), 24..60),
            1 => proptest::collection::vec(any::<u8>(), 3000..4000),
        ];
        let one = (prop_oneof![9 => known, 1 => any::<u16>()], value, prop_oneof![9 => Just(0i32), 1 => -8..40i32]);
        (0u8..12, proptest::collection::vec(one, 0..12), prop_oneof![9 => Just(0i64), 1 => -40..40i64]).prop_map(
            |(command, all, more)| {
                let mut message = vec![0; 20];
                message[16] = command;
                for (number, value, lies) in all {
                    let length = (4 + value.len() as i32 + lies).clamp(0, i32::from(u16::MAX)) as u16;
                    message.extend_from_slice(&length.to_ne_bytes());
                    message.extend_from_slice(&number.to_ne_bytes());
                    message.extend_from_slice(&value);
                    message.resize(message.len().next_multiple_of(4), 0);
                }
                let length = (message.len() as i64 + more).clamp(0, 1 << 20) as u32;
                message[..4].copy_from_slice(&length.to_ne_bytes());
                message
            },
        )
    }

    proptest! {
        /// Messages that are nearly well-formed, several in a row, from radios that there are.
        #[test]
        fn any_attributes_are_taken(messages in proptest::collection::vec(attributes(), 1..8), patched in any::<bool>()) {
            let mut own = conversation(if patched { PATCHED } else { PLAIN });
            let mut now = 0;
            for message in messages {
                own.take_in(Time::from_ns(now), &of_family(message));
                now += 1_000_000;
                own.air.run_until(Time::from_ns(now));
            }
            own.air.run_until(Time::from_ns(60_000_000_000));
            while let Some(message) = own.take_out() {
                prop_assert!(message.len() <= 4096);
            }
        }

        #[test]
        fn any_datagram_is_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut own = conversation(PLAIN);
            own.take_in(Time::ZERO, &bytes);
            let _ = later(&mut own);
        }

        /// Changed here and there, cut, and followed by another: no panic, and the frame behind
        /// still arrives.
        #[test]
        fn changed_datagrams_are_taken(
            changes in proptest::collection::vec((0usize..400, any::<u8>()), 0..8),
            cut in 0usize..500,
            patched in any::<bool>(),
        ) {
            let mut own = conversation(if patched { PATCHED } else { PLAIN });
            let agreed = action(ADDRESSES[1], ADDRESSES[0], &[1, 9, 0, 0, 2, 16, 0, 0]);
            let agreed = of_family(handed_over_by(name_of(ADDRESSES[0]), 9, 0, 0, &agreed));
            let mut bytes = [data(1, ADDRESSES[0], 1, 5, AMPDU), agreed, data(1, ADDRESSES[0], 2, 6, AMPDU)].concat();
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            own.take_in(Time::ZERO, &bytes);
            own.air.run_until(Time::from_ns(30_000_000_000));
            while own.take_out().is_some() {}
            own.take_in(Time::from_ns(30_000_000_000), &data(2, ADDRESSES[0], 3, 1, 0));
            own.air.run_until(Time::from_ns(60_000_000_000));
            let whole = std::iter::from_fn(|| own.take_out()).map(|message| as_kernel(&message));
            let ended = whole.filter(|(c, of)| *c == 3 && value(of, 8) == Some(&3u64.to_ne_bytes()[..])).count();
            prop_assert_eq!(ended, 1);
        }
    }
}
