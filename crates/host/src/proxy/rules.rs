//! The file of the proxy: where it listens, which connections get which target, and limits. Errors
//! name file, key, value and what is accepted.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use airtcp_core::units::{DataRate, Span};
use toml::{Table, Value};

/// How connections come to a listener, and where they are to go on to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Netfilter has changed the destination, and tells the one before.
    Redirect,
    /// Netfilter's TPROXY brings them with their destination unchanged.
    Tproxy,
    /// Clients know the proxy; all go on to this host.
    Forward(SocketAddr),
}

/// A place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Address and port.
    pub address: SocketAddr,
    /// How connections come.
    pub mode: Mode,
}

/// Which of the proxy's two connections have the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    /// That to the server: for what the client sends.
    Server,
    /// That to the client: for what the server sends.
    Client,
    /// Both.
    Both,
}

/// A rule: which connections, and their target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Addresses of the server: network and length.
    pub prefix: Option<(IpAddr, u8)>,
    /// Port of the server.
    pub port: Option<u16>,
    /// Name of the server in TLS, in small letters; with `*.` before it, all names that end so.
    pub sni: Option<String>,
    /// Payload rate of each connection; `None`: it passes through on the host's own congestion
    /// control.
    pub target: Option<DataRate>,
    /// The one of the two connections that has the target, or both.
    pub toward: Toward,
}

impl Rule {
    /// Fits a server, as far as its address goes.
    pub fn fits(&self, server: SocketAddr) -> bool {
        self.port.is_none_or(|port| port == server.port())
            && self.prefix.is_none_or(|prefix| is_within(server.ip(), prefix))
    }

    /// Fits the name that the client gave, if any.
    pub fn fits_name(&self, name: Option<&str>) -> bool {
        match (&self.sni, name) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(sni), Some(name)) => match sni.strip_prefix('*') {
                Some(end) => name.len() > end.len() && name.ends_with(end),
                None => name == sni,
            },
        }
    }
}

/// Lies in a network.
pub(crate) fn is_within(address: IpAddr, (network, length): (IpAddr, u8)) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let apart = bits(address) ^ bits(network);
    address.is_ipv4() == network.is_ipv4() && (length == 0 || apart >> (128 - u32::from(length)) == 0)
}

/// Address that stands for a client: all of an IPv4 address, or the network of 64 bits of an IPv6
/// address, since a host has all addresses of that.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => std::net::Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Limits of the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one client at once: an address of IPv4, or a network of IPv6 with 64 bits. A
    /// quarter of all, if the file has none.
    pub per_client: usize,
    /// How long a server may take to answer.
    pub connect_timeout: Duration,
    /// How long a client may take to name its server, where a rule asks for the name.
    pub hello_timeout: Duration,
    /// How long connections may go on after the proxy was told to end.
    pub drain: Duration,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Where it listens; at least one.
    pub listen: Vec<Listen>,
    /// The first that fits counts.
    pub rules: Vec<Rule>,
    /// Limits.
    pub limits: Limits,
    /// Netfilter mark of the proxy's own connections.
    pub mark: u32,
}

/// The mark of the proxy's own connections, if the file has none.
pub const MARK: u32 = 0x6174;

/// A table of the file, and how it is called there.
struct Section<'a> {
    name: String,
    table: &'a Table,
}

impl<'a> Section<'a> {
    fn wrong(&self, key: &str, accepted: &str) -> String {
        let name = if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        match self.table.get(key) {
            Some(value) => format!("{name} = {value}: must be {accepted}"),
            None => format!("{name} is missing: must be {accepted}"),
        }
    }

    fn only(&self, keys: &[&str]) -> Result<(), String> {
        let Some(unknown) = self.table.keys().find(|key| !keys.contains(&key.as_str())) else { return Ok(()) };
        let name = if self.name.is_empty() { unknown.clone() } else { format!("{}.{unknown}", self.name) };
        Err(format!("{name}: is no key here; accepted are {}", keys.join(", ")))
    }

