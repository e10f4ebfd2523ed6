//! A medium for the simulated radios of this kernel, in real time: a process that registers with
//! the module `mac80211_hwsim`.
//!
//! [`kernel_socket`] is the socket and what is asked of the kernel, [`airtcp_hwsim::Conversation`]
//! what is said on it. Here are the clock and the loop between the two.

mod kernel_socket;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;

use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::RadioId;
use airtcp_hwsim::frame::Address;
use airtcp_hwsim::netlink::numbered;
use airtcp_hwsim::{Air, Conversation, wmediumd};
use airtcp_sim::scenario::Scenario;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::{TimeSpec, TimeValLike};
use serde_json::{Map, Value, json};

use crate::common::clock::{Clock, Monotonic, Urgency};
use crate::common::config::HwsimConfig;
use crate::common::lateness::{Histogram, Lateness, Validity};
use crate::common::medium::{medium, only_channel};
use crate::common::output::{on_one_line, to_stderr, to_stdout};
use crate::common::process::end_with_parent;
use crate::common::radio_table::RadioTable;
use crate::common::signals;
use crate::common::stop::Stop;
use crate::common::store::{OUTPUT, Store, meanings};

pub(crate) use kernel_socket::new_radio;
use kernel_socket::{KernelSocket, ModuleState, Received, module_state, registration_error};

/// How long the kernel has to answer the registration.
const REGISTRATION_TIMEOUT: Span = Span::from_secs(5);
/// Datagrams that are read before the medium goes on.
const READ_BATCH: usize = 64;
/// Bytes of messages to the kernel that are sent together.
const SEND_BATCH_BYTES: usize = 16 << 10;
/// Later than this is worth a word.
const LATE_BOUND: Span = Span::from_ms(1);

/// A medium as the configuration describes it.
struct MediumSetup {
    air: Air,
    /// By index.
    names: Vec<String>,
    addresses: Vec<Address>,
    seed: u64,
    notes: Vec<String>,
}

/// Is the medium of this kernel's radios until it is told to end, or its time is over.
pub(crate) fn run(config: &HwsimConfig) -> Result<ExitCode, Stop> {
    end_with_parent(config.parent)?;
    let MediumSetup { air, names, addresses, seed, notes } = medium_setup(config).map_err(Stop::bad_input)?;
    let known = module_state().map_err(Stop::bad_input)?;
    let link =
        KernelSocket::open(&known).map_err(|error| Stop::failure(format!("a socket of generic netlink: {error}")))?;
    let signals = signals::signal_fd(&[]).map_err(|error| Stop::failure(error.desc()))?;
    Urgency::ask();
    let mut live = RunningMedium::new(Conversation::new(air, &addresses, known.module), names, link);
    live.register().map_err(Stop::bad_input)?;
    if !config.quiet {
        notes.iter().for_each(|note| to_stderr(format_args!("airtcp: {note}")));
        print_radios(&live.names, &addresses, &known);
    }
    let has_radios = live.run(config.for_s.map(Span::from_secs_f64), signals.as_fd());
    let shown = if config.quiet { Ok(()) } else { to_stdout(&live.table()) };
    live.warnings().iter().for_each(|warning| to_stderr(format_args!("airtcp: {warning}")));
    write_results(config, &live, &addresses, &known, seed)
        .map_err(|error| Stop::failure(format!("cannot write tables: {error}")))?;
    shown?;
    if has_radios {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Stop::failure("all radios of this medium have vanished: they were removed, or mac80211_hwsim was unloaded"))
}

