//! One network from beginning to end: hosts, programs, the loop, the verdict.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, ExitCode};

use airtcp_core::convert::signed32;
use airtcp_core::units::{Span, Time};
use airtcp_sim::scenario::Scenario;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::unistd::pipe2;

use super::internet;
use crate::common::addresses::hosts_file;
use crate::common::capture::Recorder;
use crate::common::clock::{Clock, Monotonic, SPIN, Urgency};
use crate::common::config::RunConfig;
use crate::common::connections::ConnectionLog;
use crate::common::diag::{ended_connections, open_connections};
use crate::common::lateness::Validity;
use crate::common::net::can_have_v6;
use crate::common::network::Network;
use crate::common::output::{set_title, to_stderr};
use crate::common::process::end_with_parent;
use crate::common::rights::become_root;
use crate::common::signals;
use crate::common::state::{State, StateHost};
use crate::common::stop::Stop;
use crate::common::store::{CommandReport, OUTPUT, Store, meanings};
use crate::common::sys::ChildSetup;
use crate::common::world::{Attached, RealHost, SimulatedNetwork, attach, environment};
use crate::shell::driver::{Driver, Port};
use crate::shell::host::{Host, HostConfig};
use crate::shell::init::{InitConfig, ORDER_END, ORDER_START, OUTPUT_LOST, Program};
use crate::shell::report::{HostReport, Report, processor_time};
use crate::shell::tun::no_tun;
use crate::shell::watch::{Machine, Watch};

/// Signals and ends of programs are looked at this often while packets leave no pause.
const CHECK_INTERVAL: Span = Span::from_ms(1);
/// Interval of the periodic samples: connections, the time, the terminal's title.
const SAMPLE_INTERVAL: Span = Span::from_ms(100);
/// Where a sample takes longer than so many-th of [`SAMPLE_INTERVAL`], the next one comes so many
/// times later than it took.
const SAMPLE_TIME_PART: u64 = 200;
/// How long programs have to end once they are asked to.
const END_GRACE: Span = Span::from_ms(1500);
/// Rows go to disk this often.
const FLUSH_INTERVAL: Span = Span::from_secs(10);
/// The last millisecond before a deadline is slept on its own: the kernel lets a long sleep end
/// late by a thousandth of it.
const SHORT_SLEEP: Span = Span::from_ms(1);

/// Runs the network of a configuration; the exit code is the deciding command's, or says that the
/// run is invalid.
pub(crate) fn run(config: &RunConfig) -> Result<ExitCode, Stop> {
    end_with_parent(config.parent)?;
    let scenario =
        Scenario::parse_json(&config.scenario, &config.file, &[]).map_err(|e| Stop::bad_input(e.to_string()))?;
    let mut attached = attach(&scenario, config)?;
    if !config.gates.is_empty() {
        attached.network.report_releases();
        let is_gated = |index: &usize| config.gates.contains(&attached.hosts[*index].name);
        if let Some(wired) =
            (0..attached.hosts.len()).filter(is_gated).find(|&index| !attached.network.has_radio(index))
        {
            return Err(Stop::bad_input(format!(
                "--gate {}: it sends by a wire, which takes every packet at once: small queues hold data back at a radio only",
                attached.hosts[wired].name
            )));
        }
    }
    if let Some(why) = no_tun() {
        return Err(Stop::bad_input(why));
    }
    become_root().map_err(Stop::bad_input)?;
    let mut hosts = Vec::new();
    for real in &attached.hosts {
        hosts.push(Host::make(host_config(real, config)).map_err(Stop::bad_input)?);
    }
    if !config.quiet {
        print_hosts(&hosts, &attached);
    }
    RunningNetwork::begin(config, attached, hosts, scenario.name())?.run()
}

fn host_config(real: &RealHost, config: &RunConfig) -> HostConfig {
    HostConfig {
        name: real.name.clone(),
        device: real.device.to_owned(),
        addresses: real.addresses,
        mtu: real.mtu,
        default_route: config.internet.as_ref().is_some_and(|gateway| *gateway != real.name),
        sysctls: real.sysctls.clone(),
    }
}

