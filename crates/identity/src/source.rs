//! The part of a Rust file that decides results: its tokens, without documentation and tests.

use std::io;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use crate::fault;

/// Operators of several characters. Other characters that stand together are together by chance, as
/// in `x =-1`.
const OPERATORS: [&str; 24] = [
    "<<=", ">>=", "...", "..=", "::", "->", "=>", "==", "!=", "<=", ">=", "&&", "||", "+=", "-=", "*=", "/=", "%=",
    "^=", "&=", "|=", "<<", ">>", "..",
];

/// Between tokens, so that `a b` is not `ab`.
const SEPARATOR: char = '\0';

pub(crate) struct Source {
    path: PathBuf,
    /// The tokens that count.
    pub(crate) tokens: String,
    /// Modules that are tests, without `.rs`: `src/queue/tests` is `src/queue/tests.rs` and all
    /// below `src/queue/tests/`.
    pub(crate) tests: Vec<PathBuf>,
    /// Modules that are declared outside tests, in the same form.
    pub(crate) modules: Vec<PathBuf>,
    /// Files that `include_str!` and its relatives name.
    pub(crate) included: Vec<PathBuf>,
}

impl Source {
    pub(crate) fn read(path: &Path, text: &str) -> io::Result<Source> {
        // As rustc does, for what strings of several lines hold.
        let tokens: TokenStream = text.replace("\r\n", "\n").parse().map_err(|e| fault(path, e))?;
        let mut source = Source {
            path: path.to_owned(),
            tokens: String::new(),
            tests: Vec::new(),
            modules: Vec::new(),
            included: Vec::new(),
        };
        let below = match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "mod") => path.parent().unwrap_or(path).to_owned(),
            _ => path.with_extension(""),
        };
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        if inner_test(&tokens) {
            source.tests.push(below);
        } else {
            source.stream(&tokens, &below)?;
        }
        Ok(source)
    }

    /// Takes the tokens of a module, or of a part of it; `below` is the folder of the modules it
    /// declares.
    fn stream(&mut self, tokens: &[TokenTree], below: &Path) -> io::Result<()> {
        let mut at = 0;
        while at < tokens.len() {
            if let Some(end) = self.test(tokens, at, below) {
                at = end;
                continue;
            }
            if let Some((_, end)) = attribute(tokens, at).filter(|(attribute, _)| is_word(attribute.first(), "doc")) {
                at = end;
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => self.group(tokens, at, group, below)?,
                TokenTree::Punct(_) => {
                    let operator = operator(&tokens[at..]);
                    at += operator.len();
                    self.push(&operator);
                    continue;
                }
                other => {
                    if let Some(name) = declared(tokens, at) {
                        self.modules.push(below.join(name));
                    }
                    self.push(&other.to_string());
                }
            }
            at += 1;
        }
        Ok(())
    }

    fn group(&mut self, tokens: &[TokenTree], at: usize, group: &Group, below: &Path) -> io::Result<()> {
        let before = |n: usize| at.checked_sub(n).and_then(|i| tokens.get(i));
        let mut inner: Vec<TokenTree> = group.stream().into_iter().collect();
        if ends_in_idle_comma(group.delimiter(), &inner, before(1)) {
            inner.pop();
        }
        if is_char(before(1), '!')
            && ["include", "include_str", "include_bytes"].iter().any(|name| is_word(before(2), name))
        {
            self.include(&inner)?;
        }
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        self.push(open);
        match before(1) {
            Some(TokenTree::Ident(name)) if is_word(before(2), "mod") => {
                self.stream(&inner, &below.join(name.to_string()))?;
            }
            _ => self.stream(&inner, below)?,
        }
        self.push(close);
        Ok(())
    }

    /// Records the file that an `include_str!` names. Silence would leave a file out, so a name
    /// that cannot be told is an error.
    fn include(&mut self, arguments: &[TokenTree]) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let first = match arguments {
            [TokenTree::Literal(literal), ..] => string(&literal.to_string()),
            _ => None,
        };
        if let Some(name) = first {
            // Generated from the types, which count, and their doc comments, which do not.
            if !name.ends_with("/schema.json") {
                self.included.push(folder.join(name));
            }
            return Ok(());
        }
        // `policies!` embeds the sources of its policies for their pages, which are comments. As
        // code they count anyway.
        if last_string(arguments).is_some_and(|name| name.ends_with(".rs")) {
            return Ok(());
        }
        Err(fault(
            &self.path,
            "an include whose file cannot be told: its name must be one plain string, or end in \".rs\"",
        ))
    }

    /// Where the item ends that starts here, if its attributes make it a test.
    fn test(&mut self, tokens: &[TokenTree], start: usize, below: &Path) -> Option<usize> {
        let (mut at, mut test, mut file) = (start, false, None);
        while let Some((attribute, end)) = attribute(tokens, at) {
            if is_char(tokens.get(at + 1), '!') {
                return None;
            }
            test |= is_test(&attribute);
            if is_word(attribute.first(), "path") {
                file = last_string(&attribute);
            }
            at = end;
        }
        if !test {
            return None;
        }
        let (item, end) = item(tokens, at)?;
        if let Some(name) = declared(tokens, item) {
            let folder = self.path.parent().unwrap_or(below);
            self.tests.push(match file {
                Some(file) => folder.join(file).with_extension(""),
                None => below.join(name),
            });
        }
        Some(end)
    }

    fn push(&mut self, token: &str) {
        self.tokens.push_str(token);
        self.tokens.push(SEPARATOR);
    }
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if *ident == word)
}

