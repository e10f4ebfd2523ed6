//! The commands: options in, words and exit codes out. 0 done, 1 the host refuses or fails, 2 bad
//! input.

use std::process::ExitCode;
use std::time::Duration;

use airtcp_core::units::{DataRate, Span};
use airtcp_host::args::{Args, number};
use airtcp_host::{recipes, rights};

const HELP: &str = "usage: airtcp host COMMAND [OPTIONS]

Puts airtcp's remedies on this Linux host. Each part lives as long as its process: nothing is pinned, and nothing stays after kill -9.

commands:
  check    what works on this host, what is missing, and how to allow it
  av       TCP-AV in the kernel: named connections hold a target rate
  coop     the cooperative daemon: terminals of an access point share it by agreement
  monitor  the kernel's TCP as tables, with the columns of a simulated run
  probe    how many packets does an access point's buffer hold?
  pacing   buffer sizes, and the settings that space segments by RTT / cwnd
  efr      the duplicate-ACK threshold of Efficient Fast Retransmit, as far as Linux lets it be set
  proxy    TCP-AV for clients that know nothing of it: their connections end here and go on with a target
  undo     take back what `pacing --apply` and `efr --apply` have set

`airtcp host COMMAND --help` shows options, examples and exit codes.
exit codes: 0 done, 1 the host refuses or fails, 2 bad input, 130 interrupted
";

const CHECK_HELP: &str = "usage: airtcp host check

Says what works on this host, what is missing, and how to allow it. It changes nothing.

example:
  airtcp host check

exit codes: 0 all parts work, 1 some part lacks something
";

const AV_HELP: &str = "usage: airtcp host av --target RATE [--base reno|cubic] [--after-timeout WHAT] [--cgroup GROUP] [--port PORT[=RATE]]... [--prefix PREFIX[=RATE]]...

Registers the congestion control `airtcp_av` and holds it until the command ends. It holds the target rate after losses and timeouts.
Connections get it in one of three ways. A program asks for it by TCP_CONGESTION. Or it runs in the control group, unchanged.
Or one of its ends has the port, or the other end is within the prefix. Only connections that begin later are taken.
When the path changes, the least round-trip time is measured anew. That is another access point, a carrier that returns, another next
hop of the default route, or an address that is gone while connections have it. It happens once in 10 s at most.
When the command ends, also by kill -9, connections go on as plain Reno, or CUBIC, within two seconds.

options:
  --target RATE           payload rate of each connection, 1kbit/s to 100Gbit/s
  --base reno|cubic       the kernel's own control that it stands on; default: reno, as in the study
  --after-timeout WHAT    what a timeout leaves, which itself sends one segment: the window that the target needs, and new data leaves
                          at once (new_data); the same window, which waits for an ACK (floor); or one segment (one); default: new_data
  --cgroup GROUP          a control group of cgroup v2, as video.slice or its full path
  --port PORT[=RATE]      connections with this port at either end, with a target of their own behind `=`; repeatable
  --prefix PREFIX[=RATE]  connections to these addresses, as 192.0.2.0/24 or 2001:db8::/32; repeatable
With --cgroup and rules, both must fit. The first rule that fits counts, ports before prefixes; at most 64.

examples:
  airtcp host av --target 4Mbit/s --cgroup video.slice
  airtcp host av --target 2Mbit/s --port 8554 --prefix 192.0.2.0/24=6Mbit/s

rights: CAP_BPF and CAP_PERFMON; CAP_NET_ADMIN with --cgroup, --port or --prefix
exit codes: 1 the host refuses (the message says why), 2 bad input, 130 interrupted
";

const COOP_HELP: &str = "usage: airtcp host coop --interface NAME [--bw-max RATE|learn] [--set KEY=VALUE]... [--udp-port PORT]

