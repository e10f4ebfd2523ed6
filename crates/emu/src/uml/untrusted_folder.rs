//! A folder that is shared with somebody who is not trusted: guests of a network in virtual time
//! are root of their kernels, and may put links, pipes or anything else there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, renameat};
use nix::sys::stat::{Mode, SFlag, fstat};

/// Such a folder.
#[derive(Debug)]
pub(crate) struct UntrustedFolder(OwnedFd);

impl UntrustedFolder {
    /// The folder `path` below `root`. No link leads to it.
    pub(crate) fn open(root: &OwnedFd, path: &Path) -> io::Result<UntrustedFolder> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        Ok(UntrustedFolder(openat2(root, path, how)?))
    }

    /// A path of the folder itself, for as long as this is kept.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// The folder's descriptor.
    pub(crate) fn folder(&self) -> &OwnedFd {
        &self.0
    }

    fn file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let kind = SFlag::from_bits_truncate(fstat(&file)?.st_mode) & SFlag::S_IFMT;
        if kind == SFlag::S_IFREG {
            Ok(file.into())
        } else {
            Err(io::Error::other(format!("{name:?} is not a file: a guest has put something else there")))
        }
    }

    /// Opens a file to read; `None`: there is none.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<File>> {
        match self.file(name, OFlag::O_RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Bytes of a file that were written: a guest can say that a file is longer, which takes no
    /// room.
    pub(crate) fn written(file: &File) -> u64 {
        file.metadata().map_or(0, |about| about.len().min(about.blocks().saturating_mul(512)))
    }

    /// The text of a file, of which no more than `most` bytes are read.
    pub(crate) fn text(&self, name: &str, most: u64) -> io::Result<Option<String>> {
        let Some(file) = self.read(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Makes a file that is not there yet.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        self.file(name, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)
    }

    /// Makes a file that is there as a whole or not at all.
    pub(crate) fn write_atomically(&self, name: &str, text: &str) -> io::Result<()> {
        let part = format!("{name}.part");
        self.create(&part)?.write_all(text.as_bytes())?;
        Ok(renameat(&self.0, part.as_str(), &self.0, name)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn links_and_pipes_lead_nowhere() {
        let top = std::env::temp_dir().join(format!("airtcp-shared-{}", std::process::id()));
        let (shared, other) = (top.join("shared"), top.join("other"));
        fs::create_dir_all(&shared).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("secret"), "secret").unwrap();
        let root = OwnedFd::from(File::open(&top).unwrap());
        let folder = UntrustedFolder::open(&root, Path::new("/shared")).unwrap();
        folder.write_atomically("plain", "text").unwrap();
        assert_eq!(folder.text("plain", 100).unwrap().as_deref(), Some("text"));
        assert_eq!(folder.text("plain", 2).unwrap().as_deref(), Some("te"));
        assert_eq!(folder.text("none", 100).unwrap(), None);
        for name in ["link", "new", "new2.part"] {
            symlink(other.join("secret"), shared.join(name)).unwrap();
        }
        assert!(folder.read("link").is_err());
        assert!(folder.create("new").is_err());
        assert!(folder.write_atomically("new2", "gone").is_err());
        assert_eq!(fs::read_to_string(other.join("secret")).unwrap(), "secret");
        mkfifo(&shared.join("pipe"), Mode::S_IRWXU).unwrap();
        assert!(folder.read("pipe").unwrap_err().to_string().contains("is not a file"));
        symlink(&other, top.join("way")).unwrap();
        for path in ["/way", "..", "/shared/../.."] {
            assert!(UntrustedFolder::open(&root, Path::new(path)).is_err(), "{path}");
        }
        // A file without contents takes no room, however long it says that it is.
        let mut long = folder.create("long").unwrap();
        long.write_all(b"text").unwrap();
        assert_eq!(UntrustedFolder::written(&long), 4);
        long.set_len(1 << 40).unwrap();
        assert!(UntrustedFolder::written(&long) < 1 << 20, "{}", UntrustedFolder::written(&long));
        fs::remove_dir_all(top).unwrap();
    }
}
