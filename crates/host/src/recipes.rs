//! Settings of the kernel as recipes: printed, applied with a note of what was there, checked,
//! undone.
//!
//! The former values are on disk before anything is changed, in `/run/airtcp-host`. So `undo` works
//! after a crash too, and a reboot forgets both.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use airtcp_core::units::{DataRate, Span};

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// A file below /proc/sys, by its dotted name.
    Sysctl(String),
    /// Most segments that leave an interface as one packet.
    GsoMaxSegs(String),
    /// The metric `reordering` of a route, which is named as `ip route show` does.
    Reordering(String),
    /// Packets that come in on an interface are forwarded (IPv4).
    Forwarding(String),
}

/// A setting and the value that it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub setting: Setting,
    /// Its value.
    pub value: u32,
}

/// Output of a program.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let words = || format!("{program} {}", arguments.join(" "));
    let out = Command::new(program).args(arguments).output().map_err(|e| format!("cannot run `{}`: {e}", words()))?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    } else {
        Err(format!("`{}` fails: {}", words(), String::from_utf8_lossy(&out.stderr).trim()))
    }
}

/// The number behind `"key":` in JSON of `ip`.
fn number_in(json: &str, key: &str) -> Option<u32> {
    let at = json.find(&format!("\"{key}\":"))? + key.len() + 3;
    let digits: String = json[at..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// A route without its metric `reordering`, and that metric; 0: it has none.
fn split_metric(route: &str) -> (String, u32) {
    let mut words: Vec<&str> = route.split_whitespace().collect();
    let Some(at) = words.iter().position(|w| *w == "reordering") else { return (words.join(" "), 0) };
    let value = words.get(at + 1).and_then(|v| v.parse().ok()).unwrap_or(0);
    words.drain(at..(at + 2).min(words.len()));
    (words.join(" "), value)
}

impl Setting {
    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Setting::Sysctl(name) => name.clone(),
            Setting::GsoMaxSegs(interface) => format!("gso_max_segs of {interface}"),
            Setting::Reordering(route) => format!("reordering of the route {route}"),
            Setting::Forwarding(interface) => format!("forwarding of {interface}"),
        }
    }

    /// The line that a person would type.
    pub fn line(&self, value: u32) -> String {
        match self {
            Setting::Sysctl(name) => format!("sysctl -w {name}={value}"),
            Setting::GsoMaxSegs(interface) => format!("ip link set dev {interface} gso_max_segs {value}"),
            Setting::Reordering(route) if value == 0 => format!("ip route change {route}"),
            Setting::Reordering(route) => format!("ip route change {route} reordering {value}"),
            // With slashes, since names of interfaces have dots.
            Setting::Forwarding(interface) => format!("sysctl -w net/ipv4/conf/{interface}/forwarding={value}"),
        }
    }

    /// The file of one that is below /proc/sys.
    fn file(&self) -> String {
        match self {
            Setting::Forwarding(interface) => format!("/proc/sys/net/ipv4/conf/{interface}/forwarding"),
            Setting::Sysctl(name) | Setting::GsoMaxSegs(name) | Setting::Reordering(name) => {
                format!("/proc/sys/{}", name.replace('.', "/"))
            }
        }
    }

    /// The value that it has now.
    pub fn read(&self) -> Result<u32, String> {
        match self {
            Setting::Sysctl(_) | Setting::Forwarding(_) => {
                let path = self.file();
                let text = fs::read_to_string(&path).map_err(|e| format!("cannot read {path}: {e}"))?;
                text.trim().parse().map_err(|_| format!("{path} holds {:?}: a number was expected", text.trim()))
            }
            Setting::GsoMaxSegs(interface) => {
                let json = run("ip", &["-j", "-d", "link", "show", "dev", interface])?;
                number_in(&json, "gso_max_segs")
                    .ok_or_else(|| format!("`ip` does not tell gso_max_segs of {interface}"))
            }
            Setting::Reordering(route) => {
                let destination = route.split(' ').next().unwrap_or_default();
                let now = run("ip", &["route", "show", "exact", destination])?;
                let found = now.lines().map(split_metric).find(|(name, _)| name == route);
                found.map(|(_, value)| value).ok_or_else(|| format!("the route `{route}` is gone"))
            }
        }
    }

    fn write(&self, value: u32) -> Result<(), String> {
        let line = self.line(value);
        let words: Vec<&str> = line.split(' ').collect();
        match self {
            // An interface that is gone has taken its setting along.
            Setting::Forwarding(_) if !Path::new(&self.file()).exists() => Ok(()),
            // By its file, so that no program `sysctl` is needed.
            Setting::Sysctl(_) | Setting::Forwarding(_) => fs::write(self.file(), format!("{value}\n")).map_err(|e| {
                let hint =
                    if e.kind() == io::ErrorKind::PermissionDenied { "; run it as root, or type the line" } else { "" };
                format!("cannot set {}: {e}{hint}", self.name())
            }),
            Setting::GsoMaxSegs(_) | Setting::Reordering(_) => run(words[0], &words[1..]).map(drop),
        }
    }

    fn noted(&self, value: u32) -> String {
        match self {
            Setting::Sysctl(name) => format!("sysctl\t{name}\t{value}\n"),
            Setting::GsoMaxSegs(interface) => format!("gso_max_segs\t{interface}\t{value}\n"),
            Setting::Reordering(route) => format!("reordering\t{route}\t{value}\n"),
            Setting::Forwarding(interface) => format!("forwarding\t{interface}\t{value}\n"),
        }
    }

    fn of_note(line: &str) -> Option<(Setting, u32)> {
        let mut fields = line.split('\t');
        let (kind, name, value) = (fields.next()?, fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        // Only what airtcp sets: a note is data, and `undo` runs as root.
        let setting = match kind {
            "sysctl" if SYSCTLS.contains(&name.as_str()) => Setting::Sysctl(name),
            "gso_max_segs" => Setting::GsoMaxSegs(name),
            "reordering" => Setting::Reordering(name),
            "forwarding" if !name.contains('/') && name != ".." => Setting::Forwarding(name),
            _ => return None,
        };
        Some((setting, value))
    }
}

const SS_RATIO: &str = "net.ipv4.tcp_pacing_ss_ratio";
const CA_RATIO: &str = "net.ipv4.tcp_pacing_ca_ratio";
const REORDERING: &str = "net.ipv4.tcp_reordering";
/// All that airtcp sets.
const SYSCTLS: [&str; 3] = [SS_RATIO, CA_RATIO, REORDERING];

/// How often [`note`] makes the folder anew; a bound, so that a broken file system ends in a
/// sentence.
const ATTEMPTS: u32 = 1000;

/// Where notes of this network namespace are. Its cookie names it, which no other has until the
/// next boot.
fn notes() -> Result<PathBuf, String> {
    let cookie = crate::sys::network_cookie().map_err(|e| format!("cannot name this network namespace: {e}"))?;
    Ok(PathBuf::from("/run/airtcp-host").join(format!("undo-{cookie}")))
}

/// Changes the settings that differ from their steps; says each line. The former values are noted
/// first.
pub fn apply(steps: &[Step], mut tell: impl FnMut(&str)) -> Result<(), String> {
    let path = notes()?;
    for step in steps {
        let before = step.setting.read()?;
        if before == step.value {
            tell(&format!("{}: is so already", step.setting.line(step.value)));
            continue;
        }
        note(&path, &step.setting.noted(before)).map_err(|e| {
            let hint =
                if e.kind() == io::ErrorKind::PermissionDenied { "; run it as root, or type the lines" } else { "" };
            format!("cannot note in {} what is there: {}{hint}", path.display(), e.kind())
        })?;
        step.setting.write(step.value)?;
        tell(&format!("{}: done, was {before}", step.setting.line(step.value)));
    }
    Ok(())
}

/// Opens a file of this user in a folder of this user. A file of another user would be carried out
/// with the rights of this one.
fn open_own(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let user = fs::metadata("/proc/self")?.uid();
    let folder = fs::symlink_metadata(path.parent().unwrap_or(Path::new("/")))?;
    let is_own = |m: &fs::Metadata| m.uid() == user && m.mode() & 0o022 == 0;
    let about = file.metadata()?;
    if about.is_file() && is_own(&about) && is_own(&folder) {
        Ok(file)
    } else {
        Err(io::Error::other("it is another user's, or others may write it; remove it"))
    }
}

fn read_own(path: &Path) -> io::Result<String> {
    io::read_to_string(open_own(fs::OpenOptions::new().read(true), path)?)
}

/// Adds to the note at `path`, whose folder is made. Another namespace's `undo` may remove the
/// empty folder in between.
fn note(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    let open = || open_own(fs::OpenOptions::new().create(true).append(true).mode(0o600), path);
    let mut attempts = 0;
    let mut file = loop {
        match open().and_then(|file| crate::sys::lock(&file).map(|()| file)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS => attempts += 1,
            opened => break opened?,
        }
        if let Some(folder) = path.parent() {
            match fs::DirBuilder::new().mode(0o700).create(folder) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
    };
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Removes the note, and the folder if no other namespace has one there.
fn forget(path: &Path) -> Result<(), String> {
    fs::remove_file(path).map_err(|e| format!("cannot remove {}: {e}", path.display()))?;
    let _ = path.parent().map(fs::remove_dir);
    Ok(())
}

/// Settings that differ from their steps, each as a sentence.
pub fn check(steps: &[Step]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for step in steps {
        let now = step.setting.read()?;
        if now != step.value {
            all.push(format!(
                "{} is {now}, not {}; run: {}",
                step.setting.name(),
                step.value,
                step.setting.line(step.value)
            ));
        }
    }
    Ok(all)
}

/// Takes back all that [`apply`] set in this namespace, the last first. Says each line; what is
/// gone is said and left.
pub fn undo(mut tell: impl FnMut(&str)) -> Result<(), String> {
    let path = notes()?;
    let text = match read_own(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            tell("nothing was set in this network namespace");
            return Ok(());
        }
        Err(e) => return Err(format!("cannot read {}: {e}", path.display())),
    };
    let mut failed = String::new();
    for line in text.lines().rev() {
        let Some((setting, value)) = Setting::of_note(line) else {
            tell(&format!("{}: a line that airtcp has not written is left out", path.display()));
            continue;
        };
        match setting.write(value) {
            Ok(()) => tell(&format!("{}: done", setting.line(value))),
            Err(e) => failed = format!("{e}; {} still holds what was there", path.display()),
        }
    }
    if !failed.is_empty() {
        return Err(failed);
    }
    forget(&path)
}

/// Takes back what [`apply`] set of these, and leaves what else is noted.
pub fn take_back(settings: &[Setting]) -> Result<(), String> {
    let path = notes()?;
    let fault = |e: io::Error| format!("cannot read {}: {e}", path.display());
    let file = open_own(fs::OpenOptions::new().read(true).write(true), &path).map_err(fault)?;
    crate::sys::lock(&file).map_err(fault)?;
    let text = read_own(&path).map_err(fault)?;
    let is_one = |line: &&str| Setting::of_note(line).is_some_and(|(setting, _)| settings.contains(&setting));
    let (ours, others): (Vec<&str>, Vec<&str>) = text.lines().partition(is_one);
    for (setting, value) in ours.iter().rev().filter_map(|line| Setting::of_note(line)) {
        setting.write(value)?;
    }
    if others.is_empty() {
        return forget(&path);
    }
    let rest: String = others.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, rest).map_err(fault)
}

/// Spacing of segments by RTT / cwnd, as the study pacing-buffers simulates it.
pub fn pacing(interface: &str) -> Vec<Step> {
    let sysctl = |name: &str| Step { setting: Setting::Sysctl(name.to_owned()), value: 100 };
    let gso = Step { setting: Setting::GsoMaxSegs(interface.to_owned()), value: 1 };
    vec![sysctl(SS_RATIO), sysctl(CA_RATIO), gso]
}

/// Packets of 1500 bytes that a router's buffer holds: of the normal rule, and divided by the root
/// of the number of flows.
pub fn buffers(rate: DataRate, rtt: Span, flows: u32) -> (u64, u64) {
    let product = rate.bytes_in(rtt).get() as f64 / 1500.0;
    let packets = |n: f64| airtcp_core::convert::floor64(n.max(1.0).ceil());
    (packets(product), packets(product / f64::from(flows.max(1)).sqrt()))
}

/// EFR's threshold for all connections of the namespace.
pub fn efr_everywhere(threshold: u32) -> Vec<Step> {
    vec![Step { setting: Setting::Sysctl(REORDERING.to_owned()), value: threshold }]
}

/// EFR's threshold for the routes to a prefix, from the second connection to an address on.
pub fn efr_to(prefix: &str, threshold: u32) -> Result<Vec<Step>, String> {
    let routes = run("ip", &["route", "show", "exact", prefix])?;
    let steps: Vec<Step> = routes
        .lines()
        .filter(|route| !route.trim().is_empty())
        .map(|route| Step { setting: Setting::Reordering(split_metric(route).0), value: threshold })
        .collect();
    if steps.is_empty() {
        return Err(format!("--prefix {prefix}: there is no route to exactly that; `ip route` lists them"));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_the_products_of_the_study() {
        assert_eq!(buffers(DataRate::from_mbps(1000), Span::from_ms(50), 200), (4167, 295));
        assert_eq!(buffers(DataRate::from_mbps(1), Span::from_ms(1), 1), (1, 1));
    }

    #[test]
    fn notes_are_read_back_and_nothing_else_is() {
        for step in [pacing("wlan0"), efr_everywhere(2)].concat() {
            let line = step.setting.noted(7);
            assert_eq!(Setting::of_note(line.trim_end()), Some((step.setting, 7)));
        }
        for line in ["", "sysctl\tkernel.core_pattern\t1", "sysctl\tnet.ipv4.tcp_reordering\tx", "rm\t/\t1"] {
            assert_eq!(Setting::of_note(line), None, "{line}");
        }
    }

    #[test]
    fn notes_of_others_are_not_believed() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        note(&at("own"), "sysctl\tnet.ipv4.tcp_reordering\t7\n").unwrap();
        assert!(read_own(&at("own")).is_ok());
        symlink(at("own"), at("link")).unwrap();
        assert!(read_own(&at("link")).is_err() && note(&at("link"), "x").is_err());
        fs::write(at("open"), "x").unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read_own(&at("open")).unwrap_err().to_string().contains("another user's"));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(read_own(&at("own")).is_err(), "who may write the folder may have put it there");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        // Another user's can be made by root alone.
        if std::os::unix::fs::chown(at("own"), Some(65_534), None).is_ok() {
            assert!(read_own(&at("own")).is_err() && note(&at("own"), "x").is_err());
        }
    }

    /// Two namespaces note and undo at once: one makes the folder that the other has just found
    /// missing or removed.
    #[test]
    fn namespaces_do_not_disturb_each_others_notes() {
        let folder = std::env::temp_dir().join(format!("airtcp-notes-{}", std::process::id()));
        std::thread::scope(|scope| {
            for namespace in 0..4 {
                let path = folder.join(format!("undo-{namespace}"));
                scope.spawn(move || {
                    for round in 0..200 {
                        note(&path, "one\n").and_then(|()| note(&path, "two\n")).unwrap();
                        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n", "round {round}");
                        forget(&path).unwrap();
                    }
                });
            }
        });
        assert!(!folder.exists());
    }

    #[test]
    fn a_metric_is_told_from_its_route() {
        let route = "192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.1";
        assert_eq!(split_metric(&format!("{route} reordering 2 ")), (route.to_owned(), 2));
        assert_eq!(split_metric(route), (route.to_owned(), 0));
        assert_eq!(number_in(r#"[{"gso_max_size":65536,"gso_max_segs":65535}]"#, "gso_max_segs"), Some(65535));
    }
}
