//! Settings of a host that shell commands of a script make. No command runs: what sets a sysctl is
//! read, and everything else that could matter is refused with its reason.

use airtcp_core::tcp::cc::CcConfig;
use airtcp_core::tcp::loss::LossConfig;
use airtcp_core::tcp::profile::profile;
use airtcp_core::tcp::{EcnEcho, Frto, Pacing, TcpConfig};
use airtcp_core::units::{Bytes, Span};

/// A host: its TCP, and what its handshake offers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Profile `linux-6` with what the script has set.
    pub tcp: TcpConfig,
    /// `tcp_timestamps`
    pub timestamps: bool,
    /// `tcp_sack`
    pub sack: bool,
    /// `tcp_window_scaling`
    pub window_scaling: bool,
    /// `tcp_ecn`
    pub ecn: u32,
    /// `tcp_ecn_option`: the option of Accurate ECN is sent.
    pub ecn_option: bool,
    /// Largest receive buffer, from which the shift of the window follows.
    pub receive_memory_max: u64,
    /// MTU of the device.
    pub mtu: u16,
}

/// A reason why a script cannot be run.
pub type Reason = String;

/// Sysctls without effect on what is compared, as long as the script does not use what they steer.
const WITHOUT_EFFECT: &[&str] = &[
    "tcp_syncookies",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_fastopen_blackhole_timeout_sec",
    "tcp_fastopen_cookies",
    "tcp_fack",
    "tcp_notsent_lowat",
    "tcp_no_metrics_save",
    "tcp_max_syn_backlog",
    "tcp_tw_reuse",
    "tcp_moderate_rcvbuf",
    "tcp_limit_output_bytes",
    "tcp_autocorking",
    "tcp_mem",
    "tcp_keepalive_time",
    "tcp_keepalive_intvl",
    "tcp_keepalive_probes",
    "tcp_fin_timeout",
    "tcp_orphan_retries",
    "tcp_challenge_ack_limit",
    "tcp_rfc1337",
    "tcp_ecn_fallback",
    "ip_local_port_range",
    "ip_local_reserved_ports",
];

impl Settings {
    /// A host as it starts, with so many jiffies a second.
    pub fn new(hz: u32) -> Settings {
        let options = profile("linux-6").unwrap_or_default();
        let mut tcp = options.resolve().unwrap_or_else(|e| unreachable!("profile linux-6 is complete: {e:?}"));
        tcp.rto.granularity = Span::from_ns(1_000_000_000 / u64::from(hz.max(1)));
        let mut settings = Settings {
            tcp,
            timestamps: true,
            sack: true,
            window_scaling: true,
            ecn: 2,
            ecn_option: true,
            receive_memory_max: 0,
            mtu: 1500,
        };
        // Known, so that nothing is refused.
        let _ = settings.set("tcp_rmem", "4096 131072 33554432");
        settings
    }

    /// As the suites' `defaults.sh` sets a host.
    pub fn set_defaults(&mut self) {
        let settings = [
            ("tcp_rmem", "4096 540000 15728640"),
            ("tcp_wmem", "4096 262144 4194304"),
            ("tcp_timestamps", "1"),
            ("tcp_sack", "1"),
            ("tcp_dsack", "1"),
            ("tcp_frto", "2"),
            ("tcp_slow_start_after_idle", "0"),
            ("tcp_congestion_control", "cubic"),
            ("tcp_early_retrans", "4"),
            ("tcp_recovery", "1"),
            ("tcp_ecn", "0"),
            ("tcp_pacing_ss_ratio", "200"),
            ("tcp_pacing_ca_ratio", "120"),
            ("tcp_syn_retries", "5"),
            ("tcp_synack_retries", "5"),
        ];
        for (name, value) in settings {
            // Each of these is known.
            let _ = self.set(name, value);
        }
    }

