//! The names under which the C parts call `airtcp_law`. Only `build.sh` compiles this file.

#![no_std]

use airtcp_law::coop::{self, Lease};
use airtcp_law::tcp_av::{self, Ack, Params, Path, State, Window};

#[unsafe(no_mangle)]
extern "C" fn law_new(s: &mut State) {
    *s = State::NEW;
}
#[unsafe(no_mangle)]
extern "C" fn law_on_ack(p: &Params, s: &mut State, w: &mut Window, path: &Path, ack: &Ack) -> u64 {
    tcp_av::on_ack(p, s, w, path, ack).0
}
#[unsafe(no_mangle)]
extern "C" fn law_steer(s: &mut State, w: &mut Window, path: &Path, ack: &Ack) {
    tcp_av::steer(s, w, path, ack);
}
#[unsafe(no_mangle)]
extern "C" fn law_ssthresh(p: &Params, s: &mut State, cwnd: u64, path: &Path, base: u64) -> u64 {
    tcp_av::ssthresh(p, s, cwnd, path, base)
}
#[unsafe(no_mangle)]
extern "C" fn law_on_state(p: &Params, s: &mut State, w: &mut Window, path: &Path, is_loss: u64) {
    tcp_av::on_state(p, s, w, path, is_loss);
}
#[unsafe(no_mangle)]
extern "C" fn law_loss_window(p: &Params, s: &State, path: &Path) -> u64 {
    tcp_av::loss_window(p, s, path)
}
#[unsafe(no_mangle)]
extern "C" fn law_on_restart(s: &mut State) {
    tcp_av::on_restart(s);
}
#[unsafe(no_mangle)]
extern "C" fn law_on_path_change(p: &Params, s: &mut State) {
    tcp_av::on_path_change(p, s);
}
#[unsafe(no_mangle)]
extern "C" fn law_held(lease: &Lease, now_ns: u64, cwnd: u64) -> u64 {
    coop::held(lease, now_ns, cwnd)
}
