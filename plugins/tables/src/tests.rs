use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::source::{Bytes, Folder};

const SALES: &str = "id,kind,price,code\n1,pen,2.50,007\n2,\"big, blue \"\"pen\"\"\",,012\n3,bag,30,1\n4,bäg,31,x\n";

fn read(text: &str, args: Value) -> Result<Value, Error> {
    let mut all = json!({"path": "f.csv"});
    all.as_object_mut().unwrap().extend(args.as_object().unwrap().clone());
    let args: CsvReadArgs = serde_json::from_value(all).unwrap();
    read_csv(&args, text.as_bytes()).map(|page| serde_json::to_value(&page).unwrap())
}

fn rows(text: &str, args: Value) -> Value {
    read(text, args).unwrap()["rows"].clone()
}

#[test]
fn read_table_selects_filters_and_pages_rows() {
    let all = read(SALES, json!({})).unwrap();
    assert_eq!(all["columns"], json!(["id", "kind", "price", "code"]));
    assert_eq!(all["rows"][1], json!(["2", "big, blue \"pen\"", "", "012"]));
    assert_eq!((all["fitting_rows"].as_u64(), all.get("cut")), (Some(4), None));
    assert_eq!(
        rows(SALES, json!({"columns": ["KIND"], "offset": 1, "limit": 2})),
        json!([["big, blue \"pen\""], ["bag"]])
    );
    let page = read(SALES, json!({"limit": 1})).unwrap();
    assert_eq!(page["fitting_rows"], 4);
    assert!(page["cut"].as_str().unwrap().contains("next page"));
    let fitting = |conditions: Value| rows(SALES, json!({"where": conditions, "columns": ["id"]}));
    assert_eq!(fitting(json!([{"column": "price", "op": ">", "value": "9"}])), json!([["3"], ["4"]]));
    assert_eq!(fitting(json!([{"column": "price", "op": "=", "value": "2.5"}])), json!([["1"]]));
    assert_eq!(
        fitting(
            json!([{"column": "kind", "op": "contains", "value": "PEN"}, {"column": "id", "op": "!=", "value": "1"}])
        ),
        json!([["2"]])
    );
    assert_eq!(fitting(json!([{"column": "code", "op": "<=", "value": "1"}])), json!([["3"]]));
}

#[test]
fn csv_delimiter_quotes_and_header_are_detected() {
    for (text, expected) in [
        ("a;b\n1;2,5\n", json!([["1", "2,5"]])),
        ("a\tb\r\n1\t2\r\n", json!([["1", "2"]])),
        ("a|b\n1|2", json!([["1", "2"]])),
        ("\u{feff}a,b\n\"x\ny\",\n", json!([["x\ny", ""]])),
        ("a\n", json!([])),
        ("", json!([])),
    ] {
        assert_eq!(rows(text, json!({})), expected, "{text:?}");
    }
    let names = |text: &str| read(text, json!({})).unwrap()["columns"].clone();
    assert_eq!(names("a,,A, b \n"), json!(["a", "column_2", "A_2", "b"]));
    assert_eq!(names("\u{feff}a,b\n"), json!(["a", "b"]));
    assert_eq!(rows("a;b,c\n1;2\n", json!({"delimiter": "semicolon"})), json!([["1", "2"]]));
}

#[test]
fn csv_error_names_the_line_and_cause() {
    for (text, args, says) in [
        ("a,b\n1\n", json!({}), "`f.csv`: line 2 has 1 columns, the first has 2"),
        (SALES, json!({"columns": ["nope"]}), "no column `nope`; columns: id, kind"),
        (SALES, json!({"limit": 0}), "`limit` is 0"),
        (SALES, json!({"limit": 1_001}), "`limit` is 1001"),
        (&",".repeat(1_000), json!({}), "1001 columns"),
    ] {
        let told = read(text, args).unwrap_err().to_string();
        assert!(told.contains(says), "{told}");
    }
    let args: CsvReadArgs = serde_json::from_value(json!({"path": "f.csv"})).unwrap();
    let told = read_csv(&args, &b"a\n\xff\n"[..]).unwrap_err().to_string();
    assert!(told.contains("not UTF-8 at line 2"), "{told}");
}

