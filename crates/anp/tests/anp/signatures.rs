//! A signed request is taken from its signer, as it was signed, within its time, and once.

use ghostlight_anp::{Did, DidDocument, DocumentError, Signature, SignatureError, SignedRequest};
use serde_json::Value;

/// What `sign.py` wrote.
struct Recorded {
    all: Value,
}

impl Recorded {
    fn new() -> Self {
        Self {
            all: serde_json::from_str(include_str!("requests.json")).unwrap(),
        }
    }

    fn text(&self, pointer: &str) -> &str {
        self.all
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn created(&self) -> i64 {
        self.all["created"].as_i64().unwrap()
    }

    fn signature(&self, name: &str) -> Result<Signature, SignatureError> {
        let header = |header: &str| self.text(&format!("/{name}/headers/{header}"));
        Signature::read(header("Signature-Input"), header("Signature"))
    }

    fn document(&self, name: &str) -> DidDocument {
        let document = &self.all[name]["document"];
        let did: Did = document["id"].as_str().unwrap().parse().unwrap();
        DidDocument::read(&document.to_string(), &did).unwrap()
    }

    fn request(&self, name: &str) -> SignedRequest<'_> {
        SignedRequest {
            method: self.text(&format!("/{name}/method")),
            target: self.text("/target"),
            authority: "ghostlight.example.org",
            content_digest: Some(self.text(&format!("/{name}/headers/Content-Digest"))),
            body: self.text(&format!("/{name}/body")).as_bytes(),
        }
    }
}

#[test]
fn requests_that_the_python_package_signed_are_taken() {
    let recorded = Recorded::new();
    for name in ["post", "get", "whole_host"] {
        let signature = recorded.signature(name).unwrap();
        let verified = signature.verify(
            &recorded.request(name),
            &recorded.document(name),
            recorded.created() + 10,
        );
        let did = verified.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(did.host(), "agents.example.org");
        assert_eq!(did, signature.claimed());
    }
}

#[test]
fn a_request_that_was_changed_is_refused() {
    let recorded = Recorded::new();
    let signature = recorded.signature("post").unwrap();
    let document = recorded.document("post");
    let now = recorded.created();
    let request = recorded.request("post");
    let elsewhere = "https://elsewhere.example.org/anp/desk/rpc";
    for (changed, error) in [
        (
            SignedRequest {
                method: "PUT",
                ..request
            },
            SignatureError::Forged,
        ),
        (
            SignedRequest {
                target: elsewhere,
                ..request
            },
            SignatureError::Forged,
        ),
        (
            SignedRequest {
                authority: "elsewhere.example.org",
                ..request
            },
            SignatureError::Forged,
        ),
        (
            SignedRequest {
                body: b"{}",
                ..request
            },
            SignatureError::Digest,
        ),
        (
            SignedRequest {
                content_digest: None,
                ..request
            },
            SignatureError::Digest,
        ),
    ] {
        assert_eq!(
            signature.verify(&changed, &document, now).unwrap_err(),
            error,
            "{changed:?}"
        );
    }
    // A body beside a signature that covers none.
    let bare = recorded.signature("get").unwrap();
    let body = SignedRequest {
        body: b"{}",
        ..recorded.request("get")
    };
    let refused = bare.verify(&body, &recorded.document("get"), now);
    assert_eq!(
        refused.unwrap_err(),
        SignatureError::Uncovered("the body's digest")
    );
    for (late, is_taken) in [(-61, false), (-60, true), (300, true), (301, false)] {
        assert_eq!(
            signature.verify(&request, &document, now + late).is_ok(),
            is_taken,
            "{late}"
        );
    }
}

#[test]
fn each_changed_character_of_its_headers_is_seen() {
    let recorded = Recorded::new();
    let (document, request) = (recorded.document("post"), recorded.request("post"));
    let input = recorded.text("/post/headers/Signature-Input");
    let signature = recorded.text("/post/headers/Signature");
    for at in 0..input.len() + signature.len() {
        let (mut input, mut signature) = (input.to_owned(), signature.to_owned());
        let (text, at) = match at.checked_sub(input.len()) {
            None => (&mut input, at),
            Some(at) => (&mut signature, at),
        };
        let other = if &text[at..=at] == "7" { "8" } else { "7" };
        text.replace_range(at..=at, other);
        // The label is no part of what is signed; both headers must have the same.
        let verified = Signature::read(&input, &signature).and_then(|signature| {
            signature
                .verify(&request, &document, recorded.created())
                .cloned()
        });
        assert!(verified.is_err(), "{input} {signature}");
    }
}

