//! Signed cards: what is signed verifies, and nothing else does.
#![allow(clippy::unwrap_used, missing_docs)]

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ghostlight_a2a::{
    CardError, CardKey, CardKeyError, CardSigner,
    protocol::{
        AgentCapabilities, AgentCard, AgentCardSignature, AgentExtension, AgentInterface,
        AgentSkill,
    },
    verify_card,
};
use proptest::prelude::*;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair},
};
use serde_json::{Map, Value, json};

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

fn ed25519() -> CardSigner {
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    CardSigner::from_pem(&pem("PRIVATE KEY", der.as_ref())).unwrap()
}

fn p256() -> CardSigner {
    let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let der = EcdsaKeyPair::generate_pkcs8(kind, &SystemRandom::new()).unwrap();
    CardSigner::from_pem(&pem("PRIVATE KEY", der.as_ref())).unwrap()
}

fn card() -> AgentCard {
    let text = |text: &str| text.to_owned();
    AgentCard {
        name: text("translator"),
        description: text("übersetzt 文"),
        version: text("1"),
        supported_interfaces: vec![AgentInterface {
            url: text("https://agents.example.org/a2a"),
            protocol_binding: text("JSONRPC"),
            protocol_version: text("1.0"),
            ..AgentInterface::default()
        }],
        capabilities: AgentCapabilities {
            streaming: true,
            extensions: vec![AgentExtension {
                uri: text("urn:x"),
                params: json!({ "n": 1.5, "\u{1f600}": [1, null, {}] })
                    .as_object()
                    .cloned(),
                ..AgentExtension::default()
            }],
            ..AgentCapabilities::default()
        },
        default_input_modes: vec![text("text/plain")],
        default_output_modes: vec![text("text/plain")],
        skills: vec![AgentSkill {
            id: text("s"),
            name: text("s"),
            description: text("translates"),
            tags: vec![text("s")],
            ..AgentSkill::default()
        }],
        ..AgentCard::default()
    }
}

fn signed(signer: &CardSigner) -> Value {
    let mut card = card();
    signer.sign(&mut card).unwrap();
    json!(card)
}

fn trusted(signer: &CardSigner) -> [CardKey; 1] {
    [signer.public_key().clone()]
}

/// A signature with this header, made with this key over the canonical card.
fn signature(key: &Ed25519KeyPair, header: &Value) -> Value {
    signature_under(key, &header.to_string())
}

/// A signature with a header that is written so.
fn signature_under(key: &Ed25519KeyPair, header: &str) -> Value {
    let protected = URL_SAFE_NO_PAD.encode(header);
    // The card has nothing that is left out.
    let bytes = serde_json_canonicalizer::to_vec(&json!(card())).unwrap();
    let message = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(bytes));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()));
    json!({ "protected": protected, "signature": signature })
}

/// The verdict on a card with these signatures.
fn verified(signatures: &Value, keys: &[CardKey]) -> Result<AgentCard, CardError> {
    let mut card = json!(card());
    card["signatures"] = signatures.clone();
    verify_card(&card, keys)
}

fn pair() -> (Ed25519KeyPair, [CardKey; 1]) {
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let signer = CardSigner::from_pem(&pem("PRIVATE KEY", der.as_ref())).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
    (pair, trusted(&signer))
}

#[test]
fn a_card_is_trusted_that_a_trusted_key_signed() {
    for signer in [ed25519(), p256()] {
        let signed = signed(&signer);
        assert_eq!(verify_card(&signed, &trusted(&signer)), Ok(card()));
        // The key may be written down as a JSON Web Key, and others may be trusted beside it.
        let written = CardKey::read(&signer.public_key().jwk().to_string()).unwrap();
        let keys = [ed25519().public_key().clone(), written];
        assert_eq!(verify_card(&signed, &keys), Ok(card()));
        // The protocol's fields that are not signed, and fields that are none of its own, change nothing.
        let mut served = signed.clone();
        served["url"] = json!("https://agents.example.org/old");
        served["signatures"][0]["header"] = json!({ "note": "x" });
        assert_eq!(verify_card(&served, &trusted(&signer)), Ok(card()));
    }
    // Two keys while one follows the other: either is enough.
    let (old, new) = (ed25519(), p256());
    let mut both = card();
    old.sign(&mut both).unwrap();
    new.sign(&mut both).unwrap();
    for signer in [old, new] {
        assert_eq!(verify_card(&json!(both), &trusted(&signer)), Ok(card()));
    }
}

