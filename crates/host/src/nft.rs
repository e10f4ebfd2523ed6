//! A table of netfilter that lives as long as this process: it belongs to a process `nft -i` that
//! reads from here. If this one ends in any way, the kernel removes the table.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use airtcp_core::units::Span;

/// A table that is there as long as this is.
#[derive(Debug)]
pub struct Held {
    nft: Child,
    commands: Option<ChildStdin>,
}

impl Held {
    /// Makes `table`, as `inet airtcp`, by `lines`, each a command of nft. `is_made` looks at how
    /// nft lists the table. `option` is the one that asked for it, for messages. Takes
    /// CAP_NET_ADMIN and nft.
    pub fn start(option: &str, table: &str, lines: &[String], is_made: impl Fn(&str) -> bool) -> Result<Held, String> {
        // Once without holding it, so that a refusal has a sentence.
        let unable = |e: io::Error| format!("{option}: cannot run nft: {e}");
        let mut tried = Command::new("nft");
        tried.arg("--check").args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut tried = tried.spawn().map_err(unable)?;
        if let Some(mut input) = tried.stdin.take() {
            let _ = input.write_all((lines.join("\n") + "\n").as_bytes());
        }
        let out = tried.wait_with_output().map_err(unable)?;
        if !out.status.success() {
            let text = String::from_utf8_lossy(&out.stderr);
            let first = text.lines().next().unwrap_or_default();
            return Err(format!("{option}: nft refuses the table {table}: {first}"));
        }
        let mut nft = Command::new("nft")
            .arg("-i")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(unable)?;
        let mut held = Held { commands: nft.stdin.take(), nft };
        held.say(lines);
        // `nft -i` answers nothing, so the table is looked at.
        for _ in 0..100 {
            let out = Command::new("nft").args(["list", "table"]).args(table.split(' ')).output();
            if out.is_ok_and(|out| is_made(&String::from_utf8_lossy(&out.stdout))) {
                return Ok(held);
            }
            crate::sys::sleep_until(crate::sys::monotonic() + Span::from_ms(20));
        }
        Err(format!("{option}: nft did not make the table {table}; another airtcp-host may have it"))
    }

    /// More commands.
    pub fn say(&mut self, lines: &[String]) {
        if let Some(commands) = &mut self.commands {
            let _ = commands.write_all((lines.join("\n") + "\n").as_bytes());
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.nft.wait();
    }
}
