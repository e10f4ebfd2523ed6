//! Fates of single packets on a scripted path.
//!
//! A script is a list such as `5=lose, 7=+25, 9.1=lose, #30-34=+1000`. A key names packets: `5` the
//! first transmission of data segment 5, `9.1` the second one (counting from 0) of segment 9, `#30`
//! the packet number 30 of its direction whatever it carries; `5-8` and `#30-34` are ranges, ends
//! included. The action is `lose` or `+` and milliseconds of extra delay. Among ACKs only `#n` is
//! meaningful: they are counted after the SYN.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    Lose,
    DelayNs(u64),
}

#[derive(Debug, PartialEq)]
enum Key {
    Number(u64, u64),
    Segment { first: u64, last: u64, transmission: u32 },
}

/// One direction's script and what it has counted so far.
#[derive(Debug, Default)]
pub struct Script {
    rules: Vec<(Key, Action)>,
    packets: u64,
    transmissions: BTreeMap<u64, u32>,
}

fn number<T: std::str::FromStr>(text: &str, whole: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("script item {whole:?}: {text:?} is not a number"))
}

impl Script {
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut rules = Vec::new();
        for item in text.split(',').map(str::trim).filter(|i| !i.is_empty()) {
            let (key, action) = item.split_once('=').ok_or_else(|| format!("script item {item:?}: no '='"))?;
            let action = match action.trim() {
                "lose" => Action::Lose,
                a => match a.strip_prefix('+') {
                    Some(ms) => Action::DelayNs((number::<f64>(ms, item)? * 1e6) as u64),
                    None => return Err(format!("script item {item:?}: neither lose nor +MS")),
                },
            };
            let range = |text: &str| -> Result<(u64, u64), String> {
                let (a, b) = text.split_once('-').unwrap_or((text, text));
                Ok((number(a, item)?, number(b, item)?))
            };
            let key = key.trim();
            let key = if let Some(n) = key.strip_prefix('#') {
                let (first, last) = range(n)?;
                Key::Number(first, last)
            } else {
                let (segments, transmission) = key.split_once('.').unwrap_or((key, "0"));
                let (first, last) = range(segments)?;
                Key::Segment { first, last, transmission: number(transmission, item)? }
            };
            rules.push((key, action));
        }
        Ok(Script { rules, ..Script::default() })
    }

    /// The next packet of this direction, with the number of its segment where it carries data.
    pub fn next(&mut self, segment: Option<u64>) -> Option<Action> {
        let n = self.packets;
        self.packets += 1;
        let again = segment.map(|s| {
            let count = self.transmissions.entry(s).or_default();
            *count += 1;
            *count - 1
        });
        let hit = |key: &Key| match *key {
            Key::Number(first, last) => (first..=last).contains(&n),
            Key::Segment { first, last, transmission } => {
                segment.is_some_and(|s| (first..=last).contains(&s)) && again == Some(transmission)
            }
        };
        self.rules.iter().find(|(key, _)| hit(key)).map(|&(_, action)| action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_named_by_segment_and_transmission_or_by_number() {
        let mut s = Script::parse("5=lose, 6-7=+2.5, 5.1=+10, #4=lose").unwrap();
        let fates: Vec<_> = [4, 5, 6, 5, 9, 5, 7].into_iter().map(|n| s.next(Some(n))).collect();
        let late = |ms: f64| Some(Action::DelayNs((ms * 1e6) as u64));
        assert_eq!(fates, [None, Some(Action::Lose), late(2.5), late(10.0), Some(Action::Lose), None, late(2.5)]);
        let mut acks = Script::parse("#1-2=lose").unwrap();
        let fates: Vec<_> = (0..4).map(|_| acks.next(None)).collect();
        assert_eq!(fates, [None, Some(Action::Lose), Some(Action::Lose), None]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for bad in ["5", "5=drop", "x=lose", "5=+fast", "#=lose"] {
            assert!(Script::parse(bad).unwrap_err().contains(bad), "{bad}");
        }
    }
}
