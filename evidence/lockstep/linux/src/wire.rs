//! IPv4 and TCP headers, as the device gives and takes them.

pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;

/// Fields of a segment that are read or written.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    pub from: ([u8; 4], u16),
    pub to: ([u8; 4], u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub ecn: u8,
    /// Maximum segment size, in a SYN.
    pub mss: Option<u16>,
    pub wscale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<(u32, u32)>,
    pub sack: Vec<(u32, u32)>,
    pub payload: usize,
}

pub fn parse(p: &[u8]) -> Option<Tcp> {
    if p.len() < 40 || p[0] >> 4 != 4 || p[9] != 6 {
        return None;
    }
    let t = p.get(usize::from(p[0] & 15) * 4..)?;
    let header = usize::from(t.get(12)? >> 4) * 4;
    if header < 20 || t.len() < header {
        return None;
    }
    let u16_at = |i: usize| u16::from_be_bytes([t[i], t[i + 1]]);
    let u32_at = |i: usize| u32::from_be_bytes([t[i], t[i + 1], t[i + 2], t[i + 3]]);
    let mut tcp = Tcp {
        from: ([p[12], p[13], p[14], p[15]], u16_at(0)),
        to: ([p[16], p[17], p[18], p[19]], u16_at(2)),
        seq: u32_at(4),
        ack: u32_at(8),
        flags: t[13],
        window: u16_at(14),
        ecn: p[1] & 3,
        payload: t.len() - header,
        ..Tcp::default()
    };
    let mut i = 20;
    while i < header && t[i] != 0 {
        if t[i] == 1 {
            i += 1;
            continue;
        }
        let len = usize::from(*t.get(i + 1)?).max(2);
        if i + len > header {
            break;
        }
        match (t[i], len) {
            (2, 4) => tcp.mss = Some(u16_at(i + 2)),
            (3, 3) => tcp.wscale = Some(t[i + 2]),
            (4, 2) => tcp.sack_permitted = true,
            (8, 10) => tcp.timestamps = Some((u32_at(i + 2), u32_at(i + 6))),
            (5, _) => {
                tcp.sack = (i + 2..i + len)
                    .step_by(8)
                    .filter(|b| b + 8 <= i + len)
                    .map(|b| (u32_at(b), u32_at(b + 4)))
                    .collect();
            }
            _ => {}
        }
        i += len;
    }
    Some(tcp)
}

pub fn build(tcp: &Tcp) -> Vec<u8> {
    let mut options = Vec::new();
    if let Some(mss) = tcp.mss {
        options.extend([2, 4]);
        options.extend(mss.to_be_bytes());
    }
    if let Some(scale) = tcp.wscale {
        options.extend([1, 3, 3, scale]);
    }
    if tcp.sack_permitted {
        options.extend([1, 1, 4, 2]);
    }
    if let Some((value, echo)) = tcp.timestamps {
        options.extend([1, 1, 8, 10]);
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    }
    if !tcp.sack.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * tcp.sack.len() as u8]);
        for (start, end) in &tcp.sack {
            options.extend(start.to_be_bytes());
            options.extend(end.to_be_bytes());
        }
    }
    let header = 20 + options.len();
    let total = (20 + header + tcp.payload) as u16;
    let mut p = vec![0u8; usize::from(total)];
    (p[0], p[1], p[8], p[9]) = (0x45, tcp.ecn, 64, 6);
    p[2..4].copy_from_slice(&total.to_be_bytes());
    p[6] = 0x40;
    p[12..16].copy_from_slice(&tcp.from.0);
    p[16..20].copy_from_slice(&tcp.to.0);
    let ip = !sum(0, &p[..20]);
    p[10..12].copy_from_slice(&ip.to_be_bytes());
    let t = &mut p[20..];
    t[..2].copy_from_slice(&tcp.from.1.to_be_bytes());
    t[2..4].copy_from_slice(&tcp.to.1.to_be_bytes());
    t[4..8].copy_from_slice(&tcp.seq.to_be_bytes());
    t[8..12].copy_from_slice(&tcp.ack.to_be_bytes());
    (t[12], t[13]) = ((header as u8 / 4) << 4, tcp.flags);
    t[14..16].copy_from_slice(&tcp.window.to_be_bytes());
    t[20..header].copy_from_slice(&options);
    let pseudo = sum(6 + (total as u32 - 20), &p[12..20]);
    let checksum = !sum(u32::from(pseudo), &p[20..]);
    p[36..38].copy_from_slice(&checksum.to_be_bytes());
    p
}

fn sum(begin: u32, bytes: &[u8]) -> u16 {
    let mut sum = begin;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back_and_its_sums_are_right() {
        let tcp = Tcp {
            from: ([10, 9, 0, 1], 80),
            to: ([10, 255, 0, 1], 5000),
            seq: 7,
            ack: 9,
            flags: ACK | ECE,
            window: 500,
            timestamps: Some((3, 4)),
            sack: vec![(10, 20), (30, 40)],
            payload: 5,
            ..Tcp::default()
        };
        let p = build(&tcp);
        assert_eq!(sum(0, &p[..20]), 0xffff);
        let pseudo = sum(6 + p.len() as u32 - 20, &p[12..20]);
        assert_eq!(sum(u32::from(pseudo), &p[20..]), 0xffff);
        let back = parse(&p).unwrap();
        assert_eq!((back.seq, back.ack, back.flags, back.sack, back.payload), (7, 9, ACK | ECE, tcp.sack, 5));
        assert_eq!(back.timestamps, Some((3, 4)));
    }
}
