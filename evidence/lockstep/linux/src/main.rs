//! The kernel's side of the lockstep: gives the TCP of the running kernel the ACKs (or data) of
//! seeded paths, many at once, and prints what it does after each. evidence/lockstep/run.py says
//! what the lines mean.

mod kernel;
mod plan;
mod receiver;
mod receiving;
mod rng;
mod sending;
mod wire;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::Write;

use plan::{Plan, TOPICS, Topic};
use receiving::Receiving;
use sending::{Given, Sending};

const FIRST_PORT: u16 = 2000;
/// Initial windows that plans ask for.
const WINDOWS: [u64; 4] = [3, 5, 10, 20];
/// So much before something is due the wait ends, and the rest is spent looking.
const SPIN_US: u64 = 60;

enum Path {
    Sending(Sending),
    Receiving(Receiving),
}

enum Due {
    Sending(sending::Due),
    Receiving(receiving::Due),
}

impl Path {
    fn is_over(&self, now_us: u64) -> bool {
        match self {
            Path::Sending(path) => path.over || path.is_late(now_us),
            Path::Receiving(path) => path.over,
        }
    }
    fn record(&self) -> &str {
        match self {
            Path::Sending(path) => &path.record,
            Path::Receiving(path) => &path.record,
        }
    }
}

struct Hosts {
    devices: [File; 2],
    listener: kernel::Socket,
    paths: HashMap<u16, Path>,
    due: BinaryHeap<Reverse<(u64, u64, u16)>>,
    what: HashMap<u64, Due>,
    number: u64,
    into: Vec<u8>,
}

impl Hosts {
    fn schedule(&mut self, port: u16, later: impl IntoIterator<Item = (u64, Due)>) {
        for (at, due) in later {
            self.number += 1;
            self.due.push(Reverse((at, self.number, port)));
            self.what.insert(self.number, due);
        }
    }

    /// Takes what the kernel has sent; all but the packets of `but` is sent by itself.
    fn take(&mut self, at_us: u64, but: Option<u16>) -> Result<(), String> {
        let mut quiet = Vec::new();
        for i in 0..2 {
            while let Some(bytes) = kernel::take(&mut self.devices[i], &mut self.into) {
                let Some(p) = wire::parse(bytes) else { continue };
                let port = if p.from.1 == receiving::PORT { p.to.1 } else { p.from.1 };
                let Some(path) = self.paths.get_mut(&port) else { continue };
                if p.flags & wire::RST != 0 {
                    continue;
                }
                match path {
                    Path::Sending(path) => {
                        let mut later = Vec::new();
                        path.on_sent(at_us, &p, &mut later);
                        self.schedule(port, later.into_iter().map(|(at, due)| (at, Due::Sending(due))));
                    }
                    Path::Receiving(path) => path.on_sent(at_us, &p),
                }
                if but != Some(port) && !quiet.contains(&port) {
                    quiet.push(port);
                }
            }
        }
        for port in quiet {
            match self.paths.get_mut(&port).expect("it is there") {
                Path::Sending(path) => path.on_quiet(at_us)?,
                Path::Receiving(path) => path.note("T", at_us, ""),
            }
        }
        Ok(())
    }

    fn happen(&mut self, port: u16, due: Due) -> Result<(), String> {
        self.take(kernel::now_us(), None)?;
        match due {
            Due::Sending(due) => self.happen_sending(port, due),
            Due::Receiving(due) => self.happen_receiving(port, &due),
        }
    }

    fn happen_sending(&mut self, port: u16, due: sending::Due) -> Result<(), String> {
        let Some(Path::Sending(path)) = self.paths.get_mut(&port) else { return Ok(()) };
        let mut later = Vec::new();
        let at = kernel::now_us();
        let given = if let sending::Due::Write(n) = due {
            Some((at, path.write(at, n)?))
        } else {
            match path.on_due(at, due, &mut later) {
                None => None,
                Some((packet, given)) => {
                    path.look(at)?;
                    let at = kernel::now_us();
                    kernel::give(&mut self.devices[usize::from(path.plan.by_one)], &packet)?;
                    Some((at, given))
                }
            }
        };
        self.schedule(port, later.into_iter().map(|(at, due)| (at, Due::Sending(due))));
        if let Some((at, Given { kind, said })) = given {
            self.take(at, Some(port))?;
            if let Some(Path::Sending(path)) = self.paths.get_mut(&port) {
                path.note(kind, at, &said)?;
            }
        }
        Ok(())
    }

