//! The proxy: what goes through it is the same on both sides, and ends the same way.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use airtcp_core::units::{DataRate, Span};
use airtcp_host::proxy::{Counts, Nobody, Proxy, Targets, divert, rules};
use airtcp_host::sys::{self, monotonic, stream};
use common::{Bed, End, LINE, Line};

const CONNECTIONS: usize = 1000;
/// Clients at once.
const CLIENTS: usize = 25;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The client has sent all, then the server answers.
    ClientFirst,
    /// The server has sent all, then the client does.
    ServerFirst,
    /// Both at once.
    Both,
    /// The client resets within its data.
    ClientResets,
    /// The server resets within its data.
    ServerResets,
}

/// Plan of a connection; its first bytes carry it to the server.
#[derive(Debug, Clone, Copy)]
struct Plan {
    number: u32,
    kind: Kind,
    up: usize,
    down: usize,
}

const KINDS: [Kind; 5] = [Kind::ClientFirst, Kind::ServerFirst, Kind::Both, Kind::ClientResets, Kind::ServerResets];

fn draw(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Plan {
    fn new(number: u32) -> Plan {
        let bits = draw(u64::from(number) + 1);
        // From nothing to more than all buffers hold.
        let size = |bits: u64| 1 << (bits % 19);
        Plan {
            number,
            kind: KINDS[number as usize % 5],
            up: size(bits) + (bits >> 32) as usize % 999,
            down: size(bits >> 8) + (bits >> 40) as usize % 999,
        }
    }

    fn data(&self, from_client: bool) -> Vec<u8> {
        let (length, salt) = if from_client { (self.up, 1) } else { (self.down, 2) };
        let words = (0..length.div_ceil(8) as u64).map(|at| draw(u64::from(self.number) << 32 | at << 2 | salt));
        words.flat_map(u64::to_ne_bytes).take(length).collect()
    }
}

/// Reads until the end; the error, if that ended it.
fn all(stream: &mut TcpStream) -> (Vec<u8>, Option<io::ErrorKind>) {
    let (mut data, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (data, None),
            Ok(n) => data.extend_from_slice(&buffer[..n]),
            Err(e) => return (data, Some(e.kind())),
        }
    }
}

fn same(found: &(Vec<u8>, Option<io::ErrorKind>), expected: &[u8]) -> Result<(), String> {
    match found {
        (data, None) if data == expected => Ok(()),
        (data, error) => Err(format!("{} of {} bytes, {error:?}", data.len(), expected.len())),
    }
}

/// After a reset: the first part of the data, and the reset itself.
fn part(found: &(Vec<u8>, Option<io::ErrorKind>), expected: &[u8]) -> Result<(), String> {
    match found {
        (data, Some(io::ErrorKind::ConnectionReset)) if expected.starts_with(data) => Ok(()),
        (data, error) => Err(format!("{} of {} bytes, {error:?} instead of a reset", data.len(), expected.len())),
    }
}

/// One end's part: `mine` is what it sends.
fn play(plan: Plan, mut stream: TcpStream, is_client: bool) -> Result<(), String> {
    let (mine, other) = (plan.data(is_client), plan.data(!is_client));
    let (resets, is_reset) = match plan.kind {
        Kind::ClientResets => (is_client, !is_client),
        Kind::ServerResets => (!is_client, is_client),
        _ => (false, false),
    };
    if resets {
        // Half of the data is on its way then.
        let _ = stream.write_all(&mine[..mine.len() / 2]);
        stream::reset(stream.into());
        return Ok(());
    }
    if is_reset {
        return part(&all(&mut stream), &other);
    }
    let is_first = plan.kind == if is_client { Kind::ClientFirst } else { Kind::ServerFirst };
    let send = |stream: &mut TcpStream| {
        let sent = stream.write_all(&mine).and_then(|()| stream.shutdown(Shutdown::Write));
        sent.map_err(|e| format!("cannot send: {e}"))
    };
    if plan.kind == Kind::Both {
        let mut writer = stream.try_clone().unwrap();
        let sender = thread::spawn(move || {
            let sent = writer.write_all(&mine).and_then(|()| writer.shutdown(Shutdown::Write));
            sent.map_err(|e| format!("cannot send: {e}"))
        });
        let found = same(&all(&mut stream), &other);
        return sender.join().unwrap().and(found);
    }
    if is_first {
        send(&mut stream)?;
        return same(&all(&mut stream), &other);
    }
    let found = same(&all(&mut stream), &other);
    send(&mut stream).and(found)
}