fn print_hosts(hosts: &[Host], attached: &Attached) {
    for (host, real) in hosts.iter().zip(&attached.hosts) {
        let sysctls: Vec<_> = host
            .sysctls
            .iter()
            .map(|s| {
                format!(
                    "{}={}",
                    s.key.rsplit('/').next().unwrap_or(&s.key),
                    s.value.replace(" (by route)", "").replace(' ', ",")
                )
            })
            .collect();
        let (at, profile) = (real.addresses, &real.profile);
        let v6 = if can_have_v6(real.mtu) { format!(", {}", at.v6) } else { String::new() };
        let (v4, device, sysctls) = (at.v4, real.device, sysctls.join(" "));
        to_stderr(format_args!("{}: {v4}{v6} on {device}; like {profile}: {sysctls}", host.name));
    }
    if !attached.left_out.is_empty() {
        to_stderr(format_args!(
            "real programs take the place of the scenario's flows {}",
            attached.left_out.join(", ")
        ));
    }
}

/// The hosts' devices.
struct Tuns(Vec<Host>);

impl Port for Tuns {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn read(&mut self, host: usize, buffer: &mut [u8]) -> Option<usize> {
        self.0.get_mut(host)?.tun.read(buffer)
    }
    fn has_more(&self, host: usize) -> bool {
        self.0.get(host).is_some_and(|host| host.tun.has_more())
    }
    fn write(&mut self, host: usize, packet: &[u8]) -> bool {
        self.0.get_mut(host).is_some_and(|host| host.tun.write(packet))
    }
}

/// A network under way.
struct RunningNetwork<'a> {
    config: &'a RunConfig,
    driver: Driver<SimulatedNetwork, Tuns>,
    reals: Vec<RealHost>,
    left_out: Vec<String>,
    least_rtt: Span,
    clock: Monotonic,
    watch: Watch,
    recorder: Recorder,
    connections: ConnectionLog,
    store: Option<Store>,
    programs: Programs,
    internet: Option<Child>,
    signals: SignalFd,
    urgency: Urgency,
    /// Processor time that this thread had used when the network began.
    used: (f64, f64),
    title: TitleState,
    /// By host: what has become of its device.
    lost: Vec<Option<&'static str>>,
    _published: File,
}

/// State of the network when the terminal's title was last written.
#[derive(Default)]
struct TitleState {
    at: Time,
    /// Bytes that hosts had received.
    received: u64,
    /// By channel.
    used: Vec<Span>,
}

