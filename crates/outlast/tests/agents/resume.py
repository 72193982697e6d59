#!/usr/bin/env python3
"""A command that an agent starts outlasts everything, and the agent is told once: Codex, opencode, Hermes and Kimi Code from their packages, offline,
with a scripted model.

    resume.py --outlast PROGRAM [--agents DIR]... [codex|opencode|hermes|kimi]...

PROGRAM is the `outlast` to test, DIR is where packages are; `cargo xtask campaign agents` installs them and runs this. Without DIR they are looked for in
PATH. One that is not there is skipped by name, unless CI=true.

`outlast install` sets the agent up. In its conversation the model has it start a command over MCP. While the model thinks about the answer, the agent, its
MCP server and the engine are killed. The command goes on, ends, and its record is right. The agent continues the conversation, its model sees the
notice in one message, and in the turn after that still in one.
"""

import glob
import json
import os
import re
import signal
import subprocess

from world import Gateway, asked, configure_codex, configure_hermes, configure_kimi, configure_opencode, eventually, free_port, main

CODE = 7
# How long the model thinks when it is not to answer.
NEVER = 3600
KILLED = "agent, MCP server and engine killed"


def below(pid, but):
    """The pids of what a process started, by any of its threads, and of what that did; without one and what that started."""
    own = []
    for listed in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(listed) as file:
                own += [int(child) for child in file.read().split()]
        except OSError:
            pass  # The thread is over.
    return [one for child in own if child != but for one in (child, *below(child, but))]


