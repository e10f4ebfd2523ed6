//! The clock, the process's weight, and what the scheduler made of it.

use std::fs;
use std::io;
use std::os::fd::RawFd;

/// CLOCK_MONOTONIC, nanoseconds: what Python's `time.monotonic_ns` reads too.
pub fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec; CLOCK_MONOTONIC always exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

pub fn os_error(what: &str) -> String {
    format!("{what}: {}", io::Error::last_os_error())
}

/// Part of its weight that the scheduler granted, for the record.
pub struct Weight {
    pub nice: bool,
    pub autogroup: bool,
    pub slice: bool,
}

/// A short slice has an early deadline: who wakes with one runs before what is running (EEVDF,
/// since Linux 6.12).
const SLICE_NS: u64 = 100_000;

/// More weight than others have, as far as the kernel grants it; no real-time priority, which would
/// starve whoever has to run for the results to be right. A session of its own, since the kernel
/// shares the processors between the autogroups of sessions first (`sched_autogroup_enabled`), and
/// nice counts only within one.
pub fn ask_for_weight() -> Weight {
    // SAFETY: an all-zero sched_attr is a valid value of that C structure.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    attr.size = size_of::<libc::sched_attr>() as u32;
    attr.sched_nice = -20;
    attr.sched_runtime = SLICE_NS;
    // SAFETY: plain system calls with valid arguments; `attr` outlives its call.
    let (nice, slice) = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE);
        libc::setsid();
        let nice = libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0;
        (nice, libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) == 0)
    };
    Weight { nice, autogroup: fs::write("/proc/self/autogroup", "-20").is_ok(), slice }
}

/// A real-time priority for a thread that sleeps most of the time, and only as long as it does: at
/// such a priority a loop that never sleeps takes the processor from whoever has to run for the
/// results to be right.
pub struct RealTime {
    held: bool,
    /// Figures of the second that is being watched.
    since_ns: u64,
    slept_ns: u64,
    /// How often the priority was given back.
    pub given_back: u64,
}

/// Part of a second that a thread of real-time priority must sleep.
const LEAST_SLEEP: f64 = 0.3;

fn schedule(policy: i32, priority: i32) -> bool {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: a plain system call with a valid argument.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) == 0 }
}

impl RealTime {
    /// `wanted`: ask for it.
    pub fn new(wanted: bool, now: u64) -> RealTime {
        RealTime { held: wanted && schedule(libc::SCHED_FIFO, 1), since_ns: now, slept_ns: 0, given_back: 0 }
    }

    pub fn held(&self) -> bool {
        self.held
    }

    /// The thread has slept from `from` to `to`. Gives the priority back, for good, if it sleeps
    /// too little.
    pub fn slept(&mut self, from: u64, to: u64) {
        self.slept_ns += to - from;
        if self.held && self.is_too_busy(to) {
            self.held = !schedule(libc::SCHED_OTHER, 0);
            self.given_back += 1;
        }
    }

    /// At the end of each second: whether it was spent awake.
    fn is_too_busy(&mut self, now: u64) -> bool {
        let passed = now - self.since_ns;
        if passed < 1_000_000_000 {
            return false;
        }
        let slept = self.slept_ns as f64 / passed as f64;
        (self.since_ns, self.slept_ns) = (now, 0);
        slept < LEAST_SLEEP
    }
}

/// Sleeps until a descriptor is readable or the time has come.
pub fn wait(fds: &mut [libc::pollfd], until: u64) -> Result<(), String> {
    let left = until.saturating_sub(now_ns());
    let timeout = libc::timespec { tv_sec: (left / 1_000_000_000) as _, tv_nsec: (left % 1_000_000_000) as _ };
    // SAFETY: the slice is valid for its length, the mask pointer may be null.
    let n = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &timeout, std::ptr::null()) };
    if n < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        return Err(os_error("ppoll"));
    }
    Ok(())
}

pub fn pollfd(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// How long this thread has been ready to run and was not run, in all: the second figure of
/// /proc/thread-self/schedstat.
pub struct RunDelay {
    file: fs::File,
    before_ns: u64,
}

impl RunDelay {
    pub fn open() -> Result<RunDelay, String> {
        let path = "/proc/thread-self/schedstat";
        let file = fs::File::open(path).map_err(|e| format!("{path}: {e}"))?;
        let mut delay = RunDelay { file, before_ns: 0 };
        delay.since()?;
        Ok(delay)
    }

    /// Time that has come on top since the last call. Whatever became readable meanwhile waited
    /// that long at most.
    pub fn since(&mut self) -> Result<u64, String> {
        use std::os::unix::fs::FileExt;
        let mut text = [0u8; 64];
        let n = self.file.read_at(&mut text, 0).map_err(|e| format!("schedstat: {e}"))?;
        let all = parse_schedstat(&text[..n])?;
        let since = all.saturating_sub(self.before_ns);
        self.before_ns = all;
        Ok(since)
    }
}

fn parse_schedstat(text: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(text).map_err(|e| format!("schedstat: {e}"))?;
    let delay = text.split_whitespace().nth(1).and_then(|w| w.parse().ok());
    delay.ok_or_else(|| format!("schedstat {text:?}: the second word is no number; the kernel needs CONFIG_SCHED_INFO"))
}

/// How late something was, of all cases.
#[derive(Default)]
pub struct Lateness {
    n: u64,
    sum_ns: u64,
    max_ns: u64,
    over_200us: u64,
    over_1ms: u64,
    over_5ms: u64,
}

impl Lateness {
    pub fn add(&mut self, ns: u64) {
        self.n += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        self.over_200us += u64::from(ns > 200_000);
        self.over_1ms += u64::from(ns > 1_000_000);
        self.over_5ms += u64::from(ns > 5_000_000);
    }

    pub fn json(&self) -> String {
        format!(
            "{{\"n\":{},\"mean_us\":{:.1},\"max_us\":{:.1},\"over_200us\":{},\"over_1ms\":{},\"over_5ms\":{}}}",
            self.n,
            self.sum_ns as f64 / self.n.max(1) as f64 / 1e3,
            self.max_ns as f64 / 1e3,
            self.over_200us,
            self.over_1ms,
            self.over_5ms,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_processor_is_the_second_word() {
        assert_eq!(parse_schedstat(b"123 456 7\n"), Ok(456));
        assert!(parse_schedstat(b"123").unwrap_err().contains("CONFIG_SCHED_INFO"));
    }

    #[test]
    fn who_hardly_sleeps_is_too_busy_and_each_second_is_judged_by_itself() {
        let second = 1_000_000_000;
        let mut r = RealTime { held: false, since_ns: 0, slept_ns: 0, given_back: 0 };
        r.slept(0, second / 2);
        assert!(!r.is_too_busy(second / 2), "not yet a second");
        assert!(!r.is_too_busy(second));
        r.slept(second, second + 200_000_000);
        assert!(r.is_too_busy(2 * second));
        r.slept(2 * second, 2 * second + 400_000_000);
        assert!(!r.is_too_busy(3 * second));
        assert_eq!(r.given_back, 0, "what is not held is not given back");
    }

    #[test]
    fn lateness_is_counted_by_size() {
        let mut late = Lateness::default();
        [100, 250_000, 1_500_000, 6_000_000].into_iter().for_each(|ns| late.add(ns));
        assert_eq!(
            late.json(),
            "{\"n\":4,\"mean_us\":1937.5,\"max_us\":6000.0,\"over_200us\":3,\"over_1ms\":2,\"over_5ms\":1}"
        );
    }
}
