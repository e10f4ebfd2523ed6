//! How the kernel brings connections to the proxy: the lines of nft and ip, printed or held for as
//! long as the proxy lives.
//!
//! The table belongs to a process `nft -i` that reads from this one. If this one ends in any way,
//! the kernel removes the table. The lines of ip belong to nobody in the kernel, so a second
//! process waits for the end of this one and takes them back.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::rules::{Mode, Rules};
use crate::nft::Held;

/// Name of the table.
pub const TABLE: &str = "airtcp";
/// Mark of connections that TPROXY brings, and number of the routing table that delivers them here.
pub const LOCAL: u32 = 0x6175;

/// Which connections the rules mean, as conditions of nft. None: there is no rule, so nothing is to
/// come here.
fn conditions(rules: &Rules, is_v4: bool) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for rule in rules.rules.iter().filter(|rule| rule.prefix.is_none_or(|(ip, _)| ip.is_ipv4() == is_v4)) {
        let mut one = String::new();
        match rule.prefix {
            Some((ip, length)) if ip.is_ipv4() => one += &format!("ip daddr {ip}/{length} "),
            Some((ip, length)) => one += &format!("ip6 daddr {ip}/{length} "),
            None => {}
        }
        match (rule.port, &rule.sni) {
            (Some(port), _) => one += &format!("tcp dport {port} "),
            // A name is there in TLS alone.
            (None, Some(_)) => one += "tcp dport 443 ",
            (None, None) => one += "meta l4proto tcp ",
        }
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// The lines for nft, each a command.
pub fn nft_lines(rules: &Rules, owned: bool) -> Vec<String> {
    let table = format!("inet {TABLE}");
    let flags = if owned { " { flags owner; }" } else { "" };
    let mut lines = vec![format!("add table {table}{flags}")];
    let mut add = |line: String| lines.push(line);
    for listen in &rules.listen {
        let port = listen.address.port();
        let family = if listen.address.is_ipv4() { "meta nfproto ipv4 " } else { "meta nfproto ipv6 " };
        match listen.mode {
            Mode::Forward(_) => {}
            Mode::Redirect => {
                add(format!("add chain {table} redirected"));
                add(format!("add chain {table} nat_in {{ type nat hook prerouting priority -100; }}"));
                add(format!("add chain {table} nat_out {{ type nat hook output priority -100; }}"));
                // Holds the kernel's tracking of connections, also once the other rules are gone:
                // what is open needs it.
                add(format!("add rule {table} nat_in ct state established accept"));
                add(format!("add rule {table} nat_in fib daddr type != local jump redirected"));
                add(format!(
                    "add rule {table} nat_out fib daddr type != local meta mark != {} jump redirected",
                    rules.mark
                ));
                for condition in conditions(rules, listen.address.is_ipv4()) {
                    add(format!("add rule {table} redirected {family}{condition}redirect to :{port}"));
                }
            }
            Mode::Tproxy => {
                let ip = if listen.address.is_ipv4() { "ip" } else { "ip6" };
                add(format!("add chain {table} brought"));
                add(format!("add chain {table} mangle_in {{ type filter hook prerouting priority -150; }}"));
                add(format!(
                    "add rule {table} mangle_in meta l4proto tcp socket transparent 1 meta mark set {LOCAL} accept"
                ));
                add(format!("add rule {table} mangle_in fib daddr type != local jump brought"));
                for condition in conditions(rules, listen.address.is_ipv4()) {
                    add(format!(
                        "add rule {table} brought {family}{condition}tproxy {ip} to :{port} meta mark set {LOCAL} accept"
                    ));
                }
            }
        }
    }
    let mut once: Vec<String> = Vec::new();
    for line in lines {
        if !once.contains(&line) {
            once.push(line);
        }
    }
    once
}

/// Families of IP, as options of ip, in which TPROXY needs a route to this host.
pub fn families(rules: &Rules) -> Vec<&'static str> {
    let has = |v4: bool| rules.listen.iter().any(|l| l.mode == Mode::Tproxy && l.address.is_ipv4() == v4);
    [(true, "-4"), (false, "-6")].into_iter().filter(|(v4, _)| has(*v4)).map(|(_, option)| option).collect()
}

/// Words of `ip` that deliver here what TPROXY brings.
pub fn ip_lines(family: &str, verb: &str) -> [String; 2] {
    [
        format!("{family} rule {verb} fwmark {LOCAL} lookup {LOCAL}"),
        format!("{family} route {verb} local default dev lo table {LOCAL}"),
    ]
}

/// All lines, for people.
pub fn lines(rules: &Rules) -> Vec<String> {
    let mut all: Vec<String> = nft_lines(rules, false).iter().map(|line| format!("nft '{line}'")).collect();
    for family in families(rules) {
        all.extend(ip_lines(family, "add").iter().map(|line| format!("ip {line}")));
    }
    all
}