    /// Reads shell commands.
    ///
    /// # Errors
    ///
    /// The first command or sysctl that is not modelled.
    pub fn read_commands(&mut self, text: &str) -> Result<(), Reason> {
        for command in commands(text) {
            self.read_command(&command)?;
        }
        Ok(())
    }

    fn read_command(&mut self, words: &[String]) -> Result<(), Reason> {
        let Some(first) = words.first() else { return Ok(()) };
        let name = first.rsplit('/').next().unwrap_or(first);
        if name == "defaults.sh" {
            self.set_defaults();
            return Ok(());
        }
        if name.starts_with("sysctl_restore") {
            return Ok(());
        }
        match name {
            // Counters of the kernel and caches of the host are not compared.
            "nstat" | "true" | ":" | "sleep" | "modprobe" | "sync" => Ok(()),
            "ip" if words.get(1).is_some_and(|word| word == "tcp_metrics") => Ok(()),
            "sysctl" | "set_sysctls.py" => {
                for setting in words[1..].iter().filter(|word| !word.starts_with('-')) {
                    let Some((name, value)) = setting.split_once('=') else { continue };
                    self.set_path(name, value)?;
                }
                Ok(())
            }
            "echo" => match words.iter().position(|word| word == ">") {
                Some(at) if words.get(at + 1).is_some_and(|target| target.starts_with('/')) => {
                    self.set_path(&words[at + 1], &words[1..at].join(" "))
                }
                _ => Ok(()),
            },
            "tc" => self.read_queue(words),
            _ => Err(format!("the shell command `{name}`")),
        }
    }

    fn read_queue(&mut self, words: &[String]) -> Result<(), Reason> {
        let has = |word: &str| words.iter().any(|w| w == word);
        if has("delete") || has("del") || (has("pfifo") && !has("limit")) {
            return Ok(());
        }
        if has("fq") && words.last().is_some_and(|last| last == "fq") {
            self.tcp.pacing.rule = Pacing::Linux;
            return Ok(());
        }
        Err("a queue discipline of the host (`tc`)".to_owned())
    }

    fn set_path(&mut self, path: &str, value: &str) -> Result<(), Reason> {
        let path = path.trim_start_matches("/proc/sys/").replace('/', ".");
        if let Some(parameter) = path.strip_prefix(".sys.module.tcp_cubic.parameters.") {
            return match (parameter, value.trim()) {
                ("hystart_detect", "3") | ("hystart", "1") => Ok(()),
                _ => Err(format!("parameter `{parameter} = {value}` of the kernel's CUBIC")),
            };
        }
        match path.strip_prefix("net.ipv4.") {
            Some(name) => self.set(name, value.trim()),
            None if path.starts_with("net.core.") || path.starts_with("net.ipv6.") => Ok(()),
            None => Err(format!("the setting `{path}`")),
        }
    }

