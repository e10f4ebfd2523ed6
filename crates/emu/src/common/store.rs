//! Tables on their way to whoever writes results: columns as they lie in memory, batch by batch, so
//! that a network that runs for a day does not keep them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use airtcp_core::table::{Data, Table};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Values, one column after the other, in the machine's byte order.
pub(crate) const COLUMNS: &str = "columns.bin";
/// A line for each batch of a table: where its columns are.
pub(crate) const BATCHES: &str = "lots.jsonl";
/// Everything else.
pub(crate) const OUTPUT: &str = "output.json";

/// Tables under way.
#[derive(Debug)]
pub(crate) struct Store {
    columns: BufWriter<File>,
    batches: BufWriter<File>,
    at: u64,
}

impl Store {
    pub(crate) fn begin(folder: &Path) -> io::Result<Store> {
        let create = |name| File::create(folder.join(name)).map(BufWriter::new);
        Ok(Store { columns: create(COLUMNS)?, batches: create(BATCHES)?, at: 0 })
    }

    /// Adds rows. Those of one table go on where its last batch ended.
    pub(crate) fn add(&mut self, tables: &[Table]) -> io::Result<()> {
        for table in tables {
            let mut columns = Vec::new();
            for column in &table.columns {
                let (kind, bytes): (_, Vec<u8>) = match &column.data {
                    Data::U64(v) => ("u8", v.iter().flat_map(|n| n.to_ne_bytes()).collect()),
                    Data::U32(v) => ("u4", v.iter().flat_map(|n| n.to_ne_bytes()).collect()),
                    Data::F64(v) => ("f8", v.iter().flat_map(|n| n.to_ne_bytes()).collect()),
                    Data::Bool(v) => ("?", v.iter().map(|&b| u8::from(b)).collect()),
                    Data::Str(v) => ("str", serde_json::to_vec(v)?),
                };
                self.columns.write_all(&bytes)?;
                columns.push(json!({ "name": column.name, "kind": kind, "at": self.at, "bytes": bytes.len() }));
                self.at += u64::try_from(bytes.len()).unwrap_or(0);
            }
            serde_json::to_writer(
                &mut self.batches,
                &json!({ "table": table.name, "rows": table.len(), "columns": columns }),
            )?;
            self.batches.write_all(b"\n")?;
        }
        Ok(())
    }

    pub(crate) fn end(mut self) -> io::Result<()> {
        self.columns.flush()?;
        self.batches.flush()
    }
}

/// A command and how it ended; no status: it was ended with the network.
#[derive(Debug, Serialize)]
pub(crate) struct CommandReport {
    pub(crate) host: String,
    pub(crate) command: Vec<String>,
    pub(crate) status: Option<i32>,
}

/// Meaning of each table and of its columns.
pub(crate) fn meanings(tables: &[Table]) -> Value {
    let all = tables.iter().map(|table| {
        let columns = table.columns.iter().map(|c| (c.name.to_owned(), Value::from(c.unit_and_meaning)));
        let columns: Map<String, Value> = columns.collect();
        (table.name.to_owned(), json!({ "about": table.about, "columns": columns }))
    });
    Value::Object(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use airtcp_core::table::Column;

    #[test]
    fn batches_lie_one_behind_the_other() {
        let folder = std::env::temp_dir().join(format!("airtcp-store-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let table = |n: u64| Table {
            name: "t",
            about: "",
            columns: vec![
                Column { name: "n", unit_and_meaning: "", data: Data::U64(vec![n, n + 1]) },
                Column { name: "s", unit_and_meaning: "", data: Data::Str(vec!["a\"b".into(), "".into()]) },
            ],
        };
        let mut store = Store::begin(&folder).unwrap();
        store.add(&[table(5)]).unwrap();
        store.add(&[table(7)]).unwrap();
        store.end().unwrap();
        let (columns, batches) =
            (std::fs::read(folder.join(COLUMNS)).unwrap(), std::fs::read_to_string(folder.join(BATCHES)).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        let second: Value = serde_json::from_str(batches.lines().nth(1).unwrap()).unwrap();
        let at = usize::try_from(second["columns"][0]["at"].as_u64().unwrap()).unwrap();
        assert_eq!(columns[at..at + 16], [7u64.to_ne_bytes(), 8u64.to_ne_bytes()].concat());
        assert_eq!((at, &columns[16..at]), (27, &br#"["a\"b",""]"#[..]));
    }
}