/// Processes of the programs' namespace.
struct Programs {
    init: Child,
    orders: OwnedFd,
    reports: OwnedFd,
    line: Vec<u8>,
    status: Vec<Option<i32>>,
    /// The first reason why output of programs could not be written.
    output_error: Option<String>,
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndReason {
    /// The deciding command has.
    Command(i32),
    Time,
    Signal(i32),
}

impl<'a> RunningNetwork<'a> {
    fn begin(
        config: &'a RunConfig,
        attached: Attached,
        hosts: Vec<Host>,
        name: &str,
    ) -> Result<RunningNetwork<'a>, Stop> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| Stop::failure(format!("{what}: {error}"))
        };
        let signals = signals::signal_fd(&[Signal::SIGCHLD]).map_err(|error| Stop::failure(error.desc()))?;
        let mut store = None;
        if let Some(record) = &config.record {
            store = Some(Store::begin(&record.folder).map_err(failed("cannot write tables"))?);
        }
        let recorder = Recorder::begin(config, hosts.iter().map(|host| host.name.as_str()), false)?;
        config.internet.as_ref().map(|host| internet::prepare(host, &hosts)).transpose()?;
        let environment = environment(config, &attached);
        let (programs, init) = Programs::begin(config, &hosts, &attached, &environment)?;
        let internet = config.internet.as_ref().map(|host| internet::begin(host, &hosts)).transpose()?;
        nix::unistd::write(&programs.orders, &[ORDER_START]).map_err(|error| Stop::failure(error.desc()))?;
        let published = State {
            name: name.to_owned(),
            init,
            guests: None,
            hosts: hosts
                .iter()
                .zip(&environment)
                .map(|(host, env)| StateHost { name: host.name.clone(), namespace: host.namespace(), env: env.clone() })
                .collect(),
        };
        let published = published.publish().map_err(failed("showing the network to `airtcp exec`"))?;
        // Not before: children would have the same urgency.
        let urgency = Urgency::ask();
        let watch = Watch::new(hosts.len());
        let Attached { network, hosts: reals, left_out, least_rtt, .. } = attached;
        let lost = vec![None; hosts.len()];
        let mut driver = Driver::new(network, Tuns(hosts));
        let gated = (0..reals.len()).filter(|&index| config.gates.contains(&reals[index].name));
        gated.for_each(|index| driver.gate(index));
        Ok(RunningNetwork {
            config,
            driver,
            reals,
            left_out,
            least_rtt,
            clock: Monotonic::start(),
            watch,
            recorder,
            connections: ConnectionLog::default(),
            store,
            programs,
            internet,
            signals,
            urgency,
            used: processor_time(),
            title: TitleState::default(),
            lost,
            _published: published,
        })
    }

    fn run(mut self) -> Result<ExitCode, Stop> {
        let end = self.carry(Time::NEVER, &mut |network| network.is_over());
        let ended = self.clock.now();
        // The network goes on while programs say goodbye.
        let _ = nix::unistd::write(&self.programs.orders, &[ORDER_END]);
        self.carry(ended + END_GRACE, &mut |network| {
            (network.programs.all_ended() || network.programs.init_has_ended()).then_some(EndReason::Time)
        });
        if let Some(internet) = &mut self.internet {
            let _ = internet.kill();
            let _ = internet.wait();
        }
        let _ = self.programs.init.kill();
        let _ = self.programs.init.wait();
        self.finish(end)
    }

    /// The command whose end is the network's: the one in front, or without a time the last.
    fn deciding_command(&self) -> Option<usize> {
        let in_front = self.config.commands.iter().position(|command| command.in_front);
        in_front.or_else(|| if self.config.for_s.is_none() { self.config.commands.len().checked_sub(1) } else { None })
    }

    fn is_over(&mut self) -> Option<EndReason> {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            let number = signed32(signal.ssi_signo);
            if number != Signal::SIGCHLD as i32 {
                return Some(EndReason::Signal(number));
            }
        }
        self.programs.read_reports();
        if let Some(Some(status)) = self.deciding_command().and_then(|index| self.programs.status.get(index)) {
            return Some(EndReason::Command(*status));
        }
        if self.programs.init_has_ended() {
            return Some(EndReason::Command(1));
        }
        if self.config.for_s.is_some() && !self.config.commands.is_empty() && self.programs.all_ended() {
            return Some(EndReason::Command(self.programs.status.last().copied().flatten().unwrap_or(0)));
        }
        self.config.for_s.filter(|&s| self.clock.now() >= Time::ZERO + Span::from_secs_f64(s)).map(|_| EndReason::Time)
    }

    /// Carries packets until `limit`, or until `is_over` says why to stop.
    fn carry(&mut self, limit: Time, is_over: &mut dyn FnMut(&mut Self) -> Option<EndReason>) -> EndReason {
        let (mut next_check, mut next_sample, mut next_flush) =
            (Time::ZERO, Time::ZERO, self.clock.now() + FLUSH_INTERVAL);
        loop {
            let wake = self.driver.turn(&self.clock, &mut self.watch, &mut self.recorder);
            let now = self.clock.now();
            if now >= next_check || wake > now {
                if let Some(end) = is_over(self) {
                    return end;
                }
                next_check = now + CHECK_INTERVAL;
            }
            if now >= limit {
                return EndReason::Time;
            }
            if now >= next_sample {
                self.sample(now);
                // Where the kernel takes long to tell of connections, it is asked less often.
                let took = self.clock.now().since(now);
                next_sample = now + SAMPLE_INTERVAL.max(took.saturating_mul(SAMPLE_TIME_PART));
            }
            if now >= next_flush {
                self.flush_rows();
                next_flush = now + FLUSH_INTERVAL;
            }
            self.wait(wake.min(next_sample).min(limit));
        }
    }

    /// Sleeps until this time, or until a host sends or a program ends.
    fn wait(&mut self, until: Time) {
        let now = self.clock.now();
        let left = until.since(now);
        if left.is_zero() {
            return;
        }
        let sleep =
            if left > SHORT_SLEEP + SHORT_SLEEP { left.saturating_sub(SHORT_SLEEP) } else { left.saturating_sub(SPIN) };
        let timeout = TimeSpec::nanoseconds(i64::try_from(sleep.as_ns()).unwrap_or(i64::MAX));
        let RunningNetwork { driver, signals, programs, .. } = self;
        // A device that is gone has an error to tell, always.
        let there = |index: &usize| !driver.ports.0[*index].tun.is_gone();
        let indices: Vec<usize> = (0..driver.ports.count()).filter(there).collect();
        let tun = |&index: &usize| PollFd::new(driver.ports.0[index].tun.as_fd(), PollFlags::POLLIN);
        let mut fds: Vec<PollFd> = indices.iter().map(tun).collect();
        fds.push(PollFd::new(signals.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(programs.reports.as_fd(), PollFlags::POLLIN));
        let woken = ppoll(&mut fds, Some(timeout), None).unwrap_or(0);
        if woken > 0 {
            let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
            drop(fds);
            indices.iter().zip(ready).filter(|(_, ready)| *ready).for_each(|(&host, _)| driver.wake(host));
        } else if left <= SHORT_SLEEP + SHORT_SLEEP {
            while self.clock.now() < until {
                std::hint::spin_loop();
            }
        }
    }

    /// Says of a host that its device is gone, once.
    fn report_lost_devices(&mut self) {
        for (host, lost) in self.driver.ports.0.iter().zip(&mut self.lost) {
            if lost.is_none() {
                *lost = host.why_lost();
                if let Some(why) = lost {
                    to_stderr(format_args!("airtcp: {}: {why}; the network goes on", host.name));
                }
            }
        }
    }

    fn sample(&mut self, now: Time) {
        self.report_lost_devices();
        let keep = self.store.is_some();
        let is_shown = !self.config.quiet && nix::unistd::isatty(std::io::stderr()).unwrap_or(false);
        if keep || is_shown {
            for (index, host) in self.driver.ports.0.iter().enumerate() {
                if keep {
                    for ended in ended_connections(&host.ends) {
                        self.connections.ended(now, index, &host.name, ended);
                    }
                }
                if let Ok(open) = open_connections(&host.sockets) {
                    self.connections.sample(now, index, &host.name, open, keep);
                }
            }
        }
        if is_shown && now.since(self.title.at) >= Span::from_secs(1) {
            self.write_title(now);
        }
    }

    /// The state of the network as the terminal's title: a line of text would mix with what
    /// programs write.
    fn write_title(&mut self, now: Time) {
        let passed_s = now.since(self.title.at).as_secs_f64().max(1e-9);
        let received: u64 = self.watch.hosts().iter().map(|host| host.received_bytes).sum();
        let rate = (received - self.title.received) as f64 * 8e-6 / passed_s;
        let rtt = self.connections.take_rtt_ms().map_or(String::new(), |ms| format!(", RTT {ms:.1} ms"));
        let late = self.watch.lateness().p99_us;
        let load = self.driver.network.load();
        let queue = match &load {
            Some(load) => format!("{} packets wait", load.waiting),
            None => format!("{} packets inside", self.driver.network.inside()),
        };
        let used = load.map_or_else(Vec::new, |load| load.used);
        let before = self.title.used.iter().copied().chain(std::iter::repeat(Span::ZERO));
        let busiest = used.iter().zip(before).map(|(&now, before)| now.saturating_sub(before)).max();
        let air = busiest.map_or(String::new(), |used| format!(", air {:.0} %", 100.0 * used.as_secs_f64() / passed_s));
        self.title = TitleState { at: now, received, used };
        set_title(&format!("airtcp: {rate:.1} Mbit/s{rtt}, {queue}{air}, 99 % within {late:.0} us"));
    }

    /// Moves rows out of memory, to disk if they are wanted.
    fn flush_rows(&mut self) {
        let tables = self.connections.take_tables();
        let Some(store) = &mut self.store else { return };
        if let Err(error) = store.add(&tables) {
            to_stderr(format_args!("error: cannot write tables: {error}; the network goes on without"));
            self.store = None;
        }
    }

    fn finish(mut self, end: EndReason) -> Result<ExitCode, Stop> {
        let wall_s = self.clock.now().as_secs_f64();
        let (busy, waited) = processor_time();
        let machine = Machine {
            busy_s: busy - self.used.0,
            waited_s: waited - self.used.1,
            wall_s,
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        };
        self.sample(self.clock.now());
        let mut hosts: Vec<HostReport> = self
            .driver
            .ports
            .0
            .iter()
            .zip(&self.reals)
            .zip(self.watch.hosts())
            .map(|((host, real), &traffic)| HostReport {
                name: host.name.clone(),
                addresses: real.addresses,
                has_v6: can_have_v6(real.mtu),
                sysctls: host.sysctls.clone(),
                traffic,
                lost: host.net.dropped().unwrap_or(0) + host.tun.failed(),
                gate: None,
            })
            .collect();
        for (index, host) in hosts.iter_mut().enumerate() {
            host.gate = self.driver.gate_report(index);
        }
        let without =
            hosts.iter().zip(&self.lost).filter_map(|(host, why)| Some(format!("{}: {}", host.name, (*why)?)));
        let without: Vec<String> = without.collect();
        let lost = hosts.iter().map(|host| host.lost).sum();
        let commands = self.config.commands.iter().zip(&self.programs.status);
        let mut report = Report {
            verdict: self.watch.verdict(lost, self.least_rtt, &machine).with_failures(without),
            lateness: self.watch.lateness(),
            waiting: self.watch.waiting(),
            machine,
            urgency: self.urgency,
            longest_turn_ms: self.watch.longest_turn().as_secs_f64() * 1e3,
            most_inside: self.driver.most_inside(),
            refused: self.watch.refused(),
            hosts,
            commands: commands
                .map(|(c, &status)| CommandReport { host: c.host.clone(), command: c.argv.clone(), status })
                .collect(),
            left_out: self.left_out.clone(),
            capture_left_out: 0,
        };
        let mut failure = None;
        self.programs.read_reports();
        let output_error = self.programs.output_error.take();
        match self.recorder.end() {
            Ok(left_out) => report.capture_left_out = left_out,
            Err(error) => failure = Some(error),
        }
        let config = self.config;
        if let Err(error) = self.write_output(&report) {
            failure.get_or_insert(format!("cannot write tables: {error}"));
        }
        if !config.quiet {
            set_title("");
        }
        for line in report.to_lines(config.quiet) {
            to_stderr(format_args!("airtcp: {line}"));
        }
        if let Some(error) = output_error {
            failure.get_or_insert(format!("cannot write to standard output: {error}"));
        }
        if let Some(error) = failure {
            return Err(Stop::failure(error));
        }
        let code = match end {
            EndReason::Signal(number) => 128 + number,
            EndReason::Command(status) if status != 0 => status,
            EndReason::Command(_) | EndReason::Time if report.verdict.validity == Validity::Invalid => INVALID,
            EndReason::Command(_) | EndReason::Time => 0,
        };
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
    }

    fn write_output(mut self, report: &Report) -> std::io::Result<()> {
        let (Some(mut store), Some(record)) = (self.store.take(), &self.config.record) else { return Ok(()) };
        let names: Vec<String> = self.driver.ports.0.iter().map(|host| host.name.clone()).collect();
        let simulated_s = self.clock.now().as_secs_f64();
        let output = self.driver.network.finish();
        let mut tables = output.tables;
        tables.extend(self.connections.finish(&names));
        store.add(&tables)?;
        store.end()?;
        let about = serde_json::json!({
            "summary": output.summary,
            "events": output.events,
            "packets_delivered": output.packets_delivered,
            "simulated_s": simulated_s,
            "meanings": meanings(&tables),
            "emu": report.to_json(),
        });
        std::fs::write(record.folder.join(OUTPUT), serde_json::to_vec(&about)?)
    }
}

