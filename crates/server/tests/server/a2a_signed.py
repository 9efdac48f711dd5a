"""The official client of A2A for Python reads the card of the agent at argv[1], which the key in argv[2] must have signed."""
import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from jwt.api_jwk import PyJWK

AT, KEY = sys.argv[1], json.loads(sys.argv[2])


def key_of(kid, jku):
    assert (kid, jku) == (KEY["kid"], None), (kid, jku)
    return PyJWK(KEY)


async def main():
    verifies = create_signature_verifier(key_of, [KEY["alg"]])
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, AT).get_agent_card(signature_verifier=verifies)
    assert card.name == "desk" and len(card.signatures) == 1, card
    card.description += "!"
    try:
        verifies(card)
        raise AssertionError("an altered card was trusted")
    except InvalidSignaturesError:
        pass


asyncio.run(main())
