//! One value of a scenario's text is changed, and all else stays as it was written: order, comments, spaces.

use serde::Deserialize;
use serde_json::json;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

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
    let mut document: DocumentMut = change.toml.parse().map_err(|error| fault(&format!("{error}")))?;
    apply(document.as_table_mut(), &change.path, change.value.as_deref()).map_err(|message| fault(&message))?;
    Ok(json!({ "toml": document.to_string() }).to_string())
}

/// Goes down one step, and makes tables that are not there.
fn apply(table: &mut dyn TableLike, path: &[Step], value: Option<&str>) -> Result<(), String> {
    let [Step::Key(key), rest @ ..] = path else { return Err("a path begins with a key".to_owned()) };
    if rest.is_empty() {
        return set(table, key, value);
    }
    let inline = || Item::Value(Value::InlineTable(toml_edit::InlineTable::new()));
    if let Some(Item::Value(Value::String(name))) = table.get(key) {
        // A bare name of a policy becomes a table, so that its parameters have a place.
        let name = name.value().clone();
        let item = table.entry(key).or_insert_with(inline);
        *item = inline();
        if let Some(table) = item.as_table_like_mut() {
            table.insert("name", Item::Value(name.into()));
        }
    }
    let item = table.entry(key).or_insert_with(inline);
    let (item, rest) = match rest {
        [Step::Index(i), rest @ ..] => {
            let found = match item {
                Item::ArrayOfTables(tables) => tables.get_mut(*i).map(|table: &mut Table| table as &mut dyn TableLike),
                Item::Value(Value::Array(values)) => {
                    values.get_mut(*i).and_then(Value::as_inline_table_mut).map(|table| table as &mut dyn TableLike)
                }
                _ => None,
            };
            (found, rest)
        }
        rest => (item.as_table_like_mut(), rest),
    };
    apply(item.ok_or_else(|| format!("`{key}` is not a table here: change it in the text"))?, rest, value)
}

fn set(table: &mut dyn TableLike, key: &str, value: Option<&str>) -> Result<(), String> {
    let Some(text) = value else {
        table.remove(key);
        return Ok(());
    };
    let mut new: Value = text.parse().map_err(|error| format!("`{text}` is not a value: {error}"))?;
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        *new.decor_mut() = old.decor().clone();
    }
    match table.get_mut(key) {
        Some(item) => *item = Item::Value(new),
        None => {
            table.insert(key, Item::Value(new));
        }
    }
    Ok(())
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
        assert!(!changed(json!(["duration"]), None).unwrap().contains("duration"));
    }

    #[test]
    fn what_cannot_be_changed_is_told() {
        let told = |path, value| changed(path, Some(value)).unwrap_err();
        assert!(told(json!(["nodes", 4, "count"]), "7").contains("not a table here"));
        assert!(
            told(json!(["duration", "x"]), "7").contains("toml") || told(json!([]), "7").contains("begins with a key")
        );
        assert!(told(json!(["duration"]), "= 7").contains("is not a value"));
        assert!(change("{").unwrap_err().contains("EOF"));
    }
}
