//! Names of hosts inside the network: `/etc/hosts`, and variables for programs.

use std::fmt::Write;

use crate::common::net::Addresses;

/// Text of `/etc/hosts`: every host of the scenario, real or not. `has_v6`: programs find both
/// addresses.
pub(crate) fn hosts_file<'a>(hosts: impl Iterator<Item = (&'a str, Addresses)>, has_v6: bool) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for (name, at) in hosts {
        // A member of a group is `sta[3]`, which a resolver may not take: `sta3` is the same host.
        let plain: String = name.chars().filter(|c| !matches!(c, '[' | ']')).collect();
        let names = if plain == name { plain } else { format!("{plain} {name}") };
        let _ = writeln!(text, "{} {names}", at.v4);
        if has_v6 {
            let _ = writeln!(text, "{} {names}", at.v6);
        }
    }
    text
}

/// The variable that holds the name of a program's own host.
pub(crate) const OWN_HOST: &str = "AIRTCP_HOST";
/// The variable that holds the machine's address.
pub(crate) const MACHINE: &str = "AIRTCP_MACHINE";
/// Stands for this machine: what listens on its loopback is reached there.
pub(crate) const MACHINE_ADDRESS: &str = "192.168.254.1";
/// Variables that mean something else: two of these, and programs and folders of airtcp's own.
const TAKEN: [&str; 4] = [OWN_HOST, MACHINE, "AIRTCP_EMU", "AIRTCP_STUDIES"];

/// The variable that holds a host's IPv4 address: `AIRTCP_SERVER`. `None`: it is taken.
pub(crate) fn variable(host: &str) -> Option<String> {
    let mut name = String::from("AIRTCP_");
    for c in host.chars().filter(|&c| c != ']') {
        name.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    }
    (!TAKEN.contains(&name.as_str())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_resolve() {
        let at = Addresses { v4: [10, 0, 0, 2].into(), v4_prefix: 8, v6: "fd00::2".parse().unwrap(), v6_prefix: 64 };
        let both = [("server", at), ("sta[3]", at)].into_iter();
        let text = hosts_file(both.clone(), true);
        assert!(text.contains("\n10.0.0.2 server\nfd00::2 server\n10.0.0.2 sta3 sta[3]\n"), "{text}");
        let text = hosts_file(both, false);
        assert!(text.ends_with("\n10.0.0.2 server\n10.0.0.2 sta3 sta[3]\n"), "{text}");
        assert_eq!(variable("server").as_deref(), Some("AIRTCP_SERVER"));
        assert_eq!(variable("sta[3]").as_deref(), Some("AIRTCP_STA_3"));
        // Each of them would be taken for something else.
        assert!(["host", "Machine", "emu", "studies"].iter().all(|name| variable(name).is_none()));
    }
}