/// Exit code of a run that cannot be believed, if its command did not fail.
const INVALID: i32 = 3;

impl Programs {
    fn begin(
        config: &RunConfig,
        hosts: &[Host],
        attached: &Attached,
        environment: &[Vec<(String, String)>],
    ) -> Result<(Programs, i32), Stop> {
        let failed = |error: std::io::Error| Stop::failure(format!("starting the programs: {error}"));
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|error| failed(error.into()));
        let ((orders, give), (reports, report)) = (pipe()?, pipe()?);
        let index = |name: &str| hosts.iter().position(|host| host.name == name);
        let programs = config.commands.iter().filter_map(|command| {
            let index = index(&command.host)?;
            Some(Program {
                host: command.host.clone(),
                namespace: hosts[index].namespace(),
                argv: command.argv.clone(),
                env: environment[index].clone(),
                in_front: command.in_front,
            })
        });
        let init = InitConfig {
            commands: programs.collect(),
            hosts: hosts_file(attached.network.all_hosts(), attached.has_v6()),
            resolv: match config.internet {
                None => "# This network has no name server.\n".to_owned(),
                Some(_) => format!("nameserver {}\n", internet::NAME_SERVER),
            },
            orders: orders.as_raw_fd(),
            reports: report.as_raw_fd(),
        };
        let mut text = File::from(memfd_create("airtcp-init", MFdFlags::MFD_CLOEXEC).map_err(|e| failed(e.into()))?);
        text.write_all(&serde_json::to_vec(&init).map_err(|e| failed(e.into()))?).map_err(failed)?;
        std::io::Seek::rewind(&mut text).map_err(failed)?;
        // From here on children are in a namespace of processes, and the first of them is its init.
        unshare(CloneFlags::CLONE_NEWPID).map_err(|error| failed(error.into()))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("init").arg(text.as_raw_fd().to_string());
        let mut keeps: Vec<_> = hosts.iter().map(Host::namespace).collect();
        keeps.extend([text.as_raw_fd(), orders.as_raw_fd(), report.as_raw_fd()]);
        let dies_with = Some(signed32(std::process::id()));
        ChildSetup { dies_with, keeps, ..ChildSetup::default() }.apply(&mut command);
        let init = command.spawn().map_err(failed)?;
        let pid = signed32(init.id());
        let status = vec![None; config.commands.len()];
        nix::fcntl::fcntl(&reports, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|error| failed(error.into()))?;
        Ok((Programs { init, orders: give, reports, line: Vec::new(), status, output_error: None }, pid))
    }

    /// Reads which commands have ended.
    fn read_reports(&mut self) {
        let mut bytes = [0; 256];
        while let Ok(read @ 1..) = nix::unistd::read(&self.reports, &mut bytes) {
            for &byte in &bytes[..read] {
                if byte != b'\n' {
                    self.line.push(byte);
                    continue;
                }
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
                let Some((index, status)) = line.split_once(' ') else { continue };
                if index == OUTPUT_LOST {
                    self.output_error.get_or_insert(status.to_owned());
                }
                let index = index.parse::<usize>().unwrap_or(usize::MAX);
                if let (Some(known), Ok(status)) = (self.status.get_mut(index), status.parse()) {
                    *known = Some(status);
                }
            }
        }
    }

    /// It has ended, and all programs with it.
    fn init_has_ended(&mut self) -> bool {
        matches!(self.init.try_wait(), Ok(Some(_)))
    }

    fn all_ended(&mut self) -> bool {
        self.read_reports();
        self.status.iter().all(Option::is_some)
    }
}
