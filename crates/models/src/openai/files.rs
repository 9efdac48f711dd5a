//! Pictures and sound in answers.

use ghostlight_actors::vocabulary::{Data, DataSource};
use serde_json::Value;

/// The picture in a part of an answer, given by its address or by its bytes in a `data:` address.
pub(super) fn picture(part: &Value) -> Option<Data> {
    let address = &part["image_url"];
    let address = address.as_str().or_else(|| address["url"].as_str())?;
    let (media_type, source) = match address.strip_prefix("data:") {
        Some(data) => {
            let (media_type, bytes) = data.split_once(',')?;
            let media_type = media_type.strip_suffix(";base64")?;
            (media_type, DataSource::Base64(bytes.to_owned()))
        }
        None => ("image/*", DataSource::Url(address.to_owned())),
    };
    Some(Data {
        media_type: media_type.to_owned(),
        name: None,
        source,
    })
}

/// The sound of a whole answer.
pub(super) fn sound(audio: &Value) -> Option<Data> {
    let bytes = audio["data"].as_str().filter(|bytes| !bytes.is_empty())?;
    // A piece of a stream has no end, and is not a file.
    audio["expires_at"].as_u64()?;
    let format = audio["format"].as_str().unwrap_or("wav");
    Some(Data {
        media_type: format!("audio/{format}"),
        name: None,
        source: DataSource::Base64(bytes.to_owned()),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_picture_is_bytes_or_a_link() {
        let url = "data:image/png;base64,iVBORw0KGgo=";
        let inline = picture(&json!({"type": "image_url", "image_url": {"url": url}})).unwrap();
        assert_eq!(inline.media_type, "image/png");
        assert_eq!(inline.source, DataSource::Base64("iVBORw0KGgo=".to_owned()));
        let linked = picture(&json!({"image_url": "https://a.example/b.png"})).unwrap();
        let url = DataSource::Url("https://a.example/b.png".to_owned());
        assert_eq!(linked.source, url);
        for none in [
            json!({"text": "x"}),
            json!({"image_url": "data:nonsense"}),
            json!(null),
        ] {
            assert_eq!(picture(&none), None);
        }
    }
}
