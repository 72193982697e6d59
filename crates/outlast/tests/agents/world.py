"""What the scripts that run real agents share: a world for each agent, and how they are run one after the other.

An agent is found by the name of its program, in the directories of `--agents` or in PATH. One that is not there is skipped by name, unless CI=true.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
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


def free_port():
    """A port of the loopback interface at which no program listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class World:
    """A home for the agent and one for Outlast, a model, and what was started here."""

    def __init__(self, name, args):
        self.name, self.outlast = name, os.path.abspath(args.outlast)
        self.agents = [os.path.abspath(one) for one in args.agents]
        self.root = tempfile.mkdtemp(prefix=f"ol-{name}-")
        self.children = []
        for part in ("home", "work"):
            os.makedirs(os.path.join(self.root, part))
        self.log = os.path.join(self.root, "model.log")

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "w") as file:
            file.write(text)

    def add(self, path, behind, text):
        """Puts something into a file, as its owner would."""
        with open(self.path(path)) as file:
            before = file.read()
        assert behind in before, f"{path} has no {behind!r}: {before}"
        self.write(path, before.replace(behind, behind + text, 1))

    @property
    def env(self):
        near = [os.path.dirname(self.outlast), "/usr/local/bin", "/usr/bin", "/bin"]
        for one in reversed(self.agents):
            near = [os.path.join(one, part) for part in ("node_modules/.bin", "venv/bin", "vibe/venv/bin")] + near
        if not self.agents:
            near += os.environ["PATH"].split(":")
        return {"HOME": self.path("home"), "PATH": ":".join(near), "LANG": "C.UTF-8", "OUTLAST_HOME": self.path("outlast"), "USER": "tester"}

    def program(self, name):
        found = shutil.which(name, path=self.env["PATH"])
        if not found:
            raise Missing(f"{name} is not installed")
        return found

    def version(self, name):
        said = self.call(self.program(name), "--version")
        found = re.search(r"\d+\.\d+\.\d+", said)
        return found.group(0) if found else said.strip()

    def play(self, turns, *flags):
        """Starts the model, which says this."""
        self.write("script.json", json.dumps(turns))
        argv = [sys.executable, os.path.join(HERE, "model.py"), self.path("script.json"), "--log", self.log, *flags]
        started = self.start(argv, stdout=subprocess.PIPE, stderr=open(self.path("model.err"), "w"))
        self.model = f"http://127.0.0.1:{int(started.stdout.readline())}/v1"

    def start(self, argv, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        child = subprocess.Popen(argv, cwd=self.path("work"), env={**self.env, **more.pop("env", {})}, start_new_session=True, **more)
        self.children.append(child)
        return child

    def call(self, *argv, **more):
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        env = {**self.env, **more.pop("env", {})}
        check, errors = more.pop("check", True), more.pop("errors", False)
        done = subprocess.run(argv, cwd=self.path("work"), env=env, capture_output=True, text=True, timeout=PATIENCE, **more)
        assert not check or done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr if errors else done.stdout

    def json(self, *argv):
        return json.loads(self.call(self.outlast, argv[0], "--json", *argv[1:]))

    def told(self, text):
        """In how many messages of its newest request the model sees this."""
        return model.count(self.log, text) if os.path.exists(self.log) else 0

    def turns(self):
        """How many turns the model has begun."""
        return sum(one["turn"] is not None for one in model.said(self.log)) if os.path.exists(self.log) else 0

    def close(self):
        for line in ("kill --all --grace 0", "engine stop"):
            subprocess.run([self.outlast, *line.split()], env=self.env, capture_output=True, timeout=PATIENCE)
        for child in reversed(self.children):
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
        for pid in self.escaped():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def escaped(self):
        """Processes that have left the group that they were started in: some clients start a server of their own that stays."""
        here = f"HOME={self.path('home')}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if here in file.read().split(b"\0"):
                        yield int(pid)
            except OSError:
                pass  # It is over, or another user's.


# How each agent is told of the model, and that it need not ask.


def configure_codex(world):
    text = 'model = "mock"\nmodel_provider = "mock"\napproval_policy = "never"\n\n[model_providers.mock]\nname = "mock"\n'
    world.write("home/.codex/config.toml", text + f'base_url = "{world.model}"\nwire_api = "responses"\nrequires_openai_auth = false\n')


def configure_opencode(world):
    options = {"baseURL": world.model, "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "mock", "options": options, "models": {"mock": {"name": "mock"}}}
    config = {"provider": {"mock": provider}, "model": "mock/mock", "small_model": "mock/mock", "autoupdate": False}
    world.write("home/.config/opencode/opencode.json", json.dumps(config))


def configure_hermes(world):
    text = f"model:\n  default: mock\n  provider: custom\n  base_url: {world.model}\n  api_key: none\n  context_length: 128000\n"
    world.write("home/.hermes/config.yaml", text)


class Gateway:
    """A gateway of Hermes with its API server."""

    KEY = "hush-hush-hush-hush"

    def __init__(self, world):
        self.world, self.port = world, free_port()
        self.url, self.key_file = f"http://127.0.0.1:{self.port}", world.path("key")
        world.write("key", self.KEY + "\n")

    def start(self):
        env = {"API_SERVER_ENABLED": "true", "API_SERVER_KEY": self.KEY, "API_SERVER_PORT": str(self.port), "API_SERVER_HOST": "127.0.0.1"}
        with open(self.world.path("gateway.log"), "w") as log:
            self.world.start([self.world.program("hermes"), "gateway", "run"], env=env, stdout=log, stderr=subprocess.STDOUT)
        eventually("the gateway", self.is_up)

    def is_up(self):
        try:
            return self.ask("GET", "/api/sessions")
        except OSError:
            return None

    def ask(self, method, path, body=None):
        return asked(method, self.url + path, body, {"authorization": f"Bearer {self.KEY}"})

    def session(self, title):
        """A new session."""
        return self.ask("POST", "/api/sessions", {"title": title})["session"]["id"]


def configure_kimi(world):
    models = '[models.mock]\nprovider = "mock"\nmodel = "mock"\nmax_context_size = 100000\n'
    provider = f'[providers.mock]\ntype = "openai"\nbase_url = "{world.model}"\napi_key = "none"\n'
    world.write("home/.kimi-code/config.toml", f'default_model = "mock"\ntelemetry = false\n\n{models}\n{provider}')


def configure_gemini(world):
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False}}
    world.write("home/.gemini/settings.json", json.dumps(settings))