def words(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode().split("\0")[:-1]
    except OSError:
        return []


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def started_and_killed(world, begin):
    """`begin` starts an agent, which runs until its model thinks about what our tool answered; then it, its MCP server and the engine are killed. The process
    that is left."""
    if os.path.exists(world.path("gate")):
        os.remove(world.path("gate"))
    os.mkfifo(world.path("gate"))
    before = world.turns()
    agent = begin()
    eventually("the answer of our tool", lambda: world.turns() >= before + 2 or agent.poll() is not None)
    assert agent.poll() is None, f"it ended: {open(world.path('agent.out')).read()}"
    running = world.json("list")["processes"]
    assert len(running) == 1, f"what it started is not what runs: {running}"
    process, engine = running[0], world.json("engine", "status")["pid"]
    # The engine may still be a child of the server that started it, and has what is to outlast it below.
    tree = [agent.pid, *below(agent.pid, but=engine)]
    servers = [pid for pid in tree if words(pid)[1:2] == ["mcp"] and os.path.basename(words(pid)[0]) == "outlast"]
    assert servers, f"no MCP server: {[words(pid) for pid in tree]}"
    for pid in dict.fromkeys((*servers, engine, *tree)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            assert pid not in (*servers, engine, agent.pid), "it was gone before it was killed"
    agent.wait()
    for pid in (engine, *tree):
        eventually(f"the end of {words(pid)}", lambda: not is_alive(pid))
    assert is_alive(process["pid"]), "the command was harmed"
    return process["session_id"]


def starts(world, argv):
    with open(world.path("agent.out"), "w") as out:
        return world.start(argv, stdout=out, stderr=subprocess.STDOUT)


def ends(world):
    """The command is let go."""
    with open(world.path("gate"), "w") as gate:
        gate.write("go\n")


def is_right(world, name):
    """What is known of the process, once it has ended."""
    def over():
        return next((p for p in world.json("list", "--all")["processes"] if p["session_id"] == name and p["status"] == "exited"), None)

    record = eventually("the record of its end", over)
    assert record["exit_code"] == CODE, f"not what happened: {record}"
    assert "it was let go" in world.call(world.outlast, "log", name), "its output is not there"
    return record


def command(world):
    return f"read line < {world.path('gate')}; echo it was let go; exit {CODE}"


def sees_once(world, name):
    """The model sees one notice, with the code. What else it is told of the process is written otherwise."""
    times = world.told(f"Background process {name} exited (exit code {CODE}).")
    assert times == 1, f"the model sees the notice {times} times"


def state(world, name):
    """How far the notice has come, of which there is one."""
    of = [one for one in world.json("events", "history")["notices"] if one["event"]["session_id"] == name]
    assert len(of) == 1, f"one notice was to be there: {of}"
    return of[0]["state"]


def codex(world):
    """Woken: no client calls after the end; a keeper starts an engine, and that starts a Codex."""
    call = {"tool": "exec_command", "namespace": "mcp__outlast", "arguments": {"cmd": command(world), "yield_time_ms": 250}}
    world.play([{"text": "hello"}, call, {"text": "never", "delay": NEVER}, {"text": "noted"}, {"text": "nothing new"}])
    configure_codex(world)
    world.call(world.outlast, "install", "codex")
    run = [world.program("codex"), "exec", "--skip-git-repo-check", "--json"]
    said = world.call(*run, "hello")
    thread = next(json.loads(line)["thread_id"] for line in said.splitlines() if "thread.started" in line)
    name = started_and_killed(world, lambda: starts(world, [*run, "resume", thread, "start it"]))
    turns = world.turns()
    ends(world)
    eventually("the turn that Codex is woken for", lambda: world.turns() > turns)
    sees_once(world, name)
    record = is_right(world, name)
    assert record["session_key"] == f"codex:{thread}", f"another conversation: {record}"
    eventually("the notice to be settled", lambda: state(world, name) == "delivered")
    world.call(*run, "resume", thread, "anything new?")
    sees_once(world, name)
    return f"started over MCP; {KILLED}; its thread woken, and told once"


def told_by_tools(world, resume):
    """For agents that are told with the answers of our tools: the model looks at the list in two turns after the accident."""
    name = started_and_killed(world, lambda: starts(world, resume("start it")))
    ends(world)
    is_right(world, name)
    assert state(world, name) == "pending", "the notice was delivered already"
    for _ in range(2):
        world.call(*resume("how is it?"))
        sees_once(world, name)
        assert state(world, name) == "delivered", f"not settled: {state(world, name)}"
    return f"started over MCP; {KILLED}; resumed, and told once with the next answer of a tool"


def script(start, look):
    """What the model says to an agent that is told with the answers of our tools."""
    return [{"text": "hello"}, start, {"text": "never", "delay": NEVER}, look, {"text": "noted"}, look, {"text": "nothing new"}]


def native(world, prefix):
    return script({"tool": f"{prefix}run", "arguments": {"command": command(world), "wait_seconds": 0}}, {"tool": f"{prefix}list", "arguments": {}})


def opencode(world):
    world.play(native(world, "outlast_"))
    configure_opencode(world)
    world.call(world.outlast, "install", "opencode")
    run = [world.program("opencode"), "run", "--format", "json"]
    session = re.search(r'"sessionID":"([^"]+)"', world.call(*run, "hello")).group(1)
    seen = told_by_tools(world, lambda text: [*run, "--session", session, text])
    woken_by_its_server(world, run)
    return f"{seen}; a server killed likewise, started again, and its session woken, once"


def woken_by_its_server(world, run):
    """The same with `opencode serve`, whose session is woken when it is there again."""
    hello, start, never, look, *_ = native(world, "outlast_")
    world.play([start, never, {"text": "noted"}, look, {"text": "nothing new"}])
    configure_opencode(world)
    world.call(world.outlast, "install", "opencode", "--wake")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    world.add("home/.config/outlast/config.toml", '"hook", "opencode"', f', "--url", "{url}"')
    # An engine reads its sinks when it starts.
    world.call(world.outlast, "engine", "stop")
    session = None

    def serves():
        server = starts(world, [world.program("opencode"), "serve", "--port", str(port)])
        eventually("its server", lambda: url in open(world.path("agent.out")).read())
        return server

    def begins():
        nonlocal session
        server, here = serves(), f"directory={world.path('work')}"
        session = asked("POST", f"{url}/session?{here}", {})["id"]
        asked("POST", f"{url}/session/{session}/prompt_async?{here}", {"parts": [{"type": "text", "text": "start it"}]})
        return server

    name = started_and_killed(world, begins)
    ends(world)
    is_right(world, name)
    turns = world.turns()
    server = serves()
    eventually("the turn that it is woken for", lambda: world.turns() > turns)
    sees_once(world, name)
    eventually("the notice to be settled", lambda: state(world, name) == "delivered")
    os.killpg(server.pid, signal.SIGKILL)
    world.call(*run, "--session", session, "how is it?")
    sees_once(world, name)


def hermes(world):
    start = {"tool": "mcp__outlast__terminal", "arguments": {"command": command(world), "background": True, "notify_on_complete": True}}
    world.play(script(start, {"tool": "mcp__outlast__process", "arguments": {"action": "list"}}))
    configure_hermes(world)
    world.call(world.outlast, "install", "hermes")
    run = [world.program("hermes"), "chat", "-Q", "-q"]
    session = re.search(r"session_id: (\S+)", world.call(*run, "hello", errors=True)).group(1)
    seen = told_by_tools(world, lambda text: [*run, text, "--resume", session])
    woken_by_its_gateway(world, start)
    return f"{seen}; the session of a gateway that started another woken, once"


def woken_by_its_gateway(world, start):
    """A session of a gateway starts a command, and another one lists it; the engine is killed; the first is woken."""
    look = {"tool": "mcp__outlast__process", "arguments": {"action": "list"}}
    world.play([start, {"text": "started"}, look, {"text": "seen"}, {"text": "noted"}])
    configure_hermes(world)
    world.call(world.outlast, "install", "hermes", "--wake")
    gateway = Gateway(world)
    flags = f', "--url", "{gateway.url}", "--key-file", "{gateway.key_file}"'
    world.add("home/.config/outlast/config.toml", '"hook", "hermes"', flags)
    # An engine reads its sinks when it starts.
    world.call(world.outlast, "engine", "stop")
    gateway.start()
    first, second = gateway.session("starts"), gateway.session("looks")
    os.remove(world.path("gate"))
    os.mkfifo(world.path("gate"))
    for session, text in ((first, "start it"), (second, "what is there?")):
        gateway.ask("POST", f"/api/sessions/{session}/chat", {"message": text})
    running = world.json("list")["processes"]
    assert len(running) == 1 and running[0]["session_key"] == "hermes:mcp", f"not what was to run: {running}"
    name, turns = running[0]["session_id"], world.turns()
    os.kill(world.json("engine", "status")["pid"], signal.SIGKILL)
    ends(world)
    is_right(world, name)
    eventually("the turn that it is woken for", lambda: world.turns() > turns)
    sees_once(world, name)
    eventually("the notice to be settled", lambda: state(world, name) == "delivered")
    messages = {session: json.dumps(gateway.ask("GET", f"/api/sessions/{session}/messages")) for session in (first, second)}
    notice = f"Background process {name} exited"
    assert notice in messages[first] and notice not in messages[second], "another session was told"


def kimi(world):
    world.play(native(world, "mcp__outlast__"))
    configure_kimi(world)
    world.call(world.outlast, "install", "kimi")
    run = [world.program("kimi"), "--output-format", "stream-json", "-p"]
    session = re.search(r"session_[0-9a-f-]{36}", world.call(*run, "hello")).group(0)
    return told_by_tools(world, lambda text: [*run, text, "--session", session])


if __name__ == "__main__":
    main("Commands of real agents outlast them, and they are told once.", {"codex": codex, "opencode": opencode, "hermes": hermes, "kimi": kimi})
