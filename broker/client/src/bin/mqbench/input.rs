//! The bytes that came from a broker, cut into frames in place.

use anyhow::{Context, Result, bail};
use broker_protocol::frame::{Frame, frame_size};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room for a first read; grows to the largest frame.
const ROOM: usize = 64 * 1024;

/// A reusable buffer: `bytes[parsed..filled]` is not looked at yet.
pub(crate) struct Input {
    bytes: Vec<u8>,
    parsed: usize,
    filled: usize,
}

impl Input {
    /// An empty buffer.
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; ROOM], parsed: 0, filled: 0 }
    }

    /// Forgets everything, for a new connection.
    pub(crate) fn clear(&mut self) {
        (self.parsed, self.filled) = (0, 0);
    }

    /// Reads once. Cancel-safe. The end of the stream is an error: brokers don't close while
    /// something is asked of them.
    pub(crate) async fn read(&mut self, socket: &mut (impl AsyncRead + Unpin)) -> Result<()> {
        if self.parsed > 0 {
            self.bytes.copy_within(self.parsed..self.filled, 0);
            self.filled -= self.parsed;
            self.parsed = 0;
        }
        let waiting = self.bytes.get(..self.filled).unwrap_or_default();
        let wanted = frame_size(waiting)?.unwrap_or_default().max(ROOM);
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        let room = self.bytes.get_mut(self.filled..).unwrap_or_default();
        match socket.read(room).await.context("read")? {
            0 => bail!("the broker closed the connection"),
            count => self.filled += count,
        }
        Ok(())
    }

    /// The next whole frame, if it is there.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>> {
        let waiting = self.bytes.get_mut(self.parsed..self.filled).unwrap_or_default();
        let Some(size) = frame_size(waiting)? else { return Ok(None) };
        let Some(frame) = waiting.get_mut(..size) else { return Ok(None) };
        self.parsed += size;
        Ok(Some(Frame::parse(frame)?))
    }
}

#[cfg(test)]
mod tests {
    use broker_protocol::frame::{ReplyHead, Serialize, encode_response};
    use broker_protocol::header::NoHeader;

    use super::*;

    #[tokio::test]
    async fn frames_come_out_whole_however_they_arrive() {
        let mut stream = Vec::new();
        for (opaque, size) in [(1, 0), (2, 3 * ROOM), (3, 10)] {
            let reply = ReplyHead { opaque, serialize: Serialize::Json };
            encode_response(&mut stream, &reply, 0, None, &NoHeader, size);
            stream.extend(std::iter::repeat_n(b'x', size));
        }
        for step in [1, 7, 100_000] {
            let mut input = Input::new();
            let mut found = Vec::new();
            for mut piece in stream.chunks(step) {
                while !piece.is_empty() {
                    input.read(&mut piece).await.unwrap();
                    while let Some(frame) = input.next_frame().unwrap() {
                        found.push((frame.head.opaque, frame.body.len()));
                    }
                }
            }
            assert_eq!(found, [(1, 0), (2, 3 * ROOM), (3, 10)], "step {step}");
        }
    }

    #[tokio::test]
    async fn the_end_of_the_stream_is_an_error() {
        assert!(Input::new().read(&mut &b""[..]).await.is_err());
    }
}
