//! `airtcp-host coop`: the cooperative daemon of `airtcp_core::coop` on a real host.
//!
//! The kernel is read ten times a second. A cap is a lease that the kernel lets run out: a daemon
//! that is gone caps nobody after [`LEASE`]. Announcements go by UDP broadcast and to all nodes of
//! IPv6 (ff02::1), in the format of the simulator.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use airtcp_core::coop::{ANNOUNCEMENT_BYTES, Announcement, TerminalId};
use airtcp_core::units::{Span, Time};

use crate::paths::wifi::Bssid;
use crate::sys;

pub mod sources;

/// UDP port of announcements.
pub const PORT: u16 = 24_687;
/// Hops that an announcement has left: the most, so that none came over a router.
const HOPS: i32 = 255;
/// Parameters of which a real host has another default than the study, and why.
///
/// - `stop_cap`: a real receiver delays the ACK of a single segment by up to 40 ms.
/// - `min_cap`: the least window with three duplicate ACKs after a loss. Forged announcements bring
///   no cap below it.
pub const DEFAULTS: [(&str, u32); 2] = [("stop_cap", 2), ("min_cap", 4)];
/// How long a cap lasts without being renewed.
pub const LEASE: Duration = Duration::from_millis(500);

/// Mark behind an announcement where the access point is known: these two bytes come before its
/// BSSID.
const SCOPE: [u8; 2] = *b"AP";

/// An announcement with the access point that it is about.
pub fn with_scope(announcement: &[u8], bssid: Option<Bssid>) -> Vec<u8> {
    let mut all = announcement.to_vec();
    if let Some(bssid) = bssid {
        all.extend(SCOPE);
        all.extend(bssid);
    }
    all
}

/// A datagram as announcement and access point.
pub fn scope(datagram: &[u8]) -> (&[u8], Option<Bssid>) {
    let Some((announcement, scope)) = datagram.split_at_checked(ANNOUNCEMENT_BYTES) else { return (datagram, None) };
    match (scope.strip_prefix(&SCOPE), scope) {
        (_, []) => (announcement, None),
        (Some(bssid), _) if bssid.len() == 6 => (announcement, bssid.try_into().ok()),
        _ => (datagram, None),
    }
}

/// Delivery rates that others announce. Their sum counts up to this terminal's own rate at most:
/// they serve its own window, which needs no more.
#[derive(Debug, Default)]
pub struct Claims {
    known: BTreeMap<TerminalId, (u32, Time)>,
    expire_after: Span,
}

impl Claims {
    /// A claim is forgotten after `expire_after`.
    pub fn new(expire_after: Span) -> Claims {
        Claims { known: BTreeMap::new(), expire_after }
    }

    /// The announcement as far as it is believed; `rate_kbps`: this terminal's own, if it is known.
    pub fn bounded(&mut self, now: Time, mut announcement: Announcement, rate_kbps: Option<u64>) -> Announcement {
        let expire_after = self.expire_after;
        self.known.retain(|_, (_, heard)| now.since(*heard) < expire_after);
        self.known.remove(&announcement.sender);
        if let (Some(claim), Some(rate)) = (announcement.throughput_kbps, rate_kbps) {
            let others: u64 = self.known.values().map(|(kbps, _)| u64::from(*kbps)).sum();
            let believed = u64::from(claim).min(rate.saturating_sub(others));
            announcement.throughput_kbps = u32::try_from(believed).ok();
        }
        if let Some(kbps) = announcement.throughput_kbps {
            self.known.insert(announcement.sender, (kbps, now));
        }
        announcement
    }
}

/// Rate of a wired interface by its file in /sys, in Mbit/s: kbit/s. `None`: it has none.
pub fn wired_kbps(speed: &str) -> Option<u64> {
    speed.trim().parse::<u64>().ok().filter(|mbps| *mbps > 0).map(|mbps| mbps * 1000)
}

/// Both share an access point, as far as they know theirs. Without nl80211 the subnet is the scope.
pub fn shares(own: Option<Bssid>, other: Option<Bssid>) -> bool {
    own.is_none() || other.is_none() || own == other
}

