//! Whether a request was signed with the secret, and recently.

use crate::served::WebhookSignature;
use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

/// How old a request may be, and how far ahead its sender's clock, in seconds.
const WINDOW_S: u64 = 300;

/// Why a request is refused. The sender learns no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It has no signature where this form expects one.
    #[error("the request has no signature of the form that the webhook expects")]
    Unsigned,
    /// It was signed long ago, or by a wrong clock.
    #[error("the request's time is more than five minutes from the server's")]
    Late,
    /// The signature does not fit the body.
    #[error("the signature does not fit the body")]
    Wrong,
}

/// The parts of a signature.
struct Signed {
    /// The signed bytes before the body.
    prefix: String,
    /// The signing time in seconds since 1970, in forms that sign it.
    at: Option<u64>,
    /// The signatures, one of which must fit: while a secret is being changed there are two.
    tags: Vec<Vec<u8>>,
    id: Id,
}

/// The id of a request: the same whenever the request is sent again.
enum Id {
    /// The sender gives one.
    Given(String),
    /// The sender repeats the signature.
    Signature,
    /// The sender signs each attempt anew, and repeats the body.
    Body,
}

/// The signature of a request whose body is not read yet.
pub(crate) struct Claim {
    signed: Signed,
    key: hmac::Key,
}

impl Claim {
    /// Reads the signature, which has to be there and recent.
    pub(crate) fn read(
        form: WebhookSignature,
        secret: &str,
        headers: &HeaderMap,
        now_s: u64,
    ) -> Result<Self, Refused> {
        let signed = read(form, headers).ok_or(Refused::Unsigned)?;
        if signed.at.is_some_and(|at| now_s.abs_diff(at) > WINDOW_S) {
            return Err(Refused::Late);
        }
        let key = match form {
            WebhookSignature::Standard => standard_key(secret),
            _ => key_of(secret.as_bytes()),
        };
        let key = key.ok_or(Refused::Wrong)?;
        Ok(Self { signed, key })
    }

    /// Checks that the body was signed, and returns the request's id.
    pub(crate) fn verify(self, body: &[u8]) -> Result<String, Refused> {
        let Self { signed, key } = self;
        let message = [signed.prefix.as_bytes(), body].concat();
        // The comparison takes constant time.
        let fits = |tag: &&Vec<u8>| hmac::verify(&key, &message, tag).is_ok();
        let tag = signed.tags.iter().find(fits).ok_or(Refused::Wrong)?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(match signed.id {
            Id::Given(id) => id,
            Id::Signature => hex(tag),
            Id::Body => hex(hmac::sign(&key, body).as_ref()),
        })
    }
}

/// The key of these bytes; `None` for an empty one, under which anybody can sign.
fn key_of(bytes: &[u8]) -> Option<hmac::Key> {
    (!bytes.is_empty()).then(|| hmac::Key::new(hmac::HMAC_SHA256, bytes))
}

/// The key that a secret of Standard Webhooks holds.
fn standard_key(secret: &str) -> Option<hmac::Key> {
    match secret.strip_prefix("whsec_") {
        Some(encoded) => key_of(&STANDARD.decode(encoded).ok()?),
        None => key_of(secret.as_bytes()),
    }
}

/// The headers of a message of ours with this id and body, signed by Standard Webhooks; `None` without a valid secret.
#[cfg(feature = "deliveries")]
pub(crate) fn signed(
    secret: &str,
    id: &str,
    now_s: u64,
    body: &str,
) -> Option<Vec<(String, String)>> {
    let key = standard_key(secret)?;
    let tag = hmac::sign(&key, format!("{id}.{now_s}.{body}").as_bytes());
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", now_s.to_string()),
        ("webhook-signature", format!("v1,{}", STANDARD.encode(tag))),
    ];
    let header = |(name, value): (&str, String)| (name.to_owned(), value);
    Some(headers.map(header).to_vec())
}

fn read(form: WebhookSignature, headers: &HeaderMap) -> Option<Signed> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    match form {
        WebhookSignature::Standard => {
            let (id, time) = (header("webhook-id")?, header("webhook-timestamp")?);
            let tags = header("webhook-signature")?.split(' ');
            let tags = tags.filter_map(|tag| STANDARD.decode(tag.strip_prefix("v1,")?).ok());
            Some(Signed {
                prefix: format!("{id}.{time}."),
                at: Some(time.parse().ok()?),
                tags: tags.collect(),
                id: Id::Given(id.to_owned()),
            })
        }
        WebhookSignature::Github => {
            let tag = hex(header("x-hub-signature-256")?.strip_prefix("sha256=")?)?;
            Some(Signed {
                prefix: String::new(),
                at: None,
                tags: vec![tag],
                id: Id::Signature,
            })
        }
        WebhookSignature::Slack => {
            let time = header("x-slack-request-timestamp")?;
            let tag = hex(header("x-slack-signature")?.strip_prefix("v0=")?)?;
            Some(Signed {
                prefix: format!("v0:{time}:"),
                at: Some(time.parse().ok()?),
                tags: vec![tag],
                id: Id::Body,
            })
        }
        WebhookSignature::Stripe => {
            let parts = header("stripe-signature")?.split(',');
            let parts: Vec<_> = parts
                .filter_map(|part| part.trim().split_once('='))
                .collect();
            let time = parts.iter().find(|(name, _)| *name == "t")?.1;
            let tags = parts.iter().filter(|(name, _)| *name == "v1");
            Some(Signed {
                prefix: format!("{time}."),
                at: Some(time.parse().ok()?),
                tags: tags.filter_map(|(_, tag)| hex(tag)).collect(),
                id: Id::Body,
            })
        }
        WebhookSignature::Ghostlight => {
            let time = header("ghostlight-timestamp")?;
            let tag = hex(header("ghostlight-signature")?.strip_prefix("v1=")?)?;
            Some(Signed {
                prefix: format!("{time}."),
                at: Some(time.parse().ok()?),
                tags: vec![tag],
                id: Id::Signature,
            })
        }
    }
}

