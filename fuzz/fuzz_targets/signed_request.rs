//! No header makes the readers of identities and signatures panic, and nothing that was not signed is verified.
#![no_main]

use ghostlight_anp::{DidDocument, Signature, SignedRequest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str, &str)| {
    let (input, signature, document) = texts;
    let Ok(signature) = Signature::read(input, signature) else { return };
    let did = signature.claimed();
    assert!(did.document_address().starts_with(&format!("https://{}", did.host())));
    let Ok(document) = DidDocument::read(document, did) else { return };
    let request = SignedRequest {
        method: "POST",
        target: "https://example.org/anp/desk/rpc",
        authority: "example.org",
        content_digest: None,
        has_body: true,
    };
    assert!(signature.verify(&request, &document, 1_795_000_000).is_err());
});
