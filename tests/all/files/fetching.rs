use super::*;
use crate::bad_input::{Server, answer};

/// Asserts that a fetched page is readable, and that only granted servers are asked.
#[test]
pub fn fetch() {
    let paragraph =
        "<p>Rust is fast, and safe, and has no garbage collector, and that is why so many people use it.</p>";
    let page = format!(
        "<html><head><title>On Rust</title></head><body><nav>menu</nav><article>{}</article><script>x()</script></body></html>",
        paragraph.repeat(9)
    );
    let deep = format!("<title>Deep</title>{}needle", "<ul><li><blockquote>".repeat(900));
    let endless = format!("{}needle", "<div>".repeat(200_000));
    let tables = format!("<title>Tables</title>{}needle", "<table><tr><td>".repeat(45));
    let quotes = format!("{}needle", "<blockquote><ul><li>".repeat(63));
    let server = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/page") => answer("200 OK\r\ncontent-type: text/html", &page),
        Some("/deep") => answer("200 OK\r\ncontent-type: text/html", &deep),
        Some("/endless") => answer("200 OK\r\ncontent-type: text/html", &endless),
        Some("/quotes") => answer("200 OK\r\ncontent-type: text/html", &quotes),
        Some("/tables") => answer("200 OK\r\ncontent-type: text/html", &tables),
        Some("/json") => answer("200 OK\r\ncontent-type: application/json", r#"{"b":1,"a":[2]}"#),
        Some("/away") => answer("302 Found\r\nlocation: https://example.com/x", ""),
        Some("/long") => answer("200 OK\r\ncontent-type: text/plain", &"0123456789".repeat(10_000)),
        Some("/post") => answer("200 OK\r\ncontent-type: text/plain", request),
        _ => answer("404 Not Found\r\ncontent-type: text/plain", "nothing here"),
    });
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port);
    let may = format!("fetch: {{http: [{{url: '{}', methods: [GET, POST]}}]}}", url(""));
    let place = Place::new();
    tells(
        &place,
        &may,
        &[
            ("http_fetch", json!({"url": url("/page")}), "HTTP 200, text/html\n\n# On Rust\n\nRust is fast, and safe"),
            ("http_fetch", json!({"url": url("/page"), "raw": true}), "<nav>menu</nav>"),
            ("http_fetch", json!({"url": url("/deep")}), "needle"),
            ("http_fetch", json!({"url": url("/endless")}), "needle"),
            // What is nested as deeply as Markdown is made of leaves room on the guest's stack.
            ("http_fetch", json!({"url": url("/tables")}), "needle"),
            ("http_fetch", json!({"url": url("/quotes")}), "needle"),
            ("http_fetch", json!({"url": url("/json")}), "{\n  \"b\": 1,\n  \"a\": [\n    2\n  ]\n}"),
            (
                "http_fetch",
                json!({"url": url("/long"), "offset": 90_000}),
                "characters 90000 to 100000 of 100000\n\n0123456789",
            ),
            (
                "http_fetch",
                json!({"url": url("/post"), "method": "post", "headers": {"x-a": "b"}, "body": "sent"}),
                "x-a: b",
            ),
            ("http_fetch", json!({"url": url("/none")}), "HTTP 404, text/plain\n\nnothing here"),
            ("http_fetch", json!({"url": "127.0.0.1"}), "`url` has no scheme"),
            // What is not granted is named, for whoever may grant it: what was asked for, and where a redirect led.
            ("http_fetch", json!({"url": "https://example.org/?q=secret"}), "https://example.org"),
            ("http_fetch", json!({"url": url("/away")}), "https://example.com"),
        ],
    );
    assert!(server.asked.lock().unwrap().iter().all(|request| !request.contains("example")));
}
