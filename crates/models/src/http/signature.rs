//! Signatures of requests, by Amazon's Signature Version 4.

use ghostlight_safety::percent_encoded;
use http::{HeaderValue, header::AUTHORIZATION};
use jiff::Timestamp;
use ring::{digest, hmac};
use secrecy::{ExposeSecret, SecretString};

use crate::{CredentialError, amazon::Keys};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The scope of a signature.
pub(super) struct Scope {
    region: String,
    service: &'static str,
}

impl Scope {
    /// Bedrock in this region.
    pub(super) fn bedrock(region: &str) -> Self {
        Self {
            region: region.to_owned(),
            service: "bedrock",
        }
    }

    /// Signs a request where the key is a pair of keys; false where it is none.
    ///
    /// # Errors
    /// Keys that cannot be read, or a request that cannot be signed.
    pub(super) fn sign(
        &self,
        request: &mut reqwest::Request,
        key: &str,
    ) -> Result<bool, CredentialError> {
        match Keys::read(key)? {
            Some(keys) => self
                .sign_at(request, &keys, Timestamp::now())
                .map(|()| true),
            None => Ok(false),
        }
    }

    fn sign_at(
        &self,
        request: &mut reqwest::Request,
        keys: &Keys,
        now: Timestamp,
    ) -> Result<(), CredentialError> {
        let unsigned = |_| CredentialError::new("the keys of Amazon cannot be sent in a header");
        let moment = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = now.strftime("%Y%m%d").to_string();
        let headers = request.headers_mut();
        let date = HeaderValue::try_from(&moment).map_err(unsigned)?;
        headers.insert("x-amz-date", date);
        if let Some(token) = &keys.token {
            let mut token = HeaderValue::try_from(token.expose_secret()).map_err(unsigned)?;
            token.set_sensitive(true);
            headers.insert("x-amz-security-token", token);
        }
        let url = request.url();
        let host = url.host_str().unwrap_or_default();
        let host = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let mut signed = vec![("host", host)];
        for name in ["content-type", "x-amz-date", "x-amz-security-token"] {
            let value = request.headers().get(name);
            if let Some(value) = value.and_then(|value| value.to_str().ok()) {
                signed.push((name, value.trim().to_owned()));
            }
        }
        signed.sort_unstable();
        let lines: String = signed
            .iter()
            .map(|(name, value)| format!("{name}:{value}\n"))
            .collect();
        let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let path: Vec<String> = url.path().split('/').map(percent_encoded).collect();
        let body = request.body().and_then(|body| body.as_bytes());
        // The path is encoded once more than in the address. There is no query.
        let canonical = format!(
            "{}\n{}\n\n{lines}\n{names}\n{}",
            request.method(),
            path.join("/"),
            hex(digest::digest(&digest::SHA256, body.unwrap_or_default()).as_ref()),
        );
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let canonical = digest::digest(&digest::SHA256, canonical.as_bytes());
        let text = format!(
            "{ALGORITHM}\n{moment}\n{scope}\n{}",
            hex(canonical.as_ref())
        );
        let secret = SecretString::from(format!("AWS4{}", keys.secret.expose_secret()));
        let mut tag = tagged(secret.expose_secret().as_bytes(), &day);
        for word in [self.region.as_str(), self.service, "aws4_request", &text] {
            tag = tagged(tag.as_ref(), word);
        }
        let authorization = format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={}",
            keys.id,
            hex(tag.as_ref())
        );
        let mut authorization = HeaderValue::try_from(authorization).map_err(unsigned)?;
        authorization.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, authorization);
        Ok(())
    }
}

fn tagged(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn signed(
        (method, url, body): (http::Method, &str, &'static str),
        scope: &Scope,
        token: Option<&str>,
        moment: &str,
    ) -> String {
        let mut request = reqwest::Request::new(method, url.parse().unwrap());
        if !body.is_empty() {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert("content-type", json);
            *request.body_mut() = Some(body.into());
        }
        let keys = Keys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            token: token.map(SecretString::from),
        };
        let moment = moment.parse().unwrap();
        scope.sign_at(&mut request, &keys, moment).unwrap();
        let authorization = &request.headers()["authorization"];
        assert!(authorization.is_sensitive());
        let text = authorization.to_str().unwrap();
        text.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    /// `get-vanilla` and `post-vanilla` of Amazon's test suite.
    #[test]
    fn requests_of_amazons_test_suite_have_its_signatures() {
        let scope = Scope {
            region: "us-east-1".to_owned(),
            service: "service",
        };
        let moment = "2015-08-30T12:36:00Z";
        for (method, expected) in [
            (
                http::Method::GET,
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                http::Method::POST,
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
        ] {
            let request = (method, "https://example.amazonaws.com/", "");
            assert_eq!(signed(request, &scope, None, moment), expected);
        }
    }

    /// The signatures are those that botocore makes for the same requests.
    #[test]
    fn a_request_to_bedrock_is_signed_with_its_path_encoded_twice() {
        let url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream";
        for (token, expected) in [
            (
                None,
                "623ec0fa8aa5046296ae7fca1157e379c353a8c4a732e9884b529518f7b5e254",
            ),
            (
                Some("token/+="),
                "33df63e4285eef386c3d178610369dd44ca16fef4cc0ae6dbcd2e86bf9f1f3e6",
            ),
        ] {
            let request = (http::Method::POST, url, r#"{"messages":[]}"#);
            let scope = Scope::bedrock("eu-west-1");
            let signature = signed(request, &scope, token, "2026-11-28T12:00:00Z");
            assert_eq!(signature, expected);
        }
    }
}
