//! The law's structs as the bytes of a BPF map, and back. All are 64-bit words in the order of
//! their fields.

use airtcp_law::tcp_av::{Ack, Count, Params, Path, State, Window};

/// Bytes of 64-bit words.
pub fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// 64-bit words of bytes; what is left over is dropped.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|b| u64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])).collect()
}

/// In the order of their fields.
pub fn of_params(p: &Params) -> [u64; 16] {
    [
        p.target_bps,
        p.rtt_min,
        p.rtt_min_window_ns,
        p.floor_rtt,
        p.after_timeout,
        p.above,
        p.rise,
        p.fall,
        p.tune_rounds,
        p.tune_limit,
        p.severe_rounds,
        p.severe_reductions,
        p.severe_share,
        p.reduced_to,
        p.target_min,
        p.recover_step,
    ]
}

fn of_count(c: &Count) -> [u64; 6] {
    [c.is_on, c.start_ns, c.delivered, c.end, c.limited, c.slow_start]
}

/// In the order of their fields.
pub fn of_state(s: &State) -> Vec<u64> {
    let mut all = vec![s.share, s.least_since_ns, s.least_ns, s.least_before_ns, s.is_reduced];
    all.extend(of_count(&s.round));
    all.extend(of_count(&s.period));
    all.extend([s.rounds, s.reductions, s.behind, s.ahead, s.has_aim, s.low, s.high, s.step, s.moved]);
    all
}

/// In the order of their fields.
pub fn of_window(w: &Window) -> [u64; 2] {
    [w.cwnd, w.ssthresh]
}

/// In the order of their fields.
pub fn of_path(p: &Path) -> [u64; 5] {
    [p.now_ns, p.srtt_ns, p.min_rtt_ns, p.mss, p.cwnd_clamp]
}

/// In the order of their fields.
pub fn of_ack(a: &Ack) -> [u64; 6] {
    [a.rtt_ns, a.credit, a.delivered, a.cwnd_limited, a.snd_una, a.snd_nxt]
}
