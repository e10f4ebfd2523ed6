//! Questions for names by UDP, and how long their answers took.

use airtcp_core::units::{Span, Time};
use hashbrown::HashMap;

use crate::decode::{Datagram, Endpoint};
use crate::histogram::Histogram;

const PORT: u16 = 53;
const HEADER_BYTES: usize = 12;
/// Questions that wait for an answer at a time; beyond, further ones are not followed.
const WAITING: usize = 50_000;
/// A question without an answer for so long has none.
const PATIENCE: Span = Span::from_secs(2);
/// An answer that took so long was slow.
const SLOW: Span = Span::from_ms(500);

/// A question or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    client: Endpoint,
    server: Endpoint,
    id: u16,
    is_answer: bool,
    failed: bool,
}

/// `None`: the packet is nothing of the kind.
pub(crate) fn decode(datagram: &Datagram) -> Option<Message> {
    let Datagram { source, destination, payload, .. } = *datagram;
    if source.port != PORT && destination.port != PORT {
        return None;
    }
    let message = payload.get(..HEADER_BYTES)?;
    let is_answer = message[2] & 0x80 != 0;
    if is_answer != (source.port == PORT) {
        return None;
    }
    let (client, server) = if is_answer { (destination, source) } else { (source, destination) };
    // NXDOMAIN (3) is an answer; SERVFAIL (2) and REFUSED (5) are none.
    let failed = is_answer && matches!(message[3] & 0x0f, 2 | 5);
    Some(Message { client, server, id: u16::from_be_bytes([message[0], message[1]]), is_answer, failed })
}

/// Questions and answers of a capture.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dns {
    /// Questions; repetitions do not count.
    pub questions: u64,
    /// Questions asked again.
    pub repeated: u64,
    /// Questions without an answer, though the capture goes on for two seconds.
    pub unanswered: u64,
    /// Answers that the server could not or would not give.
    pub failed: u64,
    /// Answers.
    pub answers: u64,
    /// Answers that took half a second or longer.
    pub slow: u64,
    /// Half of the answers took no longer.
    pub median: Option<Span>,
    /// The slowest answer took so long.
    pub longest: Option<Span>,
    /// The server that most of the questions without answers went to, or of the slow ones.
    pub server: Option<std::net::IpAddr>,
}

#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// When each was asked first.
    waiting: HashMap<(Endpoint, Endpoint, u16), Time>,
    took: Histogram,
    sums: Dns,
    /// Answers missing or slow, by server.
    late: HashMap<std::net::IpAddr, u64>,
    swept: Time,
}

impl Questions {
    pub(crate) fn on(&mut self, now: Time, m: &Message) {
        let key = (m.client, m.server, m.id);
        if !m.is_answer {
            if now.since(self.swept) > PATIENCE {
                self.sweep(now);
            }
            if self.waiting.contains_key(&key) {
                self.sums.repeated += 1;
            } else if self.waiting.len() < WAITING {
                self.waiting.insert(key, now);
                self.sums.questions += 1;
            }
            return;
        }
        let Some(asked) = self.waiting.remove(&key) else { return };
        let took = now.since(asked);
        self.sums.answers += 1;
        self.sums.failed += u64::from(m.failed);
        if took >= SLOW {
            self.sums.slow += 1;
            self.blame(m.server);
        }
        self.took.add(took.as_ns(), 1);
        self.sums.longest = self.sums.longest.max(Some(took));
    }

    fn blame(&mut self, server: Endpoint) {
        if self.late.len() < WAITING || self.late.contains_key(&server.address) {
            *self.late.entry(server.address).or_default() += 1;
        }
    }

    /// Questions whose client has given up by now.
    fn sweep(&mut self, now: Time) {
        self.swept = now;
        // Clients ask again within five seconds, with the same number.
        let given_up = |asked: Time| now.since(asked) > PATIENCE * 15;
        let gone: Vec<_> = self.waiting.iter().filter(|&(_, &asked)| given_up(asked)).map(|(&key, _)| key).collect();
        for key in gone {
            self.waiting.remove(&key);
            self.sums.unanswered += 1;
            self.blame(key.1);
        }
    }

    /// As far as the capture has been read.
    pub(crate) fn summary(&self, now: Time) -> Dns {
        let mut late = self.late.clone();
        let mut sums = Dns { median: self.took.percentile(50).map(Span::from_ns), ..self.sums.clone() };
        for ((_, server, _), &asked) in &self.waiting {
            if now.since(asked) >= PATIENCE {
                sums.unanswered += 1;
                *late.entry(server.address).or_default() += 1;
            }
        }
        sums.server = late.into_iter().max_by_key(|&(address, count)| (count, address)).map(|(address, _)| address);
        sums
    }
}
