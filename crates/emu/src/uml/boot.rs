//! Starts guests: kernels as processes, in a process namespace of their own whose first process
//! starts them. When that ends, and it ends with the controller, the system kills every process of
//! every guest.

// The machine's own processes are waited for in the machine's time, and a guest's in its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use airtcp_core::convert::signed32;
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::personality::{self, Persona};
use nix::sys::wait::wait;
use serde::{Deserialize, Serialize};

use super::shared_folder::SharedFolder;
use super::{files, sandbox};
use crate::common::output::to_stderr;
use crate::common::sys::{ChildSetup, inherited};

/// A guest to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kernel {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Its random numbers follow from it.
    pub(crate) seed: u64,
}

/// A guest's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Card {
    /// A network card.
    Net,
    /// A radio of `mac80211_hwsim`.
    Radio {
        /// The kernel makes it when it boots; otherwise its script does.
        from_boot: bool,
        /// Spatial streams.
        streams: u8,
    },
}

/// The arguments of a guest's kernel. `host` is its index; files of this run are in `work`.
pub(crate) fn arguments(work: &Path, host: usize, memory: &str, init: &Path, card: Card) -> Vec<String> {
    let (time, net) = sockets(work, host);
    let (device, role, radios) = match card {
        Card::Net => (1, "guest", "0".to_owned()),
        // Streams that its radio has not are none that minstrel_ht tests (patch 9).
        Card::Radio { from_boot, streams } => {
            (29, "lab-guest", format!("{} mac80211_hwsim.streams={streams}", u8::from(from_boot)))
        }
    };
    let words = [
        format!("mem={memory}"),
        format!("time-travel=ext:{host}:{}", time.display()),
        format!("virtio_uml.device={}:{device}", net.display()),
        "root=/dev/root rootfstype=hostfs hostfs=/ ro".to_owned(),
        format!("init={}", init.display()),
        format!("uml_dir={}/ umid=host{host}", work.display()),
        format!("con=null con0=null,fd:1 panic=-1 loglevel=4 random.trust_cpu=off mac80211_hwsim.radios={radios}"),
        format!("-- {role} {} {host}", work.display()),
    ];
    words.iter().flat_map(|words| words.split(' ')).map(str::to_owned).collect()
}

fn sockets(work: &Path, host: usize) -> (PathBuf, PathBuf) {
    (work.join(format!("{host}.time")), work.join(format!("{host}.net")))
}

/// Guests under way.
pub(crate) struct Running {
    init: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
    }
}

/// How long kernels have to connect.
const CONNECT: Duration = Duration::from_secs(60);

/// Starts guests, and waits until their clocks have connected.
pub(crate) fn begin(
    work: &SharedFolder,
    kernels: &[Kernel],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(Running, Vec<UnixStream>, Vec<UnixListener>), String> {
    let failed = |error: std::io::Error| format!("starting the guests: {error}");
    let mut times = Vec::new();
    let mut nets = Vec::new();
    for host in 0..kernels.len() {
        let (time, net) = sockets(work.path(), host);
        let listener = UnixListener::bind(time).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        times.push(listener);
        nets.push(UnixListener::bind(net).map_err(failed)?);
    }
    let mut text = File::from(memfd_create("airtcp-guests", MFdFlags::MFD_CLOEXEC).map_err(|e| failed(e.into()))?);
    text.write_all(&serde_json::to_vec(kernels).map_err(|e| failed(e.into()))?).map_err(failed)?;
    std::io::Seek::rewind(&mut text).map_err(failed)?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(|error| failed(error.into()))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("guests").arg(text.as_raw_fd().to_string()).arg(work.path());
    let dies_with = Some(signed32(std::process::id()));
    ChildSetup { dies_with, keeps: vec![text.as_raw_fd()], ..ChildSetup::default() }.apply(&mut command);
    let mut running = Running { init: command.spawn().map_err(failed)? };
    let begun = Instant::now();
    let mut clocks = Vec::new();
    for (index, (listener, kernel)) in times.iter().zip(kernels).enumerate() {
        loop {
            match listener.accept() {
                Ok((clock, _)) => {
                    clock.set_nonblocking(false).map_err(failed)?;
                    clocks.push(clock);
                    break;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let has_ended = running.init.try_wait().map_err(failed)?.is_some();
                    if has_ended || begun.elapsed() > CONNECT {
                        let last = work.last_lines(&files::log_file(index), 5).join("\n");
                        return Err(format!("the kernel {} did not start:\n{last}", kernel.program.display()));
                    }
                    if interrupted() {
                        return Err("interrupted before the guests had started".to_owned());
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok((running, clocks, nets))
}

/// The first process of the guests' namespace: starts them, and stays until all have ended.
pub(crate) fn init(config: RawFd, work: &str) -> ExitCode {
    let mut json = String::new();
    let kernels = inherited(config)
        .and_then(|fd| File::from(fd).read_to_string(&mut json))
        .and_then(|_| Ok(serde_json::from_str::<Vec<Kernel>>(&json)?))
        .map_err(|error| error.to_string());
    let started = kernels.and_then(|kernels| {
        let programs: Vec<&Path> = kernels.iter().map(|kernel| kernel.program.as_path()).collect();
        sandbox::enter(Path::new(work), &programs)?;
        start(Path::new(work), &kernels).map_err(|error| error.to_string())
    });
    if let Err(error) = started {
        to_stderr(format_args!("error: starting the guests: {error}"));
        return ExitCode::FAILURE;
    }
    while wait().is_ok() {}
    ExitCode::SUCCESS
}

fn start(work: &Path, kernels: &[Kernel]) -> std::io::Result<()> {
    // Where things lie in memory would decide how much of it a guest has.
    personality::set(personality::get()? | Persona::ADDR_NO_RANDOMIZE)?;
    // Before the first guest can put anything in their place.
    let logs = (0..kernels.len())
        .map(|index| File::create_new(work.join(files::log_file(index))))
        .collect::<Result<Vec<_>, _>>()?;
    for (kernel, log) in kernels.iter().zip(logs) {
        let mut command = Command::new(&kernel.program);
        command.args(&kernel.arguments).env_clear().env("UML_SEED", kernel.seed.to_string());
        command.env("TMPDIR", sandbox::MEMORY).env("HOME", work).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        // A kernel that fails ends its process group.
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        command.spawn()?;
    }
    Ok(())
}
