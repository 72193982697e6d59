#!/usr/bin/env python3
"""Real agents are woken once, also if processes are killed: Codex, opencode and Hermes from their packages, offline, with a scripted model.

    wake.py --outlast PROGRAM [--agents DIR] [codex|opencode|hermes]...

PROGRAM is the `outlast` to test, DIR is where the packages are; `cargo xtask campaign agents` installs them and runs this. Without DIR they are looked
for in PATH. One that is not there is skipped by name, unless CI=true.

Each agent has a session; a process of that session ends while no turn runs; the agent takes a turn in which the model is told, once. Then
the same notice is told again by hand, as after an accident, and the model is told nothing new. Last, the engine is killed while the hook runs.
"""

import base64
import json
import os
import re
import signal
import subprocess
import time

from world import Gateway, asked, configure_codex, configure_hermes, configure_opencode, eventually, main


def tells(world, command, sessions):
    """Our configuration: this hook wakes these."""
    text = f"[[hook]]\nname = {json.dumps(world.name)}\ncommand = {json.dumps([world.outlast, 'hook', *command])}\n"
    text += f"wake = true\nsessions = {json.dumps(sessions)}\ntimeout_seconds = 80\nretry_seconds = [1]\n"
    world.write("home/.config/outlast/config.toml", text)


def speaks(world):
    world.play([{"text": f"turn {n}"} for n in range(100)])


def ends_and_wakes(world, session, command):
    """The three tellings, the same for every agent."""
    tells(world, command, [session.split(":")[0] + ":*"])
    # 1. A process ends while no turn runs.
    started = world.json("run", "--notify", "--session", session, "--", "echo what it printed; exit 3")
    name = started["session_id"]
    eventually("the turn", lambda: world.told(name))
    told = lambda: [t for t in world.json("events", "history")["notices"] if t["event"]["session_id"] == name]
    eventually("the notice to be settled", lambda: told()[0]["state"] == "delivered")
    assert world.told(name) == 1, f"the model sees it {world.told(name)} times"
    assert world.json("events", "drain", "--session", session)["events"] == []
    # 2. Told again, as after an accident.
    notice = told()[0]
    event = {"events": [{"event": notice["event"], "text": notice["text"], "attempt": 2, "repeat": True}]}
    turns, first = world.turns(), name
    world.call(world.outlast, "hook", *command, input=json.dumps(event))
    assert world.turns() == turns, "a repeat started a turn"
    # 3. The engine is killed while the hook runs.
    started = world.json("run", "--notify", "--session", session, "--", "exit 4")
    name = started["session_id"]
    eventually("the second turn", lambda: world.told(name))
    os.kill(world.json("engine", "status")["pid"], signal.SIGKILL)
    eventually("the notice to be settled", lambda: told()[0]["state"] == "delivered")
    for one in (first, name):
        assert world.told(one) == 1, f"the model sees {one} {world.told(one)} times"


def codex(world):
    program = world.program("codex")
    speaks(world)
    configure_codex(world)
    said = world.call(program, "exec", "--skip-git-repo-check", "--json", "hello")
    thread = next(json.loads(line)["thread_id"] for line in said.splitlines() if "thread.started" in line)
    session = f"codex:{thread}"
    ends_and_wakes(world, session, ["codex", "--timeout", "60"])
    # Another Codex has the thread open: one of the two takes the turn.
    errors = open(world.path("other.err"), "w")
    other = world.start([program, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
    calls = [("initialize", {"clientInfo": {"name": "t", "title": "t", "version": "1"}, "capabilities": {"experimentalApi": True}})]
    for n, (method, params) in enumerate([*calls, ("thread/resume", {"threadId": thread, "excludeTurns": True})]):
        other.stdin.write(json.dumps({"id": n, "method": method, "params": params}) + "\n")
        other.stdin.flush()
        while json.loads(other.stdout.readline()).get("id") != n:
            pass
    name = world.json("run", "--notify", "--session", session, "--", "exit 5")["session_id"]
    eventually("the turn while another has the thread", lambda: world.told(name))
    eventually("its settlement", lambda: not [t for t in world.json("events", "history", "--state", "leased")["notices"]])
    time.sleep(12)  # Codex looks into its queue every ten seconds, and nothing tells that it has found nothing.
    assert world.told(name) == 1, f"the model sees it {world.told(name)} times"
    os.killpg(other.pid, signal.SIGKILL)
    # Codex's own hooks: it is not woken, and it reads pending notices with its next prompt.
    world.call(world.outlast, "engine", "stop")
    os.remove(world.path("home/.config/outlast/config.toml"))
    with open(world.path("home/.codex/hooks.json"), "w") as file:
        hook = [{"hooks": [{"type": "command", "command": f"{world.outlast} hook codex"}]}]
        json.dump({"hooks": {"UserPromptSubmit": hook}}, file)
    name = world.json("run", "--notify", "--session", session, "--", "exit 6")["session_id"]
    world.call(world.outlast, "wait", "--timeout", "20", name, check=False)
    trust = ["--dangerously-bypass-hook-trust"]
    for _ in range(2):
        world.call(program, "exec", *trust, "--skip-git-repo-check", "resume", thread, "go on")
    assert world.told(name) == 1, f"with its own hooks the model sees it {world.told(name)} times"
    return "woken once, also while another Codex has the thread; told by its own hook"


def opencode(world):
    program = world.program("opencode")
    speaks(world)
    configure_opencode(world)
    world.write("password", "hush\n")
    env = {"OPENCODE_SERVER_PASSWORD": "hush", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    server = world.start([program, "serve", "--port", "0", "--print-logs"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    url = None
    while not url:
        line = server.stdout.readline()
        assert line, "opencode serve ended"
        url = re.search(r"http://127\.0\.0\.1:\d+", line)
    url = url.group(0)
    login = {"authorization": "Basic " + base64.b64encode(b"opencode:hush").decode()}
    session = asked("POST", f"{url}/session?directory={world.path('work')}", {}, login)["id"]
    ends_and_wakes(world, f"opencode:{session}", ["opencode", "--url", url, "--password-file", world.path("password")])
    return "woken once by its server"


def hermes(world):
    speaks(world)
    configure_hermes(world)
    gateway = Gateway(world)
    gateway.start()
    session = gateway.session("wake")
    ends_and_wakes(world, f"hermes:{session}", ["hermes", "--url", gateway.url, "--key-file", gateway.key_file])
    return "woken once by its gateway"


if __name__ == "__main__":
    main("Real agents are woken, once.", {"codex": codex, "opencode": opencode, "hermes": hermes})
