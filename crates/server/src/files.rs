//! Files of clients, the same in each interface.

use ghostlight_actors::vocabulary::{Data, DataSource, Part, check_link};

use crate::problem::Problem;

/// A file that a model can read: its bytes are base64, or its address is one that a model's server can open and holds no
/// credential. It is checked before it is recorded, since every later request of its session would hold it.
pub(crate) fn file(
    media_type: String,
    name: Option<String>,
    source: DataSource,
) -> Result<Part, Problem> {
    let essence = media_type.split(';').next().unwrap_or_default();
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic());
    if !matches!(essence.split_once('/'), Some((kind, form)) if is_part(kind) && is_part(form)) {
        return Err(Problem::invalid(format!(
            "{media_type:?} is not a media type such as `image/png`"
        )));
    }
    let data = Data {
        media_type,
        name,
        source,
    };
    let fault = |error: String| Problem::invalid(format!("a file: {error}"));
    data.bytes().transpose().map_err(fault)?;
    if let DataSource::Url(url) = &data.source {
        check_link(url).map_err(|error| fault(error.to_string()))?;
    }
    Ok(Part::Data(data))
}