#[test]
fn a_key_has_its_thumbprint_as_its_id() {
    // RFC 8037, A.1 to A.3.
    let seed = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
    let prefix = [
        0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
    ];
    let der = [prefix.to_vec(), seed.unwrap()].concat();
    let signer = CardSigner::from_pem(&pem("PRIVATE KEY", &der)).unwrap();
    assert_eq!(
        signer.public_key().jwk(),
        json!({
            "crv": "Ed25519", "kty": "OKP", "alg": "EdDSA",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
            "kid": "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
        })
    );
    assert_eq!(
        signer.key_id(),
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    );
    assert!(!format!("{signer:?}").contains("nWGxne"));
}

#[test]
fn a_card_without_a_signature_or_with_that_of_another_is_refused() {
    for (signer, other) in [
        (ed25519(), ed25519()),
        (p256(), p256()),
        (p256(), ed25519()),
    ] {
        assert_eq!(
            verify_card(&json!(card()), &trusted(&signer)),
            Err(CardError::Unsigned)
        );
        assert_eq!(
            verified(&json!([]), &trusted(&signer)),
            Err(CardError::Unsigned)
        );
        let refused = verify_card(&signed(&other), &trusted(&signer)).unwrap_err();
        assert!(
            matches!(&refused, CardError::UnknownKey { id, .. } if id == other.key_id()),
            "{refused}"
        );
        assert!(matches!(
            verify_card(&signed(&signer), &[]),
            Err(CardError::UnknownKey { .. })
        ));
        // The id of the key that is trusted is no proof.
        let mut own = signer.public_key().jwk();
        let foreign = other.public_key().jwk();
        for part in ["x", "y", "crv", "kty", "alg"] {
            own[part] = foreign[part].clone();
        }
        let forged = CardKey::read(&own.to_string()).unwrap();
        let refused = verify_card(&signed(&signer), &[forged]).unwrap_err();
        let is_told = matches!(refused, CardError::Forged(_) | CardError::UnknownKey { .. });
        assert!(is_told, "{refused}");
    }
}

#[test]
fn a_signature_by_no_algorithm_or_with_demands_is_refused() {
    let (key, keys) = pair();
    let given = signature(&key, &json!({ "alg": "EdDSA", "typ": "JOSE" }));
    assert_eq!(verified(&json!([given]), &keys), Ok(card()));
    for alg in [
        json!("none"),
        json!("None"),
        json!("HS256"),
        json!("RS256"),
        json!(null),
        json!(7),
        json!(""),
    ] {
        let given = signature(&key, &json!({ "alg": alg }));
        let refused = verified(&json!([given]), &keys).unwrap_err();
        assert!(
            matches!(refused, CardError::Algorithm(_)),
            "{alg}: {refused}"
        );
    }
    let mut none = signature(&key, &json!({ "alg": "none" }));
    none["signature"] = json!("");
    assert_eq!(
        verified(&json!([none]), &keys),
        Err(CardError::Algorithm("none".to_owned()))
    );
    // A key of one kind verifies nothing that is said to be by the other.
    let given = signature(&key, &json!({ "alg": "ES256" }));
    assert!(matches!(
        verified(&json!([given]), &keys),
        Err(CardError::UnknownKey { .. })
    ));
    for extension in [
        json!({ "crit": ["exp"], "exp": 1 }),
        json!({ "crit": [] }),
        json!({ "b64": false }),
    ] {
        let mut header = extension.clone();
        header["alg"] = json!("EdDSA");
        let given = signature(&key, &header);
        let refused = verified(&json!([given]), &keys).unwrap_err();
        assert!(matches!(refused, CardError::Extension(_)), "{refused}");
        let mut given = signature(&key, &json!({ "alg": "EdDSA" }));
        given["header"] = extension;
        assert!(matches!(
            verified(&json!([given]), &keys),
            Err(CardError::Extension(_))
        ));
    }
    // A header that says something twice says nothing: readers differ in which of the two counts.
    for header in [
        r#"{"alg": "none", "alg": "EdDSA"}"#,
        r#"{"alg": "EdDSA", "kid": "a", "kid": "b"}"#,
    ] {
        let given = signature_under(&key, header);
        assert!(matches!(
            verified(&json!([given]), &keys),
            Err(CardError::Malformed(_))
        ));
    }
    // The unsigned header may not repeat or contradict the signed one.
    for (header, more) in [
        (json!({ "typ": "JOSE" }), json!({ "alg": "EdDSA" })),
        (json!({ "alg": "EdDSA", "kid": "a" }), json!({ "kid": "b" })),
    ] {
        let mut given = signature(&key, &header);
        given["header"] = more;
        assert!(matches!(
            verified(&json!([given]), &keys),
            Err(CardError::Malformed(_))
        ));
    }
}

