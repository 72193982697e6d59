#!/usr/bin/env python3
"""What the model of a real client is given: a notice that is due comes with the next answer of any tool, and is in the model's input exactly once.

    told.py --outlast PROGRAM --agents DIR [CLIENT ...]

DIR has `CLIENT/venv` for clients from the Python package index, and `node_modules` for those from npm. A scripted model starts a command through `outlast mcp`, and
calls another tool when it has ended, three times: the second call is answered with the result of a command, a list, and an error. Then the last request of the client
to the model is searched. FastMCP's client has no model: there it is searched what the client gives to its caller.
"""

import json
import re
import subprocess
from datetime import datetime, timezone

import drive
import model
from world import configure_hermes, configure_kimi, configure_opencode, eventually, main

CODE = 5
# Which answer carries the notice.
ANSWERS = ["the result of a command", "a list", "an error"]


def command(world, n):
    """A command that ends when its gate file exists."""
    return f"while ! [ -e {world.path(f'gate-{n}')} ]; do sleep 0.05; done; exit {CODE}"


def ends(world):
    """The notices of the commands' ends."""
    return [one for one in world.json("events", "history")["notices"] if one["event"].get("exit_code") == CODE]


def ended(world):
    """The processes whose notice is due or was delivered."""
    return [one["event"]["session_id"] for one in ends(world)]


def is_due(notice):
    """Whether the next answer would carry the notice. If a call waited for the command, its notice is reserved for that call for two seconds."""
    return notice["state"] == "pending" or notice["state"] == "leased" and notice["lease_until"] < f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"


def tells(process, code=CODE):
    """What a notice of the end of a process looks like, also if the process has a name."""
    return re.compile(rf"Background process (\S+ \()?{process}\)? exited \(exit code {code}\)")


def open_gate(world, n):
    open(world.path(f"gate-{n}"), "w").close()


def let_go(world, n):
    """Ends a command, and returns when its notice is due."""
    open_gate(world, n)
    eventually(f"the notice of command {n}", lambda: len(ends(world)) > n and is_due(ends(world)[n]))


def let_go_in_turns(world, client):
    """Ends each command once the model has seen that it runs, and lets the model continue once its notice is due."""
    for n in range(len(ANSWERS)):
        eventually(f"turn {2 * n + 1} of the model", lambda: world.turns() >= 2 * n + 2 or client.poll() is not None)
        assert client.poll() is None, f"it ended with {client.returncode}: {printed(world)}"
        running = [one for one in world.json("list")["processes"] if f"gate-{n} " in one["command"]]
        assert running, f"the command was not started: {model.said(world.log)[-1]['body'].get('messages', [])[-1:]}"
        let_go(world, n)
        open(world.path(f"ended-{n}"), "w").close()


def turns_of(world, tools):
    """The turns of the model: it starts a command that keeps running, and calls another tool when the command has ended."""
    turns = []
    for n, other in enumerate(tools.others()):
        turns += [tools.start(command(world, n)), {**other, "until": world.path(f"ended-{n}")}]
    return turns


def times(world, pattern):
    """How often a pattern is in the client's last request to the model."""
    taken = [one for one in model.said(world.log) if one["turn"] is not None]
    body = taken[-1]["body"] if taken else {}
    return len(pattern.findall(json.dumps(model.messages_of(body), ensure_ascii=False)))


def talk(world, argv, tools, last=None, text=None):
    """Runs a client with the model, and returns how often the model was given each notice. `argv` makes its command line; the client is given the text."""
    world.play([*turns_of(world, tools), last or {"text": "done"}])
    argv = argv()
    world.write("client.in", text or "")
    with open(world.path("client.out"), "w") as out, open(world.path("client.in")) as given:
        client = world.start(argv, stdin=given, stdout=out, stderr=subprocess.STDOUT)
    let_go_in_turns(world, client)
    client.wait(timeout=60)
    assert client.returncode == 0, f"it ended with {client.returncode}: {printed(world)}"
    return judged(world, [times(world, tells(one)) for one in ended(world)])


def printed(world):
    """The end of what the client printed."""
    return open(world.path("client.out")).read()[-1500:]


def judged(world, seen):
    assert len(seen) == len(ANSWERS), f"{len(seen)} commands have ended: {printed(world)}"
    states = {one["state"] for one in ends(world)}
    said = ", ".join(f"{n} times in {where}" for n, where in zip(seen, ANSWERS))
    assert seen == [1] * len(ANSWERS), f"the notice is given to the model {said} ({', '.join(sorted(states))})"
    assert states == {"delivered"}, f"not settled: {states}"
    return "the notice is given to the model once, in " + ", in ".join(ANSWERS)


def library(client):
    """A client that is a library, driven by clients.py in its own environment."""
    client = drive.CLIENTS[client]

    def run(world):
        python, text = client.python(world), json.dumps({"conversation": "told", "prompt": "go"}) + "\n"
        argv = lambda: [python, *client.driver_argv(world.model, [world.outlast, "mcp"])]
        return talk(world, argv, client.tools, client.final, text)

    return run


def fastmcp(world):
    client = drive.CLIENTS["fastmcp"]
    client.serve(world, [world.outlast, "mcp"], {})
    caller = client.start(world).open("told")
    seen, turns = [], turns_of(world, client.tools)
    for n in range(len(ANSWERS)):
        caller.begin(turns[2 * n])()
        let_go(world, n)
        given = caller.begin(turns[2 * n + 1])()
        # A caller uses one of the two.
        counts = {len(tells(ended(world)[n]).findall(value)) for key, value in given.items() if key != "texts"}
        seen.append(counts.pop() if len(counts) == 1 else -1)
    eventually("the notices to be settled", lambda: {one["state"] for one in ends(world)} == {"delivered"})
    return judged(world, seen).replace("the model", "the caller, as first text and as structured content,")


def driven(client, *arguments, env=()):
    """A client that takes its turn from the command line."""
    client = drive.CLIENTS[client]

    def run(world):
        program = world.program(client.name)

        def argv():
            client.serve(world, [world.outlast, "mcp"], {"OUTLAST_HOME": world.path("outlast")})
            return ["/usr/bin/env", *env, program, *arguments]

        return talk(world, argv, client.tools)

    return run


def installed(client, configure, *arguments):
    """A client that `outlast install` configures."""

    def run(world):
        program = world.program(client)

        def argv():
            configure(world)
            world.call(world.outlast, "install", client)
            return [program, *arguments]

        return talk(world, argv, drive.CLIENTS[client].tools)

    return run


def version(world, name):
    return drive.CLIENTS[name].version(world)


if __name__ == "__main__":
    libraries = ["pydantic-ai", "openai-agents", "openai-agents-structured", "smolagents", "smolagents-structured", "fast-agent"]
    main(__doc__.splitlines()[0], {
        **{name: library(name) for name in libraries},
        "fastmcp": fastmcp,
        "vibe": driven("vibe", "--trust", "--auto-approve", "-p", "go", env=["MOCK_KEY=none"]),
        # Without a wake: its configuration has only the server.
        "codex": driven("codex", "exec", "--skip-git-repo-check", "--json", "go"),
        "opencode": installed("opencode", configure_opencode, "run", "--format", "json", "go"),
        "hermes": installed("hermes", configure_hermes, "chat", "-Q", "-q", "go"),
        "kimi": installed("kimi", configure_kimi, "--output-format", "stream-json", "-p", "go"),
    }, version)
