//! A laboratory from beginning to end: kernels, their scripts, the medium between them, and what is
//! kept.

// The machine's own processes are waited for in the machine's time, and a guest's in its own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use airtcp_core::convert::{count, count16, signed32};
use airtcp_core::packet::PacketId;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::RadioId;
use airtcp_hwsim::Air;
use airtcp_sim::scenario::Scenario;
use nix::sys::wait::{WaitPidFlag, waitpid};
use serde_json::{Value, json};

use super::scenario::{LabScenario, lab_scenario};
use super::{script, tables};
use crate::common::config::{GuestsConfig, RunConfig, Security};
use crate::common::network::{Delivered, Network, NotSent, Tap};
use crate::common::output::{on_one_line, to_stderr};
use crate::common::process::end_with_parent;
use crate::common::rights::become_root;
use crate::common::signals;
use crate::common::stop::Stop;
use crate::common::store::{OUTPUT, Store, meanings};
use crate::uml::boot::{self, Card, Kernel};
use crate::uml::controller::{Controller, Decision, Failure, Guest};
use crate::uml::files::{self, GUEST_FOLDER, ready_file, write_atomically};
use crate::uml::guest_init::{TEMP_FOLDER, mount_filesystems, time_to_begin};
use crate::uml::shared_folder::SharedFolder;

/// Virtual time in which radios find each other, before the run begins.
pub(crate) const ASSOCIATION_TIME: Span = Span::from_secs(6);
/// Messages for kernels that wait, at most.
const MAX_WAITING_MESSAGES: usize = 65_536;
/// Signals are looked at after so many turns of guests.
const CHECK_TURNS: u32 = 64;

/// The medium as the controller's network: its guests have radios, and no packets of their own.
struct MediumNetwork(Air, Rc<Cell<Time>>);

impl Network for MediumNetwork {
    fn deadline(&mut self) -> Time {
        self.0.deadline()
    }
    fn run_until(&mut self, time: Time) {
        self.0.run_until(time);
        self.1.set(time);
    }
    fn inject(&mut self, _: usize, _: &[u8]) -> Result<PacketId, NotSent> {
        Err(NotSent::Unroutable)
    }
    fn take_egress(&mut self, _: &mut dyn FnMut(Delivered)) -> bool {
        false
    }
    fn take_message(&mut self, from: usize, message: &[u8]) -> Result<(), String> {
        // All of it goes out before its next turn: only who hands over without end has so much.
        if self.0.mac.waiting_out() > MAX_WAITING_MESSAGES {
            return Err("it hands over frames faster than any radio".to_owned());
        }
        self.0.take_in(self.1.get(), RadioId(count16(from)), message).map_err(|why| why.to_string())
    }
    fn next_message(&mut self) -> Option<(usize, Vec<u8>)> {
        self.0.mac.take_out().map(|(radio, message)| (radio.index(), message))
    }
    fn inside(&self) -> u32 {
        0
    }
    fn write_mark(_: &Delivered, _: &mut [u8]) {}
}

/// Nobody looks at packets: they are the radios' own.
struct NoTap;

impl Tap for NoTap {
    fn packet(&mut self, _: Time, _: usize, _: bool, _: &[u8]) {}
}

