"""Writes requests.json: requests signed by the Python package anp 1.0.7 (pip install anp==1.0.7).

The keys are drawn anew each time; the tests only need that the documents and the signatures belong together.
"""

import json
import pathlib

from anp.authentication.did_wba import create_did_wba_document
from anp.authentication.http_signatures import generate_http_signature_headers
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

CREATED = 1_795_000_000
TARGET = "https://ghostlight.example.org/anp/desk/rpc"
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ask", "params": {"text": "well"}})


def signed(profile, path, method, body):
    document, keys = create_did_wba_document(
        "agents.example.org", path_segments=path, did_profile=profile
    )
    key = serialization.load_pem_private_key(keys["key-1"][0], password=None)

    def sign(content, _fragment):
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key.sign(content, ec.ECDSA(hashes.SHA256()))
        return key.sign(content)

    headers = generate_http_signature_headers(
        document, TARGET, method, sign, body=body, nonce="n-1", created=CREATED
    )
    return {"document": document, "method": method, "body": body or "", "headers": headers}


requests = {
    "created": CREATED,
    "target": TARGET,
    "post": signed("e1", ["user", "ada"], "POST", BODY),
    "get": signed("e1", ["user", "ada"], "GET", None),
    "whole_host": signed("e1", None, "POST", BODY),
    "secp256k1": signed("k1", ["user", "ada"], "POST", BODY),
}
place = pathlib.Path(__file__).with_name("requests.json")
place.write_text(json.dumps(requests, indent=1) + "\n")