Runs the cooperative daemon of the study coop-cwnd on a terminal. Daemons on one access point count each other by UDP announcements.
When a connection's round trip shows a long queue, its window is capped to the terminal's share. Connections on CUBIC, Reno and BBR can be capped.
A cap is a lease of half a second, which the kernel lets run out. So after kill -9 the rate before is back, and the threshold is untouched.
Announcements are not authenticated. One neighbour on the link counts as one terminal, whatever addresses it has. No cap is below the
share of the terminals counted, and none below four segments. Who forges addresses of the link can bring caps down to these four.

options:
  --interface NAME     interface of the access point, as wlan0; announcements stay on it, and only its connections are capped
  --bw-max RATE|learn  best throughput of this access point, or learn it from announcements; default: learn
  --set KEY=VALUE      a parameter of the daemon as scenarios have it, as --set 'rtt_in_cap=\"min\"'; repeatable (docs/scenario.md).
                       Beside the study's defaults there are stop_cap=2, since receivers delay ACKs, and min_cap=4
  --udp-port PORT      port of announcements; default: 24687

examples:
  airtcp host coop --interface wlan0
  airtcp host coop --interface wlan0 --bw-max 19Mbit/s --set stop_at=5.0

rights: CAP_BPF and CAP_PERFMON
exit codes: 0 ended by SIGTERM or Ctrl-C, 1 the host refuses (the message says why), 2 bad input
";

const PACING_HELP: &str =
    "usage: airtcp host pacing [--rate RATE --rtt TIME --flows N] [--interface NAME] [--apply | --check]

Prints the buffer of a router for a rate, a round trip and a number of flows, by both rules of the study pacing-buffers.
Prints the lines that make Linux space segments by RTT / cwnd, as the study simulates it.
Ratios of 100 alone send pairs. It takes gso_max_segs 1 on the interface as well, which costs CPU time per packet.

options:
  --rate RATE, --rtt TIME, --flows N  of the bottleneck, as 1Gbit/s, 50ms and 200
  --interface NAME                    interface that sends, as eth0; needed with --apply and --check
  --apply                             set it; what was there is noted for `airtcp host undo`
  --check                             is it set, and do segments leave RTT / cwnd apart? changes nothing. For the second it watches
                                      connections that fill their windows: 5 % and 95 % of gaps must be within 20 %
  --for TIME                          with --check: how long it watches, 0s for the settings alone; default: 5s

examples:
  airtcp host pacing --rate 1Gbit/s --rtt 50ms --flows 200
  airtcp host pacing --interface eth0 --apply
  airtcp host pacing --interface eth0 --check --for 10s

rights: CAP_NET_ADMIN with --apply, CAP_NET_RAW with --check
exit codes: 0 done, 1 --check finds a difference, could not measure, or --apply fails, 2 bad input
";

const EFR_HELP: &str = "usage: airtcp host efr [--threshold N | --window SEGMENTS] [--prefix PREFIX] [--apply | --check]
       airtcp host efr send FILE HOST:PORT [--forward] [--profile NAME] [--set KEY=VALUE]... [--log CSV] [--json]
                            [--device NAME] [--net PREFIX/30]

Sets the number of duplicate ACKs after which Linux declares a loss. Linux takes a constant; EFR's own threshold follows the window.
Without SACK a window of four segments then recovers in a round trip instead of a timeout. With SACK, Linux uses RACK: about a quarter of
a round trip is saved per loss. The price: a path that reorders packets causes needless retransmissions. Linux then raises the threshold by itself.

options:
  --threshold N        1 to 300; default: 3, which is Linux's own
  --window SEGMENTS    the threshold that EFR has for this window
  --prefix PREFIX      only for the route to exactly this prefix, as 192.0.2.0/24 or default. It counts from the second connection to
                       an address on, and needs net.ipv4.tcp_no_metrics_save=0. Without it: all connections of this namespace
  --apply, --check     as in `airtcp host pacing`