    fn text(&self, key: &str, accepted: &str) -> Result<Option<&'a str>, String> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, accepted)),
        }
    }

    fn read<T>(
        &self,
        key: &str,
        accepted: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        self.text(key, accepted)?.map(|text| read(text).map_err(|_| self.wrong(key, accepted))).transpose()
    }

    fn number(&self, key: &str, low: i64, high: i64) -> Result<Option<i64>, String> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Integer(n)) if (low..=high).contains(n) => Ok(Some(*n)),
            Some(_) => Err(self.wrong(key, &format!("a number from {low} to {high}"))),
        }
    }

    fn span(&self, key: &str, otherwise: u64) -> Result<Duration, String> {
        let accepted = "a time from 1ms to 1h, as \"10s\"";
        let span = self.read(key, accepted, |text| {
            let span: Span = text.parse().map_err(|_| String::new())?;
            let range = Span::from_ms(1)..=Span::from_secs(3600);
            if range.contains(&span) { Ok(span) } else { Err(String::new()) }
        })?;
        Ok(Duration::from_nanos(span.unwrap_or(Span::from_secs(otherwise)).as_ns()))
    }
}

/// The tables `[[name]]`.
fn sections<'a>(file: &'a Table, name: &str) -> Result<Vec<Section<'a>>, String> {
    let Some(value) = file.get(name) else { return Ok(Vec::new()) };
    let wrong = || format!("{name} = {value}: must be tables that begin with [[{name}]]");
    let all = value.as_array().ok_or_else(wrong)?;
    all.iter()
        .enumerate()
        .map(|(at, one)| Ok(Section { name: format!("{name}[{at}]"), table: one.as_table().ok_or_else(wrong)? }))
        .collect()
}

fn listen(section: &Section) -> Result<Listen, String> {
    section.only(&["address", "mode", "to"])?;
    let accepted = "an address with a port, as \"0.0.0.0:24689\" or \"[::]:24689\"";
    let address: Option<SocketAddr> =
        section.read("address", accepted, |text| text.parse().map_err(|_| String::new()))?;
    let address = address.ok_or_else(|| section.wrong("address", accepted))?;
    let modes = "\"redirect\", \"tproxy\" or \"forward\"";
    let accepted = "a host with a port, as \"192.0.2.7:443\" or \"media.example.org:443\"";
    let mode = match section.text("mode", modes)? {
        Some("redirect") => Mode::Redirect,
        Some("tproxy") => Mode::Tproxy,
        Some("forward") => {
            let to = section.read("to", accepted, |text| match text.rsplit_once(':') {
                Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => crate::probe::address(text, 0),
                _ => Err(String::new()),
            })?;
            Mode::Forward(to.ok_or_else(|| section.wrong("to", accepted))?)
        }
        _ => return Err(section.wrong("mode", modes)),
    };
    if section.table.contains_key("to") && !matches!(mode, Mode::Forward(_)) {
        return Err(format!("{}.to: is only for mode = \"forward\"", section.name));
    }
    Ok(Listen { address, mode })
}

fn rule(section: &Section) -> Result<Rule, String> {
    section.only(&["prefix", "port", "sni", "target", "toward"])?;
    let name = "a server's name, as \"video.example.org\" or \"*.example.org\"";
    let towards = "\"server\", \"client\" or \"both\"";
    Ok(Rule {
        prefix: section
            .read("prefix", "a prefix, as \"192.0.2.0/24\" or \"2001:db8::/32\"", |text| {
                if text.contains('=') { Err(String::new()) } else { Ok(crate::av::Rule::of_prefix(text)?.prefix) }
            })?
            .flatten(),
        port: section.number("port", 1, 65_535)?.and_then(|port| u16::try_from(port).ok()),
        sni: section.read("sni", name, |text| {
            let plain = text.strip_prefix("*.").unwrap_or(text);
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let is_right = !plain.is_empty() && text.len() < 256 && plain.chars().all(is_name);
            if is_right { Ok(text.to_ascii_lowercase()) } else { Err(String::new()) }
        })?,
        target: section.read("target", "a rate from 1kbit/s to 100Gbit/s, as \"4Mbit/s\"", crate::av::target)?,
        toward: match section.text("toward", towards)? {
            None | Some("server") => Toward::Server,
            Some("client") => Toward::Client,
            Some("both") => Toward::Both,
            Some(_) => return Err(section.wrong("toward", towards)),
        },
    })
}

/// Reads the file's text; `name` is for messages. `most`: connections that this process can hold.
pub fn read(name: &str, text: &str, most: usize) -> Result<Rules, String> {
    let file: Table = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        format!("{name}: line {at}: {}", e.message().trim_end())
    })?;
    of_table(&file, most).map_err(|e| format!("{name}: {e}"))
}

