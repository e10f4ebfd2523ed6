//! A network in virtual time from beginning to end: guests, their commands, and what is kept.

// The machine's own processes are waited for in the machine's time, and a guest's in its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use airtcp_core::convert::{count, signed32};
use airtcp_core::table::Table;
use airtcp_core::units::{Span, Time};
use airtcp_sim::scenario::Scenario;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use serde_json::{Map, Value, json};

use super::boot::{self, Card, Kernel};
use super::console::{self, Keyboard, Typed};
use super::controller::{Controller, Decision, Failure, Guest, Pace};
use super::files::{self, ConnectionSnapshot, GuestConfig, Input, TerminalSettings, input_file};
use super::shared_folder::SharedFolder;
use super::untrusted_folder::UntrustedFolder;
use crate::common::addresses::hosts_file;
use crate::common::capture::Recorder;
use crate::common::config::{GuestsConfig, RunConfig};
use crate::common::connections::ConnectionLog;
use crate::common::net::can_have_v6;
use crate::common::output::{not_written, to_stderr};
use crate::common::process::end_with_parent;
use crate::common::rights::become_root;
use crate::common::signals;
use crate::common::state::{State, StateHost};
use crate::common::stop::Stop;
use crate::common::store::{CommandReport, OUTPUT, Store, meanings};
use crate::common::world::{Attached, RealHost, SimulatedNetwork, attach, environment};

/// Signals are looked at after so many turns of guests.
const CHECK_TURNS: u32 = 64;
/// Connections of guests are written down this often.
const SNAPSHOT_INTERVAL: Span = Span::from_ms(100);
/// Bytes that are read of a guest's reports on its connections at most, and of one line of them.
const MAX_CONNECTIONS_BYTES: u64 = 1 << 30;
const MAX_SNAPSHOT_BYTES: u64 = 16 << 20;
/// Bytes of a command's output that are shown at once.
const OUTPUT_BATCH_BYTES: u64 = 1 << 20;
/// The network goes on for so long while they are once more, when all is over.
const LAST_SNAPSHOT_TIME: Span = Span::from_ms(1);

