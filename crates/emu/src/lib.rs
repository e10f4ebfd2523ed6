//! Real programs through airtcp's networks, in real time: a host of a scenario becomes a network
//! namespace with a TUN device, and a world carries its packets.
//!
//! [`driver`] is the loop, without I/O; [`clock`] and [`watch`] say how late it is. The rest is the
//! machine: namespaces, devices, processes.

#![cfg(target_os = "linux")]
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

mod addresses;
mod capture;
mod cells;
mod check;
pub mod clock;
mod connections;
mod diag;
pub mod driver;
mod exec;
pub mod gate;
mod hwsim;
mod init;
mod internet;
mod lab;
mod net;
mod netlink;
pub mod payloads;
mod plan;
mod process;
mod radios;
mod report;
mod run;
mod segments;
#[allow(dead_code, reason = "guests' controller reads only")]
mod shared;
mod signals;
mod space;
mod state;
mod store;
mod sys;
mod tun;
pub mod um;
pub mod watch;
mod world;

use std::io::Write;
use std::process::ExitCode;

/// Writes a line to standard error. A terminal that has gone, or a full disk, ends nothing.
fn tell(line: std::fmt::Arguments) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// An input that is wrong, or a machine that does not allow what is asked.
const BAD_INPUT: u8 = 2;

/// Why there was no run: a sentence, and the exit code.
#[derive(Debug)]
struct Stop {
    message: String,
    code: u8,
}

impl Stop {
    fn bad_input(message: impl Into<String>) -> Stop {
        Stop { message: message.into(), code: BAD_INPUT }
    }
    fn failure(message: impl Into<String>) -> Stop {
        Stop { message: message.into(), code: 1 }
    }
}

/// The program: `run`, `exec`, `check`, or what it calls itself as. The command `airtcp` starts it
/// and says what it can do.
pub fn main(arguments: &[String]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<i32>().map_err(|_| Stop::bad_input(format!("{text:?} is not a descriptor")));
    let done = match arguments.as_slice() {
        ["run", fd] => number(fd).and_then(|fd| run::run(&plan::Plan::read(fd).map_err(Stop::bad_input)?)),
        ["hwsim", fd] => number(fd).and_then(|fd| hwsim::run(&plan::MediumPlan::read(fd).map_err(Stop::bad_input)?)),
        ["init", fd] => number(fd).map(init::run),
        ["guests", fd, work] => number(fd).map(|fd| um::boot_init(fd, work)),
        // UML adds a word of its own.
        ["guest", work, host, ..] => Ok(um::inside_run(work, host)),
        ["lab-guest", work, host, ..] => Ok(lab::guest_run(work, host)),
        ["lab-traffic", words @ ..] => Ok(lab::traffic_run(words)),
        ["exec", network, host, command @ ..] => exec::run(network, host, command),
        ["check"] => Ok(check::run()),
        _ => Err(Stop::bad_input("airtcp-emu is a part of the command airtcp: use `airtcp shell` and `airtcp exec`")),
    };
    done.unwrap_or_else(|stop| {
        tell(format_args!("error: {}", stop.message));
        ExitCode::from(stop.code)
    })
}
