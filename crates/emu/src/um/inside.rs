//! The first process of a guest: sets up its network, runs its commands, and writes down how they ended.

// The machine's own processes are waited for in the machine's time, and a guest's in its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::boot::SHARED;
use super::controller::BOOT;
use crate::net::{Addresses, Net, Sysctl, be_device, set_sysctls};

/// What a guest is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Inside {
    pub(crate) host: String,
    pub(crate) device: String,
    pub(crate) addresses: Addresses,
    pub(crate) mtu: u16,
    pub(crate) sysctls: Vec<Sysctl>,
    /// Text of `/etc/hosts`.
    pub(crate) hosts: String,
    pub(crate) env: Vec<(String, String)>,
    /// By their place among all commands.
    pub(crate) commands: Vec<(usize, Vec<String>)>,
    /// Where commands start.
    pub(crate) folder: PathBuf,
}

/// Where programs may write.
const TEMPORARY: &str = "/run/tmp";

/// The file that a guest is told by.
pub(crate) fn told(host: usize) -> String {
    format!("{host}.json")
}

/// What it found when it had set up its network, or why it could not.
pub(crate) fn ready(host: usize) -> String {
    format!("{host}.ready")
}

/// What a command wrote.
pub(crate) fn output(command: usize) -> String {
    format!("command{command}.out")
}

/// How it ended.
pub(crate) fn status(command: usize) -> String {
    format!("command{command}.status")
}

/// Runs as a guest's first process. It never ends: its end would be the kernel's.
pub(crate) fn run(work: &str, host: &str) -> ExitCode {
    let place = host.parse().unwrap_or(0);
    let done = live(work, place);
    let why = done.err().unwrap_or_default();
    let _ = write_whole(&Path::new(SHARED).join(ready(place)), &format!("error {why}"));
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, text)?;
    fs::rename(part, path)
}

fn live(work: &str, place: usize) -> Result<(), String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let none: Option<&str> = None;
    let tree = |kind: &str, at: &str, data: Option<&str>| {
        mount(Some("none"), at, Some(kind), MsFlags::empty(), data).map_err(|error| format!("mounting {at}: {error}"))
    };
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run")] {
        tree(kind, at, None)?;
    }
    fs::create_dir(SHARED).map_err(failed(SHARED))?;
    tree("hostfs", SHARED, Some(work))?;
    fs::create_dir(TEMPORARY).map_err(failed(TEMPORARY))?;
    let _ = fs::create_dir_all("/dev/shm").map(|()| tree("tmpfs", "/dev/shm", None));
    let _ = fs::create_dir_all("/dev/pts").map(|()| tree("devpts", "/dev/pts", None));
    let shared = Path::new(SHARED);
    let text = fs::read_to_string(shared.join(told(place))).map_err(failed("what it is told"))?;
    let inside: Inside = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let _ = nix::unistd::sethostname(&inside.host);
    fs::write("/run/hosts", &inside.hosts).map_err(failed("/run/hosts"))?;
    mount(Some("/run/hosts"), "/etc/hosts", none, MsFlags::MS_BIND, none).map_err(|e| format!("/etc/hosts: {e}"))?;
    // As systemd sets it.
    let _ = fs::write("/proc/sys/net/core/default_qdisc", "fq_codel");
    let at = inside.addresses;
    be_device("eth0", &inside.device).map_err(failed("its device"))?;
    let net = Net::set_up(&inside.device, at, inside.mtu).map_err(failed("its device"))?;
    let is = set_sysctls(&inside.host, &net, at, &inside.sysctls)?;
    let is: Vec<String> = is.iter().map(|sysctl| format!("{}={}", sysctl.key, sysctl.value)).collect();
    write_whole(&shared.join(ready(place)), &format!("ready {}", is.join("\n"))).map_err(failed("being ready"))?;
    std::thread::sleep(until_begin());
    let mut running = Vec::new();
    for (command, argv) in &inside.commands {
        match start(&inside, *command, argv) {
            Ok(pid) => running.push((pid, *command)),
            Err(error) => {
                let why = format!("airtcp: {}: {error}\n", argv.first().map_or("", String::as_str));
                let _ = fs::write(shared.join(output(*command)), why);
                write_whole(&shared.join(status(*command)), "127").map_err(failed("a status"))?;
            }
        }
    }
    loop {
        match waitpid(None, Some(WaitPidFlag::__WALL)) {
            Ok(ended @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => {
                let (pid, code) = match ended {
                    WaitStatus::Exited(pid, code) => (pid, code),
                    WaitStatus::Signaled(pid, signal, _) => (pid, 128 + signal as i32),
                    _ => continue,
                };
                if let Some((_, command)) = running.iter().find(|(known, _)| *known == pid.as_raw()) {
                    write_whole(&shared.join(status(*command)), &code.to_string()).map_err(failed("a status"))?;
                }
            }
            Ok(_) => {}
            // No child is left.
            Err(_) => std::thread::sleep(Duration::from_secs(3600)),
        }
    }
}

/// What is left of the time to boot.
fn until_begin() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    Duration::from_nanos(BOOT.as_ns()).saturating_sub(now)
}

fn start(inside: &Inside, command: usize, argv: &[String]) -> io::Result<i32> {
    let Some((program, arguments)) = argv.split_first() else { return Err(io::ErrorKind::NotFound.into()) };
    let path = Path::new(SHARED).join(output(command));
    let out = OpenOptions::new().create(true).append(true).open(path)?;
    let mut child = Command::new(program);
    child.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("TMPDIR", TEMPORARY);
    child.args(arguments).envs(inside.env.iter().map(|(key, value)| (key, value)));
    child.stdin(File::open("/dev/null")?).stdout(out.try_clone()?).stderr(Stdio::from(out));
    child.current_dir(if inside.folder.is_dir() { inside.folder.as_path() } else { Path::new("/") });
    Ok(airtcp_core::convert::signed32(child.spawn()?.id()))
}
