//! The law as the kernel runs it, beside the law as the simulator runs it: a million steps, equal
//! to the bit.

#![allow(clippy::cast_possible_truncation)]

mod common;

use airtcp_host::load::{get, load, objects, put};
use airtcp_host::rights::{Capability, Host, TRACING};
use airtcp_host::words::{of_ack, of_params, of_path, of_state, of_window};
use airtcp_law::coop::{Lease, held};
use airtcp_law::tcp_av::{self, Ack, Params, Path, State, Verdict, Window};
use airtcp_law::{MOST, UNKNOWN};
use libbpf_rs::ProgramInput;

const STEPS: u64 = 1_000_000;

/// xorshift64*: the same steps in every run.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
    /// Up to 62 bits, of any order of magnitude.
    fn wild(&mut self) -> u64 {
        let shift = 2 + self.below(62);
        self.next() >> shift
    }
}

fn params(d: &mut Draw, is_wild: bool) -> Params {
    if is_wild {
        return Params {
            target_bps: d.wild(),
            rtt_min: d.below(3),
            rtt_min_window_ns: d.wild(),
            floor_rtt: d.below(2),
            after_timeout: d.below(2),
            above: d.below(2),
            rise: d.wild(),
            fall: d.wild(),
            tune_rounds: d.wild(),
            tune_limit: d.wild(),
            severe_rounds: d.wild(),
            severe_reductions: d.wild(),
            severe_share: d.wild(),
            reduced_to: d.wild(),
            target_min: d.wild(),
            recover_step: d.wild(),
        };
    }
    let shift = d.below(20);
    let share = |d: &mut Draw| 1 + d.below(1024);
    Params {
        target_bps: 1_000 + (d.below(100_000_000_000) >> shift),
        rtt_min: d.below(3),
        rtt_min_window_ns: 1 + d.below(20_000_000_000),
        floor_rtt: d.below(2),
        after_timeout: d.below(2),
        above: d.below(2),
        rise: share(d),
        fall: share(d),
        tune_rounds: 1 + d.below(64),
        tune_limit: share(d),
        severe_rounds: 1 + d.below(16),
        severe_reductions: d.below(9),
        severe_share: share(d),
        reduced_to: share(d),
        target_min: share(d),
        recover_step: share(d),
    }
}

#[test]
fn the_kernel_and_the_simulator_take_the_same_steps() {
    let missing = Host::read().missing(TRACING, &[Capability::Bpf, Capability::Perfmon]);
    if !missing.is_empty() {
        common::skipped(&missing.join("; "));
        return;
    }
    let loaded = load("step test", objects::STEP, TRACING, &[]).unwrap();
    let map = loaded.map("steps").unwrap();
    let program = loaded.program("run").unwrap();
    let key = 0u32.to_ne_bytes();
    let mut d = Draw(0x5eed);
    let (mut p, mut s, mut w) = (Params::HOST, State::NEW, Window { cwnd: 10, ssthresh: MOST });
    let mut path = Path { now_ns: 0, srtt_ns: 0, min_rtt_ns: UNKNOWN, mss: 1448, cwnd_clamp: MOST };
    let (mut una, mut delivered, mut is_wild) = (0u64, 0u64, false);
    let mut seen = [0u64; 7];
    for step in 0..STEPS {
        if step % 1_000 == 0 {
            // Another connection; every fourth is wild.
            is_wild = step / 1_000 % 4 == 3;
            (p, s, w) = (params(&mut d, is_wild), State::NEW, Window { cwnd: 10, ssthresh: MOST });
            path = Path { now_ns: 0, srtt_ns: 0, min_rtt_ns: UNKNOWN, mss: 1 + d.below(9_000), cwnd_clamp: MOST };
            (una, delivered) = (0, 0);
        }
        let acked = d.below(5);
        let rtt = d.below([1_000_000, 20_000_000, 400_000_000, 5_000_000_000][step as usize / 1_000 % 4]);
        (una, delivered) = (una.wrapping_add(acked.wrapping_mul(path.mss)), delivered.wrapping_add(acked));
        let pause = [1_000, 1_000_000, 50_000_000, 3_000_000_000][d.below(4) as usize];
        path.now_ns = path.now_ns.wrapping_add(d.below(pause));
        path.min_rtt_ns = path.min_rtt_ns.min(rtt);
        path.srtt_ns = path.srtt_ns / 8 * 7 + rtt / 8;
        let mut ack = Ack {
            rtt_ns: if d.below(4) == 0 { UNKNOWN } else { rtt },
            credit: acked,
            delivered,
            cwnd_limited: u64::from(d.below(8) > 0),
            snd_una: una,
            snd_nxt: una.wrapping_add(w.cwnd.min(MOST).wrapping_mul(path.mss)),
        };
        if is_wild {
            path =
                Path { now_ns: d.wild(), srtt_ns: d.wild(), min_rtt_ns: d.wild(), mss: d.wild(), cwnd_clamp: d.wild() };
            ack = Ack {
                rtt_ns: d.wild(),
                credit: d.wild(),
                delivered: d.wild(),
                cwnd_limited: d.below(2),
                snd_una: d.wild(),
                snd_nxt: d.wild(),
            };
            w = Window { cwnd: d.wild(), ssthresh: d.wild() };
        }
        let operation = d.below(40).saturating_sub(33).min(6);
        let lease = Lease { cap: d.below(100), until_ns: d.below(path.now_ns.max(1).saturating_mul(2)) };
        let argument = if operation == 2 { d.below(2) } else { w.cwnd / 2 };

        let state = of_state(&s);
        let mut value: Vec<u64> = of_params(&p).to_vec();
        value.extend(&state);
        value.extend(of_window(&w));
        value.extend(of_path(&path));
        value.extend(of_ack(&ack));
        value.extend([lease.cap, lease.until_ns, operation, argument, 0]);
        put(&map, &key, &value).unwrap();
        assert_eq!(program.test_run(ProgramInput::default()).unwrap().return_value, 0);
        let kernel = get(&map, &key).unwrap().unwrap();

        let mut result = 0;
        match operation {
            0 => {
                let verdict = tcp_av::on_ack(&p, &mut s, &mut w, &path, &ack);
                if verdict == Verdict::UNLIMITED {
                    tcp_av::steer(&mut s, &mut w, &path, &ack);
                }
                result = verdict.0;
            }
            1 => result = tcp_av::ssthresh(&p, &mut s, w.cwnd, &path, argument),
            2 => {
                tcp_av::on_state(&p, &mut s, &mut w, &path, argument);
                result = tcp_av::loss_window(&p, &s, &path);
            }
            3 => tcp_av::on_restart(&mut s),
            4 => tcp_av::on_path_change(&p, &mut s),
            5 => result = held(&lease, path.now_ns, w.cwnd),
            _ => s = State::NEW,
        }
        let mut native: Vec<u64> = of_params(&p).to_vec();
        native.extend(of_state(&s));
        native.extend(of_window(&w));
        native.extend(of_path(&path));
        native.extend(of_ack(&ack));
        native.extend([lease.cap, lease.until_ns, operation, argument, result]);
        assert_eq!(kernel, native, "step {step}, operation {operation}, wild {is_wild}");
        seen[operation as usize] += 1;
        if operation == 1 && !is_wild {
            (w.cwnd, w.ssthresh) = (result.min(MOST), result.min(MOST));
        }
    }
    assert!(seen.iter().all(|&n| n > STEPS / 100), "{seen:?}");
    println!("{STEPS} steps equal");
}