/// Other hosts that the kernel knows on an interface, of `/proc/net/arp` and `/proc/net/route`.
/// Gateways are not counted.
pub fn neighbours(arp: &str, routes: &str, interface: &str) -> usize {
    let gateways: Vec<Ipv4Addr> = routes
        .lines()
        .filter_map(|line| u32::from_str_radix(line.split_whitespace().nth(2)?, 16).ok())
        .map(|bits| Ipv4Addr::from(bits.to_ne_bytes()))
        .collect();
    arp.lines()
        .filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [address, _, flags, _, _, device] = fields[..] else { return false };
            let is_complete = flags.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
            device == interface
                && is_complete.is_some_and(|flags| flags & 2 != 0)
                && address.parse::<Ipv4Addr>().is_ok_and(|address| !gateways.contains(&address))
        })
        .count()
}

/// Why nobody was heard, as far as the kernel's neighbours tell.
pub fn silence(neighbours: usize) -> String {
    if neighbours == 0 {
        "no other terminal was heard in 30 announcements, and no host but the gateway answers here: none is there, or the access point keeps its clients apart (client isolation). Then nobody can be counted".to_owned()
    } else {
        format!(
            "no other terminal was heard in 30 announcements; {neighbours} other hosts answer here, so the access point does not keep its clients apart: none of them runs the daemon"
        )
    }
}

/// The sockets of announcements on one interface.
#[derive(Debug)]
pub struct Radio {
    v4: UdpSocket,
    v6: Option<UdpSocket>,
    interface: u32,
    port: u16,
}

impl Radio {
    /// Bound to the interface `name`.
    pub fn open(name: &str, port: u16) -> Result<Radio, String> {
        let interface = sys::interface_index(name)
            .ok_or_else(|| format!("--interface {name}: there is no interface of that name; `ip link` lists them"))?;
        let fault = |what: &str, e: &io::Error| format!("--interface {name}, --udp-port {port}: cannot {what}: {e}");
        // To the interface first: daemons of two interfaces have the same port.
        let v4 = UdpSocket::from(sys::udp_at(Some(name), false, port).map_err(|e| {
            let hint =
                if e.kind() == io::ErrorKind::AddrInUse { "; another daemon runs on this interface" } else { "" };
            format!("{}{hint}", fault("bind", &e))
        })?);
        // Whoever hears it knows by this that no router was on its way.
        let hops = |fd, level, option| sys::set_option(fd, level, option, HOPS);
        v4.set_broadcast(true)
            .and_then(|()| v4.set_nonblocking(true))
            .and_then(|()| hops(v4.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TTL))
            .map_err(|e| fault("broadcast", &e))?;
        let v6 = sys::udp_at(Some(name), true, port).ok().map(UdpSocket::from).filter(|v6| {
            v6.join_multicast_v6(&Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), interface).is_ok()
                && v6.set_nonblocking(true).is_ok()
                && hops(v6.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS).is_ok()
        });
        Ok(Radio { v4, v6, interface, port })
    }

    /// Sends to all on the link. A datagram that cannot be sent is lost, as on the air.
    pub fn broadcast(&self, datagram: &[u8]) -> io::Result<()> {
        let sent = self.v4.send_to(datagram, (Ipv4Addr::BROADCAST, self.port)).map(drop);
        if let Some(v6) = &self.v6 {
            let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let also = v6.send_to(datagram, SocketAddr::V6(SocketAddrV6::new(all, self.port, 0, self.interface)));
            return sent.or(also.map(drop));
        }
        sent
    }

    /// From now on the filter `program` takes what comes in, and the sockets have nothing.
    pub fn hear_by(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let mut old = [0; 64];
        for socket in [Some(&self.v4), self.v6.as_ref()].into_iter().flatten() {
            sys::attach_filter(socket.as_raw_fd(), program)?;
            while socket.recv_from(&mut old).is_ok() {}
        }
        Ok(())
    }

    /// Number of the interface.
    pub fn interface(&self) -> u32 {
        self.interface
    }
}

