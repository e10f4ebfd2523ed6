//! Files of libconfig, the format of wmediumd's configuration: settings `name = value;` with
//! numbers, texts, groups `{}`, lists `()` and arrays `[]`. Files that include others are refused.

use std::collections::BTreeSet;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// Any number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list or an array.
    List(Vec<Value>),
    /// Settings by name, in their order.
    Group(Vec<(String, Value)>),
}

impl Value {
    /// The setting of a group at a path such as `model.type`.
    pub fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(self, |value, name| match value {
            Value::Group(settings) => settings.iter().find(|(own, _)| own == name).map(|(_, value)| value),
            _ => None,
        })
    }

    /// In messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "a truth value",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Group(_) => "a group",
        }
    }
}

/// Groups and lists within each other.
const DEEPEST: usize = 16;

/// Reads a file.
///
/// # Errors
/// The line, what is there, and what would be accepted.
pub fn read(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text, line: 1 };
    let settings = reader.settings(None, 0)?;
    Ok(Value::Group(settings))
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn fault<T>(&self, wanted: &str) -> Result<T, String> {
        let found = match self.rest.chars().next() {
            None => "the end".to_owned(),
            Some(first) if first.is_alphanumeric() => {
                let word: String = self.rest.chars().take_while(|c| c.is_alphanumeric()).take(20).collect();
                format!("{word:?}")
            }
            Some(first) => format!("{:?}", first.to_string()),
        };
        Err(format!("line {}: {found}: expected {wanted}", self.line))
    }

    fn skip(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.line += gone.matches('\n').count();
        self.rest = rest;
    }

    /// Takes what is there now, if it is.
    fn take(&mut self, what: char) -> bool {
        let is_there = self.rest.starts_with(what);
        if is_there {
            self.skip(what.len_utf8());
        }
        is_there
    }

    /// Blanks and comments.
    fn blanks(&mut self) -> Result<(), String> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(format!("line {}: a comment has no end: expected \"*/\"", self.line));
                };
                self.skip(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// Takes the longest beginning of such characters.
    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Settings up to the end, or of a group up to its end.
    fn settings(&mut self, end: Option<char>, depth: usize) -> Result<Vec<(String, Value)>, String> {
        let mut settings: Vec<(String, Value)> = Vec::new();
        let mut names = BTreeSet::new();
        loop {
            self.blanks()?;
            if end.is_some_and(|end| self.take(end)) || (end.is_none() && self.rest.is_empty()) {
                return Ok(settings);
            }
            if self.rest.starts_with('@') {
                return self.fault("a setting: files that include others are not read");
            }
            let is_first = |c: char| c.is_ascii_alphabetic() || c == '*';
            if !self.rest.starts_with(is_first) {
                let close = end.map_or(String::new(), |end| format!(" or {:?}", end.to_string()));
                return self.fault(&format!("the name of a setting{close}"));
            }
            let name = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '*' | '_' | '-'));
            if !names.insert(name) {
                return Err(format!("line {}: {name:?} is there twice", self.line));
            }
            self.blanks()?;
            if !self.take(':') && !self.take('=') {
                return self.fault("\":\" or \"=\"");
            }
            self.blanks()?;
            let value = self.value(depth)?;
            self.blanks()?;
            let _ = self.take(';') || self.take(',');
            settings.push((name.to_owned(), value));
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err(format!("line {}: more than {DEEPEST} groups and lists within each other", self.line));
        }
        if self.take('{') {
            return Ok(Value::Group(self.settings(Some('}'), depth + 1)?));
        }
        for (open, close) in [('(', ')'), ('[', ']')] {
            if self.take(open) {
                return self.list(close, depth + 1);
            }
        }
        if self.rest.starts_with('"') {
            return self.text();
        }
        let before = Reader { rest: self.rest, line: self.line };
        let word = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        let number = || {
            let whole = word.trim_end_matches(['L', 'l']);
            if let Some(digits) = whole.strip_prefix("0x").or_else(|| whole.strip_prefix("0X")) {
                // As far as a number of the file has bits.
                return u32::from_str_radix(digits, 16).ok().map(f64::from);
            }
            // Rust reads "inf" and "nan" as numbers, libconfig does not.
            let is_number = whole.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
            whole.parse().ok().filter(|number: &f64| is_number && number.is_finite())
        };
        match word.to_ascii_lowercase().as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => match number() {
                Some(number) => Ok(Value::Number(number)),
                None => before.fault("a number, a text in quotes, true, false, \"(\", \"[\" or \"{\""),
            },
        }
    }

    fn list(&mut self, close: char, depth: usize) -> Result<Value, String> {
        let mut values = Vec::new();
        loop {
            self.blanks()?;
            if self.take(close) {
                return Ok(Value::List(values));
            }
            values.push(self.value(depth)?);
            self.blanks()?;
            if !self.take(',') && !self.rest.starts_with(close) {
                return self.fault(&format!("\",\" or {:?}", close.to_string()));
            }
        }
    }

    /// A text, or several behind each other that are one.
    fn text(&mut self) -> Result<Value, String> {
        let mut all = String::new();
        while self.take('"') {
            loop {
                let Some(next) = self.rest.chars().next() else { return self.fault("the end of a text: '\"'") };
                self.skip(next.len_utf8());
                match next {
                    '"' => break,
                    '\\' => {
                        let Some(escaped) = self.rest.chars().next() else { continue };
                        self.skip(escaped.len_utf8());
                        all.push(match escaped {
                            'n' => '\n',
                            't' => '\t',
                            other => other,
                        });
                    }
                    other => all.push(other),
                }
            }
            self.blanks()?;
        }
        Ok(Value::Text(all))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &str = "# radios\nifaces :\n{\n\tcount = 2; // two\n\tids = [ \"02:00:00:00:00:00\", \"02:00:00:00:01:00\" ];\n\
        \tenable_interference = TRUE\n};\nmodel = { type = \"s\" /* in\ntwo */ \"nr\"; links = ((0, 1, -3), (1, 0, 0x1F), (0, 1, 2.5e1)) }";

    #[test]
    fn values_are_read() {
        let read = read(WHOLE).unwrap();
        assert_eq!(read.at("ifaces.count"), Some(&Value::Number(2.0)));
        assert_eq!(read.at("ifaces.enable_interference"), Some(&Value::Bool(true)));
        assert_eq!(read.at("model.type"), Some(&Value::Text("snr".to_owned())));
        let Some(Value::List(links)) = read.at("model.links") else { panic!("{read:?}") };
        let link = |numbers: [f64; 3]| Value::List(numbers.map(Value::Number).to_vec());
        assert_eq!(links[..], [link([0.0, 1.0, -3.0]), link([1.0, 0.0, 31.0]), link([0.0, 1.0, 25.0])]);
        assert_eq!(read.at("model.nothing"), None);
        assert_eq!(read.at("ifaces.count.x"), None);
    }

    #[test]
    fn faults_have_a_line_and_what_would_be_accepted() {
        for (text, message) in [
            ("a = 1;\nb 2", "line 2: \"2\": expected \":\" or \"=\""),
            ("a = (1 2)", "line 1: \"2\": expected \",\" or \")\""),
            ("a = {\n b = 1\n", "line 3: the end: expected the name of a setting or \"}\""),
            ("a = \"x", "line 1: the end: expected the end of a text: '\"'"),
            ("a = nan", "line 1: \"nan\": expected a number, a text in quotes, true, false, \"(\", \"[\" or \"{\""),
            ("/* a", "line 1: a comment has no end: expected \"*/\""),
            ("@include \"b\"", "line 1: \"@\": expected a setting: files that include others are not read"),
            ("a = 1; a = 2", "line 1: \"a\" is there twice"),
        ] {
            assert_eq!(read(text).unwrap_err(), message, "{text}");
        }
        let deep = "a = ".to_owned() + &"(".repeat(100_000);
        assert_eq!(read(&deep).unwrap_err(), "line 1: more than 16 groups and lists within each other");
    }

    #[test]
    #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a bound on the time that a file takes")]
    fn a_file_of_many_names_takes_no_time_for_each_pair_of_them() {
        let many: String = (0..200_000).map(|n| format!("a{n}=1;")).collect();
        let begun = std::time::Instant::now();
        assert!(read(&many).is_ok());
        assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            let _ = read(&text);
        }

        #[test]
        fn changed_files_are_read_or_refused(at in 0usize..300, with in "[a-z0-9{}()=;\",\\\\ -]{0,3}", cut in 0usize..300) {
            let mut text = WHOLE.to_owned();
            text.insert_str(at.min(text.len()), &with);
            let _ = read(&text);
            text.truncate(cut);
            let _ = read(&text);
        }
    }
}
