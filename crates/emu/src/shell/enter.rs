//! A command on a host of a network that is running: from a second terminal.

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

use crate::common::process::{Process, is_same_open_file};
use crate::common::state::{State, StateHost, first_process, host_namespace};
use crate::common::stop::Stop;
use crate::common::sys::ChildSetup;

/// Runs the command there and returns its status.
pub(crate) fn run(network: &Process, state: &State, host: &StateHost, command: &[&str]) -> Result<ExitCode, Stop> {
    let gone =
        |what: &str, error: &dyn std::fmt::Display| Stop::failure(format!("network {}: {what}: {error}", network.pid));
    let namespace = host_namespace(network, host).map_err(|why| gone("its host's namespace", &why))?;
    let (first, entry) = first_process(network, state.init).map_err(|why| gone("its first process", &why))?;
    let users = |of: &Process| of.namespace("user").map_err(|error| gone("its users", &error));
    let own = Process::own().map_err(|error| gone("this process", &error))?;
    let mut kinds = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    if !is_same_open_file(&users(&own)?, &users(&first)?) {
        kinds |= CloneFlags::CLONE_NEWUSER;
    }
    let folder = std::env::current_dir();
    setns(&entry, kinds).map_err(|e| gone("entering it", &e.desc()))?;
    let (name, arguments) = match command {
        [] => (std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned()), &[][..]),
        [name, arguments @ ..] => ((*name).to_owned(), arguments),
    };
    let mut command = Command::new(&name);
    command.args(arguments).envs(host.variables());
    if let Ok(folder) = folder {
        command.current_dir(folder);
    }
    // The terminal's signals are for the command; this process only waits for it.
    let mut ignored = SigSet::empty();
    ignored.add(Signal::SIGINT);
    ignored.add(Signal::SIGQUIT);
    let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ignored), None);
    let setup = ChildSetup { net: Some(namespace.as_raw_fd()), host: Some(host.name.clone()), ..ChildSetup::default() };
    setup.apply(&mut command);
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