    /// Sets one sysctl of `net.ipv4`.
    fn set(&mut self, name: &str, value: &str) -> Result<(), Reason> {
        let tcp = &mut self.tcp;
        let refused = || Err(format!("sysctl {name} = {value}"));
        let numbers = || -> Vec<u64> { value.split_whitespace().filter_map(number).collect() };
        let Some(first) = numbers().first().copied().or(if value.is_empty() { None } else { Some(u64::MAX) }) else {
            return refused();
        };
        let ms = |n: u64| Span::from_ms(n.min(1_000_000_000));
        match name {
            "tcp_timestamps" => self.timestamps = first != 0,
            "tcp_sack" => self.sack = first != 0,
            "tcp_dsack" => tcp.loss_recovery.dsack = first != 0,
            "tcp_window_scaling" => self.window_scaling = first != 0,
            "tcp_ecn" if first <= 5 => self.ecn = u32::try_from(first).unwrap_or(0),
            "tcp_ecn_option" if first != 1 => self.ecn_option = first != 0,
            "tcp_frto" => tcp.spurious_rto.frto = if first == 0 { Frto::Off } else { Frto::Rfc5682 },
            "tcp_slow_start_after_idle" => tcp.cwnd.restart_after_idle = first != 0,
            "tcp_early_retrans" => tcp.loss_recovery.tail_loss_probe = matches!(first, 3 | 4),
            // RACK cannot be turned off since 6.18.
            "tcp_recovery" if first <= 7 => {
                if let LossConfig::Rack(rack) = &mut tcp.loss_recovery.loss {
                    (rack.adaptive, rack.threshold) = (first & 2 == 0, if first & 4 == 0 { 3 } else { 0 });
                }
            }
            "tcp_reordering" if first == 3 => {}
            "tcp_pacing_ss_ratio" => tcp.pacing.slow_start_percent = u32::try_from(first).unwrap_or(200),
            "tcp_pacing_ca_ratio" => tcp.pacing.percent = u32::try_from(first).unwrap_or(120),
            "tcp_congestion_control" => return self.set_control(value),
            "tcp_rmem" => {
                let [_, default, most] = numbers()[..] else { return refused() };
                tcp.buffers.receive = Bytes::new(payload_of_receive_memory(default));
                tcp.buffers.receive_max = Bytes::new(payload_of_receive_memory(most));
                self.receive_memory_max = most;
            }
            "tcp_wmem" => {
                let [_, default, most] = numbers()[..] else { return refused() };
                tcp.buffers.send = Bytes::new(payload_of_send_memory(default));
                tcp.buffers.send_max = Bytes::new(payload_of_send_memory(most));
            }
            "tcp_syn_retries" | "tcp_synack_retries" | "tcp_retries1" => {}
            "tcp_retries2" => tcp.timers.retries = u32::try_from(first).unwrap_or(15),
            "tcp_rto_max_ms" => tcp.rto.max = ms(first),
            "tcp_rto_min_us" => {
                tcp.rto.min = Span::from_us(first.min(1_000_000_000));
                tcp.rto.var_min = tcp.rto.min;
            }
            "tcp_comp_sack_nr" => tcp.receiver.compressed_sacks = u32::try_from(first).unwrap_or(44),
            "tcp_comp_sack_delay_ns" => tcp.receiver.compressed_sack_delay = Span::from_ns(first),
            "tcp_comp_sack_slack_ns" => tcp.receiver.compressed_sack_slack = Span::from_ns(first),
            "tcp_min_tso_segs" => tcp.host_queue.min_tso_segs = u32::try_from(first).unwrap_or(u32::MAX),
            "tcp_tso_rtt_log" => tcp.host_queue.tso_rtt_log = u32::try_from(first).unwrap_or(u32::MAX),
            "tcp_invalid_ratelimit" => tcp.receiver.invalid_ratelimit = ms(first),
            "tcp_tso_win_divisor" if first == 3 => {}
            "tcp_mtu_probing" if first == 0 => {}
            name if WITHOUT_EFFECT.contains(&name) => {}
            _ => return refused(),
        }
        Ok(())
    }

    /// Another congestion control, by the kernel's name.
    ///
    /// # Errors
    ///
    /// airtcp has none of that name.
    pub fn set_control(&mut self, name: &str) -> Result<(), Reason> {
        if name == self.tcp.cc.name() {
            return Ok(());
        }
        let same = if name == "cubic" { Some(Settings::new(1000).tcp.cc) } else { CcConfig::by_name(name) };
        self.tcp.cc = same.ok_or_else(|| format!("the congestion control `{name}`"))?;
        Ok(())
    }

    /// How marks are echoed, where both ends agree on it.
    pub fn echo(&self, accurate: bool) -> EcnEcho {
        if accurate {
            EcnEcho::Accurate
        } else if self.tcp.cc.name() == "dctcp" {
            EcnEcho::Each
        } else {
            EcnEcho::Latched
        }
    }
}

/// Payload for which a receive buffer has room: a half, as before the first segment
/// (`TCP_DEFAULT_SCALING_RATIO` of Linux).
pub fn payload_of_receive_memory(bytes: u64) -> u64 {
    bytes / 2
}

