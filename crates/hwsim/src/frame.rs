//! Fields of an 802.11 frame that a medium must know: whom it is for, who sends it, and its place
//! in a Block Ack session (IEEE 802.11-2020 9.2 and 9.3). All else in it is the kernel's affair.

use airtcp_core::units::Seq12;
use airtcp_core::wifi::Ac;

/// An address of a radio.
pub type Address = [u8; 6];

/// The address of the radio at this place of a medium: locally administered.
pub const fn address(place: u16) -> Address {
    let [high, low] = place.to_be_bytes();
    [0x02, 0, 0, 0, high, low]
}

/// Set in the first byte of the kernel's name of a radio: the name is its second address.
pub const NAME: u8 = 0x40;

/// Bytes of the check sequence, which kernels leave to the radio.
pub const FCS: usize = 4;
/// Frame control, duration and receiver: no frame is shorter.
const LEAST: usize = 10;
/// "Retry" in the second byte of a frame.
const RETRY: u8 = 0x08;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Beacons, association, agreements on Block Ack.
    Management,
    /// Block Ack requests and others that a kernel sends by itself.
    Control,
    /// Data, with a traffic identifier where it has one.
    Data,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its kind.
    pub kind: Kind,
    /// Address of its receiver.
    pub receiver: Address,
    /// Traffic identifier of QoS data.
    pub tid: Option<u8>,
    /// Its number, where it has one.
    pub sn: Seq12,
    /// Its access category, as mac80211 chooses queues.
    pub ac: Ac,
}

impl Header {
    /// Reads it; `None`: the frame is too short for what it says it is.
    pub fn read(frame: &[u8]) -> Option<Header> {
        let (&control, receiver) = (frame.first()?, frame.get(4..LEAST)?);
        let receiver = *receiver.first_chunk()?;
        // An extended frame, or one of another protocol version, has no meaning here.
        let kind = match control & 0x0f {
            0x00 => Kind::Management,
            0x04 => Kind::Control,
            0x08 => Kind::Data,
            _ => return None,
        };
        if kind == Kind::Control {
            // A Block Ack request says in its own control field what it is about.
            let is_request = control == 0x84;
            let tid = if is_request { Some(frame.get(17)? >> 4) } else { None };
            return Some(Header { kind, receiver, tid: None, sn: Seq12::new(0), ac: tid.map_or(Ac::Vo, category) });
        }
        let sequence = u16::from_le_bytes(*frame.get(22..24)?.first_chunk()?);
        let has_qos = kind == Kind::Data && control & 0x80 != 0;
        // To and from a distribution system at once: a fourth address comes first.
        let four = frame.get(1)? & 0x03 == 0x03;
        let tid = if has_qos { Some(frame.get(if four { 30 } else { 24 })? & 0x0f) } else { None };
        let ac = match (kind, tid) {
            (_, Some(tid)) => category(tid),
            (Kind::Data, None) => Ac::Be,
            _ => Ac::Vo,
        };
        Some(Header { kind, receiver, tid, sn: Seq12::new(sequence >> 4), ac })
    }

    /// Address of a frame's sender, where the frame has one.
    pub fn transmitter(&self, frame: &[u8]) -> Option<Address> {
        let address = frame.get(10..)?.first_chunk()?;
        (self.kind != Kind::Control && address[0] & 1 == 0).then_some(*address)
    }

    /// It is for more than one radio.
    pub fn is_group(&self) -> bool {
        self.receiver[0] & 1 != 0
    }
}

/// The access category of a traffic identifier (IEEE 802.11-2020 Table 10-1).
fn category(tid: u8) -> Ac {
    match tid & 7 {
        1 | 2 => Ac::Bk,
        4 | 5 => Ac::Vi,
        6 | 7 => Ac::Vo,
        _ => Ac::Be,
    }
}

/// Marks a frame as sent before.
pub fn mark_retry(frame: &mut [u8]) {
    if let Some(flags) = frame.get_mut(1) {
        *flags |= RETRY;
    }
}

/// Damages a frame behind its headers, as errors do that leave the header intact.
pub fn damage(frame: &mut [u8]) {
    if let Some(last) = frame.last_mut() {
        *last ^= 0x55;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// QoS data to an access point, of this identifier and number.
    pub fn qos(tid: u8, sn: u16) -> Vec<u8> {
        let mut frame = vec![0x88, 0x01, 0, 0];
        for place in [0, 1, 0] {
            frame.extend_from_slice(&address(place));
        }
        frame.extend_from_slice(&(sn << 4).to_le_bytes());
        frame.extend_from_slice(&[tid, 0]);
        frame.resize(200, 7);
        frame
    }

    #[test]
    fn headers_are_read() {
        let header = Header::read(&qos(6, 4095)).unwrap();
        assert_eq!((header.kind, header.receiver, header.tid), (Kind::Data, address(0), Some(6)));
        assert_eq!((header.sn, header.ac, header.is_group()), (Seq12::new(4095), Ac::Vo, false));
        let mut four = qos(0, 9);
        four[1] = 0x03;
        four[30] = 1;
        assert_eq!(Header::read(&four).unwrap().ac, Ac::Bk);
        let mut beacon = vec![0x80, 0, 0, 0];
        beacon.extend_from_slice(&[0xff; 6]);
        beacon.resize(60, 0);
        let header = Header::read(&beacon).unwrap();
        assert_eq!((header.kind, header.ac, header.tid), (Kind::Management, Ac::Vo, None));
        assert!(header.is_group());
        // A Block Ack request for identifier 5.
        let mut request = vec![0x84, 0, 0, 0];
        request.extend_from_slice(&[address(0), address(1)].concat());
        request.extend_from_slice(&[0x05, 0x50, 0, 0]);
        let header = Header::read(&request).unwrap();
        assert_eq!((header.kind, header.ac, header.tid), (Kind::Control, Ac::Vi, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(frame in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(header) = Header::read(&frame) {
                prop_assert_eq!(&frame[4..10], &header.receiver);
            }
        }

        #[test]
        fn what_is_cut_is_refused(len in 0usize..26) {
            prop_assert!(Header::read(&qos(0, 1)[..len]).is_none() == (len < 25));
        }
    }
}
