#!/usr/bin/env python3
"""The official Python SDK of the Agent2Agent protocol, as a client and as a server. Run by hand; needs Python 3.10 and pip.

    cargo build -p shelly-host && python3 tests/interop/a2a.py [--help]

Lanes:

client  The client of the SDK gives tasks to `shelly-host serve --a2a`, over JSON-RPC and over HTTP+JSON: a stream, an answer
        that is waited for, a question, a list, a cancellation, errors, another version.
push    Updates of tasks come to an address of a client of the SDK, if the program has `--a2a-push`.
server  An agent of `shelly-host` is one that the SDK serves, with and without streams: an answer, a question without a person,
        a failure.

The SDK is installed from PyPI below target/interop/. A server in this script plays the model. Prints a line for each check and
the counts, and exits with 1 if one failed.
"""

import argparse
import asyncio
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "target" / "interop" / "a2a"
PACKAGES = ["a2a-sdk[http-server]==1.3.0", "uvicorn"]
TOKEN = "0123456789abcdef0123456789abcdef"
# How long a process may take to start, and a task to end.
PATIENCE = 30


class Failed(Exception):
    """A check that failed, and why."""


class Skipped(Exception):
    """Says why a lane cannot be run."""


def need(holds, why):
    if not holds:
        raise Failed(why)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Model(http.server.ThreadingHTTPServer):
    """A model that does what the newest task says."""

    def __init__(self):
        self.go_on = threading.Event()
        super().__init__(("127.0.0.1", 0), Reply)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Reply(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        messages = body["messages"]
        message, stop = {"content": "Four."}, "stop"
        if messages[-1]["role"] == "tool":
            message = {"content": "You said: " + str(messages[-1]["content"])}
        elif "Ask me" in str(messages[-1]["content"]):
            call = {"name": "ask_user", "arguments": json.dumps({"question": "Which colour?"})}
            message = {"tool_calls": [{"id": "1", "type": "function", "function": call}]}
            stop = "tool_calls"
        elif "Wait" in str(messages[-1]["content"]):
            self.server.go_on.wait(PATIENCE)
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        answer = json.dumps({"choices": [{"message": message, "finish_reason": stop}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        try:
            self.wfile.write(answer)
        except OSError:
            pass

    def log_message(self, *_):
        pass


def config(folder, model, agents):
    provider = f'{{name: m, kind: openai, base_url: "http://127.0.0.1:{model.server_address[1]}/v1", model: m, context_window: 32768}}'
    (folder / "shelly.yaml").write_text(f"providers: [{provider}]\nagents:\n" + "".join(f"  - {one}\n" for one in agents))


def environment(folder, **more):
    return {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder), **more}


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes updates of tasks."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.got.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Served:
    """`shelly-host serve --a2a` in a folder."""

    def __init__(self, program, folder, more=()):
        self.port = free_port()
        (folder / "token").write_text(TOKEN)
        (folder / "token").chmod(0o600)
        arguments = ["serve", "--a2a", "--config", "shelly.yaml", "--listen", f":{self.port}", "--token-file", "token", *more]
        self.process = subprocess.Popen([program, *arguments], cwd=folder, env=environment(folder), stderr=subprocess.PIPE)
        self.url = f"http://127.0.0.1:{self.port}"
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(self.url + "/healthz").close()
                return
            except (urllib.error.URLError, OSError):
                need(self.process.poll() is None and time.monotonic() < deadline, "the server does not start")
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


async def client_lane(program, checked):
    import httpx
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.helpers import proto_helpers as helpers
    from a2a.types import a2a_pb2 as types
    from a2a.utils import errors

    def message(text, **more):
        made = helpers.new_text_message(text, role=types.ROLE_USER)
        for key, value in more.items():
            setattr(made, key, value)
        return types.SendMessageRequest(message=made)

    async def last_task(client, request):
        """Sends a message. Returns the task after the last update."""
        task = None
        async for item in client.send_message(request):
            kind = item.WhichOneof("payload")
            if kind == "task":
                task = item.task
            elif kind == "status_update":
                need(item.status_update.task_id == task.id, "an update of another task")
                task.status.CopyFrom(item.status_update.status)
            elif kind == "artifact_update":
                # A piece is added to the artifact, and a whole one takes its place.
                update = item.artifact_update
                there = [one for one in task.artifacts if one.artifact_id == update.artifact.artifact_id]
                if update.append and there:
                    there[0].parts.extend(update.artifact.parts)
                elif there:
                    there[0].CopyFrom(update.artifact)
                else:
                    task.artifacts.append(update.artifact)
        return task

    with tempfile.TemporaryDirectory() as folder, contextless(Model()) as model:
        folder = pathlib.Path(folder)
        config(folder, model, ["{name: helper, description: Helps.}"])
        with Served(program, folder) as served:
            headers = {"authorization": f"Bearer {TOKEN}", "a2a-version": "1.0"}
            async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as http_client:
                card = await A2ACardResolver(http_client, served.url).get_agent_card()
                need(card.name == "helper" and card.capabilities.streaming, f"the card is {card}")
                checked("the card is read")
                for binding in ["JSONRPC", "HTTP+JSON"]:
                    for streaming in [True, False]:
                        how = f"{binding}, {'a stream' if streaming else 'one answer'}"
                        settings = ClientConfig(
                            streaming=streaming, httpx_client=http_client, supported_protocol_bindings=[binding],
                            use_client_preference=True,
                        )
                        client = ClientFactory(settings).create(card)
                        task = await last_task(client, message("What is two and two?"))
                        need(task.status.state == types.TASK_STATE_COMPLETED, f"{how}: {task}")
                        need(helpers.get_artifact_text(task.artifacts[-1]) == "Four.", f"{how}: {task}")
                        checked(f"{how}: a task is done")
                        asked = await last_task(client, message("Ask me."))
                        need(asked.status.state == types.TASK_STATE_INPUT_REQUIRED, f"{how}: {asked}")
                        need("Which colour?" in helpers.get_message_text(asked.status.message), f"{how}: {asked}")
                        answer = message("blue", task_id=asked.id, context_id=asked.context_id)
                        done = await last_task(client, answer)
                        need(done.status.state == types.TASK_STATE_COMPLETED, f"{how}: {done}")
                        need("blue" in helpers.get_artifact_text(done.artifacts[-1]), f"{how}: {done}")
                        checked(f"{how}: a question is answered")
                    got = await client.get_task(types.GetTaskRequest(id=task.id))
                    need(got.status.state == types.TASK_STATE_COMPLETED and got.artifacts, f"{binding}: {got}")
                    listed = await client.list_tasks(types.ListTasksRequest(page_size=1))
                    need(len(listed.tasks) == 1 and listed.next_page_token, f"{binding}: {listed}")
                    checked(f"{binding}: tasks are got and listed")
                    settings.polling = True
                    async for item in ClientFactory(settings).create(card).send_message(message("Wait.")):
                        waited = item.task
                    cancelled = await client.cancel_task(types.CancelTaskRequest(id=waited.id))
                    need(cancelled.status.state == types.TASK_STATE_CANCELED, f"{binding}: {cancelled}")
                    model.go_on.set()
                    checked(f"{binding}: a task is cancelled")
                    for request, call, expected in [
                        (types.GetTaskRequest(id="none"), client.get_task, errors.TaskNotFoundError),
                        (types.CancelTaskRequest(id=waited.id), client.cancel_task, errors.TaskNotCancelableError),
                    ]:
                        try:
                            await call(request)
                            raise Failed(f"{binding}: no {expected.__name__}")
                        except expected:
                            pass
                    checked(f"{binding}: errors have their kinds")
                    model.go_on.clear()
                old = await http_client.get(f"{served.url}/a2a/helper/tasks", headers={"a2a-version": "0.3"})
                reason = old.json()["error"]["details"][0]["reason"]
                need((old.status_code, reason) == (400, "VERSION_NOT_SUPPORTED"), old.text)
                checked("another version is refused")


async def push_lane(program, checked):
    import httpx
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.helpers import proto_helpers as helpers
    from a2a.types import a2a_pb2 as types
    from google.protobuf import json_format

    if "--a2a-push" not in subprocess.run([program, "serve", "--help"], capture_output=True, text=True).stdout:
        raise Skipped("the program sends no updates")
    hooks = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    hooks.got = []
    threading.Thread(target=hooks.serve_forever, daemon=True).start()
    permitted = f"http://127.0.0.1:{hooks.server_port}/hooks"
    with tempfile.TemporaryDirectory() as folder, contextless(Model()) as model:
        folder = pathlib.Path(folder)
        config(folder, model, ["{name: helper, description: Helps.}"])
        with Served(program, folder, ["--a2a-push", permitted]) as served:
            headers = {"authorization": f"Bearer {TOKEN}", "a2a-version": "1.0"}
            async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as http_client:
                card = await A2ACardResolver(http_client, served.url).get_agent_card()
                need(card.capabilities.push_notifications, f"the card is {card}")
                settings = ClientConfig(streaming=False, polling=True, httpx_client=http_client)
                client = ClientFactory(settings).create(card)
                wanted = types.TaskPushNotificationConfig(url=f"{permitted}/one", token="t-12345678")
                sent = types.SendMessageRequest(
                    message=helpers.new_text_message("What is two and two?", role=types.ROLE_USER),
                    configuration=types.SendMessageConfiguration(task_push_notification_config=wanted),
                )
                async for item in client.send_message(sent):
                    task = item.task
                states = []
                for _ in range(PATIENCE * 10):
                    updates = [json_format.ParseDict(body, types.StreamResponse()) for _, _, body in hooks.got]
                    states = [one.status_update.status.state or one.task.status.state for one in updates]
                    if types.TASK_STATE_COMPLETED in states:
                        break
                    await asyncio.sleep(0.1)
                need(types.TASK_STATE_COMPLETED in states, f"the updates are {hooks.got}")
                lower = [{name.lower(): value for name, value in had.items()} for _, had, _ in hooks.got]
                tokens = [had.get("x-a2a-notification-token") for had in lower]
                need(set(tokens) == {"t-12345678"}, f"the tokens are {tokens}")
                need({path for path, _, _ in hooks.got} == {"/hooks/one"}, f"{hooks.got}")
                checked("updates come to the address of a message")
                async for item in client.send_message(
                    types.SendMessageRequest(message=helpers.new_text_message("Wait.", role=types.ROLE_USER))
                ):
                    task = item.task
                made = await client.create_task_push_notification_config(
                    types.TaskPushNotificationConfig(task_id=task.id, url=f"{permitted}/two")
                )
                listing = types.ListTaskPushNotificationConfigsRequest(task_id=task.id)
                listed = await client.list_task_push_notification_configs(listing)
                need([one.id for one in listed.configs] == [made.id], f"{listed}")
                named = {"task_id": task.id, "id": made.id}
                got = await client.get_task_push_notification_config(types.GetTaskPushNotificationConfigRequest(**named))
                need(got.url == f"{permitted}/two", f"{got}")
                await client.delete_task_push_notification_config(types.DeleteTaskPushNotificationConfigRequest(**named))
                listed = await client.list_task_push_notification_configs(listing)
                need(not listed.configs, f"{listed}")
                await client.cancel_task(types.CancelTaskRequest(id=task.id))
                checked("addresses are made, listed, got and deleted")
    hooks.shutdown()


class contextless:
    """Shuts a server down at the end of a block."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        self.server.go_on.set()
        self.server.shutdown()


def sdk_server(port, streaming):
    """Serves an agent with the SDK, in a thread of its own."""
    import uvicorn
    from a2a.helpers import proto_helpers as helpers
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types import a2a_pb2 as types
    from starlette.applications import Starlette

    class Executor(AgentExecutor):
        async def execute(self, context, queue):
            text = context.get_user_input()
            if context.current_task is None:
                await queue.enqueue_event(helpers.new_task_from_user_message(context.message))
            updater = TaskUpdater(queue, context.task_id, context.context_id)
            await updater.start_work()
            if "Ask" in text:
                await updater.requires_input(updater.new_agent_message([helpers.new_text_part("Which colour?")]))
            elif "Fail" in text:
                await updater.failed(updater.new_agent_message([helpers.new_text_part("I cannot.")]))
            else:
                # What was sent in pieces stays in pieces for a client that asks for the whole task.
                for piece, append in [("Fo", False), ("ur.", True)] if streaming else [("Four.", False)]:
                    parts = [helpers.new_text_part(piece)]
                    await updater.add_artifact(parts, artifact_id="a", append=append, last_chunk=append)
                await updater.complete()

        async def cancel(self, context, queue):
            await TaskUpdater(queue, context.task_id, context.context_id).cancel()

    card = types.AgentCard(
        name="Partner",
        description="Adds.",
        version="1",
        supported_interfaces=[
            types.AgentInterface(
                url=f"http://127.0.0.1:{port}/rpc", protocol_binding="JSONRPC", protocol_version="1.0",
            )
        ],
        capabilities=types.AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[types.AgentSkill(id="add", name="Adding", description="Adds.", tags=["sums"])],
    )
    handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    deadline = time.monotonic() + PATIENCE
    while not server.started:
        need(time.monotonic() < deadline, "the server of the SDK does not start")
        time.sleep(0.05)
    return server


def server_lane(program, checked):
    for streaming in [True, False]:
        how = "with streams" if streaming else "without streams"
        port = free_port()
        server = sdk_server(port, streaming)
        with tempfile.TemporaryDirectory() as folder, contextless(Model()) as model:
            folder = pathlib.Path(folder)
            card = f"http://127.0.0.1:{port}/.well-known/agent-card.json"
            config(folder, model, [f"{{name: partner, description: Adds., remote: {{card: '{card}'}}}}"])
            for task, code, said in [
                ("What is two and two?", 0, "Four."),
                ("Ask me.", 1, "asks: Which colour?"),
                ("Fail.", 1, "has failed: I cannot."),
            ]:
                arguments = [program, "run", "--config", "shelly.yaml", "--no-session", task]
                ran = subprocess.run(
                    arguments, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=PATIENCE,
                )
                output = ran.stdout + ran.stderr
                need((ran.returncode == 0) == (code == 0) and said in output, f"{how}: {task}: {ran.returncode} {output}")
                checked(f"{how}: {task} {said}")
        server.should_exit = True


LANES = {
    "client": lambda *given: asyncio.run(client_lane(*given)),
    "push": lambda *given: asyncio.run(push_lane(*given)),
    "server": server_lane,
}


def inside(arguments):
    """Runs this script with the Python in which the SDK is installed."""
    python = KEPT / "bin" / "python"
    if not python.exists():
        venv.create(KEPT, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    # Isolated: this file is called as the package of the SDK, and its folder must not be searched first.
    os.execv(python, [str(python), "-I", __file__, *arguments, "--inside"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lanes", nargs="*", choices=[*LANES, []], help="the lanes to run (default: all)")
    parser.add_argument("--program", default=str(ROOT / "target" / "debug" / "shelly-host"), help="the program to try")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.inside:
        inside(sys.argv[1:])
    passed = failures = skipped = 0

    def checked(what):
        nonlocal passed
        passed += 1
        print(f"ok      {name}: {what}", flush=True)

    for name in arguments.lanes or LANES:
        try:
            LANES[name](arguments.program, checked)
        except Skipped as reason:
            skipped += 1
            print(f"skipped {name}: {reason}", flush=True)
        except Failed as failure:
            failures += 1
            print(f"FAILED  {name}: {failure}", flush=True)
        except Exception:
            failures += 1
            print(f"FAILED  {name}: {traceback.format_exc()}", flush=True)
    print(f"{passed} ok, {failures} failed, {skipped} skipped")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
