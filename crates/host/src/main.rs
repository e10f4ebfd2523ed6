//! `airtcp-host`: airtcp's remedies on a Linux host.

#[cfg(target_os = "linux")]
mod commands;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    commands::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("airtcp-host: runs on Linux only");
    std::process::ExitCode::FAILURE
}