/// Runs the network of a configuration; the exit code is the deciding command's.
pub(crate) fn run(config: &RunConfig, guests_config: &GuestsConfig) -> Result<ExitCode, Stop> {
    end_with_parent(config.parent)?;
    let scenario =
        Scenario::parse_json(&config.scenario, &config.file, &[]).map_err(|e| Stop::bad_input(e.to_string()))?;
    let mut attached = attach(&scenario, config)?;
    attached.network.report_releases();
    become_root().map_err(Stop::bad_input)?;
    let work = Rc::new(SharedFolder::make(&guests_config.kernel).map_err(Stop::failure)?);
    let begun = Instant::now();
    let result = inputs(config, work.path())
        .and_then(|inputs| Ok((write_guest_configs(config, guests_config, &attached, work.path(), &inputs)?, inputs)))
        .map_err(|error| Stop::failure(format!("guests: {error}")));
    let (kernels, inputs) = result?;
    let signals = signals::signal_fd(&[Signal::SIGWINCH]).map_err(|error| Stop::failure(error.desc()))?;
    let recorder = Recorder::begin(config, attached.hosts.iter().map(|real| real.name.as_str()), true)?;
    stay_on_processor();
    let mut interrupted = None;
    let begun_guests = boot::begin(&work, &kernels, &mut || end_signal(&signals, &mut interrupted));
    if let Some(number) = interrupted {
        return Ok(ExitCode::from(u8::try_from(128 + number).unwrap_or(1)));
    }
    let (running, clocks, devices) = begun_guests.map_err(Stop::failure)?;
    let Attached { network, hosts: real, left_out, .. } = attached;
    let mut guests = Vec::new();
    for (index, ((real, time), listener)) in real.iter().zip(clocks).zip(devices).enumerate() {
        guests.push(Guest::new(&real.name, index, real.mtu, time, listener));
    }
    let lasts = config.for_s.map(Span::from_secs_f64);
    let mut controller = Controller::new(network, recorder, guests, lasts);
    controller.snapshot_every(SNAPSHOT_INTERVAL);
    let names = real.iter().map(|real| real.name.clone());
    let hosts_shown = names.map(|name| StateHost { name, namespace: -1, env: Vec::new() }).collect();
    let shown =
        State { name: scenario.name().to_owned(), init: 0, guests: Some(work.path().to_owned()), hosts: hosts_shown };
    let _shown =
        shown.publish().map_err(|error| Stop::failure(format!("showing the network to `airtcp exec`: {error}")))?;
    let typed_at = inputs.iter().position(|input| matches!(input, Input::Terminal(_)));
    let keyboard = typed_at.map(|index| Keyboard::open(index.to_string())).transpose();
    let keyboard = keyboard.map_err(|error| Stop::failure(format!("the terminal: {error}")))?;
    let supervisor = Rc::new(RefCell::new(Supervisor {
        outputs: Outputs::new(config, Rc::clone(&work)),
        signals,
        keyboard,
        work: Rc::clone(&work),
        hosts: real.len(),
        turns: 0,
        asked: 0,
        interrupted: None,
        anchor: None,
        checked_at: Instant::now(),
    }));
    if typed_at.is_some() {
        let pacer = Rc::clone(&supervisor);
        controller.set_pacer(Box::new(move |now, then| pacer.borrow_mut().pace(now, then)));
    }
    let asked = Rc::clone(&supervisor);
    controller.set_interrupt(Box::new(move || asked.borrow_mut().is_interrupted()));
    let ran = controller.run(&mut |_| supervisor.borrow_mut().check());
    let ended = controller.now();
    controller.remove_callbacks();
    let Supervisor { mut outputs, keyboard, interrupted, .. } =
        Rc::into_inner(supervisor).ok_or_else(|| Stop::failure("the terminal is still in use"))?.into_inner();
    if ran.is_ok() && config.record.is_some() && interrupted.is_none() {
        // If a guest has failed, what it knew last is what there is.
        let _ = controller.last_snapshot(LAST_SNAPSHOT_TIME);
    }
    outputs.show();
    outputs.read_status();
    // Lines from here on need the terminal as it was.
    drop(keyboard);
    drop(running);
    if let Some(why) = not_ready(&work, &real) {
        return Err(Stop::failure(why));
    }
    if let Err(failure) = ran.or_else(Failure::unless_interrupted) {
        let last: Vec<String> =
            (0..kernels.len()).flat_map(|index| work.last_lines(&files::log_file(index), 3)).collect();
        return Err(Stop::failure(format!("{failure}\n{}", last.join("\n"))));
    }
    let wall_s = begun.elapsed().as_secs_f64();
    if !config.quiet {
        let virtual_s = ended.as_secs_f64();
        to_stderr(format_args!(
            "airtcp: {virtual_s:.3} s of virtual time in {wall_s:.1} s, start of {} kernels included",
            kernels.len()
        ));
    }
    finish(
        config,
        guests_config,
        controller,
        &RunResult {
            real: &real,
            left_out,
            outputs: &outputs,
            work: &work,
            ended,
            wall_s,
            is_typed: typed_at.is_some(),
        },
    )?;
    if let Some(error) = &outputs.lost {
        return Err(not_written(error));
    }
    let code = interrupted.map_or_else(|| outputs.code(config), |number| 128 + number);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Guests and this process take turns. On one processor a turn wakes no other, which makes it about
/// three times as fast. Where there is another run the system has most likely put the two on
/// different ones.
fn stay_on_processor() {
    let mut only = CpuSet::new();
    if sched_getcpu().is_ok_and(|here| only.set(here).is_ok()) {
        // Without leave everything takes longer, and comes out the same.
        let _ = sched_setaffinity(Pid::from_raw(0), &only);
    }
}

/// Writes down what each guest is told, and how it is started.
fn write_guest_configs(
    config: &RunConfig,
    guests_config: &GuestsConfig,
    attached: &Attached,
    work: &Path,
    inputs: &[Input],
) -> std::io::Result<Vec<Kernel>> {
    // By a name without spaces, which would end the word on a kernel's command line.
    let init = work.join("init");
    std::os::unix::fs::symlink(fs::read_link("/proc/self/exe")?, &init)?;
    let hosts = hosts_file(attached.network.all_hosts(), attached.has_v6());
    let folder = std::env::current_dir().unwrap_or_default();
    let mut kernels = Vec::new();
    for (index, (real, env)) in attached.hosts.iter().zip(environment(config, attached)).enumerate() {
        let commands = config.commands.iter().enumerate().filter(|(_, command)| command.host == real.name);
        let guest_config = GuestConfig {
            host: real.name.clone(),
            device: real.device.to_owned(),
            addresses: real.addresses,
            mtu: real.mtu,
            sysctls: real.sysctls.clone(),
            hosts: hosts.clone(),
            env,
            commands: commands.map(|(index, command)| (index, command.argv.clone(), inputs[index].clone())).collect(),
            folder: folder.clone(),
        };
        fs::write(work.join(files::config_file(index)), serde_json::to_vec(&guest_config)?)?;
        kernels.push(Kernel {
            program: guests_config.kernel.clone(),
            arguments: boot::arguments(work, index, &guests_config.memory, &init, Card::Net),
            seed: attached.seed.wrapping_mul(1 << 16).wrapping_add(u64::from(count(index))),
        });
    }
    Ok(kernels)
}

/// True if a guest says that it could not do what it was told.
fn has_failed(work: &SharedFolder, hosts: usize) -> bool {
    let says = |index| work.ready(&files::ready_file(index)).is_some_and(|said| said.starts_with("error "));
    (0..hosts).any(says)
}

/// Why a guest did not get ready, if one did not.
fn not_ready(work: &SharedFolder, real: &[RealHost]) -> Option<String> {
    real.iter().enumerate().find_map(|(index, real)| {
        let said = work.ready(&files::ready_file(index)).unwrap_or_default();
        if said.starts_with("ready ") {
            return None;
        }
        let log = work.last_lines(&files::log_file(index), usize::MAX).join("\n");
        let why = said.strip_prefix("error ").unwrap_or(log.trim_end());
        Some(format!("host {:?} was not ready when the network began: {why}", real.name))
    })
}

/// Inputs of the configured commands, by their index. A file that is whole is put where guests find
/// it.
fn inputs(config: &RunConfig, work: &Path) -> std::io::Result<Vec<Input>> {
    let input = |(index, command): (usize, &crate::common::config::CommandConfig)| {
        if !command.reads {
            return Ok(Input::Nothing);
        }
        if is_terminal() {
            return Ok(Input::Terminal(TerminalSettings::of_stdin()));
        }
        std::io::copy(&mut std::io::stdin(), &mut fs::File::create(work.join(input_file(&index.to_string())))?)?;
        Ok(Input::File)
    };
    config.commands.iter().enumerate().map(input).collect()
}

fn is_terminal() -> bool {
    nix::unistd::isatty(std::io::stdin()).unwrap_or(false)
}

/// The outside of the network: signals, commands that somebody asks for, and whoever sits at the
/// terminal.
struct Supervisor {
    outputs: Outputs,
    signals: SignalFd,
    /// If there is one, time goes no faster than the machine's.
    keyboard: Option<Keyboard>,
    work: Rc<SharedFolder>,
    hosts: usize,
    turns: u32,
    /// Commands that were asked for so far.
    asked: usize,
    interrupted: Option<i32>,
    /// The machine's time and the network's that belong together.
    anchor: Option<(Instant, Time)>,
    /// When keyboard and signals were last looked at.
    checked_at: Instant,
}

/// The keyboard is looked at this often, whatever the network does, and other terminals' commands.
const CONSOLE_INTERVAL: Duration = Duration::from_millis(20);

/// True if a signal to end has come; `number` is the signal.
fn end_signal(signals: &SignalFd, number: &mut Option<i32>) -> bool {
    while let Ok(Some(signal)) = signals.read_signal() {
        let came = signed32(signal.ssi_signo);
        // The terminal's new size is looked at with its keys.
        if came != Signal::SIGWINCH as i32 {
            *number = Some(came);
        }
    }
    number.is_some()
}

impl Supervisor {
    /// After each turn of a guest.
    fn check(&mut self) -> Decision {
        self.turns = self.turns.wrapping_add(1);
        if self.turns % CHECK_TURNS == 0 {
            if self.is_interrupted() {
                return Decision::End;
            }
            self.outputs.show();
            if has_failed(&self.work, self.hosts) {
                return Decision::End;
            }
            if self.has_requests() {
                return if self.outputs.read_status() == Decision::End { Decision::End } else { Decision::Wake };
            }
        }
        self.outputs.read_status()
    }

    fn is_interrupted(&mut self) -> bool {
        end_signal(&self.signals, &mut self.interrupted)
    }

    /// True if somebody else has asked for a command, or typed.
    fn has_requests(&mut self) -> bool {
        let asked = files::requests(self.work.path()).len();
        let is_new = asked > self.asked;
        self.asked = asked;
        is_new || console::has_batches(self.work.path())
    }

    /// Before time goes on to `then`: waits until the machine's has gone on as far, or somebody
    /// types. If the network is slower than the machine, it does not hurry afterwards.
    fn pace(&mut self, now: Time, then: Time) -> Pace {
        let (begun, at) = *self.anchor.get_or_insert((Instant::now(), now));
        let due = (then != Time::NEVER).then(|| begun + Duration::from_nanos(then.since(at).as_ns()));
        if let Some(late) = due.and_then(|due| Instant::now().checked_duration_since(due)) {
            if late > CONSOLE_INTERVAL {
                self.anchor = Some((Instant::now(), then));
            }
            if self.checked_at.elapsed() < CONSOLE_INTERVAL {
                return Pace::Continue;
            }
        }
        loop {
            self.outputs.show();
            let left =
                due.map_or(CONSOLE_INTERVAL, |due| due.saturating_duration_since(Instant::now())).min(CONSOLE_INTERVAL);
            let keys = self.wait(left);
            self.checked_at = Instant::now();
            if self.is_interrupted() {
                return Pace::End;
            }
            let typed = self.keyboard.as_mut().map_or(Ok(Typed::Nothing), |own| own.send(self.work.path(), keys));
            match typed {
                Ok(Typed::Nothing) => {}
                Ok(Typed::Keys) => return Pace::Wake(at + span(begun.elapsed())),
                Ok(Typed::Leave) | Err(_) => {
                    self.interrupted = Some(Signal::SIGINT as i32);
                    return Pace::End;
                }
            }
            if left == CONSOLE_INTERVAL && self.has_requests() {
                return Pace::Wake(at + span(begun.elapsed()));
            }
            if due.is_some_and(|due| Instant::now() >= due) {
                return Pace::Continue;
            }
        }
    }

    /// Waits for keys or a signal, and says whether there are keys.
    fn wait(&self, left: Duration) -> bool {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let keys = self.keyboard.as_ref().map(Keyboard::descriptor);
        fds.extend(keys.map(|keys| PollFd::new(keys, PollFlags::POLLIN)));
        let left = TimeSpec::from_duration(left);
        ppoll(&mut fds, Some(left), None).is_ok() && fds.get(1).and_then(PollFd::any).unwrap_or(false)
    }
}

fn span(duration: Duration) -> Span {
    Span::from_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Outputs of commands, and how they end.
struct Outputs {
    work: Rc<SharedFolder>,
    /// By index: the host, and whether it is in front.
    commands: Vec<(String, bool)>,
    /// End of a line. A terminal in raw mode needs the carriage return as well.
    line_end: &'static str,
    status: Vec<Option<i32>>,
    shown: Vec<u64>,
    decider: Option<usize>,
    /// The first error of standard output.
    lost: Option<std::io::Error>,
}

impl Outputs {
    fn new(config: &RunConfig, work: Rc<SharedFolder>) -> Outputs {
        let many = config.commands.len();
        let in_front = config.commands.iter().position(|command| command.in_front);
        let last = if config.for_s.is_none() { many.checked_sub(1) } else { None };
        let commands = config.commands.iter().map(|command| (command.host.clone(), command.in_front)).collect();
        let is_typed = config.commands.iter().any(|command| command.reads) && is_terminal();
        Outputs {
            work,
            commands,
            line_end: if is_typed { "\r\n" } else { "\n" },
            status: vec![None; many],
            shown: vec![0; many],
            decider: in_front.or(last),
            lost: None,
        }
    }

    /// `Over` if the command that decides has ended, or all of them.
    fn read_status(&mut self) -> Decision {
        for (index, status) in self.status.iter_mut().enumerate().filter(|(_, status)| status.is_none()) {
            let text = self.work.status(&files::status_file(index));
            *status = text.and_then(|text| text.trim().parse().ok());
        }
        let decided = self.decider.is_some_and(|index| self.status[index].is_some());
        let all = !self.status.is_empty() && self.status.iter().all(Option::is_some);
        if decided || all { Decision::End } else { Decision::Continue }
    }

    /// Writes what commands have written since the last time. Lines of those that are not in front
    /// say whose they are.
    fn show(&mut self) {
        let shown = self.show_to(&mut std::io::stdout().lock());
        // It ends nothing. Who reads no more knows it.
        if let Some(error) = shown.err().filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe) {
            self.lost.get_or_insert(error);
        }
    }

    fn show_to(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut written = Ok(());
        for (index, (host, in_front)) in self.commands.iter().enumerate() {
            let Some(mut file) = self.work.read(&files::output_file(index)) else { continue };
            // As far as it is written: whoever writes on meanwhile is read the next time.
            let end = UntrustedFolder::written(&file);
            let mut bytes = Vec::new();
            while self.shown[index] < end {
                bytes.clear();
                let most = OUTPUT_BATCH_BYTES.min(end - self.shown[index]);
                let read = file.seek(SeekFrom::Start(self.shown[index]));
                if read.and_then(|_| (&mut file).take(most).read_to_end(&mut bytes)).is_err() {
                    break;
                }
                let is_last = self.status[index].is_some() && self.shown[index] + most == end;
                let lines = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                // A line that fills a lot has no end.
                let is_whole = *in_front || is_last || (lines == 0 && most == OUTPUT_BATCH_BYTES);
                let whole = if is_whole { bytes.len() } else { lines };
                if whole == 0 {
                    break;
                }
                self.shown[index] += u64::from(count(whole));
                let mut text = Vec::new();
                if *in_front {
                    text.extend_from_slice(&bytes[..whole]);
                } else {
                    for line in String::from_utf8_lossy(&bytes[..whole]).lines() {
                        text.extend_from_slice(format!("{host}: {line}{}", self.line_end).as_bytes());
                    }
                }
                written = written.and_then(|()| out.write_all(&text));
            }
        }
        written.and_then(|()| out.flush())
    }

    fn code(&self, config: &RunConfig) -> i32 {
        let last = config.commands.len().checked_sub(1);
        self.decider.or(last).and_then(|index| self.status.get(index).copied().flatten()).unwrap_or(0)
    }
}

/// Tables of what the guests' kernels knew of their connections.
fn connections(real: &[RealHost], work: &SharedFolder) -> Vec<Table> {
    let mut log = ConnectionLog::default();
    for (index, real) in real.iter().enumerate() {
        let Some(file) = work.read(&files::connections_file(index)) else { continue };
        let mut file = BufReader::new(file.take(MAX_CONNECTIONS_BYTES));
        let mut line = Vec::new();
        // A line that is cut or too long is no look, and the rest of it neither.
        while (&mut file).take(MAX_SNAPSHOT_BYTES).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let snapshot = serde_json::from_slice::<ConnectionSnapshot>(&line);
            line.clear();
            let Ok(snapshot) = snapshot else { continue };
            let at = Time::from_ns(snapshot.ns);
            snapshot.ended.into_iter().for_each(|ended| log.ended(at, index, &real.name, ended));
            log.sample(at, index, &real.name, snapshot.open, true);
        }
    }
    let names: Vec<String> = real.iter().map(|real| real.name.clone()).collect();
    log.finish(&names)
}

