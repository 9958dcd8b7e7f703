"""Gives an agent a task over HTTP, shows its events, answers its questions at the terminal, and prints its answer.

    shelly-host serve --config examples/01-quick-start/shelly.yaml --plugins target/plugins
    TOKEN=... python3 examples/http/client.py "How many words are in README.md?"

The token is in the address that the server prints. Nothing but Python is needed.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

BASE = os.environ.get("SERVER", "http://127.0.0.1:8322")
HEADERS = {"authorization": f"Bearer {os.environ.get('TOKEN', '')}"}


def request(path, body=None, **headers):
    """Sends a request; returns the open response. A refusal says why, and ends the program."""
    data = None if body is None else json.dumps(body).encode()
    kind = {} if body is None else {"content-type": "application/json"}
    try:
        return urllib.request.urlopen(urllib.request.Request(BASE + path, data, {**HEADERS, **kind, **headers}))
    except urllib.error.HTTPError as error:
        if error.code in (429, 503):
            raise
        problem = json.load(error)
        sys.exit(f"{problem['title']}; {problem.get('mend', '')}")


def events(run):
    """Yields the events of a run. A stream that breaks is taken up after the last event that came."""
    last = 0
    while True:
        name, data = None, None
        try:
            for line in request(f"/api/v1/runs/{run}/events", **{"last-event-id": str(last)}):
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "id":
                    last = int(value)
                elif key == "event":
                    name = value
                elif key == "data":
                    data = json.loads(value)
                elif key == "" and value == "" and name:
                    yield name, data
                    if name == "end":
                        return
                    name = None
        except OSError as error:
            print(f"  (the stream broke: {error})", file=sys.stderr)
        time.sleep(1)


def answer(id):
    """Asks the person about a question of the agent, and sends the answer."""
    for question in json.load(request("/api/v1/questions"))["questions"]:
        if question["id"] != id:
            continue
        if question["kind"] == "permission":
            print(f"  may it {question['action']}?\n{question['detail']}")
            reply = {"verdict": "yes" if input("  yes or no: ").strip() == "yes" else "no"}
        else:
            print(f"  {question['text']}", *(option["label"] for option in question["options"]), sep="\n  - ")
            reply = {"text": input("  answer: ")}
        request(f"/api/v1/questions/{id}", reply)


def main(task):
    # If the answer is lost, the same key does not start a second run.
    key = {"idempotency-key": str(uuid.uuid4())}
    try:
        started = json.load(request("/api/v1/runs", {"task": task}, **key))
    except OSError as error:
        sys.exit(f"{BASE} takes no run now: {error}")
    for name, data in events(started["run"]):
        if name == "run" and data["event"] == "tool_started":
            print(f"  {data['agent']} calls {data['tool']}", file=sys.stderr)
        elif name == "run" and data["event"] == "question_asked":
            answer(data["id"])
    run = json.load(request(f"/api/v1/runs/{started['run']}"))
    if run["state"] != "completed":
        sys.exit(f"{run['state']}: {run.get('error')}")
    print(run["result"]["text"])


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
