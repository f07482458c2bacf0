//! Whether the process lives, and whether it has seen everything once.

use std::{future::ready, sync::Arc};

use tokio::net::TcpListener;

use crate::{
    http::{answer, text},
    store::Store,
};

/// Answers `/healthz` and `/readyz` for ever.
pub async fn serve(listener: TcpListener, store: Arc<Store>) {
    answer(listener, move |_, path| {
        ready(match path.as_str() {
            "/healthz" => text(200, "ok"),
            "/readyz" if store.complete() => text(200, "ok"),
            "/readyz" => text(503, "not everything has been listed yet"),
            _ => text(404, "there are /healthz and /readyz"),
        })
    })
    .await;
}
