//! Keys, types, names and ranges of a document against the JSON Schema, with the place and the
//! nearest accepted key of everything wrong at once. Generic: a new key or policy needs no line
//! here.

use std::collections::BTreeSet;

use airtcp_core::convert::index;
use airtcp_core::range::from_to;
use airtcp_core::units::{Bytes, DataRate, Span, UnitError};
use regex_lite::Regex;
use serde_json::Value as Json;

use super::error::{nearest, unknown};
use super::tree::{Entry, KeyPath, Step, Tree, Value};

/// Calls `report` with the place and the message of each fault.
pub(crate) fn check(schema: &Json, tree: &Tree, report: &mut dyn FnMut(&KeyPath, String)) {
    Checker { root: schema, path: KeyPath::default(), report }.value(schema, tree);
}

/// Reads a quantity with its unit, for the error alone.
type Reader = fn(&str) -> Result<(), UnitError>;

/// One way to satisfy a schema: no references, no choices inside.
#[derive(Clone, Copy)]
struct Form<'s> {
    /// Name of the definition it came from.
    definition: &'s str,
    schema: &'s Json,
}

impl<'s> Form<'s> {
    fn is(&self, kind: &str) -> bool {
        self.schema["type"] == kind
    }
    /// The names it accepts, if it is a choice of names.
    fn names(&self) -> Vec<&'s str> {
        match (&self.schema["const"], &self.schema["enum"]) {
            (Json::String(name), _) => vec![name],
            (_, Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        }
    }
    /// For a table that is one of several: the key that tells which, and its value here.
    fn tag(&self) -> Option<(&'s str, &'s str)> {
        let properties = self.schema["properties"].as_object()?;
        properties.iter().find_map(|(key, s)| Some((key.as_str(), s["const"].as_str()?)))
    }
    fn required(&self) -> impl Iterator<Item = &'s str> + use<'s> {
        self.schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str)
    }
    fn quantity(&self) -> Option<Reader> {
        match self.definition {
            "Span" => Some(|s| s.parse::<Span>().map(drop)),
            "DataRate" => Some(|s| s.parse::<DataRate>().map(drop)),
            "Bytes" => Some(|s| s.parse::<Bytes>().map(drop)),
            _ => None,
        }
    }
    /// Least and greatest of a whole number. TOML has 64 bits with sign.
    fn whole_range(&self) -> (i128, i128) {
        let widest = match self.schema["format"].as_str() {
            Some("uint8") => u8::MAX.into(),
            Some("uint16") => u16::MAX.into(),
            Some("uint32") => u32::MAX.into(),
            _ => i64::MAX.into(),
        };
        let bound = |key: &str| serde_json::Value::as_number(&self.schema[key]).and_then(serde_json::Number::as_i128);
        (bound("minimum").unwrap_or(i64::MIN.into()), bound("maximum").unwrap_or(widest))
    }
    fn accepts_whole(&self, i: i128) -> bool {
        let (min, max) = self.whole_range();
        (min..=max).contains(&i)
    }
    fn accepts_real(&self, x: f64) -> bool {
        let bound = |key: &str| self.schema[key].as_f64();
        x.is_finite()
            && bound("minimum").is_none_or(|min| x >= min)
            && bound("maximum").is_none_or(|max| x <= max)
            && bound("exclusiveMinimum").is_none_or(|min| x > min)
    }
    /// A schema without a type accepts every value that JSON and 64 bits can hold.
    fn is_open(&self) -> bool {
        ["type", "const", "enum"].iter().all(|key| self.schema[*key].is_null())
    }
    /// Least length of a text, without surrounding white space.
    fn shortest(&self) -> usize {
        self.schema["minLength"].as_u64().map_or(0, index)
    }
    /// The schema of an entry of a list.
    fn item(&self, i: usize) -> &'s Json {
        match self.schema["prefixItems"].get(i) {
            Some(schema) => schema,
            None => &self.schema["items"],
        }
    }
    fn expected(&self) -> String {
        let kind = self.schema["type"].as_str().unwrap_or("value");
        match kind {
            "integer" => match self.whole_range() {
                (min, max) if max == i64::MAX.into() && min == i64::MIN.into() => "a whole number".to_owned(),
                (min, max) if max == i64::MAX.into() => format!("a whole number of at least {min}"),
                (min, max) => format!("a whole number {}", from_to(&(min..=max))),
            },
            "number" if !self.schema["exclusiveMinimum"].is_null() => {
                format!("a number above {}", self.schema["exclusiveMinimum"])
            }
            "number" => match (&self.schema["minimum"], &self.schema["maximum"]) {
                (Json::Null, Json::Null) => "a finite number".to_owned(),
                (min, Json::Null) => format!("a number of at least {min}"),
                (Json::Null, max) => format!("a number of at most {max}"),
                (min, max) => format!("a number {}", from_to(&(min..=max))),
            },
            "boolean" => "true or false".to_owned(),
            "array" => "a list".to_owned(),
            "object" => "a table".to_owned(),
            _ => match self.schema["description"].as_str() {
                Some(what) if self.quantity().is_some() => what.to_owned(),
                _ => match self.schema["x-rule"].as_str() {
                    Some(rule) => format!("text in quotes: {rule}"),
                    None => "text in quotes".to_owned(),
                },
            },
        }
    }
}

