//! Bytes as a capture file, through the whole path: no panic, every packet counted once, bytes conserved.
#![no_main]

use std::io::Cursor;

use airtcp_analyze::tables::Data;
use airtcp_analyze::{Analyzer, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Few points and connections, so that thinning and eviction are reached.
    let options = Options { points: 16, idle_timeout_s: 60.0, max_connections: 4 };
    let Ok(mut analyzer) = Analyzer::new(Cursor::new(bytes.to_vec()), options) else { return };
    let (mut payload, mut parts, mut packets) = (0, 0, 0);
    loop {
        let more = analyzer.advance(7);
        if !more {
            analyzer.finish();
        }
        for table in analyzer.drain().iter().filter(|t| t.name == "flows") {
            let sum = |name| match table.column(name) {
                Some(Data::U64(v)) => v.iter().sum::<u64>(),
                other => panic!("{name}: {other:?}"),
            };
            payload += sum("payload_bytes");
            parts += sum("unique_bytes") + sum("retransmitted_bytes");
            packets += sum("packets");
        }
        if !more {
            break;
        }
    }
    assert_eq!(payload, parts);
    assert!(packets <= analyzer.packets());
    let _ = (analyzer.notes(), analyzer.damage().map(ToString::to_string), analyzer.summary());
});
