#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| airtcp_fuzz::packet(bytes));