/// Serves; what was wrong, by connection.
fn serve(listener: TcpListener, wrong: Arc<Mutex<Vec<String>>>, done: Arc<AtomicUsize>) {
    for stream in listener.incoming() {
        let (mut stream, wrong, done) = (stream.unwrap(), wrong.clone(), done.clone());
        thread::spawn(move || {
            let mut number = [0; 4];
            if stream.read_exact(&mut number).is_err() {
                wrong.lock().unwrap().push("a connection without a number".to_owned());
                return;
            }
            let plan = Plan::new(u32::from_be_bytes(number));
            let played = stream.write_all(&[7]).map_err(|e| e.to_string()).and_then(|()| play(plan, stream, false));
            if let Err(text) = played {
                wrong.lock().unwrap().push(format!("server, {plan:?}: {text}"));
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
}

fn one(address: SocketAddr, number: u32) -> Result<(), String> {
    let plan = Plan::new(number);
    let mut stream = TcpStream::connect(address).map_err(|e| format!("connect: {e}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let begun = stream.write_all(&number.to_be_bytes()).and_then(|()| stream.read_exact(&mut [0]));
    match begun {
        // A reset overtakes what the proxy still holds, here the first byte.
        Err(e) if plan.kind == Kind::ServerResets && e.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(e) => Err(format!("begin: {e}")),
        Ok(()) => play(plan, stream, true),
    }
}

/// All connections to `address`, from the namespace of this thread; what was wrong.
fn clients(address: SocketAddr, connections: usize) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= connections {
                        return;
                    }
                    if let Err(text) = one(address, number as u32) {
                        let plan = Plan::new(number as u32);
                        wrong.lock().unwrap().push(format!("client, {plan:?}: {text}"));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

/// Once all of the server's connections are done: what was wrong on both sides.
fn verdict(mut wrong: Vec<String>, of_server: &Mutex<Vec<String>>, done: &AtomicUsize, connections: usize) {
    let begin = monotonic();
    while done.load(Ordering::Relaxed) < connections && monotonic().since(begin) < Span::from_secs(20) {
        thread::sleep(Duration::from_millis(10));
    }
    wrong.extend(of_server.lock().unwrap().iter().cloned());
    assert!(wrong.is_empty(), "{} are wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    assert_eq!(done.load(Ordering::Relaxed), connections);
}

struct Running {
    address: SocketAddr,
    end: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Counts>>,
}

impl Running {
    /// A proxy in this process, for what the rules' text says.
    fn new<T: Targets + Send + 'static>(text: &str, targets: Option<T>) -> Running {
        Running::of(rules::read("rules.toml", text, 5000).unwrap(), targets)
    }

    fn of<T: Targets + Send + 'static>(rules: rules::Rules, targets: Option<T>) -> Running {
        let proxy = Proxy::new(rules, targets).unwrap();
        let address = proxy.addresses()[0];
        let end = Arc::new(AtomicBool::new(false));
        let stop = end.clone();
        let thread = thread::spawn(move || proxy.run(|| stop.load(Ordering::Relaxed), || {}, |_| {}).unwrap());
        Running { address, end, thread: Some(thread) }
    }

    fn stop(mut self) -> Counts {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn forward(to: SocketAddr, more: &str) -> String {
    format!("[[listen]]\naddress = \"127.0.0.1:0\"\nmode = \"forward\"\nto = \"{to}\"\n{more}")
}

#[test]
fn a_thousand_connections_come_out_as_they_went_in() {
    let (wrong, done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let (their_wrong, their_done) = (wrong.clone(), done.clone());
    thread::spawn(move || serve(listener, their_wrong, their_done));
    let proxy = Running::new(&forward(server, ""), None::<Nobody>);
    let found = clients(proxy.address, CONNECTIONS);
    verdict(found, &wrong, &done, CONNECTIONS);
    let counts = proxy.stop();
    println!("{}", counts.report());
    let resets = CONNECTIONS as u64 * 2 / 5;
    assert_eq!((counts.whole, counts.resets), (CONNECTIONS as u64 - resets, resets), "{}", counts.report());
    assert_eq!((counts.refused, counts.over_limit, counts.cut), (0, 0, 0));
}

/// Notes which sockets got a target.
struct Noted(Arc<Mutex<Vec<(u64, bool)>>>, SocketAddr);

impl Targets for Noted {
    fn set(&mut self, socket: RawFd, target: DataRate) -> Result<(), String> {
        // An onward connection has no address yet.
        let is_client = stream::own_address(socket).is_ok_and(|own| own.port() != 0 && own.ip() == self.1.ip());
        self.0.lock().unwrap().push((target.as_bps() / 1_000_000, is_client));
        Ok(())
    }

    fn renew(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// A first message of TLS for `name`, in the least form.
fn hello(name: &str) -> Vec<u8> {
    let short = |n: usize| (n as u16).to_be_bytes();
    let mut extension = vec![0, 0];
    extension.extend(short(name.len() + 5));
    extension.extend(short(name.len() + 3));
    extension.push(0);
    extension.extend(short(name.len()));
    extension.extend(name.as_bytes());
    let mut body = vec![3; 34];
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(short(extension.len()));
    body.extend(extension);
    let mut all = vec![22, 3, 1];
    all.extend(short(body.len() + 4));
    all.extend([1, 0]);
    all.extend(short(body.len()));
    all.extend(body);
    all
}

#[test]
fn rules_choose_by_name_and_limits_hold() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    // Says back all that it hears.
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut copy = stream.try_clone().unwrap();
                let _ = io::copy(&mut copy, &mut stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    let noted = Arc::new(Mutex::new(Vec::new()));
    let rules = "[[rule]]\nsni = \"*.example.org\"\ntarget = \"4Mbit/s\"\n\
                 [[rule]]\nprefix = \"127.0.0.0/8\"\ntarget = \"6Mbit/s\"\ntoward = \"both\"\n\
                 [limits]\nper_client = 2\nhello_timeout = \"200ms\"\ndrain = \"300ms\"\n";
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let proxy = Running::new(&forward(server, rules), Some(Noted(noted.clone(), loopback)));
    let echoed = |said: &[u8]| {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        for byte in said.chunks(9) {
            stream.write_all(byte).unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(all(&mut stream), (said.to_vec(), None));
        std::mem::take(&mut *noted.lock().unwrap())
    };
    assert_eq!(echoed(&hello("video.example.org")), [(4, false)]);
    assert_eq!(echoed(&hello("other.example.net")), [(6, true), (6, false)]);
    assert_eq!(echoed(b"no TLS"), [(6, true), (6, false)]);
    assert_eq!(echoed(b""), [(6, true), (6, false)]);
    // A client that says nothing has its connection after the time for the name.
    let silent = TcpStream::connect(proxy.address).unwrap();
    let begin = monotonic();
    while noted.lock().unwrap().is_empty() {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(monotonic().since(begin) > Span::from_ms(150), "before the time for the name");
    let mut open = TcpStream::connect(proxy.address).unwrap();
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0]).unwrap();
    // Two are there: the third is reset.
    let mut third = TcpStream::connect(proxy.address).unwrap();
    assert_eq!(all(&mut third).1, Some(io::ErrorKind::ConnectionReset));
    // Open connections go on after the end was asked for, and are cut once the time is over.
    proxy.end.store(true, Ordering::Relaxed);
    let begin = monotonic();
    while TcpStream::connect(proxy.address).is_ok() {
        assert!(monotonic().since(begin) < Span::from_secs(5), "it still listens");
        thread::sleep(Duration::from_millis(5));
    }
    drop(silent);
    assert_eq!(all(&mut open).1, Some(io::ErrorKind::ConnectionReset), "cut");
    let counts = proxy.stop();
    assert_eq!((counts.by_rule[0], counts.by_rule[1]), (1, 5), "{}", counts.report());
    assert_eq!(counts.cut, 1, "{}", counts.report());
    assert!(counts.over_limit >= 1, "{}", counts.report());
}

#[test]
fn a_server_that_is_not_there_is_a_reset() {
    // No port that was free a moment ago: a test beside this one may have taken it.
    let gone = SocketAddr::from(([127, 0, 0, 1], 1));
    let proxy = Running::new(&forward(gone, ""), None::<Nobody>);
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    assert_eq!(all(&mut stream).1, Some(io::ErrorKind::ConnectionReset));
    assert_eq!(proxy.stop().refused, 1);
}

/// The program as a proxy with these rules, once it listens.
/// Two listeners that send all to each other, as by addresses of which the file does not show that
/// they are this host's.
#[test]
fn a_circle_ends_at_once() {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (one, two) = (free(), free());
    let listen = |address, to| rules::Listen { address, mode: rules::Mode::Forward(to) };
    let mut circle = rules::read("rules.toml", &forward(one, ""), 5000).unwrap();
    circle.listen = vec![listen(one, two), listen(two, one)];
    let running = Running::of(circle, None::<Nobody>);
    let mut client = TcpStream::connect(one).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = client.write_all(b"round and round");
    let (data, error) = all(&mut client);
    thread::sleep(Duration::from_millis(200));
    let counts = running.stop();
    println!("a circle: {counts:?}");
    assert_eq!((data, error), (vec![], Some(io::ErrorKind::ConnectionReset)));
    assert!(counts.by_rule.iter().sum::<u64>() <= 2 && counts.cut == 0, "{counts:?}");
}

/// Clients that hold what they can: nothing said, half a first message byte by byte, nothing read.
/// Another address is served.
#[test]
fn slow_clients_do_not_keep_others_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut stream = stream;
                let _ = stream.write_all(&vec![7; 1 << 22]);
                let _ = all(&mut stream);
            });
        }
    });
    let limits =
        "[[rule]]\nsni = \"a.example\"\n[limits]\nconnections = 40\nhello_timeout = \"300ms\"\ndrain = \"100ms\"\n";
    let running = Running::new(&forward(server, limits), None::<Nobody>);
    let address = running.address;
    let slow: Vec<Option<TcpStream>> = (0..60)
        .map(|n| {
            let mut stream = TcpStream::connect(address).ok()?;
            let _ = match n % 3 {
                0 => Ok(()),
                1 => stream.write_all(&hello("a.example")[..9]),
                _ => stream.write_all(b"GET / HTTP/1.1\r\n\r\n"),
            };
            Some(stream)
        })
        .collect();
    thread::sleep(Duration::from_millis(600));
    // Another client, as its address shows.
    let socket = sys::tcp_socket().unwrap();
    stream::bind(socket.as_raw_fd(), "127.0.0.9:0".parse().unwrap()).unwrap();
    let mut other = sys::connect(socket, [127, 0, 0, 1], address.port()).unwrap();
    other.write_all(&hello("a.example")).unwrap();
    other.shutdown(Shutdown::Write).unwrap();
    let (data, error) = all(&mut other);
    drop(slow);
    let counts = running.stop();
    println!("60 slow clients: {counts:?}; another one has {} bytes", data.len());
    assert_eq!((data.len(), error), (1 << 22, None));
    assert!(counts.over_limit >= 50, "{counts:?}");
}

fn program(end: &End, rules: &str) -> (Child, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.toml");
    std::fs::write(&path, rules).unwrap();
    let mut child = end.run(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_airtcp-host"));
        command.arg("proxy").arg(path).arg("--divert").stderr(Stdio::piped()).spawn().unwrap()
    });
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("listening at"), "{first}");
    thread::spawn(move || lines.for_each(|line| println!("{}", line.unwrap_or_default())));
    (child, folder)
}

fn table(end: &End) -> String {
    end.run(|| String::from_utf8(Command::new("nft").args(["list", "ruleset"]).output().unwrap().stdout).unwrap())
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = monotonic();
    while !is_so() {
        assert!(monotonic().since(begin) < Span::from_secs(10), "after 10 s still not: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// a - m - b by veth; m forwards.
fn three() -> [End; 3] {
    let [a, m, b] = [End::new(), End::new(), End::new()];
    let (to_m, to_b) = (m.run(sys::thread_id), b.run(sys::thread_id));
    a.ip(&format!("link add left type veth peer name left netns {to_m}"));
    m.ip(&format!("link add right type veth peer name right netns {to_b}"));
    for (end, address, device) in [
        (&a, "10.8.1.1/24", "left"),
        (&m, "10.8.1.2/24", "left"),
        (&m, "10.8.2.1/24", "right"),
        (&b, "10.8.2.2/24", "right"),
    ] {
        end.ip(&format!("addr add {address} dev {device}"));
        end.ip(&format!("link set {device} up"));
    }
    m.ip("link set lo up");
    a.ip("route add default via 10.8.1.2");
    b.ip("route add default via 10.8.2.1");
    m.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    [a, m, b]
}

/// True if a rule of `ip` goes by a mark.
fn marks(at: &End) -> bool {
    let rules = at.run(|| Command::new("ip").args(["rule"]).output().unwrap().stdout);
    String::from_utf8(rules).unwrap().contains("fwmark")
}

#[test]
fn netfilter_brings_connections_while_the_proxy_lives() {
    if let Some(reason) = common::missing_nft() {
        common::skipped(&reason);
        return;
    }
    for mode in ["redirect", "tproxy"] {
        let [a, m, b] = three();
        let listener = b.run(|| TcpListener::bind("10.8.2.2:443").unwrap());
        let (wrong, done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (their_wrong, their_done) = (wrong.clone(), done.clone());
        let seen = Arc::new(Mutex::new(Vec::<IpAddr>::new()));
        let noted = seen.clone();
        let inner = b.run(|| TcpListener::bind("10.8.2.2:80").unwrap());
        thread::spawn(move || serve(listener, their_wrong, their_done));
        // At port 80, which no rule has, the server sees the client itself.
        thread::spawn(move || {
            for stream in inner.incoming() {
                noted.lock().unwrap().push(stream.unwrap().peer_addr().unwrap().ip());
            }
        });
        let rules = format!(
            "[[listen]]\naddress = \"0.0.0.0:24689\"\nmode = \"{mode}\"\n[[rule]]\nprefix = \"10.8.2.0/24\"\nport = 443\n"
        );
        let (mut child, _folder) = program(&m, &rules);
        let server: SocketAddr = "10.8.2.2:443".parse().unwrap();
        let found = a.run(move || clients(server, 100));
        verdict(found, &wrong, &done, 100);
        a.run(|| drop(TcpStream::connect("10.8.2.2:80").unwrap()));
        wait_until("a direct connection", || seen.lock().unwrap().len() == 1);
        assert_eq!(seen.lock().unwrap()[0].to_string(), "10.8.1.1", "{mode}");
        // One that is open when the end is asked for goes on; a new one goes past the proxy.
        let mut open = a.run(move || TcpStream::connect(server).unwrap());
        open.write_all(&0u32.to_be_bytes()).unwrap();
        open.read_exact(&mut [0]).unwrap();
        assert!(table(&m).contains("table inet airtcp"));
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        wait_until("the rules are gone", || !table(&m).contains("to :24689"));
        assert!(child.try_wait().unwrap().is_none(), "{mode}: it did not wait for the open connection");
        play(Plan::new(0), open, true).unwrap();
        assert!(child.wait().unwrap().success(), "{mode}");
        assert!(!table(&m).contains("airtcp"), "{mode}");
        assert!(!marks(&m), "{mode}");
        // After SIGKILL the kernel takes the table away, and a process that waited for it the rule
        // of ip.
        let (mut child, _folder) = program(&m, &rules);
        assert_eq!(marks(&m), mode == "tproxy");
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the table is gone", || !table(&m).contains("airtcp"));
        wait_until("the rule is gone", || !marks(&m));
        // If that process is killed as well, the rule stays until `undo`.
        let lines = divert::ip_lines("-4", "add");
        lines.iter().for_each(|line| m.ip(line));
        assert!(marks(&m));
        m.run(|| divert::undo(|_| {})).unwrap();
        assert!(!marks(&m), "{mode}, after undo");
        let direct = a.run(move || one(server, 0));
        assert_eq!(direct, Ok(()), "{mode}, after SIGKILL");
    }
}

/// A client behind the proxy's host knows nothing of TCP-AV, and has its target at 2 % loss.
#[test]
fn a_client_that_knows_nothing_has_its_target() {
    if let Some(reason) = common::missing().or_else(common::missing_nft) {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let bed = Bed::new(Line { loss_per_mille: 20, ..LINE });
    let client = End::new();
    let to_a = bed.a.run(sys::thread_id);
    client.ip(&format!("link add lan type veth peer name lan netns {to_a}"));
    client.ip("addr add 10.7.0.2/24 dev lan");
    client.ip("link set lan up");
    client.ip("route add default via 10.7.0.1");
    bed.a.ip("addr add 10.7.0.1/24 dev lan");
    bed.a.ip("link set lan up");
    bed.b.ip("route add 10.7.0.0/24 dev air0");
    bed.a.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    let listener = bed.b.run(|| TcpListener::bind("10.9.0.2:5001").unwrap());
    // Mbit/s from the third to the ninth second.
    let rate = || {
        let (give, take) = channel();
        client.run(move || {
            let socket = sys::tcp_socket().unwrap();
            sys::set_congestion_control(socket.as_raw_fd(), "reno").unwrap();
            let mut stream = sys::connect(socket, [10, 9, 0, 2], 5001).unwrap();
            thread::spawn(move || while take.try_recv().is_err() && stream.write_all(&[0; 1 << 14]).is_ok() {});
        });
        let (mut stream, from) = listener.accept().unwrap();
        let (mut buffer, mut bytes, begin) = (vec![0; 1 << 17], 0u64, monotonic());
        while monotonic().since(begin) < Span::from_secs(9) {
            let n = stream.read(&mut buffer).unwrap() as u64;
            if monotonic().since(begin) > Span::from_secs(3) {
                bytes += n;
            }
        }
        let _ = give.send(());
        (bytes as f64 * 8e-6 / 6.0, from.ip())
    };
    let (without, from) = rate();
    assert_eq!(from.to_string(), "10.7.0.2");
    let rules = "[[listen]]\naddress = \"0.0.0.0:24689\"\nmode = \"redirect\"\n\
                 [[rule]]\nport = 5001\ntarget = \"8Mbit/s\"\n[limits]\ndrain = \"1ms\"\n";
    let (mut child, _folder) = program(&bed.a, rules);
    let (with, from) = rate();
    assert_eq!(from.to_string(), "10.9.0.1", "the proxy's address");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    println!("2 % loss, Reno's own {without:.2} Mbit/s, by a proxy with the target 8: {with:.2}");
    assert!((0.9 * 8.0..=1.05 * 8.0).contains(&with), "{with:.2} of 8 Mbit/s");
    assert!(with >= 1.4 * without, "{with:.2}, without the proxy {without:.2} Mbit/s");
}
