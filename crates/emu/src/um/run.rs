//! A network in virtual time from beginning to end: guests, their commands, and what is kept.

// The machine's own processes are waited for in the machine's time, and a guest's in its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use airtcp_core::convert::{count, signed32};
use airtcp_core::table::Table;
use airtcp_core::units::{Span, Time};
use airtcp_sim::scenario::Scenario;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, CpuSet, sched_getcpu, sched_setaffinity, unshare};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use serde_json::{Map, Value, json};

use super::boot::{self, Card, Kernel};
use super::controller::{Controller, Guest, Verdict};
use super::inside::{self, Inside, Look};
use crate::Stop;
use crate::addresses::hosts_file;
use crate::connections::Seen;
use crate::plan::{Guests, Plan};
use crate::report::CommandReport;
use crate::run::{Recorder, end_with, environment};
use crate::space::become_root;
use crate::state::{State, StateHost};
use crate::store::{OUTPUT, Store, meanings};
use crate::world::{Air, Attached, attach};

/// One of these folders is where guests find what is for them: a file system in memory that nobody else sees. Always the same, since a
/// guest's random numbers follow from its command line, too.
const PLACES: [&str; 3] = ["/media", "/mnt", "/srv"];
/// Signals are looked at after so many turns of guests.
const LOOK: u32 = 64;
/// Connections of guests are written down this often.
const LOOK_EVERY: Span = Span::from_ms(100);
/// The network goes on for so long while they are once more, when all is over.
const LAST_LOOK: Span = Span::from_ms(1);

