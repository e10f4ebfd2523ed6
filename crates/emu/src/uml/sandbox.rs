//! Where guests run. Their kernels are programs, and root of a guest is whoever the program is: it
//! can mount the machine's files anew, and write them. So a guest's process has the machine's files
//! read-only, no network, no devices but those that hold nothing, sees no processes but the
//! guests', and has no capabilities.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::common::sys::{keep_capabilities, set_mount};

/// Devices of `/dev` that a guest's program needs.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Where a guest's kernel keeps its memory.
pub(super) const MEMORY: &str = "/dev/shm";
/// CAP_DAC_READ_SEARCH: root reads all files, as it does without kernels in between.
const READS: u64 = 1 << 2;

/// Puts this process, and all that it starts, into it. They may write in `work`, and in memory of
/// their own. It must be the first process of its process namespace, and be root there or of its
/// user namespace.
///
/// # Errors
/// A sentence about what the machine does not allow.
pub(super) fn enter(work: &Path, programs: &[&Path]) -> Result<(), String> {
    let failed = |what: &'static str| move |error: io::Error| format!("a place for guests: {what}: {error}");
    let none: Option<&str> = None;
    let kinds = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC;
    unshare(kinds).map_err(|error| failed("namespaces")(error.into()))?;
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    devices().map_err(failed("/dev"))?;
    // Sockets of the machine's services are there; guests have a folder of their own in its place.
    if Path::new("/run").is_dir() && !programs.iter().any(|program| program.starts_with("/run")) {
        memory("/run", plain, "size=4k,mode=755").map_err(failed("/run"))?;
    }
    // A container may forbid it. The older one shows processes, of which none can be entered
    // without capabilities.
    let _ = mount(Some("proc"), "/proc", Some("proc"), plain | MsFlags::MS_NOEXEC, none);
    let path =
        |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|error| failed("its name")(error.into()));
    match set_mount(c"/", true, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID, 0) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            return Err("guests need Linux 5.12 or newer, where a process can have all files read-only".to_owned());
        }
        Err(error) => return Err(failed("read-only files")(error)),
    }
    for folder in [work, Path::new(MEMORY)] {
        set_mount(&path(folder)?, false, 0, libc::MOUNT_ATTR_RDONLY).map_err(failed("a folder to write in"))?;
    }
    keep_capabilities(READS).map_err(failed("capabilities"))
}

/// A `/dev` with little in it.
fn devices() -> io::Result<()> {
    let open = |name| {
        let own = fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(Path::new("/dev").join(name));
        own.map(|file| (name, file))
    };
    let old: Vec<(&str, File)> = DEVICES.into_iter().map(open).collect::<io::Result<_>>()?;
    let nosuid = MsFlags::MS_NOSUID;
    memory("/dev", nosuid, "size=64k,mode=755")?;
    for (name, file) in old {
        let at = Path::new("/dev").join(name);
        File::create(&at)?;
        let none: Option<&str> = None;
        let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        mount(Some(from.as_str()), &at, none, MsFlags::MS_BIND, none)?;
    }
    fs::create_dir(MEMORY)?;
    memory(MEMORY, nosuid | MsFlags::MS_NODEV, "mode=700")
}

/// A file system in memory.
fn memory(at: &str, flags: MsFlags, options: &str) -> io::Result<()> {
    Ok(mount(Some("airtcp"), at, Some("tmpfs"), flags, Some(options))?)
}
