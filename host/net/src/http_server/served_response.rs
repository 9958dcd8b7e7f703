use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    body::Frame,
    header::{self, HeaderValue},
};

/// The body of an answer.
pub type ServedBody = UnsyncBoxBody<Bytes, Infallible>;

/// An answer of an [`HttpService`](super::HttpService).
pub type ServedResponse = Response<ServedBody>;

/// Returns an answer of plain text.
pub fn text_response(status: StatusCode, text: impl Into<String>) -> ServedResponse {
    let text: String = text.into();
    bytes_response(status, "text/plain; charset=utf-8", text)
}

/// Returns an answer of JSON text.
pub fn json_response(status: StatusCode, json: impl Into<Bytes>) -> ServedResponse {
    bytes_response(status, "application/json", json)
}

/// Returns an answer of these bytes. It is not cached, and browsers do not guess another type.
pub fn bytes_response(status: StatusCode, content_type: &'static str, bytes: impl Into<Bytes>) -> ServedResponse {
    let mut response = Response::new(Full::<Bytes>::new(bytes.into()).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns an answer of these pieces. The next one is taken when the client has read those before it.
pub fn stream_response(content_type: &'static str, pieces: BoxStream<'static, Bytes>) -> ServedResponse {
    let (parts, _) = bytes_response(StatusCode::OK, content_type, Bytes::new()).into_parts();
    let body = StreamBody::new(pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece))));
    Response::from_parts(parts, body.boxed_unsync())
}
