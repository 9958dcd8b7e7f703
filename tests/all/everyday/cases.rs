//! Cases of everyday work: texts of all scripts and line ends; files that are huge, locked or irregular; links; and folders
//! in which files come and go.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

/// Files as they are found, below `data`.
fn lay(place: &Place) {
    let files: [(&str, &[u8]); 16] = [
        ("ü e\u{301}.json", "{\"naïve\":\"😀\",\"k\":\"a\\r\\nb\"}".as_bytes()),
        ("bom.json", b"\xef\xbb\xbf{\"a\":1}"),
        ("crlf.json", b"{\r\n\"a\": 1\r\n}\r\n"),
        ("bad.json", b"{\"a\": \"\xff\"}"),
        ("utf16.json", b"\xff\xfe{\0}\0"),
        ("empty.json", b""),
        ("lines.jsonl", "{\"a\":\"é\"}\r\n\r\n{\"a\":\"日\"}\r\n".as_bytes()),
        ("日本/表.csv", "名前,値\r\n\"東京, 都\",1\r\n😀,2\r\n".as_bytes()),
        ("bom.csv", b"\xef\xbb\xbfa,b\n1,2\n"),
        ("semi.csv", b"a;b\r\n1;\"x\r\ny\"\r\n"),
        ("cr.csv", b"a,b\r1,2\r"),
        ("bad.csv", b"a,b\n\xff,2\n"),
        ("empty.csv", b""),
        ("locked.json", b"[1]"),
        ("locked.csv", b"a\n1\n"),
        ("many/x", b""),
    ];
    for (name, bytes) in files {
        place.file(&format!("data/{name}"), bytes);
    }
    fs::File::create(place.path().join("data/huge.json")).unwrap().set_len(20 << 20).unwrap();
    place.file("data/huge.csv", format!("a,b\n{}", "1,22222222\n".repeat(200_000)));
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let data = place.path().join("data");
        for (to, name) in [
            ("bom.json", "in.json"),
            ("/etc/passwd", "out.json"),
            ("gone", "nowhere.json"),
            ("loop.json", "loop.json"),
            ("日本", "linked"),
        ] {
            symlink(to, data.join(name)).unwrap();
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, data.join("pipe.json"), 0o600.into()).unwrap();
        for name in ["locked.json", "locked.csv"] {
            fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o000)).unwrap();
        }
    }
}

/// The beginning of an answer, or a part of an error.
type Expected = Result<&'static str, &'static str>;

async fn check(guest: &Shipped, tool: &str, arguments: Value, expected: Expected) {
    let shown: String = arguments.to_string().chars().take(160).collect();
    match (guest.call(tool, arguments).await, expected) {
        (Ok(said), Ok(begins)) => assert!(said.starts_with(begins), "{tool} {shown}: {said:.400}"),
        (Err(said), Err(says)) => assert!(said.contains(says), "{tool} {shown}: {said:.400}"),
        (got, _) => panic!("{tool} {shown}: {got:?}, not {expected:?}"),
    }
}

/// Whoever runs the tests may read what is locked, or not.
fn unless_locked(place: &Place, file: &str, says: &'static str) -> Expected {
    fs::read(place.path().join("data").join(file)).map_or(Err("permission denied"), |_| Ok(says))
}

