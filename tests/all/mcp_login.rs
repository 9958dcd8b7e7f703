//! The commands `mcp login` and `mcp logout`, with a browser and a server that is its own authorization server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    thread,
};

use insta::assert_snapshot;

use crate::{
    bad_input::{Server, answer},
    support::{Place, Ran},
};

/// A server that wants a login, and says where.
fn realm() -> Server {
    Server::start(|request| {
        let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        let at = format!("http://{host}");
        match request.split(" HTTP/").next().unwrap() {
            "GET /.well-known/oauth-protected-resource/mcp" => {
                answer("200 OK", &format!(r#"{{"resource":"{at}/mcp","authorization_servers":["{at}"]}}"#))
            }
            "GET /.well-known/oauth-authorization-server" => answer(
                "200 OK",
                &format!(
                    r#"{{"issuer":"{at}","authorization_endpoint":"{at}/authorize","token_endpoint":"{at}/token",
                    "registration_endpoint":"{at}/register","code_challenge_methods_supported":["S256"]}}"#
                ),
            ),
            "POST /register" => answer("201 Created", r#"{"client_id":"c-1","redirect_uris":[]}"#),
            "POST /token" => answer("200 OK", r#"{"access_token":"at-secret","token_type":"bearer"}"#),
            _ => answer("401 Unauthorized", ""),
        }
    })
}

/// A value of the query of a URL, as it was before it was written into one.
fn value(url: &str, name: &str) -> String {
    let pairs = url.split_once('?').unwrap().1.split('&').filter_map(|pair| pair.split_once('='));
    let found = pairs.into_iter().find(|(key, _)| *key == name).unwrap().1;
    found.replace("%3A", ":").replace("%2F", "/")
}

/// A person logs in: what the program came to, and all that it logged.
fn log_in(place: &Place, arguments: &[&str]) -> (Ran, String) {
    let mut login = place.command(&[&["mcp", "login"], arguments].concat());
    let login = login.env("SHELLY_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut login = login.spawn().unwrap();
    let said = BufReader::new(login.stderr.take().unwrap()).lines();
    let mut said = said.map(Result::unwrap);
    assert!(said.any(|line| line.starts_with("open this URL to log in to ")));
    let shown = said.next().unwrap();
    let logged = thread::spawn(move || said.collect::<Vec<_>>().join("\n"));
    let (back, state) = (value(&shown, "redirect_uri"), value(&shown, "state"));
    let port = back.strip_prefix("http://127.0.0.1:").unwrap().strip_suffix("/callback").unwrap().to_owned();
    let mut browser = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(browser, "GET /callback?code=code-secret&state={state} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n").unwrap();
    let mut page = String::new();
    browser.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("close this page"), "{page}");
    let done = place.ran(login.wait_with_output().unwrap());
    assert_eq!((done.code, &*done.stdout), (0, "logged in\n"), "{}", done.shown());
    (done, logged.join().unwrap())
}

#[test]
fn mcp_login_accepts_a_configured_server_name() {
    let (place, server) = (Place::new(), realm());
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    place.file("shelly.yaml", format!("mcp_servers: [{{name: web, url: '{url}'}}, {{name: p, command: x}}]\n"));
    let list = || place.run(&["mcp", "list", "web", "--trust"]);
    let shown = |ran: &Ran| ran.shown();
    let before = list();
    assert!(before.code != 0 && before.stderr.contains("shelly-host mcp login web"), "{}", shown(&before));
    let sent =
        || server.asked.lock().unwrap().iter().any(|request| request.contains("authorization: Bearer at-secret"));
    assert!(!sent());
    log_in(&place, &["web", "--trust"]);
    list();
    assert!(sent(), "{:?}", server.asked.lock().unwrap());
    let out = place.run(&["mcp", "logout", "web", "--config", "shelly.yaml"]);
    assert_eq!((out.code, &*out.stdout), (0, "logged out\n"), "{}", shown(&out));
    log_in(&place, &["web", "--config", "shelly.yaml"]);
    let out = place.run(&["mcp", "logout", "web", "--trust"]);
    assert_eq!((out.code, &*out.stdout), (0, "logged out\n"), "{}", shown(&out));
    let program = place.run(&["mcp", "login", "p", "--trust"]);
    assert!(program.code == 2 && program.stderr.contains("`p` is a program"), "{}", shown(&program));
}

#[test]
fn mcp_login_stores_a_private_token_and_logout_removes_it() {
    let (place, server) = (Place::new(), realm());
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    let (_, logged) = log_in(&place, &[&url]);
    assert!(logged.contains("TRACE") && !logged.contains("-secret"), "{logged}");

    let kept = place.trust_store().with_file_name("mcp");
    let files: Vec<_> = std::fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    assert!(std::fs::read_to_string(&files[0]).unwrap().contains("at-secret"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    }
    for said in ["logged out\n", "not logged in\n"] {
        let ran = place.run(&["mcp", "logout", &url]);
        assert_eq!((ran.code, &*ran.stdout), (0, said), "{}", ran.shown());
        assert!(!files[0].exists());
    }
}

#[test]
fn mcp_login_names_a_busy_port() {
    let (place, taken) = (Place::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = place.run(&["mcp", "login", "https://mcp.example/", "--port", &port]);
    let told = format!("error: cannot listen for the redirect of a login on port {port}: ");
    assert!(ran.code == 1 && ran.stderr.starts_with(&told) && ran.stderr.contains("--port"), "{}", ran.shown());
}

#[test]
fn mcp_login_refuses_invalid_servers() {
    let place = Place::new();
    let told: String = ["mcp.example", "ftp://mcp.example/", "http://mcp.example/"]
        .iter()
        .map(|url| format!("{url}\n{}\n", place.run(&["mcp", "login", url]).shown()))
        .collect();
    assert_snapshot!("mcp_login_nowhere", told);
    for command in ["login", "logout"] {
        assert_snapshot!(format!("help_mcp_{command}"), place.run(&["mcp", command, "--help"]).stdout);
    }
}
