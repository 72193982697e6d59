"""How each MCP client is driven: how it is told of its model and of an MCP server, and how conversations are held with it."""

import json
import os
import queue
import subprocess
import threading

import calls
import model
from peer import PATIENCE, Acp, AppServer
from world import (HERE, Missing, configure_cline, configure_codex, configure_gemini, configure_hermes, configure_kimi, configure_opencode, configure_qwen,
                   configure_vibe)


class Client:
    """A client with a model. `serve` makes `program` with its environment the MCP server called `outlast`."""

    tools = calls.Native()
    # How a turn ends.
    final = {"text": "done"}
    # What the model has to do before it can call a tool of a server.
    before = []
    # Whether nothing tells the conversations of one process apart: they share a server, or each call has a new one, and no call names its conversation.
    shares = False
    # Whether it is also driven over HTTP; `without sessions` if it speaks the revision that has none.
    remote = None
    # What `outlast install` adds to the command of the server.
    profile = []
    # After how many seconds it gives up a call, as facts.py measured, unless that is more than a minute.
    gives_up = None

    def serve(self, world, program, env):
        raise NotImplementedError

    def start(self, world):
        """Starts the client, and returns what has `open`, which begins a conversation."""
        raise NotImplementedError

    def shown(self, world, name):
        """Everything that the model has been shown of this conversation, a text for each message."""
        return model.messages(world.log, name)

    def version(self, world):
        raise NotImplementedError


class Program(Client):
    """A client that is a program, and speaks ACP."""

    def __init__(self, name, argv, configure, tools, env=None, gives_up=None, shares=False, profile=()):
        self.shares, self.profile = shares, list(profile)
        self.name, self.argv, self.configure, self.tools, self.env, self.gives_up = name, argv, configure, tools, env, gives_up

    def serve(self, world, program, env):
        self.configure(world)
        SERVERS[self.name](world, program, env)

    def start(self, world):
        program, *arguments = self.argv
        return Acp(world, [world.program(program), *arguments], self.env and self.env(world))

    def version(self, world):
        return world.version(self.argv[0])


class CodexProgram(Program):
    def start(self, world):
        return AppServer(world, [world.program("codex"), "app-server"])


# How each program is told of an MCP server.


def server_of(program, env, **more):
    return {"command": program[0], "args": program[1:], "env": env, **more}


def serve_json(path, **more):
    """For programs with a file that has `mcpServers`, and for those whose settings have it."""

    def serve(world, program, env):
        settings = {}
        if os.path.exists(world.path(path)):
            with open(world.path(path)) as file:
                settings = json.load(file)
        world.write(path, json.dumps({**settings, "mcpServers": {"outlast": server_of(program, env, **more)}}))

    return serve


def serve_opencode(world, program, env):
    path = "home/.config/opencode/opencode.json"
    with open(world.path(path)) as file:
        settings = json.load(file)
    world.write(path, json.dumps({**settings, "mcp": {"outlast": {"type": "local", "command": program, "environment": env}}}))


def toml_table(env):
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items()) + " }"


def append(world, path, text):
    with open(world.path(path), "a") as file:
        file.write(text)


def serve_codex(world, program, env):
    server = f"command = {json.dumps(program[0])}\nargs = {json.dumps(program[1:])}\ndefault_tools_approval_mode = \"approve\"\nenv = {toml_table(env)}\n"
    append(world, "home/.codex/config.toml", f"\n[mcp_servers.outlast]\n{server}")


def serve_vibe(world, program, env):
    server = f"command = {json.dumps(program[0])}\nargs = {json.dumps(program[1:])}\nenv = {toml_table(env)}\n"
    append(world, "home/.vibe/config.toml", f'\n[[mcp_servers]]\nname = "outlast"\ntransport = "stdio"\n{server}')


def serve_hermes(world, program, env):
    # JSON is YAML.
    append(world, "home/.hermes/config.yaml", f"mcp_servers:\n  outlast: {json.dumps(server_of(program, env))}\n")


