//! A command in a guest of a network that is running: from a second terminal.

// The machine's own processes are waited for in the machine's time, and a guest's in its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};

use super::console::{Keyboard, Typed};
use super::files::{self, CommandRequest, Input, REQUEST_FILE, TerminalSettings, input_file};
use super::untrusted_folder::UntrustedFolder;
use crate::common::output::not_written;
use crate::common::process::{Process, current_user, is_same_open_file};
use crate::common::stop::Stop;

/// How often this process looks for what its command in a guest has written, in the machine's time.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Exit code of a command that was left with [`super::console::LEAVE_KEY`]: as if it was
/// interrupted.
const LEAVE_STATUS: u8 = 130;

/// Longest text of a command's status.
const MAX_STATUS_BYTES: u64 = 64;

/// The folder that guests share with their network's process. It is in memory, nobody outside of
/// the network sees it, and it is this user's.
fn untrusted_folder(network: &Process, work: &Path) -> Result<UntrustedFolder, String> {
    let text = |error: io::Error| format!("{}: {error}", work.display());
    let shared = UntrustedFolder::open(&network.root().map_err(text)?, work).map_err(text)?;
    let is_theirs = fstatfs(shared.folder()).is_ok_and(|about| about.filesystem_type() == TMPFS_MAGIC)
        && fstat(shared.folder()).is_ok_and(|about| about.st_uid == current_user().as_raw());
    let namespace = |of: &Process| of.namespace("mnt").map_err(text);
    if is_theirs && !is_same_open_file(&namespace(network)?, &namespace(&Process::own().map_err(text)?)?) {
        Ok(shared)
    } else {
        Err(format!("{} is not the folder of a network's guests", work.display()))
    }
}

/// Asks a guest of a network in virtual time for a command, and waits for it. `work`: the folder
/// that guests share.
pub(crate) fn run(network: &Process, work: &Path, host: usize, command: &[&str]) -> Result<ExitCode, Stop> {
    let pid = network.pid;
    let work = untrusted_folder(network, work).map_err(|why| Stop::failure(format!("network {pid}: {why}")))?;
    let failed = |error: io::Error| Stop::failure(format!("network {pid}: asking for a command: {error}"));
    // Never that of an earlier process, which had the same number: guests answer each name once.
    let began = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from);
    let name = format!("{}at{}", std::process::id(), began.as_nanos());
    let folder = std::env::current_dir().unwrap_or_default();
    let mut keyboard = None;
    let mut input = Input::Nothing;
    let mut argv: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
    if argv.is_empty() {
        argv.push(std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned()));
        if nix::unistd::isatty(io::stdin()).unwrap_or(false) {
            input = Input::Terminal(TerminalSettings::of_stdin());
            keyboard = Some(Keyboard::open(name.clone()).map_err(failed)?);
        } else {
            input = Input::File;
            let mut file = work.create(&input_file(&name)).map_err(failed)?;
            io::copy(&mut io::stdin(), &mut file).map_err(failed)?;
        }
    }
    let asked = CommandRequest { host, argv, folder, input };
    let text = serde_json::to_string(&asked).map_err(|error| failed(error.into()))?;
    work.write_atomically(&format!("{}{name}{}", REQUEST_FILE.0, REQUEST_FILE.1), &text).map_err(failed)?;
    let mut shown = 0;
    loop {
        // In this order: what was written before the end is all there is.
        let status = work.text(&files::status_file(&name), MAX_STATUS_BYTES).map_err(failed)?;
        if let Some(mut file) = work.read(&files::output_file(&name)).map_err(failed)? {
            file.seek(SeekFrom::Start(shown)).map_err(failed)?;
            let more = UntrustedFolder::written(&file).saturating_sub(shown);
            shown += show(file.take(more)).map_err(|error| not_written(&error))?;
        }
        if let Some(status) = status {
            let code: i32 = status.trim().parse().unwrap_or(1);
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
        }
        if network.status().is_err() {
            drop(keyboard);
            return Err(Stop::failure(format!("network {pid} has ended before the command")));
        }
        let Some(keyboard) = &mut keyboard else {
            std::thread::sleep(POLL_INTERVAL);
            continue;
        };
        let mut keys = [PollFd::new(keyboard.descriptor(), PollFlags::POLLIN)];
        // Interrupted by the terminal's new size, which is looked at below.
        let _ = poll(&mut keys, PollTimeout::try_from(POLL_INTERVAL).unwrap_or(PollTimeout::ZERO));
        let has_keys = keys[0].any().unwrap_or(false);
        if keyboard.send(&work.path(), has_keys).map_err(failed)? == Typed::Leave {
            return Ok(ExitCode::from(LEAVE_STATUS));
        }
    }
}

/// Copies output of a command as it is.
fn show(mut output: impl Read) -> io::Result<u64> {
    let mut out = io::stdout().lock();
    let copied = io::copy(&mut output, &mut out)?;
    out.flush()?;
    Ok(copied)
}
