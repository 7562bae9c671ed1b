//! Questions about the outcomes of a push, and reports of devices.

use crate::fault::Fault;
use crate::orders;
use crate::texts::{
    Decimal, DeviceName, OutcomesPlace, PageLimit, ProductName, PushReportWord, StepWord,
};
use model::ports::pushes::{BearerToken, PushCommand};
use model::push::{PushReport, StepKind};
use schemars::JsonSchema;
use serde::Deserialize;

/// Most shards whose places a text has.
const PLACES_MAX: usize = 256;

/// Longest bearer token, bytes: with the name of a user in hexadecimal digits.
const TOKEN_BYTES_MAX: usize = 512;

/// Query of `GET /v1/pushes/{id}/minutes`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MinutesQuery {
    /// Only if the push is for devices of this product.
    #[schemars(with = "Option<ProductName>")]
    pub(crate) product: Option<String>,
}

/// Query of `GET /v1/pushes/{id}/devices`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomesQuery {
    /// Only if the push is for devices of this product.
    #[schemars(with = "Option<ProductName>")]
    pub(crate) product: Option<String>,
    /// Only these lines. A page may then be short, or empty, and not be the last.
    #[schemars(with = "Option<StepWord>")]
    outcome: Option<String>,
    /// Where the last page ended: its `next`.
    #[schemars(with = "Option<OutcomesPlace>")]
    after: Option<String>,
    /// Lines on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

impl OutcomesQuery {
    /// The kind of the lines, if the query names one.
    pub(crate) fn kind(&self) -> Result<Option<StepKind>, Fault> {
        let Some(word) = self.outcome.as_deref() else { return Ok(None) };
        let found = StepKind::ALL.into_iter().find(|kind| kind.name() == word);
        found.map(Some).ok_or_else(|| {
            let words = StepKind::ALL.map(StepKind::name).join(", ");
            Fault::bad(format!("`outcome` must be one of {words}"))
        })
    }

    /// Where to go on, by shard.
    pub(crate) fn places(&self) -> Result<Vec<u64>, Fault> {
        let Some(text) = self.after.as_deref() else { return Ok(Vec::new()) };
        let places = text.split('-').take(PLACES_MAX + 1);
        let places = places.map(|place| u64::from_str_radix(place, 16)).collect::<Result<_, _>>();
        places
            .ok()
            .filter(|places: &Vec<u64>| places.len() <= PLACES_MAX)
            .ok_or_else(|| Fault::bad("`after` must be the `next` of the page before"))
    }
}

/// A report of a device about a push.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PushReport")]
pub(crate) struct ReportBody {
    /// Key of the device's product.
    #[schemars(with = "ProductName")]
    product: String,
    /// Name of the device.
    #[schemars(with = "DeviceName")]
    device: String,
    /// The device's bearer token.
    #[schemars(length(min = 1, max = TOKEN_BYTES_MAX))]
    token: String,
    /// Id of the push.
    #[schemars(with = "Decimal")]
    push: String,
    /// Action of the user.
    #[schemars(with = "PushReportWord")]
    report: String,
}

impl ReportBody {
    /// The command for the shards.
    pub(crate) fn command(self) -> Result<PushCommand, Fault> {
        let (product, device) = (orders::product(&self.product)?, orders::device(&self.device)?);
        if !(1..=TOKEN_BYTES_MAX).contains(&self.token.len()) {
            return Err(Fault::bad(format!("`token` must have 1 to {TOKEN_BYTES_MAX} bytes")));
        }
        let push = orders::push_id(&self.push)?;
        let report = PushReport::ALL.into_iter().find(|report| report.name() == self.report);
        let report =
            report.ok_or_else(|| Fault::bad("`report` must be `opened` or `dismissed`"))?;
        let token = BearerToken(self.token.into());
        Ok(PushCommand::ReportPush { product, device, token, push, report })
    }
}