/// Runs the scenario of a configuration in kernels of their own.
pub(crate) fn run(config: &RunConfig, guests_config: &GuestsConfig) -> Result<ExitCode, Stop> {
    end_with_parent(config.parent)?;
    let security = config.lab.as_ref().map_or(Security::Open, |lab| lab.security);
    let scenario =
        Scenario::parse_json(&config.scenario, &config.file, &[]).map_err(|e| Stop::bad_input(e.to_string()))?;
    let spec = scenario.to_spec().map_err(|faults| Stop::bad_input(faults.to_string()))?;
    let scenario = lab_scenario(&spec).map_err(|why| Stop::bad_input(format!("{}: {why}", config.file)))?;
    check_programs(security)?;
    for host in scenario.wired.iter().filter(|host| host.lacks_offload && !config.quiet) {
        to_stderr(format_args!(
            "airtcp: {:?} has a receive offload that airtcp lab has not (\"off\" and \"napi\" it has): \
            its kernel takes packets one by one",
            host.name
        ));
    }
    become_root().map_err(Stop::bad_input)?;
    let work = SharedFolder::make(&guests_config.kernel).map_err(Stop::failure)?;
    let begun = Instant::now();
    let kernels = write_scripts(&scenario, guests_config, work.path(), security)
        .map_err(|error| Stop::failure(format!("kernels: {error}")))?;
    let signals = signals::signal_fd(&[]).map_err(|error| Stop::failure(error.desc()))?;
    let interrupted = Rc::new(Cell::new(None));
    let ended = Rc::clone(&interrupted);
    let mut ends = move || {
        if let Ok(Some(signal)) = signals.read_signal() {
            ended.set(Some(signed32(signal.ssi_signo)));
        }
        ended.get().is_some()
    };
    let code = |signal: i32| ExitCode::from(u8::try_from(128 + signal).unwrap_or(1));
    let begun_guests = boot::begin(&work, &kernels, &mut ends);
    if let Some(signal) = interrupted.get() {
        return Ok(code(signal));
    }
    let (running, clocks, devices) = begun_guests.map_err(Stop::failure)?;
    let mut guests = Vec::new();
    for (index, ((radio, time), listener)) in scenario.radios.iter().zip(clocks).zip(devices).enumerate() {
        guests.push(Guest::with_radio(&radio.name, index, time, listener));
    }
    let mut air = Air::new(&scenario.medium);
    for ap in scenario.aps() {
        air.mac.want_damaged(RadioId(count16(ap)), scenario.radios[ap].retry_out.is_some());
    }
    for (index, _) in scenario.radios.iter().enumerate().filter(|(_, radio)| radio.mcs.is_some()) {
        air.mac.fix_rate(RadioId(count16(index)));
    }
    let end = ASSOCIATION_TIME + scenario.duration;
    let time = Rc::new(Cell::new(Time::ZERO));
    let mut controller =
        Controller::new(MediumNetwork(air, Rc::clone(&time)), NoTap, guests, Some(end + tables::WRITING_TIME));
    controller.set_interrupt(Box::new(ends));
    let mut turns = 0u32;
    let mut failed = None;
    let ran = controller.run(&mut |_| {
        let now = time.get();
        turns = turns.wrapping_add(1);
        if turns % CHECK_TURNS != 0 {
            return Decision::Continue;
        }
        // By now all are ready; later nobody looks.
        failed = if turns % (CHECK_TURNS * CHECK_TURNS) == 0 || now < Time::ZERO + ASSOCIATION_TIME {
            script_error(&work, &scenario)
        } else {
            None
        };
        if failed.is_none()
            && now >= Time::ZERO + ASSOCIATION_TIME
            && now < Time::ZERO + ASSOCIATION_TIME + Span::from_ms(500)
        {
            failed = not_ready(&work, &scenario);
        }
        if failed.is_some() { Decision::End } else { Decision::Continue }
    });
    drop(running);
    ran.or_else(Failure::unless_interrupted).map_err(|failure| {
        let last: Vec<String> =
            (0..kernels.len()).flat_map(|index| work.last_lines(&files::log_file(index), 3)).collect();
        Stop::failure(format!("{failure}\n{}", last.join("\n")))
    })?;
    if let Some(why) = failed.or_else(|| not_ready(&work, &scenario).filter(|_| interrupted.get().is_none())) {
        return Err(Stop::failure(why));
    }
    if let Some(signal) = interrupted.get() {
        return Ok(code(signal));
    }
    let observations = tables::observations(&work, &scenario).map_err(Stop::failure)?;
    let silent = tables::flows_without_data(&scenario, &observations);
    if !silent.is_empty() {
        let said: Vec<String> =
            (0..scenario.radios.len()).flat_map(|index| work.last_lines(&script_log(index), 40)).collect();
        let names = silent.join(", ");
        return Err(Stop::failure(format!("nothing was heard of the programs of {names}\n{}", said.join("\n"))));
    }
    let wall_s = begun.elapsed().as_secs_f64();
    let (all, summary) = tables::tables(&scenario, &observations, &controller.network.0.mac);
    if !config.quiet {
        print_summary(&summary, &kernels, end, wall_s);
    }
    write_results(config, guests_config, &scenario, &all, &summary, (wall_s, security, &controller.guests, &work))?;
    Ok(ExitCode::SUCCESS)
}