/// The same of a send buffer, which holds more of whole pages.
pub fn payload_of_send_memory(bytes: u64) -> u64 {
    bytes / 4 * 3
}

/// A number as shells write it, with `$((a*b))`.
fn number(word: &str) -> Option<u64> {
    let word = word.trim_matches(['"', '\'']);
    if let Some(product) = word.strip_prefix("$((").and_then(|w| w.strip_suffix("))")) {
        return product.split('*').map(|factor| number(factor.trim())).try_fold(1_u64, |all, n| all.checked_mul(n?));
    }
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Commands in words. Quotes are taken off; redirections of a descriptor are dropped.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut all = vec![vec![String::new()]];
    let (mut quote, mut chars) = (None, text.chars().peekable());
    let mut depth = 0_u32;
    let mut piped = false;
    while let Some(c) = chars.next() {
        let Some(command) = all.last_mut() else { break };
        let Some(word) = command.last_mut() else { break };
        match c {
            c if quote == Some(c) => quote = None,
            c if quote.is_some() => word.push(c),
            '"' | '\'' => quote = Some(c),
            '\\' => {
                chars.next();
                command.push(String::new());
            }
            '(' if word.ends_with('$') || depth > 0 => {
                depth += 1;
                word.push(c);
            }
            ')' if depth > 0 => {
                depth -= 1;
                word.push(c);
            }
            c if depth > 0 => word.push(c),
            '#' if word.is_empty() => while chars.next_if(|next| *next != '\n').is_some() {},
            '\n' | ';' | '&' | '|' if !word.ends_with('>') => {
                let is_pipe = c == '|' && chars.peek() != Some(&'|');
                if piped {
                    all.pop();
                }
                piped = is_pipe;
                chars.next_if(|next| *next == c && c != '\n');
                all.push(vec![String::new()]);
            }
            c if c.is_whitespace() => command.push(String::new()),
            '>' if word.is_empty() => {
                word.push('>');
                command.push(String::new());
            }
            _ => word.push(c),
        }
    }
    if piped {
        all.pop();
    }
    let is_word = |word: &String| !word.is_empty() && !word.starts_with("2>") && word != "/dev/null";
    all.into_iter().map(|words| words.into_iter().filter(is_word).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, Reason> {
        let mut settings = Settings::new(1000);
        settings.read_commands(text).map(|()| settings)
    }

    #[test]
    fn sysctls_are_read_in_every_way_of_writing_them() {
        let settings = read(
            "../common/defaults.sh\nsysctl -q net.ipv4.tcp_ecn=1  # on\n\
             ../common/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 \\\n /proc/sys/net/ipv4/tcp_sack=0; \
             sysctl -q net.ipv4.tcp_rmem=\"4096 131072 $((32*1024*1024))\" > /dev/null 2>&1 && \
             echo 1 > /proc/sys/net/ipv4/tcp_slow_start_after_idle; nstat | grep X",
        )
        .unwrap();
        assert_eq!((settings.ecn, settings.timestamps, settings.sack), (1, false, false));
        assert_eq!(settings.receive_memory_max, 32 << 20);
        assert_eq!(settings.tcp.buffers.receive.get(), 65_536);
        assert!(settings.tcp.cwnd.restart_after_idle);
    }

    #[test]
    fn what_is_not_modelled_is_refused_by_name() {
        for (text, reason) in [
            ("sysctl -q net.ipv4.tcp_thin_linear_timeouts=1", "tcp_thin_linear_timeouts = 1"),
            ("rm -rf /", "`rm`"),
            ("tc qdisc add dev tun0 root netem delay 1ms", "tc"),
            ("sysctl net.ipv4.tcp_congestion_control=westwood", "westwood"),
            ("echo 1 > /sys/module/tcp_cubic/parameters/hystart_detect", "hystart_detect"),
            ("echo 1 > /etc/passwd", "etc.passwd"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