SERVERS = {
    "gemini": serve_json("home/.gemini/settings.json", trust=True),
    "qwen": serve_json("home/.qwen/settings.json", trust=True),
    "cline": serve_json("home/.cline/data/settings/cline_mcp_settings.json"),
    "kimi": serve_json("home/.kimi-code/mcp.json"),
    "opencode": serve_opencode,
    "codex": serve_codex,
    "vibe": serve_vibe,
    "hermes": serve_hermes,
}


class Driver:
    """A library in an environment of its own, driven by clients.py or clients.mjs: a line for each turn."""

    def __init__(self, world, argv, env):
        self.said = world.path(f"driver-{len(world.children)}.log")
        self.child = world.start(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.said, "w"), text=True)
        self.answers, self.lock = {}, threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.child.stdout:
            said = json.loads(line)
            self.answers_of(said["conversation"]).put(said)
        with self.lock:
            for answers in self.answers.values():
                answers.put({"error": "it ended"})

    def answers_of(self, name):
        with self.lock:
            return self.answers.setdefault(name, queue.Queue())

    def begin(self, name, prompt):
        answers = self.answers_of(name)
        print(json.dumps({"conversation": name, "prompt": prompt}), file=self.child.stdin, flush=True)

        def wait(seconds=PATIENCE):
            try:
                said = answers.get(timeout=seconds)
            except queue.Empty:
                raise AssertionError(f"the turn did not end: {self.errors()}") from None
            assert "error" not in said, f"{said['error']}: {self.errors()}"
            return said["answer"]

        return wait

    def errors(self):
        with open(self.said, errors="replace") as file:
            return file.read()[-1500:]

    def open(self, name):
        return Talk(self, name)


class Talk:
    def __init__(self, driver, name):
        self.driver, self.name = driver, name

    def begin(self, prompt):
        return self.driver.begin(self.name, prompt)


class Library(Client):
    """A library for Python, with a model."""

    def __init__(self, place, package, name, driver=None, tools=None, final=None, gives_up=None, shares=False):
        self.shares = shares
        self.place, self.package, self.name, self.driver, self.gives_up = place, package, name, driver or name, gives_up
        self.tools, self.final = tools or self.tools, final or self.final

    def python(self, world):
        found = os.path.join(world.agents[0] if world.agents else "", self.place, "venv/bin/python")
        if not os.path.exists(found):
            raise Missing(f"{self.name} is not installed")
        return found

    def serve(self, world, program, env):
        self.program, self.env = program, env

    def start(self, world):
        model_url = getattr(world, "model", "-")
        return Driver(world, [self.python(world), *self.driver_argv(model_url, self.program)], self.env)

    def driver_argv(self, model_url, program):
        return ["-B", os.path.join(HERE, "clients.py"), self.driver, model_url, *program]

    def version(self, world):
        return world.call(self.python(world), "-c", f"import importlib.metadata as m; print(m.version('{self.package}'))").strip()


class Caller:
    """A conversation with a client that has no model: this plays the script, and keeps what the caller is given."""

    def __init__(self, talk, turns):
        self.talk, self.turns, self.given = talk, list(turns), []

    def begin(self, _prompt):
        waiting = []

        def run():
            while True:
                turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
                if turn.get("if", "").lower() not in (self.given or [""])[-1].lower():
                    continue
                if turn.get("keep", 0) > 0:
                    turn["keep"] -= 1
                    self.turns.insert(0, turn)
                if "tool" not in turn:
                    return
                given = self.talk.begin({"tool": turn["tool"], "arguments": turn["arguments"]})()
                # A caller uses one of the two, if there are two.
                texts = [given.get("error") or given["first_text"], given.get("structured") or "null"]
                counts = {text.count("exited (exit code") for text in texts if text != "null"}
                assert len(counts) == 1, f"the text and the structured content differ: {given}"
                self.given.append(texts[0])

        def guarded():
            try:
                run()
                waiting.append(None)
            except Exception as error:  # Told where it is waited for.
                waiting.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()

        def wait(seconds=PATIENCE):
            thread.join(seconds)
            assert waiting, "the turn did not end"
            if waiting[0]:
                raise waiting[0]

        return wait


