"""Clients that Outlast wakes: how they are set up for it, and how conversations are held with them."""

import subprocess
import threading

import calls
from drive import CodexProgram, Program
from peer import PATIENCE
from world import Gateway, asked, configure_codex, configure_hermes, configure_opencode, eventually, free_port


class Blocking:
    """A conversation whose turn is a request that is answered at its end."""

    def __init__(self, session, ask):
        self.id, self.ask = session, ask

    def begin(self, prompt):
        ended = []

        def run():
            try:
                self.ask(prompt)
                ended.append(None)
            except Exception as error:  # Told where it is waited for.
                ended.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def wait(seconds=PATIENCE):
            thread.join(seconds)
            assert ended, "the turn did not end"
            if ended[0]:
                raise ended[0]

        return wait


class CodexWoken(CodexProgram):
    def serve(self, world, program, env):
        configure_codex(world)
        world.call(world.outlast, "install", "codex")


class OpencodeWoken(Program):
    """A running `opencode serve`."""

    def serve(self, world, program, env):
        configure_opencode(world)
        world.call(world.outlast, "install", "opencode", "--wake")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        world.add("home/.config/outlast/config.toml", '"hook", "opencode"', f', "--url", "{self.url}"')

    def start(self, world):
        self.here = f"directory={world.path('work')}"
        with open(world.path("serve.out"), "w") as out:
            world.start([world.program("opencode"), "serve", "--port", str(self.port)], stdout=out, stderr=subprocess.STDOUT)

        def is_up():
            with open(world.path("serve.out")) as out:
                return self.url in out.read()

        eventually("its server", is_up)
        return self

    def open(self, _name):
        session = asked("POST", f"{self.url}/session?{self.here}", {})["id"]
        return Blocking(session, lambda text: asked("POST", f"{self.url}/session/{session}/message?{self.here}", {"parts": [{"type": "text", "text": text}]}))


class HermesWoken(Program):
    """A running gateway of Hermes."""

    def serve(self, world, program, env):
        configure_hermes(world)
        world.call(world.outlast, "install", "hermes", "--wake")
        self.gateway = Gateway(world)
        flags = f', "--url", "{self.gateway.url}", "--key-file", "{self.gateway.key_file}"'
        world.add("home/.config/outlast/config.toml", '"hook", "hermes"', flags)

    def start(self, world):
        self.gateway.start()
        return self

    def open(self, name):
        session = self.gateway.session(name)
        return Blocking(session, lambda text: self.gateway.ask("POST", f"/api/sessions/{session}/chat", {"message": text}))


WOKEN = {one.name: one for one in (
    CodexWoken("codex-woken", ["codex"], None, calls.Codex()),
    OpencodeWoken("opencode-woken", ["opencode"], None, calls.Native("outlast_")),
    HermesWoken("hermes-woken", ["hermes"], None, calls.Hermes("mcp__outlast__")),
)}