/// Follows references and opens choices.
pub(crate) fn resolve<'s>(root: &'s Json, schema: &'s Json) -> (&'s str, &'s Json) {
    match schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
        Some(name) => (name, &root["$defs"][name]),
        None => ("", schema),
    }
}

fn forms<'s>(root: &'s Json, schema: &'s Json) -> Vec<Form<'s>> {
    let (definition, schema) = resolve(root, schema);
    match schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        Some(choices) => choices.iter().flat_map(|choice| forms(root, choice)).collect(),
        None => vec![Form { definition, schema }],
    }
}

/// The key by which a table of this schema tells its kind, if a bare name stands for such a table
/// (`"fifo"` for `{ name = "fifo" }`).
pub(crate) fn tag_key<'s>(root: &'s Json, schema: &'s Json) -> Option<&'s str> {
    forms(root, schema).iter().find_map(|form| form.tag()).map(|(key, _)| key)
}

/// The schema of `key` in a table, whichever of the possible tables has it.
pub(crate) fn member<'s>(root: &'s Json, schema: &'s Json, key: &str) -> Option<&'s Json> {
    forms(root, schema).iter().find_map(|form| match &form.schema["properties"][key] {
        Json::Null => Some(&form.schema["additionalProperties"]).filter(|s| s.is_object()),
        found => Some(found),
    })
}

struct Checker<'a> {
    root: &'a Json,
    path: KeyPath,
    report: &'a mut dyn FnMut(&KeyPath, String),
}

impl<'a> Checker<'a> {
    fn error(&mut self, message: String) {
        (self.report)(&self.path, message);
    }

    fn error_at(&mut self, key: &str, message: String) {
        self.path.0.push(Step::Key(key.to_owned()));
        self.error(message);
        self.path.0.pop();
    }

