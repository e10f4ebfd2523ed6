//! The first process of the programs' own process namespace. It starts the commands, takes in
//! whoever is orphaned, and tells how each command ended. When it ends, and it ends with the
//! driver, the kernel kills everything in the namespace.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use airtcp_core::convert::signed32;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::common::output::to_stderr;
use crate::common::signals;
use crate::common::sys::{ChildSetup, Processors, inherited, pin_to};

/// Orders of the driver to init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitConfig {
    /// In this order they start, and by their index they are reported.
    pub(crate) commands: Vec<Program>,
    /// Text of `/etc/hosts`.
    pub(crate) hosts: String,
    /// Text of `/etc/resolv.conf`.
    pub(crate) resolv: String,
    /// Bytes are orders ([`ORDER_START`], [`ORDER_END`]); its end is the driver's.
    pub(crate) orders: RawFd,
    /// A line `PLACE STATUS` for each command that has ended, and [`OUTPUT_LOST`] with the reason.
    pub(crate) reports: RawFd,
}

/// A program on a host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) host: String,
    /// Descriptor of the host's network namespace.
    pub(crate) namespace: RawFd,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// It has the terminal, or whatever airtcp was started with. Others read nothing, and each line
    /// of theirs says whose it is.
    pub(crate) in_front: bool,
}

/// In place of a command in a report: its output could not be written.
pub(crate) const OUTPUT_LOST: &str = "output";
/// The order to start the programs.
pub(crate) const ORDER_START: u8 = b'G';
/// The order to end all programs.
pub(crate) const ORDER_END: u8 = b'E';
/// Longest line of a program that is kept together.
const MAX_LINE_BYTES: usize = 8192;
/// The most that a pipe holds, unless somebody has made it larger.
const PIPE_BYTES: usize = 64 * 1024;

/// Runs as init until the driver ends.
pub(crate) fn run(config: RawFd) -> ExitCode {
    match start(config) {
        Ok(mut init) => {
            init.serve();
            ExitCode::SUCCESS
        }
        Err(error) => {
            if !error.is_empty() {
                to_stderr(format_args!("error: starting the programs: {error}"));
            }
            ExitCode::FAILURE
        }
    }
}

struct Init {
    orders: OwnedFd,
    reports: File,
    children: Vec<Option<Pid>>,
    outputs: Vec<Output>,
    signals: SignalFd,
}

/// Output of a program, line by line.
struct Output {
    /// The program, by its index.
    index: usize,
    host: String,
    from: File,
    line: Vec<u8>,
    /// For one report that it is lost.
    reports: Option<File>,
}

fn start(config: RawFd) -> Result<Init, String> {
    let text = |error: io::Error| error.to_string();
    let mut json = String::new();
    File::from(inherited(config).map_err(text)?).read_to_string(&mut json).map_err(text)?;
    let config: InitConfig = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    let orders = inherited(config.orders).map_err(text)?;
    let reports = File::from(inherited(config.reports).map_err(text)?);
    // Before the first child, so that none of them ends unseen.
    let signals = signals::signal_fd(&[Signal::SIGCHLD, Signal::SIGQUIT]).map_err(|error| error.to_string())?;
    // Programs get none of them: each enters its own host's, and is in no other.
    let namespaces: BTreeSet<RawFd> = config.commands.iter().map(|program| program.namespace).collect();
    let _namespaces: Vec<OwnedFd> = namespaces.into_iter().map(inherited).collect::<Result<_, _>>().map_err(text)?;
    own_files(&config)?;
    // The machine's network is nobody's way out: whoever takes over this process finds an empty
    // one.
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network namespace: {}", error.desc()))?;
    let mut order = [0];
    if nix::unistd::read(&orders, &mut order) != Ok(1) || order[0] != ORDER_START {
        // Nobody is left to start them for; whoever ended has said why.
        return Err(String::new());
    }
    // Where it is refused they may be anywhere, and the verdict says what came of it.
    let _ = pin_to(Processors::Others);
    let mut init = Init { orders, reports, children: Vec::new(), outputs: Vec::new(), signals };
    for (index, program) in config.commands.iter().enumerate() {
        let child = init.spawn(index, program).map_err(|error| {
            let argv = program.argv.join(" ");
            to_stderr(format_args!("error: host {:?}: cannot run {argv:?}: {error}", program.host));
        });
        init.children.push(child.ok());
        if init.children[index].is_none() {
            init.report(index, 127);
        }
    }
    Ok(init)
}

/// Gives this process files of its own where programs look for names, and a `/proc` of its own
/// processes.
fn own_files(config: &InitConfig) -> Result<(), String> {
    let nowhere = None::<&Path>;
    let failed = |what: &str, error: Errno| format!("{what}: {}", error.desc());
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| failed("a mount namespace", error))?;
    // Mounts made inside stay inside; those made outside later are seen.
    mount(nowhere, "/", nowhere, MsFlags::MS_REC | MsFlags::MS_SLAVE, nowhere)
        .map_err(|error| failed("the mount namespace", error))?;
    // A place to write that no program uses, until the new /proc covers it.
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let room = format!("size={},mode=755", 2 * (config.hosts.len() + config.resolv.len()) + (1 << 20));
    mount(Some("tmpfs"), "/proc", Some("tmpfs"), plain, Some(room.as_str()))
        .map_err(|error| failed("a place for /etc/hosts", error))?;
    for (name, text) in [("hosts", &config.hosts), ("resolv.conf", &config.resolv)] {
        let (from, to) = (format!("/proc/{name}"), format!("/etc/{name}"));
        let put = fs::write(&from, text).and_then(|()| {
            mount(Some(from.as_str()), to.as_str(), nowhere, MsFlags::MS_BIND, nowhere).map_err(io::Error::from)
        });
        if let Err(error) = put {
            to_stderr(format_args!("note: {to} stays the machine's, so names of hosts may be unknown inside: {error}"));
        }
    }
    umount2("/proc", MntFlags::MNT_DETACH).map_err(|error| failed("/proc", error))?;
    if let Err(error) = mount(Some("proc"), "/proc", Some("proc"), plain, nowhere) {
        to_stderr(format_args!("note: /proc stays the machine's, so `ps` shows other processes: {}", error.desc()));
    }
    Ok(())
}

