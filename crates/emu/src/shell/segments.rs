//! A device may hand over up to 64 KiB of a TCP connection as one packet, and leave checksums to
//! whoever sends it on. The network sees single packets whose checksums are complete: those that
//! the kernel itself would have made (Linux 6.12, `tcp_gso_segment` of net/ipv4/tcp_offload.c,
//! `inet_gso_segment` of net/ipv4/af_inet.c). One system call in place of forty is what it saves,
//! and the kernel's own segmentation, which runs while acknowledgements are handed to the sender.

/// `struct virtio_net_hdr` (linux/virtio_net.h), before each packet.
pub(crate) const HEAD: usize = 10;
/// VIRTIO_NET_HDR_F_NEEDS_CSUM: the checksum's field has the sum of the pseudo-header.
const NEEDS_CHECKSUM: u8 = 1;
/// VIRTIO_NET_HDR_GSO_TCPV4 and VIRTIO_NET_HDR_GSO_TCPV6.
const TCP: [u8; 2] = [1, 4];
/// VIRTIO_NET_HDR_GSO_ECN: it may have CWR.
const ECN: u8 = 0x80;
/// The longest IP packet.
const LONGEST: usize = 65535;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
/// Where TCP and UDP have their checksums.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// A packet that a device has handed over, segment by segment.
#[derive(Debug)]
pub(crate) struct Segments {
    bytes: Vec<u8>,
    /// End of what is in `bytes`.
    end: usize,
    /// The next segment's data; `end`: there is none.
    at: usize,
    /// Segments so far.
    number: u16,
    /// `None`: it is one packet.
    cut: Option<Cut>,
}

/// Where a long packet is cut. Places count from the IP header.
#[derive(Debug, Clone, Copy)]
struct Cut {
    transport: usize,
    headers: usize,
    /// Bytes of data in each segment.
    size: usize,
    is_v4: bool,
}

impl Segments {
    pub(crate) fn new() -> Segments {
        Segments { bytes: vec![0; HEAD + LONGEST], end: HEAD, at: HEAD, number: 0, cut: None }
    }

    /// Where the device writes the next.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.end = HEAD;
        self.at = HEAD;
        &mut self.bytes
    }

    /// The device has written so many bytes.
    pub(crate) fn filled(&mut self, len: usize) {
        self.end = len.clamp(HEAD, self.bytes.len());
        self.at = HEAD;
        self.number = 0;
        self.cut = None;
        let (head, packet) = self.bytes.split_at_mut(HEAD);
        let Some(packet) = packet.get_mut(..self.end - HEAD) else { return };
        let word = |at: usize| usize::from(u16::from_ne_bytes([head[at], head[at + 1]]));
        let (flags, kind, size, start, offset) = (head[0], head[1] & !ECN, word(4), word(6), word(8));
        if flags & NEEDS_CHECKSUM == 0 {
            return;
        }
        if TCP.contains(&kind) {
            self.cut = Cut::of(packet, start, size);
            self.at = self.cut.map_or(HEAD, |cut| HEAD + cut.headers);
        } else {
            complete(packet, start, offset);
        }
    }

    /// True if there is a segment left.
    pub(crate) fn has_more(&self) -> bool {
        self.at < self.end
    }

    /// Writes the next segment, and returns its length; `None`: all are out.
    pub(crate) fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        if !self.has_more() {
            return None;
        }
        let Some(cut) = self.cut else {
            let packet = self.bytes.get(self.at..self.end)?;
            self.at = self.end;
            out.get_mut(..packet.len())?.copy_from_slice(packet);
            return Some(packet.len());
        };
        let (from, to) = (self.at, self.end.min(self.at + cut.size));
        let data = self.bytes.get(from..to)?;
        let headers = self.bytes.get(HEAD..HEAD + cut.headers)?;
        let segment = out.get_mut(..cut.headers + data.len())?;
        let (head, rest) = segment.split_at_mut(cut.headers);
        head.copy_from_slice(headers);
        rest.copy_from_slice(data);
        let before = from - HEAD - cut.headers;
        cut.write_header(segment, self.number, before, self.end - HEAD, to == self.end);
        self.at = to;
        self.number = self.number.wrapping_add(1);
        Some(segment.len())
    }
}

