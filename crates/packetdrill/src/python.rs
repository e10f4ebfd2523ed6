//! The blocks `%{ ... }%`: asserts and assignments over fields of `tcp_info`. No Python runs; what
//! is more than arithmetic and comparisons is refused with a reason.

use std::collections::BTreeMap;

/// Result of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All asserts hold.
    Holds,
    /// The text of the first that does not, and the values in it.
    Fails(String),
    /// Something that is not evaluated here.
    Unknown(String),
}

/// A value that a name stands for.
pub trait Names {
    /// `None`: nobody knows it.
    fn value(&self, name: &str) -> Option<i64>;
}

/// Variables that blocks have assigned.
pub type Variables = BTreeMap<String, Value>;

/// A value of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number, or a truth value.
    Int(i64),
    /// A quotient or a decimal.
    Real(f64),
}

impl Value {
    fn real(self) -> f64 {
        match self {
            // Precise for all that a socket reports.
            #[allow(clippy::cast_precision_loss)]
            Value::Int(n) => n as f64,
            Value::Real(x) => x,
        }
    }
    fn is_true(self) -> bool {
        self.real() != 0.0
    }
    fn text(self) -> String {
        match self {
            Value::Int(n) => n.to_string(),
            Value::Real(x) => x.to_string(),
        }
    }
}

/// Evaluates a block.
pub fn run(code: &str, names: &dyn Names, variables: &mut Variables) -> Outcome {
    for statement in statements(code) {
        match run_statement(&statement, names, variables) {
            Ok(()) => {}
            Err(outcome) => return outcome,
        }
    }
    Outcome::Holds
}

/// Lines, joined where they go on, without comments; parted at semicolons.
fn statements(code: &str) -> Vec<String> {
    let (mut all, mut now, mut depth, mut quote) = (Vec::new(), String::new(), 0_i32, None);
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            now.push(c);
            if c == '\\' {
                now.extend(chars.next());
            } else if c == open {
                quote = None;
            }
            continue;
        }
        match c {
            '\\' if chars.peek().is_some_and(|next| next.is_whitespace()) => {
                while chars.next_if(|next| next.is_whitespace() && *next != '\n').is_some() {}
                chars.next_if_eq(&'\n');
                now.push(' ');
            }
            '#' => while chars.next_if(|next| *next != '\n').is_some() {},
            '\n' | ';' if depth <= 0 => all.push(std::mem::take(&mut now)),
            '\n' => now.push(' '),
            '(' | '[' | '{' => {
                depth += 1;
                now.push(c);
            }
            ')' | ']' | '}' => {
                depth -= 1;
                now.push(c);
            }
            '\'' | '"' => {
                quote = Some(c);
                now.push(c);
            }
            _ => now.push(c),
        }
    }
    all.push(now);
    all.into_iter().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()
}

fn run_statement(statement: &str, names: &dyn Names, variables: &mut Variables) -> Result<(), Outcome> {
    let unknown = |why: &str| Outcome::Unknown(why.to_owned());
    let tokens = tokens(statement).ok_or_else(|| unknown(&format!("Python `{statement}`")))?;
    let mut parser = Parser { tokens: &tokens, at: 0, names, variables, used: Vec::new(), depth: 0 };
    match tokens.first() {
        Some(Token::Name(word)) if word == "assert" => {
            parser.at = 1;
            let value = parser.expression().map_err(Outcome::Unknown)?;
            // A message follows a comma.
            if !matches!(parser.peek(), None | Some(Token::Mark(","))) {
                return Err(unknown(&format!("Python `{statement}`")));
            }
            if value.is_true() {
                return Ok(());
            }
            let taken = parser.at;
            let used: Vec<String> =
                parser.used.iter().map(|(name, value)| format!("{name} = {}", value.text())).collect();
            let wanted: String = tokens[1..taken].iter().map(Token::text).collect::<Vec<_>>().join(" ");
            Err(Outcome::Fails(format!("{wanted}, where {}", used.join(", "))))
        }
        Some(Token::Name(word)) if word == "print" || word == "import" || word == "pass" => Ok(()),
        Some(Token::Name(name)) if tokens.get(1) == Some(&Token::Mark("=")) => {
            parser.at = 2;
            let value = parser.expression().map_err(Outcome::Unknown)?;
            if parser.peek().is_some() {
                return Err(unknown(&format!("Python `{statement}`")));
            }
            let name = name.clone();
            variables.insert(name, value);
            Ok(())
        }
        _ => Err(unknown(&format!("Python `{statement}`"))),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Number(Value),
    Text(String),
    Mark(&'static str),
}

impl Token {
    fn text(&self) -> String {
        match self {
            Token::Name(name) => name.clone(),
            Token::Number(value) => value.text(),
            Token::Text(text) => format!("'{text}'"),
            Token::Mark(mark) => (*mark).to_owned(),
        }
    }
}

const MARKS: [&str; 24] = [
    "==", "!=", "<=", ">=", "<<", ">>", "//", "**", "<", ">", "=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "(",
    ")", ",", ".",
];

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let end_of = |keep: &dyn Fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let taken = if c.is_ascii_digit() {
            let end = end_of(&|c| c.is_ascii_alphanumeric() || c == '.');
            let digits = &rest[..end];
            let value = match digits.strip_prefix("0x") {
                Some(hex) => Value::Int(i64::from_str_radix(hex, 16).ok()?),
                None if digits.contains(['.', 'e']) => Value::Real(digits.parse().ok()?),
                None => Value::Int(digits.parse().ok()?),
            };
            found.push(Token::Number(value));
            end
        } else if c.is_ascii_alphabetic() || c == '_' {
            let end = end_of(&|c| c.is_ascii_alphanumeric() || c == '_');
            found.push(Token::Name(rest[..end].to_owned()));
            end
        } else if c == '\'' || c == '"' {
            let end = 1 + rest[1..].find(c)?;
            found.push(Token::Text(rest[1..end].to_owned()));
            end + 1
        } else {
            let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark))?;
            found.push(Token::Mark(mark));
            mark.len()
        };
        rest = rest[taken..].trim_start();
    }
    Some(found)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    names: &'a dyn Names,
    variables: &'a Variables,
    /// Names whose values counted.
    used: Vec<(String, Value)>,
    depth: u32,
}

