//! Offsets of queues and of groups.

use broker_protocol::code::{request, response};
use broker_protocol::request::offset::{
    GetMaxOffset, OffsetResponse, QueryConsumerOffset, QueueOf, SearchOffsetByTimestamp,
    TimestampResponse, UpdateConsumerOffset,
};

use super::Admin;
use crate::error::ClientError;

impl Admin<'_> {
    /// First offset of a queue that can still be read.
    pub async fn min_offset(
        &self,
        address: &str,
        topic: &str,
        queue_id: i32,
    ) -> Result<i64, ClientError> {
        let header = QueueOf { topic: topic.into(), queue_id };
        let mut reply = self.client.call(address, request::GET_MIN_OFFSET, &header, &[]).await?;
        Ok(reply.header::<OffsetResponse>()?.offset)
    }

    /// Offset that the next message of a queue will get.
    pub async fn max_offset(
        &self,
        address: &str,
        topic: &str,
        queue_id: i32,
    ) -> Result<i64, ClientError> {
        let header = GetMaxOffset { topic: topic.into(), queue_id, committed: None };
        let mut reply = self.client.call(address, request::GET_MAX_OFFSET, &header, &[]).await?;
        Ok(reply.header::<OffsetResponse>()?.offset)
    }

    /// Offset of the first message that was stored at or after a time, in milliseconds of Unix
    /// time.
    pub async fn search_offset(
        &self,
        address: &str,
        topic: &str,
        queue_id: i32,
        timestamp: i64,
    ) -> Result<i64, ClientError> {
        let header = SearchOffsetByTimestamp {
            topic: topic.into(),
            queue_id,
            timestamp,
            boundary_type: None,
        };
        let code = request::SEARCH_OFFSET_BY_TIMESTAMP;
        let mut reply = self.client.call(address, code, &header, &[]).await?;
        Ok(reply.header::<OffsetResponse>()?.offset)
    }

    /// When the first message of a queue was stored, in milliseconds of Unix time; -1 if there is
    /// none.
    pub async fn earliest_store_time(
        &self,
        address: &str,
        topic: &str,
        queue_id: i32,
    ) -> Result<i64, ClientError> {
        let header = QueueOf { topic: topic.into(), queue_id };
        let code = request::GET_EARLIEST_MSG_STORETIME;
        let mut reply = self.client.call(address, code, &header, &[]).await?;
        Ok(reply.header::<TimestampResponse>()?.timestamp)
    }

    /// The progress of a group in a queue; `None` when the broker knows none.
    pub async fn consumer_offset(
        &self,
        address: &str,
        group: &str,
        topic: &str,
        queue_id: i32,
    ) -> Result<Option<i64>, ClientError> {
        let header = QueryConsumerOffset {
            consumer_group: group.into(),
            topic: topic.into(),
            queue_id,
            set_zero_if_not_found: None,
        };
        let code = request::QUERY_CONSUMER_OFFSET;
        match self.client.call(address, code, &header, &[]).await {
            Ok(mut reply) => Ok(Some(reply.header::<OffsetResponse>()?.offset)),
            Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the progress of a group in a queue.
    pub async fn update_consumer_offset(
        &self,
        address: &str,
        group: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
    ) -> Result<(), ClientError> {
        let header = UpdateConsumerOffset {
            consumer_group: group.into(),
            topic: topic.into(),
            queue_id,
            commit_offset: offset,
        };
        self.client.call(address, request::UPDATE_CONSUMER_OFFSET, &header, &[]).await?;
        Ok(())
    }
}
