//! A command in a network that is running: from a second terminal.

use std::process::ExitCode;

use crate::common::output::on_one_line;
use crate::common::state::{Networks, Running, State, StateHost};
use crate::common::stop::Stop;
use crate::{shell, uml};

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
            let hosts = list(&mut state.hosts.iter().map(|h| on_one_line(&h.name)));
            format!("{pid} ({}: {hosts})", on_one_line(&state.name))
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
        .filter_map(|(index, (_, state))| Some((index, state.hosts.iter().find(|h| h.name == host)?)));
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

/// Runs the command there and returns its status.
pub(crate) fn run(network: &str, host: &str, command: &[&str]) -> Result<ExitCode, Stop> {
    let networks = Networks::find();
    let shown: Vec<_> = networks.running.iter().map(|Running { process, state }| (process.pid, state)).collect();
    let (index, host) = find(&shown, &networks.refused, network, host)?;
    let Running { process: network, state } = &networks.running[index];
    let Some(work) = &state.guests else { return shell::enter::run(network, state, host, command) };
    let index = state.hosts.iter().position(|known| known.name == host.name).unwrap_or(0);
    uml::request::run(network, work, index, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(pid: i32, hosts: &[&str]) -> (i32, State) {
        let hosts = hosts.iter().map(|&name| StateHost { name: name.to_owned(), namespace: 3, env: Vec::new() });
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