/// One connection as the kernel's side reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Name in the kernel.
    pub cookie: u64,
    /// Interface that it sends on.
    pub interface: u32,
    /// Its own address; one of IPv4 as such.
    pub near: IpAddr,
    /// Acknowledged since it began, bytes.
    pub acked_bytes: u64,
    /// Written and not acknowledged, bytes.
    pub outstanding_bytes: u64,
    /// Congestion window, segments.
    pub cwnd: u64,
    /// Slow-start threshold, segments.
    pub ssthresh: u64,
    /// Smoothed round-trip time, us.
    pub srtt_us: u64,
    /// The latest, us; 0: none.
    pub rtt_us: u64,
    /// Cap and end of its lease, ns; 0: none.
    pub lease: (u64, u64),
    /// Congestion control.
    pub control: String,
}

/// A connection without a route, as after a timeout or when its address has gone, is where it was.
/// `places`: where each was last.
pub fn stay(readings: &mut [Reading], places: &mut BTreeMap<u64, u32>) {
    for r in readings.iter_mut().filter(|r| r.interface == 0) {
        r.interface = places.get(&r.cookie).copied().unwrap_or(0);
    }
    *places = readings.iter().map(|r| (r.cookie, r.interface)).collect();
}

/// Bytes of a reading.
pub const READING_BYTES: usize = 18 * 8;

/// An address of two words as the kernel has them; of IPv4 in the second.
fn near(family: u64, high: u64, low: u64) -> IpAddr {
    if family == 2 {
        let bits = u32::try_from(low).unwrap_or(0);
        return Ipv4Addr::from(bits.to_ne_bytes()).into();
    }
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&high.to_ne_bytes());
    octets[8..].copy_from_slice(&low.to_ne_bytes());
    IpAddr::from(octets).to_canonical()
}

impl Reading {
    /// Reads the bytes that the kernel's side writes.
    pub fn read(bytes: &[u8]) -> Option<Reading> {
        let w = crate::words::words(bytes.get(..READING_BYTES)?);
        let name = &bytes[16 * 8..];
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        Some(Reading {
            cookie: w[0],
            interface: u32::try_from(w[1]).unwrap_or(0),
            near: near(w[11], w[12], w[13]),
            acked_bytes: w[2],
            outstanding_bytes: w[3],
            cwnd: w[4],
            ssthresh: w[5],
            srtt_us: w[6],
            rtt_us: w[7],
            lease: (w[9], w[10]),
            control: String::from_utf8_lossy(name).into_owned(),
        })
    }
}

/// Names of this daemon's wrappers. Each daemon has its own, since the kernel has one list of
/// controls for all namespaces, and since a wrapper whose daemon is gone obeys nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    suffix: String,
}

/// The kernel's controls that have a wrapper.
const BASES: [&str; 3] = ["cubic", "reno", "bbr"];

impl Names {
    /// Makes names from random bits.
    pub fn new(bits: u64) -> Names {
        const SIGNS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let sign = |n: u64| char::from(SIGNS[usize::try_from(bits / n % 36).unwrap_or(0)]);
        Names { suffix: [1, 36, 36 * 36].map(sign).iter().collect() }
    }

    /// The wrapper of one of the kernel's controls; it has at most the 15 characters that Linux
    /// takes.
    pub fn of(&self, base: &str) -> String {
        format!("airtcp_{base}{}", self.suffix)
    }

    /// The kernel's control behind `control`, its wrapper, and whether that is the one. `None`: it
    /// has none. A wrapper of another daemon is taken over: whoever put it there is gone.
    pub fn wrapper(&self, control: &str) -> Option<(&'static str, String, bool)> {
        let base = BASES.into_iter().find(|base| {
            let behind = control.strip_prefix("airtcp_").and_then(|rest| rest.strip_prefix(base));
            control == *base || behind.is_some_and(|suffix| suffix.len() == self.suffix.len())
        })?;
        let name = self.of(base);
        Some((base, name.clone(), name == control))
    }
}

#[cfg(feature = "bpf")]
pub use kernel::{Kernel, Order, run};

#[cfg(feature = "bpf")]
mod kernel {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::io::Read;
    use std::os::fd::AsFd;

    use airtcp_core::coop::{Announcement, BwMax, CoopConfig, Daemon, FlowId, FlowSample};
    use airtcp_core::rng::{Purpose, Stream};
    use libbpf_rs::{Iter, Link, MapCore, MapHandle, RingBufferBuilder};

