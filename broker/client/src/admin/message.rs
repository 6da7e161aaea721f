//! Finding stored messages.

use broker_protocol::code::{request, response};
use broker_protocol::message_id::parse_offset_id;
use broker_protocol::request::query::{QueryMessage, QueryMessageResponse, ViewMessage};

use super::Admin;
use crate::error::ClientError;
use crate::message::StoredMessage;

/// What a query by key found.
#[derive(Clone, Debug)]
pub struct FoundMessages {
    /// The messages, in the broker's order.
    pub messages: Vec<StoredMessage>,
    /// Store time of the last indexed message, in milliseconds of Unix time.
    pub index_timestamp: i64,
    /// Position in the log of the last indexed message.
    pub index_offset: i64,
}

impl Admin<'_> {
    /// The message at a position of a broker's log.
    pub async fn view_message(
        &self,
        address: &str,
        physical_offset: i64,
    ) -> Result<StoredMessage, ClientError> {
        let header = ViewMessage { offset: physical_offset, topic: None };
        let code = request::VIEW_MESSAGE_BY_ID;
        let reply = self.client.call(address, code, &header, &[]).await?;
        StoredMessage::parse(&reply.body).map_err(|error| reply.malformed(error))
    }

    /// The message of an offset id, asked from the broker that the id names.
    pub async fn view_message_by_id(&self, id: &str) -> Result<StoredMessage, ClientError> {
        let (address, physical_offset) = parse_offset_id(id)
            .ok_or_else(|| ClientError::Invalid(format!("{id} is no offset id")))?;
        let physical_offset = i64::try_from(physical_offset)
            .map_err(|_| ClientError::Invalid(format!("{id} is no offset id")))?;
        self.view_message(&address.to_string(), physical_offset).await
    }

    /// Messages of a topic that have a key (or with `unique` this unique id), stored between two
    /// times in milliseconds of Unix time. Nothing found is no error.
    #[expect(clippy::too_many_arguments, reason = "they are the request's fields")]
    pub async fn query_messages(
        &self,
        address: &str,
        topic: &str,
        key: &str,
        unique: bool,
        max: i32,
        begin: i64,
        end: i64,
    ) -> Result<FoundMessages, ClientError> {
        let header = QueryMessage {
            topic: topic.into(),
            key: key.into(),
            max_num: max,
            begin_timestamp: begin,
            end_timestamp: end,
            unique_key: Some(unique),
            index_type: None,
            last_key: None,
        };
        let connection = self.client.connection(address).await?;
        let mut reply = connection.call(request::QUERY_MESSAGE, &header, &[]).await?;
        match reply.code {
            response::SUCCESS => {}
            response::QUERY_NOT_FOUND => {
                let header = reply.header::<QueryMessageResponse>().ok();
                return Ok(FoundMessages {
                    messages: Vec::new(),
                    index_timestamp: header.map_or(0, |h| h.index_last_update_timestamp),
                    index_offset: header.map_or(0, |h| h.index_last_update_phyoffset),
                });
            }
            _ => return Err(reply.refusal(request::QUERY_MESSAGE)),
        }
        let header: QueryMessageResponse = reply.header()?;
        let messages =
            StoredMessage::parse_all(&reply.body).map_err(|error| reply.malformed(error))?;
        Ok(FoundMessages {
            messages,
            index_timestamp: header.index_last_update_timestamp,
            index_offset: header.index_last_update_phyoffset,
        })
    }
}