fn of_table(file: &Table, most: usize) -> Result<Rules, String> {
    let top = Section { name: String::new(), table: file };
    top.only(&["listen", "rule", "limits", "mark"])?;
    let listens: Vec<Listen> = sections(file, "listen")?.iter().map(listen).collect::<Result<_, _>>()?;
    for (at, one) in listens.iter().enumerate() {
        let Mode::Forward(to) = one.mode else { continue };
        let leads_back = |other: &&Listen| {
            let (own, port) = (other.address.ip(), other.address.port());
            port == to.port() && (own == to.ip() || (own.is_unspecified() && to.ip().is_loopback()))
        };
        if let Some(other) = listens.iter().find(leads_back) {
            let own = other.address;
            return Err(format!("listen[{at}].to = \"{to}\": must be another place than the proxy's own, {own}"));
        }
    }
    if listens.is_empty() {
        return Err("listen is missing: at least one [[listen]] with address and mode must be there".to_owned());
    }
    let rules = sections(file, "rule")?.iter().map(rule).collect::<Result<_, _>>()?;
    let empty = Table::new();
    let limits = match file.get("limits") {
        None => &empty,
        Some(Value::Table(table)) => table,
        Some(value) => return Err(format!("limits = {value}: must be a table that begins with [limits]")),
    };
    let limits = Section { name: "limits".to_owned(), table: limits };
    limits.only(&["connections", "per_client", "connect_timeout", "hello_timeout", "drain"])?;
    let count = |key: &str, otherwise: usize| {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let n = limits.number(key, 1, most)?.and_then(|n| usize::try_from(n).ok());
        Ok::<usize, String>(n.unwrap_or(otherwise))
    };
    let connections = count("connections", most.min(4096))?;
    Ok(Rules {
        listen: listens,
        rules,
        limits: Limits {
            connections,
            per_client: count("per_client", (connections / 4).max(1))?,
            connect_timeout: limits.span("connect_timeout", 10)?,
            hello_timeout: limits.span("hello_timeout", 3)?,
            drain: limits.span("drain", 30)?,
        },
        mark: top.number("mark", 1, i64::from(u32::MAX))?.and_then(|n| u32::try_from(n).ok()).unwrap_or(MARK),
    })
}

impl Rules {
    /// Some rule that fits the server needs the name that the client gives, before another fits
    /// without.
    pub fn needs_name(&self, server: SocketAddr) -> bool {
        self.rules.iter().find(|rule| rule.fits(server)).is_some_and(|rule| rule.sni.is_some())
    }

    /// The number of the rule that counts.
    pub fn choose(&self, server: SocketAddr, name: Option<&str>) -> Option<usize> {
        self.rules.iter().position(|rule| rule.fits(server) && rule.fits_name(name))
    }

