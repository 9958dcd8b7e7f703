//! The endpoint of one signal, and the encodings of the protocol.

use std::{fmt, str::FromStr, time::Duration};

use prost::Message;
use serde::Serialize;
use shelly_core::{error::Fault, limits};
use shelly_net::{HttpClient, HttpRequest, Retries, Secret};
use url::Url;

/// The encoding in which data is sent over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OtlpProtocol {
    /// Protocol Buffers.
    #[default]
    HttpProtobuf,
    /// JSON.
    HttpJson,
}

impl OtlpProtocol {
    fn content_type(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "application/x-protobuf",
            Self::HttpJson => "application/json",
        }
    }

    fn encode(self, message: &(impl Message + Serialize)) -> Result<Vec<u8>, Fault> {
        match self {
            Self::HttpProtobuf => Ok(message.encode_to_vec()),
            Self::HttpJson => {
                serde_json::to_vec(message).map_err(|error| Fault::other(format!("cannot encode the data: {error}")))
            }
        }
    }
}

impl fmt::Display for OtlpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::HttpJson => "http/json",
        })
    }
}

/// The error for a text that is no supported protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be http/protobuf or http/json; gRPC is not supported, but collectors accept HTTP at port 4318")]
pub struct UnknownOtlpProtocol;

impl FromStr for OtlpProtocol {
    type Err = UnknownOtlpProtocol;

    fn from_str(text: &str) -> Result<Self, UnknownOtlpProtocol> {
        match text {
            "http/protobuf" => Ok(Self::HttpProtobuf),
            "http/json" => Ok(Self::HttpJson),
            _ => Err(UnknownOtlpProtocol),
        }
    }
}

/// The endpoint of one signal.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpTarget {
    /// The URL that requests go to, its path included.
    pub url: Url,
    /// The encoding.
    pub protocol: OtlpProtocol,
    /// Headers of each request. Their values may be credentials.
    pub headers: Vec<(String, Secret)>,
    /// The time limit of one export, all of its attempts included.
    pub timeout: Duration,
}

impl OtlpTarget {
    /// Sends data, and returns the response as it was read.
    pub(crate) async fn send(
        &self,
        client: &HttpClient,
        message: &(impl Message + Serialize),
    ) -> Result<Vec<u8>, Fault> {
        let body = self.protocol.encode(message)?;
        let retries = Retries { times: limits::TELEMETRY_RETRIES, waiting: self.timeout, ..Retries::DEFAULT };
        let request = HttpRequest {
            headers: self.headers.clone(),
            retries,
            total: self.timeout,
            idle: self.timeout,
            ..HttpRequest::new(self.url.clone())
        };
        let response = client.upload(&request, self.protocol.content_type(), body).await?;
        response.read(limits::TELEMETRY_RESPONSE_BYTES).await
    }

    /// Parses a response; `None` if it is none of this kind, as from servers that answer with an empty body.
    pub(crate) fn parse<T: Message + Default + serde::de::DeserializeOwned>(&self, response: &[u8]) -> Option<T> {
        match self.protocol {
            OtlpProtocol::HttpProtobuf => T::decode(response).ok(),
            OtlpProtocol::HttpJson => serde_json::from_slice(response).ok(),
        }
    }
}
