#!/usr/bin/env python3
"""A model that says what a script tells it to, for real agents without a network.

    model.py SCRIPT [--port P] [--log FILE]

Serves on 127.0.0.1 and prints its port as the first line of its output. It answers

    POST /v1/chat/completions     streamed or whole, as the request asks
    POST /v1/responses            streamed or whole, as the request asks
    POST /v1beta/models/M:METHOD  Gemini's `generateContent`, `streamGenerateContent` and `countTokens`
    GET  /v1/models               one model, `mock`

SCRIPT is a file with a JSON list of turns. Each request of a model takes the next one, and past the last one the last is said again:

    [{"text": "hello"},
     {"tool": "shell", "arguments": {"command": "true"}},
     {"tool": "wait", "arguments": {}, "when": "proc_"},
     {"text": "done", "delay": 0.5}]

or an object with a list for each conversation. A request belongs to the conversation whose name it holds; if it holds none, it takes no turn:

    {"amber": [{"text": "hello"}], "birch": [{"text": "goodbye"}]}

    text       what the model says
    tool       a tool that it calls instead, with `arguments`; a name that ends with `*` is the first offered tool that begins so, or ends
               so where the `*` stands in front, so that a script need not know an agent's prefixes
    delay      how many seconds it takes to think
    until      a file: the model thinks until it is there, for two minutes at most
    when       the turn is only taken by a request that holds this text; one that does not hold it is answered with "..." and takes no turn
    if         the turn is skipped unless the newest message of the request holds this text, in any case of letters
    keep       with `if`: the turn is not used up, so that it is taken again as long as the text is there; this many times at most

Requests that offer no tools (titles, summaries and the like) are answered with "..." and take no turn.

FILE gets one line of JSON for each request, before it is answered: {"n": 0, "path": "/v1/responses", "turn": 0 or null, "time": seconds since 1970,
"body": {...}}, and "conversation" if there are several. What the model was told is in the body: `said(FILE)`, `messages(FILE)` and `count(FILE, text)` of this
module read it.

Made of the standard library alone. Stops with TERM.
"""

