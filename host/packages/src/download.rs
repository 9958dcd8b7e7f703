//! Files from web servers.

use futures_util::StreamExt;
use http::{Method, StatusCode, header};
use shelly_core::{error::Fault, limits};
use shelly_net::{HttpClient, HttpRequest, fault_of_status, is_loopback, origin};
use url::Url;

use crate::package_error::PackageError;

/// Returns `true` if a request may go to `url`: over TLS, or without it if both `url` and `from`, the address that led
/// there, are on this machine.
pub(crate) fn is_safe(url: &Url, from: &Url) -> bool {
    url.scheme() == "https" || url.scheme() == "http" && is_loopback(url) && is_loopback(from)
}

/// Gets a file of at most `most` bytes; `None` if the server has none there.
///
/// # Errors
///
/// [`PackageError`] if the server does not give it, leads to an address without TLS, or the file is larger.
pub async fn download(http: &HttpClient, url: &Url, most: u64) -> Result<Option<Vec<u8>>, PackageError> {
    let failed = |fault: Fault| PackageError::Download { url: url.to_string(), fault };
    let mut at = url.clone();
    for _ in 0..=limits::REGISTRY_REDIRECTS {
        if !is_safe(&at, url) {
            return Err(failed(Fault::invalid("an address without TLS; only this machine is reached without it")));
        }
        let request = HttpRequest { total: limits::REGISTRY_TIME, ..HttpRequest::new(at.clone()) };
        let response = http.exchange(Method::GET, &request, None).await.map_err(failed)?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if status.is_redirection() {
            let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| at.join(location).ok());
            at = next.ok_or_else(|| failed(Fault::invalid("the server leads to something that is not an address")))?;
            continue;
        }
        if status != StatusCode::OK {
            let text = response.beginning(limits::ERROR_BODY_BYTES).await;
            let text = String::from_utf8_lossy(&text);
            return Err(failed(fault_of_status(&origin(&at), status.as_u16(), None, &text, &[])));
        }
        let (mut bytes, mut stream) = (Vec::new(), response.into_stream());
        while let Some(chunk) = stream.next().await {
            bytes.extend(chunk.map_err(failed)?);
            if bytes.len() as u64 > most {
                return Err(PackageError::TooLarge { of: url.to_string(), most });
            }
        }
        return Ok(Some(bytes));
    }
    Err(failed(Fault::other(format!("the server redirects more than {} times", limits::REGISTRY_REDIRECTS))))
}

#[cfg(test)]
mod tests {
    use shelly_test_support::{CannedResponse, TestServer, answer};

    use super::*;

    /// Downloads four bytes at most from a server that answers so.
    async fn four_bytes(answers: Vec<CannedResponse>) -> Result<Option<Vec<u8>>, String> {
        let server = TestServer::start(answers).await;
        let url = Url::parse(&format!("{}/a", server.url)).unwrap();
        let got = download(&HttpClient::new().unwrap(), &url, 4).await;
        got.map_err(|error| error.report().to_string())
    }

    #[tokio::test]
    async fn file_is_downloaded_within_its_bounds() {
        let to = |location: &str| answer("302 Found", &format!("location: {location}\r\n"), "");
        let ok = |text: &str| answer("200 OK", "", text);
        assert_eq!(four_bytes(vec![to("/b"), ok("code")]).await, Ok(Some(b"code".to_vec())));
        assert_eq!(four_bytes(vec![answer("404 Not Found", "", "")]).await, Ok(None));
        let endless = (0..=limits::REGISTRY_REDIRECTS).map(|_| to("/a")).collect();
        for (answers, says) in [
            (vec![ok("codes")], "has more than 4 bytes"),
            (endless, "the server redirects more than 5 times"),
            (vec![to("http://files.example/b")], "an address without TLS"),
            (vec![answer("302 Found", "", "")], "leads to something that is not an address"),
            (vec![answer("403 Forbidden", "", "no")], "403 Forbidden: no"),
        ] {
            let said = four_bytes(answers).await.unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }
}
