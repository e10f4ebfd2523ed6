//! A command in a network that is running: from a second terminal.

// The machine's own processes are waited for in the machine's time, and a guest's in its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::stat::fstat;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};

use crate::Stop;
use crate::process::{Process, is_same, me};
use crate::shared::Shared;
use crate::state::{Networks, Running, State, StateHost, first_process, host_space};
use crate::sys::Before;
use crate::um::inside::{self, ASKED, Asked};
use crate::um::keys::{Input, Keyboard, Screen, Typed, whole};

/// Finds the host among the networks. `network`: the process of one; empty: whichever has the host.
fn find<'a>(
    running: &[(i32, &'a State)],
    refused: &[(i32, String)],
    network: &str,
    host: &str,
) -> Result<(usize, &'a StateHost), Stop> {
    if let Some((pid, why)) = refused.iter().find(|(pid, _)| pid.to_string() == network) {
        return Err(Stop::bad_input(format!("--network {pid}: {why}")));
    }
    let list = |of: &mut dyn Iterator<Item = String>| of.collect::<Vec<_>>().join("; ");
    let all = || {
        list(&mut running.iter().map(|(pid, state)| {
            format!("{pid} ({}: {})", state.name, list(&mut state.hosts.iter().map(|h| h.name.clone())))
        }))
    };
    let others = || refused.iter().map(|(pid, why)| format!("\nnote: network {pid}: {why}")).collect::<String>();
    if running.is_empty() {
        let none = "no network of yours is running here: start one with `airtcp shell`";
        return Err(Stop::bad_input(format!("{none}{}", others())));
    }
    let mut found = running
        .iter()
        .enumerate()
        .filter(|(_, (pid, _))| network.is_empty() || pid.to_string() == network)
        .filter_map(|(place, (_, state))| Some((place, state.hosts.iter().find(|h| h.name == host)?)));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Stop::bad_input(format!(
            "no running network has a real host {host:?}; running are: {}{}",
            all(),
            others()
        ))),
        (Some(_), Some(_)) => {
            let all = all();
            Err(Stop::bad_input(format!("several running networks have a host {host:?}: say --network PID, of: {all}")))
        }
    }
}

/// How often this process looks for what its command in a guest has written, in the machine's time.
const LOOK: Duration = Duration::from_millis(20);

/// Exit code of a command that was left with [`crate::um::keys::LEAVE`]: as if it was interrupted.
const LEFT: u8 = 130;

/// Longest text of a command's status.
const STATUS: u64 = 64;

/// The folder that guests share with their network's process. It is in memory, nobody outside of
/// the network sees it, and it is this user's.
fn shared_folder(network: &Process, work: &Path) -> Result<Shared, String> {
    let text = |error: io::Error| format!("{}: {error}", work.display());
    let shared = Shared::open(&network.root().map_err(text)?, work).map_err(text)?;
    let is_theirs = fstatfs(shared.folder()).is_ok_and(|about| about.filesystem_type() == TMPFS_MAGIC)
        && fstat(shared.folder()).is_ok_and(|about| about.st_uid == me().as_raw());
    let space = |of: &Process| of.space("mnt").map_err(text);
    if is_theirs && !is_same(&space(network)?, &space(&Process::own().map_err(text)?)?) {
        Ok(shared)
    } else {
        Err(format!("{} is not the folder of a network's guests", work.display()))
    }
}

/// Asks a guest of a network in virtual time for a command, and waits for it. `work`: the folder
/// that guests share.
fn in_guest(network: &Process, work: &Path, host: usize, command: &[&str]) -> Result<ExitCode, Stop> {
    let pid = network.pid;
    let work = shared_folder(network, work).map_err(|why| Stop::failure(format!("network {pid}: {why}")))?;
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
            input = Input::Terminal(Screen::here());
            keyboard = Some(Keyboard::take(name.clone()).map_err(failed)?);
        } else {
            input = Input::Whole;
            let mut file = work.create(&whole(&name)).map_err(failed)?;
            io::copy(&mut io::stdin(), &mut file).map_err(failed)?;
        }
    }
    let asked = Asked { host, argv, folder, input };
    let text = serde_json::to_string(&asked).map_err(|error| failed(error.into()))?;
    work.write_whole(&format!("{}{name}{}", ASKED.0, ASKED.1), &text).map_err(failed)?;
    let mut shown = 0;
    loop {
        // In this order: what was written before the end is all there is.
        let status = work.text(&inside::status(&name), STATUS).map_err(failed)?;
        if let Some(mut file) = work.read(&inside::output(&name)).map_err(failed)? {
            file.seek(SeekFrom::Start(shown)).map_err(failed)?;
            shown += io::copy(&mut file, &mut io::stdout()).map_err(failed)?;
            io::stdout().flush().map_err(failed)?;
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
            std::thread::sleep(LOOK);
            continue;
        };
        let mut keys = [PollFd::new(keyboard.waits_for(), PollFlags::POLLIN)];
        // Interrupted by the terminal's new size, which is looked at below.
        let _ = poll(&mut keys, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO));
        let has_keys = keys[0].any().unwrap_or(false);
        if keyboard.hand_on(&work.path(), has_keys).map_err(failed)? == Typed::Leave {
            return Ok(ExitCode::from(LEFT));
        }
    }
}

