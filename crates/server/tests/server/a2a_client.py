"""The official client of A2A for Python against the server at argv[1], whose agent `desk` does what it is told."""
import asyncio
import queue
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import httpx
from a2a.client import A2ACardResolver
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as t
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError
from google.protobuf import json_format

AT, KEY = sys.argv[1:]
HEARD = queue.Queue()


class Hearing(BaseHTTPRequestHandler):
    """Takes push notifications."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        told = json_format.Parse(body, t.StreamResponse())
        HEARD.put((self.headers["X-A2A-Notification-Token"], self.headers["Authorization"], told))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def heard(token, task):
    """The states of a task, as they were told to the holder of this token."""
    states = []
    while not states or states[-1] in (S.TASK_STATE_SUBMITTED, S.TASK_STATE_WORKING):
        of, authorization, told = HEARD.get(timeout=60)
        assert authorization == "Bearer let-me-in", authorization
        if of == token and told.status_update.task_id == task.id:
            states.append(told.status_update.status.state)
    return states


S = t.TaskState


def said(text, task=None):
    message = t.Message(message_id=str(uuid.uuid4()), role=t.Role.ROLE_USER, parts=[t.Part(text=text)])
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return t.SendMessageRequest(message=message)


async def whole(client, request):
    """All that comes of a message, and the task in the end."""
    events, task = [], None
    async for event in client.send_message(request):
        events.append(event.WhichOneof("payload"))
        if event.HasField("task"):
            task = event.task
    return events, await client.get_task(t.GetTaskRequest(id=task.id)) if task else None


def signed(details):
    """The details of a call of gRPC, with the key."""
    return details._replace(metadata=[*(details.metadata or ()), ("authorization", f"Bearer {KEY}")])


class SignedCalls(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, proceed, details, request):
        return await proceed(signed(details), request)


class SignedStreams(grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, proceed, details, request):
        return await proceed(signed(details), request)


def channel(url):
    return grpc.aio.insecure_channel(url.removeprefix("http://"), interceptors=[SignedCalls(), SignedStreams()])


async def tried(http, card, binding, streaming):
    config = ClientConfig(
        streaming=streaming,
        httpx_client=http,
        grpc_channel_factory=channel,
        supported_protocol_bindings=[binding],
        use_client_preference=True,
    )
    client = ClientFactory(config).create(card)
    events, task = await whole(client, said("keep this"))
    assert task.status.state == S.TASK_STATE_COMPLETED, task
    texts = {artifact.name: artifact.parts[0].text for artifact in task.artifacts}
    assert texts == {"note.txt": "this", "answer": "did keep this"}, texts
    if streaming:
        assert events == ["task", "status_update", "artifact_update", "artifact_update", "status_update"], events

    _, task = await whole(client, said("ask your name?"))
    assert task.status.state == S.TASK_STATE_INPUT_REQUIRED, task
    assert task.status.message.parts[0].text == "your name?", task
    events, again = await whole(client, said("Ada", task))
    assert (again.id, again.status.state) == (task.id, S.TASK_STATE_COMPLETED), again
    assert again.artifacts[0].parts[0].text == 'answered "Ada"', again

    _, failed = await whole(client, said("fail no paper"))
    assert failed.status.state == S.TASK_STATE_FAILED, failed

    # Another program is told of a task: of all of it by the message's own receiver, of the rest by one that is added.
    request = said("ask your name?")
    push = t.TaskPushNotificationConfig(
        url=HEARING, token="all", authentication=t.AuthenticationInfo(scheme="Bearer", credentials="let-me-in")
    )
    request.configuration.task_push_notification_config.CopyFrom(push)
    _, task = await whole(client, request)
    assert heard("all", task) == [S.TASK_STATE_WORKING, S.TASK_STATE_INPUT_REQUIRED]
    push.task_id, push.id, push.token = task.id, "rest", "rest"
    made = await client.create_task_push_notification_config(push)
    assert (made.id, made.url, made.token) == ("rest", HEARING, "rest"), made
    one = t.GetTaskPushNotificationConfigRequest(task_id=task.id, id="rest")
    assert (await client.get_task_push_notification_config(one)).url == HEARING
    all_of = t.ListTaskPushNotificationConfigsRequest(task_id=task.id)
    assert len((await client.list_task_push_notification_configs(all_of)).configs) == 2
    push.id, push.token = "removed", "removed"
    await client.create_task_push_notification_config(push)
    await client.delete_task_push_notification_config(
        t.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="removed")
    )
    await whole(client, said("Ada", task))
    assert heard("rest", task) == [S.TASK_STATE_WORKING, S.TASK_STATE_COMPLETED]

    request = said("hang")
    request.configuration.return_immediately = True
    task = None
    async for event in client.send_message(request):
        task = event.task if event.HasField("task") else task
        if event.HasField("status_update"):
            break
        if not streaming:
            break
    following = None
    if streaming:
        following = client.subscribe(t.SubscribeToTaskRequest(id=task.id))
        first = await anext(following)
        assert first.task.status.state == S.TASK_STATE_WORKING, first
    cancelled = await client.cancel_task(t.CancelTaskRequest(id=task.id))
    assert cancelled.status.state == S.TASK_STATE_CANCELED, cancelled
    if following is not None:
        states = [event.status_update.status.state async for event in following if event.HasField("status_update")]
        assert states[-1] == S.TASK_STATE_CANCELED, states
    try:
        await client.cancel_task(t.CancelTaskRequest(id=task.id))
        raise AssertionError("a task was cancelled twice")
    except TaskNotCancelableError:
        pass
    try:
        await client.get_task(t.GetTaskRequest(id=str(uuid.uuid4())))
        raise AssertionError("a task is there that nobody began")
    except TaskNotFoundError:
        pass
    page = await client.list_tasks(t.ListTasksRequest(page_size=2))
    assert len(page.tasks) == 2 and page.total_size >= 4 and page.next_page_token, page


hearing = ThreadingHTTPServer(("127.0.0.1", 0), Hearing)
HEARING = f"http://127.0.0.1:{hearing.server_port}/"
threading.Thread(target=hearing.serve_forever, daemon=True).start()


async def main():
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as http:
        card = await A2ACardResolver(http, f"{AT}/a2a/desk").get_agent_card()
        assert card.name == "desk" and card.capabilities.streaming and card.capabilities.push_notifications, card
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            for streaming in (True, False):
                await tried(http, card, binding, streaming)
                print(binding, streaming, "good")


asyncio.run(main())
