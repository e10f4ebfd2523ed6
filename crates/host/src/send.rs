//! `airtcp-host efr send`: the core's own sender as a TCP of this host's, behind a TUN device. So
//! EFR's threshold moves with the window, which no setting of Linux does, and any receiver can be
//! at the other end.

pub mod conversation;
pub mod way;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddrV4, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use airtcp_core::tcp::{Cause, EcnEcho, Recovery, SenderStats, TcpConfig, TcpOptions, Unresolved, profile};
use airtcp_core::units::Time;

use crate::sys;
use conversation::{Conversation, End, Repeat, Source};
use way::{Place, Way};

/// So long after the end a FIN of the peer that comes again is answered.
const LINGER: Duration = Duration::from_millis(500);

/// Options of `airtcp-host send`.
#[derive(Debug, Clone)]
pub struct Order {
    /// The file that is sent.
    pub file: PathBuf,
    /// To whom.
    pub to: SocketAddrV4,
    /// How the sender is.
    pub config: TcpConfig,
    /// Where it is.
    pub place: Place,
    /// The kernel is to forward its packets.
    pub forwards: bool,
    /// Retransmissions go there, as a table.
    pub log: Option<PathBuf>,
}

/// Reads `HOST:PORT`; IPv4 only.
pub fn address(text: &str) -> Result<SocketAddrV4, String> {
    let fault = |why: &str| format!("{text}: {why}; must be HOST:PORT, as 192.0.2.7:5001");
    let all = text.to_socket_addrs().map_err(|e| fault(&e.to_string()))?;
    let v4 = all.filter_map(|a| if let std::net::SocketAddr::V4(v4) = a { Some(v4) } else { None }).next();
    let to = v4.ok_or_else(|| fault("has no address of IPv4, and this sender knows no other"))?;
    if to.ip().is_loopback() || to.ip().is_multicast() || to.ip().is_unspecified() || to.port() == 0 {
        return Err(fault("cannot be reached from a device; an address of an interface can"));
    }
    Ok(to)
}

/// The sender of a profile with EFR, and what `sets` say over it, as `recovery="new_reno"`.
pub fn config(name: &str, sets: &[String]) -> Result<TcpConfig, String> {
    let base = profile::profile(name).ok_or_else(|| {
        let names: Vec<&str> = profile::profile_names().collect();
        format!("--profile {name}: must be one of {}", names.join(", "))
    })?;
    let mut document = String::new();
    for text in sets {
        let (key, value) =
            text.split_once('=').ok_or_else(|| format!("--set {text}: must be KEY=VALUE, as max_cwnd=4"))?;
        let _ = writeln!(document, "{key} = {value}");
    }
    let fault = |e: &dyn std::fmt::Display| format!("--set: an option of the sender is wrong: {e}");
    let options: TcpOptions = toml::from_str(&document).map_err(|e| fault(&e.message().trim_end()))?;
    let efr: TcpOptions = toml::from_str("loss = \"efr\"").map_err(|e| fault(&e))?;
    let config = options.over(efr).over(base).resolve().map_err(|Unresolved { option, why }| match why {
        Some(why) => format!("--set {option}: {why}"),
        None => format!("--profile {name}: it sets no {option}; give one by --set {option}=..."),
    })?;
    let faults = [
        (
            !config.connection.handshake,
            "handshake = false: a real receiver needs a handshake; choose another profile, or --set handshake=true",
        ),
        (config.connection.packet_bytes < 100, "packet_bytes: must be 100 or more"),
        (
            config.ecn.enabled && config.ecn.echo == EcnEcho::Accurate,
            "ecn_echo = \"accurate\": is not written to real packets; must be \"latched\" or \"each\"",
        ),
    ];
    match faults.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, text)) => Err(text.to_owned()),
        None => Ok(config),
    }
}

/// How it went.
#[derive(Debug, Clone)]
pub struct Report {
    /// Bytes that arrived.
    pub bytes: u64,
    /// From the first SYN until both sides were closed.
    pub seconds: f64,
    /// The sender's counters.
    pub stats: SenderStats,
    /// All that was sent again.
    pub repeats: Vec<Repeat>,
    /// Options that the ends agreed on.
    pub agreed: String,
    /// Bytes of the peer that were dropped, and packets with a wrong checksum.
    pub passed_over: (u64, u64),
}