/// Runs the command there and returns its status.
pub(crate) fn run(network: &str, host: &str, command: &[&str]) -> Result<ExitCode, Stop> {
    let networks = Networks::find();
    let shown: Vec<_> = networks.running.iter().map(|Running { process, state }| (process.pid, state)).collect();
    let (place, host) = find(&shown, &networks.refused, network, host)?;
    let Running { process: network, state } = &networks.running[place];
    if let Some(work) = &state.guests {
        let place = state.hosts.iter().position(|known| known.name == host.name).unwrap_or(0);
        return in_guest(network, work, place, command);
    }
    let gone =
        |what: &str, error: &dyn std::fmt::Display| Stop::failure(format!("network {}: {what}: {error}", network.pid));
    let space = host_space(network, host).map_err(|why| gone("its host's namespace", &why))?;
    let (first, entry) = first_process(network, state.init).map_err(|why| gone("its first process", &why))?;
    let users = |of: &Process| of.space("user").map_err(|error| gone("its users", &error));
    let own = Process::own().map_err(|error| gone("this process", &error))?;
    let mut kinds = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    if !is_same(&users(&own)?, &users(&first)?) {
        kinds |= CloneFlags::CLONE_NEWUSER;
    }
    let place = std::env::current_dir();
    setns(&entry, kinds).map_err(|e| gone("entering it", &e.desc()))?;
    let (name, arguments) = match command {
        [] => (std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned()), &[][..]),
        [name, arguments @ ..] => ((*name).to_owned(), arguments),
    };
    let mut command = Command::new(&name);
    command.args(arguments).envs(host.variables());
    if let Ok(place) = place {
        command.current_dir(place);
    }
    // The terminal's signals are for the command; this process only waits for it.
    let mut ignored = SigSet::empty();
    ignored.add(Signal::SIGINT);
    ignored.add(Signal::SIGQUIT);
    let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ignored), None);
    let before = Before { net: Some(space.as_raw_fd()), host: Some(host.name.clone()), ..Before::default() };
    before.apply(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Err(Stop { message: format!("host {:?}: cannot run {name:?}: {error}", host.name), code: 127 });
        }
    };
    let status = child.wait().map_err(|e| gone("its command", &e))?;
    let code = status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(pid: i32, hosts: &[&str]) -> (i32, State) {
        let hosts = hosts.iter().map(|&name| StateHost { name: name.to_owned(), space: 3, env: Vec::new() });
        (pid, State { name: "home".to_owned(), init: pid + 1, guests: None, hosts: hosts.collect() })
    }

    #[test]
    fn a_host_is_found_or_the_message_says_what_there_is() {
        let all = [network(10, &["laptop", "server"]), network(20, &["laptop"])];
        let running: Vec<_> = all.iter().map(|(pid, state)| (*pid, state)).collect();
        let others = [(30, "it belongs to bob".to_owned())];
        assert_eq!(find(&running, &others, "", "server").unwrap().0, 0);
        assert_eq!(find(&running, &others, "20", "laptop").unwrap().0, 1);
        let message = |network, host| find(&running, &others, network, host).unwrap_err().message;
        assert!(message("", "laptop").contains("--network PID, of: 10 (home: laptop; server); 20 (home: laptop)"));
        assert!(message("", "phone").contains("no running network has a real host \"phone\""));
        assert!(message("", "phone").ends_with("\nnote: network 30: it belongs to bob"));
        assert_eq!(message("30", "laptop"), "--network 30: it belongs to bob");
        assert!(find(&[], &[], "", "x").unwrap_err().message.contains("start one"));
    }
}