    fn value(&mut self, schema: &'a Json, tree: &Tree) {
        let forms = forms(self.root, schema);
        if forms.iter().any(Form::is_open) {
            return self.anything(tree);
        }
        match &tree.value {
            Value::String(s) => self.string(&forms, s),
            Value::Bool(_) if forms.iter().any(|f| f.is("boolean")) => {}
            Value::Integer(_) | Value::Float(_) => self.number(&forms, &tree.value),
            Value::Array(items) => match forms.iter().find(|f| f.is("array")) {
                Some(form) => {
                    let bound = |key: &str| form.schema[key].as_u64().map(index);
                    let (min, max) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(usize::MAX));
                    if !(min..=max).contains(&items.len()) {
                        let wanted = match (min, max) {
                            (min, max) if min == max => format!("exactly {min}"),
                            (min, usize::MAX) => format!("at least {min}"),
                            (min, max) => format!("{min} to {max}"),
                        };
                        let entries = if items.len() == 1 { "entry" } else { "entries" };
                        self.error(format!("has {} {entries}: must have {wanted}", items.len()));
                    }
                    let is_set = form.schema["uniqueItems"] == true;
                    let mut seen = BTreeSet::new();
                    for (i, item) in items.iter().enumerate() {
                        self.path.0.push(Step::Index(i));
                        self.value(form.item(i), item);
                        // A whole number is not the float of its size: they make different runs.
                        if is_set && item.shown().is_some() && !seen.insert(format!("{:?}", item.value)) {
                            self.error("appears twice: each entry must be different".to_owned());
                        }
                        self.path.0.pop();
                    }
                }
                None => self.mistyped(&forms),
            },
            Value::Table(table) => self.choose_table(&forms, table),
            Value::Bool(_) | Value::Other(_) => self.mistyped(&forms),
        }
    }

    /// Faults of values that no file format of ours can hold.
    fn anything(&mut self, tree: &Tree) {
        match &tree.value {
            Value::Integer(i) if i64::try_from(*i).is_err() => self.error("must fit into 64 bits".to_owned()),
            Value::Float(x) if !x.is_finite() => self.error("must be a finite number".to_owned()),
            Value::Other(_) => self.error("must be a number, text, true or false, a list or a table".to_owned()),
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.path.0.push(Step::Index(i));
                    self.anything(item);
                    self.path.0.pop();
                }
            }
            Value::Table(table) => {
                for (key, entry) in table {
                    self.path.0.push(Step::Key(key.clone()));
                    self.anything(&entry.tree);
                    self.path.0.pop();
                }
            }
            Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) => {}
        }
    }

    fn string(&mut self, forms: &[Form<'a>], found: &str) {
        let mut names = Vec::new();
        for form in forms.iter().filter(|f| f.is("string")) {
            let accepted = form.names();
            if accepted.is_empty() && form.quantity().is_none() {
                if found.trim().chars().count() < form.shortest() {
                    return self.error("must not be empty".to_owned());
                }
                if !follows(form.schema, found) {
                    return self.error(format!("must be {}", form.expected()));
                }
            }
            let fits = match form.quantity() {
                Some(parse) => parse(found).is_ok(),
                None => accepted.is_empty() || accepted.contains(&found),
            };
            if fits {
                return;
            }
            names.extend(accepted);
        }
        if names.is_empty() {
            return self.mistyped(forms);
        }
        let tagged = forms.iter().find(|f| f.tag().is_some_and(|(_, name)| name == found));
        if let (Some(form), Some((tag, _))) = (tagged, tagged.and_then(Form::tag)) {
            let keys: Vec<String> = form.required().filter(|&k| k != tag).map(|k| format!(", {k} = …")).collect();
            return self.error(format!("needs parameters: {{ {tag} = \"{found}\"{} }}", keys.concat()));
        }
        let tables = forms.iter().filter_map(Form::tag).map(|(_, name)| name);
        let mut all: Vec<&str> = names.clone();
        all.extend(tables.filter(|name| !names.contains(name)));
        self.error(unknown("name", found, &all, None));
    }

    fn number(&mut self, forms: &[Form<'a>], found: &Value) {
        let (real, whole) = match *found {
            Value::Integer(i) => (i as f64, Some(i)),
            Value::Float(x) => (x, None),
            _ => return,
        };
        if whole.is_some_and(|i| i64::try_from(i).is_err()) && forms.iter().any(|f| f.is("number")) {
            return self.error("must fit into 64 bits".to_owned());
        }
        let form = forms.iter().find(|f| f.is("number") || (whole.is_some() && f.is("integer")));
        match (form, whole) {
            (None, _) => self.mistyped(forms),
            (Some(form), Some(i)) if form.is("integer") && form.accepts_whole(i) => {}
            (Some(form), _) if form.is("number") && form.accepts_real(real) => {}
            (Some(form), _) => self.error(format!("must be {}", form.expected())),
        }
    }

    fn choose_table(&mut self, forms: &[Form<'a>], table: &std::collections::BTreeMap<String, Entry>) {
        let tables: Vec<Form> = forms.iter().filter(|f| f.is("object")).copied().collect();
        let Some(&first) = tables.first() else { return self.mistyped(forms) };
        let Some((tag, _)) = first.tag() else { return self.table(first, table) };
        let names: Vec<&str> = tables.iter().filter_map(Form::tag).map(|(_, name)| name).collect();
        match table.get(tag) {
            None => self.error_at(tag, format!("missing; must be one of {}", names.join(", "))),
            Some(entry) => match entry.tree.as_str() {
                None => self.error_at(tag, format!("must be one of {}", names.join(", "))),
                Some(name) => match tables.iter().find(|f| f.tag().is_some_and(|(_, n)| n == name)) {
                    Some(&form) => self.table(form, table),
                    None => self.error_at(tag, unknown("name", name, &names, None)),
                },
            },
        }
    }

    fn table(&mut self, form: Form<'a>, table: &std::collections::BTreeMap<String, Entry>) {
        let properties = form.schema["properties"].as_object();
        let names = &form.schema["propertyNames"];
        for (key, entry) in table {
            if !follows(names, key) {
                self.error_at(key, names["x-rule"].as_str().map_or("a name", |rule| rule).to_owned());
            }
            let others = &form.schema["additionalProperties"];
            match properties.and_then(|p| p.get(key)).or_else(|| others.is_object().then_some(others)) {
                Some(schema) => {
                    self.path.0.push(Step::Key(key.clone()));
                    self.value(schema, &entry.tree);
                    self.path.0.pop();
                }
                None => {
                    let known: Vec<&str> = properties.into_iter().flatten().map(|(k, _)| k.as_str()).collect();
                    let within = self.within(form, key);
                    let hint = within.as_deref().or_else(|| nearest(key, known.iter().copied()));
                    self.error_at(key, unknown("key", key, &known, hint));
                }
            }
        }
        for key in form.required().filter(|&key| !table.contains_key(key)) {
            let schema = properties.and_then(|p| p.get(key)).unwrap_or(&Json::Null);
            self.error_at(key, format!("missing; must be {}", expected(&forms(self.root, schema))));
        }
    }

    /// `tcp.cc` for a `cc` that was written one level too high.
    fn within(&self, form: Form<'a>, key: &str) -> Option<String> {
        let properties = form.schema["properties"].as_object()?;
        let has = |schema| forms(self.root, schema).iter().any(|f| !f.schema["properties"][key].is_null());
        let outer = properties.iter().filter(|(_, schema)| has(schema)).map(|(outer, _)| outer);
        // The shortest name wins: `tcp`, the usual table, comes before `receiver`.
        outer.min_by_key(|outer| outer.len()).map(|outer| format!("{outer}.{key}"))
    }

    fn mistyped(&mut self, forms: &[Form<'a>]) {
        let quantity = forms.len() == 1 && forms[0].quantity().is_some();
        self.error(format!("{} {}", if quantity { "not" } else { "must be" }, expected(forms)));
    }
}

/// True if a text follows a schema's pattern, or the schema has none.
fn follows(schema: &Json, text: &str) -> bool {
    let pattern = schema["pattern"].as_str().map(Regex::new);
    pattern.is_none_or(|regex| regex.is_ok_and(|regex| regex.is_match(text)))
}

/// The values that the forms accept, in words.
fn expected(forms: &[Form]) -> String {
    let names: Vec<&str> = forms.iter().filter(|f| f.is("string")).flat_map(Form::names).collect();
    let mut said: Vec<String> = Vec::new();
    if !names.is_empty() {
        said.push(format!("one of {}", names.join(", ")));
    }
    for form in forms.iter().filter(|f| f.names().is_empty()) {
        let mut what = form.expected();
        if form.is("object") {
            let keys: Vec<&str> = match form.tag() {
                Some((key, _)) => vec![key],
                None => form.required().collect(),
            };
            if !keys.is_empty() {
                what = format!("a table with {}", keys.join(", "));
            }
        }
        if !said.contains(&what) {
            said.push(what);
        }
    }
    said.join(", or ")
}

/// True where only text is accepted, so that an unquoted override is text.
pub(crate) fn takes_text_only(root: &Json, schema: &Json) -> bool {
    forms(root, schema).iter().all(|form| form.is("string"))
}