#[test]
fn keys_that_a_signature_brings_along_count_for_nothing() {
    let (_, keys) = pair();
    let (forger, own) = pair();
    // Nobody listens there; were it asked for keys, the error would be another one.
    for (name, value) in [
        ("jwk", own[0].jwk()),
        ("jku", json!("http://127.0.0.1:1/keys.json")),
        ("x5u", json!("http://127.0.0.1:1/chain.pem")),
        ("x5c", json!(["MIIB"])),
    ] {
        let given = signature(
            &forger,
            &json!({ "alg": "EdDSA", "kid": "forger", name: value }),
        );
        let refused = verified(&json!([given]), &keys).unwrap_err();
        assert!(
            matches!(refused, CardError::UnknownKey { .. }),
            "{name}: {refused}"
        );
        let given = signature(&forger, &json!({ "alg": "EdDSA", name: value }));
        assert_eq!(
            verified(&json!([given]), &keys),
            Err(CardError::Forged(String::new()))
        );
    }
}

#[test]
fn what_is_too_large_or_no_signature_is_refused() {
    let (key, keys) = pair();
    let good = signature(&key, &json!({ "alg": "EdDSA" }));
    let many: Vec<&Value> = std::iter::repeat_n(&good, 17).collect();
    assert!(matches!(
        verified(&json!(many), &keys),
        Err(CardError::TooLarge(_))
    ));
    assert_eq!(verified(&json!(many[..16]), &keys), Ok(card()));
    let long = signature(&key, &json!({ "alg": "EdDSA", "x": "y".repeat(4 << 10) }));
    assert!(matches!(
        verified(&json!([long]), &keys),
        Err(CardError::TooLarge(_))
    ));
    let mut large = json!(card());
    large["description"] = json!("x".repeat(1 << 20));
    large["signatures"] = json!([good]);
    assert!(matches!(
        verify_card(&large, &keys),
        Err(CardError::TooLarge(_))
    ));
    let with = |name: &str, value: Value| {
        let mut given = good.clone();
        given[name] = value;
        json!([given])
    };
    let text = good["signature"].as_str().unwrap();
    for signatures in [
        json!("x"),
        json!({}),
        json!([7]),
        json!([null]),
        json!([{}]),
        with("protected", json!(7)),
        with("protected", json!("!")),
        with("protected", json!(URL_SAFE_NO_PAD.encode("[]"))),
        with("protected", json!(URL_SAFE_NO_PAD.encode("{"))),
        with("signature", json!(null)),
        with("signature", json!("")),
        with("signature", json!(&text[..84])),
        with("signature", json!(format!("{text}=="))),
        with("signature", json!("A".repeat(1 << 20))),
        with("header", json!([])),
        json!([signature(&key, &json!({ "alg": "EdDSA", "kid": 7 }))]),
    ] {
        let refused = verified(&signatures, &keys).unwrap_err();
        assert!(
            matches!(refused, CardError::Malformed(_)),
            "{signatures}: {refused}"
        );
    }
    for none in [json!(null), json!([]), json!("card")] {
        assert_eq!(verify_card(&none, &keys), Err(CardError::Unsigned));
    }
    // One signature that is none does not spoil another.
    assert_eq!(verified(&json!([{}, good]), &keys), Ok(card()));
}