/// Runs the plan; the exit code is the deciding command's.
pub(crate) fn run(plan: &Plan, guests_plan: &Guests) -> Result<ExitCode, Stop> {
    end_with(plan.parent)?;
    let scenario = Scenario::parse_json(&plan.scenario, &plan.file, &[]).map_err(|e| Stop::bad_input(e.to_string()))?;
    let mut attached = attach(&scenario, plan)?;
    attached.air.report_releases();
    become_root().map_err(Stop::bad_input)?;
    let work = private_folder(&guests_plan.kernel).map_err(Stop::failure)?;
    let begun = Instant::now();
    let kernels =
        tell(plan, guests_plan, &attached, &work).map_err(|error| Stop::failure(format!("guests: {error}")))?;
    let mut caught = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        caught.add(signal);
    }
    let signals = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&caught), None)
        .and_then(|()| SignalFd::with_flags(&caught, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|error| Stop::failure(error.desc()))?;
    let recorder = Recorder::begin(plan, attached.real.iter().map(|real| real.name.as_str()), true)?;
    stay_here();
    let (running, clocks, devices) = boot::begin(&work, &kernels).map_err(Stop::failure)?;
    let Attached { air, real, left_out, .. } = attached;
    let mut guests = Vec::new();
    for (place, ((real, time), listener)) in real.iter().zip(clocks).zip(devices).enumerate() {
        guests.push(Guest::new(&real.name, place, real.mtu, time, listener));
    }
    let lasts = plan.for_s.map(Span::from_secs_f64);
    let mut controller = Controller::new(air, recorder, guests, lasts);
    controller.look_every(LOOK_EVERY);
    let mut outputs = Outputs::new(plan, &work);
    let names = real.iter().map(|real| real.name.clone());
    let hosts_shown = names.map(|name| StateHost { name, space: -1, env: Vec::new() }).collect();
    let shown = State { name: scenario.name().to_owned(), init: 0, guests: Some(work.clone()), hosts: hosts_shown };
    let _shown =
        shown.show().map_err(|error| Stop::failure(format!("showing the network to `airtcp exec`: {error}")))?;
    let mut asked = 0;
    let hosts = real.len();
    let mut turns = 0u32;
    let mut interrupted = None;
    let ran = controller.run(&mut |_| {
        turns = turns.wrapping_add(1);
        if turns % LOOK == 0 {
            if let Ok(Some(signal)) = signals.read_signal() {
                interrupted = Some(signed32(signal.ssi_signo));
                return Verdict::Over;
            }
            outputs.show(plan);
            if has_failed(&work, hosts) {
                return Verdict::Over;
            }
            let asked_now = inside::asked(&work).len();
            if asked_now > asked {
                asked = asked_now;
                return if outputs.look() == Verdict::Over { Verdict::Over } else { Verdict::Wake };
            }
        }
        outputs.look()
    });
    let ended = controller.now();
    if ran.is_ok() && plan.record.is_some() && interrupted.is_none() {
        // If a guest has failed, what it knew last is what there is.
        let _ = controller.look_once_more(LAST_LOOK);
    }
    outputs.show(plan);
    outputs.look();
    drop(running);
    if let Some(why) = not_ready(&work, &real) {
        return Err(Stop::failure(why));
    }
    ran.map_err(|failure| {
        let said = kernels.iter().filter_map(|kernel| fs::read_to_string(&kernel.log).ok());
        let last: Vec<String> =
            said.flat_map(|text| text.lines().rev().take(3).map(str::to_owned).collect::<Vec<_>>()).collect();
        Stop::failure(format!("{failure}\n{}", last.join("\n")))
    })?;
    let wall_s = begun.elapsed().as_secs_f64();
    if !plan.quiet {
        let virtual_s = ended.as_secs_f64();
        eprintln!(
            "airtcp: {virtual_s:.3} s of virtual time in {wall_s:.1} s, start of {} kernels included",
            kernels.len()
        );
    }
    finish(
        plan,
        guests_plan,
        controller,
        &Told { real: &real, left_out, outputs: &outputs, work: &work, ended, wall_s },
    )?;
    let code = interrupted.map_or_else(|| outputs.code(plan), |number| 128 + number);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Guests and this process take turns. On one processor a turn wakes no other, which makes it about three times as fast. Where there is
/// another run the system has most likely put the two on different ones.
fn stay_here() {
    let mut only = CpuSet::new();
    if sched_getcpu().is_ok_and(|here| only.set(here).is_ok()) {
        // Without leave everything takes longer, and comes out the same.
        let _ = sched_setaffinity(Pid::from_raw(0), &only);
    }
}

/// A file system of this process and its children, gone when they are.
pub(crate) fn private_folder(kernel: &Path) -> Result<PathBuf, String> {
    let here = std::env::current_dir().unwrap_or_default();
    let is_free = |place: &&str| Path::new(place).is_dir() && !here.starts_with(place) && !kernel.starts_with(place);
    let Some(place) = PLACES.into_iter().find(is_free) else {
        return Err(format!("none of {} is a folder that guests can use", PLACES.join(", ")));
    };
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
        .and_then(|()| mount(Some("airtcp"), place, Some("tmpfs"), MsFlags::empty(), none))
        .map_err(|error| format!("a private folder at {place}: {error}"))?;
    Ok(PathBuf::from(place))
}

/// Writes down what each guest is told, and how it is started.
fn tell(plan: &Plan, guests_plan: &Guests, attached: &Attached, work: &Path) -> std::io::Result<Vec<Kernel>> {
    // By a name without spaces, which would end the word on a kernel's command line.
    let init = work.join("init");
    std::os::unix::fs::symlink(fs::read_link("/proc/self/exe")?, &init)?;
    let hosts = hosts_file(attached.air.everybody());
    let folder = std::env::current_dir().unwrap_or_default();
    let mut kernels = Vec::new();
    for (place, (real, env)) in attached.real.iter().zip(environment(plan, attached)).enumerate() {
        let commands = plan.commands.iter().enumerate().filter(|(_, command)| command.host == real.name);
        let inside = Inside {
            host: real.name.clone(),
            device: real.device.to_owned(),
            addresses: real.addresses,
            mtu: real.mtu,
            sysctls: real.sysctls.clone(),
            hosts: hosts.clone(),
            env,
            commands: commands.map(|(place, command)| (place, command.argv.clone())).collect(),
            folder: folder.clone(),
        };
        fs::write(work.join(inside::told(place)), serde_json::to_vec(&inside)?)?;
        kernels.push(Kernel {
            program: guests_plan.kernel.clone(),
            arguments: boot::arguments(work, place, &guests_plan.memory, &init, Card::Net),
            seed: attached.seed.wrapping_mul(1 << 16).wrapping_add(u64::from(count(place))),
            log: work.join(format!("{place}.log")),
        });
    }
    Ok(kernels)
}

/// Whether a guest says that it could not do what it was told.
fn has_failed(work: &Path, hosts: usize) -> bool {
    let says = |place| fs::read_to_string(work.join(inside::ready(place))).is_ok_and(|said| said.starts_with("error "));
    (0..hosts).any(says)
}

/// Why a guest did not get ready, if one did not.
fn not_ready(work: &Path, real: &[crate::world::Real]) -> Option<String> {
    real.iter().enumerate().find_map(|(place, real)| {
        let said = fs::read_to_string(work.join(inside::ready(place))).unwrap_or_default();
        if said.starts_with("ready ") {
            return None;
        }
        let log = fs::read_to_string(work.join(format!("{place}.log"))).unwrap_or_default();
        let why = said.strip_prefix("error ").unwrap_or(log.trim_end());
        Some(format!("host {:?} was not ready when the network began: {why}", real.name))
    })
}

/// What commands write, and how they end.
struct Outputs {
    work: PathBuf,
    status: Vec<Option<i32>>,
    shown: Vec<u64>,
    decider: Option<usize>,
}

impl Outputs {
    fn new(plan: &Plan, work: &Path) -> Outputs {
        let many = plan.commands.len();
        let in_front = plan.commands.iter().position(|command| command.in_front);
        let last = if plan.for_s.is_none() { many.checked_sub(1) } else { None };
        Outputs { work: work.to_owned(), status: vec![None; many], shown: vec![0; many], decider: in_front.or(last) }
    }

    /// Whether the command that decides has ended, or all of them.
    fn look(&mut self) -> Verdict {
        for (place, status) in self.status.iter_mut().enumerate().filter(|(_, status)| status.is_none()) {
            let text = fs::read_to_string(self.work.join(inside::status(place)));
            *status = text.ok().and_then(|text| text.trim().parse().ok());
        }
        let decided = self.decider.is_some_and(|place| self.status[place].is_some());
        let all = !self.status.is_empty() && self.status.iter().all(Option::is_some);
        if decided || all { Verdict::Over } else { Verdict::On }
    }

    /// Writes what commands have written since the last time. Lines of those that are not in front say whose they are.
    fn show(&mut self, plan: &Plan) {
        for (place, command) in plan.commands.iter().enumerate() {
            let Ok(mut file) = fs::File::open(self.work.join(inside::output(place))) else { continue };
            let mut bytes = Vec::new();
            if file.seek(SeekFrom::Start(self.shown[place])).and_then(|_| file.read_to_end(&mut bytes)).is_err() {
                continue;
            }
            let whole = if command.in_front || self.status[place].is_some() {
                bytes.len()
            } else {
                bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1)
            };
            self.shown[place] += u64::from(count(whole));
            let text = String::from_utf8_lossy(&bytes[..whole]);
            if command.in_front {
                print!("{text}");
            } else {
                text.lines().for_each(|line| println!("{}: {line}", command.host));
            }
        }
    }

    fn code(&self, plan: &Plan) -> i32 {
        let last = plan.commands.len().checked_sub(1);
        self.decider.or(last).and_then(|place| self.status.get(place).copied().flatten()).unwrap_or(0)
    }
}

