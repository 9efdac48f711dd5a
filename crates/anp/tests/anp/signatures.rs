//! A signed request is taken from its signer, as it was signed, within its time, and once.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ghostlight_anp::{Did, DidDocument, DocumentError, Signature, SignatureError, SignedRequest};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

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

    fn body(&self, name: &str) -> &[u8] {
        self.text(&format!("/{name}/body")).as_bytes()
    }

    fn request(&self, name: &str) -> SignedRequest<'_> {
        SignedRequest {
            method: self.text(&format!("/{name}/method")),
            target: self.text("/target"),
            authority: "ghostlight.example.org",
            content_digest: Some(self.text(&format!("/{name}/headers/Content-Digest"))),
            has_body: !self.body(name).is_empty(),
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
        let did = verified.and_then(|head| head.with_body(recorded.body(name)));
        let did = did.unwrap_or_else(|error| panic!("{name}: {error}"));
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
    // Another body, and one beside a signature that covers none.
    let head = signature.verify(&request, &document, now).unwrap();
    assert_eq!(head.with_body(b"{}"), Err(SignatureError::Digest));
    let bare = recorded.signature("get").unwrap();
    let body = SignedRequest {
        has_body: true,
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
            let head = signature.verify(&request, &document, recorded.created())?;
            head.with_body(recorded.body("post")).cloned()
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
        &format!(
            r#"{{"id":"{did}","verificationMethod":[{{"id":"k","publicKeyJwk":{{"kty":"OKP","x":"a","x":"b"}}}}]}}"#
        ),
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
        input.replace("\"@method\"", "\"@method\" \"@method\""),
        format!("{input};alg=7"),
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

/// Somebody with a P-256 key.
struct Signer {
    did: String,
    key: EcdsaKeyPair,
}

impl Signer {
    fn new(did: &str) -> Self {
        let (form, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(form, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(form, key.as_ref(), &random).unwrap();
        let did = did.to_owned();
        Self { did, key }
    }

    /// Signs a request for nothing with these parameters, and has it verified.
    fn verified(&self, more: &str) -> Result<String, SignatureError> {
        let did: Did = self.did.parse().unwrap();
        let id = format!("{did}#key-1");
        let point = self.key.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        let key = json!({
            "id": id, "publicKeyJwk": { "kty": "EC", "crv": "P-256", "x": x, "y": y },
        });
        let document = json!({ "id": did.to_string(), "authentication": [key] });
        let document = DidDocument::read(&document.to_string(), &did).unwrap();
        let parameters =
            format!(r#"("@method" "@target-uri");created=1000;nonce="n";keyid="{id}"{more}"#);
        let target = "https://ghostlight.example.org/";
        let message = format!(
            "\"@method\": GET\n\"@target-uri\": {target}\n\"@signature-params\": {parameters}"
        );
        let signed = self
            .key
            .sign(&SystemRandom::new(), message.as_bytes())
            .unwrap();
        let signed = format!("sig1=:{}:", STANDARD.encode(signed));
        let signature = Signature::read(&format!("sig1={parameters}"), &signed)?;
        let request = SignedRequest {
            method: "GET",
            target,
            authority: "ghostlight.example.org",
            content_digest: None,
            has_body: false,
        };
        let head = signature.verify(&request, &document, 1_000)?;
        head.with_body(b"").map(Did::to_string)
    }
}

#[test]
fn a_signature_is_of_the_algorithm_of_its_key_and_an_identity_of_the_key_that_it_is_bound_to() {
    let plain = Signer::new("did:wba:agents.example.org:user:ada");
    for fine in ["", r#";alg="ecdsa-p256-sha256""#] {
        assert_eq!(plain.verified(fine).unwrap(), plain.did);
    }
    for wrong in ["hmac-sha256", "ed25519", "none", ""] {
        let refused = plain.verified(&format!(r#";alg="{wrong}""#)).unwrap_err();
        assert!(matches!(refused, SignatureError::Malformed(_)), "{refused}");
    }
    // It ends with the thumbprint of a secp256k1 key, which no other key has.
    let bound =
        "did:wba:agents.example.org:user:ada:k1_3rO78cmw_N-NMgKk6T3Nlds_ZmtLasXKkG_gfAgpjSg";
    let refused = Signer::new(bound).verified("").unwrap_err();
    assert!(
        matches!(refused, SignatureError::Document(DocumentError::Unbound(_))),
        "{refused}"
    );
}