class Bare(Library):
    """A client without a model: its caller is the script."""

    def __init__(self, place, package, name, driver=None, gives_up=None):
        super().__init__(place, package, name, driver, gives_up=gives_up)
        self.callers = {}

    def shown(self, world, name):
        return self.callers[name].given


class Typescript(Bare):
    """A client from npm, driven by clients.mjs with the node that comes along."""

    def start(self, world):
        directory = os.path.join(world.agents[0] if world.agents else "", self.place)
        if not os.path.isdir(os.path.join(directory, "node_modules", self.package)):
            raise Missing(f"{self.name} is not installed")
        return Driver(world, [world.program("node"), os.path.join(HERE, "clients.mjs"), directory, self.package, *self.program], self.env)

    def version(self, world):
        with open(os.path.join(world.agents[0] if world.agents else "", self.place, "node_modules", self.package, "package.json")) as file:
            return json.load(file)["version"]


SMOLAGENTS = {"place": "smolagents", "package": "smolagents", "tools": calls.Smolagents(), "final": {"tool": "final_answer", "arguments": {"answer": "done"}}}


def gemini_env(world):
    return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": world.model.removesuffix("/v1"), "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def cline_env(_world):
    return {"CLINE_API_KEY": "none", "CLINE_PROVIDER": "openai-compatible", "CLINE_MODEL": "mock"}


def qwen_env(world):
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": world.model, "OPENAI_MODEL": "mock"}


REMOTE = {"fastmcp3": True, "openai-agents-mcp1": True, "langchain-session": True, "sdk-new": True, "client-ts": True,
          "fastmcp": "without sessions", "openai-agents": "without sessions", "pydantic-ai": "without sessions"}

CLIENTS = {one.name: one for one in (
    # With a model of its own choice, it asks another one first.
    Program("gemini", ["gemini", "--acp", "--approval-mode", "yolo", "--model", "gemini-2.5-flash"], configure_gemini, calls.Native("mcp_outlast_"),
            gemini_env),
    Program("qwen", ["qwen", "--acp", "--approval-mode", "yolo"], configure_qwen, calls.Native("mcp__outlast__"), qwen_env, shares=True),
    Program("cline", ["cline", "--acp"], configure_cline, calls.Native("outlast__"), cline_env, gives_up=60),
    Program("vibe", ["vibe-acp"], configure_vibe, calls.Vibe(), lambda world: {"MOCK_KEY": "none"}, gives_up=60, shares=True),
    CodexProgram("codex", ["codex"], configure_codex, calls.Codex()),
    Program("opencode", ["opencode", "acp"], configure_opencode, calls.Native("outlast_"), gives_up=60, shares=True),
    Program("kimi", ["kimi", "acp"], configure_kimi, calls.Native("mcp__outlast__"), gives_up=60, shares=True),
    Program("hermes", ["hermes", "acp"], configure_hermes, calls.Hermes("mcp__outlast__"), shares=True,
            profile=["--profile", "hermes"]),
    Library("openai-agents", "openai-agents", "openai-agents", gives_up=5),
    Library("openai-agents", "openai-agents", "openai-agents-structured", gives_up=5),
    Library("openai-agents-mcp1", "openai-agents", "openai-agents-mcp1", driver="openai-agents", gives_up=5),
    Library("pydantic-ai", "pydantic-ai-slim", "pydantic-ai"),
    Library("langchain", "langchain-mcp-adapters", "langchain", shares=True),
    Library("langchain", "langchain-mcp-adapters", "langchain-session"),
    Library("fast-agent", "fast-agent-mcp", "fast-agent"),
    Library(name="smolagents", **SMOLAGENTS),
    Library(name="smolagents-structured", **SMOLAGENTS),
    Bare("fastmcp3", "fastmcp", "fastmcp3", driver="fastmcp"),
    Bare("fastmcp", "fastmcp", "fastmcp"),
    Typescript("sdk-old", "@modelcontextprotocol/sdk", "sdk-old", gives_up=60),
    Typescript("sdk-new", "@modelcontextprotocol/sdk", "sdk-new", gives_up=60),
    Typescript("client-ts", "@modelcontextprotocol/client", "client-ts", gives_up=60),
)}
for name, how in REMOTE.items():
    CLIENTS[name].remote = how
