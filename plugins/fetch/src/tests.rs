use shelly_plugin::http::Body;

use super::*;

const SHOW: Wanted = Wanted { raw: false, offset: 0 };

fn fetched(status: u16, headers: &[(&str, &str)], body: &[u8], wanted: &Wanted) -> Result<Reply, Error> {
    reply(Response::new(status, headers, Body::of([body])), "https://example.com/a/b.html?q", wanted)
}

fn text(content_type: &str, body: &[u8]) -> String {
    match fetched(200, &[("content-type", content_type)], body, &SHOW).unwrap().0.as_slice() {
        [Content::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fetched_text_is_decoded_by_its_declared_charset() {
    for (content_type, body, expected) in [
        ("text/plain; charset=utf-8", "ünï 日本\r\n".as_bytes(), "ünï 日本\r\n"),
        ("text/plain; charset=ISO-8859-1", b"gr\xfc\xdfe", "grüße"),
        ("text/plain; charset=\"Shift_JIS\"", b"\x93\xfa\x96{", "日本"),
        ("text/plain", b"gr\xfc\xdfe \x80", "grüße €"),
        ("text/plain; charset=latin1", b"\xef\xbb\xbfB\xc3\xb6", "Bö"),
        ("text/plain", b"\xff\xfeh\0i\0", "hi"),
        ("text/plain; charset=nonsense", "ü".as_bytes(), "ü"),
        ("application/x-yaml", b"a: 1\n", "a: 1\n"),
        ("", b"just text", "just text"),
        ("text/csv", b"a,b\n<html>,2", "a,b\n<html>,2"),
    ] {
        let shown = text(content_type, body);
        let (head, shown) = shown.split_once("\n\n").unwrap();
        assert_eq!(shown, expected, "{content_type}");
        assert!(head.starts_with("HTTP 200"), "{head}");
    }
}

#[test]
fn fetched_json_is_indented_without_changing_values() {
    let odd = r#"{"b":[1,2.50,12345678901234567890123],"a":{"x":"}\"{\\","y":[] , "z": { }},"n":null}"#;
    let expected = "{\n  \"b\": [\n    1,\n    2.50,\n    12345678901234567890123\n  ],\n  \"a\": {\n    \"x\": \"}\\\"{\\\\\",\n    \
                    \"y\": [],\n    \"z\": {}\n  },\n  \"n\": null\n}";
    assert_eq!(json::pretty(odd).as_deref(), Some(expected));
    assert!(text("application/problem+json", odd.as_bytes()).ends_with(expected));
    for not in ["", "{", "{'a':1}", "1 2", &"[".repeat(100_000)] {
        assert_eq!(json::pretty(not), None);
    }
    assert!(text("application/json", b"not json").ends_with("\n\nnot json"));
    let raw = fetched(200, &[("content-type", "application/json")], b"{\"a\":1}", &Wanted { raw: true, offset: 0 });
    assert_eq!(raw.unwrap(), Reply::from("HTTP 200, application/json\n\n{\"a\":1}"));
}

/// Returns a page with a frame around an article.
fn article() -> String {
    let paragraph = "<p>Rust is a language that is fast, and <a href=\"/safe\">safe</a>, and has no garbage collector. \
                     It is used for <b>systems</b>, for servers, and for what runs in browsers, and so on.</p>";
    format!(
        "<!DOCTYPE html><html><head><title>On  Rust</title><style>p {{ color: red }}</style></head><body>\
         <nav><ul><li><a href='/'>Home</a></li><li><a href='/about'>About us</a></li></ul></nav>\
         <article><h2>Why</h2>{}<ul><li>one</li><li>two</li></ul><pre><code>let a = 1;</code></pre>{}</article>\
         <script>alert('no')</script><footer>Imprint and cookies</footer></body></html>",
        paragraph.repeat(3),
        paragraph.repeat(3)
    )
}

#[test]
fn fetched_page_shows_its_main_content() {
    let shown = text("text/html; charset=utf-8", article().as_bytes());
    for part in ["# On Rust\n", "## Why", "[safe](https://example.com/safe)", "**systems**", "let a = 1;", "one"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for part in ["alert", "color", "Imprint", "About us", "<p>"] {
        assert!(!shown.contains(part), "{part}: {shown}");
    }
    let raw = fetched(200, &[("content-type", "text/html")], article().as_bytes(), &Wanted { raw: true, offset: 0 });
    assert_eq!(raw.unwrap(), Reply::from(format!("HTTP 200, text/html\n\n{}", article())));
}

#[test]
fn fetched_page_without_main_content_is_shown_whole() {
    let list: String = (0..200).map(|n| format!("<tr><td><a href='/{n}'>Story {n}</a></td></tr>")).collect();
    let shown = text("text/html", format!("<html><body><table>{list}</table></body></html>").as_bytes());
    assert!(shown.contains("Story 0") && shown.contains("Story 199"), "{shown}");
    let small = text("text/html", b"<h1>Hi</h1><p>It works!</p>");
    assert!(small.contains("# Hi") && small.contains("It works!"), "{small}");
    let empty =
        text("text/html", b"<html><head><title>App</title></head><body><div id=root></div><script>x()</script>");
    assert!(empty.contains("# App\n\n(the page has no text"), "{empty}");
    let meta = text("text/html", b"<meta charset='windows-1251'><p>\xcf\xf0\xe8\xe2\xe5\xf2</p>");
    assert!(meta.contains("Привет"), "{meta}");
}

#[test]
fn malformed_page_is_converted_in_bounded_time() {
    for (name, html) in [
        ("endless", "<div>".repeat(200_000) + "needle"),
        ("endless and torn", "<DIV ".repeat(200_000) + ">needle"),
        ("deep", "<div>".repeat(1_000) + "needle"),
        ("lists", "<ul><li>".repeat(900) + "needle"),
        ("unclosed", "<p>needle<li>b<br>".repeat(20_000)),
        ("quotes", "<blockquote>".repeat(150) + "needle"),
        ("tables", "<table><tr><td>".repeat(60) + "needle"),
        ("wide", "<p>needle</p>".repeat(60_000)),
        ("torn", "<p needle<b <<< needle".repeat(1_000) + "<p>needle"),
        ("entities", "&amp;&#0;&nosuch;&#x110000; needle".repeat(1_000)),
    ] {
        let shown = text("text/html", html.as_bytes());
        assert!(shown.contains("needle"), "{name}: {}", &shown[..shown.len().min(500)]);
    }
}

#[test]
fn too_deeply_nested_page_is_shown_as_plain_text() {
    let page = format!("<style>a</style>{}one<script>x < y</script> two<p>three", "<div>".repeat(3_000));
    assert_eq!(page::markdown(&page, "https://example.com"), "one\ntwo\nthree");
    let deep = format!("<title>Deep</title>{}one<p>two", "<ul><li>".repeat(300));
    assert_eq!(page::markdown(&deep, "https://example.com"), "# Deep\n\nonetwo");
}

#[test]
fn long_fetched_text_is_paged() {
    let long: String = "äöü\n".repeat(20_000);
    let page =
        |offset| match fetched(200, &[("content-type", "text/plain")], long.as_bytes(), &Wanted { raw: false, offset })
        {
            Ok(Reply(content)) => match &content[..] {
                [Content::Text(text)] => Ok(text.clone()),
                other => panic!("{other:?}"),
            },
            Err(error) => Err(error),
        };
    let first = page(0).unwrap();
    let head = "HTTP 200, text/plain, characters 0 to 30000 of 80000: continue with `offset` 30000\n\n";
    assert_eq!(first, format!("{head}{}", "äöü\n".repeat(7_500)));
    let last = page(60_000).unwrap();
    assert_eq!(last, format!("HTTP 200, text/plain, characters 60000 to 80000 of 80000\n\n{}", "äöü\n".repeat(5_000)));
    assert_eq!(page(80_000), Err(Error::Invalid("`offset` is 80000, but the text has 80000 characters".into())));
    let endless = text("text/plain", &vec![b'x'; TEXT + 5]);
    assert!(
        endless.starts_with("HTTP 200, text/plain, characters 0 to 30000 of 1048576: continue with"),
        "{}",
        &endless[..99]
    );
    assert!(endless.contains("only the first MiB of the body was read"));
}

#[test]
fn fetched_media_is_returned_and_binaries_are_named() {
    let png = b"\x89PNG\r\n\x1a\n\0\0".to_vec();
    let Reply(content) = fetched(200, &[("content-type", "application/octet-stream")], &png, &SHOW).unwrap();
    let media =
        Media { media_type: "image/png".into(), name: Some("b.html".into()), source: Source::Bytes(png.clone()) };
    assert_eq!(content, [Content::Text("HTTP 200, image/png".into()), Content::Media(media)]);
    let large = [&png[..], &vec![0; 2 * TEXT]].concat();
    assert_eq!(fetched(200, &[], &large, &SHOW).unwrap().0.len(), 2, "a picture may be larger than a text");
    let larger = [&png[..], &vec![0; MEDIA]].concat();
    assert!(matches!(fetched(200, &[], &larger, &SHOW), Err(Error::TooLarge(_))));
    assert_eq!(text("application/zip", b"PK\x03\x04\0\0"), "HTTP 200, 6 bytes that are not text (application/zip)");
    assert_eq!(text("video/mp4", b"no zero"), "HTTP 200, 7 bytes that are not text (video/mp4)");
}

#[test]
fn fetch_reply_has_the_status_and_body() {
    let missing = fetched(404, &[("content-type", "text/plain")], b"not here", &SHOW).unwrap();
    assert_eq!(missing, Reply::from("HTTP 404, text/plain\n\nnot here"));
    assert_eq!(fetched(204, &[], b"", &SHOW).unwrap(), Reply::from("HTTP 204, no body"));
    let moved = fetched(302, &[("location", "/else")], b"", &SHOW).unwrap();
    assert_eq!(moved, Reply::from("HTTP 302, location: /else, no body"));
    let broken = Response::new(200, &[], Body::of(["abc"]).and_then_fails(Error::unavailable("it was cut")));
    assert_eq!(reply(broken, "", &SHOW), Err(Error::unavailable("it was cut")));
}

#[test]
fn fetch_request_follows_the_arguments() {
    let args = |json: &str| serde_json::from_str::<HttpFetchArgs>(json).unwrap();
    let plain = request(args(r#"{"url":" https://example.com/a#part "}"#)).unwrap();
    let accept = "text/html, application/json, text/*;q=0.9, */*;q=0.5";
    assert_eq!(plain, Request::get("https://example.com/a").timeout(TIME).header("accept", accept));
    let full = r#"{"url":"https://a.b","method":"post","headers":{"Accept":"x/y","x-a":"1"},"body":"ü"}"#;
    let expected = Request::post("https://a.b").timeout(TIME).header("Accept", "x/y").header("x-a", "1").body("ü");
    assert_eq!(request(args(full)).unwrap(), expected);
    let bare = request(args(r#"{"url":"example.com/a"}"#)).unwrap_err();
    assert_eq!(bare, Error::Invalid("`url` has no scheme; did you mean `https://example.com/a`?".into()));
}

#[test]
fn fetched_file_name_comes_from_the_url() {
    for (url, name) in [
        ("https://a.b/c/d.png?x#y", Some("d.png")),
        ("https://a.b", None),
        ("https://a.b/", None),
        ("https://a.b/?x/y.png", None),
        ("nothing", None),
    ] {
        assert_eq!(read::file_name(url).as_deref(), name, "{url}");
    }
}
