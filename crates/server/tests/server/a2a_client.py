"""The official client of A2A for Python against the server at argv[1], whose agent `desk` does what it is told."""
import asyncio
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as t
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError

AT, KEY = sys.argv[1:]
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


async def tried(http, card, binding, streaming):
    config = ClientConfig(
        streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding], use_client_preference=True
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


async def main():
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as http:
        card = await A2ACardResolver(http, f"{AT}/a2a/desk").get_agent_card()
        assert card.name == "desk" and card.capabilities.streaming, card
        for binding in ("JSONRPC", "HTTP+JSON"):
            for streaming in (True, False):
                await tried(http, card, binding, streaming)
                print(binding, streaming, "good")


asyncio.run(main())