import argparse
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def said(log):
    """All requests so far, as the log has them."""
    with open(log, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def messages_of(body):
    """The messages of a request, whichever wire it came by."""
    messages = body.get("messages") or body.get("input") or body.get("contents") or []
    return [messages] if isinstance(messages, str) else messages


def messages(log, conversation=None):
    """The messages of the last request that took a turn, as JSON: all that the model sees of the conversation."""
    taken = [one for one in said(log) if one["turn"] is not None and one.get("conversation") == conversation]
    return [json.dumps(message, ensure_ascii=False) for message in messages_of(taken[-1]["body"])] if taken else []


def count(log, text):
    """In how many messages of the last request that took a turn a text occurs: how often the model sees it."""
    return sum(text in message for message in messages(log))


class Script:
    """Which turn is next, and the log. One request at a time."""

    def __init__(self, turns, log):
        self.turns = turns if isinstance(turns, dict) else {None: turns}
        self.next = dict.fromkeys(self.turns, 0)
        self.log, self.requests, self.lock = log, 0, threading.Lock()

    def turn(self, path, body):
        with self.lock:
            whole = json.dumps(messages_of(body), ensure_ascii=False)
            name = next((name for name in self.turns if name is None or name in whole), None)
            turn, at = {"text": "..."}, None
            if body.get("tools") and name in self.turns:
                found = self.due(name, body)
                if found is not None:
                    at, turn = found, self.turns[name][found] if self.turns[name] else turn
            if self.log:
                line = {"n": self.requests, "path": path, "turn": at, "time": time.time(), "body": body}
                if name is not None:
                    line["conversation"] = name
                self.log.write(json.dumps(line, ensure_ascii=False) + "\n")
                self.log.flush()
            self.requests += 1
            return turn, self.requests

    def due(self, name, body):
        """The number of the turn that this request takes, if it takes one."""
        turns = self.turns[name]
        newest = json.dumps(messages_of(body)[-1:], ensure_ascii=False).lower()
        while self.next[name] < len(turns) - 1 and turns[self.next[name]].get("if", "").lower() not in newest:
            self.next[name] += 1
        at = max(0, min(self.next[name], len(turns) - 1))
        turn = turns[at] if turns else {}
        if turn.get("when", "") not in json.dumps(body, ensure_ascii=False):
            return None
        if turn.get("keep", 0) > 0:
            turn["keep"] -= 1
        else:
            self.next[name] += 1
        return at


def tool_name(wanted, body):
    """The offered tool that a turn means."""
    offered = []
    for tool in body.get("tools") or []:
        name = tool.get("name") or (tool.get("function") or {}).get("name")
        if name:
            offered.append(name)
        # Namespaced tools: the name that is called has the namespace in front. Gemini's are below one that has no name.
        for inner in tool.get("tools") or tool.get("functionDeclarations") or []:
            if inner.get("name"):
                offered.append(inner["name"])
    if wanted.endswith("*"):
        fits = [name for name in offered if name.startswith(wanted[:-1])]
    elif wanted.startswith("*"):
        fits = [name for name in offered if name.endswith(wanted[1:])]
    else:
        return wanted
    return fits[0] if fits else wanted.strip("*")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.whole({"object": "list", "data": [{"id": "mock", "object": "model", "created": 0, "owned_by": "outlast"}]})

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        try:
            body = json.loads(self.rfile.read(length) or b"{}")
        except ValueError:
            return self.whole({"error": {"message": "the body is no JSON"}}, 400)
        path = self.path.split("?")[0]
        if path.endswith("/chat/completions"):
            answer = self.say_chat
        elif path.endswith("/responses"):
            answer = self.say_response
        elif path.endswith(":countTokens"):
            return self.whole({"totalTokens": 10})
        elif path.endswith("enerateContent"):
            answer = self.say_gemini
        else:
            return self.whole({"error": {"message": f"nothing is served at {path}"}}, 404)
        turn, n = self.server.script.turn(path, body)
        time.sleep(turn.get("delay", 0))
        end = time.monotonic() + 120
        while "until" in turn and not os.path.exists(turn["until"]) and time.monotonic() < end:
            time.sleep(0.02)
        answer(turn, n, body)

    def whole(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events, named, ends_with_done=True):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if named else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if not named and ends_with_done:
            self.wfile.write(b"data: [DONE]\n\n")
        self.wfile.flush()
        self.close_connection = True

    def say_chat(self, turn, n, body):
        head = {"id": f"chatcmpl-{n}", "created": int(time.time()), "model": body.get("model", "mock")}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        call = None
        if "tool" in turn:
            function = {"name": tool_name(turn["tool"], body), "arguments": json.dumps(turn.get("arguments", {}))}
            call = {"id": f"call_{n}", "type": "function", "function": function}
        why = "tool_calls" if call else "stop"
        if not body.get("stream"):
            message = {"role": "assistant", "content": None if call else turn["text"]}
            if call:
                message["tool_calls"] = [call]
            choice = {"index": 0, "message": message, "finish_reason": why}
            return self.whole({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        delta = {"role": "assistant", "tool_calls": [{"index": 0, **call}]} if call else {"role": "assistant", "content": turn["text"]}
        chunk = {**head, "object": "chat.completion.chunk"}
        self.stream(
            [
                {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": why}], "usage": usage},
            ],
            named=False,
        )

    def say_gemini(self, turn, _n, body):
        part = {"text": turn.get("text", "")}
        if "tool" in turn:
            part = {"functionCall": {"name": tool_name(turn["tool"], body), "args": turn.get("arguments", {})}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "mock"}
        if "stream" not in self.path:
            return self.whole(answer)
        self.stream([answer], named=False, ends_with_done=False)

    def say_response(self, turn, n, body):
        if "tool" in turn:
            item = {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"call_{n}",
                "name": tool_name(turn["tool"], body),
                "arguments": json.dumps(turn.get("arguments", {})),
                "status": "completed",
            }
            if turn.get("namespace"):
                item["namespace"] = turn["namespace"]
        else:
            content = [{"type": "output_text", "text": turn["text"], "annotations": []}]
            item = {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed", "content": content}
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        }
        answer = {"id": f"resp_{n}", "object": "response", "created_at": int(time.time()), "model": body.get("model", "mock")}
        done = {**answer, "status": "completed", "output": [item], "usage": usage}
        if not body.get("stream"):
            return self.whole(done)
        events = [{"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}}]
        events.append({"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}})
        if item["type"] == "message":
            place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            events.append({"type": "response.output_text.delta", **place, "delta": turn["text"]})
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        events.append({"type": "response.completed", "response": done})
        for number, event in enumerate(events):
            event["sequence_number"] = number
        self.stream(events, named=True)


def main():
    args = argparse.ArgumentParser(description="A model that says what a script tells it to.")
    args.add_argument("script")
    args.add_argument("--port", type=int, default=0)
    args.add_argument("--log")
    args = args.parse_args()
    with open(args.script, encoding="utf-8") as file:
        turns = json.load(file)
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    server.daemon_threads = True
    server.script = Script(turns, open(args.log, "a", encoding="utf-8") if args.log else None)
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
