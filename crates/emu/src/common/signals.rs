//! Signals that a process hears of by a descriptor, in place of ending by them.

use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// With which a process is asked to end.
pub(crate) const ENDS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Those of [`ENDS`] and these `more` no longer do what they did: they wait in the descriptor,
/// which can be polled and never waits itself.
pub(crate) fn signal_fd(more: &[Signal]) -> nix::Result<SignalFd> {
    let set: SigSet = ENDS.iter().chain(more).copied().collect();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None)?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_waits_in_the_descriptor() {
        let signals = signal_fd(&[Signal::SIGWINCH]).unwrap();
        assert!(signals.read_signal().unwrap().is_none());
        // To this thread: others of the tests do not block it.
        nix::sys::signal::raise(Signal::SIGTERM).unwrap();
        let came = signals.read_signal().unwrap().unwrap();
        assert_eq!(came.ssi_signo, Signal::SIGTERM as u32);
    }
}