/// Writes down what was sent, and how well time was kept.
fn write_results(
    config: &HwsimConfig,
    live: &RunningMedium,
    addresses: &[Address],
    known: &ModuleState,
    seed: u64,
) -> std::io::Result<()> {
    let Some(folder) = &config.record else { return Ok(()) };
    let lasted = live.clock.now().since(Time::ZERO);
    let names: Vec<&str> = live.names.iter().map(String::as_str).collect();
    let radios = RadioTable::of(&live.own.air.mac, &names, lasted);
    let hosts = live.names.iter().zip(addresses).zip(&live.vanished_at).map(|((name, address), vanished_at)| {
        let phy = known.radios.iter().find(|(own, _)| own == address).map(|(_, phy)| phy.as_str());
        let gone_s = vanished_at.map(|at| at.as_secs_f64());
        (name.clone(), json!({ "address": address_text(*address), "phy": phy, "vanished_s": gone_s }))
    });
    let counts = live.own.counts;
    let about = json!({
        "validity": live.validity(),
        "reasons": live.warnings(),
        "stack": "mac80211_hwsim of this machine on airtcp's medium",
        "has_patches": known.module.has_patches,
        "lateness": Lateness::of(&live.late),
        "driver": { "wall_s": lasted.as_secs_f64() },
        "messages": {
            "frames": counts.frames,
            "of_unknown_radios": counts.unknown,
            "malformed": counts.malformed,
            "sent": counts.sent,
            "refused": counts.refused,
            "overruns": live.overruns,
        },
        "hosts": hosts.collect::<Map<String, Value>>(),
    });
    let summary = json!({
        "seed": seed,
        "end_s": lasted.as_secs_f64(),
        "warmup_s": 0.0,
        "groups": [],
        "links": [],
        "air": [],
        "radios": radios.summary(),
    });
    let tables = [radios.table()];
    let all = json!({
        "summary": summary,
        "events": counts.frames,
        "packets_delivered": counts.sent,
        "simulated_s": lasted.as_secs_f64(),
        "meanings": meanings(&tables),
        "emu": about,
    });
    let mut store = Store::begin(folder)?;
    store.add(&tables)?;
    store.end()?;
    std::fs::write(folder.join(OUTPUT), serde_json::to_vec(&all)?)
}

fn medium_setup(config: &HwsimConfig) -> Result<MediumSetup, String> {
    if let Some(text) = &config.wmediumd {
        let read = wmediumd::read(text, config.seed).map_err(|why| format!("{}: {why}", config.file))?;
        let names = read.addresses.iter().map(|address| address_text(*address)).collect();
        let air = Air::of_equals(&read.setup);
        return Ok(MediumSetup { air, names, addresses: read.addresses, seed: config.seed, notes: read.notes });
    }
    let scenario = config.scenario.as_deref().unwrap_or_default();
    let scenario = Scenario::parse_json(scenario, &config.file, &[]).map_err(|error| error.to_string())?;
    let spec = scenario.to_spec().map_err(|faults| faults.to_string())?;
    let channel = only_channel(&spec, "airtcp hwsim").map_err(|why| format!("{}: {why}", config.file))?;
    let names: Vec<String> = channel.radios.iter().map(|radio| spec.nodes[radio.node.index()].name.clone()).collect();
    for (radio, name) in channel.radios.iter().zip(&names) {
        if !radio.config.phy.standard.has_ht() {
            return Err(format!(
                "{}: the radio of {name:?}: airtcp hwsim runs 802.11n and 802.11ac: set phy.standard = \"n\"",
                config.file
            ));
        }
    }
    let mut addresses: Vec<Address> = (0..).take(names.len()).map(numbered).collect();
    for (name, address) in &config.radios {
        let Some(index) = names.iter().position(|own| own == name) else {
            return Err(format!("--radio {name}={address}: no such radio; there are {}", names.join(", ")));
        };
        addresses[index] = wmediumd::address(address).map_err(|why| format!("--radio {name}={address}: {why}"))?;
    }
    for (index, address) in addresses.iter().enumerate() {
        if let Some(other) = addresses[..index].iter().position(|own| own == address) {
            let (name, other) = (&names[index], &names[other]);
            return Err(format!(
                "{other} and {name} have the address {}: --radio NAME=ADDRESS sets another",
                address_text(*address)
            ));
        }
    }
    let air = Air::new(&medium(&spec, channel));
    Ok(MediumSetup { air, names, addresses, seed: spec.seed, notes: Vec::new() })
}