#[cfg(unix)]
#[tokio::test]
async fn everyday_file_tools_read_files_and_name_errors() {
    let guests = [Shipped::new("json-query").await, Shipped::new("encode").await, Shipped::new("tables").await];
    guests.iter().for_each(|guest| lay(&guest.place));
    let [json_query, encode, tables] = &guests;
    // Files that no tool reads, whichever it is.
    let none: [(&str, &str); 10] = [
        ("data/out.json", "`data/out.json` is not allowed; use a path in the granted folders"),
        ("data/nowhere.json", "`data/nowhere.json` does not exist"),
        ("data/loop.json", "`data/loop.json` is a link that leads back to itself"),
        ("data/pipe.json", "`data/pipe.json` is neither a file nor a folder"),
        ("data/none.json", "`data/none.json` does not exist"),
        ("../x.json", "`../x.json` is not allowed"),
        ("/etc/passwd.json", "`/etc/passwd.json` is absolute"),
        ("data/bom.json/x.json", "is not a folder, or leads through a file"),
        ("data/x\0y.json", "EINVAL"),
        ("data/many", ""),
    ];
    for (path, says) in none {
        check(json_query, "json_query", json!({"path": path, "filter": "."}), Err(says)).await;
        check(encode, "hash", json!({"path": path}), Err(says)).await;
        check(tables, "csv_read", json!({"path": path}), Err(says)).await;
        let table = json!([{"name": "t", "path": path}]);
        check(tables, "sql_query", json!({"query": "SELECT * FROM t", "tables": table}), Err(says)).await;
    }
    let locked = unless_locked(&json_query.place, "locked.json", "[1]\n");
    for (path, expected) in [
        ("data/ü e\u{301}.json", Ok("{\"naïve\":\"😀\",\"k\":\"a\\r\\nb\"}\n")),
        ("data/bom.json", Ok("{\"a\":1}\n")),
        ("data/crlf.json", Ok("{\"a\":1}\n")),
        ("data/in.json", Ok("{\"a\":1}\n")),
        ("data/lines.jsonl", Ok("{\"a\":\"é\"}\n{\"a\":\"日\"}\n")),
        ("data/empty.json", Ok("no results")),
        ("data/bad.json", Err("`data/bad.json` is not text: byte 7 is not UTF-8")),
        ("data/utf16.json", Err("byte 0 is not UTF-8")),
        ("data/huge.json", Err("has 20971520 bytes, the maximum to read at once is 16777216")),
        ("data/locked.json", locked),
    ] {
        check(json_query, "json_query", json!({"path": path, "filter": "."}), expected).await;
    }
    // What is hashed is read in pieces, and may be anything.
    for (path, says) in [
        ("data/bom.json", "e3170108e7583c4ad52e05763a606c1dceef76c81a8e1503dde511b5ca764f81"),
        ("data/in.json", "e3170108e7583c4ad52e05763a606c1dceef76c81a8e1503dde511b5ca764f81"),
        ("data/huge.json", "cd52d81e25f372e6fa4db2c0dfceb59862c1969cab17096da352b34950c973cc"),
    ] {
        assert_eq!(encode.says_json("hash", json!({"path": path})).await["hex"], says, "{path}");
    }
    for (path, columns, row) in [
        ("data/日本/表.csv", json!(["名前", "値"]), json!(["東京, 都", "1"])),
        ("data/linked/表.csv", json!(["名前", "値"]), json!(["東京, 都", "1"])),
        ("data/bom.csv", json!(["a", "b"]), json!(["1", "2"])),
        ("data/semi.csv", json!(["a", "b"]), json!(["1", "x\r\ny"])),
        ("data/cr.csv", json!(["a", "b"]), json!(["1", "2"])),
        ("data/huge.csv", json!(["a", "b"]), json!(["1", "22222222"])),
    ] {
        let read = tables.says_json("csv_read", json!({"path": path, "limit": 1})).await;
        assert_eq!((&read["columns"], &read["rows"][0]), (&columns, &row), "{path}");
    }
    check(tables, "csv_read", json!({"path": "data/bad.csv"}), Err("is not UTF-8 at line 2")).await;
    check(tables, "csv_read", json!({"path": "data/empty.csv"}), Ok("{\"columns\":[],\"rows\":[]")).await;
    let locked = unless_locked(&tables.place, "locked.csv", "{\"columns\":[\"a\"]");
    check(tables, "csv_read", json!({"path": "data/locked.csv"}), locked).await;
    let table = json!([{"name": "表", "path": "data/日本/表.csv"}]);
    let asked = json!({"query": "SELECT \"名前\", \"値\" + 1 FROM \"表\" ORDER BY 2 DESC", "tables": table});
    assert_eq!(tables.says_json("sql_query", asked).await["rows"], json!([["😀", 3], ["東京, 都", 2]]));
}

