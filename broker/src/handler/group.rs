//! Consumer groups by admin command: make or change (200), delete (207), list (201).

use broker_protocol::body::SubscriptionGroupConfig;
use broker_protocol::frame::Frame;
use broker_protocol::request::group::DeleteSubscriptionGroup;

use super::Refusal;
use super::refusal::{json_answer, read_body};
use crate::groups::Groups;
use crate::net::Answer;
use crate::offsets::ConsumerOffsets;
use crate::topics::Topics;

/// 200: makes a group or changes its settings.
pub fn update(groups: &Groups, now: i64, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let config: SubscriptionGroupConfig = read_body(request)?;
    let name = config.group_name.clone();
    groups.update(config, now).map_err(Refusal::error)?;
    tracing::info!(group = &*name, "group set by an operator");
    Ok(Answer::ok())
}

/// 207: deletes a group, and its progress when asked to.
pub fn delete(
    groups: &Groups,
    offsets: &ConsumerOffsets,
    topics: &Topics,
    now: i64,
    request: &Frame<'_>,
) -> Result<Answer, Refusal> {
    let header: DeleteSubscriptionGroup<'_> = request.ext.decode()?;
    groups.delete(&header.group_name, now).map_err(Refusal::error)?;
    for topic in topics.all() {
        topic.counters.remove_reader(&header.group_name);
    }
    if header.remove_offset {
        offsets.remove_group(&header.group_name);
        offsets.persist().map_err(Refusal::error)?;
    }
    tracing::info!(
        group = &*header.group_name,
        with_progress = header.remove_offset,
        "group deleted by an operator"
    );
    Ok(Answer::ok())
}

/// 201: all groups with their version.
pub fn all(groups: &Groups) -> Result<Answer, Refusal> {
    json_answer(&groups.snapshot())
}