    fn happen_receiving(&mut self, port: u16, due: &receiving::Due) -> Result<(), String> {
        let Some(Path::Receiving(path)) = self.paths.get_mut(&port) else { return Ok(()) };
        let mut later = Vec::new();
        let at = kernel::now_us();
        let Some((packet, kind, said)) = path.on_due(at, due, &mut later) else { return Ok(()) };
        kernel::give(&mut self.devices[1], &packet)?;
        self.schedule(port, later.into_iter().map(|(at, due)| (at, Due::Receiving(due))));
        self.take(at, Some(port))?;
        if let Some(Path::Receiving(path)) = self.paths.get_mut(&port) {
            path.read(&self.listener, &mut self.into)?;
        }
        self.take(at, Some(port))?;
        if let Some(Path::Receiving(path)) = self.paths.get_mut(&port) {
            path.note(kind, at, &said);
        }
        Ok(())
    }
}

struct Arguments {
    topic: Topic,
    seeds: std::ops::RangeInclusive<u64>,
    cc: Option<&'static str>,
    parallel: usize,
}

fn arguments() -> Result<Arguments, String> {
    let mut a = Arguments { topic: Topic::Sack, seeds: 1..=1, cc: None, parallel: 20 };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or(format!("{name} needs a value"))?;
        let number = |text: &str| text.parse().map_err(|_| format!("{name}: {text} is no number"));
        match name.as_str() {
            "--topic" => {
                let known = TOPICS.iter().find(|t| t.0 == value);
                a.topic = known.ok_or(format!("--topic {value}: one of {:?}", TOPICS.map(|t| t.0)))?.1;
            }
            "--seeds" => {
                let (first, last) = value.split_once('-').unwrap_or((&value, &value));
                a.seeds = number(first)?..=number(last)?;
            }
            "--cc" => {
                let known = ["reno", "cubic", "bbr"].into_iter().find(|cc| *cc == value);
                a.cc = Some(known.ok_or(format!("--cc {value}: reno, cubic or bbr"))?);
            }
            "--parallel" => a.parallel = number(&value)? as usize,
            _ => return Err(format!("{name}: unknown; --topic, --seeds, --cc or --parallel")),
        }
    }
    Ok(a)
}

fn run() -> Result<(), String> {
    let a = arguments()?;
    let devices = kernel::enter(&WINDOWS)?;
    kernel::in_real_time()?;
    let wheel_us = kernel::wheel_began_us()?;
    let listener = kernel::Socket::new()?;
    listener.bind(kernel::HERE, receiving::PORT)?;
    listener.listen()?;
    let mut hosts = Hosts {
        devices,
        listener,
        paths: HashMap::new(),
        due: BinaryHeap::new(),
        what: HashMap::new(),
        number: 0,
        into: vec![0; 70_000],
    };
    let mut seeds = a.seeds.clone();
    let mut next_port = FIRST_PORT;
    let mut next_start = 0;
    let mut out = std::io::stdout().lock();
    let mut exhausted = false;
    loop {
        let now = kernel::now_us();
        if hosts.paths.len() < a.parallel && now >= next_start && !exhausted {
            match seeds.next() {
                None => exhausted = true,
                Some(seed) => {
                    let path = if a.topic == Topic::Receiver {
                        let mut later = Vec::new();
                        let path = Receiving::open(seed, next_port, wheel_us, &mut later);
                        hosts.schedule(next_port, later.into_iter().map(|(at, due)| (at, Due::Receiving(due))));
                        Path::Receiving(path)
                    } else {
                        Path::Sending(Sending::open(Plan::new(a.topic, seed, a.cc), next_port, wheel_us)?)
                    };
                    hosts.paths.insert(next_port, path);
                    next_port = if next_port == u16::MAX { FIRST_PORT } else { next_port + 1 };
                    next_start = now + 7_300;
                }
            }
        }
        hosts.take(kernel::now_us(), None)?;
        let mut ended = None;
        if let Some(&Reverse((at, number, port))) = hosts.due.peek() {
            if at <= kernel::now_us() {
                hosts.due.pop();
                let due = hosts.what.remove(&number).expect("it was scheduled");
                hosts.happen(port, due)?;
                ended = Some(port);
            }
        }
        let over: Vec<u16> = match ended {
            Some(port) => hosts.paths.get(&port).filter(|p| p.is_over(now)).map(|_| port).into_iter().collect(),
            None => hosts.paths.iter().filter(|(_, p)| p.is_over(now)).map(|(port, _)| *port).collect(),
        };
        for port in over {
            let path = hosts.paths.remove(&port).expect("it is there");
            out.write_all(path.record().as_bytes()).map_err(|e| e.to_string())?;
        }
        if exhausted && hosts.paths.is_empty() {
            return Ok(());
        }
        let next = hosts.due.peek().map_or(now + 10_000, |Reverse((at, ..))| *at);
        let next = if hosts.paths.len() < a.parallel && !exhausted { next.min(next_start) } else { next };
        if ended.is_none() && next > kernel::now_us() + SPIN_US {
            kernel::wait(&hosts.devices, next - SPIN_US);
        }
    }
}

fn main() {
    if let Err(message) = run() {
        eprintln!("lockstep-linux: {message}");
        std::process::exit(1);
    }
}