type Evaluated = Result<Value, String>;

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }
    fn take(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Mark(m)) if *m == mark);
        self.at += usize::from(found);
        found
    }
    fn take_name(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Name(name)) if name == word);
        self.at += usize::from(found);
        found
    }
    fn take_one(&mut self, marks: &[&'static str]) -> Option<&'static str> {
        marks.iter().copied().find(|mark| self.take(mark))
    }

    fn expression(&mut self) -> Evaluated {
        self.depth += 1;
        if self.depth > 64 {
            return Err("Python that is nested too deep".to_owned());
        }
        let mut value = self.conjunction()?;
        while self.take_name("or") {
            let right = self.conjunction()?;
            value = if value.is_true() { value } else { right };
        }
        self.depth -= 1;
        Ok(value)
    }

    fn conjunction(&mut self) -> Evaluated {
        let mut value = self.negation()?;
        while self.take_name("and") {
            let right = self.negation()?;
            value = if value.is_true() { right } else { value };
        }
        Ok(value)
    }

    fn negation(&mut self) -> Evaluated {
        if self.take_name("not") {
            self.depth += 1;
            if self.depth > 64 {
                return Err("Python that is nested too deep".to_owned());
            }
            let value = self.negation()?;
            self.depth -= 1;
            return Ok(Value::Int(i64::from(!value.is_true())));
        }
        self.comparison()
    }

    /// `a <= b <= c` holds if both do.
    fn comparison(&mut self) -> Evaluated {
        let first = self.bits()?;
        let (mut left, mut holds, mut compared) = (first, true, false);
        while let Some(mark) = self.take_one(&["==", "!=", "<=", ">=", "<", ">"]) {
            let right = self.bits()?;
            let (a, b) = (left.real(), right.real());
            #[allow(clippy::float_cmp)] // as Python does
            let now = match mark {
                "==" => a == b,
                "!=" => a != b,
                "<=" => a <= b,
                ">=" => a >= b,
                "<" => a < b,
                _ => a > b,
            };
            holds &= now;
            compared = true;
            left = right;
        }
        Ok(if compared { Value::Int(i64::from(holds)) } else { first })
    }

    fn bits(&mut self) -> Evaluated {
        let mut value = self.sum()?;
        while let Some(mark) = self.take_one(&["&", "|", "^", "<<", ">>"]) {
            let right = self.sum()?;
            let (Value::Int(a), Value::Int(b)) = (value, right) else { return Err("bits of a decimal".to_owned()) };
            let shift = u32::try_from(b).unwrap_or(u32::MAX);
            value = Value::Int(match mark {
                "&" => a & b,
                "|" => a | b,
                "^" => a ^ b,
                "<<" => a.checked_shl(shift).unwrap_or(0),
                _ => a.checked_shr(shift).unwrap_or(0),
            });
        }
        Ok(value)
    }

    fn sum(&mut self) -> Evaluated {
        let mut value = self.product()?;
        while let Some(mark) = self.take_one(&["+", "-"]) {
            let right = self.product()?;
            value = arithmetic(mark, value, right)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Evaluated {
        let mut value = self.sign()?;
        while let Some(mark) = self.take_one(&["*", "//", "/", "%"]) {
            let right = self.sign()?;
            value = arithmetic(mark, value, right)?;
        }
        Ok(value)
    }

    fn sign(&mut self) -> Evaluated {
        let mut negative = false;
        while self.take("-") {
            negative = !negative;
        }
        let value = self.atom()?;
        if negative { arithmetic("-", Value::Int(0), value) } else { Ok(value) }
    }

    fn atom(&mut self) -> Evaluated {
        let Some(token) = self.peek().cloned() else { return Err("Python that ends too soon".to_owned()) };
        self.at += 1;
        match token {
            Token::Number(value) => Ok(value),
            Token::Mark("(") => {
                let value = self.expression()?;
                if self.take(")") { Ok(value) } else { Err("a tuple in Python".to_owned()) }
            }
            Token::Name(name) if matches!(name.as_str(), "min" | "max" | "abs" | "int") && self.take("(") => {
                let mut values = vec![self.expression()?];
                while self.take(",") {
                    values.push(self.expression()?);
                }
                if !self.take(")") {
                    return Err(format!("Python `{name}(`"));
                }
                function(&name, &values)
            }
            Token::Name(name) => {
                let value = match name.as_str() {
                    "True" => Some(Value::Int(1)),
                    "False" => Some(Value::Int(0)),
                    _ => self.variables.get(&name).copied().or_else(|| self.names.value(&name).map(Value::Int)),
                };
                let value = value.ok_or_else(|| format!("`{name}`, which airtcp's TCP does not know"))?;
                if !self.used.iter().any(|(used, _)| *used == name) {
                    self.used.push((name, value));
                }
                Ok(value)
            }
            other => Err(format!("Python `{}`", other.text())),
        }
    }
}

fn function(name: &str, values: &[Value]) -> Evaluated {
    let best =
        |keep: fn(f64, f64) -> bool| values.iter().copied().reduce(|a, b| if keep(b.real(), a.real()) { b } else { a });
    let value = match name {
        "min" => best(|new, old| new < old),
        "max" => best(|new, old| new > old),
        "abs" => values.first().map(|v| match v {
            Value::Int(n) => Value::Int(n.saturating_abs()),
            Value::Real(x) => Value::Real(x.abs()),
        }),
        _ => values.first().map(|v| match v {
            Value::Int(n) => Value::Int(*n),
            #[allow(clippy::cast_possible_truncation)] // it saturates
            Value::Real(x) => Value::Int(*x as i64),
        }),
    };
    value.ok_or_else(|| format!("Python `{name}()`"))
}

fn arithmetic(mark: &str, left: Value, right: Value) -> Evaluated {
    let by_zero = || Err("a division by zero".to_owned());
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        let whole = match mark {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "//" if b != 0 => a.checked_div_euclid(b),
            "%" if b != 0 => a.checked_rem_euclid(b),
            "//" | "%" => return by_zero(),
            _ => None,
        };
        if let Some(whole) = whole {
            return Ok(Value::Int(whole));
        }
    }
    let (a, b) = (left.real(), right.real());
    Ok(Value::Real(match mark {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        _ if b == 0.0 => return by_zero(),
        "//" => (a / b).floor(),
        "%" => a.rem_euclid(b),
        _ => a / b,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Info;
    impl Names for Info {
        fn value(&self, name: &str) -> Option<i64> {
            match name {
                "tcpi_snd_cwnd" => Some(10),
                "tcpi_rtt" => Some(100_250),
                "tcpi_options" => Some(5),
                _ => None,
            }
        }
    }

    fn outcome(code: &str) -> Outcome {
        run(code, &Info, &mut Variables::new())
    }

    #[test]
    fn asserts_hold_or_tell_the_values_in_them() {
        for holds in [
            "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
            " assert 99000 <= tcpi_rtt <= 110000, 'rtt=%d us' % tcpi_rtt ",
            "X = 3 * 3 + 1 # ten\nassert tcpi_snd_cwnd == X; assert X // 4 == 2 and not X < 5",
            "assert (tcpi_options & 4) != 0, tcpi_options",
            "assert tcpi_snd_cwnd > 1; \\\n  assert abs(-2) == min(2, 3)",
            "print(tcpi_nothing)",
            "assert tcpi_rtt / 2 > 50124.9 or 1 == 2",
        ] {
            assert_eq!(outcome(holds), Outcome::Holds, "{holds}");
        }
        let wrong = outcome("assert tcpi_snd_cwnd == 10\nassert tcpi_snd_cwnd == 7, tcpi_snd_cwnd");
        assert_eq!(wrong, Outcome::Fails("tcpi_snd_cwnd == 7, where tcpi_snd_cwnd = 10".to_owned()));
        assert_eq!(
            outcome("assert 1 < tcpi_snd_cwnd < 5"),
            Outcome::Fails("1 < tcpi_snd_cwnd < 5, where tcpi_snd_cwnd = 10".to_owned())
        );
    }

    #[test]
    fn what_is_not_known_is_named() {
        let name = |code| match outcome(code) {
            Outcome::Unknown(what) => what,
            other => panic!("{code}: {other:?}"),
        };
        assert!(name("assert tcpi_pmtu == 1500").contains("tcpi_pmtu"));
        assert!(name("for x in y:").contains("for x in y"));
        assert!(name("assert 1 / 0 == 1").contains("division"));
        assert!(name("assert (1, 2)").contains("tuple"));
        assert!(name("assert @").contains('@'));
        assert!(name(&format!("assert {}1", "(".repeat(1000))).contains("deep"));
    }
}