`efr send` has EFR's own threshold, which follows the window. It sends a file to any TCP receiver by the simulator's own sender, which runs
here as a program of its own with a TUN device. The receiver sees an ordinary connection. Data that it sends are acknowledged and dropped.
  FILE HOST:PORT       what is sent, and to whom, over IPv4
  --forward            has the kernel forward the device's packets and translate their address, while this runs
  --profile NAME       the host whose TCP it is, as scenarios have it; default: linux-6
  --set KEY=VALUE      an option of TCP as scenarios have it (docs/scenario.md), as --set max_cwnd=4; repeatable; default: loss=\"efr\"
  --log CSV            a new file: all retransmissions, with the columns of the simulator
  --json               the report as one JSON object
  --device NAME        name of the device; default: airtcp0
  --net PREFIX/30      its addresses: the second is the kernel's, the third the sender's; default: 10.97.116.0/30

examples:
  airtcp host efr --window 4
  airtcp host efr --threshold 2 --prefix 192.0.2.0/24 --apply
  airtcp host efr send movie.mkv 192.0.2.7:5001 --forward
  airtcp host efr send movie.mkv 192.0.2.7:5001 --forward --set 'loss=\"dup_thresh\"'

rights: CAP_NET_ADMIN with --apply, and for `efr send`
exit codes: 0 done, 1 --check finds a difference, --apply fails or the file did not arrive, 2 bad input
";

const MONITOR_HELP: &str = "usage: airtcp host monitor --out DIR [--interface NAME] [--port PORT] [--interval TIME] [--duration TIME]

Writes what the kernel's TCP does as tables: windows and round trips over time, retransmissions, changes of state, connections.
Ten times a second it adds the queues of interfaces, and stations of Wi-Fi with rate, retries and what waits for them.
With rights there is an event for each ACK that a sender gets. Without, sock_diag is asked every 10 ms; the command says so.
A row of an ACK shows the state just before the kernel takes that ACK in. Events that found the ring buffer full are counted and told.

options:
  --out DIR         a new folder: flow_series.csv, events.csv, flows.csv, queues.csv, monitor.json; with Wi-Fi stations.csv
  --interface NAME  only connections that send there, its queues and stations, as wlan0
  --port PORT       only connections with this port at either end
  --interval TIME   least time between rows of a connection; 0s: a row for each ACK; default: 10ms
  --duration TIME   ends after this; default: at Ctrl-C or SIGTERM

examples:
  airtcp host monitor --interface wlan0 --out runs/mine
  airtcp host monitor --port 443 --duration 30s --interval 0s --out runs/https

rights: CAP_BPF and CAP_PERFMON; without them sock_diag
exit codes: 0 ended as asked, 1 the tables cannot be written, 2 bad input
";

const PROBE_HELP: &str = "usage: airtcp host probe receive [--once] [--from PREFIX]... [--udp-port PORT]
       airtcp host probe send HOST [--trains N] [--count N] [--gap TIME] [--bytes N] [--pause TIME] [--json] [--udp-port PORT]

Measures how many packets the buffer of an access point holds. `receive` runs behind it, `send` on the wire before it.
Trains of numbered datagrams fill the buffer. Sending times are logged as they happened; the clocks need not agree.
For each train: datagrams before the first gap (raw), the estimate (corrected), what had left by then (drained), and what does not fit (unexplained).
It warns where it cannot know: no overflow, other traffic, or a buffer without a fixed size such as FQ-CoDel.

options:
  --trains N      1 to 1000; default: 10
  --count N       datagrams of a train, 1 to 100000; more than the buffer holds; default: 1000
  --gap TIME      between them; the wire must be faster than the air; default: 125us, 96 Mbit/s
  --bytes N       payload of each, 16 to 65000; default: 1472
  --pause TIME    after a train; default: 1s
  --json          one JSON object
  --once          receive: end when one sender has all its logs
  --from PREFIX   receive: only senders of this network, as 192.0.2.0/24; repeatable; default: all. Eight are served at a time, one of a
                  network of IPv6 with 64 bits or an address of IPv4; who is silent for ten seconds gives its place to another
  --udp-port PORT of TCP and UDP; default: 24688

