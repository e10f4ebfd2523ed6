//! The first process of a guest: sets up its network, runs its commands, and writes down how they
//! ended. Woken by the controller, it writes down what the kernel knows of its TCP connections, and
//! runs what somebody asks for.

// The machine's own processes are waited for in the machine's time, and a guest's in its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::SockProtocol;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};

use super::console;
use super::controller::{COMMANDS, CONNECTIONS, WAKE};
use super::files::{
    CommandRequest, ConnectionSnapshot, GUEST_FOLDER, GuestConfig, Input, REQUEST_FILE, TerminalSettings, config_file,
    connections_file, input_file, output_file, ready_file, requests, status_file, write_atomically,
};
use super::guest_time::GuestTime;
use crate::common::diag::{ENDED_GROUPS, ended_connections, open_connections};
use crate::common::net::{Net, rename_device, set_sysctls};
use crate::common::netlink::Netlink;
use crate::common::sys::{ChildSetup, credit_entropy, open_frame_socket, set_terminal_size};

/// Where programs may write.
pub(crate) const TEMP_FOLDER: &str = "/run/tmp";

/// Runs as a guest's first process. It never ends: its end would be the kernel's.
pub(crate) fn run(work: &str, host: &str) -> ExitCode {
    let index = host.parse().unwrap_or(0);
    let done = run_guest(work, index);
    let why = done.err().unwrap_or_default();
    let _ = write_atomically(&Path::new(GUEST_FOLDER).join(ready_file(index)), &format!("error {why}"));
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// The file systems of a guest, and the folder where it finds what is for it.
pub(crate) fn mount_filesystems(work: &str) -> Result<(), String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let tree = |kind: &str, at: &str, data: Option<&str>| {
        mount(Some("none"), at, Some(kind), MsFlags::empty(), data).map_err(|error| format!("mounting {at}: {error}"))
    };
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run")] {
        tree(kind, at, None)?;
    }
    fs::create_dir(GUEST_FOLDER).map_err(failed(GUEST_FOLDER))?;
    tree("hostfs", GUEST_FOLDER, Some(work))?;
    fs::create_dir(TEMP_FOLDER).map_err(failed(TEMP_FOLDER))?;
    let _ = fs::create_dir_all("/dev/shm").map(|()| tree("tmpfs", "/dev/shm", None));
    let _ = fs::create_dir_all("/dev/pts").map(|()| tree("devpts", "/dev/pts", None));
    // Linux 6.1 has no source of entropy here. Later kernels have theirs at boot, and keep it as it
    // is.
    let entropy_bits = fs::read_to_string("/proc/sys/kernel/random/entropy_avail").map_err(failed("/proc"))?;
    if entropy_bits.trim() != "256" {
        credit_entropy().map_err(failed("/dev/random"))?;
    }
    Ok(())
}

fn run_guest(work: &str, index: usize) -> Result<(), String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let none: Option<&str> = None;
    mount_filesystems(work)?;
    let shared = Path::new(GUEST_FOLDER);
    let text = fs::read_to_string(shared.join(config_file(index))).map_err(failed("what it is told"))?;
    let config: GuestConfig = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let _ = nix::unistd::sethostname(&config.host);
    fs::write("/run/hosts", &config.hosts).map_err(failed("/run/hosts"))?;
    mount(Some("/run/hosts"), "/etc/hosts", none, MsFlags::MS_BIND, none).map_err(|e| format!("/etc/hosts: {e}"))?;
    // As systemd sets it.
    let _ = fs::write("/proc/sys/net/core/default_qdisc", "fq_codel");
    let at = config.addresses;
    rename_device("eth0", &config.device).map_err(failed("its device"))?;
    let net = Net::set_up(&config.device, at, config.mtu).map_err(failed("its device"))?;
    let is = set_sysctls(&config.host, &net, at, &config.sysctls)?;
    let is: Vec<String> = is.iter().map(|sysctl| format!("{}={}", sysctl.key, sysctl.value)).collect();
    write_atomically(&shared.join(ready_file(index)), &format!("ready {}", is.join("\n")))
        .map_err(failed("being ready"))?;
    // Before the first child, so that none of them ends unseen.
    let ends = SigSet::from(Signal::SIGCHLD);
    let signals = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ends), None)
        .and_then(|()| SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|error| format!("hearing of processes that end: {error}"))?;
    let sockets = Netlink::open(SockProtocol::NetlinkSockDiag).map_err(failed("asking for sockets"))?;
    let ended =
        Netlink::listen(SockProtocol::NetlinkSockDiag, ENDED_GROUPS).map_err(failed("hearing of sockets that end"))?;
    let wake = open_frame_socket(WAKE).map_err(failed("hearing of the controller"))?;
    std::thread::sleep(time_to_begin());
    let mut guest = RunningGuest {
        config,
        index,
        signals,
        sockets,
        ended,
        wake,
        running: Vec::new(),
        terminals: Vec::new(),
        started: BTreeSet::new(),
    };
    let commands = std::mem::take(&mut guest.config.commands);
    for (command, argv, input) in commands {
        guest.start(command.to_string(), &argv, &guest.config.folder.clone(), &input)?;
    }
    // Commands may have been asked for before there was anybody to wake.
    guest.run_requests()?;
    guest.serve()
}

