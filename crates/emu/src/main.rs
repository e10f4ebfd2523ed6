//! See the library.

#![deny(clippy::print_stderr, clippy::print_stdout)]

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    airtcp_emu::main(&std::env::args().skip(1).collect::<Vec<_>>())
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "error: real programs need Linux: network namespaces and TUN devices");
    std::process::ExitCode::from(2)
}
