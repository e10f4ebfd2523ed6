//! Orders of the command `airtcp` to this program: one JSON object, read from a descriptor.

use std::fs::File;
use std::io::Read;
use std::os::fd::RawFd;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::common::output::on_one_line;
use crate::common::sys::inherited;

/// A network to run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunConfig {
    /// The scenario as JSON, checked.
    pub(crate) scenario: String,
    /// Its name in messages.
    pub(crate) file: String,
    /// Real hosts that run no command of this list.
    pub(crate) hosts: Vec<String>,
    /// Commands and their hosts. At most one is in front.
    pub(crate) commands: Vec<CommandConfig>,
    /// The network ends after this many seconds; `None`: with the command that decides.
    pub(crate) for_s: Option<f64>,
    /// Where tables and capture go.
    pub(crate) record: Option<RecordConfig>,
    /// This host is the way to the machine's own network.
    pub(crate) internet: Option<String>,
    /// Hosts with a gate in place of TCP small queues.
    #[serde(default)]
    pub(crate) gates: Vec<String>,
    /// Says nothing but errors and warnings.
    pub(crate) quiet: bool,
    /// Hosts are kernels of their own, in virtual time.
    pub(crate) guests: Option<GuestsConfig>,
    /// Hosts are stacks of Wi-Fi of their own on a simulated medium.
    #[serde(default)]
    pub(crate) lab: Option<LabConfig>,
    /// The process that started this one, and with which it ends.
    pub(crate) parent: i32,
}

/// Kernels in virtual time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuestsConfig {
    /// A kernel that runs as a program.
    pub(crate) kernel: PathBuf,
    /// Its name in results.
    pub(crate) name: String,
    /// Each one's memory, as `mem=` takes it.
    pub(crate) memory: String,
}

/// A laboratory of real Wi-Fi stacks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabConfig {
    pub(crate) security: Security,
}

/// How a laboratory's network is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Security {
    /// Not at all.
    Open,
    /// With CCMP; the key follows from a password.
    Wpa2,
    /// With CCMP, and protected management frames; the key is agreed upon (SAE).
    Wpa3,
}

impl Security {
    /// As results call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Security::Open => "open",
            Security::Wpa2 => "wpa2",
            Security::Wpa3 => "wpa3",
        }
    }
}

/// A command on a host.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandConfig {
    pub(crate) host: String,
    pub(crate) argv: Vec<String>,
    pub(crate) in_front: bool,
    /// In virtual time: it reads what this process's standard input brings. Other commands read
    /// nothing there.
    #[serde(default)]
    pub(crate) reads: bool,
}

/// Output that is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordConfig {
    /// A folder for tables, for whoever started this to take away.
    pub(crate) folder: PathBuf,
    /// A capture of the real hosts' packets.
    pub(crate) capture: Option<PathBuf>,
    /// Bytes that it keeps of each packet; 0: all.
    pub(crate) snaplen: u32,
}

/// A medium for the simulated radios of this kernel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HwsimConfig {
    /// A scenario as JSON, checked, or else the text of wmediumd's configuration.
    pub(crate) scenario: Option<String>,
    pub(crate) wmediumd: Option<String>,
    /// Its name in messages.
    pub(crate) file: String,
    /// Seed of wmediumd's random numbers; a scenario has its own.
    pub(crate) seed: u64,
    /// Radios of the scenario that are not the module's in the same order: name and address.
    pub(crate) radios: Vec<(String, String)>,
    /// It ends after this many seconds; `None`: with a signal.
    pub(crate) for_s: Option<f64>,
    /// A folder for tables, for whoever started this to take away.
    pub(crate) record: Option<PathBuf>,
    /// Says nothing but errors and warnings.
    pub(crate) quiet: bool,
    /// The process that started this one, and with which it ends.
    pub(crate) parent: i32,
}

impl RunConfig {
    pub(crate) fn read(fd: RawFd) -> Result<RunConfig, String> {
        let config: RunConfig = read(fd)?;
        Ok(RunConfig { file: on_one_line(&config.file), ..config })
    }
}

impl HwsimConfig {
    pub(crate) fn read(fd: RawFd) -> Result<HwsimConfig, String> {
        let config: HwsimConfig = read(fd)?;
        Ok(HwsimConfig { file: on_one_line(&config.file), ..config })
    }
}

fn read<T: DeserializeOwned>(fd: RawFd) -> Result<T, String> {
    let mut json = String::new();
    let read = inherited(fd).and_then(|fd| File::from(fd).read_to_string(&mut json));
    read.map_err(|error| format!("the configuration: {error}"))?;
    serde_json::from_str(&json).map_err(|error| format!("the configuration: {error}"))
}
