//! Expected and sent segments side by side.

use std::fmt::Write;

use crate::script::{IpEcn, Opt, Segment};

/// The first difference; `None`: none that the script states. Timestamps count as there or not.
pub fn difference(wanted: &Segment, got: &Segment) -> Option<String> {
    let (w, g) = (&wanted.flags, &got.flags);
    let plain = [
        (w.fin, g.fin, "FIN"),
        (w.syn, g.syn, "SYN"),
        (w.psh, g.psh, "PSH"),
        (w.ack, g.ack, "ACK"),
        (w.rst, g.rst, "RST"),
    ];
    if let Some((_, is_set, name)) = plain.iter().find(|(wanted, got, _)| wanted != got) {
        return Some(format!("flag {name} is {}", if *is_set { "set" } else { "not set" }));
    }
    if w.ace_field() != g.ace_field() {
        return Some(format!("field ACE (AE, CWR, ECE) is {}, not {}", g.ace_field(), w.ace_field()));
    }
    for (name, wanted, got) in [("seq", wanted.seq, got.seq), ("ack", wanted.ack, got.ack)] {
        if wanted != got && (name != "ack" || w.ack) {
            return Some(format!("{name} is {got}, not {wanted}"));
        }
    }
    if wanted.len != got.len {
        return Some(format!("the length is {}, not {}", got.len, wanted.len));
    }
    if let (Some(wanted), Some(got)) = (wanted.window, got.window) {
        if wanted != got {
            return Some(format!("the window is {got}, not {wanted}"));
        }
    }
    if let (Some(wanted), Some(got)) = (wanted.ecn, got.ecn) {
        let same = wanted == got || (wanted == IpEcn::Ect01 && matches!(got, IpEcn::Ect0 | IpEcn::Ect1));
        if !same {
            return Some(format!("ECN of the IP header is {}, not {}", ecn_text(got), ecn_text(wanted)));
        }
    }
    let (Some(wanted), Some(got)) = (&wanted.options, &got.options) else { return None };
    let counts = |o: &&Opt| !matches!(o, Opt::Nop | Opt::Eol);
    let (mut wanted, mut got): (Vec<&Opt>, Vec<&Opt>) =
        (wanted.iter().filter(counts).collect(), got.iter().filter(counts).collect());
    wanted.sort_by_key(|o| place(o));
    got.sort_by_key(|o| place(o));
    let same = wanted.len() == got.len() && wanted.iter().zip(&got).all(|(w, g)| is_same_option(w, g));
    if same { None } else { Some("the options differ".to_owned()) }
}

/// The order in which options are held against each other.
fn place(option: &Opt) -> u8 {
    match option {
        Opt::Nop | Opt::Eol => 0,
        Opt::Mss(_) => 1,
        Opt::SackPermitted => 2,
        Opt::Timestamps { .. } => 3,
        Opt::WindowScale(_) => 4,
        Opt::AccurateEcn { .. } => 5,
        Opt::Sack(_) => 6,
        Opt::FastOpen => 7,
        Opt::Md5 => 8,
    }
}

/// airtcp has one of the counters of Accurate ECN, that of bytes marked CE.
fn is_same_option(wanted: &Opt, got: &Opt) -> bool {
    match (wanted, got) {
        (Opt::Timestamps { .. }, Opt::Timestamps { .. }) => true,
        (Opt::AccurateEcn { ceb: a, .. }, Opt::AccurateEcn { ceb: b, .. }) => a == b || a.is_none() || b.is_none(),
        _ => wanted == got,
    }
}

/// The clock of its timestamps.
pub fn timestamp(segment: &Segment) -> Option<u32> {
    segment.options.iter().flatten().find_map(|option| match option {
        Opt::Timestamps { val, .. } => Some(*val),
        _ => None,
    })
}

fn ecn_text(ecn: IpEcn) -> &'static str {
    match ecn {
        IpEcn::NotEct => "noecn",
        IpEcn::Ect0 => "ect0",
        IpEcn::Ect1 => "ect1",
        IpEcn::Ce => "ce",
        IpEcn::Ect01 => "ect01",
    }
}

/// A segment as scripts write it.
pub fn text(segment: &Segment) -> String {
    let mut text = String::new();
    let end = segment.seq.wrapping_add(u32::from(segment.len));
    if let Some(ecn) = segment.ecn.filter(|ecn| *ecn != IpEcn::NotEct) {
        let _ = write!(text, "[{}] ", ecn_text(ecn));
    }
    let _ = write!(text, "{} {}:{end}({})", segment.flags.text(), segment.seq, segment.len);
    if segment.flags.ack {
        let _ = write!(text, " ack {}", segment.ack);
    }
    if let Some(window) = segment.window {
        let _ = write!(text, " win {window}");
    }
    match &segment.options {
        None => text.push_str(" <...>"),
        Some(options) if options.is_empty() => {}
        Some(options) => {
            let options: Vec<String> = options.iter().map(option_text).collect();
            let _ = write!(text, " <{}>", options.join(","));
        }
    }
    text
}

fn option_text(option: &Opt) -> String {
    match option {
        Opt::Nop => "nop".to_owned(),
        Opt::Eol => "eol".to_owned(),
        Opt::Mss(bytes) => format!("mss {bytes}"),
        Opt::WindowScale(shift) => format!("wscale {shift}"),
        Opt::SackPermitted => "sackOK".to_owned(),
        Opt::Sack(blocks) => {
            let blocks: Vec<String> = blocks.iter().map(|(start, end)| format!("{start}:{end}")).collect();
            format!("sack {}", blocks.join(" "))
        }
        Opt::Timestamps { val, ecr } => format!("TS val {val} ecr {ecr}"),
        Opt::AccurateEcn { ceb, e0b, e1b } => {
            let mut text = "ECN".to_owned();
            for (name, value) in [("e0b", e0b), ("ceb", ceb), ("e1b", e1b)] {
                if let Some(value) = value {
                    let _ = write!(text, " {name} {value}");
                }
            }
            text
        }
        Opt::FastOpen => "FO".to_owned(),
        Opt::Md5 => "md5".to_owned(),
    }
}
