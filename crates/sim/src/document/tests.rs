use serde_json::json;

use super::*;

fn read(text: &str) -> Document {
    Document::parse(text, "x.toml").unwrap()
}

fn refused(text: &str) -> String {
    Document::parse(text, "x.toml").unwrap_err().to_string()
}

fn faults(text: &str, schema: &Json) -> String {
    read(text).check(schema).err().map_or(String::new(), |faults| faults.to_string())
}

fn at(keys: &str) -> KeyPath {
    keys.split('.').fold(KeyPath::default(), |path, key| match key.parse() {
        Ok(i) => path.index(i),
        Err(_) => path.key(key),
    })
}

#[test]
fn every_place_has_its_line() {
    let text = "text = '''\n[table]\nkey = 1\n'''\n\n[table]\na.b = 1\na.c = { d = [\n  1,\n  2 ] }\n[[list]]\nx = 1\n[[list]]\n";
    let document = read(text);
    let line = |path: &str| document.fault(&at(path), String::new()).line;
    let places = ["text", "table", "table.a", "table.a.b", "table.a.c.d", "table.a.c.d.1", "list.0.x", "list.1"];
    assert_eq!(places.map(|path| line(path).unwrap()), [1, 6, 7, 7, 8, 10, 12, 13]);
    assert_eq!(line("list.1.y"), Some(13), "of what is not there, the line of what would hold it");
    assert_eq!(line("absent"), Some(1));
}

#[test]
fn keys_are_ranked_as_in_the_file() {
    let document = read("z = 1\nb.y = 2\na = { z = 1, c = 2 }\nb.x = 3\n");
    let order = |path: &str| {
        let Value::Table(table) = &document.tree().locate(&at(path)).1.unwrap_or(document.tree()).value else {
            panic!()
        };
        let mut keys: Vec<_> = table.iter().map(|(key, entry)| (entry.rank, key.as_str())).collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, key)| key.to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([order("none"), order("a"), order("b")], ["z b a", "z c", "y x"]);
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    assert!(refused("a = 1\nb = 2\na = 3\n").starts_with("x.toml:3: not TOML: duplicate key"));
    assert!(refused("a = '''\n\n'''\nb = = 2\n").starts_with("x.toml:4: not TOML: "));
    assert!(refused("a = 1\n[a]\n").starts_with("x.toml:2: not TOML: "));
}

#[test]
fn nesting_has_a_limit() {
    for text in [
        format!("\na = {}", "[".repeat(100_000)),
        format!("\na = {}{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("\na = {}", "{ a = ".repeat(100_000)),
        format!("\n{} = 1", vec!["a"; 100_000].join(".")),
        format!("\n[{}]", vec!["a"; 100_000].join(".")),
        format!("\na = {}1{}", format!("{{ {} = ", vec!["a"; 79].join(".")).repeat(70), "}".repeat(70)),
    ] {
        let told = refused(&text);
        let is_told = ["x.toml:2: not TOML: nested too deep", "x.toml:2: tables and lists are nested deeper than 100"];
        // The parser has no place for a key of too many parts.
        assert!(is_told.contains(&told.as_str()) || told == "x.toml: not TOML: nested too deep", "{told}");
    }
}

#[test]
fn changed_documents_know_where_each_part_is_from() {
    let mut document = read("[p]\nn = 1\n[quick]\np = { n = 2 }\n");
    document.copy(&at("quick.p.n"), &at("p.n"));
    let origin = document.argument("--set m=3".to_owned());
    document.put(&at("p.m"), parse_value("3").unwrap(), origin);
    let other = Document::parse("\n[[arms]]\nname = 1\n[[arms]]\nname = 2\n", "arms.toml").unwrap();
    let Value::Array(arms) = &other.tree().get("arms").unwrap().value else { panic!() };
    document.graft(&at("arms"), &other, &arms[1..]);
    let told = |document: &Document, path: &str| document.fault(&at(path), "wrong".to_owned()).to_string();
    assert_eq!(told(&document, "p.n"), "x.toml:4: p.n = 2: wrong");
    assert_eq!(told(&document, "p.m"), "--set m=3: p.m = 3: wrong");
    assert_eq!(told(&document, "arms.0.name"), "arms.toml:5: arms[0].name = 2: wrong");
    document.remove(&at("p.m"));
    document.remove(&at("arms.0"));
    assert_eq!(told(&document, "p.m"), "x.toml:1: p.m: wrong");
}

#[test]
fn a_schema_says_what_is_accepted() {
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id"],
        "properties": {
            "id": { "type": "string", "pattern": "^[a-z]+$", "x-rule": "small letters" },
            "title": { "type": "string", "minLength": 1 },
            "set": { "type": "object", "additionalProperties": {} },
            "list": { "type": "array", "items": { "anyOf": [{ "type": "number" }, { "type": "string" }] },
                      "uniqueItems": true, "minItems": 1 },
            "pair": { "type": "array", "prefixItems": [{ "type": "number" }, { "type": "string" }],
                      "minItems": 2, "maxItems": 2 },
            "factor": { "type": "number", "exclusiveMinimum": 1 },
            "named": { "type": "object", "additionalProperties": { "type": "integer" },
                       "propertyNames": { "pattern": "^[a-z]+$", "x-rule": "small letters only" } },
        },
    });
    let told = |line: &str| faults(&format!("id = 'a'\n{line}"), &schema);
    assert_eq!(told("set = { a = [1, 'x', { b = true }] }\nlist = [1, 1.0, 'a']\npair = [1, 'b']\nfactor = 1.1"), "");
    for (line, message) in [
        ("title = ' '", "title = \" \": must not be empty"),
        ("list = []", "list: has 0 entries: must have at least 1"),
        ("list = ['a', 'b',\n'a']", "list[2] = \"a\": appears twice: each entry must be different"),
        ("list = [99999999999999999999]", "list[0] = 99999999999999999999: must fit into 64 bits"),
        ("pair = ['a', 'b']", "pair[0] = \"a\": must be a finite number"),
        ("factor = 1", "factor = 1: must be a number above 1"),
        ("factor = nan", "factor = nan: must be a number above 1"),
        ("set.x = [{ y = inf }]", "set.x[0].y = inf: must be a finite number"),
        ("set.x = 1979-05-27", "set.x = 1979-05-27: must be a number, text, true or false, a list or a table"),
        ("set.x = 9223372036854775808", "set.x = 9223372036854775808: must fit into 64 bits"),
        ("named = { A = 1 }", "named.A = 1: small letters only"),
        (
            "tilte = 'x'",
            "tilte = \"x\": unknown key; did you mean `title`? accepted: factor, id, list, named, pair, set, title",
        ),
    ] {
        let number = if line.contains('\n') { 3 } else { 2 };
        assert_eq!(told(line), format!("x.toml:{number}: {message}"));
    }
    assert_eq!(faults("id = 'A'", &schema), "x.toml:1: id = \"A\": must be text in quotes: small letters");
    assert_eq!(
        faults("factor = 'x'\ntitle = 5", &schema),
        "x.toml:1: factor = \"x\": must be a number above 1\n\
         x.toml:1: id: missing; must be text in quotes: small letters\n\
         x.toml:2: title = 5: must be text in quotes",
        "all at once"
    );
}
