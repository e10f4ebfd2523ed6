//! The harness itself: what passes, what fails with which message, and what is refused.

use airtcp_packetdrill::Verdict;
use airtcp_packetdrill::parse::parse;
use proptest::prelude::*;

const LISTEN: &str = "\
`../common/defaults.sh`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
   +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
  +.1 < . 1:1(0) ack 1 win 257
   +0 accept(3, ..., ...) = 4
";

/// A server that writes ten segments, of which the first is lost.
const LOSS: &str = "
   +0 write(4, ..., 10000) = 10000
   +0 > P. 1:10001(10000) ack 1
  +.1 < . 1:1(0) ack 1 win 257 <sack 1001:2001,nop,nop>
   +0 < . 1:1(0) ack 1 win 257 <sack 1001:3001,nop,nop>
   +0 < . 1:1(0) ack 1 win 257 <sack 1001:4001,nop,nop>
   +0 > . 1:1001(1000) ack 1
   +0 %{ assert tcpi_ca_state == TCP_CA_Recovery, tcpi_ca_state
         assert tcpi_sacked == 3 and tcpi_lost == 1 and tcpi_retrans == 1 }%
";

fn run(text: &str) -> Verdict {
    airtcp_packetdrill::run(text, airtcp_packetdrill::HZ)
}

fn verdict(text: &str) -> Verdict {
    run(&format!("{LISTEN}{text}"))
}

fn failure(text: &str) -> (u32, String) {
    match verdict(text) {
        Verdict::Failed { line, message } => (line, message),
        other => panic!("{text}: {other:?}"),
    }
}

