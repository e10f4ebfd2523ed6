//! The loop with a peer that is no kernel, in real time.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use airtcp_hwsim::Module;

use super::*;

const MODULE: Module = Module { family: 27, has_patches: true };
const IDS: &str = "ifaces = { ids = [\"02:00:00:00:00:00\", \"02:00:00:00:01:00\"] }";

fn plan(wmediumd: &str) -> HwsimConfig {
    HwsimConfig {
        scenario: None,
        wmediumd: Some(wmediumd.to_owned()),
        file: "two.cfg".to_owned(),
        seed: 1,
        radios: Vec::new(),
        for_s: None,
        record: None,
        quiet: true,
        parent: 0,
    }
}

/// A medium, and the other end of its socket.
fn live() -> (RunningMedium, UnixDatagram) {
    let (own, kernel) = UnixDatagram::pair().unwrap();
    own.set_nonblocking(true).unwrap();
    kernel.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let wanted = medium_setup(&plan(IDS)).unwrap();
    let own_end = KernelSocket::of(OwnedFd::from(own));
    (RunningMedium::new(Conversation::new(wanted.air, &wanted.addresses, MODULE), wanted.names, own_end), kernel)
}

/// The kernel's answer to a message.
fn answer(to: &[u8], code: i32) -> Vec<u8> {
    let mut answer = [&36u32.to_ne_bytes()[..], &2u16.to_ne_bytes(), &[0; 2], &to[8..12], &[0; 4]].concat();
    answer.extend_from_slice(&code.to_ne_bytes());
    answer.extend_from_slice(&to[..16]);
    answer
}

/// QoS data of the second radio for the first one, handed over at MCS 7.
fn handed_over(cookie: u64) -> Vec<u8> {
    let mut frame = vec![0x88, 0x01, 0, 0];
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(&[0x10, 0, 0, 0]);
    frame.resize(1500, 7);
    let mut body = vec![2, 1, 0, 0];
    let mut put = |kind: u16, value: &[u8]| {
        body.extend_from_slice(&u16::try_from(4 + value.len()).unwrap().to_ne_bytes());
        body.extend_from_slice(&kind.to_ne_bytes());
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
    };
    put(2, &[0x42, 0, 0, 0, 1, 0]);
    put(3, &frame);
    put(4, &0u32.to_ne_bytes());
    put(19, &2412u32.to_ne_bytes());
    put(7, &[7, 4, 255, 0, 255, 0, 255, 0]);
    put(21, &[7, 8, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0]);
    put(8, &cookie.to_ne_bytes());
    let mut message = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
    message.extend_from_slice(&[27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(&body);
    message
}

fn read(kernel: &UnixDatagram) -> Vec<u8> {
    let mut buffer = vec![0; 65536];
    let len = kernel.recv(&mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

#[test]
fn the_kernel_agrees_or_the_reason_is_said() {
    for (code, expected) in
        [(0, None), (-libc::EBUSY, Some("has a medium already")), (-libc::EPERM, Some("needs root"))]
    {
        let (mut live, kernel) = live();
        let peer = std::thread::spawn(move || {
            let registration = read(&kernel);
            kernel.send(&answer(&registration, code)).unwrap();
            kernel
        });
        let said = live.register();
        let _kernel = peer.join().unwrap();
        match expected {
            None => said.unwrap(),
            Some(part) => assert!(said.unwrap_err().contains(part)),
        }
    }
}

#[test]
fn frames_pass_in_real_time_and_rubbish_is_counted() {
    let (mut live, kernel) = live();
    let (stop, stopped) = std::os::unix::net::UnixStream::pair().unwrap();
    let peer = std::thread::spawn(move || {
        kernel.send(&[9; 7]).unwrap();
        let mut ended = 0;
        let mut arrived = 0;
        for cookie in 0..50u64 {
            kernel.send(&handed_over(cookie)).unwrap();
            while ended <= cookie {
                let batch = read(&kernel);
                let mut rest = &batch[..];
                while let Some(length) = rest.first_chunk().map(|b| u32::from_ne_bytes(*b) as usize) {
                    assert_eq!(rest[4], 27);
                    match rest[16] {
                        2 => arrived += 1,
                        3 => ended += 1,
                        other => panic!("command {other}"),
                    }
                    rest = &rest[length..];
                }
            }
        }
        drop(stop);
        (arrived, ended)
    });
    // The end of the other side stands for a signal.
    assert!(live.run(None, stopped.as_fd()));
    assert_eq!(peer.join().unwrap(), (50, 50));
    assert_eq!((live.own.counts.frames, live.own.counts.malformed), (50, 1));
    // Each frame of 1504 bytes took its time on the air: at 65 Mbit/s 185 us and more.
    let traffic = live.own.air.mac.traffic()[&(RadioId(1), RadioId(0))];
    assert!(traffic.airtime_ns > 50 * 185_000, "{traffic:?}");
    let table = live.table();
    let row = "02:00:00:00:01:00  02:00:00:00:00:00         50         50";
    assert!(table.lines().nth(1).unwrap().starts_with(row), "{table}");
    assert!(
        live.warnings()[0].contains("could not be read; the first: a message of the simulated radio is cut at byte 0")
    );
}

#[test]
fn it_ends_when_its_time_is_over() {
    let (mut live, _kernel) = live();
    let (_stop, stopped) = std::os::unix::net::UnixStream::pair().unwrap();
    let begun = live.clock.now();
    assert!(live.run(Some(Span::from_ms(50)), stopped.as_fd()));
    assert!(live.clock.now().since(begun) >= Span::from_ms(50));
}

#[test]
fn it_ends_when_all_its_radios_have_vanished() {
    let (mut live, kernel) = live();
    let (_stop, stopped) = std::os::unix::net::UnixStream::pair().unwrap();
    for number in [1u8, 0] {
        // Removed: number 10 is the radio's.
        let message = [28, 0, 0, 0, 27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 8, 0, 10, 0, number, 0, 0, 0];
        kernel.send(&message).unwrap();
        assert_eq!(live.run(Some(Span::from_ms(50)), stopped.as_fd()), number == 1);
    }
    assert!(live.vanished_at.iter().all(Option::is_some));
    assert_eq!(live.own.counts.malformed, 0);
}

#[test]
fn what_was_sent_is_kept() {
    let folder = std::env::temp_dir().join(format!("airtcp-hwsim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (live, _kernel) = live();
    let plan = HwsimConfig { record: Some(folder.clone()), ..plan(IDS) };
    let addresses = [[2, 0, 0, 0, 0, 0], [2, 0, 0, 0, 1, 0]];
    let known = ModuleState { module: MODULE, radios: vec![(addresses[1], "phy1".to_owned())], group: None };
    write_results(&plan, &live, &addresses, &known, 7).unwrap();
    let output: Value = serde_json::from_slice(&std::fs::read(folder.join(OUTPUT)).unwrap()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(output["summary"]["seed"], 7);
    let second = &output["emu"]["hosts"]["02:00:00:00:01:00"];
    assert_eq!((second["phy"].as_str(), &second["vanished_s"]), (Some("phy1"), &Value::Null));
    assert_eq!(output["meanings"]["radios"]["columns"]["from"], "whose radio");
    // Nobody asked for tables: none are written.
    write_results(&HwsimConfig { record: None, ..plan }, &live, &addresses, &known, 7).unwrap();
    assert!(!folder.exists());
}

#[test]
fn files_that_cannot_be_are_named() {
    assert!(medium_setup(&plan("ifaces = 3")).err().unwrap().starts_with("two.cfg: ifaces.ids is missing"));
}
