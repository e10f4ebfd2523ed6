//! Names of modes, made when the crate is compiled: each sample of a link has one.

use super::{Format, Mode, ROWS, Row};

/// Text that is written at compile time.
struct Text {
    bytes: [u8; Text::CAPACITY],
    length: usize,
}

impl Text {
    /// Room for the longest name, `MCS 9 4SS 160 MHz SGI`.
    const CAPACITY: usize = 24;

    const EMPTY: Text = Text { bytes: [0; Text::CAPACITY], length: 0 };

    const fn with_byte(mut self, byte: u8) -> Text {
        self.bytes[self.length] = byte;
        self.length += 1;
        self
    }

    const fn with(mut self, text: &str) -> Text {
        let mut i = 0;
        while i < text.len() {
            self = self.with_byte(text.as_bytes()[i]);
            i += 1;
        }
        self
    }

    const fn with_number(self, number: u32) -> Text {
        let before = if number >= 10 { self.with_number(number / 10) } else { self };
        before.with_byte(b"0123456789"[(number % 10) as usize])
    }

    const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => panic!("made of text"),
        }
    }
}

const fn text(row: &Row) -> Text {
    if matches!(row.format, Format::Dsss | Format::Ofdm) {
        let rate = Text::EMPTY.with_number(row.rate_bps / 1_000_000);
        let tenths = row.rate_bps % 1_000_000 / 100_000;
        let rate = if tenths > 0 { rate.with(".").with_number(tenths) } else { rate };
        return rate.with(" Mbit/s");
    }
    let mcs = Text::EMPTY.with("MCS ").with_number(row.mcs as u32);
    let mcs =
        if matches!(row.format, Format::Vht) { mcs.with(" ").with_number(row.streams as u32).with("SS") } else { mcs };
    let width = mcs.with(" ").with_number(row.width.mhz() as u32).with(" MHz");
    if row.short_gi { width.with(" SGI") } else { width }
}

static TEXTS: [Text; Mode::COUNT] = {
    let mut texts = [const { Text::EMPTY }; Mode::COUNT];
    let mut i = 0;
    while i < Mode::COUNT {
        texts[i] = text(&ROWS[i]);
        i += 1;
    }
    texts
};

/// By the index of the mode.
pub(super) static NAMES: [&str; Mode::COUNT] = {
    let mut names = [""; Mode::COUNT];
    let mut i = 0;
    while i < Mode::COUNT {
        names[i] = TEXTS[i].as_str();
        i += 1;
    }
    names
};