    use super::sources::{Heard, Neighbour, Sources};
    use super::{
        BTreeMap, Claims, Duration, IpAddr, LEASE, Names, READING_BYTES, Radio, Reading, Span, TerminalId, Time,
        neighbours, scope, shares, silence, stay, sys, with_scope,
    };
    use crate::load::{Loaded, NAME_BYTES, Refusal, load_named, objects, put};
    use crate::paths::change::{Change, Whose};
    use crate::rights::{BBR, Capability, STRUCT_OPS};
    use crate::sys::monotonic as now;

    /// The kernel's side: readings, and caps as leases.
    #[derive(Debug)]
    pub struct Kernel {
        commands: MapHandle,
        pass: Link,
        names: Names,
        _controls: [Link; 2],
        /// BBR's own object, where the kernel has BBR.
        bbr: Result<(Link, Loaded), Refusal>,
        loaded: Loaded,
    }

    impl Kernel {
        /// Loads it and registers the wrappers of CUBIC and Reno.
        pub fn start() -> Result<Kernel, Refusal> {
            let mut tries = 0;
            loop {
                let bits = sys::random().map_err(|e| Refusal(format!("coop: no random bits for names: {e}")))?;
                match Kernel::start_as(Names::new(bits)) {
                    // Another daemon has drawn the same name.
                    Err(why) if tries < 3 && why.0.contains("has registered") => tries += 1,
                    result => return result,
                }
            }
        }

        fn start_as(names: Names) -> Result<Kernel, Refusal> {
            let capabilities = [Capability::Bpf, Capability::Perfmon];
            let of = |base: &str| (format!("airtcp_{base}"), names.of(base));
            let (cubic, reno, bbr) = (of("cubic"), of("reno"), of("bbr"));
            let own = [(cubic.0.as_str(), cubic.1.clone()), (reno.0.as_str(), reno.1.clone())];
            let mut loaded = load_named("coop", objects::COOP, STRUCT_OPS, &capabilities, &[], &own)?;
            // A kernel without BBR has no connections on it.
            let leases = loaded.map("leases")?;
            let own = [(bbr.0.as_str(), bbr.1.clone())];
            let bbr = load_named("coop", objects::COOP_BBR, BBR, &capabilities, &[("leases", &leases)], &own)
                .and_then(|mut loaded| Ok((loaded.register(&bbr.0)?, loaded)));
            let controls = [loaded.register(&cubic.0)?, loaded.register(&reno.0)?];
            Ok(Kernel {
                commands: loaded.map("commands")?,
                pass: loaded.attach("pass")?,
                names,
                _controls: controls,
                bbr,
                loaded,
            })
        }

        /// Connections on BBR can be capped.
        pub fn has_bbr(&self) -> bool {
            self.bbr.is_ok()
        }

        /// Ring of what is heard.
        pub fn announcements(&self) -> Result<MapHandle, Refusal> {
            self.loaded.map("announcements")
        }

        /// Announcements that come in on the sockets go to the ring.
        pub fn hear(&self, radio: &Radio) -> Result<(), Refusal> {
            let program = self.loaded.program("hear")?;
            radio.hear_by(program.as_fd()).map_err(|e| Refusal(format!("coop: cannot filter announcements: {e}")))
        }

        /// Goes over all connections of this namespace: carries out commands, and reads.
        pub fn pass(&self) -> Result<Vec<Reading>, Refusal> {
            let fault = |e: &dyn std::error::Error| Refusal(format!("coop: cannot read the connections: {e}"));
            let mut bytes = Vec::new();
            let mut pass = Iter::new(&self.pass).map_err(|e| fault(&e))?;
            pass.read_to_end(&mut bytes).map_err(|e| fault(&e))?;
            Ok(bytes.chunks_exact(READING_BYTES).filter_map(Reading::read).collect())
        }

        /// At the next pass: a lease for a connection, and the control that it is to have; empty:
        /// the one that it has.
        pub fn command(&self, cookie: u64, cap: u64, until: Time, control: &str) -> Result<(), Refusal> {
            let mut name = [0; NAME_BYTES];
            name.iter_mut().zip(control.bytes().take(NAME_BYTES - 1)).for_each(|(to, byte)| *to = byte);
            let words = crate::words::words(&name);
            put(&self.commands, &cookie.to_ne_bytes(), &[cap, until.as_ns(), words[0], words[1]])
        }

