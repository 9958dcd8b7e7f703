//! The address and the bearer token of commands that serve over HTTP.

use std::{
    env::VarError,
    io::{self, Read},
    net::SocketAddr,
    path::Path,
};

use tokio::net::TcpListener;

use super::render::path_name;
use crate::{
    error::{ErrorKind, Report, why_unreadable},
    files, limits,
    net::{
        Secret,
        http_server::{AccessPolicy, BearerToken},
    },
};

/// Parses the address of a server: `127.0.0.1:PORT`, or `:PORT` for short. A refusal shows `USUAL`, the usual port of the
/// command.
pub fn address<const USUAL: u16>(given: &str) -> Result<SocketAddr, String> {
    let port = given.strip_prefix("localhost:").or_else(|| given.strip_prefix(':'));
    let whole = port.map_or_else(|| given.to_owned(), |port| format!("127.0.0.1:{port}"));
    whole
        .parse()
        .map_err(|_| format!("not an IP address with a port; write it as 127.0.0.1:{USUAL}, or :{USUAL} for short"))
}

/// Listens at an address, if the access policy suits it. `option` is the one that names the address.
pub async fn listen(
    address: SocketAddr,
    policy: &AccessPolicy,
    option: &str,
) -> Result<(TcpListener, SocketAddr), Report> {
    policy.check(address).map_err(|why| {
        let hint = match policy.token.is_none() && !is_loopback(address) {
            true => format!(
                "listen on this machine alone with {option} :{port}, or set a token: export TOKEN=$(openssl rand -hex 32), then \
                 --token-env TOKEN",
                port = address.port()
            ),
            false => "write a host as tools.example.com, without a port; an origin as https://tools.example.com".to_owned(),
        };
        Report::new(ErrorKind::Usage, "cannot serve over HTTP").cause(why).hint(hint)
    })?;
    let cannot = |error: io::Error| {
        Report::new(ErrorKind::Usage, format!("cannot listen on {address}"))
            .cause(error)
            .hint("choose another address or port; port 0 picks a free port")
    };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    Ok((listener, address))
}

/// Returns `true` if other machines cannot reach this address.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Returns the token that an environment variable holds, and its text, which no run may show.
///
/// # Errors
///
/// A [`Report`] if the variable is not set, or holds no usable token.
pub fn token_of_variable(variable: &str) -> Result<(BearerToken, Secret), Report> {
    let shown = variable.escape_debug();
    let set = format!("set it to a random value: export {shown}=$(openssl rand -hex 32)");
    let wrong = |why: String| {
        let message = format!("the environment variable `{shown}` holds no usable token");
        Report::new(ErrorKind::Usage, message).cause(why).hint(&*set)
    };
    let token = std::env::var(variable).map_err(|error| match error {
        VarError::NotPresent => {
            let message = format!("the environment variable `{shown}`, which --token-env names, is not set");
            Report::new(ErrorKind::Usage, message).hint(&*set)
        }
        VarError::NotUnicode(_) => wrong("the token is not UTF-8 text".into()),
    })?;
    Ok((BearerToken::new(&token).map_err(wrong)?, Secret::new(token)))
}

/// Returns the token that a file holds, and its text, which no run may show. If there is no such file, makes a token, and
/// the file for its owner alone.
///
/// # Errors
///
/// A [`Report`] if the file cannot be used: others can read it, or it holds no usable token.
pub fn token_of_file(path: &Path) -> Result<(BearerToken, Secret), Report> {
    let cannot = || Report::new(ErrorKind::Usage, format!("cannot use the token file {}", path_name(path)));
    let wrong =
        |why: String| cannot().cause(why).hint("write a random value into it, or remove it, so that a token is made");
    let text = match read_token(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = made_token()?;
            let made = files::create(path, format!("{token}\n").as_bytes());
            // Of two servers that start at once, the second one reads what the first one has made.
            let not_made = |error: io::Error| {
                cannot()
                    .cause(why_unreadable(&error))
                    .hint("name a file in a folder that exists, and that you can write to")
            };
            match made.map_err(not_made)? {
                true => token,
                false => read_token(path).map_err(|error| cannot().cause(why_unreadable(&error)))?,
            }
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(cannot()
                .cause("others can read it, or you cannot")
                .hint(format!("make it private: chmod 600 {}", path_name(path))));
        }
        Err(error) => return Err(cannot().cause(why_unreadable(&error))),
    };
    Ok((BearerToken::new(text.trim()).map_err(wrong)?, Secret::new(text.trim())))
}

/// Reads a token file. One that others can read is refused.
fn read_token(path: &Path) -> io::Result<String> {
    let file = files::open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    let mut text = String::new();
    file.take(limits::SERVE_TOKEN_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Makes a random token: `shelly_` and hexadecimal digits.
///
/// # Errors
///
/// A [`Report`] if the system gives no random bytes.
pub fn made_token() -> Result<String, Report> {
    let mut random = [0; limits::SERVE_TOKEN_RANDOM_BYTES];
    let filled = getrandom::fill(&mut random);
    filled.map_err(|error| Report::new(ErrorKind::Run, "cannot make a token").cause(error))?;
    // Whoever finds it in a file or a log sees what it is.
    Ok(format!("shelly_{}", crate::hex::encode(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_address_defaults_to_loopback() {
        for (given, expected) in [
            (":0", Some("127.0.0.1:0")),
            (":8321", Some("127.0.0.1:8321")),
            ("localhost:8321", Some("127.0.0.1:8321")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("[::1]:80", Some("[::1]:80")),
            ("8321", None),
            ("example.com:80", None),
            (":99999", None),
            ("", None),
        ] {
            assert_eq!(address::<8_321>(given).ok(), expected.map(|address| address.parse().unwrap()), "{given}");
        }
        assert!(address::<8_322>("8322").unwrap_err().contains("write it as 127.0.0.1:8322, or :8322 for short"));
    }

    #[test]
    fn token_file_is_made_private_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        token_of_file(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let random = text.trim().strip_prefix("shelly_").unwrap();
        assert_eq!(random.len(), 2 * limits::SERVE_TOKEN_RANDOM_BYTES);
        token_of_file(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "it is read");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            mode(0o640);
            assert!(token_of_file(&path).unwrap_err().hint.unwrap().starts_with("make it private: chmod 600 "));
            mode(0o600);
        }
        for wrong in ["short".to_owned(), "0123456789 abcdef".to_owned(), String::new()] {
            std::fs::write(&path, &wrong).unwrap();
            assert!(token_of_file(&path).is_err(), "{wrong}");
        }
        // What is behind the bound is not read.
        let long = "x".repeat(usize::try_from(limits::SERVE_TOKEN_FILE_BYTES).unwrap());
        std::fs::write(&path, format!("{long}\n ")).unwrap();
        token_of_file(&path).unwrap();
        assert_ne!(made_token().unwrap(), made_token().unwrap());
    }
}
