//! The host's own interface for HTTP requests.

use std::time::Duration;

use wasmtime::component::Resource;

use crate::{
    bindings::{imports::http, types},
    convert,
    http_client::{GuestResponseBody, GuestUpload, PluginHttpClient},
    store::PluginState,
};
use shelly_core::{error::Fault, event::Event};
use shelly_net::egress::{CredentialUse, EgressRequest, EgressRequestBody, EgressResponse};

type HostCallResult<T> = wasmtime::Result<Result<T, types::Error>>;

fn failed<T>(fault: &Fault) -> HostCallResult<T> {
    Ok(Err(convert::fault_to_wit(fault)))
}

impl PluginState {
    /// Returns the HTTP client of this call.
    ///
    /// # Errors
    ///
    /// [`Fault::Denied`] for calls that may send no requests.
    fn http_client(&self) -> Result<PluginHttpClient, Fault> {
        let message = || "only tools and providers can send requests".to_owned();
        self.http.clone().ok_or_else(|| Fault::Denied { message: message() })
    }

    /// Converts a guest's request.
    fn asked(&mut self, request: http::Request, body: EgressRequestBody) -> wasmtime::Result<EgressRequest> {
        let http::Request { method, url, headers, credential, timeout_ms } = request;
        let of_headers: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.take(method.len() + url.len() + of_headers)?;
        Ok(EgressRequest {
            method,
            url,
            headers: headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
            credential: credential.map_or(CredentialUse::None, CredentialUse::Named),
            follow: true,
            timeout: timeout_ms.map(|time| Duration::from_millis(time.into())),
            idle: None,
            span: None,
            body,
        })
    }

    /// Returns a response to the guest, and emits its event.
    async fn answered(
        &mut self,
        (sent, event): (Result<EgressResponse, Fault>, Event),
    ) -> HostCallResult<http::Response> {
        self.emit(event).await;
        let EgressResponse { status, headers, body: reply, .. } = match sent {
            Ok(response) => response,
            Err(fault) => return failed(&fault),
        };
        let headers: Vec<_> =
            headers.into_iter().map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect();
        self.hand(headers.iter().map(|(name, value)| name.len() + value.len()).sum())?;
        let body = self.table.push(GuestResponseBody::new(reply))?;
        Ok(Ok(http::Response { status, headers, body }))
    }
}

impl http::Host for PluginState {
    async fn send(&mut self, request: http::Request, body: Vec<u8>) -> HostCallResult<http::Response> {
        let request = self.asked(request, EgressRequestBody::Bytes(body.into()))?;
        match self.http_client() {
            Ok(client) => self.answered(client.send(request, None).await).await,
            Err(fault) => failed(&fault),
        }
    }

    async fn begin(&mut self, request: http::Request) -> HostCallResult<Resource<GuestUpload>> {
        let request = self.asked(request, EgressRequestBody::default())?;
        let client = match self.http_client() {
            Ok(client) => client,
            Err(fault) => return failed(&fault),
        };
        let (begun, event) = client.begin(request);
        if let Some(event) = event {
            self.emit(event).await;
        }
        match begun {
            Ok(upload) => Ok(Ok(self.table.push(upload)?)),
            Err(fault) => failed(&fault),
        }
    }

    async fn credentials(&mut self) -> wasmtime::Result<Vec<String>> {
        let names: Vec<_> =
            self.http.iter().flat_map(|client| client.egress.credentials()).map(str::to_owned).collect();
        self.hand(names.iter().map(String::len).sum())?;
        Ok(names)
    }
}

impl http::HostBody for PluginState {
    async fn read(&mut self, body: Resource<GuestResponseBody>, max: u32) -> HostCallResult<Vec<u8>> {
        if max == 0 {
            return failed(&Fault::invalid("`max` is 0; request at least one byte"));
        }
        let read = self.table.get_mut(&body)?.read(max as usize).await;
        Ok(read.map(Into::into).map_err(|fault| convert::fault_to_wit(&fault)))
    }

    async fn drop(&mut self, body: Resource<GuestResponseBody>) -> wasmtime::Result<()> {
        self.table.delete(body)?;
        Ok(())
    }
}

impl http::HostUpload for PluginState {
    async fn write(&mut self, upload: Resource<GuestUpload>, chunk: Vec<u8>) -> HostCallResult<()> {
        let written = self.table.get_mut(&upload)?.write(chunk.into()).await;
        Ok(written.map_err(|fault| convert::fault_to_wit(&fault)))
    }

    async fn finish(&mut self, upload: Resource<GuestUpload>) -> HostCallResult<http::Response> {
        let answer = self.table.delete(upload)?.finish().await;
        self.answered(answer).await
    }

    async fn drop(&mut self, upload: Resource<GuestUpload>) -> wasmtime::Result<()> {
        let event = self.table.delete(upload)?.abandon();
        self.emit(event).await;
        Ok(())
    }
}
