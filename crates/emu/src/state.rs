//! What a running network shows to `airtcp exec`: a file without a name, which ends with the process that holds it.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::PathBuf;

use airtcp_core::convert::signed32;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};

/// The file's name as `/proc` shows it.
const NAME: &str = "airtcp-shell";
/// The program's.
const PROGRAM: &str = "airtcp-emu";

/// A running network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    /// Name of the scenario.
    pub(crate) name: String,
    /// First process of the programs' namespaces.
    pub(crate) init: i32,
    /// Hosts are kernels of their own, and this folder of the process is what they share with it.
    pub(crate) guests: Option<PathBuf>,
    pub(crate) hosts: Vec<StateHost>,
}

/// A real host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StateHost {
    pub(crate) name: String,
    /// Descriptor of its network namespace in the process that shows this.
    pub(crate) space: i32,
    pub(crate) env: Vec<(String, String)>,
}

impl State {
    /// Shows it for as long as the file is kept.
    pub(crate) fn show(&self) -> std::io::Result<File> {
        let mut file = File::from(memfd_create(NAME, MFdFlags::MFD_CLOEXEC)?);
        file.write_all(&serde_json::to_vec(self)?)?;
        file.rewind()?;
        Ok(file)
    }

    /// All running networks that this user may see: process and network.
    pub(crate) fn all() -> Vec<(i32, State)> {
        let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
        let mut found = Vec::new();
        for process in processes.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            if name.trim_end() != PROGRAM || pid == signed32(std::process::id()) {
                continue;
            }
            let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
            for descriptor in descriptors.flatten() {
                let path = descriptor.path();
                let is_state = fs::read_link(&path)
                    .is_ok_and(|link| link.to_string_lossy().starts_with(&format!("/memfd:{NAME}")));
                let state = if is_state { fs::read(&path).ok() } else { None };
                found.extend(state.and_then(|json| serde_json::from_slice(&json).ok()).map(|state| (pid, state)));
            }
        }
        found.sort_by_key(|(pid, _)| *pid);
        found
    }
}