#[test]
fn only_the_keys_of_the_identity_sign_for_it() {
    let recorded = Recorded::new();
    let now = recorded.created();
    let signature = recorded.signature("post").unwrap();
    let did = signature.claimed().clone();
    let read = |document: &Value| DidDocument::read(&document.to_string(), &did);
    let verify = |document: &Value| {
        let document = read(document)?;
        signature
            .verify(&recorded.request("post"), &document, now)
            .map(|_| ())
    };
    let document = recorded.all["post"]["document"].clone();
    assert_eq!(verify(&document), Ok(()));
    // A key that may not authenticate.
    let mut changed = document.clone();
    changed["authentication"] = serde_json::json!([]);
    let refused = verify(&changed).unwrap_err();
    assert!(
        matches!(refused, SignatureError::Document(DocumentError::NoKey(_))),
        "{refused}"
    );
    // Another key under the id: the identity ends with the thumbprint of its own.
    let mut changed = document.clone();
    let other =
        recorded.all["get"]["document"]["verificationMethod"][0]["publicKeyMultibase"].clone();
    changed["verificationMethod"][0]["publicKeyMultibase"] = other;
    let refused = verify(&changed).unwrap_err();
    assert!(
        matches!(refused, SignatureError::Document(DocumentError::Unbound(_))),
        "{refused}"
    );
    // The document of somebody else.
    let foreign = read(&recorded.all["get"]["document"]).unwrap_err();
    assert!(matches!(foreign, DocumentError::Foreign(_)), "{foreign}");
    // A curve that is not verified here is told as such.
    let curve = recorded.signature("secp256k1").unwrap();
    let refused = curve.verify(
        &recorded.request("secp256k1"),
        &recorded.document("secp256k1"),
        now,
    );
    let refused = refused.unwrap_err();
    assert!(
        matches!(
            refused,
            SignatureError::Document(DocumentError::KindOfKey(_))
        ),
        "{refused}"
    );
    for text in [
        "",
        "[]",
        "{}",
        "7",
        &"x".repeat(100_000),
        &format!(r#"{{"id":"{did}","authentication":7}}"#),
    ] {
        assert!(DidDocument::read(text, &did).is_err(), "{text:.20}");
    }
}

#[test]
fn hostile_headers_are_errors() {
    let recorded = Recorded::new();
    let input = recorded.text("/post/headers/Signature-Input").to_owned();
    let signature = recorded.text("/post/headers/Signature").to_owned();
    let without = |part: &str| {
        let start = input.find(part).unwrap();
        let end = input[start..]
            .find(';')
            .map_or(input.len(), |length| start + length + 1);
        format!("{}{}", &input[..start], &input[end..])
    };
    let inputs = [
        String::new(),
        "sig1".to_owned(),
        "sig1=?0".to_owned(),
        "sig1=()".to_owned(),
        format!("{input}, sig2=();created=1"),
        input.replace("sig1", "sig2"),
        input.replace("\"@method\"", "\"@method\";req"),
        input.replace("\"@method\"", "7"),
        input.replace("did:wba:agents.example.org", "did:web:agents.example.org"),
        input.replace("did:wba:agents.example.org", "did:wba:169.254.169.254"),
        input.replace('#', "/"),
        input.replace("\"n-1\"", "\"\""),
        input.replace("n-1", &"n".repeat(200)),
        "(".repeat(4_000),
        "a=1,".repeat(2_000),
        without("created="),
        without("nonce="),
        without("keyid="),
    ];
    for input in &inputs {
        assert!(Signature::read(input, &signature).is_err(), "{input:.80}");
    }
    for signature in [
        "",
        "sig1",
        "sig1=7",
        "sig1=:::",
        "sig2=:AA==:",
        "sig1=:AA==:, sig2=:AA==:",
    ] {
        assert!(Signature::read(&input, signature).is_err(), "{signature}");
    }
}
