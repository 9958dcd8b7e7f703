//! Push notifications: the updates of tasks, sent to addresses that clients name and the operator permits.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt, future::join_all};
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{served_task::ServedTask, task_updates};
use crate::{
    a2a::{A2aError, A2aErrorKind, MEDIA_TYPE, wire::TaskPushNotificationConfig},
    capability::HttpGrant,
    error::{Fault, cut, legible},
    limits,
    net::{
        self,
        egress::{Egress, EgressLimits, EgressRequest, EgressRequestBody},
    },
    serve::hosted_runs::RunHost,
};

/// The header with the token of a config.
const TOKEN: &str = "x-a2a-notification-token";

/// Sends push notifications. Dropping it ends all of them.
pub(super) struct PushSender {
    /// The requests that the operator permits; none by default.
    permitted: HttpGrant,
    egress: Egress,
    /// Each follows one task.
    followers: Mutex<JoinSet<()>>,
    /// Cancelled when the server ends.
    stop: CancellationToken,
}

impl PushSender {
    /// Returns a sender to these addresses and no others. Redirects are not followed, and a name that leads to an address
    /// that is not granted is not reached.
    pub fn new(permitted: HttpGrant, stop: CancellationToken) -> Self {
        let bounds = EgressLimits {
            requests_per_minute: limits::EGRESS_REQUESTS_PER_MINUTE_CEILING,
            concurrency: limits::EGRESS_CONCURRENCY_CEILING,
            request_bytes: limits::A2A_REPLY_BYTES as u64,
            ..EgressLimits::default()
        };
        let egress = Egress::new(permitted.clone(), Vec::new(), bounds);
        Self { permitted, egress, followers: Mutex::new(JoinSet::new()), stop }
    }

    /// Returns `true` if some address is permitted.
    pub fn is_on(&self) -> bool {
        !self.permitted.is_empty()
    }

    /// Checks a config of a client.
    ///
    /// # Errors
    ///
    /// An [`A2aError`] if its address is not permitted, or it cannot be used.
    pub fn check(&self, config: &TaskPushNotificationConfig) -> Result<(), A2aError> {
        if !self.is_on() {
            return Err(no_push_notifications());
        }
        let url = Url::parse(&config.url).ok().filter(|_| config.url.len() <= limits::EGRESS_URL_BYTES);
        let url = url.ok_or_else(|| A2aError::invalid_params("the `url` of the config is no URL"))?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user || !self.permitted.names("POST", &url) {
            let shown = cut(&legible(&net::origin(&url)), limits::NAME_SHOWN_CHARS);
            let error = format!(
                "the operator of this server permits no push notifications to this address of {shown}; name a permitted one"
            );
            return Err(A2aError::invalid_params(error));
        }
        let proof = config.authentication.as_ref();
        let texts = [
            ("id", config.id.as_str(), limits::A2A_ID_BYTES),
            ("token", config.token.as_str(), limits::A2A_PUSH_TOKEN_BYTES),
            ("authentication.scheme", proof.map_or("", |proof| &proof.scheme), limits::A2A_PUSH_TOKEN_BYTES),
            ("authentication.credentials", proof.map_or("", |proof| &proof.credentials), limits::A2A_PUSH_TOKEN_BYTES),
        ];
        for (field, text, most) in texts {
            let is_shown = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
            if text.len() > most || !text.bytes().all(is_shown) {
                let error = format!("`{field}` of the config has more than {most} bytes, or is no visible ASCII text");
                return Err(A2aError::invalid_params(error));
            }
        }
        Ok(())
    }

    /// Sends the updates of a task to its addresses from now on, until it is over.
    pub fn follow(&self, host: &RunHost, task: &Arc<ServedTask>) {
        if !task.push.begin_following() {
            return;
        }
        let (host, task) = (host.clone(), Arc::clone(task));
        let (egress, stop) = (self.egress.clone(), self.stop.clone());
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are forgotten here.
        while followers.try_join_next().is_some() {}
        followers.spawn(async move {
            let mut updates = task_updates::followed(&host, &task, &stop);
            while let Some(update) = updates.next().await {
                tell(&egress, &task, task.push.begin_update(), host.clean_json(&update).into()).await;
            }
            // An address that came during the last update is told of the task as it is now.
            while !stop.is_cancelled() {
                let late = task.push.end_following();
                if late.is_empty() {
                    return;
                }
                let whole = task_updates::whole(&host, &task);
                tell(&egress, &task, late, host.clean_json(&whole).into()).await;
            }
        });
    }
}

/// Sends an update of a task to these addresses, to all at once: the attempts at one that is not there do not add up with
/// those at others.
async fn tell(egress: &Egress, task: &ServedTask, targets: Vec<TaskPushNotificationConfig>, body: Bytes) {
    let body = &body;
    let sends = targets.into_iter().map(|config| async move {
        let sent = send(egress, &config, body).await;
        (config, sent)
    });
    for (config, sent) in join_all(sends).await {
        if let Err(fault) = &sent {
            tracing::warn!(task = task.id(), config = config.id, %fault, "an update was not taken");
        }
        task.push.note(&config.id, sent.is_ok());
    }
}

/// Returns the error for a client of a server that sends none.
pub(super) fn no_push_notifications() -> A2aError {
    let error = "this server sends no push notifications; read the updates of a task with `SubscribeToTask`, or ask for it \
                 with `GetTask`";
    A2aError::new(A2aErrorKind::PushNotificationNotSupported, error)
}

