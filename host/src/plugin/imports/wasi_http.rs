//! `wasi:http`, for components that were not written for this host: another door to the way out that the import `http`
//! leads to.

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::timeout;
use wasmtime::component::Linker;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttp, WasiHttpCtx,
    WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
    p2::bindings::{LinkOptions, http as wasi},
};

use super::http::Asker;
use crate::{
    error::Fault,
    net::{CredentialUse, EgressBody, EgressReply, EgressRequest},
    plugin::runtime::PluginState,
};

/// What stands behind `wasi:http` in one store.
pub struct WasiDoor {
    context: WasiHttpCtx,
    asker: Option<Asker>,
}
