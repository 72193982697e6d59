#!/usr/bin/env python3
"""What the model of a real client is given: a notice that is due comes with the next answer of any tool, and is in the model's input exactly once.

    told.py --outlast PROGRAM --agents DIR [CLIENT ...]

DIR has `CLIENT/venv` for clients from the Python package index, and `node_modules` for those from npm. A scripted model starts a command through `outlast mcp`, and
calls another tool when it has ended, three times: the second call is answered with the result of a command, a list, and an error. Then the last request of the client
to the model is searched. FastMCP's client has no model: there it is searched what the client gives to its caller.
"""

import json
import os
import subprocess
import sys
from datetime import datetime, timezone

import model
from world import HERE, Missing, configure_codex, configure_hermes, configure_kimi, configure_opencode, eventually, main

CODE = 5
# Which answer carries the notice.
ANSWERS = ["the result of a command", "a list", "an error"]
UNKNOWN = "proc_000000000000"
# How a model ends its turn in smolagents.
FINAL = {"tool": "final_answer", "arguments": {"answer": "done"}}


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
    return notice["state"] == "pending" or notice.get("lease") == "answer" and notice["lease_until"] < f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"


def let_go(world, n):
    """Ends a command, and returns when its notice is due."""
    open(world.path(f"gate-{n}"), "w").close()
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


def native(world, prefix=""):
    """The turns of the model: it starts a command that keeps running, and calls another tool when the command has ended."""
    turns = []
    others = [("run", {"command": "echo ok"}), ("list", {}), ("log", {"process": UNKNOWN})]
    for n, (tool, arguments) in enumerate(others):
        turns.append({"tool": f"{prefix}run", "arguments": {"command": command(world, n), "wait_seconds": 0}})
        turns.append({"tool": f"{prefix}{tool}", "arguments": arguments, "until": world.path(f"ended-{n}")})
    return turns


def times(world, text):
    """How often a text is in the client's last request to the model."""
    taken = [one for one in model.said(world.log) if one["turn"] is not None]
    body = taken[-1]["body"] if taken else {}
    return json.dumps(body.get("messages") or body.get("input") or [], ensure_ascii=False).count(text)


def talk(world, argv, last=None, turns=None):
    """Runs a client with the model, and returns how often the model was given each notice."""
    world.play([*(turns or native(world)), last or {"text": "done"}])
    argv = argv() if callable(argv) else argv
    with open(world.path("client.out"), "w") as out:
        client = world.start(argv, stdout=out, stderr=subprocess.STDOUT)
    let_go_in_turns(world, client)
    client.wait(timeout=60)
    assert client.returncode == 0, f"it ended with {client.returncode}: {printed(world)}"
    return judged(world, [times(world, f"Background process {one} exited (exit code {CODE})") for one in ended(world)])


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


def python(world, client):
    found = os.path.join(world.agents[0] if world.agents else "", client, "venv/bin/python")
    if not os.path.exists(found):
        raise Missing(f"{client} is not installed")
    return found


def library(package, name):
    """A client that is a library, driven by clients.py in its own environment."""
    def run(world):
        driver = [python(world, package), "-B", os.path.join(HERE, "clients.py"), name]
        turns = native(world)
        if package == "smolagents":
            return talk(world, lambda: [*driver, world.model, world.outlast], FINAL, [with_all_arguments(turn) for turn in turns])
        return talk(world, lambda: [*driver, world.model, world.outlast], turns=turns)

    return run


def with_all_arguments(turn):
    """The same call with every argument: smolagents refuses a call without one, also if the schema does not require it."""
    usual = {
        "run": {"cwd": ".", "env": {}, "input": False, "max_output_tokens": 1000, "name": "a", "notify": True, "pty": False, "timeout_seconds": 600,
                "wait_seconds": 10, "watch": []},
        "log": {"limit": 10, "max_output_tokens": 1000, "offset": 0},
    }
    return {**turn, "arguments": {**usual.get(turn["tool"], {}), **turn["arguments"]}}


def fastmcp(world):
    argv = [python(world, "fastmcp"), "-B", os.path.join(HERE, "clients.py"), "fastmcp", "-", world.outlast]
    with open(world.path("client.out"), "w") as out:
        client = world.start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True)

    def call(turn):
        print(json.dumps(turn), file=client.stdin, flush=True)
        line = client.stdout.readline()
        assert line, f"it ended: {printed(world)}"
        return json.loads(line)

    seen, turns = [], native(world)
    for n in range(len(ANSWERS)):
        call(turns[2 * n])
        let_go(world, n)
        given = call(turns[2 * n + 1])
        text = f"Background process {ended(world)[n]} exited (exit code {CODE})"
        # A caller uses one of the two.
        counts = {value.count(text) for key, value in given.items() if key != "texts"}
        seen.append(counts.pop() if len(counts) == 1 else -1)
    client.stdin.close()
    client.wait(timeout=60)
    eventually("the notices to be settled", lambda: {one["state"] for one in ends(world)} == {"delivered"})
    return judged(world, seen).replace("the model", "the caller, as first text and as structured content,")


