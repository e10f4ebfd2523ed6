//! Other processes as `/proc` shows them. Each is held by a descriptor of its folder, which never
//! comes to mean another process, whatever becomes of the number.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::dir::Dir;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use nix::unistd::{Uid, geteuid, getppid};

use crate::common::stop::Stop;
use crate::common::sys::open_process;

/// Longest file of a process that is read.
const LONGEST: u64 = 64 << 10;

/// A process, whoever owns it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    folder: OwnedFd,
}

/// Fields of `/proc/PID/status`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Status {
    pub(crate) name: String,
    pub(crate) parent: i32,
    /// Real, effective, saved, and that of files, as they are called in the reader's user
    /// namespace.
    pub(crate) users: Vec<u32>,
    /// Capabilities that it has or can take.
    pub(crate) capabilities: u64,
    /// It can gain no rights by exec.
    pub(crate) is_confined: bool,
    /// Mode of seccomp; 0: none.
    pub(crate) seccomp: u32,
    /// Its number in the innermost namespace of processes.
    pub(crate) inner_pid: i32,
}

impl Status {
    fn parse(text: &str) -> Option<Status> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        Some(Status {
            name: field("Name")?.to_owned(),
            parent: field("PPid")?.parse().ok()?,
            users: field("Uid")?.split_whitespace().map(|id| id.parse().ok()).collect::<Option<_>>()?,
            capabilities: u64::from_str_radix(field("CapPrm")?, 16).ok()?,
            is_confined: field("NoNewPrivs").is_some_and(|is| is != "0"),
            seccomp: field("Seccomp").and_then(|mode| mode.parse().ok()).unwrap_or(0),
            inner_pid: field("NSpid")?.split_whitespace().last()?.parse().ok()?,
        })
    }

    /// True if all its user ids are this one. The owner of its files in `/proc` is not enough: root
    /// owns those of a process that cannot be inspected.
    pub(crate) fn is_of(&self, user: Uid) -> bool {
        self.users.len() == 4 && self.users.iter().all(|&id| id == user.as_raw())
    }
}