fn address_text(address: Address) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// Says who is who.
fn print_radios(names: &[String], addresses: &[Address], known: &ModuleState) {
    for (name, address) in names.iter().zip(addresses) {
        let phy = known.radios.iter().find(|(own, _)| own == address).map(|(_, phy)| phy.as_str());
        let address = address_text(*address);
        let is = if *name == address { name.clone() } else { format!("{name} is {address}") };
        let at = phy.unwrap_or("not in this network namespace");
        to_stderr(format_args!("airtcp: {is}, {}", on_one_line(at)));
    }
    if !known.module.has_patches {
        to_stderr(format_args!(
            "airtcp: the module has none of the patches of kernel/mac80211-hwsim: no frame arrives damaged, and minstrel_ht \
            learns nothing from A-MPDUs"
        ));
    }
    to_stderr(format_args!("airtcp: the medium of {} radios is there; Ctrl-C ends it", names.len()));
}

/// A medium under way.
struct RunningMedium {
    own: Conversation,
    /// Names of radios, by index.
    names: Vec<String>,
    /// When each was found to have vanished.
    vanished_at: Vec<Option<Time>>,
    link: KernelSocket,
    clock: Monotonic,
    late: Histogram,
    /// Times at which the kernel had more frames than the socket holds.
    overruns: u64,
}

impl RunningMedium {
    fn new(own: Conversation, names: Vec<String>, link: KernelSocket) -> RunningMedium {
        let vanished_at = vec![None; names.len()];
        RunningMedium {
            own,
            names,
            vanished_at,
            link,
            clock: Monotonic::start(),
            late: Histogram::default(),
            overruns: 0,
        }
    }

    /// Registers, and waits until the kernel has agreed.
    fn register(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("registering with mac80211_hwsim: {error}");
        self.link.send(&self.own.registration()).map_err(failed)?;
        let end = self.clock.now() + REGISTRATION_TIMEOUT;
        loop {
            self.turn();
            match self.own.registered() {
                Some(0) => return Ok(()),
                Some(code) => return Err(registration_error(code)),
                None if self.clock.now() >= end => {
                    return Err("mac80211_hwsim does not answer a registration".to_owned());
                }
                None => {
                    self.sleep(end, None);
                }
            }
        }
    }

    /// Until a signal comes, or its time is over. False: all its radios have vanished before.
    fn run(&mut self, duration: Option<Span>, signals: BorrowedFd<'_>) -> bool {
        let end = duration.map_or(Time::NEVER, |duration| self.clock.now() + duration);
        while self.clock.now() < end && !self.sleep_until_next(end, signals) {
            self.turn();
            while let Some(radio) = self.own.take_gone() {
                self.note_vanished(radio);
            }
            if self.vanished_at.iter().all(Option::is_some) {
                return false;
            }
        }
        true
    }

    fn note_vanished(&mut self, radio: RadioId) {
        let (Some(at), Some(name)) = (self.vanished_at.get_mut(radio.index()), self.names.get(radio.index())) else {
            return;
        };
        *at = Some(self.clock.now());
        to_stderr(format_args!("airtcp: the radio of {name} has vanished: nothing reaches it, and it sends no more"));
    }

    fn validity(&self) -> Validity {
        if self.overruns > 0 {
            Validity::Invalid
        } else if self.late.per_mille(990) > LATE_BOUND {
            Validity::Strained
        } else {
            Validity::Valid
        }
    }

    /// Sleeps until something is due or has come. True: a signal has.
    fn sleep_until_next(&mut self, end: Time, signals: BorrowedFd<'_>) -> bool {
        let until = self.own.air.deadline().min(end);
        self.sleep(until, Some(signals))
    }