fn is_char(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

/// Words before a parenthesis that begins an expression, a pattern or a type, and no arguments.
const WORDS_BEFORE_TUPLES: [&str; 14] =
    ["as", "box", "break", "dyn", "else", "for", "if", "in", "let", "match", "mut", "ref", "return", "while"];

/// True if a comma before the closing bracket says nothing: rustfmt puts it there, or takes it
/// away, as lines break. It makes a tuple of `(a,)`, and is a separator in `$(a,)*`. `before`: the
/// token before the opening bracket.
fn ends_in_idle_comma(delimiter: Delimiter, inner: &[TokenTree], before: Option<&TokenTree>) -> bool {
    let [_, .., last] = inner else { return false };
    if !is_char(Some(last), ',') || is_char(before, '$') {
        return false;
    }
    let has_arguments = match before {
        Some(TokenTree::Ident(name)) => !WORDS_BEFORE_TUPLES.iter().any(|word| name == word),
        before => is_char(before, '!'),
    };
    match delimiter {
        Delimiter::Bracket | Delimiter::Brace => true,
        Delimiter::Parenthesis if has_arguments => true,
        // Commas of types and closures look like those between the elements of a tuple.
        Delimiter::Parenthesis => {
            let is_in_doubt = inner.iter().any(|token| is_char(Some(token), '<') || is_char(Some(token), '|'));
            !is_in_doubt && inner.iter().filter(|token| is_char(Some(token), ',')).count() > 1
        }
        Delimiter::None => false,
    }
}

/// The longest operator that starts here.
fn operator(tokens: &[TokenTree]) -> String {
    let mut chars = String::new();
    for token in tokens.iter().take(3) {
        let TokenTree::Punct(punct) = token else { break };
        chars.push(punct.as_char());
        if punct.spacing() == Spacing::Alone {
            break;
        }
    }
    let known = OPERATORS.iter().find(|known| chars.starts_with(**known));
    known.map_or_else(|| chars.chars().take(1).collect(), |known| (*known).to_owned())
}

/// Contents of an attribute, `#[...]` or `#![...]`, and the place where it ends.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<(Vec<TokenTree>, usize)> {
    if !is_char(tokens.get(at), '#') {
        return None;
    }
    let at = if is_char(tokens.get(at + 1), '!') { at + 2 } else { at + 1 };
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            Some((group.stream().into_iter().collect(), at + 1))
        }
        _ => None,
    }
}

