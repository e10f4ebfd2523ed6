//! Text for people: the only way to standard error, and to standard output for results.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};

use crate::common::stop::Stop;

/// Writes a line to standard error. A terminal that has gone, or a full disk, ends nothing.
pub(crate) fn to_stderr(line: Arguments) {
    let mut line = visible(&line.to_string());
    line.push('\n');
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Writes a result to standard output.
///
/// # Errors
/// It cannot be written.
pub(crate) fn to_stdout(text: &str) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    out.write_all(visible(text).as_bytes()).and_then(|()| out.flush()).map_err(|error| not_written(&error))
}

/// Output that is lost.
pub(crate) fn not_written(error: impl Display) -> Stop {
    Stop::failure(format!("cannot write to standard output: {error}"))
}

/// Sets the title of the terminal at standard error, if there is one.
pub(crate) fn set_title(title: &str) {
    if nix::unistd::isatty(io::stderr()).unwrap_or(false) {
        let _ = write!(io::stderr(), "\x1b]2;{}\x07", on_one_line(title));
    }
}

/// The text with `\u001b` in place of each character that a terminal would act on, as
/// `airtcp._text.visible` of the command writes it: controls but tab and newline, marks of
/// direction (UAX 9, 2), and separators of lines.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if acts_on_terminals(c) {
            shown += &format!("\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A name within a message: with a line of its own it could pass for another message.
pub(crate) fn on_one_line(text: &str) -> String {
    visible(text).replace('\n', "\\u000a").replace('\t', "\\u0009")
}

fn acts_on_terminals(c: char) -> bool {
    let is_mark = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_mark || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_moves_no_cursor_and_turns_no_line() {
        assert_eq!(visible("a\u{1b}[2J\u{7f}\u{9b}b"), "a\\u001b[2J\\u007f\\u009bb");
        assert_eq!(visible("x\u{202e}y\u{2066}\u{61c}\u{200f}\u{2028}"), "x\\u202ey\\u2066\\u061c\\u200f\\u2028");
        assert_eq!(visible("Zür\tich\nγ\r"), "Zür\tich\nγ\\u000d");
        assert_eq!(on_one_line("a\nerror: b\tc"), "a\\u000aerror: b\\u0009c");
    }

    /// The command has the same table, in Python.
    #[test]
    fn the_command_escapes_the_same_characters() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/airtcp/_text.py");
        let source = std::fs::read_to_string(source).unwrap();
        let table = source.split_once("_ACTING: Final = re.compile(\"[").unwrap().1.split_once("]\")").unwrap().0;
        let characters: Vec<char> =
            serde_json::from_str::<String>(&format!("\"{}\"", json_escapes(table))).unwrap().chars().collect();
        let mut listed = [false; 0x3000];
        let mut rest = &characters[..];
        while let [first, more @ ..] = rest {
            let (last, after) = match more {
                ['-', last, after @ ..] => (last, after),
                _ => (first, more),
            };
            (u32::from(*first)..=u32::from(*last)).for_each(|c| listed[c as usize] = true);
            rest = after;
        }
        for (c, is_listed) in (0..).zip(listed) {
            assert_eq!(char::from_u32(c).is_some_and(acts_on_terminals), is_listed, "{c:#x}");
        }
    }

    /// Python's escapes as those of JSON, without the surrogates that no Rust text has.
    fn json_escapes(table: &str) -> String {
        table.replace("\\ud800-\\udfff", "").replace("\\x", "\\u00")
    }
}