    fn sleep(&self, until: Time, signals: Option<BorrowedFd<'_>>) -> bool {
        let now = self.clock.now();
        let mut fds = vec![PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
        fds.extend(signals.map(|signals| PollFd::new(signals, PollFlags::POLLIN)));
        let left = i64::try_from(until.since(now.min(until)).as_ns()).unwrap_or(i64::MAX);
        let timeout = (until != Time::NEVER).then(|| TimeSpec::nanoseconds(left));
        let _ = ppoll(&mut fds, timeout, None);
        fds.get(1).is_some_and(|fd| fd.any().unwrap_or(false))
    }

    /// The medium catches up, what it has for the kernel goes out, and what the kernel has sent
    /// goes in.
    fn turn(&mut self) {
        let now = self.catch_up();
        self.send_messages();
        for _ in 0..READ_BATCH {
            match self.link.read() {
                Received::Datagram(datagram) => self.own.take_in(now, datagram),
                Received::Overrun => self.overruns += 1,
                Received::FromProcess => {}
                Received::Empty => break,
            }
        }
        self.send_messages();
    }

    fn catch_up(&mut self) -> Time {
        let now = self.clock.now();
        let due = self.own.air.deadline();
        if due <= now {
            self.late.add(now.since(due));
        }
        self.own.air.run_until(now);
        now
    }

    fn send_messages(&mut self) {
        let mut batch: Vec<u8> = Vec::new();
        loop {
            let next = self.own.take_out();
            let is_full = next.as_ref().is_some_and(|next| batch.len() + next.len() > SEND_BATCH_BYTES);
            if (is_full || next.is_none()) && !batch.is_empty() {
                // The kernel refuses a message by a message. An error here is a socket that is
                // gone, as the kernel's module may be.
                let _ = self.link.send(&batch);
                batch.clear();
            }
            let Some(next) = next else { return };
            batch.extend_from_slice(&next);
        }
    }

    /// Table of the traffic between radios.
    fn table(&self) -> String {
        let (mac, names) = (&self.own.air.mac, &self.names);
        let name = |radio: RadioId| names.get(radio.index()).map_or("all or nobody", String::as_str);
        let width = names.iter().map(String::len).max().unwrap_or(0).max(13);
        let mut text = format!(
            "{:width$}  {:width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>8}\n",
            "from", "to", "PPDUs", "MPDUs", "failed", "given up", "air, s"
        );
        for ((from, to), traffic) in mac.traffic() {
            let mpdus = traffic.mpdus + traffic.frames;
            let failed = traffic.mpdus_failed;
            let air_s = Span::from_ns(traffic.airtime_ns).as_secs_f64();
            text += &format!(
                "{:width$}  {:width$}  {:>9}  {mpdus:>9}  {failed:>9}  {:>9}  {air_s:>8.3}\n",
                name(*from),
                name(*to),
                traffic.ppdus,
                traffic.given_up
            );
        }
        text
    }

    /// Warnings about all that went wrong.
    fn warnings(&self) -> Vec<String> {
        let counts = self.own.counts;
        let mut all = Vec::new();
        if let Some(why) = self.own.fault() {
            all.push(format!("{} messages of the kernel could not be read; the first: {why}", counts.malformed));
        }
        if counts.unknown > 0 {
            all.push(format!(
                "{} frames came from radios that are not of this medium, and were given up",
                counts.unknown
            ));
        }
        if self.overruns > 0 {
            all.push(format!(
                "the kernel had more frames than its socket holds, {} times: frames are lost, and the machine is too slow",
                self.overruns
            ));
        }
        let late = self.late.per_mille(990);
        if late > LATE_BOUND {
            let (late, most) = (late.as_secs_f64() * 1e3, self.late.max().as_secs_f64() * 1e3);
            all.push(format!("of a hundred events one was more than {late:.1} ms late, and the latest {most:.1} ms"));
        }
        all
    }
}