        /// Names of the wrappers.
        pub fn names(&self) -> &Names {
            &self.names
        }

        /// No command for a connection any more.
        pub fn forget(&self, cookie: u64) {
            let _ = self.commands.delete(&cookie.to_ne_bytes());
        }
    }

    /// Options of `airtcp-host coop`.
    #[derive(Debug, Clone)]
    pub struct Order {
        /// Parameters of the daemon.
        pub config: CoopConfig,
        /// Name of the interface.
        pub interface: String,
        /// UDP port of announcements.
        pub port: u16,
    }

    /// Runs until `has_ended` says so; then leaves, and lifts all caps.
    pub fn run(order: &Order, has_ended: impl Fn() -> bool, mut tell: impl FnMut(&str)) -> Result<(), Refusal> {
        let radio = Radio::open(&order.interface, order.port).map_err(Refusal)?;
        let kernel = Kernel::start()?;
        let mut watch = crate::paths::Watch::new()
            .map_err(|e| Refusal(format!("coop: cannot hear of changes of the path: {e}")))?;
        let bits = sys::random().map_err(|e| Refusal(format!("coop: no random bits for a name: {e}")))?;
        let id = TerminalId::new(bits.max(1)).expect("not zero");
        let rng = Stream::new(bits, 0, Purpose::Coop).open();
        let mut daemon = Daemon::new(order.config.clone(), id, rng, now());
        let mut sources = Sources::new(order.config.expire_after, usize::from(order.config.max_peers));
        let mut caps = Vec::new();
        let mut capped: BTreeMap<u64, u64> = BTreeMap::new();
        let mut left_alone: BTreeMap<String, ()> = BTreeMap::new();
        let mut connections: Vec<(FlowId, IpAddr)> = Vec::new();
        let mut places = BTreeMap::new();
        let (mut announced, mut is_alone_told, mut heard) = (0u32, false, false);
        let waiting = RefCell::new(VecDeque::new());
        let map = kernel.announcements()?;
        let mut ring = RingBufferBuilder::new();
        let no_ring = |e: libbpf_rs::Error| Refusal(format!("coop: cannot hear announcements: {e}"));
        ring.add(&map, |bytes| {
            waiting.borrow_mut().extend(Heard::read(bytes));
            0
        })
        .map_err(no_ring)?;
        let ring = ring.build().map_err(no_ring)?;
        kernel.hear(&radio)?;
        let has_links = sys::has_link_addresses(&order.interface);
        let mut fds = vec![ring.epoll_fd()];
        fds.extend(watch.fds());
        let mut own = Own::read(&watch, order, radio.interface());
        tell(&format!("terminal {:016x} on {}, UDP port {}", id.get(), order.interface, order.port));
        if let Err(why) = &kernel.bbr {
            tell(&format!("connections on BBR cannot be capped here: {why}"));
        }
        tell(&about_scope(own.bssid, watch.hears_wifi()));
        if order.config.bw_max == BwMax::Learn {
            tell(&own.about_rate(&order.config));
        }
        let mut claims = Claims::new(order.config.expire_after);
        let mut read_at = now();
        while !has_ended() {
            let wait = Duration::from_nanos(daemon.deadline().since(now()).as_ns()).min(Duration::from_millis(200));
            let wait = watch.wait(now(), wait);
            sys::readable(&fds, wait).map_err(|e| Refusal(format!("coop: cannot wait: {e}")))?;
            // At most as many as a full air carries in a sampling interval: a flood must not keep
            // the daemon from its work.
            let _ = ring.consume_raw_n(1000);
            for Heard { from, link, datagram } in waiting.take() {
                let (announcement, other) = scope(&datagram);
                let Ok(a) = Announcement::decode(announcement) else { continue };
                let neighbour = Neighbour::new(has_links.then_some(link), from);
                if shares(own.bssid, other) && a.sender != id && sources.admit(now(), neighbour, a.sender) {
                    heard = true;
                    let believed = claims.bounded(now(), a, own.kbps);
                    let _ = if believed == a {
                        daemon.on_announcement(now(), announcement)
                    } else {
                        daemon.on_announcement(now(), &believed.encode())
                    };
                }
            }
            watch.read(now());
            let concerned = |change: Change| {
                let is_here = change.interface == radio.interface();
                connections.iter().filter(move |(_, near)| is_here && change.concerns(*near))
            };
            for change in watch.due(now(), |change| concerned(change).next().is_some()) {
                if change.interface != radio.interface() {
                    continue;
                }
                if change.whose == Whose::All {
                    daemon.on_path_change();
                    sources = Sources::new(order.config.expire_after, usize::from(order.config.max_peers));
                    own = Own::read(&watch, order, radio.interface());
                    claims = Claims::new(order.config.expire_after);
                    tell("the path has changed: round-trip times and terminals are learnt anew");
                } else {
                    concerned(change).for_each(|(flow, _)| daemon.on_flow_path_change(*flow));
                    let count = concerned(change).count();
                    tell(&format!("the path of {count} connections has changed: round-trip times are learnt anew"));
                }
            }
            // The rate of a radio follows its signal: the greatest since the path was new counts.
            if now().since(read_at) >= Span::from_secs(5) {
                read_at = now();
                own.kbps = own.kbps.max(Own::read(&watch, order, radio.interface()).kbps);
            }
            if now() >= daemon.sample_at() {
                let mut readings = kernel.pass()?;
                stay(&mut readings, &mut places);
                readings.retain(|r| r.interface == radio.interface());
                connections = readings.iter().map(|r| (FlowId(r.cookie), r.near)).collect();
                let samples: Vec<FlowSample> = readings.iter().map(sample).collect();
                daemon.on_sample(now(), &samples, &mut caps);
                let until = now() + sys::span(LEASE);
                let mut still = BTreeMap::new();
                for (reading, cap) in readings.iter().zip(&caps) {
                    let wrapper = kernel.names().wrapper(&reading.control);
                    match (cap, wrapper.filter(|(base, ..)| *base != "bbr" || kernel.has_bbr())) {
                        (Some(cap), Some((_, name, has_it))) => {
                            let control = if has_it { "" } else { &name };
                            // There is room for 4096. A connection more has no cap.
                            if kernel.command(reading.cookie, u64::from(*cap), until, control).is_ok() {
                                still.insert(reading.cookie, u64::from(*cap));
                            }
                        }
                        (Some(_), None) if left_alone.insert(reading.control.clone(), ()).is_none() => {
                            tell(&format!(
                                "connections on {} are left alone: {} can be capped",
                                reading.control,
                                if kernel.has_bbr() { "CUBIC, Reno and BBR" } else { "only CUBIC and Reno" }
                            ));
                        }
                        _ => kernel.forget(reading.cookie),
                    }
                }
                for cookie in capped.keys().filter(|cookie| !still.contains_key(cookie)) {
                    kernel.forget(*cookie);
                }
                if still.len() != capped.len() {
                    tell(&format!(
                        "{} of {} connections capped, {} terminals send",
                        still.len(),
                        readings.len(),
                        daemon.terminals()
                    ));
                }
                capped = still;
            }
            if let Some(datagram) = daemon.on_deadline(now()) {
                announced = announced.saturating_add(1);
                if let Err(e) = radio.broadcast(&with_scope(&datagram, own.bssid)) {
                    tell(&format!("cannot announce: {e}"));
                }
                if announced == 30 && !heard && !is_alone_told {
                    is_alone_told = true;
                    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
                    let (arp, routes) = (read("/proc/self/net/arp"), read("/proc/self/net/route"));
                    tell(&silence(neighbours(&arp, &routes, &order.interface)));
                }
            }
        }
        let _ = radio.broadcast(&with_scope(&daemon.leave(now()), own.bssid));
        for reading in kernel.pass()? {
            if let Some((base, _, true)) = kernel.names().wrapper(&reading.control) {
                kernel.command(reading.cookie, 0, Time::ZERO, base)?;
            }
        }
        kernel.pass()?;
        Ok(())
    }