#[test]
fn what_is_no_public_key_for_signatures_is_refused_with_the_reason() {
    let jwk = ed25519().public_key().jwk();
    let with = |name: &str, value: Value| {
        let mut jwk = jwk.clone();
        jwk[name] = value;
        CardKey::read(&jwk.to_string())
    };
    assert!(with("use", json!("sig")).is_ok() && with("key_ops", json!(["verify"])).is_ok());
    assert_eq!(with("d", json!("AA")), Err(CardKeyError::Private));
    for (name, value) in [
        ("alg", json!("ES256")),
        ("use", json!("enc")),
        ("key_ops", json!(["sign"])),
    ] {
        assert!(
            matches!(with(name, value), Err(CardKeyError::Purpose(_))),
            "{name}"
        );
    }
    assert_eq!(with("kty", json!("RSA")), Err(CardKeyError::Kind));
    assert_eq!(with("crv", json!("P-384")), Err(CardKeyError::Kind));
    for (name, value) in [
        ("kty", json!(null)),
        ("x", json!("AA")),
        ("x", json!(7)),
        ("kid", json!(7)),
    ] {
        assert!(
            matches!(with(name, value), Err(CardKeyError::Malformed(_))),
            "{name}"
        );
    }
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    assert_eq!(
        CardKey::read(&pem("PRIVATE KEY", der.as_ref())),
        Err(CardKeyError::Private)
    );
    assert_eq!(
        CardKey::read(&pem("PUBLIC KEY", &[0x30; 90])),
        Err(CardKeyError::Kind)
    );
    let long = "x".repeat(20 << 10);
    let twice = format!("{{\"x\": \"AA\", {}", &jwk.to_string()[1..]);
    for text in [
        &twice,
        "",
        "{",
        "[]",
        "ssh-ed25519 AAAA",
        "-----BEGIN PUBLIC KEY-----\n!",
        &long,
    ] {
        assert!(
            matches!(CardKey::read(text), Err(CardKeyError::Malformed(_))),
            "{text:.40}"
        );
    }
    for text in [
        "",
        "x",
        &pem("EC PRIVATE KEY", &[0x30; 90]),
        &pem("PUBLIC KEY", &[0x30; 90]),
    ] {
        assert!(
            matches!(CardSigner::from_pem(text), Err(CardKeyError::Malformed(_))),
            "{text}"
        );
    }
    assert!(matches!(
        CardSigner::from_pem(&pem("PRIVATE KEY", &[0x30; 90])),
        Err(CardKeyError::Kind)
    ));
}

#[test]
fn a_public_key_in_pem_is_read() {
    // Written by openssl.
    let text = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEdrjii1LhtW0rv6dxBR+N6lVHssk5
Ua4gCv1uMCLXMr9iHU3KHFGwSv80sk7tXGuZRBuUV1uPKfvIMjvzp3j9bQ==
-----END PUBLIC KEY-----";
    let jwk = CardKey::read(text).unwrap().jwk();
    assert_eq!(
        (&jwk["kty"], &jwk["alg"], &jwk["kid"]),
        (&json!("EC"), &json!("ES256"), &json!(null))
    );
    let signer = ed25519();
    let x = signer.public_key().jwk()["x"].as_str().unwrap().to_owned();
    let prefix = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
    let spki = [prefix.to_vec(), URL_SAFE_NO_PAD.decode(x).unwrap()].concat();
    let key = CardKey::read(&pem("PUBLIC KEY", &spki)).unwrap();
    assert_eq!(verify_card(&signed(&signer), &[key]), Ok(card()));
}

