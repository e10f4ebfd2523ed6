//! One value of a scenario's text is changed, and all else stays as it was written: order,
//! comments, spaces.

use std::ops::Range;

use serde::Deserialize;
use serde_json::json;
use toml::de::{DeTable, DeValue};

use crate::session::fault;

/// A change of one value.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// The scenario.
    toml: String,
    /// Keys and places in lists, from the outermost.
    path: Vec<Step>,
    /// The new value, TOML; none: the key is taken out.
    value: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Step {
    Index(usize),
    Key(String),
}

/// Answers with the changed text.
pub(crate) fn change(question: &str) -> Result<String, String> {
    let change: Change = serde_json::from_str(question).map_err(|error| fault(&error.to_string()))?;
    let text = edited(&change.toml, &change.path, change.value.as_deref()).map_err(|message| fault(&message))?;
    Ok(json!({ "toml": text }).to_string())
}

/// Range of a text, and its replacement.
type Patch = (Range<usize>, String);

fn edited(text: &str, path: &[Step], value: Option<&str>) -> Result<String, String> {
    if let Some(value) = value {
        DeValue::parse(value).map_err(|error| format!("`{value}` is not a value: {}", error.message()))?;
    }
    let root = DeTable::parse(text).map_err(|error| error.to_string())?;
    let mut changed = text.to_owned();
    if let Some((range, new)) = patch(text, root.get_ref(), None, path, value)? {
        changed.replace_range(range, &new);
    }
    Ok(changed)
}

/// `key = value` stands in the text as it is, not as the header of a table.
fn is_here(text: &str, key: &Range<usize>, value: &Range<usize>) -> bool {
    text.get(key.end..value.start).is_some_and(|between| between.trim() == "=")
}

/// `inline`: where the braces of the table are, if it has any.
fn patch(
    text: &str,
    table: &DeTable,
    inline: Option<Range<usize>>,
    path: &[Step],
    value: Option<&str>,
) -> Result<Option<Patch>, String> {
    let [Step::Key(key), rest @ ..] = path else { return Err("a path begins with a key".to_owned()) };
    let Some((at, found)) = table.iter().find(|(name, _)| name.get_ref().as_ref() == key) else {
        return value.map(|value| insertion(text, table, inline, key, &nested(rest, value)?)).transpose();
    };
    let (at, span) = (at.span(), found.span());
    let braces = |span: Range<usize>| text[span.clone()].starts_with('{').then_some(span);
    let next = match (found.get_ref(), rest) {
        (_, []) if !is_here(text, &at, &span) => None,
        (_, []) => {
            return Ok(Some(
                value.map_or_else(|| removal(text, inline, &at, &span), |new| (span.clone(), new.to_owned())),
            ));
        }
        // A bare name of a policy becomes a table, so that its parameters have a place.
        (DeValue::String(_), [Step::Key(_), ..]) => {
            let Some(value) = value else { return Ok(None) };
            let inner = nested(rest, value)?;
            let inner = inner.strip_prefix('{').unwrap_or(&inner);
            return Ok(Some((span.clone(), format!("{{ name = {},{inner}", &text[span]))));
        }
        (DeValue::Array(items), [Step::Index(i), deeper @ ..]) => items.get(*i).map(|item| (item, deeper)),
        _ => Some((found, rest)),
    };
    match next.map(|(item, rest)| (item.get_ref(), item.span(), rest)) {
        Some((DeValue::Table(table), span, rest)) => patch(text, table, braces(span), rest, value),
        _ => Err(format!("`{key}` is not a table here: change it in the text")),
    }
}

/// A value within as many tables as the path has keys.
fn nested(path: &[Step], value: &str) -> Result<String, String> {
    path.iter().rev().try_fold(value.to_owned(), |inner, step| match step {
        Step::Key(key) => Ok(format!("{{ {key} = {inner} }}")),
        Step::Index(i) => Err(format!("there is no entry [{i}]")),
    })
}

fn insertion(
    text: &str,
    table: &DeTable,
    inline: Option<Range<usize>>,
    key: &str,
    value: &str,
) -> Result<Patch, String> {
    if let Some(braces) = inline {
        let inside = text[braces.start + 1..braces.end - 1].trim_end();
        let at = braces.start + 1 + inside.len();
        let comma = if inside.is_empty() { "" } else { "," };
        return Ok((at..braces.end, format!("{comma} {key} = {value} }}")));
    }
    let here =
        table.iter().map(|(key, value)| (key.span(), value.span())).filter(|(key, value)| is_here(text, key, value));
    let last = here.map(|(_, value)| value.end).max();
    let last = last.ok_or_else(|| format!("no place for `{key}`: write it into the text"))?;
    let line_end = text[last..].find('\n').map_or(text.len(), |n| last + n);
    Ok((line_end..line_end, format!("\n{key} = {value}")))
}