    /// Facts that this terminal knows of its own radio.
    struct Own {
        bssid: Option<crate::paths::wifi::Bssid>,
        kbps: Option<u64>,
    }

    impl Own {
        fn read(watch: &crate::paths::Watch, order: &Order, interface: u32) -> Own {
            if let Some(ap) = watch.access_point(interface) {
                return Own { bssid: Some(ap.bssid), kbps: ap.kbps };
            }
            let speed = std::fs::read_to_string(format!("/sys/class/net/{}/speed", order.interface));
            Own { bssid: None, kbps: super::wired_kbps(&speed.unwrap_or_default()) }
        }

        fn about_rate(&self, config: &CoopConfig) -> String {
            match self.kbps {
                Some(kbps) => format!(
                    "what others say that they deliver is believed up to this terminal's own rate, {} Mbit/s now",
                    kbps / 1000
                ),
                None => format!(
                    "this terminal's own rate is not known: what is learnt is bounded by learn_max alone, {}",
                    config.learn_max
                ),
            }
        }
    }

    fn about_scope(bssid: Option<crate::paths::wifi::Bssid>, hears_wifi: bool) -> String {
        match bssid {
            Some(b) => {
                let text: Vec<String> = b.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("terminals of the access point {} count", text.join(":"))
            }
            None if hears_wifi => "the interface has no access point: all terminals of the subnet count".to_owned(),
            None => "this kernel has no nl80211: all terminals of the subnet count".to_owned(),
        }
    }