#[tokio::test]
async fn everyday_text_tools_handle_all_scripts_and_line_ends() {
    let compare = Shipped::new("compare").await;
    let (old, new) = ("😀\r\n二\r\n三\r\n", "😀\r\n2\r\n三\r\n");
    let patch = compare.says("text_diff", json!({"a": old, "b": new})).await;
    assert!(patch.contains("-二\r\n+2\r\n"), "{patch:?}");
    assert_eq!(compare.says("apply_patch", json!({"text": old, "patch": patch})).await, new);
    let plain = json!({"text": old.replace('\r', ""), "patch": patch});
    check(&compare, "apply_patch", plain, Err("hunk #1 of 1")).await;
    for (a, b, says) in [
        ("é\n", "e\u{301}\n", "-é\n+e\u{301}\n"),
        ("a\r\n", "a\n", "-a\r\n+a\n"),
        ("a", "a\n", "\\ No newline at end of file\n"),
    ] {
        let patch = compare.says("text_diff", json!({"a": a, "b": b})).await;
        assert!(patch.contains(says), "{patch:?}");
    }
    let sides = json!({"base": "a\r\nb\r\nc\r\n", "ours": "A\r\nb\r\nc\r\n", "theirs": "a\r\nb\r\nC\r\n"});
    assert_eq!(compare.says_json("text_merge", sides).await, json!({"conflicts": 0, "text": "A\r\nb\r\nC\r\n"}));

    let convert = Shipped::new("convert").await;
    for (tool, key, given, said) in [
        (
            "markdown_to_html",
            "markdown",
            "# Ü 😀\r\n\r\n- a\r\n- b\r\n",
            "<h1>Ü 😀</h1>\n<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n",
        ),
        ("html_to_text", "html", "<p dir=rtl>שלום</p>\r\n<!-- x -->", "שלום"),
        ("html_to_markdown", "html", "<p>日本 &amp; &#x1F600;</p>\r\n<script>x()</script>", "日本 & 😀"),
    ] {
        assert_eq!(convert.says(tool, json!({ key: given })).await, said);
    }

    let encode = Shipped::new("encode").await;
    let text = "ü 😀\r\n<&>";
    for (encoding, said) in [
        ("base64", "w7wg8J+YgA0KPCY+"),
        ("base64url", "w7wg8J-YgA0KPCY-"),
        ("hex", "c3bc20f09f98800d0a3c263e"),
        ("percent", "%C3%BC%20%F0%9F%98%80%0D%0A%3C%26%3E"),
    ] {
        assert_eq!(encode.says("encode", json!({"text": text, "encoding": encoding})).await, said);
        assert_eq!(encode.says("decode", json!({"text": said, "encoding": encoding})).await, text);
    }
    check(&encode, "decode", json!({"text": "/w==", "encoding": "base64"}), Err("set `as_hex`")).await;

    let dates = Shipped::new("date-time").await;
    assert_eq!(dates.says("time_format", json!({"time": "@0", "format": "%Y年%m月"})).await, "1970年01月");
    // An hour that was left out, and one that was there twice.
    for (time, utc) in
        [("2026-03-29T02:30", "2026-03-29T01:30:00+00:00[UTC]"), ("2026-10-25T02:30", "2026-10-25T00:30:00+00:00[UTC]")]
    {
        let of = json!({"time": time, "from": "Europe/Berlin", "to": "UTC"});
        assert_eq!(dates.says_json("time_convert", of).await["time"], utc);
    }
    let calculator = Shipped::new("calculator").await;
    assert_eq!(calculator.says("calculate", json!({"expression": "3 × 4 ÷ 2 − 1"})).await, "5");
    check(&calculator, "calculate", json!({"expression": "1,5 + 1"}), Err("with a point")).await;
}

/// Says so when it is dropped, also where a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A project is built while its files are looked at: what went in the middle is not there, and all others are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_listing_survives_concurrent_file_changes() {
    let guests = [Shipped::new("filesystem").await, Shipped::new("search").await];
    let stop = AtomicBool::new(false);
    for guest in &guests {
        guest.place.file("docs/stays.txt", "needle\n");
    }
    let folders: Vec<_> = guests.iter().map(|guest| guest.place.path().join("docs")).collect();
    let churn = || {
        while !stop.load(Ordering::Relaxed) {
            for folder in &folders {
                (0..200).for_each(|at| fs::write(folder.join(format!("t{at}")), "").unwrap());
                (0..200).for_each(|at| fs::remove_file(folder.join(format!("t{at}"))).unwrap());
            }
        }
    };
    let looks = async {
        for _ in 0..150 {
            let listed = guests[0].call("fs_list", json!({"path": "docs"})).await;
            assert!(listed.as_ref().is_ok_and(|list| list.contains("stays.txt")), "{listed:?}");
            let found = guests[1].call("search_content", json!({"pattern": "needle"})).await.unwrap();
            assert!(found.contains("docs/stays.txt\n1: needle") && !found.contains("could not"), "{found}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(churn);
        let _stop = Stop(&stop);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(looks));
    });
}

/// Names that nobody can say in Unicode hide no others.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn non_unicode_file_name_does_not_hide_others() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let guests = [Shipped::new("filesystem").await, Shipped::new("search").await, Shipped::new("read-files").await];
    for guest in &guests {
        guest.place.file("docs/a.txt", "needle\n");
        guest.place.file("docs/b/c.txt", "needle\n");
        fs::write(guest.place.path().join("docs").join(OsStr::from_bytes(b"caf\xe9.txt")), "needle\n").unwrap();
        fs::create_dir(guest.place.path().join("odd")).unwrap();
        fs::write(guest.place.path().join("odd").join(OsStr::from_bytes(b"\xff")), "").unwrap();
    }
    let [files, search, read] = &guests;
    let list = files.says("fs_list", json!({"path": "docs"})).await;
    assert!(
        list.contains("\"a.txt\"")
            && list.ends_with("and further names, which cannot be shown because they are not Unicode"),
        "{list}"
    );
    let list = read.says("list_files", json!({"path": "docs"})).await;
    assert!(list.contains("a.txt (7 bytes)") && list.contains("further names"), "{list}");
    assert!(!read.says("list_files", json!({"path": "odd"})).await.contains("is empty"));
    let found = search.says("search_content", json!({"pattern": "needle"})).await;
    for says in ["docs/a.txt\n1: needle", "docs/b/c.txt\n1: needle", "could not be listed completely"] {
        assert!(found.contains(says), "{found}");
    }
}