fn removal(text: &str, inline: Option<Range<usize>>, key: &Range<usize>, value: &Range<usize>) -> Patch {
    let (mut start, mut end) = (key.start, value.end);
    if inline.is_some() {
        // One comma goes with it: that after it, or that before.
        match text[end..].trim_start().strip_prefix(',') {
            Some(rest) => end = text.len() - rest.trim_start().len(),
            None => start = text[..start].trim_end().trim_end_matches(',').len(),
        }
        return (start..end, String::new());
    }
    start = text[..start].rfind('\n').map_or(0, |n| n + 1);
    end = text[end..].find('\n').map_or(text.len(), |n| end + n + 1);
    (start..end, String::new())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::change;

    const TEXT: &str = r#"# A cell.
duration = "5s"   # short

[[nodes]]
name = "sta"
kind = "host"
count = 5      # how many

[[links]]
queue = "fifo" # plain
stations = [{ node = "a" }, { node = "b", signal = { kind = "snr", snr_db = 9 } }]
"#;

    fn changed(path: Json, value: Option<&str>) -> Result<String, String> {
        let answer = change(&json!({ "toml": TEXT, "path": path, "value": value }).to_string())?;
        let answer: Json = serde_json::from_str(&answer).unwrap();
        Ok(answer["toml"].as_str().unwrap().to_owned())
    }

    #[test]
    fn only_the_value_changes() {
        let expect = |from: &str, to: &str| {
            assert_eq!(TEXT.matches(from).count(), 1, "{from}");
            TEXT.replace(from, to)
        };
        assert_eq!(changed(json!(["duration"]), Some("\"9s\"")).unwrap(), expect("\"5s\"", "\"9s\""));
        assert_eq!(changed(json!(["nodes", 0, "count"]), Some("7")).unwrap(), expect("count = 5", "count = 7"));
        let snr = changed(json!(["links", 0, "stations", 1, "signal", "snr_db"]), Some("12.5")).unwrap();
        assert_eq!(snr, expect("snr_db = 9 ", "snr_db = 12.5 "));
        let new = changed(json!(["nodes", 0, "profile"]), Some("\"linux-6\"")).unwrap();
        assert_eq!(new, expect("# how many\n", "# how many\nprofile = \"linux-6\"\n"));
        let limit = changed(json!(["links", 0, "queue", "limit_packets"]), Some("30")).unwrap();
        assert!(limit.contains(r#"{ name = "fifo", limit_packets = 30 }"#), "{limit}");
        let tcp = changed(json!(["nodes", 0, "tcp", "cc"]), Some("\"bbr\"")).unwrap();
        assert!(tcp.contains(r#"tcp = { cc = "bbr" }"#), "{tcp}");
        assert_eq!(changed(json!(["duration"]), None).unwrap(), expect("duration = \"5s\"   # short\n", ""));
        let kind = changed(json!(["links", 0, "stations", 1, "signal", "kind"]), None).unwrap();
        assert_eq!(kind, expect("{ kind = \"snr\", snr_db = 9 }", "{ snr_db = 9 }"));
        let last = changed(json!(["links", 0, "stations", 1, "signal", "snr_db"]), None).unwrap();
        assert_eq!(last, expect("{ kind = \"snr\", snr_db = 9 }", "{ kind = \"snr\" }"));
        assert_eq!(changed(json!(["warmup"]), None).unwrap(), TEXT);
        let deep = changed(json!(["links", 0, "queue", "codel", "target"]), Some("1")).unwrap();
        assert!(deep.contains(r#"queue = { name = "fifo", codel = { target = 1 } } # plain"#), "{deep}");
    }

    #[test]
    fn what_cannot_be_changed_is_told() {
        let told = |path, value| changed(path, Some(value)).unwrap_err();
        assert!(told(json!(["nodes", 4, "count"]), "7").contains("not a table here"));
        assert!(told(json!([]), "7").contains("begins with a key"));
        assert!(told(json!(["nodes"]), "7").contains("change it in the text"));
        assert!(told(json!(["duration"]), "= 7").contains("is not a value"));
        assert!(change("{").unwrap_err().contains("EOF"));
    }
}
