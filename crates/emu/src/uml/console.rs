//! Input of commands in guests: a file that is whole before they start, or a terminal's keys as
//! somebody types them. Keys go to the guest in files of the shared folder, one for each batch: a
//! guest looks up each name for the first time.

use std::fs;
use std::io::{self, Stdin};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use nix::sys::termios::{self, SetArg, Termios};
use serde::{Deserialize, Serialize};

use super::files::write_atomically;
use crate::common::sys::terminal_size;

/// Keys of one batch, or another size of the terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyBatch {
    pub(crate) keys: Vec<u8>,
    pub(crate) size: Option<(u16, u16)>,
}

const PREFIX: &str = "keys-";
const SUFFIX: &str = ".json";

/// The names of batches that wait for a guest: of one command, in their order.
fn batch_files(folder: &Path, command: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let begin = format!("{PREFIX}{command}-");
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&begin) && name.ends_with(SUFFIX)).collect();
    names.sort();
    names
}

/// True if keys wait that no guest has taken.
pub(crate) fn has_batches(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let mut names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}

/// Takes what was typed for a command since the last time.
pub(crate) fn take_batches(folder: &Path, command: &str) -> Vec<KeyBatch> {
    let mut batches = Vec::new();
    for name in batch_files(folder, command) {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        batches.extend(serde_json::from_str::<KeyBatch>(&text));
    }
    batches
}

/// The key that ends a network whose programs answer no more: Ctrl-], as of telnet.
pub(crate) const LEAVE_KEY: u8 = 0x1d;

/// Result of a look at the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Nothing, for now.
    Nothing,
    /// Something has been handed on.
    Keys,
    /// [`LEAVE_KEY`], or the terminal is gone.
    Leave,
}

/// This process's terminal, whose keys go to a guest as they are. It is as before when this goes.
pub(crate) struct Keyboard {
    terminal: Stdin,
    before: Termios,
    command: String,
    batches: u64,
    size: Option<(u16, u16)>,
}

impl Keyboard {
    /// Takes the terminal for a command.
    pub(crate) fn open(command: String) -> io::Result<Keyboard> {
        let terminal = io::stdin();
        let before = termios::tcgetattr(&terminal)?;
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(&terminal, SetArg::TCSADRAIN, &raw)?;
        let size = terminal_size(terminal.as_raw_fd());
        Ok(Keyboard { terminal, before, command, batches: 0, size })
    }

    /// Descriptor to wait for.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.terminal.as_fd()
    }

    /// Hands on a batch of keys, which are there if `has_keys`, and the terminal's size if it is
    /// another now.
    pub(crate) fn send(&mut self, folder: &Path, has_keys: bool) -> io::Result<Typed> {
        let mut keys = Vec::new();
        if has_keys {
            let mut bytes = [0; 4096];
            // Not by `Read`, which would keep some for itself.
            let read = nix::unistd::read(&self.terminal, &mut bytes).unwrap_or(0);
            keys.extend_from_slice(&bytes[..read]);
        }
        if keys.contains(&LEAVE_KEY) || (has_keys && keys.is_empty()) {
            return Ok(Typed::Leave);
        }
        let size = terminal_size(self.terminal.as_raw_fd());
        let is_new = size.is_some() && size != self.size;
        if keys.is_empty() && !is_new {
            return Ok(Typed::Nothing);
        }
        self.size = size;
        let batch = KeyBatch { keys, size: if is_new { size } else { None } };
        self.batches += 1;
        let name = format!("{PREFIX}{}-{:08}{SUFFIX}", self.command, self.batches);
        write_atomically(&folder.join(name), &serde_json::to_string(&batch)?)?;
        Ok(Typed::Keys)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(&self.terminal, SetArg::TCSADRAIN, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_a_command_come_in_their_order_and_once() {
        let folder = std::env::temp_dir().join(format!("airtcp-keys-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(!has_batches(&folder));
        let batch = |keys: &[u8]| KeyBatch { keys: keys.to_vec(), size: None };
        for (name, keys) in [("keys-7-00000002", "b"), ("keys-7-00000001", "a"), ("keys-71-00000001", "c")] {
            let text = serde_json::to_string(&batch(keys.as_bytes())).unwrap();
            write_atomically(&folder.join(format!("{name}{SUFFIX}")), &text).unwrap();
        }
        assert!(has_batches(&folder));
        assert_eq!(take_batches(&folder, "7"), [batch(b"a"), batch(b"b")]);
        assert_eq!(take_batches(&folder, "7"), []);
        assert_eq!(take_batches(&folder, "71"), [batch(b"c")]);
        assert!(!has_batches(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}