fn check_programs(security: Security) -> Result<(), Stop> {
    let needed = script::NEEDED.into_iter().chain((security != Security::Open).then_some(script::NEEDED_FOR_WPA));
    let is_there = |name: &str| script::PATH.split(':').any(|folder| Path::new(folder).join(name).is_file());
    let missing: Vec<(&str, &str)> = needed.filter(|(name, _)| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let (names, packages) = (names.join(", "), packages.join(" "));
    Err(Stop::bad_input(format!("airtcp lab needs {names}\n  Debian: apt install {packages}")))
}

/// File with the output of a kernel's script and programs.
fn script_log(index: usize) -> String {
    format!("{index}.out")
}

/// Writes down what each kernel is to do, and how it is started.
fn write_scripts(
    scenario: &LabScenario,
    guests_config: &GuestsConfig,
    work: &Path,
    security: Security,
) -> std::io::Result<Vec<Kernel>> {
    let init = work.join("init");
    std::os::unix::fs::symlink(fs::read_link("/proc/self/exe")?, &init)?;
    let mut kernels = Vec::new();
    for (index, radio) in scenario.radios.iter().enumerate() {
        let is_ap = scenario.is_ap(index);
        let conf = if is_ap {
            script::hostapd(scenario, index, security)
        } else {
            script::supplicant(scenario, radio.ap, security)
        };
        fs::write(work.join(format!("{index}.conf")), conf)?;
        fs::write(
            work.join(format!("{index}.sh")),
            script::script(scenario, index, security, &init.display().to_string()),
        )?;
        let card = Card::Radio { from_boot: !scenario.band.is_at_5_ghz(), streams: radio.streams };
        kernels.push(Kernel {
            program: guests_config.kernel.clone(),
            arguments: boot::arguments(work, index, &guests_config.memory, &init, card),
            seed: scenario.seed.wrapping_mul(1 << 16).wrapping_add(u64::from(count(index))),
        });
    }
    Ok(kernels)
}

/// Error that a kernel's script reports, if there is one.
fn script_error(work: &SharedFolder, scenario: &LabScenario) -> Option<String> {
    scenario.radios.iter().enumerate().find_map(|(index, radio)| {
        let text = work.ready(&ready_file(index))?;
        let why = text.strip_prefix("error ")?;
        Some(format!("{:?}: {}", radio.name, why.trim_end()))
    })
}

/// Why a kernel is not ready, if one is not.
fn not_ready(work: &SharedFolder, scenario: &LabScenario) -> Option<String> {
    script_error(work, scenario).or_else(|| {
        let is_silent = |index: &usize| !work.has(&ready_file(*index));
        let index = (0..scenario.radios.len()).find(is_silent)?;
        let said = work.last_lines(&script_log(index), 40).join("\n");
        let lead = ASSOCIATION_TIME.as_secs_f64();
        Some(format!("{:?} was not ready after {lead} s of its time\n{said}", scenario.radios[index].name))
    })
}

/// The figures of each group, in a line.
fn print_summary(summary: &Value, kernels: &[Kernel], end: Span, wall_s: f64) {
    for group in summary["groups"].as_array().into_iter().flatten() {
        let name = group["group"].as_str().unwrap_or("");
        let mut parts = Vec::new();
        let figures = [
            ("goodput_bps", "Mbit/s", 1e-6),
            ("rtt_mean_ms", "ms round trip", 1.0),
            ("srtt_mean_ms", "ms smoothed round trip", 1.0),
        ];
        for (key, unit, factor) in figures {
            parts.extend(group[key].as_f64().map(|value| format!("{:.2} {unit}", value * factor)));
        }
        if group["kind"] != "unlimited" {
            parts.push(format!("{} of {} came", group["received"], group["segments_sent"]));
        }
        to_stderr(format_args!("airtcp: {}: {}", on_one_line(name), parts.join(", ")));
    }
    let virtual_s = end.as_secs_f64();
    to_stderr(format_args!("airtcp: {virtual_s:.1} s of virtual time in {wall_s:.1} s, {} kernels", kernels.len()));
}

/// Counters of the remedy, as the access points' kernels have them at the end, summed.
fn counters(work: &SharedFolder, scenario: &LabScenario) -> Value {
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    for ap in scenario.aps() {
        let text = work.page(&format!("{ap}.retry_out"));
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let sum = known.entry(key.to_owned()).or_default();
            *sum = sum.saturating_add(value.trim().parse().unwrap_or(0));
        }
    }
    json!(known)
}

