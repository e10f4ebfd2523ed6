//! The fields of a TCP packet that the trace, the scripts and the counters need.

pub struct Tcp {
    pub ports: (u16, u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub payload: usize,
    pub window: u16,
    /// SACK blocks in the packet's order.
    pub sack: Vec<(u32, u32)>,
}

impl Tcp {
    pub fn parse(p: &[u8]) -> Option<Tcp> {
        if p.len() < 40 || p[0] >> 4 != 4 || p[9] != 6 {
            return None;
        }
        let ip = usize::from(p[0] & 15) * 4;
        let t = p.get(ip..)?;
        let header = usize::from(t.get(12)? >> 4) * 4;
        if t.len() < header || header < 20 {
            return None;
        }
        let u16_at = |i: usize| u16::from_be_bytes([t[i], t[i + 1]]);
        let u32_at = |i: usize| u32::from_be_bytes([t[i], t[i + 1], t[i + 2], t[i + 3]]);
        let mut sack = Vec::new();
        let mut option = 20;
        while option < header && t[option] != 0 {
            if t[option] == 1 {
                option += 1;
                continue;
            }
            let len = usize::from(*t.get(option + 1)?);
            if t[option] == 5 {
                let blocks = (option + 2..).step_by(8).take_while(|b| b + 8 <= (option + len).min(header));
                sack = blocks.map(|b| (u32_at(b), u32_at(b + 4))).collect();
            }
            option += len.max(2);
        }
        let ports = (u16_at(0), u16_at(2));
        let (payload, window) = (t.len() - header, u16_at(14));
        Some(Tcp { ports, seq: u32_at(4), ack: u32_at(8), flags: t[13], payload, window, sack })
    }

    pub fn is_syn(&self) -> bool {
        self.flags & 2 != 0
    }

    /// As columns of the trace; SACK blocks as `from-to;from-to`.
    pub fn columns(&self) -> String {
        let sack: Vec<String> = self.sack.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        format!(
            "{},{},{},{},{},{},{},{}",
            self.ports.0,
            self.ports.1,
            self.seq,
            self.ack,
            self.flags,
            self.payload,
            self.window,
            sack.join(";")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sack_blocks_and_payload_are_read() {
        let mut p = vec![0u8; 20 + 32 + 5];
        (p[0], p[9]) = (0x45, 6);
        p[20..24].copy_from_slice(&[0x13, 0x89, 0, 80]);
        p[24..28].copy_from_slice(&7u32.to_be_bytes());
        (p[32], p[33]) = (8 << 4, 0x10);
        // Two empty options, then one block.
        p[40..44].copy_from_slice(&[1, 1, 5, 10]);
        p[44..48].copy_from_slice(&100u32.to_be_bytes());
        p[48..52].copy_from_slice(&200u32.to_be_bytes());
        let tcp = Tcp::parse(&p).unwrap();
        assert_eq!((tcp.ports, tcp.seq, tcp.payload, tcp.is_syn()), ((5001, 80), 7, 5, false));
        assert_eq!(tcp.sack, [(100, 200)]);
    }

    #[test]
    fn what_is_cut_short_or_no_tcp_is_none() {
        let mut p = vec![0u8; 40];
        (p[0], p[9], p[32]) = (0x45, 6, 5 << 4);
        assert!(Tcp::parse(&p).is_some());
        assert!(Tcp::parse(&p[..39]).is_none());
        p[9] = 17;
        assert!(Tcp::parse(&p).is_none());
        (p[9], p[32]) = (6, 15 << 4);
        assert!(Tcp::parse(&p).is_none(), "the header is longer than the packet");
    }
}