/// The official SDKs sign a card without its empty fields, and serve it with fields of version 0.3.
#[test]
fn a_card_that_was_signed_without_its_empty_fields_is_trusted() {
    let (key, keys) = pair();
    let whole = json!({ "name": "a", "description": "", "capabilities": {}, "skills": [{ "id": "s", "tags": [] }] });
    let protected = URL_SAFE_NO_PAD.encode(json!({ "alg": "EdDSA" }).to_string());
    let bytes = URL_SAFE_NO_PAD.encode(r#"{"name":"a","skills":[{"id":"s"}]}"#);
    let signature = URL_SAFE_NO_PAD.encode(key.sign(format!("{protected}.{bytes}").as_bytes()));
    let mut served = whole.clone();
    served["signatures"] = json!([{ "protected": protected, "signature": signature }]);
    served["preferredTransport"] = json!("JSONRPC");
    let read: AgentCard = serde_json::from_value(whole).unwrap();
    assert_eq!(verify_card(&served, &keys), Ok(read));
    served["skills"][0]["tags"] = json!(["more"]);
    assert!(matches!(
        verify_card(&served, &keys),
        Err(CardError::Forged(_))
    ));
}

prop_compose! {
    fn cards()(
        (name, description) in ("\\PC{1,8}", "\\PC{0,20}"),
        urls in prop::collection::vec("[a-z:/.]{0,12}", 0..3),
        (streaming, is_required) in any::<(bool, bool)>(),
        params in prop::option::of(prop::collection::btree_map("\\PC{0,4}", -1_000_000_i64..1_000_000, 0..3)),
        skills in prop::collection::vec(("[a-zäß]{1,4}", prop::collection::vec("\\PC{0,4}", 0..3)), 0..3),
    ) -> AgentCard {
        let extension = AgentExtension {
            uri: "urn:x".to_owned(),
            required: is_required,
            params: params.map(|params| {
                params.into_iter().map(|(name, number)| (name, json!(number))).collect::<Map<_, _>>()
            }),
            ..AgentExtension::default()
        };
        let interface = |url| AgentInterface { url, ..AgentInterface::default() };
        let skill = |(id, tags): (String, Vec<String>)| AgentSkill { id, tags, ..AgentSkill::default() };
        AgentCard {
            name,
            description,
            supported_interfaces: urls.into_iter().map(interface).collect(),
            capabilities: AgentCapabilities { streaming, extensions: vec![extension], ..Default::default() },
            skills: skills.into_iter().map(skill).collect(),
            ..AgentCard::default()
        }
    }
}

proptest! {
    #[test]
    fn a_signed_card_verifies_and_with_any_other_byte_does_not(
        plain in cards(),
        is_ed25519 in any::<bool>(),
        place in any::<prop::sample::Index>(),
        change in 1_u8..=255,
    ) {
        let signer = if is_ed25519 { ed25519() } else { p256() };
        let mut card = plain.clone();
        signer.sign(&mut card).unwrap();
        let mut bytes = serde_json::to_vec(&card).unwrap();
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        prop_assert_eq!(verify_card(&read, &trusted(&signer)), Ok(plain));
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        if let Ok(altered) = serde_json::from_slice::<Value>(&bytes) {
            prop_assert!(verify_card(&altered, &trusted(&signer)).is_err(), "{}", altered);
        }
    }

    #[test]
    fn nothing_that_an_agent_serves_as_its_signature_is_trusted_or_fatal(
        protected in "[\\PC]{0,40}|[A-Za-z0-9_-]{0,60}",
        signature in "[\\PC]{0,100}|[A-Za-z0-9_-]{86}",
        header in prop::option::of(prop::collection::btree_map("alg|crit|kid|jku", "[a-zA-Z0-9]{0,5}", 0..3)),
        alg in "ES256|EdDSA|none|[a-zA-Z0-9]{0,5}",
    ) {
        let keys = [ed25519().public_key().clone(), p256().public_key().clone()];
        let of_alg = URL_SAFE_NO_PAD.encode(json!({ "alg": alg }).to_string());
        for protected in [protected, of_alg] {
            let header = header.as_ref().map(|header| json!(header).as_object().cloned().unwrap());
            let given = AgentCardSignature { protected, signature: signature.clone(), header };
            prop_assert!(verified(&json!([given]), &keys).is_err());
        }
    }
}
