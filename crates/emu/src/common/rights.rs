//! Rights that the machine gives this user, and for an ordinary user a user namespace in which to
//! have more.

use std::fs;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// Rights of this user on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Namespaces of all kinds, as root.
    AsRoot,
    /// Within a user namespace.
    AsUser,
    /// Not, and a line that would change it.
    No(String),
}

/// True if the effective capabilities contain CAP_SYS_ADMIN and CAP_NET_ADMIN: root of a container
/// may lack them.
pub(crate) fn is_administrator() -> bool {
    const NEEDED: u64 = 1 << 12 | 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|has| has & NEEDED == NEEDED)
}

/// Finds out without changing this process: a thread cannot make a user namespace, so the kernel's
/// switches are read.
pub(crate) fn allowed() -> Allowed {
    if is_administrator() {
        return Allowed::AsRoot;
    }
    let switch = |key: &str| fs::read_to_string(format!("/proc/sys/{key}")).ok().map(|v| v.trim().to_owned());
    let off = "user namespaces are off for ordinary users. As root: sysctl -w";
    if !fs::exists("/proc/self/ns/user").unwrap_or(false) {
        return Allowed::No("this kernel has no user namespaces: start airtcp as root".to_owned());
    }
    if switch("user/max_user_namespaces").as_deref() == Some("0") {
        return Allowed::No(format!("{off} user.max_user_namespaces=10000"));
    }
    if switch("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return Allowed::No(format!("{off} kernel.unprivileged_userns_clone=1"));
    }
    if switch("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return Allowed::No(format!("{off} kernel.apparmor_restrict_unprivileged_userns=0"));
    }
    Allowed::AsUser
}

/// Makes this process root of a user namespace, if it is not root. It must have one thread.
pub(crate) fn become_root() -> Result<(), String> {
    match allowed() {
        Allowed::AsRoot => return Ok(()),
        Allowed::No(why) => return Err(why),
        Allowed::AsUser => {}
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| {
        format!("a user namespace: {}. A container may forbid it; as root airtcp needs none", error.desc())
    })?;
    let map = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("/proc/self/{file}: {error}"))
    };
    map("setgroups", "deny".to_owned())?;
    map("uid_map", format!("0 {user} 1"))?;
    map("gid_map", format!("0 {group} 1"))
}