impl Init {
    fn spawn(&mut self, index: usize, program: &Program) -> io::Result<Pid> {
        let [name, arguments @ ..] = program.argv.as_slice() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is empty"));
        };
        let mut command = Command::new(name);
        command.args(arguments).envs(program.env.iter().map(|(key, value)| (key, value)));
        let mut setup =
            ChildSetup { net: Some(program.namespace), host: Some(program.host.clone()), ..ChildSetup::default() };
        if program.in_front {
            if nix::unistd::isatty(io::stdin()).unwrap_or(false) {
                setup.leads_group = true;
                setup.terminal = Some(io::stdin().as_raw_fd());
            }
        } else {
            setup.leads_group = true;
            let reports = Some(self.reports.try_clone()?);
            let (from, to) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
            // Only this end does not wait. The program waits when it writes faster than the pipe is
            // read.
            nix::fcntl::fcntl(&from, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            command.stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to);
            self.outputs.push(Output {
                index,
                host: program.host.clone(),
                from: from.into(),
                line: Vec::new(),
                reports,
            });
        }
        setup.apply(&mut command);
        let child = command.spawn()?;
        Ok(Pid::from_raw(signed32(child.id())))
    }

    fn report(&mut self, index: usize, status: i32) {
        // Without a driver there is nobody to tell, and the next poll ends this process.
        let _ = writeln!(self.reports, "{index} {status}");
    }

    fn serve(&mut self) {
        loop {
            let mut fds = vec![
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.orders.as_fd(), PollFlags::POLLIN),
            ];
            fds.extend(self.outputs.iter().map(|output| PollFd::new(output.from.as_fd(), PollFlags::POLLIN)));
            if poll(&mut fds, PollTimeout::NONE).is_err() {
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
            let mut index = 0;
            self.outputs.retain_mut(|output| {
                index += 1;
                !ready[index + 1] || output.copy() != CopyResult::Last
            });
            if ready[0] {
                while let Ok(Some(_)) = self.signals.read_signal() {}
                self.reap();
            }
            if ready[1] {
                let mut order = [0];
                match nix::unistd::read(&self.orders, &mut order) {
                    Ok(1) if order[0] == ORDER_END => end_all(),
                    Ok(1) | Err(Errno::EINTR) => {}
                    _ => return,
                }
            }
        }
    }

    fn reap(&mut self) {
        loop {
            let (child, status) = match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(child, status)) => (child, status),
                Ok(WaitStatus::Signaled(child, signal, _)) => (child, 128 + signal as i32),
                Ok(WaitStatus::Stopped(child, _)) => {
                    // Nobody could wake it: it goes on. Programs of a shell are the shell's to
                    // wake, and not ours to wait for.
                    let _ = kill(child, Signal::SIGCONT);
                    continue;
                }
                _ => return,
            };
            if let Some(index) = self.children.iter().position(|&known| known == Some(child)) {
                self.children[index] = None;
                // The network may end with this report: first what the program wrote last.
                self.outputs.retain_mut(|output| output.index != index || output.copy_the_rest());
                self.report(index, status);
            }
        }
    }
}

/// Asks everything in the namespace to end. The driver kills what does not.
fn end_all() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCONT] {
        let _ = kill(Pid::from_raw(-1), signal);
    }
}

/// Result of a look into a program's pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyResult {
    Some,
    /// It is empty now.
    Nothing,
    /// Nobody will write any more.
    Last,
}

impl Output {
    /// Copies what the program has left in its pipe; false: nothing will come any more.
    fn copy_the_rest(&mut self) -> bool {
        // Children of the program may go on writing: no more is read than a pipe can hold.
        for _ in 0..PIPE_BYTES / MAX_LINE_BYTES {
            match self.copy() {
                CopyResult::Some => {}
                CopyResult::Nothing => break,
                CopyResult::Last => return false,
            }
        }
        if !self.line.is_empty() {
            self.put();
        }
        true
    }

    /// Copies a part of what is there to standard output.
    fn copy(&mut self) -> CopyResult {
        let mut bytes = [0; MAX_LINE_BYTES];
        let read = match self.from.read(&mut bytes) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return CopyResult::Some,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return CopyResult::Nothing,
            Err(_) => 0,
        };
        if read == 0 {
            if !self.line.is_empty() {
                self.put();
            }
            return CopyResult::Last;
        }
        for &byte in bytes.get(..read).unwrap_or(&[]) {
            if byte != b'\n' {
                self.line.push(byte);
            }
            if byte == b'\n' || self.line.len() >= MAX_LINE_BYTES {
                self.put();
            }
        }
        CopyResult::Some
    }

    fn put(&mut self) {
        let mut line = format!("{}: ", self.host).into_bytes();
        line.append(&mut self.line);
        line.push(b'\n');
        // It ends neither the program nor the run.
        let mut out = io::stdout().lock();
        let written = out.write_all(&line).and_then(|()| out.flush());
        drop(out);
        // Who reads no more knows it.
        if let Some(error) = written.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            if let Some(mut reports) = self.reports.take() {
                let _ = writeln!(reports, "{OUTPUT_LOST} {error}");
            }
        }
    }
}