examples:
  airtcp host probe receive
  airtcp host probe send 192.0.2.7 --count 2000

rights: none
exit codes: 0 done, 1 the other end is not there or fails, 2 bad input, 130 interrupted
";

const UNDO_HELP: &str = "usage: airtcp host undo

Takes back what `airtcp host pacing --apply` and `airtcp host efr --apply` have set in this network namespace. A reboot does the same.
It also removes the rules of ip of a `proxy --divert` that was killed with all its processes. Before Linux 6.4 it takes back the congestion
controls of an `av`, `coop` or `proxy` that was killed. The other commands set nothing that outlives them.

exit codes: 0 done, 1 something could not be taken back
";

const PROXY_HELP: &str = "usage: airtcp host proxy RULES.toml [--check | --lines | --divert]

Gives TCP-AV to clients that know nothing of it. A client's connection ends here, and a second one with the rule's target goes on to the server.
Data, half-closes and resets are passed on. Servers see the proxy's address. Connections reach the proxy in one of three ways, by `mode`:
`redirect` and `tproxy` take those that netfilter brings; `forward` sends all to one host.
SIGTERM and Ctrl-C end the listening; connections may finish for the time `drain`.

options:
  --check   read the rules and end
  --lines   print the lines of nft and ip that bring connections here, and end
  --divert  hold these lines as long as the command lives. They go even after kill -9: the kernel removes the table of nft, and a
            process that waits for the end removes the rule of ip. If that is killed too, `airtcp host undo` removes it

the rules (docs/hosts.md lists all keys):
  [[listen]]
  address = \"0.0.0.0:24689\"
  mode = \"redirect\"
  [[rule]]
  prefix = \"192.0.2.0/24\"
  port = 443
  sni = \"*.example.org\"
  target = \"4Mbit/s\"
The first rule that fits counts. A connection that fits none passes through without a target.

examples:
  airtcp host proxy rules.toml --lines
  airtcp host proxy rules.toml --divert

rights: CAP_BPF and CAP_PERFMON where a rule has a target; CAP_NET_ADMIN with tproxy and with --divert
exit codes: 0 ended by SIGTERM or Ctrl-C, 1 the host refuses (the message says why), 2 bad input
";

/// A failure: bad input, or of the host.
enum Fault {
    Input(String),
    Host(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Input(text)
    }
}

#[cfg(feature = "bpf")]
impl From<airtcp_host::load::Refusal> for Fault {
    fn from(refusal: airtcp_host::load::Refusal) -> Fault {
        Fault::Host(refusal.0)
    }
}

type Outcome = Result<ExitCode, Fault>;