#[test]
fn long_table_result_is_cut_with_a_note() {
    let long = format!("a\n{}\n", "x".repeat(10_001));
    let cell = rows(&long, json!({}))[0][0].as_str().unwrap().to_owned();
    assert!(cell.ends_with("… (10001 characters)"), "{}", &cell[cell.len() - 40..]);
    let many = format!("a\n{}", format!("{}\n", "y".repeat(9_000)).repeat(100));
    let page = read(&many, json!({})).unwrap();
    assert_eq!((page["rows"].as_array().unwrap().len(), &page["fitting_rows"]), (29, &json!(100)));
    assert!(page["cut"].as_str().unwrap().contains("too long"));
}

/// Simulated files in memory.
#[derive(Default)]
struct Memory(BTreeMap<String, Vec<u8>>);

impl Folder for &Memory {
    type File = Vec<u8>;

    fn open(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.0.get(path).cloned().ok_or_else(|| Error::NotFound(format!("`{path}` does not exist")))
    }

    fn exists(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }
}

fn ask(files: &[(&str, &str)], query: &str) -> Result<Value, Error> {
    let memory = Memory(files.iter().map(|(path, text)| ((*path).into(), text.as_bytes().to_vec())).collect());
    let table =
        |path: &&str| TableFile { name: path.split('.').next().unwrap().into(), path: (*path).into(), delimiter: None };
    let tables: Vec<_> = files.iter().map(|(path, _)| table(path)).collect();
    sql::check(query)?;
    let connection = import::open(&tables, |path| (&memory).open(path).map(Reader::new))?;
    sql::query(&connection, query).map(|page| serde_json::to_value(&page).unwrap())
}

fn answer(files: &[(&str, &str)], query: &str) -> Value {
    ask(files, query).unwrap_or_else(|error| panic!("{query}: {error:?}"))["rows"].clone()
}

#[test]
fn sql_query_runs_on_files() {
    let goods = "{\"kind\": \"bag\", \"stock\": {\"here\": 3}, \"new\": true}\n{\"kind\": \"pen\", \"weight\": 0.5}\n";
    let files = [("sales.csv", SALES), ("goods.jsonl", goods)];
    for (query, expected) in [
        ("SELECT count(*), sum(price), max(typeof(price)) FROM sales", json!([[4, 63.5, "real"]])),
        (
            "SELECT typeof(id), typeof(code), typeof(price) FROM sales WHERE id = 2",
            json!([["integer", "text", "null"]]),
        ),
        ("SELECT code FROM sales ORDER BY id", json!([["007"], ["012"], ["1"], ["x"]])),
        (
            "SELECT s.id, g.weight FROM sales s JOIN goods g ON s.kind = g.kind ORDER BY s.id",
            json!([[1, 0.5], [3, null]]),
        ),
        ("SELECT json_extract(stock, '$.here'), new FROM goods ORDER BY kind", json!([[3, 1], [null, null]])),
        (
            "WITH t AS (SELECT kind, price FROM sales WHERE price > 20) SELECT upper(kind) FROM t ORDER BY price DESC",
            json!([["BäG"], ["BAG"]]),
        ),
        ("SELECT id, sum(id) OVER (ORDER BY id) FROM sales", json!([[1, 1], [2, 3], [3, 6], [4, 10]])),
        ("SELECT 9007199254740993, x'00ff', NULL, 1e999", json!([[9007199254740993_i64, "x'00ff'", null, null]])),
        ("SELECT datetime('now')", json!([[null]])),
    ] {
        assert_eq!(answer(&files, query), expected, "{query}");
    }
    assert_eq!(ask(&files, "SELECT id AS n FROM sales").unwrap()["columns"], json!(["n"]));
    let list = [("t.json", "[{\"a\": 1}, {\"a\": [2]}]")];
    assert_eq!(answer(&list, "SELECT a FROM t"), json!([[1], ["[2]"]]));
    let odd = [("odd \"name\".csv", "a b,\"c\"\"d\"\n1,2\n")];
    assert_eq!(answer(&odd, "SELECT \"a b\" + \"c\"\"d\" FROM \"odd \"\"name\"\"\""), json!([[3]]));
}

