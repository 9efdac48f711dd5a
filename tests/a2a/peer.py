"""An agent on the official A2A SDK for Python. It does what it is told, wants a header, and writes what it does to argv[2].

The key in the file argv[5], where there is one, signs its card."""
import asyncio
import sys

import grpc
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as t
from a2a.types import a2a_pb2_grpc
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

PORT, LOG, BINDING, GRPC_PORT = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]


def log(line):
    with open(LOG, "a") as file:
        file.write(line + "\n")


def part(text):
    return [t.Part(text=text)]


class Executor(AgentExecutor):
    async def execute(self, context, queue):
        text = context.get_user_input()
        log(f"heard {text}")
        updater = TaskUpdater(queue, context.task_id, context.context_id)
        if context.current_task is None:
            task = t.Task(id=context.task_id, context_id=context.context_id, history=[context.message])
            task.status.state = t.TaskState.TASK_STATE_SUBMITTED
            await queue.enqueue_event(task)
        elif not text.startswith("ask"):
            await updater.add_artifact(part(f"you said {text}"), name="answer")
            return await updater.complete()
        await updater.start_work()
        word, _, rest = text.partition(" ")
        if word == "ask":
            return await updater.requires_input(updater.new_agent_message(part(rest)))
        if word == "fail":
            return await updater.failed(updater.new_agent_message(part(rest)))
        if word == "wait":
            await asyncio.sleep(float(rest))
        await updater.add_artifact(part(f"peer did {text} in {context.context_id}"), name="answer")
        await updater.complete()

    async def cancel(self, context, queue):
        log("cancelled")
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


card = t.AgentCard(
    name="peer",
    description="does what it is told",
    version="1",
    capabilities=t.AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[t.AgentSkill(id="do", name="do", description="does what it is told", tags=["do"])],
    supported_interfaces=[
        t.AgentInterface(
            # A server of gRPC is named without a scheme.
            url=f"127.0.0.1:{GRPC_PORT}" if BINDING == "GRPC" else f"http://127.0.0.1:{PORT}/",
            protocol_binding=BINDING,
            protocol_version="1.0",
        )
    ],
)
if sys.argv[5:]:
    from a2a.utils.signing import create_agent_card_signer

    file, algorithm, key_id = sys.argv[5:]
    card.name = "peer, \u00fcberall"
    # What clients of all versions read alike, whether or not the signer leaves out what is empty.
    card.skills[0].tags[:] = []
    card.capabilities.extensions.add(uri="urn:x").params.update({"n": 2, "x": 0.5, "empty": ""})
    with open(file) as key:
        card = create_agent_card_signer(key.read(), {"kid": key_id, "alg": algorithm, "typ": "JOSE"})(card)
handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
routes = create_agent_card_routes(card)
routes += create_jsonrpc_routes(handler, rpc_url="/") if BINDING == "JSONRPC" else create_rest_routes(handler)
app = Starlette(routes=routes)


async def guarded(scope, receive, send):
    headers = dict(scope.get("headers", []))
    if scope["type"] == "http" and headers.get(b"x-token") != b"Bearer ghostlight":
        return await PlainTextResponse("who are you?", status_code=401)(scope, receive, send)
    return await app(scope, receive, send)


class Guard(grpc.aio.ServerInterceptor):
    async def intercept_service(self, proceed, details):
        if ("x-token", "Bearer ghostlight") not in [tuple(pair) for pair in details.invocation_metadata]:
            raise PermissionError("who are you?")
        return await proceed(details)


async def main():
    if BINDING == "GRPC":
        server = grpc.aio.server(interceptors=[Guard()])
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
        server.add_insecure_port(f"127.0.0.1:{GRPC_PORT}")
        await server.start()
    await uvicorn.Server(uvicorn.Config(guarded, host="127.0.0.1", port=PORT, log_level="warning")).serve()


asyncio.run(main())
