//! The device behind which airtcp's own TCP is, and how its packets get on from there: the kernel
//! forwards them, as a router does.

use std::fs::File;
use std::net::Ipv4Addr;

use crate::nft::Held;
use crate::recipes::{self, Setting, Step, run};
use crate::sys;

/// Name of the table.
const TABLE: &str = "airtcp_send";

/// The device; it goes with this, and with it its addresses and routes.
#[derive(Debug)]
pub struct Way {
    /// Packets come and go here.
    pub tun: File,
    table: Option<Held>,
    set: Vec<Setting>,
}

/// The device, and both of its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub device: String,
    /// The kernel's address.
    pub kernel: Ipv4Addr,
    /// Address of airtcp's TCP.
    pub own: Ipv4Addr,
}

/// Network that is used by default: one for private use.
pub const NETWORK: &str = "10.97.116.0/30";

impl Place {
    /// Reads a name and a network of four addresses, as `10.97.116.0/30`.
    pub fn new(device: &str, network: &str) -> Result<Place, String> {
        let is_name =
            (1..=15).contains(&device.len()) && device.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !is_name {
            return Err(format!("--device {device}: must be 1 to 15 letters, digits and -"));
        }
        let fault = || format!("--net {network}: must be four addresses of IPv4, as {NETWORK}");
        let base: Ipv4Addr = network.strip_suffix("/30").and_then(|text| text.parse().ok()).ok_or_else(fault)?;
        if base.to_bits() % 4 != 0 || base.is_loopback() || base.is_multicast() {
            return Err(fault());
        }
        let at = |n| Ipv4Addr::from_bits(base.to_bits() + n);
        Ok(Place { device: device.to_owned(), kernel: at(1), own: at(2) })
    }

    /// Commands for a person who brings its packets on in another way.
    fn lines(&self, onward: &str) -> String {
        [&self.device, onward].map(|name| Setting::Forwarding(name.to_owned()).line(1)).join("; ")
    }
}

/// The interface that leads to `to`; `None`: it is this host.
fn onward(to: Ipv4Addr) -> Result<Option<String>, String> {
    let json = run("ip", &["-j", "route", "get", &to.to_string()])?;
    if json.contains("\"type\":\"local\"") {
        return Ok(None);
    }
    let name =
        json.split_once("\"dev\":\"").and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| name.to_owned());
    name.map(Some).ok_or_else(|| format!("`ip route get {to}` names no interface"))
}

impl Way {
    /// Opens the device and sees that packets to `to` get on. `forwards`: makes the kernel forward,
    /// and translate the address.
    pub fn open(place: &Place, to: Ipv4Addr, packet_bytes: u16, forwards: bool) -> Result<Way, String> {
        let Place { device, kernel, own } = place;
        let onward = onward(to)?;
        let tun = sys::tun(device).map_err(|e| match e.raw_os_error() {
            Some(libc::EPERM) => {
                format!("efr send: CAP_NET_ADMIN is missing, which a device ({device}) takes; run it as root")
            }
            Some(libc::EBUSY) => format!("--device {device}: another process has it; give another name"),
            Some(libc::ENOENT) => {
                "efr send: /dev/net/tun is missing; this kernel has no TUN, or `modprobe tun`".to_owned()
            }
            _ => format!("--device {device}: cannot open it: {e}"),
        })?;
        let mut way = Way { tun, table: None, set: Vec::new() };
        run("ip", &["addr", "add", &kernel.to_string(), "peer", &own.to_string(), "dev", device])?;
        let mtu = packet_bytes.max(576).to_string();
        run("ip", &["link", "set", "dev", device, "mtu", &mtu, "up"])?;
        let Some(onward) = onward.filter(|name| name != device) else { return Ok(way) };
        let settings = [device, &onward].map(|name| Setting::Forwarding(name.clone()));
        let are_on = settings.iter().map(|s| s.read().map(|value| value == 1)).collect::<Result<Vec<_>, _>>()?;
        if !forwards {
            if are_on == [true, true] {
                return Ok(way);
            }
            return Err(format!(
                "efr send: the kernel does not forward between {device} and {onward}; --forward has it do so while this runs. By hand: {}, and a route to {own} where the answers come from",
                place.lines(&onward)
            ));
        }
        let steps: Vec<Step> = settings.iter().map(|s| Step { setting: s.clone(), value: 1 }).collect();
        // Noted first: what is set before a failure is taken back, too.
        way.set = settings.iter().zip(are_on).filter(|(_, is_on)| !is_on).map(|(s, _)| s.clone()).collect();
        recipes::apply(&steps, |_| {})?;
        let table = format!("ip {TABLE}");
        let lines = [
            format!("add table {table} {{ flags owner; }}"),
            format!("add chain {table} translated {{ type nat hook postrouting priority 100; }}"),
            format!("add rule {table} translated ip saddr {own} oifname != \"{device}\" masquerade"),
        ];
        way.table = Some(Held::start("--forward", &table, &lines, |text| text.contains("masquerade"))?);
        Ok(way)
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // The device's own setting goes with it; that of the other interface is as it was.
        if !self.set.is_empty() {
            let _ = recipes::take_back(&self.set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_four_addresses() {
        let place = Place::new("airtcp0", NETWORK).unwrap();
        assert_eq!((place.kernel.to_string(), place.own.to_string()), ("10.97.116.1".into(), "10.97.116.2".into()));
        assert!(place.lines("eth0.5").contains("sysctl -w net/ipv4/conf/eth0.5/forwarding=1"));
        for (device, network, named) in [
            ("a b", NETWORK, "--device a b"),
            ("abcdefghijklmnop", NETWORK, "1 to 15"),
            ("x", "10.0.0.1/30", "--net 10.0.0.1/30"),
            ("x", "10.0.0.0/24", "four addresses"),
            ("x", "fd00::/30", "IPv4"),
        ] {
            let error = Place::new(device, network).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
