#!/usr/bin/env python3
"""Real agents are woken, once, whatever is killed: Codex, opencode and Hermes from their packages, offline, with a scripted model.

    wake.py --outlast PROGRAM [--agents DIR] [codex|opencode|hermes]...

PROGRAM is the `outlast` to test. DIR is where the packages are: `npm install --prefix DIR @openai/codex@0.166.0 opencode-ai@1.18.33`, and
`python3 -m venv DIR/venv && DIR/venv/bin/pip install 'hermes-agent[mcp,acp]==0.19.0' aiohttp`. Without it they are looked for in PATH. One that is
not there is skipped by name, unless CI=true.

Each agent has a conversation; a process of that conversation ends while nobody speaks; the agent takes a turn in which the model is told, once. Then
the same notice is told again by hand, as after an accident, and the model is told nothing new. Last, the engine is killed while the hook runs.
"""

import argparse
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import model

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 90


class Missing(Exception):
    pass


def eventually(what, look):
    """Waits for a fact that nothing tells of."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"never came: {what}")


def asked(method, url, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


class World:
    """A home for the agent and one for Outlast, a model, and what was started here."""

    def __init__(self, name, args):
        self.name, self.outlast, self.agents = name, os.path.abspath(args.outlast), args.agents and os.path.abspath(args.agents)
        self.root = tempfile.mkdtemp(prefix=f"ol-wake-{name}-")
        self.children = []
        for part in ("home", "work", "home/.config/outlast"):
            os.makedirs(os.path.join(self.root, part))
        self.log = os.path.join(self.root, "model.log")
        script = os.path.join(self.root, "script.json")
        with open(script, "w") as file:
            json.dump([{"text": f"turn {n}"} for n in range(100)], file)
        started = self.start([sys.executable, os.path.join(HERE, "model.py"), script, "--log", self.log, "--any"], stdout=subprocess.PIPE)
        self.model = f"http://127.0.0.1:{int(started.stdout.readline())}/v1"

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    @property
    def env(self):
        near = [os.path.dirname(self.outlast), "/usr/local/bin", "/usr/bin", "/bin"]
        if self.agents:
            near = [os.path.join(self.agents, "node_modules/.bin"), os.path.join(self.agents, "venv/bin")] + near
        else:
            near += os.environ["PATH"].split(":")
        return {"HOME": self.path("home"), "PATH": ":".join(near), "LANG": "C.UTF-8", "OUTLAST_HOME": self.path("outlast"), "USER": "tester"}

    def program(self, name):
        found = shutil.which(name, path=self.env["PATH"])
        if not found:
            raise Missing(f"{name} is not installed")
        return found

    def start(self, argv, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        child = subprocess.Popen(argv, cwd=self.path("work"), env={**self.env, **more.pop("env", {})}, start_new_session=True, **more)
        self.children.append(child)
        return child

    def call(self, *argv, **more):
        more.setdefault("stdin", None if "input" in more else subprocess.DEVNULL)
        if more["stdin"] is None:
            del more["stdin"]
        env = {**self.env, **more.pop("env", {})}
        check = more.pop("check", True)
        done = subprocess.run(argv, cwd=self.path("work"), env=env, capture_output=True, text=True, timeout=PATIENCE, **more)
        assert not check or done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *argv):
        return json.loads(self.call(self.outlast, argv[0], "--json", *argv[1:]))

    def configure(self, command, sessions):
        with open(self.path("home/.config/outlast/config.toml"), "w") as file:
            file.write("[[hook]]\n" f"name = {json.dumps(self.name)}\ncommand = {json.dumps([self.outlast, 'hook', *command])}\n")
            file.write(f"wake = true\nsessions = {json.dumps(sessions)}\ntimeout_seconds = 80\nretry_seconds = [1]\n")

    def told(self, text):
        """In how many messages of its newest request the model sees this."""
        return model.count(self.log, text) if os.path.exists(self.log) else 0

    def requests(self):
        return len(model.said(self.log)) if os.path.exists(self.log) else 0

    def close(self):
        for line in ("kill --all --grace 0", "engine stop"):
            subprocess.run([self.outlast, *line.split()], env=self.env, capture_output=True, timeout=PATIENCE)
        for child in reversed(self.children):
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


def ends_and_wakes(world, session, command):
    """The three tellings, the same for every agent."""
    world.configure(command, [session.split(":")[0] + ":*"])
    # 1. A process ends while nobody speaks.
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
    requests = world.requests()
    world.call(world.outlast, "hook", *command, input=json.dumps(event))
    assert world.requests() == requests, "a repeat started a turn"
    # 3. The engine is killed while the hook runs.
    started = world.json("run", "--notify", "--session", session, "--", "exit 4")
    name = started["session_id"]
    eventually("the second turn", lambda: world.told(name))
    os.kill(world.json("engine", "status")["pid"], signal.SIGKILL)
    eventually("the notice to be settled", lambda: told()[0]["state"] == "delivered")
    assert world.told(name) == 1, f"the model sees it {world.told(name)} times"


def codex(world):
    program = world.program("codex")
    os.makedirs(world.path("home/.codex"))
    with open(world.path("home/.codex/config.toml"), "w") as file:
        file.write('model = "mock"\nmodel_provider = "mock"\napproval_policy = "never"\n[model_providers.mock]\nname = "mock"\n')
        file.write(f'base_url = "{world.model}"\nwire_api = "responses"\nrequires_openai_auth = false\n')
    said = world.call(program, "exec", "--skip-git-repo-check", "--json", "hello")
    thread = next(json.loads(line)["thread_id"] for line in said.splitlines() if "thread.started" in line)
    session = f"codex:{thread}"
    ends_and_wakes(world, session, ["codex", "--timeout", "60"])
    # Another Codex has the thread open: whoever of the two takes the turn, it is one.
    other = world.start([program, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
    # Codex's own hooks: nobody wakes it, and it reads what there is with its next prompt.
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


def opencode(world):
    program = world.program("opencode")
    os.makedirs(world.path("home/.config/opencode"))
    options = {"baseURL": world.model, "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "mock", "options": options, "models": {"mock": {"name": "mock"}}}
    with open(world.path("home/.config/opencode/opencode.json"), "w") as file:
        json.dump({"provider": {"mock": provider}, "model": "mock/mock", "small_model": "mock/mock", "autoupdate": False}, file)
    with open(world.path("password"), "w") as file:
        file.write("hush\n")
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


def hermes(world):
    program = world.program("hermes")
    os.makedirs(world.path("home/.hermes"))
    with open(world.path("home/.hermes/config.yaml"), "w") as file:
        file.write(f"model:\n  default: mock\n  provider: custom\n  base_url: {world.model}\n  api_key: none\n  context_length: 128000\n")
    with open(world.path("key"), "w") as file:
        file.write("hush-hush-hush-hush\n")
    env = {"API_SERVER_ENABLED": "true", "API_SERVER_KEY": "hush-hush-hush-hush", "API_SERVER_PORT": "18642", "API_SERVER_HOST": "127.0.0.1"}
    world.start([program, "gateway", "run"], env=env, stdout=open(world.path("gateway.log"), "w"), stderr=subprocess.STDOUT)
    url, login = "http://127.0.0.1:18642", {"authorization": "Bearer hush-hush-hush-hush"}

    def up():
        try:
            return asked("GET", f"{url}/api/sessions", None, login)
        except OSError:
            return None

    eventually("the gateway", up)
    session = asked("POST", f"{url}/api/sessions", {"title": "wake"}, login)["session"]["id"]
    ends_and_wakes(world, f"hermes:{session}", ["hermes", "--url", url, "--key-file", world.path("key")])


ALL = {"codex": codex, "opencode": opencode, "hermes": hermes}


def main():
    args = argparse.ArgumentParser(description="Real agents are woken, once.")
    args.add_argument("--outlast", required=True)
    args.add_argument("--agents")
    args.add_argument("names", nargs="*", choices=[*ALL, []])
    args = args.parse_args()
    failed = False
    for name in args.names or ALL:
        world = World(name, args)
        began = time.monotonic()
        try:
            ALL[name](world)
            print(f"{name}: woken, once ({time.monotonic() - began:.1f} s)", flush=True)
            world.close()
            shutil.rmtree(world.root)
        except Missing as why:
            world.close()
            shutil.rmtree(world.root)
            must = os.environ.get("CI") == "true"
            failed |= must
            print(f"{'FAILED' if must else 'skipped'}: {name}: {why}", flush=True)
        except Exception as why:  # Told, and the next one is run.
            failed = True
            world.close()
            print(f"FAILED: {name}: {why!r}; kept: {world.root}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
