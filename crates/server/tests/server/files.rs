//! Files of clients: each interface takes the same, and records nothing that no model can read.

use serde_json::{Value, json};

use crate::{
    a2a::{Binding, message},
    desk::Desk,
};

/// The status with which an interface answers to a file: of this media type, with these bytes in base64 or this address.
async fn answers(desk: &Desk, kind: &str, bytes: Option<&str>, link: Option<&str>) -> Vec<u16> {
    let file = json!({ "media_type": kind, "base64": bytes, "url": link });
    let turn = json!({ "text": "see", "files": [file] });
    let source = match (bytes, link) {
        (Some(bytes), _) => json!({ "type": "data", "value": bytes, "mimeType": kind }),
        (None, link) => json!({ "type": "url", "value": link, "mimeType": kind }),
    };
    let content = json!([{ "type": "image", "source": source }]);
    let agui = json!({
        "threadId": "g", "runId": format!("{kind}{bytes:?}{link:?}"), "tools": [], "context": [], "state": {},
        "messages": [{ "id": "m", "role": "user", "content": content }],
    });
    let source = match (bytes, link) {
        (Some(bytes), _) => json!({ "type": "base64", "media_type": kind, "data": bytes }),
        (None, link) => json!({ "type": "url", "url": link, "media_type": kind }),
    };
    let said = json!([{ "role": "user", "content": [{ "type": "image", "source": source }] }]);
    let said = json!({ "model": "desk", "max_tokens": 9, "messages": said });
    let mut statuses = Vec::new();
    for (path, body) in [
        ("/api/v1/sessions/desk/f/turns?wait=30", turn),
        ("/agui/desk", agui),
        ("/v1/messages", said),
    ] {
        statuses.push(desk.client.post(path, body).await.status);
    }
    let mut a2a: Value = message(&format!("{}-{kind}-{bytes:?}", statuses.len()), "");
    a2a["parts"] = json!([{ "raw": bytes, "url": link, "mediaType": kind }]);
    let sent = Binding::HttpJson.send(&desk.client, a2a).await;
    statuses.push(if sent.is_ok() { 200 } else { 422 });
    statuses
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_readable_bytes_or_with_a_password_in_its_address_is_refused() {
    let desk = Desk::open().await;
    let (png, link) = ("image/png", "https://example.org/b.png");
    for (kind, bytes, link, is_taken) in [
        (png, Some("aGk="), None, true),
        (png, None, Some(link), true),
        (png, Some("no base64?"), None, false),
        (
            png,
            None,
            Some("https://ada:secret@example.org/b.png"),
            false,
        ),
        (png, None, Some("file:///etc/passwd"), false),
        (png, None, Some("https://"), false),
        ("odd", Some("aGk="), None, false),
    ] {
        let statuses = answers(&desk, kind, bytes, link).await;
        let taken = statuses.iter().map(|status| *status == 200);
        let as_expected = taken.into_iter().all(|taken| taken == is_taken);
        assert!(as_expected, "{kind} {bytes:?} {link:?}: {statuses:?}");
    }
}