/// Facts that are known at the end.
struct RunResult<'a> {
    real: &'a [RealHost],
    left_out: Vec<String>,
    outputs: &'a Outputs,
    work: &'a SharedFolder,
    ended: Time,
    wall_s: f64,
    /// Somebody had a terminal in it.
    is_typed: bool,
}

fn finish(
    config: &RunConfig,
    guests_config: &GuestsConfig,
    mut controller: Controller<SimulatedNetwork, Recorder>,
    result: &RunResult<'_>,
) -> Result<(), Stop> {
    let failed = |error: std::io::Error| Stop::failure(format!("cannot write tables: {error}"));
    controller.tap.end().map_err(Stop::failure)?;
    let Some(record) = &config.record else { return Ok(()) };
    let hosts = result.real.iter().zip(&controller.guests).enumerate().map(|(index, (real, guest))| {
        let said = result.work.ready(&files::ready_file(index)).unwrap_or_default();
        let sysctls = said.strip_prefix("ready ").unwrap_or("").lines();
        let sysctls =
            sysctls.filter_map(|line| line.split_once('=')).map(|(key, is)| (key.to_owned(), Value::from(is)));
        let counts = guest.counts;
        let about = json!({
            "ipv4": real.addresses.v4.to_string(),
            "ipv6": can_have_v6(real.mtu).then(|| real.addresses.v6.to_string()),
            "sysctls": sysctls.collect::<Map<String, Value>>(),
            "traffic": {
                "sent_packets": counts.sent,
                "sent_bytes": counts.sent_bytes,
                "received_packets": counts.received,
                "received_bytes": counts.received_bytes,
            },
            "lost_in_device": counts.lost,
            "unroutable": counts.unroutable,
        });
        (real.name.clone(), about)
    });
    let hosts: Map<String, Value> = hosts.collect();
    let commands = config.commands.iter().zip(&result.outputs.status);
    let commands: Vec<CommandReport> =
        commands.map(|(c, &status)| CommandReport { host: c.host.clone(), command: c.argv.clone(), status }).collect();
    let about = json!({
        "validity": "virtual",
        "kernel": guests_config.name,
        "tcp_small_queues": true,
        "repeatable": !result.is_typed,
        "driver": { "wall_s": result.wall_s },
        "most_packets_inside": controller.most_inside(),
        "hosts": hosts,
        "commands": commands,
        "flows_left_out": result.left_out,
    });
    let output = controller.network.finish();
    let mut tables = output.tables;
    tables.extend(connections(result.real, result.work));
    let mut store = Store::begin(&record.folder).map_err(failed)?;
    store.add(&tables).and_then(|()| store.end()).map_err(failed)?;
    let all = json!({
        "summary": output.summary,
        "events": output.events,
        "packets_delivered": output.packets_delivered,
        "simulated_s": result.ended.as_secs_f64(),
        "meanings": meanings(&tables),
        "emu": about,
    });
    let text = serde_json::to_vec(&all).map_err(|error| failed(error.into()))?;
    fs::write(record.folder.join(OUTPUT), text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn outputs(folder: &Path) -> Outputs {
        fs::create_dir_all(folder).unwrap();
        Outputs {
            work: Rc::new(SharedFolder::of(folder).unwrap()),
            commands: vec![("laptop".to_owned(), true), ("server".to_owned(), false)],
            line_end: "\n",
            status: vec![None; 2],
            shown: vec![0; 2],
            decider: None,
            lost: None,
        }
    }

    fn shown(outputs: &mut Outputs) -> String {
        let mut out = Vec::new();
        outputs.show_to(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn output_that_a_guest_only_claims_is_not_shown_without_end() {
        let folder = std::env::temp_dir().join(format!("airtcp-outputs-{}", std::process::id()));
        let mut outputs = outputs(&folder);
        fs::write(folder.join(files::output_file(0)), "in front").unwrap();
        fs::write(folder.join(files::output_file(1)), "one\ntw").unwrap();
        assert_eq!(shown(&mut outputs), "in frontserver: one\n");
        for index in [0, 1] {
            let file = OpenOptions::new().write(true).open(folder.join(files::output_file(index))).unwrap();
            file.set_len(1 << 40).unwrap();
        }
        assert!(shown(&mut outputs).len() < 1 << 20);
        let status = fs::read("/proc/self/status").unwrap();
        fs::write(folder.join(files::status_file(1)), status).unwrap();
        assert_eq!(outputs.read_status(), Decision::Continue, "text that is no number is no status");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn output_without_room_is_an_error_and_ends_nothing() {
        let folder = std::env::temp_dir().join(format!("airtcp-full-{}", std::process::id()));
        let mut outputs = outputs(&folder);
        fs::write(folder.join(files::output_file(0)), "text").unwrap();
        let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(outputs.show_to(&mut full).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        fs::remove_dir_all(folder).unwrap();
    }
}
