//! The machine's own network as a host of the scenario, by `pasta` (package passt): no rule and no
//! interface outside, and nothing to clean up. The host forwards; what it forwards has its address
//! on the way out, by a rule of its own namespace.

use std::os::fd::RawFd;
use std::process::{Child, Command, Stdio};

use airtcp_core::convert::signed32;

use crate::common::addresses::MACHINE_ADDRESS;
use crate::common::output::to_stderr;
use crate::common::rights::is_administrator;
use crate::common::stop::Stop;
use crate::common::sys::ChildSetup;
use crate::shell::host::Host;

/// The device behind which pasta is.
const DEVICE: &str = "internet0";
/// Address of that device.
const ADDRESS: &str = "192.168.254.2";
/// Pasta's own Ethernet address on that device. It would take that of the device outside, which
/// within another network of ours has none.
const ETHERNET: &str = "02:00:00:00:00:01";
/// Where hosts ask for names: pasta asks this machine's name server.
pub(crate) const NAME_SERVER: &str = "192.168.254.3";

/// A command in a host's namespace, which ends with this process.
fn command_in(program: &str, namespace: RawFd) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    let dies_with = Some(signed32(std::process::id()));
    ChildSetup { dies_with, net: Some(namespace), ..ChildSetup::default() }.apply(&mut command);
    command
}

/// Has this host forward, with its own address on what it forwards. Before there are programs,
/// since it takes a thread.
pub(crate) fn prepare(name: &str, hosts: &[Host]) -> Result<(), Stop> {
    let host = find(name, hosts)?;
    host.forward().map_err(|error| Stop::failure(format!("host {name:?}: forwarding: {error}")))?;
    let rules = format!(
        "table ip airtcp {{ chain out {{ type nat hook postrouting priority srcnat; oifname \"{DEVICE}\" masquerade; }}; }}"
    );
    let nft = command_in("nft", host.namespace()).arg(rules).stderr(Stdio::null()).status();
    if !nft.is_ok_and(|status| status.success()) {
        to_stderr(format_args!(
            "note: no address translation here (nft): only one host at a time can use the internet"
        ));
    }
    Ok(())
}

fn find<'a>(name: &str, hosts: &'a [Host]) -> Result<&'a Host, Stop> {
    let host = hosts.iter().find(|host| host.name == name);
    host.ok_or_else(|| Stop::bad_input(format!("--internet {name:?}: no such host")))
}

/// Starts pasta in the namespace of this host, among the programs' processes: it is killed with
/// them.
pub(crate) fn begin(name: &str, hosts: &[Host]) -> Result<Child, Stop> {
    let host = find(name, hosts)?;
    // Its own copy of the descriptor: it gives up the right to open those of others.
    let namespace = format!("/proc/self/fd/{}", host.namespace());
    let mut command = Command::new("pasta");
    command.args(["--foreground", "--quiet", "--ipv4-only", "--config-net", "--ns-ifname", DEVICE]);
    command.args([
        "--address",
        ADDRESS,
        "--netmask",
        "24",
        "--gateway",
        MACHINE_ADDRESS,
        "--mac-addr",
        ETHERNET,
        "--dns-forward",
        NAME_SERVER,
        "--mtu",
        "1500",
    ]);
    // Nothing comes in: only what programs inside begin.
    command.args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"]);
    if is_administrator() {
        // It would become nobody, who may not enter the namespace.
        command.args(["--runas", "0:0"]);
    }
    command.args(["--netns", &namespace]).stdin(Stdio::null());
    ChildSetup { keeps: vec![host.namespace()], ..ChildSetup::default() }.apply(&mut command);
    let mut pasta = command.spawn().map_err(|error| {
        Stop::bad_input(if error.kind() == std::io::ErrorKind::NotFound {
            "--internet needs pasta, which is missing: install the package passt".to_owned()
        } else {
            format!("pasta: {error}")
        })
    })?;
    // pasta has made its device, or has said why not and ended.
    for _ in 0..100 {
        if matches!(pasta.try_wait(), Ok(Some(_))) {
            return Err(Stop::failure("pasta could not make the way to the machine's network: see above"));
        }
        let shown = command_in("cat", host.namespace()).arg("/proc/net/dev").stderr(Stdio::null()).output();
        if shown.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(DEVICE)) {
            return Ok(pasta);
        }
        pause();
    }
    let _ = pasta.kill();
    let _ = pasta.wait();
    Err(Stop::failure("pasta did not make its device within two seconds"))
}

fn pause() {
    let _ = nix::poll::poll(&mut [], nix::poll::PollTimeout::from(20u8));
}
