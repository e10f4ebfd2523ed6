//! Block Ack agreements as they are read from frames, for kernels whose module does not say which
//! frames may be aggregated.
//!
//! Frames that set up an agreement are encrypted where management frames are protected. Such a
//! network has none here, and its frames go one by one.

use std::collections::BTreeSet;

use crate::frame::Address;

/// Most agreements: invented frames shall not fill the memory.
const MOST: usize = 4096;

/// "Action" with its category Block Ack (IEEE 802.11-2020 9.6.4).
const ACTION: u8 = 0xd0;
const PROTECTED: u8 = 0x40;
const BLOCK_ACK: u8 = 3;
const RESPONSE: u8 = 1;
const END: u8 = 2;

/// Sender, receiver and traffic identifier of all that is under Block Ack.
#[derive(Debug, Default)]
pub struct Sessions(BTreeSet<(Address, Address, u8)>);

impl Sessions {
    /// A frame on its way: it may begin or end an agreement.
    pub fn see(&mut self, frame: &[u8]) {
        let _ = self.read(frame);
    }

    fn read(&mut self, frame: &[u8]) -> Option<()> {
        let (to, from): (Address, Address) = (*frame.get(4..)?.first_chunk()?, *frame.get(10..)?.first_chunk()?);
        let is_plain = frame[0] == ACTION && frame[1] & PROTECTED == 0;
        if !is_plain || *frame.get(24)? != BLOCK_ACK {
            return None;
        }
        let word = |at: usize| frame.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        match *frame.get(25)? {
            RESPONSE if word(27)? == 0 && self.0.len() < MOST => {
                let [tid, _] = (word(29)? >> 2 & 0xf).to_le_bytes();
                // The answer comes from who will receive.
                self.0.insert((to, from, tid));
            }
            END => {
                let parameters = word(26)?;
                let [tid, _] = (parameters >> 12).to_le_bytes();
                let is_from_sender = parameters & 1 << 11 != 0;
                self.0.remove(&if is_from_sender { (from, to, tid) } else { (to, from, tid) });
            }
            _ => {}
        }
        Some(())
    }

    /// True if frames of this identifier are under Block Ack.
    pub fn has(&self, from: Address, to: Address, tid: u8) -> bool {
        self.0.contains(&(from, to, tid))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::address;

    /// An action frame of the category Block Ack.
    pub fn action(to: Address, from: Address, rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![ACTION, 0, 0, 0];
        frame.extend_from_slice(&[to, from, to].concat());
        frame.extend_from_slice(&[0, 0, BLOCK_ACK]);
        frame.extend_from_slice(rest);
        frame
    }

    #[test]
    fn agreements_begin_and_end() {
        let (a, b) = (address(1), address(0));
        let mut sessions = Sessions::default();
        // Identifier 6, 64 buffers: refused, then agreed.
        let parameters = (64u16 << 6 | 6 << 2 | 2).to_le_bytes();
        let answer = |status: u8| [&[RESPONSE, 9, status, 0][..], &parameters, &[0, 0]].concat();
        sessions.see(&action(a, b, &answer(37)));
        assert!(!sessions.has(a, b, 6));
        sessions.see(&action(a, b, &answer(0)));
        assert!(sessions.has(a, b, 6) && !sessions.has(b, a, 6) && !sessions.has(a, b, 0));
        // The sender ends another one, then the receiver this one.
        let end =
            |tid: u16, initiator: u16| [&[END][..], &(tid << 12 | initiator << 11).to_le_bytes(), &[1, 0]].concat();
        sessions.see(&action(b, a, &end(5, 1)));
        assert!(sessions.has(a, b, 6));
        sessions.see(&action(a, b, &end(6, 0)));
        assert!(!sessions.has(a, b, 6));
        sessions.see(&action(a, b, &answer(0)));
        sessions.see(&action(b, a, &end(6, 1)));
        assert!(!sessions.has(a, b, 6));
        let mut hidden = action(a, b, &answer(0));
        hidden[1] = PROTECTED;
        sessions.see(&hidden);
        assert!(!sessions.has(a, b, 6));
    }

    proptest! {
        #[test]
        fn any_frame_is_taken(frame in proptest::collection::vec(any::<u8>(), 0..48), cut in 0usize..40) {
            let mut sessions = Sessions::default();
            sessions.see(&frame);
            let whole = action(address(1), address(0), &[RESPONSE, 9, 0, 0, 8, 16, 0, 0]);
            sessions.see(&whole[..cut.min(whole.len())]);
        }
    }
}