/// A guest whose network has begun.
struct RunningGuest {
    config: GuestConfig,
    index: usize,
    signals: SignalFd,
    sockets: Netlink,
    ended: Netlink,
    wake: OwnedFd,
    /// Processes, and the commands that they are.
    running: Vec<(i32, String)>,
    /// Terminals of commands.
    terminals: Vec<Pty>,
    /// Commands that were asked for and have been started.
    started: BTreeSet<String>,
}

/// A terminal of a command's: its end that is not the command's.
struct Pty {
    command: String,
    keys: File,
    /// File for the output of the command.
    out: File,
    /// Typed, and not taken yet.
    typed: Vec<u8>,
}

impl Pty {
    /// Passes on what can be; false: nobody has the other end any more.
    fn copy(&mut self) -> bool {
        while !self.typed.is_empty() {
            match self.keys.write(&self.typed) {
                Ok(written) => drop(self.typed.drain(..written)),
                Err(_) => break,
            }
        }
        let mut bytes = [0; 4096];
        loop {
            match self.keys.read(&mut bytes) {
                Ok(0) => return false,
                Ok(read) => {
                    let _ = self.out.write_all(&bytes[..read]);
                }
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}

impl RunningGuest {
    fn start(&mut self, command: String, argv: &[String], folder: &Path, input: &Input) -> Result<(), String> {
        match start(&self.config, &command, argv, folder, input) {
            Ok((pid, terminal)) => {
                self.running.push((pid, command));
                self.terminals.extend(terminal);
            }
            Err(error) => {
                let shared = Path::new(GUEST_FOLDER);
                let why = format!("airtcp: {}: {error}\n", argv.first().map_or("", String::as_str));
                let _ = fs::write(shared.join(output_file(&command)), why);
                write_atomically(&shared.join(status_file(&command)), "127")
                    .map_err(|error| format!("a status: {error}"))?;
            }
        }
        Ok(())
    }

    fn serve(&mut self) -> Result<(), String> {
        loop {
            let mut fds = vec![
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
            ];
            for Pty { keys, typed, .. } in &self.terminals {
                let more = if typed.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
                fds.push(PollFd::new(keys.as_fd(), PollFlags::POLLIN | more));
            }
            if poll(&mut fds, PollTimeout::NONE).is_err() {
                continue;
            }
            while let Ok(Some(_)) = self.signals.read_signal() {}
            // Before it is told that a command has ended: its last words.
            self.terminals.retain_mut(Pty::copy);
            self.reap()?;
            let mut what = 0;
            let mut body = [0; 64];
            while nix::sys::socket::recv(self.wake.as_raw_fd(), &mut body, nix::sys::socket::MsgFlags::empty()).is_ok()
            {
                what |= body[0];
            }
            if what & CONNECTIONS != 0 {
                self.write_connections().map_err(|error| format!("its connections: {error}"))?;
            }
            if what & COMMANDS != 0 {
                self.run_requests()?;
                self.read_keys();
            }
        }
    }

    fn reap(&mut self) -> Result<(), String> {
        loop {
            let (pid, code) = match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, 128 + signal as i32),
                Ok(WaitStatus::StillAlive) | Err(_) => return Ok(()),
                Ok(_) => continue,
            };
            if let Some(index) = self.running.iter().position(|(known, _)| *known == pid.as_raw()) {
                let (_, command) = self.running.remove(index);
                let path = Path::new(GUEST_FOLDER).join(status_file(&command));
                write_atomically(&path, &code.to_string()).map_err(|error| format!("a status: {error}"))?;
            }
        }
    }

    /// Writes down what the kernel knows of its TCP connections.
    fn write_connections(&self) -> io::Result<()> {
        let snapshot = ConnectionSnapshot {
            ns: now().since(GuestTime::BEGIN).as_ns(),
            open: open_connections(&self.sockets)?,
            ended: ended_connections(&self.ended),
        };
        if snapshot.open.is_empty() && snapshot.ended.is_empty() {
            return Ok(());
        }
        let mut line = serde_json::to_vec(&snapshot)?;
        line.push(b'\n');
        let path = Path::new(GUEST_FOLDER).join(connections_file(self.index));
        OpenOptions::new().create(true).append(true).open(path)?.write_all(&line)
    }

    fn read_keys(&mut self) {
        for terminal in &mut self.terminals {
            for batch in console::take_batches(Path::new(GUEST_FOLDER), &terminal.command) {
                terminal.typed.extend_from_slice(&batch.keys);
                if let Some(size) = batch.size {
                    let _ = set_terminal_size(terminal.keys.as_raw_fd(), size);
                }
            }
        }
        self.terminals.retain_mut(Pty::copy);
    }

    fn run_requests(&mut self) -> Result<(), String> {
        let shared = Path::new(GUEST_FOLDER);
        for name in requests(shared) {
            if !self.started.insert(name.clone()) {
                continue;
            }
            let text = fs::read_to_string(shared.join(format!("{}{name}{}", REQUEST_FILE.0, REQUEST_FILE.1)));
            let Some(asked) = text.ok().and_then(|text| serde_json::from_str::<CommandRequest>(&text).ok()) else {
                continue;
            };
            if asked.host == self.index {
                self.start(name, &asked.argv, &asked.folder, &asked.input)?;
            }
        }
        Ok(())
    }
}

/// The time on a guest's clock.
pub(crate) fn now() -> GuestTime {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    GuestTime::from_ns(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// The time that is left to boot.
pub(crate) fn time_to_begin() -> Duration {
    Duration::from_nanos(GuestTime::BEGIN.since(now()).as_ns())
}

fn start(
    config: &GuestConfig,
    command: &str,
    argv: &[String],
    folder: &Path,
    input: &Input,
) -> io::Result<(i32, Option<Pty>)> {
    let Some((program, arguments)) = argv.split_first() else { return Err(io::ErrorKind::NotFound.into()) };
    let shared = Path::new(GUEST_FOLDER);
    let out = OpenOptions::new().create(true).append(true).open(shared.join(output_file(command)))?;
    let mut child = Command::new(program);
    child.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("TMPDIR", TEMP_FOLDER);
    child.args(arguments).envs(config.env.iter().map(|(key, value)| (key, value)));
    let mut terminal = None;
    let mut before = ChildSetup::default();
    match input {
        Input::Nothing => child.stdin(File::open("/dev/null")?).stdout(out.try_clone()?).stderr(out),
        Input::File => child.stdin(File::open(shared.join(input_file(command)))?).stdout(out.try_clone()?).stderr(out),
        Input::Terminal(screen) => {
            let (keys, theirs) = open_terminal(screen)?;
            terminal = Some(Pty { command: command.to_owned(), keys, out, typed: Vec::new() });
            before.begins_session = true;
            child.env("TERM", &screen.term);
            child.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs)
        }
    };
    child.current_dir(if folder.is_dir() { folder } else { Path::new("/") });
    before.apply(&mut child);
    Ok((airtcp_core::convert::signed32(child.spawn()?.id()), terminal))
}

/// A terminal that nobody has yet: the end for keys, which never waits, and the command's.
fn open_terminal(screen: &TerminalSettings) -> io::Result<(File, File)> {
    let ends = openpty(None, None)?;
    for end in [&ends.master, &ends.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    fcntl(&ends.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK | OFlag::O_RDWR))?;
    if let Some(size) = screen.size {
        set_terminal_size(ends.master.as_raw_fd(), size)?;
    }
    Ok((File::from(ends.master), File::from(ends.slave)))
}