fn ip(words: &str) -> Result<(), String> {
    let out =
        Command::new("ip").args(words.split(' ')).output().map_err(|e| format!("cannot run `ip {words}`: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&out.stderr);
    // As one that was killed has left it.
    if words.contains(" add ") && text.contains("File exists") {
        return Ok(());
    }
    Err(format!("`ip {words}` fails: {}", text.trim()))
}

/// A process that takes the lines of ip back when this one ends, in whatever way: then its input
/// ends.
fn keeper(families: &[&str]) -> std::io::Result<Child> {
    let lines = families.iter().flat_map(|family| ip_lines(family, "del"));
    let back: Vec<String> = lines.map(|line| format!("ip {line} 2>/dev/null")).collect();
    Command::new("sh")
        .args(["-c", &format!("cat >/dev/null; {}", back.join("; "))])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C at the terminal is for this process, which may still have connections to finish.
        .process_group(0)
        .spawn()
}

/// Takes back the lines of ip that are left if the proxy's whole group of processes was killed. Not
/// while a proxy has its table.
pub fn undo(mut tell: impl FnMut(&str)) -> Result<(), String> {
    let table = Command::new("nft").args(["list", "table", "inet", TABLE]).output();
    if table.is_ok_and(|out| out.status.success()) {
        return Ok(());
    }
    for family in ["-4", "-6"] {
        let shown = Command::new("ip").args([family, "rule"]).output();
        let shown = shown.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
        if shown.contains(&format!("fwmark {LOCAL:#x} ")) {
            for line in ip_lines(family, "del") {
                ip(&line)?;
                tell(&format!("ip {line}: done"));
            }
        }
    }
    Ok(())
}

/// Connections come to the proxy as long as this is there.
#[derive(Debug)]
pub struct Divert {
    table: Held,
    chains: Vec<&'static str>,
    keeper: Option<Child>,
}

impl Divert {
    /// Takes CAP_NET_ADMIN, nft and ip.
    pub fn start(rules: &Rules) -> Result<Divert, String> {
        let lines = nft_lines(rules, true);
        let families = families(rules);
        // Its input ends with this process, or when the table is refused.
        let keeper = if families.is_empty() {
            None
        } else {
            Some(keeper(&families).map_err(|e| format!("--divert: cannot run sh: {e}"))?)
        };
        for family in families {
            for line in ip_lines(family, "add") {
                ip(&line)?;
            }
        }
        let wanted: usize = lines.iter().map(|line| diverting(line)).sum();
        let table = Held::start("--divert", &format!("inet {TABLE}"), &lines, |text| diverting(text) == wanted)
            .map_err(|e| format!("{e}; --lines prints the lines instead"))?;
        let chains = [(Mode::Redirect, "redirected"), (Mode::Tproxy, "brought")]
            .into_iter()
            .filter(|(mode, _)| rules.listen.iter().any(|l| l.mode == *mode))
            .map(|(_, chain)| chain)
            .collect();
        Ok(Divert { table, chains, keeper })
    }

    /// No new connections come; those that are there keep their way.
    pub fn end_new(&mut self) {
        let lines: Vec<String> = self.chains.iter().map(|chain| format!("flush chain inet {TABLE} {chain}")).collect();
        self.table.say(&lines);
    }
}

/// Statements in a text that bring connections.
fn diverting(text: &str) -> usize {
    text.matches("redirect to :").count() + text.matches("tproxy ip").count()
}

impl Drop for Divert {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            // Its input ends with this.
            let _ = keeper.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_divert_what_the_rules_mean_and_spare_the_proxy() {
        let rules = super::super::rules::read(
            "r.toml",
            "[[listen]]\naddress = \"0.0.0.0:99\"\nmode = \"redirect\"\n[[listen]]\naddress = \"[::]:98\"\nmode = \"tproxy\"\n\
             [[rule]]\nprefix = \"192.0.2.0/24\"\nport = 80\n[[rule]]\nsni = \"a.example\"\n",
            100,
        )
        .unwrap();
        let lines = lines(&rules);
        let has = |text: &str| assert!(lines.iter().any(|l| l.contains(text)), "{text}: {lines:#?}");
        has("redirected meta nfproto ipv4 ip daddr 192.0.2.0/24 tcp dport 80 redirect to :99");
        has("redirected meta nfproto ipv4 tcp dport 443 redirect to :99");
        has("nat_out fib daddr type != local meta mark != 24948 jump redirected");
        has("brought meta nfproto ipv6 tcp dport 443 tproxy ip6 to :98 meta mark set 24949 accept");
        has("ip -6 rule add fwmark 24949 lookup 24949");
        assert!(!lines.iter().any(|l| l.starts_with("ip -4")), "{lines:#?}");
    }
}