fn write_results(
    config: &RunConfig,
    guests_config: &GuestsConfig,
    scenario: &LabScenario,
    tables: &[airtcp_core::table::Table],
    summary: &Value,
    (wall_s, security, guests, work): (f64, Security, &[Guest], &SharedFolder),
) -> Result<(), Stop> {
    let failed = |error: std::io::Error| Stop::failure(format!("cannot write tables: {error}"));
    let Some(record) = &config.record else { return Ok(()) };
    let hosts = scenario.radios.iter().zip(guests).map(|(radio, guest)| {
        let about = json!({
            "rate": script::rate_control(radio),
            "retry_out": radio.retry_out,
            "frames_to_medium": guest.counts.sent,
            "messages_from_medium": guest.counts.received,
        });
        (radio.name.clone(), about)
    });
    let hosts: serde_json::Map<String, Value> = hosts.collect();
    let about = json!({
        "validity": "virtual",
        "kernel": guests_config.name,
        "stack": "mac80211 on airtcp's medium",
        "security": security.name(),
        "wpa2": security == Security::Wpa2,
        "driver": { "wall_s": wall_s },
        "hosts": hosts,
        "retry_out": counters(work, scenario),
    });
    let mut store = Store::begin(&record.folder).map_err(failed)?;
    store.add(tables).and_then(|()| store.end()).map_err(failed)?;
    let frames: u64 = guests.iter().map(|guest| guest.counts.sent).sum();
    let all = json!({
        "summary": summary,
        "events": frames,
        "packets_delivered": guests.iter().map(|guest| guest.counts.received).sum::<u64>(),
        "simulated_s": scenario.duration.as_secs_f64(),
        "meanings": meanings(tables),
        "emu": about,
    });
    let text = serde_json::to_vec(&all).map_err(|error| failed(error.into()))?;
    fs::write(record.folder.join(OUTPUT), text).map_err(failed)
}

/// Runs as the first process of a laboratory's kernel: it never ends, since its end would be the
/// kernel's.
pub(crate) fn guest_run(work: &str, host: &str) -> ExitCode {
    let index = host.parse().unwrap_or(0);
    if let Err(why) = run_script(work, index) {
        let _ = write_atomically(&Path::new(GUEST_FOLDER).join(ready_file(index)), &format!("error {why}"));
    }
    loop {
        // Processes that programs leave behind are reaped; without any there is nothing to wait
        // for.
        if waitpid(None, Some(WaitPidFlag::__WALL)).is_err() {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

fn run_script(work: &str, index: usize) -> Result<(), String> {
    let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    mount_filesystems(work)?;
    // As systemd sets it.
    let _ = fs::write("/proc/sys/net/core/default_qdisc", "fq_codel");
    let shared = Path::new(GUEST_FOLDER);
    let out = File::create(shared.join(script_log(index))).map_err(failed("what it says"))?;
    std::thread::sleep(time_to_begin());
    let mut shell = Command::new("/bin/sh");
    shell.arg(shared.join(format!("{index}.sh"))).env_clear();
    shell.env("PATH", script::PATH).env("TMPDIR", TEMP_FOLDER).env("HOME", TEMP_FOLDER).current_dir("/");
    shell.stdin(Stdio::null()).stdout(out.try_clone().map_err(failed("what it says"))?).stderr(out);
    let status = shell.status().map_err(failed("/bin/sh"))?;
    if status.success() || shared.join(ready_file(index)).exists() {
        Ok(())
    } else {
        Err(format!("its script ended with {status}"))
    }
}
