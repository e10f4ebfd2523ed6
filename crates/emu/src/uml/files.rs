//! Files of the shared folder: their names, and the messages in them between the controller, guests
//! and `airtcp exec`.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::common::diag::Connection;
use crate::common::net::{Addresses, Sysctl};
use crate::common::sys::terminal_size;

/// The folder in which guests find what is for them, below `/run`.
pub(crate) const GUEST_FOLDER: &str = "/run/airtcp";

/// The file with what a guest's kernel says.
pub(crate) fn log_file(host: usize) -> String {
    format!("{host}.log")
}

/// Orders to a guest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuestConfig {
    pub(crate) host: String,
    pub(crate) device: String,
    pub(crate) addresses: Addresses,
    pub(crate) mtu: u16,
    pub(crate) sysctls: Vec<Sysctl>,
    /// Text of `/etc/hosts`.
    pub(crate) hosts: String,
    pub(crate) env: Vec<(String, String)>,
    /// By their index among all commands, and what they read.
    pub(crate) commands: Vec<(usize, Vec<String>, Input)>,
    /// Where commands start.
    pub(crate) folder: PathBuf,
}

/// The file that a guest is told by.
pub(crate) fn config_file(host: usize) -> String {
    format!("{host}.json")
}

/// File with the findings of a guest that has set up its network, or with the reason why it could
/// not.
pub(crate) fn ready_file(host: usize) -> String {
    format!("{host}.ready")
}

/// File with a command's output. `command`: its index, or the name of a [`CommandRequest`].
pub(crate) fn output_file(command: impl Display) -> String {
    format!("command{command}.out")
}

/// How it ended.
pub(crate) fn status_file(command: impl Display) -> String {
    format!("command{command}.status")
}

/// A line for each look at a guest's TCP connections: a [`ConnectionSnapshot`].
pub(crate) fn connections_file(host: usize) -> String {
    format!("{host}.connections")
}

/// TCP connections of a kernel at an instant.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ConnectionSnapshot {
    /// Since the network began.
    pub(crate) ns: u64,
    pub(crate) open: Vec<Connection>,
    /// Since the last look.
    pub(crate) ended: Vec<Connection>,
}

/// A command that somebody asks for while the network runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommandRequest {
    /// Place of the guest.
    pub(crate) host: usize,
    pub(crate) argv: Vec<String>,
    pub(crate) folder: PathBuf,
    pub(crate) input: Input,
}

/// Begin and end of the name of a file with a [`CommandRequest`]; its name is between them.
pub(crate) const REQUEST_FILE: (&str, &str) = ("ask-", ".json");

/// Names of what was asked for so far.
pub(crate) fn requests(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.strip_prefix(REQUEST_FILE.0)?.strip_suffix(REQUEST_FILE.1)?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Where a command's standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Input {
    /// It ends at once.
    Nothing,
    /// A file of the shared folder: see [`input_file`].
    File,
    /// A terminal of the guest's.
    Terminal(TerminalSettings),
}

/// A terminal as programs see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TerminalSettings {
    /// The variable `TERM`.
    pub(crate) term: String,
    /// Rows and columns.
    pub(crate) size: Option<(u16, u16)>,
}

impl TerminalSettings {
    /// The terminal that is this process's standard input.
    pub(crate) fn of_stdin() -> TerminalSettings {
        let term = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
        TerminalSettings { term, size: terminal_size(io::stdin().as_raw_fd()) }
    }
}

/// The file that a command reads, if it is whole before it starts. `command`: see
/// [`output_file`].
pub(crate) fn input_file(command: &str) -> String {
    format!("command{command}.in")
}

/// Writes a file that is there as a whole or not at all.
pub(crate) fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    let part = path.with_extension("part");
    // Guests share the folder: never through a link that one of them has put there.
    OpenOptions::new().write(true).create_new(true).open(&part)?.write_all(text.as_bytes())?;
    fs::rename(part, path)
}