fn refusal(text: &str) -> String {
    match run(text) {
        Verdict::NotExpressible { reason, .. } => reason,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_server_repairs_a_loss_as_the_script_says() {
    assert_eq!(verdict(LOSS), Verdict::Passed);
}

#[test]
fn a_client_connects_and_both_ends_close() {
    let script = "\
`sysctl -q net.ipv4.tcp_ecn=1`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0...0.05 connect(3, ..., ...) = 0
   +0 > SEW 0:0(0) <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 10>
 +.05 < SE. 0:0(0) ack 1 win 32767 <mss 1000,sackOK,TS val 700 ecr 100,nop,wscale 6>
   +0 > . 1:1(0) ack 1 <nop,nop,TS val 150 ecr 700>
   +0 write(3, ..., 988) = 988
   +0 > [ect0] P. 1:989(988) ack 1 <nop,nop,TS val 150 ecr 700>
  +.1 < P. 1:101(100) ack 989 win 512 <nop,nop,TS val 800 ecr 150>
   +0 > . 989:989(0) ack 101 <nop,nop,TS val 250 ecr 800>
   +0 read(3, ..., 1000) = 100
   +0 close(3) = 0
   +0 > F. 989:989(0) ack 101 <...>
  +.1 < F. 101:101(0) ack 990 win 512 <nop,nop,TS val 900 ecr 250>
    * > . 990:990(0) ack 102 <...>
";
    assert_eq!(run(script), Verdict::Passed);
}

#[test]
fn numbers_may_begin_anywhere() {
    let script = LISTEN
        .replace("S 0:0(0)", "S 4294967290:4294967290(0)")
        .replace("> S. 0:0(0) ack 1", "> S. 5000:5000(0) ack 4294967291")
        .replace("< . 1:1(0) ack 1 ", "< . 4294967291:4294967291(0) ack 5001 ");
    let data = "
   +0 write(4, ..., 1000) = 1000
   +0 > P. 5001:6001(1000) ack 4294967291
   +0 < P. 4294967291:4(9) ack 6001 win 257
   +0 > . 6001:6001(0) ack 4
";
    assert_eq!(run(&format!("{script}{data}")), Verdict::Passed);
}

/// One wrong number each, and the line and the values in the message.
#[test]
fn a_failure_names_its_line_what_was_expected_and_what_came() {
    for (right, wrong, line, words) in [
        (
            "> . 1:1001(1000) ack 1",
            "> . 1001:2001(1000) ack 1",
            16,
            vec!["seq is 1, not 1001", "got `> . 1:1001(1000)"],
        ),
        ("> P. 1:10001(10000) ack 1", "> . 1:10001(10000) ack 1", 12, vec!["PSH is set"]),
        ("+0 > . 1:1001(1000)", "+.03 > . 1:1001(1000)", 16, vec!["at 0.2300", "got it at 0.2000"]),
        ("tcpi_lost == 1", "tcpi_lost == 2", 17, vec!["tcpi_lost = 1", "tcpi_sacked = 3"]),
        ("= 10000\n", "= -1 EAGAIN (Try again)\n", 11, vec!["-1 EAGAIN", "returns 10000"]),
    ] {
        assert!(LOSS.contains(right), "{right}");
        let (at, message) = failure(&LOSS.replacen(right, wrong, 1));
        assert_eq!(at, line, "{wrong}: {message}");
        for word in words {
            assert!(message.contains(word), "{message} lacks {word}");
        }
    }
    let (_, message) = failure("  +.1 > . 1:1(0) ack 2\n");
    assert!(message.contains("nothing is sent"), "{message}");
}

#[test]
fn what_is_not_modelled_is_refused_with_a_reason() {
    let with = |text: &str| refusal(&format!("{LISTEN}{text}"));
    assert_eq!(with("+0 < R. 1:1(0) ack 1 win 0\n+0 write(4, ..., 10) = 10\n"), "calls after a reset");
    assert_eq!(with("+0 sendto(4, ..., 10, MSG_FASTOPEN, ..., ...) = 10\n"), "TCP Fast Open");
    assert_eq!(with("+0 epoll_create(1) = 5\n"), "epoll");
    assert_eq!(with("+0 > R. 1:1(0) ack 1\n"), "a reset (airtcp's TCP sends none)");
    assert!(with("+0 %{ assert tcpi_rcv_ooopack == 0 }%\n").contains("tcpi_rcv_ooopack"));
    assert_eq!(refusal("--ip_version=ipv6\n 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"), "IPv6");
    assert_eq!(refusal("`sysctl -q net.ipv4.tcp_mtu_probing=2`\n 0 close(3) = 0\n"), "sysctl tcp_mtu_probing = 2");
    assert!(refusal("0 > nonsense\n").starts_with("packets of nonsense"));
    assert!(refusal("0 socket(\n").starts_with("syntax: "));
}

/// A script that would leave a trace if one of its commands ran.
#[test]
fn no_command_and_no_code_runs() {
    let file = std::env::temp_dir().join(format!("airtcp-packetdrill-{}", std::process::id()));
    let name = file.display();
    let script = format!(
        "`sysctl -q net.ipv4.tcp_sack=0; sleep 0 > {name}`\n{}\n +0 %{{ open('{name}', 'w') }}%\n `touch {name}`\n",
        " 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n +0 `nstat > /dev/null`"
    );
    assert!(refusal(&script).contains("open"));
    assert!(!file.exists(), "{name} is there");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any text, and a script with a part cut out, doubled or replaced, ends in a verdict.
    #[test]
    fn no_text_makes_it_panic(
        noise in "\\PC{0,60}",
        at in 0_usize..1500,
        len in 0_usize..40,
        kind in 0_u8..4,
    ) {
        let script = format!("{LISTEN}{LOSS}");
        let (from, to) = (at.min(script.len()), (at + len).min(script.len()));
        let mutated = match kind {
            0 => format!("{}{}", &script[..from], &script[to..]),
            1 => format!("{}{}{}", &script[..to], &script[from..to], &script[to..]),
            2 => format!("{}{noise}{}", &script[..from], &script[to..]),
            _ => noise,
        };
        let _ = parse(&mutated);
        let _ = run(&mutated);
    }

    /// So does one whose numbers are of any size.
    #[test]
    fn no_number_makes_it_panic(which in 0_usize..200, number in prop_oneof![
        Just("0".to_owned()), Just("65535".to_owned()), Just("4294967295".to_owned()), Just("-1".to_owned()),
        Just("99999999999999999999".to_owned()), Just("9223372036854775807".to_owned()), Just("2147483648".to_owned()),
    ]) {
        let script = format!("{LISTEN}{LOSS}   +0 < P. 1:1001(1000) ack 10001 win 257\n   +0 read(4, ..., 500) = 500\n");
        let mut mutated = String::new();
        let mut seen = 0;
        let mut rest = script.as_str();
        while let Some(from) = rest.find(|c: char| c.is_ascii_digit()) {
            let to = rest[from..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |n| from + n);
            mutated.push_str(&rest[..from]);
            mutated.push_str(if seen == which { &number } else { &rest[from..to] });
            seen += 1;
            rest = &rest[to..];
        }
        mutated.push_str(rest);
        let _ = run(&mutated);
    }
}