fn agreed(config: &TcpConfig) -> String {
    let recovery = match config.loss_recovery.recovery {
        Recovery::Sack => "SACK",
        Recovery::NewReno => "NewReno, no SACK",
        Recovery::Reno => "Reno, no SACK",
    };
    let timestamps = if config.timestamps.enabled { "timestamps" } else { "no timestamps" };
    format!("segments of {} bytes, {recovery}, {timestamps}", config.mss())
}

impl Report {
    fn of<S: Source>(conversation: &Conversation<S>, until: Time) -> Report {
        let stats = *conversation.stats();
        Report {
            bytes: stats.bytes_acked,
            seconds: conversation.closed_at().unwrap_or(until).as_secs_f64(),
            stats,
            repeats: conversation.repeats().to_vec(),
            agreed: agreed(conversation.config()),
            passed_over: conversation.passed_over(),
        }
    }

    /// Goodput, Mbit/s.
    pub fn mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds.max(1e-9)
    }

    /// Segments sent again for each cause, those that happened alone.
    fn causes(&self) -> Vec<(&'static str, usize)> {
        [Cause::FastRetransmit, Cause::Recovery, Cause::Timeout, Cause::TimeoutRepair, Cause::TailLossProbe]
            .into_iter()
            .map(|cause| (cause.name(), self.repeats.iter().filter(|r| r.what.cause == cause).count()))
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} bytes in {:.3} s, {:.2} Mbit/s; {}\n{} segments, {} of them again; {} timeouts\n",
            self.bytes,
            self.seconds,
            self.mbps(),
            self.agreed,
            self.stats.segments_sent,
            self.stats.segments_retransmitted,
            self.stats.timeouts,
        );
        for (cause, n) in self.causes() {
            let _ = writeln!(text, "  {n} by {cause}");
        }
        let early = self.early();
        if early > 0 {
            let _ = writeln!(text, "{early} began on fewer than three duplicate ACKs: EFR's threshold, by the window");
        }
        let (dropped, damaged) = self.passed_over;
        if dropped > 0 {
            let _ = writeln!(text, "the receiver sent {dropped} bytes, which were acknowledged and dropped");
        }
        if damaged > 0 {
            let _ = writeln!(text, "{damaged} packets came with a wrong checksum");
        }
        text
    }

    /// Fast retransmits on fewer than three duplicates.
    pub fn early(&self) -> usize {
        self.repeats.iter().filter(|r| r.what.cause == Cause::FastRetransmit && r.what.dup_acks < 3).count()
    }

    /// For programs.
    pub fn json(&self) -> String {
        let causes: Vec<String> = self.causes().iter().map(|(cause, n)| format!("\"{cause}\": {n}")).collect();
        format!(
            "{{\"bytes\": {}, \"seconds\": {:.6}, \"mbps\": {:.4}, \"agreed\": \"{}\", \"segments_sent\": {}, \"segments_retransmitted\": {}, \"timeouts\": {}, \"causes\": {{{}}}, \"early\": {}, \"rtt_min_ms\": {:.3}}}\n",
            self.bytes,
            self.seconds,
            self.mbps(),
            self.agreed,
            self.stats.segments_sent,
            self.stats.segments_retransmitted,
            self.stats.timeouts,
            causes.join(", "),
            self.early(),
            self.stats.rtt_min_ns as f64 * 1e-6,
        )
    }
}

/// Retransmissions as a table, with columns of the simulator's `retransmissions`.
pub fn table(repeats: &[Repeat]) -> String {
    let mut text =
        "time_s,seq,size_bytes,cause,waited_ms,dup_acks,outstanding_segments,cwnd_segments,window_segments\n"
            .to_owned();
    for Repeat { at, what } in repeats {
        let _ = writeln!(
            text,
            "{:.6},{},{},{},{:.3},{},{},{},{}",
            at.as_secs_f64(),
            what.start,
            what.len,
            what.cause.name(),
            what.waited.as_secs_f64() * 1e3,
            what.dup_acks,
            what.outstanding,
            what.cwnd,
            what.cwnd.min(what.send_window),
        );
    }
    text
}

fn open(path: &Path) -> Result<(File, u64), String> {
    let fault = |e: &dyn std::fmt::Display| format!("{}: cannot read it: {e}", path.display());
    let file = File::open(path).map_err(|e| fault(&e))?;
    let about = file.metadata().map_err(|e| fault(&e))?;
    if about.is_file() { Ok((file, about.len())) } else { Err(format!("{}: must be a file", path.display())) }
}

