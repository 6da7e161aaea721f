//! One figure over minute, hour and day (315).

use broker_protocol::frame::Frame;
use broker_protocol::request::admin::ViewBrokerStatsData;

use super::Refusal;
use super::refusal::json_answer;
use crate::net::Answer;
use crate::rates::Rates;

/// 315: the figure of a name and key. `cluster` is the key of the whole broker's figures.
pub fn view(rates: &Rates, cluster: &str, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let header: ViewBrokerStatsData<'_> = request.ext.decode()?;
    let figure = rates.figure(&header.stats_name, &header.stats_key, cluster).ok_or_else(|| {
        Refusal::error(format!(
            "The stats <{}> <{}> not exist",
            header.stats_name, header.stats_key
        ))
    })?;
    json_answer(&figure)
}