def configure_qwen(world):
    settings = {"security": {"auth": {"selectedType": "openai"}}, "general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False}}
    # What it asks its model about, besides the conversation.
    settings |= {"memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}, "ui": {"enableFollowupSuggestions": False}}
    world.write("home/.qwen/settings.json", json.dumps(settings))


def configure_cline(world):
    world.call(world.program("cline"), "auth", "-p", "openai-compatible", "-k", "none", "-m", "mock", "-b", world.model)


def configure_vibe(world):
    text = 'active_model = "mock"\nenable_telemetry = false\nenable_update_checks = false\nenable_auto_update = false\n\n[[providers]]\nname = "mock"\n'
    text += f'api_base = "{world.model}"\napi_key_env_var = "MOCK_KEY"\napi_style = "openai"\nbackend = "generic"\n\n'
    world.write("home/.vibe/config.toml", text + '[[models]]\nname = "mock"\nprovider = "mock"\nalias = "mock"\n')


def arguments(description, agents, more=lambda add: None):
    """The arguments of a script, of which `more` may add some."""
    args = argparse.ArgumentParser(description=description)
    args.add_argument("--outlast", required=True, metavar="PROGRAM", help="the program to test")
    args.add_argument("--agents", action="append", default=[], metavar="DIR", help="where packages are (node_modules or venv); may be repeated")
    args.add_argument("names", nargs="*", metavar="AGENT", help=", ".join(agents))
    more(args.add_argument)
    args = args.parse_args()
    unknown = [name for name in args.names if name not in agents]
    if unknown:
        sys.exit(f"there is no agent {unknown[0]}: known are {', '.join(agents)}")
    return args


def main(description, agents, version_of=World.version):
    """Runs the agents that are named, or all. `agents` has a function of a world for each, which returns what it has seen."""
    sys.exit(run_all(arguments(description, agents), agents, version_of))


def run_all(args, agents, version_of=World.version):
    """Whether one of the agents failed."""
    failed = False
    for name in args.names or agents:
        world, version = World(name, args), "?"
        began = time.monotonic()
        try:
            version = version_of(world, name)
            seen = agents[name](world)
            world.close()
            shutil.rmtree(world.root)
            print(f"{name} {version}: {seen} ({time.monotonic() - began:.1f} s)", flush=True)
        except Missing as why:
            world.close()
            shutil.rmtree(world.root)
            must = os.environ.get("CI") == "true"
            failed |= must
            print(f"{'FAILED' if must else 'skipped'}: {name}: {why}", flush=True)
        except Exception as why:  # Told, and the next one is run.
            failed = True
            world.close()
            print(f"FAILED: {name} {version}: {why!r}; kept: {world.root}", flush=True)
    return failed
