//! Agent2Agent: cards that the server signs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight_a2a::{CardError, CardKey, CardSigner, protocol::AgentCard, verify_card};
use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::{Scope, Server, Visibility};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair},
};
use serde_json::json;

use crate::{a2a::ALL, a2a_peers::told_by, desk::Desk};

const CARD: &str = "/a2a/desk/.well-known/agent-card.json";
const ADDRESS: &str = "https://agents.example.org";

fn signers() -> [CardSigner; 2] {
    let random = SystemRandom::new();
    let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let p256 = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
    let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    [ed25519, p256].map(|der| {
        let text = STANDARD.encode(der);
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        CardSigner::from_pem(&pem).unwrap()
    })
}

async fn desk(set_up: impl FnOnce(Server) -> Server) -> Desk {
    Desk::start(SystemOptions::default(), |server, keys| {
        let server = server.keys(keys.clone());
        set_up(server.visibility("desk", Visibility::Public))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_card_is_signed_for_the_servers_own_address() {
    for signer in signers() {
        let keys: [CardKey; 1] = [signer.public_key().clone()];
        let desk = desk(|server| server.address(ADDRESS).card_signer(signer)).await;
        let answer = desk.client.get(CARD).await.is(200);
        let card = verify_card(&answer.json(), &keys).unwrap();
        assert_eq!(card.name, "desk");
        assert!(
            card.supported_interfaces
                .iter()
                .all(|one| one.url.starts_with(ADDRESS))
        );
        let mut altered = answer.json();
        altered["supportedInterfaces"][0]["url"] = json!("https://elsewhere.example.org");
        assert!(matches!(
            verify_card(&altered, &keys),
            Err(CardError::Forged(_))
        ));
        // A client that has the card does not get it again, although each signature by ES256 is another.
        let known = format!("If-None-Match: {}\r\n", answer.headers["etag"]);
        desk.client.request("GET", CARD, &known, None).await.is(304);
        let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
        for binding in ALL {
            let card = binding.ask(&ada, "GetExtendedAgentCard", json!({})).await;
            let card = verify_card(&card.unwrap(), &keys).unwrap();
            assert!(card.skills.len() >= 2, "{card:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_signs_no_address_that_a_client_names_and_nothing_without_a_key() {
    let [signer, _] = signers();
    let keyless = desk(|server| server.address(ADDRESS)).await;
    let card: AgentCard =
        serde_json::from_value(keyless.client.get(CARD).await.is(200).json()).unwrap();
    assert_eq!(card.signatures, []);
    let desk = desk(|server| server.card_signer(signer)).await;
    let told = desk.client.get(CARD).await.is(501).json();
    assert!(
        told["detail"].as_str().unwrap().contains("its own address"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_of_a2a_verifies_the_servers_cards() {
    for signer in signers() {
        let key = signer.public_key().jwk().to_string();
        let desk = desk(|server| server.address(ADDRESS).card_signer(signer)).await;
        let at = format!("http://{}/a2a/desk", desk.client.to);
        if !told_by("a2a_signed.py", &[&at, &key]).await {
            return;
        }
    }
}
