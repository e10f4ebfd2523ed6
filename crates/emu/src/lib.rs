//! Programs on airtcp's networks.
//!
//! [`shell`]: programs in namespaces, in real time. [`uml`]: programs on Linux kernels in virtual
//! time. `lab`: Wi-Fi stacks of such kernels. `hwsim`: the medium of this kernel's own simulated
//! radios. All of them stand on [`common`], which imports none; of each other, `lab` imports `uml`
//! and `hwsim`. A test holds this: `layers`.

#![cfg(target_os = "linux")]
// They panic where a terminal has gone or a disk is full: see `common::output`.
#![deny(clippy::print_stderr, clippy::print_stdout)]
// Tests may cast numbers that they know.
#![cfg_attr(
    test,
    allow(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        missing_docs,
        unreachable_pub
    )
)]

pub mod common;
pub mod shell;
pub mod uml;

mod exec;
mod hwsim;
mod lab;

use std::process::ExitCode;

use common::config::{HwsimConfig, RunConfig};
use common::output::to_stderr;
use common::stop::Stop;

/// The program: `run`, `exec`, `check`, or what it calls itself as. The command `airtcp` starts it
/// and says what it can do.
pub fn main(arguments: &[String]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<i32>().map_err(|_| Stop::bad_input(format!("{text:?} is not a descriptor")));
    let done = match arguments.as_slice() {
        ["run", fd] => number(fd).and_then(|fd| run(&RunConfig::read(fd).map_err(Stop::bad_input)?)),
        ["hwsim", fd] => number(fd).and_then(|fd| hwsim::run(&HwsimConfig::read(fd).map_err(Stop::bad_input)?)),
        ["init", fd] => number(fd).map(shell::init::run),
        ["guests", fd, work] => number(fd).map(|fd| uml::boot::init(fd, work)),
        // UML adds a word of its own.
        ["guest", work, host, ..] => Ok(uml::guest_init::run(work, host)),
        ["lab-guest", work, host, ..] => Ok(lab::guest_run(work, host)),
        ["lab-traffic", words @ ..] => Ok(lab::traffic_run(words)),
        ["exec", network, host, command @ ..] => exec::run(network, host, command),
        ["check"] => shell::check::run(),
        _ => Err(Stop::bad_input("airtcp-emu is a part of the command airtcp: use `airtcp shell` and `airtcp exec`")),
    };
    done.unwrap_or_else(|stop| {
        to_stderr(format_args!("error: {}", stop.message));
        ExitCode::from(stop.code)
    })
}

/// Runs a network of the kind that the configuration asks for.
fn run(config: &RunConfig) -> Result<ExitCode, Stop> {
    match &config.guests {
        Some(guests) if config.lab.is_some() => lab::run(config, guests),
        Some(guests) => uml::run::run(config, guests),
        None => shell::run::run(config),
    }
}
