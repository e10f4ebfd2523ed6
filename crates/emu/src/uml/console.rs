//! Input of commands in guests: a file that is whole before they start, or a terminal's keys as
//! somebody types them. Keys go to the guest in files of the shared folder, one for each lot: a
//! guest looks up each name for the first time.

use std::fs;
use std::io::{self, Stdin};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use nix::sys::termios::{self, SetArg, Termios};
use serde::{Deserialize, Serialize};

use super::files::write_whole;
use crate::common::sys::terminal_size;

/// Keys of one lot, or another size of the terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lot {
    pub(crate) keys: Vec<u8>,
    pub(crate) size: Option<(u16, u16)>,
}

const BEGIN: &str = "keys-";
const END: &str = ".json";

/// The names of lots that wait for a guest: of one command, in their order.
fn names(folder: &Path, command: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let begin = format!("{BEGIN}{command}-");
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&begin) && name.ends_with(END)).collect();
    names.sort();
    names
}

/// True if keys wait that no guest has taken.
pub(crate) fn are_waiting(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let mut names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| name.starts_with(BEGIN) && name.ends_with(END))
}

/// Takes what was typed for a command since the last time.
pub(crate) fn take(folder: &Path, command: &str) -> Vec<Lot> {
    let mut lots = Vec::new();
    for name in names(folder, command) {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        lots.extend(serde_json::from_str::<Lot>(&text));
    }
    lots
}

/// The key that ends a network whose programs answer no more: Ctrl-], as of telnet.
pub(crate) const LEAVE: u8 = 0x1d;

/// Result of a look at the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Nothing, for now.
    Nothing,
    /// Something has been handed on.
    Keys,
    /// [`LEAVE`], or the terminal is gone.
    Leave,
}

/// This process's terminal, whose keys go to a guest as they are. It is as before when this goes.
pub(crate) struct Keyboard {
    terminal: Stdin,
    before: Termios,
    command: String,
    lots: u64,
    size: Option<(u16, u16)>,
}

impl Keyboard {
    /// Takes the terminal for a command.
    pub(crate) fn take(command: String) -> io::Result<Keyboard> {
        let terminal = io::stdin();
        let before = termios::tcgetattr(&terminal)?;
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(&terminal, SetArg::TCSADRAIN, &raw)?;
        let size = terminal_size(terminal.as_raw_fd());
        Ok(Keyboard { terminal, before, command, lots: 0, size })
    }

    /// Descriptor to wait for.
    pub(crate) fn waits_for(&self) -> BorrowedFd<'_> {
        self.terminal.as_fd()
    }

    /// Hands on a lot of keys, which are there if `has_keys`, and the terminal's size if it is
    /// another now.
    pub(crate) fn hand_on(&mut self, folder: &Path, has_keys: bool) -> io::Result<Typed> {
        let mut keys = Vec::new();
        if has_keys {
            let mut bytes = [0; 4096];
            // Not by `Read`, which would keep some for itself.
            let read = nix::unistd::read(&self.terminal, &mut bytes).unwrap_or(0);
            keys.extend_from_slice(&bytes[..read]);
        }
        if keys.contains(&LEAVE) || (has_keys && keys.is_empty()) {
            return Ok(Typed::Leave);
        }
        let size = terminal_size(self.terminal.as_raw_fd());
        let is_new = size.is_some() && size != self.size;
        if keys.is_empty() && !is_new {
            return Ok(Typed::Nothing);
        }
        self.size = size;
        let lot = Lot { keys, size: if is_new { size } else { None } };
        self.lots += 1;
        let name = format!("{BEGIN}{}-{:08}{END}", self.command, self.lots);
        write_whole(&folder.join(name), &serde_json::to_string(&lot)?)?;
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
    fn lots_of_a_command_come_in_their_order_and_once() {
        let folder = std::env::temp_dir().join(format!("airtcp-keys-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(!are_waiting(&folder));
        let lot = |keys: &[u8]| Lot { keys: keys.to_vec(), size: None };
        for (name, keys) in [("keys-7-00000002", "b"), ("keys-7-00000001", "a"), ("keys-71-00000001", "c")] {
            let text = serde_json::to_string(&lot(keys.as_bytes())).unwrap();
            write_whole(&folder.join(format!("{name}{END}")), &text).unwrap();
        }
        assert!(are_waiting(&folder));
        assert_eq!(take(&folder, "7"), [lot(b"a"), lot(b"b")]);
        assert_eq!(take(&folder, "7"), []);
        assert_eq!(take(&folder, "71"), [lot(b"c")]);
        assert!(!are_waiting(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}
