//! Queue limits by the rules of buffer sizing, exactly: integers all the way, rounded down once.

use airtcp_core::convert::floor64;
use airtcp_core::units::DataRate;

use super::file::{Buffer, BufferRule};

/// A queue limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Packets(u64),
    Bytes(u64),
}

impl Buffer {
    /// The limit for a line of this rate. `flows` must be set for [`BufferRule::BdpOverSqrtN`],
    /// `scale` finite and not negative.
    pub(super) fn limit(&self, rate: DataRate) -> Limit {
        let flows = match self.rule {
            BufferRule::Bdp => 1,
            BufferRule::BdpOverSqrtN => self.flows.unwrap_or(1),
        };
        let unit_bytes = self.packet_bytes.unwrap_or(1);
        let n = self.exact(rate, unit_bytes, flows).unwrap_or_else(|| {
            // Too many digits for 128 bits: such a limit is astronomic, or its scale finer than a
            // double resolves.
            let bytes = rate.as_bps() as f64 * self.rtt.as_secs_f64() / 8.0 * self.scale;
            floor64(bytes / f64::from(unit_bytes) / f64::from(flows).sqrt())
        });
        if self.packet_bytes.is_some() { Limit::Packets(n) } else { Limit::Bytes(n) }
    }

    /// floor(p / q / √flows), where p / q = rate × rtt × scale in units of `unit_bytes`.
    fn exact(&self, rate: DataRate, unit_bytes: u16, flows: u32) -> Option<u64> {
        let (digits, decimals) = decimal(self.scale)?;
        let p = u128::from(rate.as_bps()).checked_mul(u128::from(self.rtt.as_ns()))?.checked_mul(digits)?;
        let q = 8_000_000_000u128.checked_mul(10u128.checked_pow(decimals)?)?.checked_mul(u128::from(unit_bytes))?;
        let common = gcd(p, q);
        let (p, q) = (p / common, q / common);
        if flows == 1 {
            return u64::try_from(p / q).ok();
        }
        let squared = p.checked_mul(p)? / q.checked_mul(q)?.checked_mul(u128::from(flows))?;
        u64::try_from(squared.isqrt()).ok()
    }
}

/// The shortest decimal that reads back as `x`, as (digits, number of decimals): what the user
/// wrote.
fn decimal(x: f64) -> Option<(u128, u32)> {
    let text = x.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    Some((format!("{whole}{fraction}").parse().ok()?, u32::try_from(fraction.len()).ok()?))
}

/// At least 1.
fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use airtcp_core::units::Span;
    use proptest::prelude::*;

    use super::*;

    fn rule(rtt_ms: u64, flows: Option<u32>, scale: f64, packet_bytes: Option<u16>) -> Buffer {
        let rule = if flows.is_some() { BufferRule::BdpOverSqrtN } else { BufferRule::Bdp };
        Buffer { rule, rtt: Span::from_ms(rtt_ms), flows, scale, packet_bytes }
    }

    #[test]
    fn the_study_s_own_buffers() {
        // pacing-buffers, Figure 15: C = 1 Gbit/s, D = 20 ms, RTT = 2 (20 + 5 + 5) ms, 1000-byte
        // packets.
        let gigabit = DataRate::from_mbps(1000);
        assert_eq!(rule(60, None, 1.0, Some(1000)).limit(gigabit), Limit::Packets(7500));
        assert_eq!(rule(60, Some(1500), 1.0, Some(1000)).limit(gigabit), Limit::Packets(193));
        let hundred = DataRate::from_mbps(100);
        assert_eq!(rule(200, None, 1.0, Some(1000)).limit(hundred), Limit::Packets(2500));
        assert_eq!(rule(200, Some(500), 1.0, Some(1000)).limit(hundred), Limit::Packets(111));
        assert_eq!(rule(200, None, 0.2, Some(1000)).limit(hundred), Limit::Packets(500));
        // 2.5 Gbit of buffer at 10 Gbit/s.
        assert_eq!(rule(250, None, 1.0, None).limit(DataRate::from_mbps(10_000)), Limit::Bytes(312_500_000));
    }

    #[test]
    fn scale_is_the_decimal_that_was_written() {
        // As doubles 7500 * 0.7 and 2500 * 0.29 fall just short of the whole number.
        assert_eq!(rule(60, None, 0.7, Some(1000)).limit(DataRate::from_mbps(1000)), Limit::Packets(5250));
        assert_eq!(rule(200, None, 0.29, Some(1000)).limit(DataRate::from_mbps(100)), Limit::Packets(725));
        assert_eq!(rule(60, Some(100), 0.1, Some(1000)).limit(DataRate::from_mbps(1000)), Limit::Packets(75));
        assert_eq!(rule(60, None, 0.0, Some(1000)).limit(DataRate::from_mbps(1000)), Limit::Packets(0));
    }

    proptest! {
        #[test]
        fn the_limit_is_the_largest_that_fits(mbps in 1u64..100_000, rtt in 1u64..2_000, n in 1u32..100_000, size in 40u16..9000) {
            let Limit::Packets(k) = rule(rtt, Some(n), 1.0, Some(size)).limit(DataRate::from_mbps(mbps)) else { panic!() };
            // k √n packets fit into rate × rtt, (k + 1) √n do not; both sides squared.
            let bytes = u128::from(mbps * rtt) * 125;
            let fits = |k: u64| u128::from(k).pow(2) * u128::from(n) * u128::from(size).pow(2) <= bytes * bytes;
            prop_assert!(fits(k) && !fits(k + 1));
        }

        #[test]
        fn no_input_panics(bps: u64, ns in 0..u64::MAX, scale in 0.0..1e300f64, n: u32, size: u16) {
            let rtt = Span::from_ns(ns);
            let buffer = Buffer { rule: BufferRule::BdpOverSqrtN, rtt, flows: Some(n.max(1)), scale, packet_bytes: Some(size.max(1)) };
            buffer.limit(DataRate::from_bps(bps));
        }
    }
}