def vibe(world):
    python(world, "vibe")
    vibe_program = os.path.join(world.agents[0], "vibe/venv/bin/vibe")

    def argv():
        text = f'active_model = "mock"\nenable_telemetry = false\nenable_update_checks = false\nenable_auto_update = false\n\n[[providers]]\nname = "mock"\n'
        text += f'api_base = "{world.model}"\napi_key_env_var = "MOCK_KEY"\napi_style = "openai"\nbackend = "generic"\n\n'
        text += '[[models]]\nname = "mock"\nprovider = "mock"\nalias = "mock"\n\n[[mcp_servers]]\nname = "outlast"\ntransport = "stdio"\n'
        text += f'command = "{world.outlast}"\nargs = ["mcp"]\nenv = {{ OUTLAST_HOME = "{world.path("outlast")}" }}\n'
        world.write("home/.vibe/config.toml", text)
        return ["/usr/bin/env", "MOCK_KEY=none", vibe_program, "--trust", "--auto-approve", "-p", "go"]

    return talk(world, argv, turns=[in_typescript(turn) for turn in native(world)])


def in_typescript(turn):
    """The same call, as Vibe's model makes it: in a program, whose value is the tool's answer. Of an error that the program does not catch, Vibe shows the text twice."""
    call = f"tools.mcp_outlast.{turn['tool']}({json.dumps(turn['arguments'])}).catch(error => error.message)"
    return {**turn, "tool": "run_typescript", "arguments": {"code": f"async function main() {{ return await {call}; }}"}}


def codex(world):
    """Without a wake: its configuration has only the server."""
    turns = []
    others = [{"cmd": "echo ok"}, {"cmd": "exit 3"}, {"session_id": 7, "chars": ""}]
    for n, arguments in enumerate(others):
        server = {"namespace": "mcp__outlast"}
        turns.append({"tool": "exec_command", **server, "arguments": {"cmd": command(world, n), "yield_time_ms": 250}})
        tool = "exec_command" if "cmd" in arguments else "write_stdin"
        turns.append({"tool": tool, **server, "arguments": arguments, "until": world.path(f"ended-{n}")})
    program = world.program("codex")

    def argv():
        configure_codex(world)
        server = f'command = "{world.outlast}"\nargs = ["mcp"]\ndefault_tools_approval_mode = "approve"\nenv = {{ OUTLAST_HOME = "{world.path("outlast")}" }}\n'
        world.write("home/.codex/config.toml", open(world.path("home/.codex/config.toml")).read() + f"\n[mcp_servers.outlast]\n{server}")
        return [program, "exec", "--skip-git-repo-check", "--json", "go"]

    return talk(world, argv, turns=turns)


def installed(world, client, configure, prefix, *arguments):
    """A client that `outlast install` configures. The names of its tools begin with `prefix`."""

    def argv():
        configure(world)
        world.call(world.outlast, "install", client)
        return [world.program(client), *arguments]

    return talk(world, argv, turns=native(world, prefix))


def opencode(world):
    return installed(world, "opencode", configure_opencode, "outlast_", "run", "--format", "json", "go")


def kimi(world):
    return installed(world, "kimi", configure_kimi, "mcp__outlast__", "--output-format", "stream-json", "-p", "go")


def hermes(world):
    """The answers of its profile are always JSON."""
    turns = []
    others = [("terminal", {"command": "echo ok"}), ("process", {"action": "list"}), ("process", {"action": "log", "session_id": UNKNOWN})]
    for n, (tool, arguments) in enumerate(others):
        start = {"command": command(world, n), "background": True, "notify_on_complete": True}
        turns.append({"tool": "mcp__outlast__terminal", "arguments": start})
        turns.append({"tool": f"mcp__outlast__{tool}", "arguments": arguments, "until": world.path(f"ended-{n}")})

    def argv():
        configure_hermes(world)
        world.call(world.outlast, "install", "hermes")
        return [world.program("hermes"), "chat", "-Q", "-q", "go"]

    return talk(world, argv, turns=turns)


PACKAGES = {
    "pydantic-ai": ("pydantic-ai", "pydantic-ai-slim"),
    "openai-agents": ("openai-agents", "openai-agents"),
    "openai-agents-structured": ("openai-agents", "openai-agents"),
    "smolagents": ("smolagents", "smolagents"),
    "smolagents-structured": ("smolagents", "smolagents"),
    "fast-agent": ("fast-agent", "fast-agent-mcp"),
    "fastmcp": ("fastmcp", "fastmcp"),
    "vibe": ("vibe", "mistral-vibe"),
}


def version(world, name):
    if name not in PACKAGES:
        return world.version(name)
    environment, package = PACKAGES[name]
    return world.call(python(world, environment), "-c", f"import importlib.metadata as m; print(m.version('{package}'))").strip()


if __name__ == "__main__":
    main(__doc__.splitlines()[0], {
        "pydantic-ai": library("pydantic-ai", "pydantic-ai"),
        "openai-agents": library("openai-agents", "openai-agents"),
        "openai-agents-structured": library("openai-agents", "openai-agents-structured"),
        "smolagents": library("smolagents", "smolagents"),
        "smolagents-structured": library("smolagents", "smolagents-structured"),
        "fast-agent": library("fast-agent", "fast-agent"),
        "fastmcp": fastmcp,
        "vibe": vibe,
        "codex": codex,
        "opencode": opencode,
        "hermes": hermes,
        "kimi": kimi,
    }, version)