/// The bytes of a text of hexadecimal digits.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok();
    digits
        .len()
        .is_multiple_of(2)
        .then(|| digits.chunks_exact(2).map(byte).collect())?
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn verify(
        form: WebhookSignature,
        secret: &str,
        headers: &HeaderMap,
        body: &[u8],
        now_s: u64,
    ) -> Result<String, Refused> {
        Claim::read(form, secret, headers, now_s)?.verify(body)
    }

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &str)| {
            let value = HeaderValue::from_str(value).unwrap();
            (HeaderName::from_static(name), value)
        };
        given.iter().map(header).collect()
    }

    /// The examples in the senders' own documentation.
    #[test]
    fn what_senders_document_is_accepted() {
        let github = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let github = headers(&[("x-hub-signature-256", github)]);
        let secret = "It's a Secret to Everybody";
        let body = b"Hello, World!";
        verify(WebhookSignature::Github, secret, &github, body, 0).unwrap();

        let slack = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        let slack = headers(&[
            ("x-slack-request-timestamp", "1531420618"),
            ("x-slack-signature", slack),
        ]);
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&\
channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&\
command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F\
397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let secret = "8f742231b10e8888abcd99yyyzzz85a5";
        verify(WebhookSignature::Slack, secret, &slack, body, 1_531_420_618).unwrap();

        let standard = headers(&[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            (
                "webhook-signature",
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
        ]);
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        let id = verify(
            WebhookSignature::Standard,
            secret,
            &standard,
            body,
            1_614_265_330,
        );
        assert_eq!(id.unwrap(), "msg_p5jXN8AQM9LWM0D4loKWxJek");
    }

    #[test]
    fn an_empty_key_signs_nothing() {
        let form = WebhookSignature::Standard;
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b""), b"m.1000.{}");
        let tag = format!("v1,{}", STANDARD.encode(tag));
        let headers = headers(&[
            ("webhook-id", "m"),
            ("webhook-timestamp", "1000"),
            ("webhook-signature", &tag),
        ]);
        for secret in ["", "whsec_"] {
            let verified = verify(form, secret, &headers, b"{}", 1_000);
            assert_eq!(verified, Err(Refused::Wrong), "{secret:?}");
        }
    }

    #[test]
    fn what_is_late_unsigned_or_wrong_is_refused() {
        let form = WebhookSignature::Ghostlight;
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"s");
        let tag = hmac::sign(&key, b"1000.{}");
        let tag: String = tag
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let signed = format!("v1={tag}");
        let given = |time, tag| {
            headers(&[
                ("ghostlight-timestamp", time),
                ("ghostlight-signature", tag),
            ])
        };
        let right = given("1000", &signed);
        assert_eq!(verify(form, "s", &right, b"{}", 1_300), Ok(tag.clone()));
        assert_eq!(verify(form, "s", &right, b"{}", 1_301), Err(Refused::Late));
        assert_eq!(verify(form, "s", &right, b"{}", 699), Err(Refused::Late));
        assert_eq!(verify(form, "t", &right, b"{}", 1_000), Err(Refused::Wrong));
        assert_eq!(verify(form, "s", &right, b"[]", 1_000), Err(Refused::Wrong));
        let moved = given("1001", &signed);
        assert_eq!(verify(form, "s", &moved, b"{}", 1_000), Err(Refused::Wrong));
        let unsigned = [
            HeaderMap::new(),
            given("1000", &tag),
            given("1000", "v1=abc"),
            given("1000", "v1=zz"),
            given("-1", &signed),
        ];
        for headers in unsigned {
            assert_eq!(
                verify(form, "s", &headers, b"{}", 1_000),
                Err(Refused::Unsigned)
            );
        }
        let stripe = headers(&[("stripe-signature", &format!("t=1000,v1=00,v1={tag},v0=11"))]);
        verify(WebhookSignature::Stripe, "s", &stripe, b"{}", 1_000).unwrap();
        let empty = headers(&[("stripe-signature", "t=1000")]);
        assert_eq!(
            verify(WebhookSignature::Stripe, "s", &empty, b"{}", 1_000),
            Err(Refused::Wrong)
        );
    }
}