/// Tables of what the guests' kernels knew of their connections.
fn connections(real: &[crate::world::Real], work: &Path) -> Vec<Table> {
    let mut seen = Seen::default();
    for (place, real) in real.iter().enumerate() {
        let text = fs::read_to_string(work.join(inside::connections(place))).unwrap_or_default();
        for look in text.lines().filter_map(|line| serde_json::from_str::<Look>(line).ok()) {
            let at = Time::from_ns(look.ns);
            look.ended.into_iter().for_each(|ended| seen.ended(at, place, &real.name, ended));
            seen.look(at, place, &real.name, look.open, true);
        }
    }
    let names: Vec<String> = real.iter().map(|real| real.name.clone()).collect();
    seen.finish(&names)
}

/// What is known at the end.
struct Told<'a> {
    real: &'a [crate::world::Real],
    left_out: Vec<String>,
    outputs: &'a Outputs,
    work: &'a Path,
    ended: Time,
    wall_s: f64,
}

fn finish(
    plan: &Plan,
    guests_plan: &Guests,
    mut controller: Controller<Air, Recorder>,
    told: &Told<'_>,
) -> Result<(), Stop> {
    let failed = |error: std::io::Error| Stop::failure(format!("cannot write tables: {error}"));
    controller.tap.end().map_err(Stop::failure)?;
    let Some(record) = &plan.record else { return Ok(()) };
    let hosts = told.real.iter().zip(&controller.guests).enumerate().map(|(place, (real, guest))| {
        let said = fs::read_to_string(told.work.join(inside::ready(place))).unwrap_or_default();
        let sysctls = said.strip_prefix("ready ").unwrap_or("").lines();
        let sysctls =
            sysctls.filter_map(|line| line.split_once('=')).map(|(key, is)| (key.to_owned(), Value::from(is)));
        let counts = guest.counts;
        let about = json!({
            "ipv4": real.addresses.v4.to_string(),
            "ipv6": real.addresses.v6.to_string(),
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
    let commands = plan.commands.iter().zip(&told.outputs.status);
    let commands: Vec<CommandReport> =
        commands.map(|(c, &status)| CommandReport { host: c.host.clone(), command: c.argv.clone(), status }).collect();
    let about = json!({
        "validity": "virtual",
        "kernel": guests_plan.name,
        "tcp_small_queues": true,
        "driver": { "wall_s": told.wall_s },
        "most_packets_inside": controller.most_inside(),
        "hosts": hosts,
        "commands": commands,
        "flows_left_out": told.left_out,
    });
    let output = controller.network.finish();
    let mut tables = output.tables;
    tables.extend(connections(told.real, told.work));
    let mut store = Store::begin(&record.folder).map_err(failed)?;
    store.add(&tables).and_then(|()| store.end()).map_err(failed)?;
    let all = json!({
        "summary": output.summary,
        "events": output.events,
        "packets_delivered": output.packets_delivered,
        "simulated_s": told.ended.as_secs_f64(),
        "meanings": meanings(&tables),
        "emu": about,
    });
    let text = serde_json::to_vec(&all).map_err(|error| failed(error.into()))?;
    fs::write(record.folder.join(OUTPUT), text).map_err(failed)
}
