//! Report of the rights that this machine gives, and the command that would give the rest.

use std::fs;
use std::process::{Command, ExitCode, Stdio};

use crate::common::output::{on_one_line, to_stdout};
use crate::common::rights::{Allowed, allowed};
use crate::common::stop::{BAD_INPUT, Stop};

use crate::shell::tun::no_tun;

/// Prints one line per need, and returns 0 if networks can be run here.
pub(crate) fn run() -> Result<ExitCode, Stop> {
    let (mut can, mut lines) = (true, String::new());
    let mut line = |is_needed: bool, what: &str, found: Result<String, String>| {
        let (word, text) = match found {
            Ok(text) => ("yes", text),
            Err(text) if is_needed => {
                can = false;
                ("NO", text)
            }
            Err(text) => ("no", text),
        };
        lines += &format!("{what}: {word}: {}\n", on_one_line(&text));
    };
    line(
        true,
        "namespaces",
        match allowed() {
            Allowed::AsRoot => Ok("as root".to_owned()),
            Allowed::AsUser => Ok("as an ordinary user, in a user namespace".to_owned()),
            Allowed::No(why) => Err(why),
        },
    );
    line(true, "TUN devices", no_tun().map_or(Ok("/dev/net/tun opens".to_owned()), Err));
    let read = |key: &str| fs::read_to_string(format!("/proc/sys/{key}")).unwrap_or_default().trim().to_owned();
    let controls = read("net/ipv4/tcp_available_congestion_control");
    line(false, "congestion controls", Ok(format!("{controls} (others: modprobe tcp_NAME)")));
    let ipv6 = fs::exists("/proc/sys/net/ipv6").unwrap_or(false);
    let no_ipv6 = || Err("the kernel has none: hosts have IPv4 only".to_owned());
    line(false, "IPv6", if ipv6 { Ok("hosts have both".to_owned()) } else { no_ipv6() });
    let pasta = Command::new("pasta").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    line(
        false,
        "--internet",
        pasta.map(|_| "pasta is here".to_owned()).map_err(|_| "pasta is missing: install the package passt".to_owned()),
    );
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    line(
        false,
        "time",
        if load < 0.5 * processors as f64 {
            Ok(format!("{processors} processors, load {load}"))
        } else {
            Err(format!("{processors} processors and a load of {load}: packets may come late, and airtcp will say so"))
        },
    );
    to_stdout(&lines)?;
    Ok(if can { ExitCode::SUCCESS } else { ExitCode::from(BAD_INPUT) })
}