    fn sample(reading: &Reading) -> FlowSample {
        let span = |us: u64| (us > 0).then(|| Span::from_us(us));
        FlowSample {
            id: FlowId(reading.cookie),
            // Smoothed, as the simulated daemons read it: the latest alone reaches a threshold more
            // often. But the
            // least is of the latest. A daemon that begins on a full queue sees a short one at once
            // when it comes.
            rtt: span(reading.srtt_us),
            least_rtt: span(reading.rtt_us),
            delivered_bytes: reading.acked_bytes,
            sending: reading.outstanding_bytes > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_of_another_access_point_are_told_apart() {
        let announcement = [7; ANNOUNCEMENT_BYTES];
        let (near, far) = (Some([2, 0, 0, 0, 0, 1]), Some([2, 0, 0, 0, 0, 2]));
        for bssid in [None, near] {
            assert_eq!(scope(&with_scope(&announcement, bssid)), (&announcement[..], bssid));
        }
        for length in [0, 23, 25, 26, 31, 33, 500] {
            let (rest, bssid) = scope(&[7; 500][..length]);
            assert_eq!((rest.len(), bssid), (length, None), "{length} bytes are no announcement");
        }
        assert!(shares(near, near) && shares(None, near) && shares(near, None) && !shares(near, far));
    }

    #[test]
    fn neighbours_are_hosts_that_answer_and_no_gateways() {
        let arp = "IP address       HW type     Flags       HW address            Mask     Device\n\
                   192.168.1.1      0x1         0x2         02:00:00:00:00:01     *        wlan0\n\
                   192.168.1.7      0x1         0x2         02:00:00:00:00:07     *        wlan0\n\
                   192.168.1.8      0x1         0x0         00:00:00:00:00:00     *        wlan0\n\
                   10.0.0.8         0x1         0x2         02:00:00:00:00:08     *        eth0\n";
        let gateway = format!("{:08X}", u32::from_ne_bytes([192, 168, 1, 1]));
        let routes = format!("Iface\tDestination\tGateway \tFlags\nwlan0\t00000000\t{gateway}\t0003\n");
        assert_eq!(neighbours(arp, &routes, "wlan0"), 1);
        assert_eq!(neighbours(arp, &routes, "eth0"), 1);
        assert_eq!(neighbours(arp, &routes, "wlan1"), 0);
        assert_eq!(neighbours("nonsense", "", "wlan0"), 0);
        assert!(silence(0).contains("client isolation"));
        assert!(silence(2).contains("2 other hosts answer here") && !silence(2).contains("isolation"));
    }

    fn claim(sender: u64, kbps: u32) -> Announcement {
        Announcement {
            sender: TerminalId::new(sender).unwrap(),
            sequence: 1,
            flows: 1,
            leaving: false,
            correcting: false,
            throughput_kbps: Some(kbps),
        }
    }

    #[test]
    fn claims_are_believed_up_to_the_own_rate() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut c = Claims::new(Span::from_secs(3));
        let mut believed = |ms, sender, kbps| c.bounded(at(ms), claim(sender, kbps), Some(54_000)).throughput_kbps;
        assert_eq!(believed(0, 1, 20_000), Some(20_000));
        assert_eq!(believed(1, 2, u32::MAX), Some(34_000), "what is left");
        assert_eq!(believed(2, 3, 5_000), Some(0));
        assert_eq!(believed(3, 2, 10_000), Some(10_000), "its own claim before is not counted");
        assert_eq!(believed(4, 3, u32::MAX), Some(24_000));
        assert_eq!(believed(4_000, 3, u32::MAX), Some(54_000), "the others are forgotten");
        assert_eq!(c.bounded(at(5_000), claim(9, 7), None), claim(9, 7), "an unknown rate bounds nothing");
        assert_eq!((wired_kbps("1000\n"), wired_kbps("-1\n"), wired_kbps("")), (Some(1_000_000), None, None));
    }

    proptest::proptest! {
        #[test]
        fn all_claims_together_are_bounded(all in proptest::collection::vec((1u64..9, 0u32..200_000, 0u64..900), 1..60), rate in 0u64..300_000) {
            let (mut c, mut now, mut believed) = (Claims::new(Span::from_secs(3)), Time::ZERO, BTreeMap::new());
            for (sender, kbps, ms) in all {
                now += Span::from_ms(ms);
                let kbps = c.bounded(now, claim(sender, kbps), Some(rate)).throughput_kbps.unwrap();
                believed.insert(sender, (kbps, now));
                believed.retain(|_, (_, at)| now.since(*at) < Span::from_secs(3));
                proptest::prop_assert!(believed.values().map(|(kbps, _)| u64::from(*kbps)).sum::<u64>() <= rate);
            }
        }
    }

    #[test]
    fn wrappers_of_other_daemons_are_taken_over() {
        let names = Names::new(36 * 36 * 2 + 36 + 27);
        assert_eq!((names.of("cubic").as_str(), names.of("cubic").len()), ("airtcp_cubic1bc", 15));
        let wrapper = |control: &str| names.wrapper(control).map(|(base, name, has_it)| (base, name.len(), has_it));
        assert_eq!(wrapper("cubic"), Some(("cubic", 15, false)));
        assert_eq!(wrapper("airtcp_cubic1bc"), Some(("cubic", 15, true)));
        assert_eq!(wrapper("airtcp_cubic1bd"), Some(("cubic", 15, false)), "of another daemon");
        assert_eq!(wrapper("bbr"), Some(("bbr", 13, false)));
        for other in ["", "airtcp_av", "dctcp", "airtcp_", "airtcp_cubic", "cubicx", "airtcp_renoxyzw"] {
            assert_eq!(wrapper(other), None, "{other}");
        }
    }

    #[test]
    fn a_reading_is_words_and_a_name() {
        let mut bytes = crate::words::bytes(&(1..=16).collect::<Vec<u64>>());
        bytes.extend(b"airtcp_cubic\0\0\0\0");
        let r = Reading::read(&bytes).unwrap();
        assert_eq!((r.cookie, r.cwnd, r.rtt_us, r.lease, r.control.as_str()), (1, 5, 8, (10, 11), "airtcp_cubic"));
        assert_eq!(Reading::read(&bytes[1..]), None);
        let (mut places, mut seen) = (BTreeMap::new(), Vec::new());
        for (cookie, interface) in [(1, 7), (1, 0), (2, 0), (1, 0), (1, 8)] {
            let mut all =
                [Reading { cookie, interface, ..r.clone() }, Reading { cookie: 9, interface: 3, ..r.clone() }];
            stay(&mut all[..if cookie == 2 { 1 } else { 2 }], &mut places);
            seen.push(all[0].interface);
        }
        assert_eq!(seen, [7, 7, 0, 0, 8], "one that was gone meanwhile has no place");
    }
}