impl Process {
    pub(crate) fn open(pid: i32) -> io::Result<Process> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = nix::fcntl::open(format!("/proc/{pid}").as_str(), flags, Mode::empty())?;
        Ok(Process { pid, folder })
    }

    /// This one.
    pub(crate) fn own() -> io::Result<Process> {
        Process::open(nix::unistd::getpid().as_raw())
    }

    /// A process, and a descriptor with which its namespaces can be entered: of the same process,
    /// which lives.
    pub(crate) fn open_both(pid: i32) -> io::Result<(Process, OwnedFd)> {
        let entry = open_process(pid)?;
        let process = Process::open(pid)?;
        let mut ended = [PollFd::new(entry.as_fd(), PollFlags::POLLIN)];
        // While it is not reaped nobody else has its number.
        if poll(&mut ended, PollTimeout::ZERO)? > 0 {
            return Err(io::Error::other("it has ended"));
        }
        Ok((process, entry))
    }

    fn file(&self, name: &str, flags: OFlag) -> nix::Result<OwnedFd> {
        openat(&self.folder, name, flags | OFlag::O_CLOEXEC, Mode::empty())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::from(self.file(name, OFlag::O_RDONLY)?).take(LONGEST).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn status(&self) -> io::Result<Status> {
        Status::parse(&String::from_utf8_lossy(&self.read("status")?))
            .ok_or_else(|| io::Error::other("its status is not understood"))
    }

    /// The words of its command line, which are whatever it says.
    pub(crate) fn words(&self) -> Vec<String> {
        let bytes = self.read("cmdline").unwrap_or_default();
        bytes.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// A namespace: `user`, `mnt`, `pid_for_children` ...
    pub(crate) fn namespace(&self, kind: &str) -> io::Result<OwnedFd> {
        Ok(self.file(&format!("ns/{kind}"), OFlag::O_RDONLY)?)
    }

    /// Its program: the file, and how its path ends.
    pub(crate) fn program(&self) -> io::Result<(FileStat, String)> {
        let path = readlinkat(&self.folder, "exe")?.to_string_lossy().into_owned();
        // The kernel adds this to the path of a program that was replaced while it ran.
        let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok((fstatat(&self.folder, "exe", nix::fcntl::AtFlags::empty())?, name))
    }

    /// Its root folder.
    pub(crate) fn root(&self) -> io::Result<OwnedFd> {
        Ok(self.file("root", OFlag::O_PATH | OFlag::O_DIRECTORY)?)
    }

    /// Its descriptors, and what each is called.
    pub(crate) fn descriptors(&self) -> io::Result<Vec<(RawFd, String)>> {
        let mut folder = Dir::from_fd(self.file("fd", OFlag::O_RDONLY | OFlag::O_DIRECTORY)?)?;
        let numbers = folder.iter().flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
        let numbers: Vec<RawFd> = numbers.collect();
        let name = |number: RawFd| readlinkat(&self.folder, format!("fd/{number}").as_str());
        Ok(numbers.into_iter().filter_map(|fd| Some((fd, name(fd).ok()?.to_string_lossy().into_owned()))).collect())
    }

    /// Opens what a descriptor of it stands for: only if that is a regular file or a namespace, so
    /// that nothing happens by opening it.
    pub(crate) fn descriptor(&self, fd: RawFd) -> io::Result<OwnedFd> {
        let path = self.file(&format!("fd/{fd}"), OFlag::O_PATH)?;
        let is_file = SFlag::from_bits_truncate(fstat(&path)?.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        if !is_file {
            return Err(io::Error::other(format!("its descriptor {fd} is neither a file nor a namespace")));
        }
        let again = format!("/proc/self/fd/{}", path.as_raw_fd());
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(nix::fcntl::open(again.as_str(), flags, Mode::empty())?)
    }
}

/// True if a file stands for a namespace.
pub(crate) fn is_namespace(file: &OwnedFd) -> bool {
    fstatfs(file).is_ok_and(|about| about.filesystem_type() == NSFS_MAGIC)
}

/// True if two descriptors are of one file.
pub(crate) fn is_same_open_file(a: impl AsFd, b: impl AsFd) -> bool {
    let (Ok(a), Ok(b)) = (fstat(a), fstat(b)) else { return false };
    is_same_file(&a, &b)
}

/// True if these describe one file.
pub(crate) fn is_same_file(a: &FileStat, b: &FileStat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// This process ends with the one that started it, whatever becomes of that.
pub(crate) fn end_with_parent(parent: i32) -> Result<(), Stop> {
    set_pdeathsig(Signal::SIGKILL).map_err(|error| Stop::failure(error.desc()))?;
    if getppid().as_raw() == parent { Ok(()) } else { Err(Stop::failure("the command airtcp has ended")) }
}

/// This user.
pub(crate) fn current_user() -> Uid {
    geteuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = "Name:\tairtcp-emu\nUmask:\t0022\nPid:\t9\nPPid:\t8\nUid:\t1\t2\t3\t4\nNSpid:\t9\t1\nCapPrm:\t00ff\n\
                    NoNewPrivs:\t1\nSeccomp:\t2\n";
        let status = Status::parse(text).unwrap();
        assert_eq!((status.parent, &status.users[..], status.inner_pid), (8, &[1, 2, 3, 4][..], 1));
        assert_eq!((status.capabilities, status.is_confined, status.seccomp), (0xff, true, 2));
        assert!(Status::parse("Name:\tx\n").is_none());
    }

    #[test]
    fn one_foreign_user_of_four_is_enough() {
        let of = |users: &[u32]| Status { users: users.to_vec(), ..Status::default() }.is_of(Uid::from_raw(7));
        assert!(of(&[7, 7, 7, 7]));
        for users in [[0, 7, 7, 7], [7, 0, 7, 7], [7, 7, 0, 7], [7, 7, 7, 0]] {
            assert!(!of(&users), "{users:?}");
        }
        assert!(!of(&[]));
    }

    #[test]
    fn only_files_and_namespaces_are_opened() {
        let own = Process::own().unwrap();
        let namespace = own.namespace("net").unwrap();
        assert!(is_namespace(&own.descriptor(namespace.as_raw_fd()).unwrap()));
        let (pipe, _end) = nix::unistd::pipe().unwrap();
        assert!(own.descriptor(pipe.as_raw_fd()).unwrap_err().to_string().contains("neither a file nor a namespace"));
        assert!(
            own.descriptors()
                .unwrap()
                .iter()
                .any(|(fd, name)| *fd == namespace.as_raw_fd() && name.starts_with("net:"))
        );
    }

    #[test]
    fn an_ended_process_is_not_taken_for_another() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let process = Process::open(pid).unwrap();
        let entry = open_process(pid).unwrap();
        poll(&mut [PollFd::new(entry.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        assert_eq!(Process::open_both(pid).unwrap_err().to_string(), "it has ended");
        child.wait().unwrap();
        assert!(process.status().is_err());
    }
}
