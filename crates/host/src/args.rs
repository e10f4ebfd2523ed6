//! Options of the command line: `--name VALUE`, `--name=VALUE` and switches; the rest are words in
//! order.

/// Arguments that were given; each is taken away once it is read.
#[derive(Debug)]
pub struct Args {
    rest: Vec<String>,
}

impl Args {
    /// Takes the words behind the command's name.
    pub fn new(words: impl IntoIterator<Item = String>) -> Args {
        Args { rest: words.into_iter().collect() }
    }

    /// The next value of option `--name`; `None`: it is not there any more.
    pub fn option(&mut self, name: &str) -> Result<Option<String>, String> {
        let flag = format!("--{name}");
        let with = format!("{flag}=");
        let end = self.rest.iter().position(|word| word == "--").unwrap_or(self.rest.len());
        let Some(at) = self.rest[..end].iter().position(|word| *word == flag || word.starts_with(&with)) else {
            return Ok(None);
        };
        let word = self.rest.remove(at);
        if let Some(value) = word.strip_prefix(&with) {
            return Ok(Some(value.to_owned()));
        }
        if at < self.rest.len() && !self.rest[at].starts_with("--") {
            return Ok(Some(self.rest.remove(at)));
        }
        Err(format!("{flag}: a value must follow"))
    }

    /// All values of option `--name`.
    pub fn options(&mut self, name: &str) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        while let Some(value) = self.option(name)? {
            all.push(value);
        }
        Ok(all)
    }

    /// The value of option `--name`, read by `read`.
    pub fn read<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        self.option(name)?.map(|text| read(&text).map_err(|e| format!("--{name} {text}: {e}"))).transpose()
    }

    /// The switch `--name` is there.
    pub fn switch(&mut self, name: &str) -> bool {
        let flag = format!("--{name}");
        let at = self.rest.iter().position(|word| *word == flag);
        at.map(|at| self.rest.remove(at)).is_some()
    }

    /// Takes the first word if it is `name`.
    pub fn leads(&mut self, name: &str) -> bool {
        let is_first = self.rest.first().is_some_and(|word| word == name);
        if is_first {
            self.rest.remove(0);
        }
        is_first
    }

    /// The next word that is no option.
    pub fn word(&mut self) -> Option<String> {
        let at = self.rest.iter().position(|word| !word.starts_with("--"))?;
        Some(self.rest.remove(at))
    }

    /// Refuses what nobody took.
    pub fn end(self) -> Result<(), String> {
        match self.rest.first() {
            None => Ok(()),
            Some(word) => Err(format!("{word:?} is not understood here; `--help` lists the options")),
        }
    }
}

/// Reads a number within a range.
pub fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
    low: T,
    high: T,
) -> impl Fn(&str) -> Result<T, String> {
    move |text| match text.parse::<T>() {
        Ok(n) if n >= low && n <= high => Ok(n),
        _ => Err(format!("must be a number from {low} to {high}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Args {
        Args::new(text.split(' ').map(str::to_owned))
    }

    #[test]
    fn options_switches_and_words_come_in_any_order() {
        let mut a = args("send --gap=1us 192.0.2.1 --quiet --port 5 --port 6");
        assert_eq!(a.option("gap").unwrap().as_deref(), Some("1us"));
        assert!(a.switch("quiet") && !a.switch("quiet"));
        assert_eq!(a.options("port").unwrap(), ["5", "6"]);
        assert_eq!((a.word().as_deref(), a.word().as_deref(), a.word()), (Some("send"), Some("192.0.2.1"), None));
        a.end().unwrap();
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(args("--port").option("port").unwrap_err(), "--port: a value must follow");
        assert!(args("--prot 5").end().unwrap_err().contains("\"--prot\" is not understood"));
        assert_eq!(args("--n 12").read("n", number(1, 9)).unwrap_err(), "--n 12: must be a number from 1 to 9");
    }
}
