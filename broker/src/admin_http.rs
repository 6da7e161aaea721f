//! The HTTP port: `/metrics`, `/healthz` (alive), `/readyz` (serving its role). It knows the probes it is
//! given and no room of the broker.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// What the port asks the process.
pub trait Probes: Send + Sync + 'static {
    /// The text of one scrape. May take long and may block: it is run on a blocking thread, one at a time.
    fn metrics(&self) -> Result<String, String>;
    /// `Ok` when the process serves its role, else why not.
    fn ready(&self) -> Result<(), String>;
}

struct Shared {
    probes: Arc<dyn Probes>,
    /// One scrape at a time: a slow one must not be piled up by an impatient scraper.
    scrape: Semaphore,
}

/// Serves until `stop` becomes true.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    probes: Arc<dyn Probes>,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let shared = Arc::new(Shared { probes, scrape: Semaphore::new(1) });
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(shared);
    axum::serve(listener, routes)
        .with_graceful_shutdown(async move {
            // A dropped sender means the process is going down as well.
            let _stopped_or_gone = stop.wait_for(|stopped| *stopped).await;
        })
        .await
}

/// Opens the port.
///
/// # Errors
/// When the address is taken or not this host's.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(_permit) = shared.scrape.acquire().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let probes = Arc::clone(&shared.probes);
    match tokio::task::spawn_blocking(move || probes.metrics()).await {
        Ok(Ok(text)) => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
                .into_response()
        }
        Ok(Err(reason)) => (StatusCode::INTERNAL_SERVER_ERROR, reason).into_response(),
        Err(panic) => (StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()).into_response(),
    }
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    match shared.probes.ready() {
        Ok(()) => "ready\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Fixed(Result<(), String>);

    impl Probes for Fixed {
        fn metrics(&self) -> Result<String, String> {
            Ok("up 1\n".to_owned())
        }
        fn ready(&self) -> Result<(), String> {
            self.0.clone()
        }
    }

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn each_path_tells_its_own_truth() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let not_ready = Arc::new(Fixed(Err("recovering".to_owned())));
        let server = tokio::spawn(serve(listener, not_ready, stopped));
        assert!(ask(address, "/metrics").await.ends_with("up 1\n"));
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let ready = ask(address, "/readyz").await;
        assert!(ready.starts_with("HTTP/1.1 503") && ready.ends_with("recovering\n"), "{ready}");
        assert!(ask(address, "/else").await.starts_with("HTTP/1.1 404"));
        stop.send(true).unwrap();
        server.await.unwrap().unwrap();
    }
}
