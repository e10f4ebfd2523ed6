//! The folder that a controller and its guests share, as the controller sees it. Guests may put
//! anything there: what is read is a file, and no more of it than it should have.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::untrusted_folder::UntrustedFolder;
use crate::common::output::visible;

/// One of these folders is where guests find what is for them: a file system in memory that nobody
/// else sees. Always the same, since a guest's random numbers follow from its command line, too.
const PLACES: [&str; 3] = ["/media", "/mnt", "/srv"];
/// It holds no more files. Their bytes are at most half of the machine's memory.
const OPTIONS: &str = "mode=700,nr_inodes=65536";

/// Longest text of a command's status.
const MAX_STATUS_BYTES: u64 = 64;
/// Longest text about how a guest began.
const MAX_READY_BYTES: u64 = 64 << 10;
/// Bytes of a guest's output that are looked at, at most.
const MAX_LOG_BYTES: u64 = 16 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedFolder {
    path: PathBuf,
    shared: UntrustedFolder,
}

impl SharedFolder {
    /// A file system of this process and its children, gone when they are.
    pub(crate) fn make(kernel: &Path) -> Result<SharedFolder, String> {
        let working_folder = std::env::current_dir().unwrap_or_default();
        let is_free = |at: &&str| Path::new(at).is_dir() && !working_folder.starts_with(at) && !kernel.starts_with(at);
        let Some(folder) = PLACES.into_iter().find(is_free) else {
            return Err(format!("none of {} is a folder that guests can use", PLACES.join(", ")));
        };
        let none: Option<&str> = None;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
            .and_then(|()| mount(Some("airtcp"), folder, Some("tmpfs"), flags, Some(OPTIONS)))
            .map_err(|error| format!("a private folder at {folder}: {error}"))?;
        SharedFolder::of(Path::new(folder)).map_err(|error| format!("a private folder at {folder}: {error}"))
    }

    /// A folder that is there.
    pub(super) fn of(path: &Path) -> std::io::Result<SharedFolder> {
        let shared = UntrustedFolder::open(&OwnedFd::from(File::open("/")?), path)?;
        Ok(SharedFolder { path: path.to_owned(), shared })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file of it; `None`: there is none, or a guest has put something else there.
    pub(crate) fn read(&self, name: &str) -> Option<File> {
        self.shared.read(name).ok().flatten()
    }

    /// True if there is such a file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.read(name).is_some()
    }

    fn text(&self, name: &str, most: u64) -> Option<String> {
        self.shared.text(name, most).ok().flatten()
    }

    /// How a guest began.
    pub(crate) fn ready(&self, name: &str) -> Option<String> {
        self.text(name, MAX_READY_BYTES).map(|text| visible(&text))
    }

    /// A short file: a number, or some.
    pub(crate) fn status(&self, name: &str) -> Option<String> {
        self.text(name, MAX_STATUS_BYTES)
    }

    /// A file that is a page at most.
    pub(crate) fn page(&self, name: &str) -> String {
        self.text(name, 4096).unwrap_or_default()
    }

    /// All bytes of a file.
    ///
    /// # Errors
    /// It has more than `most`, or cannot be read.
    pub(crate) fn bytes(&self, name: &str, most: u64) -> Result<Vec<u8>, String> {
        let Some(file) = self.read(name) else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let read = file.take(most + 1).read_to_end(&mut bytes).map_err(|error| format!("{name}: {error}"))?;
        if u64::try_from(read).is_ok_and(|read| read <= most) {
            Ok(bytes)
        } else {
            Err(format!("{name}: a guest has written more than {most} bytes"))
        }
    }

    /// The last lines of what a guest has said, as they can be shown.
    pub(crate) fn last_lines(&self, name: &str, many: usize) -> Vec<String> {
        let Some(mut file) = self.read(name) else { return Vec::new() };
        let len = file.metadata().map_or(0, |about| about.len());
        let mut bytes = Vec::new();
        let _ = file
            .seek(SeekFrom::Start(len.saturating_sub(MAX_LOG_BYTES)))
            .and_then(|_| file.take(MAX_LOG_BYTES).read_to_end(&mut bytes));
        let text = visible(&String::from_utf8_lossy(&bytes));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(many)..].iter().map(|&line| line.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    /// Whatever a guest puts there in place of a file is no file, and a file is read as far as it
    /// may be.
    #[test]
    fn what_a_guest_plants_is_not_followed_waited_for_or_read_without_end() {
        let top = std::env::temp_dir().join(format!("airtcp-work-{}", std::process::id()));
        fs::create_dir_all(top.join("folder")).unwrap();
        let work = SharedFolder::of(&top).unwrap();
        for (name, to) in [("zero", "/dev/zero"), ("secret", "/etc/passwd"), ("loop", "loop")] {
            symlink(to, top.join(name)).unwrap();
        }
        mkfifo(&top.join("pipe"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
        for name in ["zero", "secret", "loop", "pipe", "folder", "socket", "nothing"] {
            assert!(!work.has(name), "{name}");
            assert_eq!((work.status(name), work.ready(name), work.page(name)), (None, None, String::new()), "{name}");
            assert_eq!((work.bytes(name, 9), work.last_lines(name, 9)), (Ok(vec![]), vec![]), "{name}");
        }
        let large = File::create(top.join("large")).unwrap();
        large.set_len(1 << 40).unwrap();
        assert_eq!(work.status("large").map(|text| text.len()), Some(64));
        assert_eq!(work.page("large").len(), 4096);
        assert!(work.bytes("large", 1 << 20).unwrap_err().contains("more than 1048576 bytes"));
        assert!(
            work.last_lines("large", 3).iter().all(|line| line.len() <= 6 * usize::try_from(MAX_LOG_BYTES).unwrap())
        );
        fs::write(top.join("log"), b"one\ntwo\x1b]0;t\x07\nthr\xe2\x80\xaeee\nfour \xff\n").unwrap();
        assert_eq!(work.last_lines("log", 3), ["two\\u001b]0;t\\u0007", "thr\\u202eee", "four \u{fffd}"]);
        assert_eq!(work.bytes("log", 100).map(|bytes| bytes.len()), Ok(30));
        fs::remove_dir_all(top).unwrap();
    }
}
