//! `serve --card-key`: cards of Agent2Agent that are signed.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight::a2a::{CardSigner, verify_card};
use ring::{rand::SystemRandom, signature::Ed25519KeyPair};
use serde_json::json;

use crate::{
    listening::over_http::{ask, free},
    own_command::Desk,
};

fn serve<'a>(at: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["serve", "team.yaml", "--listen", at], more].concat()
}

#[test]
fn a_server_signs_its_cards_with_the_key_of_a_file_and_says_what_to_trust() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let text = STANDARD.encode(der);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    desk.write("card.pem", &pem);
    let signer = CardSigner::from_pem(&pem).unwrap();
    let to = free();
    let at = to.to_string();
    let address = ["--address", "https://agents.example.org"];
    let signing = [address[0], address[1], "--card-key", "card.pem"];
    let mut serving = desk.start(&serve(&at, &signing));
    serving.says(&format!(
        "their public key is {}",
        signer.public_key().jwk()
    ));
    let path = "/.well-known/agent-card.json";
    let (status, card) = ask(to, "GET", path, "", "").unwrap();
    assert_eq!(status, 200, "{card}");
    let card = verify_card(&card, &[signer.public_key().clone()]).unwrap();
    assert_eq!(card.name, "desk");
    serving.signal("TERM");
    serving.ends().exits(0);

    // Without an address of its own the server would sign the one that a client names.
    let done = desk.run(&serve(&at, &["--card-key", "card.pem"])).exits(2);
    assert!(done.err.contains("--address"), "{}", done.err);
    desk.write("public.pem", &pem.replace("PRIVATE", "PUBLIC"));
    for (file, why) in [
        ("public.pem", "not a private key"),
        ("none.pem", "No such file"),
    ] {
        let done = desk
            .run(&serve(&at, &[address[0], address[1], "--card-key", file]))
            .exits(2);
        assert!(
            done.err.contains(file) && done.err.contains(why),
            "{}",
            done.err
        );
    }
}