/// Sends the file, until it has arrived or `has_ended` says so.
pub fn run(order: &Order, has_ended: impl Fn() -> bool, mut tell: impl FnMut(&str)) -> Result<Report, String> {
    let (file, bytes) = open(&order.file)?;
    let mut log = match &order.log {
        Some(path) => Some(File::create_new(path).map_err(|e| format!("--log {}: {e}", path.display()))?),
        None => None,
    };
    let way = Way::open(&order.place, *order.to.ip(), order.config.connection.packet_bytes, order.forwards)?;
    let random = sys::random().map_err(|e| format!("efr send: no random bits: {e}"))?;
    let port = 32_768 + u16::try_from(random % 28_000).unwrap_or(0);
    let from = SocketAddrV4::new(order.place.own, port);
    tell(&format!("{bytes} bytes from {from} on {} to {}", order.place.device, order.to));
    let mut conversation = Conversation::new(order.config.clone(), file, bytes, [from, order.to], random);
    sys::set_exact_timers();
    let until = carry(&mut conversation, &way.tun, has_ended)?;
    let report = Report::of(&conversation, until);
    if let (Some(log), Some(path)) = (&mut log, &order.log) {
        log.write_all(table(&report.repeats).as_bytes()).map_err(|e| format!("--log {}: {e}", path.display()))?;
    }
    let to = order.to;
    let so_far = format!("{} of {bytes} bytes had arrived", report.bytes);
    match conversation.end() {
        Some(End::Closed) => Ok(report),
        Some(End::Refused) => Err(format!("efr send: {to} refuses the connection")),
        Some(End::Reset) => Err(format!("efr send: {to} has reset the connection; {so_far}")),
        Some(End::TimedOut) if conversation.is_established() => {
            Err(format!("efr send: {to} answers no more; {so_far}"))
        }
        Some(End::TimedOut) => Err(format!(
            "efr send: {to} does not answer; the host is away, or a firewall drops what is forwarded from {}",
            order.place.device
        )),
        Some(End::TooLarge(0)) => {
            Err("efr send: packets are too large for the way; try --set packet_bytes=1280".to_owned())
        }
        Some(End::TooLarge(mtu)) => {
            Err(format!("efr send: the way takes packets of {mtu} bytes; --set packet_bytes={mtu}; {so_far}"))
        }
        Some(End::Unreachable(why)) => Err(format!("efr send: {to} cannot be reached: {why}")),
        Some(End::Unreadable(why)) => Err(format!("{}: cannot read it: {why}; {so_far}", order.file.display())),
        None => Err(format!("efr send: interrupted; the connection was reset; {so_far}")),
    }
}

/// Packets from the device to the connection and back; when it was over.
fn carry<S: Source>(
    conversation: &mut Conversation<S>,
    mut tun: &File,
    has_ended: impl Fn() -> bool,
) -> Result<Time, String> {
    let begun = sys::monotonic();
    let now = || Time::ZERO + sys::monotonic().since(begun);
    let mut buffer = vec![0; 1 << 16];
    let mut over_at = None;
    conversation.begin(now());
    loop {
        for packet in conversation.take() {
            match tun.write(&packet) {
                Ok(_) => {}
                // No room: it is lost, as on the way.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => {}
                Err(e) => return Err(format!("efr send: the device takes no more packets: {e}")),
            }
        }
        if conversation.end().is_some() && over_at.is_none() {
            over_at = Some(now());
        }
        if let Some(over) = over_at {
            let lingers = conversation.end() == Some(&End::Closed) && !has_ended();
            if !lingers || now().since(over) >= sys::span(LINGER) {
                if conversation.end() != Some(&End::Closed) {
                    conversation.abort();
                    for packet in conversation.take() {
                        let _ = tun.write(&packet);
                    }
                }
                return Ok(over);
            }
        } else if has_ended() {
            conversation.abort();
            for packet in conversation.take() {
                let _ = tun.write(&packet);
            }
            return Ok(now());
        }
        let left = conversation.deadline().since(now());
        let wait = Duration::from_nanos(left.as_ns()).min(Duration::from_millis(100));
        if sys::readable(&[tun.as_raw_fd()], wait).map_err(|e| format!("efr send: cannot wait: {e}"))?[0] {
            // Each packet at its own time, and what it makes leave before the next.
            match tun.read(&mut buffer) {
                Ok(n) => conversation.on_packet(now(), &buffer[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(format!("efr send: the device gives no more packets: {e}")),
            }
        }
        if now() >= conversation.deadline() {
            conversation.on_deadline(now());
        }
    }
}