impl Cut {
    /// `None`: it is no TCP that can be cut.
    fn of(packet: &[u8], transport: usize, size: usize) -> Option<Cut> {
        let is_v4 = packet.first()? >> 4 == 4;
        let headers = transport + usize::from(packet.get(transport + 12)? >> 4) * 4;
        let is_whole = transport >= if is_v4 { 20 } else { 40 } && headers >= transport + 20 && headers < packet.len();
        (is_whole && size > 0).then_some(Cut { transport, headers, size, is_v4 })
    }

    /// Makes headers of the whole those of one segment. `before`: bytes of data before it; `whole`:
    /// length of the whole packet.
    fn write_header(self, segment: &mut [u8], number: u16, before: usize, whole: usize, is_last: bool) {
        let put = |to: &mut [u8], value: u16| to.copy_from_slice(&value.to_be_bytes());
        let word = |of: &[u8], at: usize| u16::from_be_bytes([of[at], of[at + 1]]);
        let (len, transport) = (segment.len(), self.transport);
        if self.is_v4 {
            put(&mut segment[2..4], short(len));
            let id = word(segment, 4).wrapping_add(number);
            put(&mut segment[4..6], id);
            put(&mut segment[10..12], 0);
            let header = usize::from(segment[0] & 15) * 4;
            let checksum = !fold(sum(&segment[..header.clamp(20, transport)]));
            put(&mut segment[10..12], checksum);
        } else {
            put(&mut segment[4..6], short(len - 40));
        }
        let tcp = &mut segment[transport..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let sequence = sequence.wrapping_add(u32::try_from(before).unwrap_or(0));
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !is_last {
            tcp[13] &= !FIN_PSH;
        }
        if number > 0 {
            tcp[13] &= !CWR;
        }
        // The field has the sum of the pseudo-header, in which the length is that of the whole.
        let pseudo =
            u64::from(word(tcp, TCP_CHECKSUM)) + u64::from(!short(whole - transport)) + u64::from(short(tcp.len()));
        put(&mut tcp[TCP_CHECKSUM..TCP_CHECKSUM + 2], 0);
        let checksum = !fold(sum(tcp) + pseudo);
        put(&mut tcp[TCP_CHECKSUM..TCP_CHECKSUM + 2], checksum);
    }
}

/// Completes the checksum of a single packet.
fn complete(packet: &mut [u8], start: usize, offset: usize) {
    let Some(covered) = packet.get_mut(start..) else { return };
    let checksum = !fold(sum(covered));
    // For UDP zero means that there is none.
    let checksum = if checksum == 0 && offset == UDP_CHECKSUM { u16::MAX } else { checksum };
    if let Some(field) = covered.get_mut(offset..offset + 2) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// The sum of 32-bit words is, once it is folded, that of 16-bit words (RFC 1071, 2).
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let rest = words.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    words.map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))).sum::<u64>()
        + u64::from(u32::from_be_bytes(last))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sum that a receiver forms, by 16-bit words: 0xffff if the packet is whole.
    fn by_words(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    fn pseudo(packet: &[u8], is_v4: bool, transport: usize, protocol: u8) -> Vec<u8> {
        let addresses = if is_v4 { &packet[12..20] } else { &packet[8..40] };
        let len = u32::try_from(packet.len() - transport).unwrap();
        [addresses, &len.to_be_bytes(), &[0, 0, 0, protocol]].concat()
    }

    /// A packet of a device with checksum and TCP offload.
    fn handed_over(is_v4: bool, options: usize, data: &[u8], size: u16, flags: u8) -> Vec<u8> {
        let transport: usize = if is_v4 { 20 } else { 40 };
        let headers = transport + 20 + options;
        let mut packet = vec![0; headers];
        let len = u16::try_from(headers + data.len()).unwrap();
        if is_v4 {
            packet[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]);
            packet[4..10].copy_from_slice(&[0xff, 0xfe, 0x40, 0, 64, 6]);
            packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            packet[0] = 0x60;
            packet[4..6].copy_from_slice(&(len - 40).to_be_bytes());
            packet[6..8].copy_from_slice(&[6, 64]);
            packet[8] = 0xfd;
            packet[39] = 7;
        }
        packet[transport + 4..transport + 8].copy_from_slice(&0xffff_ff00_u32.to_be_bytes());
        packet[transport + 12] = (((20 + options) / 4) << 4) as u8;
        packet[transport + 13] = flags;
        packet.extend_from_slice(data);
        let sum = by_words(&pseudo(&packet, is_v4, transport, 6));
        packet[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
        let mut out = vec![NEEDS_CHECKSUM, if is_v4 { 1 } else { 4 }];
        for word in [headers as u16, size, transport as u16, 16] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        [out, packet].concat()
    }

    fn all(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut segments = Segments::new();
        segments.room()[..bytes.len()].copy_from_slice(bytes);
        segments.filled(bytes.len());
        let mut out = vec![0; 65536];
        std::iter::from_fn(|| segments.next(&mut out).map(|len| out[..len].to_vec())).collect()
    }

    proptest! {
        #[test]
        fn segments_are_whole_packets_in_order(
            is_v4: bool, options in (0usize..=10).prop_map(|words| words * 4), size in 1u16..3000,
            data in prop::collection::vec(any::<u8>(), 1..9000), has_cwr: bool,
        ) {
            let flags = 0x19 | if has_cwr { CWR } else { 0 };
            let segments = all(&handed_over(is_v4, options, &data, size, flags));
            let transport = if is_v4 { 20 } else { 40 };
            let headers = transport + 20 + options;
            prop_assert_eq!(segments.len(), data.len().div_ceil(usize::from(size)));
            let mut seen = Vec::new();
            for (k, segment) in segments.iter().enumerate() {
                if is_v4 {
                    prop_assert_eq!(by_words(&segment[..20]), 0xffff);
                    prop_assert_eq!(usize::from(u16::from_be_bytes([segment[2], segment[3]])), segment.len());
                    prop_assert_eq!(u16::from_be_bytes([segment[4], segment[5]]), 0xfffe_u16.wrapping_add(k as u16));
                } else {
                    prop_assert_eq!(usize::from(u16::from_be_bytes([segment[4], segment[5]])), segment.len() - 40);
                }
                let summed = [pseudo(segment, is_v4, transport, 6), segment[transport..].to_vec()].concat();
                prop_assert_eq!(by_words(&summed), 0xffff);
                let sequence = u32::from_be_bytes(segment[transport + 4..transport + 8].try_into().unwrap());
                prop_assert_eq!(sequence, 0xffff_ff00_u32.wrapping_add(seen.len() as u32));
                let (is_first, is_last) = (k == 0, k + 1 == segments.len());
                let wanted = 0x10 | if is_last { FIN_PSH } else { 0 } | if is_first && has_cwr { CWR } else { 0 };
                prop_assert_eq!(segment[transport + 13], wanted);
                seen.extend_from_slice(&segment[headers..]);
            }
            prop_assert_eq!(seen, data);
        }

        #[test]
        fn any_bytes_are_handed_on(bytes in prop::collection::vec(any::<u8>(), 0..200), flags in 0u8..2, kind in 0u8..6) {
            let mut bytes = bytes;
            bytes.splice(..bytes.len().min(2), [flags, kind]);
            for segment in all(&bytes) {
                prop_assert!(segment.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_single_packet_gets_its_checksum() {
        // IPv4 and UDP, 5 bytes of data.
        let mut packet = vec![0x45, 0, 0, 33, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend_from_slice(&[0x10, 0, 0x20, 0, 0, 13, 0, 0, 1, 2, 3, 4, 5]);
        let sum = by_words(&pseudo(&packet, true, 20, 17));
        packet[26..28].copy_from_slice(&sum.to_be_bytes());
        let mut head = vec![NEEDS_CHECKSUM, 0];
        for word in [0u16, 0, 20, 6] {
            head.extend_from_slice(&word.to_ne_bytes());
        }
        let out = all(&[head, packet.clone()].concat());
        assert_eq!(out.len(), 1);
        assert_eq!(by_words(&[pseudo(&out[0], true, 20, 17), out[0][20..].to_vec()].concat()), 0xffff);
        assert_eq!(out[0][28..], packet[28..]);
        // As it is where the kernel has done it.
        let plain = [vec![0; HEAD], packet.clone()].concat();
        assert_eq!(all(&plain), [packet]);
    }
}
