//! An agent elsewhere whose card must be signed by a key that the team file names.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight::a2a::CardSigner;
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};

use super::*;

/// The bytes before an Ed25519 key in PKCS#8.
const ED25519_PREFIX: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];

/// A private key in PEM, and its signer.
fn key(kind: &str) -> (String, CardSigner) {
    let random = SystemRandom::new();
    let der = match kind {
        "ES256" => EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .unwrap()
            .as_ref()
            .to_owned(),
        // As openssl writes it; what ring writes is not read by others.
        _ => {
            let mut seed = [0; 32];
            random.fill(&mut seed).unwrap();
            [&ED25519_PREFIX[..], &seed].concat()
        }
    };
    let text = STANDARD.encode(der);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    let signer = CardSigner::from_pem(&pem).unwrap();
    (pem, signer)
}

fn signed_by(signer: &CardSigner) -> String {
    format!("signed_by: [{}]", signer.public_key().jwk())
}

async fn told(at: &str, more: &str) -> Result<String, String> {
    let run = say(&system(team(at, more)).await, "one").await;
    match run.outcome().await {
        Ok(outcome) => Ok(outcome.text().to_owned()),
        failed => Err(failure(failed)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_asked_only_if_a_named_key_signed_its_card() {
    let unsigned = Elsewhere::start().await;
    for kind in ["ES256", "EdDSA"] {
        let (_, signer) = key(kind);
        let (_, other) = key(kind);
        let elsewhere = Elsewhere::serve(|server| server.card_signer(signer.clone())).await;
        let answer = told(&elsewhere.at, &signed_by(&signer)).await;
        assert_eq!(answer.unwrap(), "did one", "{kind}");
        let answer = told(&elsewhere.at, "").await;
        assert_eq!(
            answer.unwrap(),
            "did one",
            "without named keys any card is trusted"
        );
        let before = elsewhere.runs().await.len();
        for (at, why) in [
            (&elsewhere.at, "none of the trusted keys"),
            (&unsigned.at, "not signed"),
        ] {
            let refused = told(at, &signed_by(&other)).await.unwrap_err();
            assert!(
                refused.contains("card is not trusted") && refused.contains(why),
                "{refused}"
            );
        }
        assert_eq!(elsewhere.runs().await.len(), before, "it was told nothing");
    }
    assert_eq!(unsigned.runs().await.len(), 0, "it was told nothing");
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_refused_when_the_team_is_started() {
    let (pem, _) = key("EdDSA");
    let secret = pem.lines().nth(1).unwrap().to_owned();
    let pem = json!(pem).to_string();
    for (keys, why) in [
        ("[]", "names no key"),
        ("[nothing]", "neither a JSON Web Key nor PEM"),
        (
            "[{ kty: RSA, n: AA, e: AQAB }]",
            "neither Ed25519 nor P-256",
        ),
        (&format!("[{pem}]"), "private"),
    ] {
        let team = team("http://127.0.0.1:1/", &format!("signed_by: {keys}"));
        let system = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
        let refused = system.team(team).start().await.unwrap_err().to_string();
        assert!(
            refused.contains(why) && !refused.contains(&secret),
            "{keys}: {refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_the_official_sdk_signed_is_trusted_and_another_is_not() {
    for kind in ["ES256", "EdDSA"] {
        let folder = tempfile::tempdir().unwrap();
        let (pem, signer) = key(kind);
        let (_, other) = key(kind);
        let file = folder.path().join("key.pem");
        std::fs::write(&file, pem).unwrap();
        let more = [file.to_str().unwrap(), kind, signer.key_id()];
        let Some(peer) = Peer::start_with("JSONRPC", folder.path(), &more).await else {
            return;
        };
        let answer = told(&peer.at, &signed_by(&signer)).await.unwrap();
        assert!(answer.starts_with("peer did one in "), "{answer}");
        let refused = told(&peer.at, &signed_by(&other)).await.unwrap_err();
        assert!(refused.contains("none of the trusted keys"), "{refused}");
        assert_eq!(peer.log(), ["heard one"], "it was told nothing else");
    }
}