    /// Some rule has a target.
    pub fn has_targets(&self) -> bool {
        self.rules.iter().any(|rule| rule.target.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[listen]]
        address = "0.0.0.0:24689"
        mode = "redirect"
        [[listen]]
        address = "127.0.0.1:8443"
        mode = "forward"
        to = "192.0.2.7:443"
        [[rule]]
        prefix = "192.0.2.0/24"
        port = 443
        sni = "*.Example.org"
        target = "4Mbit/s"
        [[rule]]
        port = 443
        target = "6Mbit/s"
        toward = "both"
        [limits]
        per_client = 20
        drain = "5s"
    "#;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rules = read("rules.toml", FILE, 1000).unwrap();
        assert_eq!(rules.listen[1].mode, Mode::Forward("192.0.2.7:443".parse().unwrap()));
        assert_eq!((rules.limits.connections, rules.limits.per_client), (1000, 20));
        let plain = read("rules.toml", &FILE.replace("per_client = 20", ""), 1000).unwrap();
        assert_eq!(plain.limits.per_client, 250);
        assert_eq!((rules.limits.drain, rules.limits.hello_timeout), (Duration::from_secs(5), Duration::from_secs(3)));
        let (near, far, other) = ("192.0.2.9:443", "198.51.100.1:443", "192.0.2.9:80");
        let choose = |server: &str, name| rules.choose(server.parse().unwrap(), name);
        assert_eq!(choose(near, Some("a.example.org")), Some(0));
        assert_eq!(choose(near, Some("example.org")), Some(1), "the star stands for something");
        assert_eq!(choose(near, None), Some(1));
        assert_eq!(choose(far, Some("a.example.org")), Some(1));
        assert_eq!(choose(other, Some("a.example.org")), None);
        assert_eq!(choose("[2001:db8::1]:443", None), Some(1));
        let needs = |server: &str| rules.needs_name(server.parse().unwrap());
        assert_eq!((needs(near), needs(far), needs(other)), (true, false, false));
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let of = |text: &str| client(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!((of("192.0.2.1"), of("::ffff:192.0.2.1")), (of("192.0.2.1"), of("192.0.2.1")));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn the_rules_of_the_package_are_right() {
        let rules = read("proxy.toml", include_str!("../../systemd/proxy.toml"), 100).unwrap();
        assert!(rules.has_targets());
    }

    #[test]
    fn prefixes_of_both_families_are_told_apart() {
        let within =
            |ip: &str, network: &str, length| is_within(ip.parse().unwrap(), (network.parse().unwrap(), length));
        assert!(within("192.0.2.255", "192.0.2.0", 24) && !within("192.0.3.0", "192.0.2.0", 24));
        assert!(within("8.8.8.8", "0.0.0.0", 0) && !within("::1", "0.0.0.0", 0));
        assert!(within("2001:db8:ffff::1", "2001:db8::", 32) && !within("2001:db9::", "2001:db8::", 32));
        assert!(within("192.0.2.1", "192.0.2.1", 32) && !within("192.0.2.2", "192.0.2.1", 32));
    }

    #[test]
    fn a_wrong_file_is_refused_by_name_key_value_and_what_is_accepted() {
        let listen = "[[listen]]\naddress = \"0.0.0.0:1\"\nmode = \"redirect\"\n";
        for (text, says) in [
            ("x = [", "r.toml: line 1: "),
            ("", "r.toml: listen is missing"),
            ("listen = 3", "listen = 3: must be tables that begin with [[listen]]"),
            ("[[listen]]\nmode = \"redirect\"", "listen[0].address is missing: must be an address with a port"),
            ("[[listen]]\naddress = \"x\"\nmode = \"redirect\"", "listen[0].address = \"x\": must be"),
            ("[[listen]]\naddress = \"0.0.0.0:1\"\nmode = \"nat\"", "listen[0].mode = \"nat\": must be \"redirect\""),
            ("[[listen]]\naddress = \"0.0.0.0:1\"\nmode = \"forward\"", "listen[0].to is missing"),
            (
                "[[listen]]\naddress = \"0.0.0.0:1\"\nmode = \"forward\"\nto = \"x\"",
                "listen[0].to = \"x\": must be a host",
            ),
            (&format!("{listen}to = \"x:1\""), "listen[0].to: is only for"),
            (
                "[[listen]]\naddress = \"0.0.0.0:7\"\nmode = \"forward\"\nto = \"127.0.0.1:7\"",
                "listen[0].to = \"127.0.0.1:7\": must be another place than the proxy's own, 0.0.0.0:7",
            ),
            (&format!("{listen}[[rule]]\nprefx = 3"), "rule[0].prefx: is no key here; accepted are prefix, port"),
            (&format!("{listen}[[rule]]\nprefix = \"192.0.2.0/33\""), "rule[0].prefix = \"192.0.2.0/33\": must be"),
            (&format!("{listen}[[rule]]\nprefix = \"192.0.2.0/24=1Mbit/s\""), "must be a prefix"),
            (&format!("{listen}[[rule]]\nport = 0"), "rule[0].port = 0: must be a number from 1 to 65535"),
            (&format!("{listen}[[rule]]\nport = \"80\""), "rule[0].port = \"80\": must be a number"),
            (&format!("{listen}[[rule]]\nsni = \"a b\""), "rule[0].sni = \"a b\": must be a server's name"),
            (&format!("{listen}[[rule]]\ntarget = \"fast\""), "rule[0].target = \"fast\": must be a rate from 1kbit/s"),
            (&format!("{listen}[[rule]]\ntoward = \"up\""), "rule[0].toward = \"up\": must be \"server\""),
            (
                &format!("{listen}[limits]\nconnections = 101"),
                "limits.connections = 101: must be a number from 1 to 100",
            ),
            (&format!("{listen}[limits]\ndrain = \"2h\""), "limits.drain = \"2h\": must be a time from 1ms to 1h"),
            (&format!("limits = 1\n{listen}"), "limits = 1: must be a table"),
            (&format!("mark = 0\n{listen}"), "mark = 0: must be a number from 1"),
        ] {
            let said = read("r.toml", text, 100).unwrap_err();
            assert!(said.starts_with("r.toml: ") && said.contains(says), "{text}: {said}");
        }
    }
}