/// `cfg(test)`, `cfg(all(test, ...))` or `test`.
fn is_test(attribute: &[TokenTree]) -> bool {
    fn needs_test(tokens: TokenStream) -> bool {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        tokens.split(|token| is_char(Some(token), ',')).any(|condition| match condition {
            [word] => is_word(Some(word), "test"),
            [word, TokenTree::Group(group)] => is_word(Some(word), "all") && needs_test(group.stream()),
            _ => false,
        })
    }
    match attribute {
        [word] => is_word(Some(word), "test"),
        [word, TokenTree::Group(group)] => is_word(Some(word), "cfg") && needs_test(group.stream()),
        _ => false,
    }
}

/// True if the file starts with `#![cfg(test)]`, among its inner attributes.
fn inner_test(tokens: &[TokenTree]) -> bool {
    let mut at = 0;
    while let Some((attribute, end)) = attribute(tokens, at) {
        if !is_char(tokens.get(at + 1), '!') {
            return false;
        }
        if is_test(&attribute) {
            return true;
        }
        at = end;
    }
    false
}

/// The name of `mod name;` here.
fn declared(tokens: &[TokenTree], at: usize) -> Option<String> {
    match &tokens[at..] {
        [word, TokenTree::Ident(name), end, ..] if is_word(Some(word), "mod") && is_char(Some(end), ';') => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// Where an item starts behind its visibility, and where it ends. `None` if this is no item, as for
/// a field or an expression: what cannot be told counts.
fn item(tokens: &[TokenTree], mut at: usize) -> Option<(usize, usize)> {
    if is_word(tokens.get(at), "pub") {
        at += 1;
        if matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis) {
            at += 1;
        }
    }
    let TokenTree::Ident(word) = tokens.get(at)? else { return None };
    let after = |wanted: &dyn Fn(&TokenTree) -> bool| tokens[at..].iter().position(wanted).map(|n| at + n + 1);
    let ends = |token: &TokenTree| is_char(Some(token), ';');
    let is_brace = |token: &TokenTree| matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
    let function = ["fn", "unsafe", "async", "extern"].iter().any(|word| is_word(tokens.get(at + 1), word));
    let end = match word.to_string().as_str() {
        "use" | "static" | "type" | "let" => after(&ends)?,
        "const" if !function => after(&ends)?,
        "mod" | "fn" | "struct" | "enum" | "union" | "impl" | "trait" | "unsafe" | "async" | "extern" | "const" => {
            after(&|token| ends(token) || is_brace(token))?
        }
        _ => {
            // A macro called in place of an item: a path, `!`, for `macro_rules` a name, and what
            // it is called with.
            let call =
                at + tokens[at..].iter().position(|t| !matches!(t, TokenTree::Ident(_)) && !is_char(Some(t), ':'))?;
            if !is_char(tokens.get(call), '!') {
                return None;
            }
            let group = if matches!(tokens.get(call + 1), Some(TokenTree::Ident(_))) { call + 2 } else { call + 1 };
            match tokens.get(group)? {
                token if is_brace(token) => group + 1,
                TokenTree::Group(_) if is_char(tokens.get(group + 1), ';') => group + 2,
                _ => return None,
            }
        }
    };
    Some((at, end))
}

/// A plain string literal's content.
fn string(literal: &str) -> Option<String> {
    let content = literal.strip_prefix('"')?.strip_suffix('"')?;
    (!content.contains('\\')).then(|| content.to_owned())
}

/// The last string among the tokens and what they enclose.
fn last_string(tokens: &[TokenTree]) -> Option<String> {
    tokens.iter().rev().find_map(|token| match token {
        TokenTree::Literal(literal) => string(&literal.to_string()),
        TokenTree::Group(group) => last_string(&group.stream().into_iter().collect::<Vec<_>>()),
        _ => None,
    })
}