#[test]
fn sql_query_imports_many_rows_and_returns_a_page() {
    let text: String =
        std::iter::once("n,name\n".to_owned()).chain((0..20_000).map(|n| format!("{n},name {n}\n"))).collect();
    let files = [("t.csv", text.as_str())];
    assert_eq!(answer(&files, "SELECT count(*), sum(n) FROM t"), json!([[20_000, 199_990_000]]));
    let page = ask(&files, "SELECT * FROM t").unwrap();
    assert_eq!((page["rows"].as_array().unwrap().len(), &page["fitting_rows"]), (1_000, &json!(20_000)));
    assert!(page["cut"].is_string());
}

#[test]
fn sql_other_than_select_is_refused() {
    for query in [
        "INSERT INTO sales VALUES (9, 'x', 1, 'y')",
        "DELETE FROM sales",
        "DROP TABLE sales",
        "UPDATE sales SET id = 1 RETURNING id",
        "ATTACH 'other.db' AS other",
        "PRAGMA writable_schema = 1",
        "VACUUM INTO 'x'",
        "CREATE TABLE t (a)",
        "BEGIN",
    ] {
        let told = ask(&[("sales.csv", SALES)], query).unwrap_err();
        assert!(matches!(&told, Error::Invalid(message) if message.contains("only SELECT")), "{query}: {told:?}");
    }
}

#[test]
fn sql_error_names_the_cause() {
    let files = [("sales.csv", SALES)];
    for (query, says) in [
        ("SELECT nope FROM sales", "no such column: nope"),
        ("SELECT 1 FROM nope", "no such table: nope"),
        ("SELEC 1", "`query`: "),
        ("SELECT 1; SELECT 2", "`query`: "),
        ("", "`query`: "),
    ] {
        let told = ask(&files, query).unwrap_err().to_string();
        assert!(told.contains(says), "{query}: {told}");
    }
    for (path, text, says) in [
        ("t.xlsx", "", "must end in"),
        ("t.json", "[1]", "expected objects"),
        ("t.json", "{", "`t.json`: "),
        ("t.csv", "", "no columns"),
    ] {
        let told = ask(&[(path, text)], "SELECT 1").unwrap_err().to_string();
        assert!(told.contains(says), "{path}: {told}");
    }
    assert!(ask(&[], "SELECT 1").unwrap_err().to_string().contains("1 to 8"));
    assert!(ask(&files, &"(".repeat(101)).unwrap_err().to_string().contains("100 nested brackets"));
    assert!(ask(&files, &" ".repeat(16_385)).unwrap_err().to_string().contains("16385 bytes"));
    let large = "a\n".repeat(16 << 20) + "b";
    assert!(ask(&[("t.csv", &large)], "SELECT 1").unwrap_err().to_string().contains("more than 33554432 bytes"));
}

#[test]
fn sql_query_reads_a_sqlite_file() {
    let mut made = graphitesql::Connection::open_memory().unwrap();
    made.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)").unwrap();
    for id in 0..2_000 {
        made.execute(&format!("INSERT INTO users VALUES ({id}, 'name {id} {}')", "x".repeat(100))).unwrap();
    }
    let file = made.serialize().unwrap();
    assert!(file.len() > 3 * 64 * 1024, "it is of several blocks");
    let memory = Memory([("a.db".to_owned(), file), ("b.db".to_owned(), b"nonsense".repeat(100))].into());
    let connection = database::open("a.db", &memory).unwrap();
    let rows = |query| serde_json::to_value(sql::query(&connection, query).unwrap()).unwrap()["rows"].clone();
    assert_eq!(rows("SELECT count(*), max(id), min(length(name)) FROM users"), json!([[2_000, 1_999, 107]]));
    assert_eq!(rows("SELECT name FROM sqlite_schema"), json!([["users"]]));
    assert!(sql::query(&connection, "DELETE FROM users").is_err());
    let told = |path| database::open(path, &memory).err().unwrap().to_string();
    assert!(told("b.db").contains("not a readable SQLite database"), "{}", told("b.db"));
    assert!(told("c.db").contains("`c.db` does not exist"));
    assert_eq!(vec![1_u8, 2].read_at(5, 1), Ok(Vec::new()));
}
