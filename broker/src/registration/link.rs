//! One connection to a name server: writes a request, waits for its answer. One request at a time
//! is all that registering needs.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use broker_protocol::body::{KvTable, RegisterError};
use broker_protocol::code::{request, response};
use broker_protocol::frame::{
    Frame, FrameError, RequestHead, Serialize, encode_request, frame_size,
};
use broker_protocol::header::Header;
use broker_protocol::request::name_server::UnregisterBroker;
use broker_protocol::{json, version};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Identity;
use super::table::Request;

/// Why a name server did not take a request. The connection is of no use afterwards.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Table(#[from] RegisterError),
    #[error("it closed the connection")]
    Closed,
    #[error("it did not answer in time")]
    TimedOut,
    #[error("it refused with code {code}: {remark}")]
    Refused { code: i32, remark: String },
}

#[derive(Debug)]
pub(super) struct Link {
    socket: TcpStream,
    received: BytesMut,
    next_opaque: i32,
}

impl Link {
    pub(super) async fn connect(address: SocketAddr) -> Result<Link, LinkError> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Link { socket, received: BytesMut::new(), next_opaque: 0 })
    }

    /// Registers; answers the order topics that the name server knows of, if it says anything.
    pub(super) async fn register(
        &mut self,
        wanted: &Request<'_>,
        patience: Duration,
    ) -> Result<Option<KvTable>, LinkError> {
        let body =
            self.call(request::REGISTER_BROKER, &wanted.header, &wanted.body, patience).await?;
        if body.is_empty() {
            return Ok(None);
        }
        match json::from_slice(&body) {
            Ok(order_topics) => Ok(Some(order_topics)),
            Err(error) => {
                tracing::warn!(%error, "a name server's list of order topics can't be read");
                Ok(None)
            }
        }
    }

    pub(super) async fn unregister(
        &mut self,
        identity: &Identity,
        patience: Duration,
    ) -> Result<(), LinkError> {
        let header = UnregisterBroker {
            broker_name: identity.broker_name.as_str().into(),
            broker_addr: identity.broker_address.as_str().into(),
            cluster_name: identity.cluster_name.as_str().into(),
            broker_id: identity.broker_id,
        };
        self.call(request::UNREGISTER_BROKER, &header, &[], patience).await.map(drop)
    }

    /// Sends a request and answers the body of its answer.
    async fn call<H: Header>(
        &mut self,
        code: i32,
        header: &H,
        body: &[u8],
        patience: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        let opaque = self.next_opaque;
        self.next_opaque = self.next_opaque.wrapping_add(1);
        let head = RequestHead {
            code,
            opaque,
            oneway: false,
            serialize: Serialize::Json,
            language: version::REPORTED_LANGUAGE,
            version: version::REPORTED,
            short_names: false,
        };
        let mut frame = Vec::with_capacity(512 + body.len());
        encode_request(&mut frame, &head, header, body.len());
        frame.extend_from_slice(body);
        let exchange = async {
            self.socket.write_all(&frame).await?;
            loop {
                let mut bytes = self.next_frame().await?;
                let answer = Frame::parse(&mut bytes)?;
                // A name server of 5.x may tell of other brokers meanwhile; that is not our matter.
                if !answer.head.is_response() || answer.head.opaque != opaque {
                    continue;
                }
                if answer.head.code != response::SUCCESS {
                    let remark = answer.head.remark.unwrap_or_default().into_owned();
                    return Err(LinkError::Refused { code: answer.head.code, remark });
                }
                return Ok(answer.body.to_vec());
            }
        };
        timeout(patience, exchange).await.map_err(|_| LinkError::TimedOut)?
    }

    /// Waits until the name server closes the connection. May be cancelled and called again.
    pub(super) async fn closed(&mut self) -> LinkError {
        loop {
            if let Err(error) = self.next_frame().await {
                return error;
            }
        }
    }

    /// Cancel-safe: what was read stays in the buffer.
    async fn next_frame(&mut self) -> Result<BytesMut, LinkError> {
        loop {
            if let Some(size) = frame_size(&self.received)?
                && self.received.len() >= size
            {
                return Ok(self.received.split_to(size));
            }
            if self.socket.read_buf(&mut self.received).await? == 0 {
                return Err(LinkError::Closed);
            }
        }
    }
}