/// Sends an update to one address, in several attempts if it is not there.
async fn send(egress: &Egress, config: &TaskPushNotificationConfig, body: &Bytes) -> Result<(), Fault> {
    let (mut attempt, mut pause) = (1, limits::A2A_PUSH_PAUSE);
    loop {
        let fault = match post(egress, config, body.clone()).await {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        let is_final = matches!(fault, Fault::Denied { .. } | Fault::Invalid { .. } | Fault::TooLarge { .. });
        if is_final || attempt == limits::A2A_PUSH_ATTEMPTS {
            return Err(fault);
        }
        sleep(pause).await;
        (attempt, pause) = (attempt + 1, pause * 2);
    }
}

/// Sends an update once. Any status but a success is a fault.
async fn post(egress: &Egress, config: &TaskPushNotificationConfig, body: Bytes) -> Result<(), Fault> {
    let mut headers = vec![("content-type".to_owned(), MEDIA_TYPE.into())];
    if !config.token.is_empty() {
        headers.push((TOKEN.to_owned(), config.token.clone().into_bytes()));
    }
    if let Some(proof) = config.authentication.as_ref().filter(|proof| !proof.credentials.is_empty()) {
        headers.push(("authorization".to_owned(), format!("{} {}", proof.scheme, proof.credentials).into_bytes()));
    }
    let request = EgressRequest {
        method: "POST".into(),
        url: config.url.clone(),
        headers,
        timeout: Some(limits::A2A_PUSH_TIME),
        body: EgressRequestBody::Bytes(body),
        ..EgressRequest::default()
    };
    let status = egress.send(request).await.map_err(|failure| failure.fault)?.status;
    match status {
        200..=299 => Ok(()),
        408 | 429 | 500..=599 => Err(Fault::other(format!("the address has answered with the status {status}"))),
        _ => Err(Fault::Denied { message: format!("the address has answered with the status {status}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> TaskPushNotificationConfig {
        TaskPushNotificationConfig { url: url.into(), ..TaskPushNotificationConfig::default() }
    }

    fn sender(urls: &[&str]) -> PushSender {
        let entry = |url: &&str| HttpGrant::entry(url, &["POST".to_owned()], &[]).unwrap();
        let permitted = urls.iter().map(entry).fold(HttpGrant::default(), |all, one| all.join(&one));
        PushSender::new(permitted, CancellationToken::new())
    }

    #[test]
    fn only_permitted_addresses_are_told() {
        let sender = sender(&["https://hooks.example.com/a2a", "http://127.0.0.1:9000"]);
        for url in ["https://hooks.example.com/a2a", "https://hooks.example.com/a2a/x?y=1", "http://127.0.0.1:9000/x"] {
            assert!(sender.check(&config(url)).is_ok(), "{url}");
        }
        for url in [
            "",
            "hooks.example.com",
            "http://hooks.example.com/a2a",
            "https://hooks.example.com/other",
            "https://hooks.example.com.evil.example/a2a",
            "https://hooks.example.com:8443/a2a",
            "https://me:pw@hooks.example.com/a2a",
            "http://127.0.0.1:9001/x",
            "http://169.254.169.254/latest/meta-data",
            "http://[::1]:9000/x",
            "file:///etc/passwd",
        ] {
            let error = sender.check(&config(url)).unwrap_err();
            assert_eq!(error.kind, A2aErrorKind::InvalidParams, "{url}");
        }
        let off = PushSender::new(HttpGrant::default(), CancellationToken::new());
        let error = off.check(&config("https://hooks.example.com/a2a")).unwrap_err();
        assert_eq!(error.kind, A2aErrorKind::PushNotificationNotSupported);
    }

    #[test]
    fn texts_of_a_config_are_bounded() {
        let sender = sender(&["https://hooks.example.com"]);
        let good = config("https://hooks.example.com");
        for token in ["a\r\nx: y".to_owned(), "é".into(), "x".repeat(limits::A2A_PUSH_TOKEN_BYTES + 1)] {
            let error = sender.check(&TaskPushNotificationConfig { token, ..good.clone() }).unwrap_err();
            assert!(error.message.contains("`token`"), "{error}");
        }
        let token = "x".repeat(limits::A2A_PUSH_TOKEN_BYTES);
        assert!(sender.check(&TaskPushNotificationConfig { token, ..good.clone() }).is_ok());
        let id = "x".repeat(limits::A2A_ID_BYTES + 1);
        assert!(sender.check(&TaskPushNotificationConfig { id, ..good }).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn address_that_is_not_there_is_tried_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let sender = sender(&[&url]);
        let begun = tokio::time::Instant::now();
        assert!(send(&sender.egress, &config(&url), &Bytes::from_static(b"{}")).await.is_err());
        // Each pause is twice the one before.
        assert!(begun.elapsed() >= limits::A2A_PUSH_PAUSE * (2_u32.pow(limits::A2A_PUSH_ATTEMPTS - 1) - 1));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_address_is_left_in_time() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, begun) = (sender(&[&url]), tokio::time::Instant::now());
        assert!(post(&sender.egress, &config(&url), Bytes::from_static(b"{}")).await.is_err());
        assert!(begun.elapsed() <= limits::A2A_PUSH_TIME + limits::A2A_PUSH_PAUSE, "{:?}", begun.elapsed());
    }
}