/// Runs the command that the words name.
pub(crate) fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let mut args = Args::new(words);
    let is_help = args.switch("help") || args.switch("-h");
    let outcome = match (command.as_str(), is_help) {
        ("check", false) => check(args),
        ("av", false) => av(args),
        ("coop", false) => coop(args),
        ("coop", true) => help(COOP_HELP),
        ("pacing", false) => pacing(args),
        ("efr", false) => efr(args),
        ("undo", false) => undo(args),
        ("monitor", false) => monitor(args),
        ("monitor", true) => help(MONITOR_HELP),
        ("probe", false) => probe(args),
        ("probe", true) => help(PROBE_HELP),
        ("pacing", true) => help(PACING_HELP),
        ("efr", true) => help(EFR_HELP),
        ("proxy", false) => proxy(args),
        ("proxy", true) => help(PROXY_HELP),
        ("undo", true) => help(UNDO_HELP),
        ("check", true) => help(CHECK_HELP),
        ("av", true) => help(AV_HELP),
        ("--help" | "-h" | "help", _) => help(HELP),
        ("--version", _) => {
            println!("airtcp-host {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        ("", _) => Err(Fault::Input("a command must follow; `airtcp host --help` lists them".to_owned())),
        (other, _) => Err(Fault::Input(format!("{other:?} is not a command; `airtcp host --help` lists them"))),
    };
    match outcome {
        Ok(code) => code,
        Err(Fault::Input(text)) => {
            eprintln!("airtcp host: {text}");
            ExitCode::from(2)
        }
        Err(Fault::Host(text)) => {
            eprintln!("airtcp host: {text}");
            ExitCode::FAILURE
        }
    }
}

fn help(text: &str) -> Outcome {
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn check(args: Args) -> Outcome {
    args.end()?;
    let (text, works) = rights::report(&rights::Host::read());
    print!("{text}");
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(not(feature = "bpf"))]
fn without_bpf() -> Fault {
    let missing = rights::Host::read().missing((0, 0), &[]);
    Fault::Host(missing.join("; "))
}

fn av(mut args: Args) -> Outcome {
    use airtcp_host::av::{AfterTimeout, Base, Order, Rule, cgroup, target};

    let target: DataRate = match args.option("target")? {
        Some(text) => target(&text)?,
        None => return Err("--target RATE is missing, as --target 4Mbit/s".to_owned().into()),
    };
    let base = args.read("base", Base::read)?.unwrap_or_default();
    let after_timeout = args.read("after-timeout", AfterTimeout::read)?.unwrap_or_default();
    let group = args.option("cgroup")?.map(|name| cgroup(&name)).transpose()?;
    let mut rules = Vec::new();
    for text in args.options("port")? {
        rules.push(Rule::of_port(&text)?);
    }
    for text in args.options("prefix")? {
        rules.push(Rule::of_prefix(&text)?);
    }
    args.end()?;
    let order = Order { target, base, after_timeout, cgroup: group, rules };
    #[cfg(feature = "bpf")]
    {
        airtcp_host::sys::catch_end();
        airtcp_host::av::run(&order, airtcp_host::sys::has_ended, |text| eprintln!("airtcp host av: {text}"))?;
        Ok(ExitCode::SUCCESS)
    }
    #[cfg(not(feature = "bpf"))]
    {
        drop(order);
        Err(without_bpf())
    }
}

fn coop(mut args: Args) -> Outcome {
    use airtcp_core::coop::CoopConfig;

    let interface = args.option("interface")?.ok_or("--interface NAME is missing, as --interface wlan0".to_owned())?;
    let bw_max = args.option("bw-max")?.unwrap_or_else(|| "learn".to_owned());
    let mut document = format!("bw_max = {bw_max:?}\n");
    let mut defaults = airtcp_host::coop::DEFAULTS.to_vec();
    for text in args.options("set")? {
        let (key, value) =
            text.split_once('=').ok_or_else(|| format!("--set {text}: must be KEY=VALUE, as stop_at=5.0"))?;
        document += &format!("{key} = {value}\n");
        defaults.retain(|(name, _)| *name != key.trim());
    }
    for (key, value) in defaults {
        document += &format!("{key} = {value}\n");
    }
    let port = args.read("udp-port", number(1, 65_535))?.unwrap_or(airtcp_host::coop::PORT);
    args.end()?;
    let config: CoopConfig = toml::from_str(&document)
        .map_err(|e| format!("a parameter of the daemon is wrong: {}", e.message().trim_end()))?;
    #[cfg(feature = "bpf")]
    {
        airtcp_host::sys::catch_end();
        let order = airtcp_host::coop::Order { config, interface, port };
        airtcp_host::coop::run(&order, airtcp_host::sys::has_ended, |text| eprintln!("airtcp host coop: {text}"))?;
        Ok(ExitCode::SUCCESS)
    }
    #[cfg(not(feature = "bpf"))]
    {
        drop((config, interface, port));
        Err(without_bpf())
    }
}

/// Prints, applies or checks a recipe.
fn recipe(steps: &[recipes::Step], apply: bool, check: bool) -> Outcome {
    if apply {
        recipes::apply(steps, |text| println!("{text}")).map_err(Fault::Host)?;
    } else if check {
        let found = recipes::check(steps).map_err(Fault::Host)?;
        for line in &found {
            println!("{line}");
        }
        if !found.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        println!("all is set");
    } else {
        for step in steps {
            println!("{}", step.setting.line(step.value));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn modes(args: &mut Args) -> Result<(bool, bool), String> {
    let modes = (args.switch("apply"), args.switch("check"));
    if modes == (true, true) { Err("use either --apply or --check, not both".to_owned()) } else { Ok(modes) }
}

fn pacing(mut args: Args) -> Outcome {
    let (apply, check) = modes(&mut args)?;
    let rate = args.read("rate", |t| t.parse::<DataRate>().map_err(|_| "must be a rate, as 1Gbit/s".to_owned()))?;
    let rtt = args.read("rtt", |t| t.parse::<Span>().map_err(|_| "must be a time, as 50ms".to_owned()))?;
    let flows = args.read("flows", number(1u32, 1_000_000))?;
    let interface = args.option("interface")?;
    let watched = args.read("for", |t| t.parse::<Span>().map_err(|_| "must be a time, as 5s".to_owned()))?;
    args.end()?;
    if watched.is_some() && !check {
        return Err("--for is only for --check".to_owned().into());
    }
    let watched = Duration::from_nanos(watched.unwrap_or(Span::from_secs(5)).as_ns());
    if let (Some(rate), Some(rtt), Some(flows)) = (rate, rtt, flows) {
        let (normal, root) = recipes::buffers(rate, rtt, flows);
        println!(
            "buffer of the router, packets of 1500 bytes: {normal} by rate times RTT, {root} divided by the root of {flows} flows"
        );
        if !(50..=3000).contains(&flows) {
            println!(
                "the study pacing-buffers has 50 to 3000 flows: {flows} is beyond it, and the smaller buffer is not tried there"
            );
        }
    } else if rate.is_some() || rtt.is_some() || flows.is_some() {
        return Err("--rate, --rtt and --flows belong together".to_owned().into());
    }
    if (apply || check) && interface.is_none() {
        return Err("--interface NAME is missing, as --interface eth0".to_owned().into());
    }
    let steps = recipes::pacing(interface.as_deref().unwrap_or("INTERFACE"));
    let outcome = recipe(&steps, apply, check)?;
    if let Some(interface) = interface.filter(|_| check && !watched.is_zero()) {
        return match airtcp_host::spacing::measure(&interface, watched).map_err(Fault::Host)? {
            None => {
                println!(
                    "no connection filled its window on {interface} for 100 segments: the spacing was not measured"
                );
                Ok(ExitCode::FAILURE)
            }
            Some(spacing) => {
                println!("{}", spacing.report());
                println!(
                    "{}",
                    if spacing.passes() {
                        "passes: within 20 % of RTT / cwnd"
                    } else {
                        "does not pass: gaps are more than 20 % off RTT / cwnd"
                    }
                );
                Ok(if spacing.passes() { outcome } else { ExitCode::FAILURE })
            }
        };
    }
    if !check {
        println!("a connection is paced if its interface has the qdisc fq, or its program sets SO_MAX_PACING_RATE");
    }
    Ok(outcome)
}

fn efr_send(mut args: Args) -> Outcome {
    use airtcp_host::send::{self, Order, way};

    let profile = args.option("profile")?.unwrap_or_else(|| "linux-6".to_owned());
    let config = send::config(&profile, &args.options("set")?)?;
    let device = args.option("device")?.unwrap_or_else(|| "airtcp0".to_owned());
    let network = args.option("net")?.unwrap_or_else(|| way::NETWORK.to_owned());
    let place = way::Place::new(&device, &network)?;
    let log = args.option("log")?.map(Into::into);
    let (forwards, json) = (args.switch("forward"), args.switch("json"));
    let missing = || "efr send: FILE and HOST:PORT must follow, as efr send movie.mkv 192.0.2.7:5001".to_owned();
    let file = args.word().ok_or_else(missing)?.into();
    let to = send::address(&args.word().ok_or_else(missing)?)?;
    args.end()?;
    airtcp_host::sys::catch_end();
    let order = Order { file, to, config, place, forwards, log };
    let report = send::run(&order, airtcp_host::sys::has_ended, |text| eprintln!("airtcp host efr send: {text}"));
    let report = report.map_err(Fault::Host)?;
    print!("{}", if json { report.json() } else { report.text() });
    Ok(ExitCode::SUCCESS)
}

fn efr(mut args: Args) -> Outcome {
    if args.leads("send") {
        return efr_send(args);
    }
    let (apply, check) = modes(&mut args)?;
    let threshold = args.read("threshold", number(1u32, 300))?;
    let window = args.read("window", number(1u32, 1_000_000))?;
    let prefix = args.option("prefix")?;
    args.end()?;
    let threshold = match (threshold, window) {
        (Some(_), Some(_)) => return Err("use either --threshold or --window, not both".to_owned().into()),
        (Some(n), None) => n,
        (None, Some(w)) => u32::try_from(airtcp_law::efr::threshold(u64::from(w), 2, 1, 3)).unwrap_or(3),
        (None, None) => 3,
    };
    let steps = match &prefix {
        Some(prefix) => recipes::efr_to(prefix, threshold).map_err(Fault::Host)?,
        None => recipes::efr_everywhere(threshold),
    };
    recipe(&steps, apply, check)
}

fn undo(args: Args) -> Outcome {
    args.end()?;
    recipes::undo(|text| println!("{text}")).map_err(Fault::Host)?;
    airtcp_host::proxy::divert::undo(|text| println!("{text}")).map_err(Fault::Host)?;
    #[cfg(feature = "bpf")]
    airtcp_host::load::unregister_left(|text| println!("{text}"))?;
    Ok(ExitCode::SUCCESS)
}

fn probe(mut args: Args) -> Outcome {
    use airtcp_host::probe::{self, Order, PORT};

    let span = |text: &str| text.parse::<Span>().map_err(|_| "must be a time, as 125us or 1s".to_owned());
    let port = args.read("udp-port", number(1u16, 65_535))?.unwrap_or(PORT);
    match args.word().as_deref() {
        Some("receive") => {
            let once = args.switch("once");
            let mut from = Vec::new();
            for text in args.options("from")? {
                let rule = airtcp_host::av::Rule::of_prefix(&text).ok().filter(|rule| rule.target.is_none());
                from.push(
                    rule.and_then(|rule| rule.prefix)
                        .ok_or_else(|| format!("--from {text}: must be a network, as 192.0.2.0/24 or 2001:db8::/32"))?,
                );
            }
            args.end()?;
            let order = probe::receiver::Order { port, once, from };
            probe::receiver::receive(&order, |text| eprintln!("airtcp host probe: {text}")).map_err(Fault::Host)?;
        }
        Some("send") => {
            let host = args.word().ok_or("probe send: the receiver's HOST is missing".to_owned())?;
            let order = Order {
                to: probe::address(&host, port)?,
                trains: args.read("trains", number(1, probe::MOST_TRAINS))?.unwrap_or(10),
                count: args.read("count", number(1, probe::MOST_DATAGRAMS))?.unwrap_or(1_000),
                gap: args.read("gap", span)?.unwrap_or(Span::from_us(125)),
                bytes: args.read("bytes", number(16, 65_000))?.unwrap_or(1_472),
                pause: Duration::from_nanos(args.read("pause", span)?.unwrap_or(Span::from_secs(1)).as_ns()),
            };
            let json = args.switch("json");
            args.end()?;
            let trains = probe::send(&order, |text| eprintln!("airtcp host probe: {text}")).map_err(Fault::Host)?;
            let packet = u16::try_from(order.bytes + 28).unwrap_or(u16::MAX);
            let estimates = probe::estimates(&trains, packet);
            print!("{}", if json { probe::json(&estimates, &trains) } else { probe::report(&estimates, &trains) });
        }
        _ => return Err("probe: `receive` or `send HOST` must follow".to_owned().into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn monitor(mut args: Args) -> Outcome {
    use airtcp_host::monitor::{self, Order};
    use airtcp_host::sys;

    let span = |text: &str| {
        let span: Span = text.parse().map_err(|_| "must be a time, as 10ms".to_owned())?;
        Ok(Duration::from_nanos(span.as_ns()))
    };
    let out = args.option("out")?.ok_or("--out DIR is missing, as --out runs/mine".to_owned())?;
    let interface = args.option("interface")?;
    let order = Order {
        out: out.into(),
        port: args.read("port", number(1, 65_535))?.unwrap_or(0),
        interface: match &interface {
            None => 0,
            Some(name) => sys::interface_index(name).ok_or_else(|| {
                format!("--interface {name}: there is no interface of that name; `ip link` lists them")
            })?,
        },
        interval: args.read("interval", span)?.unwrap_or(Duration::from_millis(10)),
        duration: args.read("duration", span)?,
    };
    args.end()?;
    sys::catch_end();
    monitor::run(&order, &sys::has_ended, |text| eprintln!("airtcp host monitor: {text}")).map_err(Fault::Host)?;
    Ok(ExitCode::SUCCESS)
}

fn proxy(mut args: Args) -> Outcome {
    use airtcp_host::proxy::{self, divert, rules};

    let path = args.word().ok_or("proxy: the file of rules is missing, as rules.toml".to_owned())?;
    let (checks, lines, diverts) = (args.switch("check"), args.switch("lines"), args.switch("divert"));
    args.end()?;
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: cannot read it: {e}"))?;
    let rules = rules::read(&path, &text, proxy::most_connections())?;
    if lines {
        for line in divert::lines(&rules) {
            println!("{line}");
        }
    }
    if checks {
        println!("{path}: {} listeners, {} rules", rules.listen.len(), rules.rules.len());
    }
    if checks || lines {
        return Ok(ExitCode::SUCCESS);
    }
    airtcp_host::sys::catch_end();
    let tell = |text: &str| eprintln!("airtcp host proxy: {text}");
    let counts = if rules.has_targets() {
        serve(rules.clone(), Some(in_kernel(&rules)?), diverts, tell)?
    } else {
        serve(rules, None::<proxy::Nobody>, diverts, tell)?
    };
    tell(&counts.report());
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "bpf")]
fn in_kernel(rules: &airtcp_host::proxy::rules::Rules) -> Result<airtcp_host::proxy::InKernel, Fault> {
    airtcp_host::proxy::InKernel::start(rules).map_err(Fault::Host)
}

#[cfg(not(feature = "bpf"))]
fn in_kernel(_: &airtcp_host::proxy::rules::Rules) -> Result<airtcp_host::proxy::Nobody, Fault> {
    Err(without_bpf())
}

fn serve<T: airtcp_host::proxy::Targets>(
    rules: airtcp_host::proxy::rules::Rules,
    targets: Option<T>,
    diverts: bool,
    tell: impl Fn(&str),
) -> Result<airtcp_host::proxy::Counts, Fault> {
    use airtcp_host::proxy::{Proxy, divert::Divert};
    use airtcp_host::sys::has_ended;

    let proxy = Proxy::new(rules.clone(), targets).map_err(Fault::Host)?;
    let mut divert = if diverts { Some(Divert::start(&rules).map_err(Fault::Host)?) } else { None };
    let places: Vec<String> = proxy.addresses().iter().map(ToString::to_string).collect();
    tell(&format!("listening at {}; at most {} connections", places.join(", "), rules.limits.connections));
    let end_new = || {
        if let Some(divert) = &mut divert {
            divert.end_new();
        }
    };
    proxy.run(has_ended, end_new, &tell).map_err(Fault::Host)
}
