#!/usr/bin/env python3
"""Replays every loadable log of the corpus, and a fork of it, through the daemon's acp dialect, twice, and holds
each update to ACP's official schema.

    python3 tests/clients/corpus.py CORPUS SCHEMA [SESSIOND]

CORPUS    the folder that holds index.json and rehydrated/*.jsonl: ../shared/corpus/fixtures
SCHEMA    schema.json, or schema.unstable.json, of the TypeScript SDK; tests/clients/run leaves it in
          target/acp-clients/ts/node_modules/@agentclientprotocol/sdk/schema/v1/
SESSIOND  default: target/release/sessiond
Needs the Python package jsonschema. Exit: 0 all updates are valid and every replay is the same, 1 not so, 64 usage.
"""
import json, pathlib, re, subprocess, sys, tempfile


def usage(why):
    print(f"{why}\n\n{__doc__}", file=sys.stderr)
    sys.exit(64)


if len(sys.argv) not in (3, 4):
    usage("expected two or three arguments")
corpus, schema = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
project = pathlib.Path(__file__).resolve().parent.parent.parent
daemon = sys.argv[3] if len(sys.argv) > 3 else str(project / "target/release/sessiond")
found = sorted((corpus / "rehydrated").glob("*.jsonl"))
if not found:
    usage(f"{corpus} has no rehydrated/*.jsonl: CORPUS is the folder with rehydrated/ in it, such as ../shared/corpus/fixtures")
if not schema.is_file():
    usage(f"{schema} is no file: SCHEMA is the schema.json of the TypeScript SDK, which tests/clients/run installs")
if not pathlib.Path(daemon).is_file():
    usage(f"{daemon} is no file: cargo build --release, or name SESSIOND")
import jsonschema

schema = json.load(schema.open(encoding="utf-8"))
update = jsonschema.Draft202012Validator({"$defs": schema["$defs"], "$ref": "#/$defs/SessionUpdate"})


def escape(text):
    units = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    plain = re.compile(r"[A-Za-z0-9._-]")
    return "".join(chr(unit) if unit < 128 and plain.match(chr(unit)) else f"~{unit:04X}" for unit in units)


def place(root, log):
    """Puts a log where its header belongs."""
    header = json.loads(log.open(encoding="utf-8").readline())
    cwd = header.get("cwd")
    folded = None if cwd is None else escape(re.sub(r"[/\\:]+", "-", cwd).replace("~", "\0")).lstrip("-")
    project_dir = "_no-cwd" if cwd is None else f"--{(folded or 'root')[:251]}--"
    home = root / project_dir / escape(header["id"])
    home.mkdir(parents=True)
    (home / "session.jsonl").write_bytes(log.read_bytes())
    return header["id"], cwd or "/"


def serve(root, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    run = subprocess.run([daemon, "serve", "--store", f"jsonl:{root}"], input=lines, capture_output=True, text=True, timeout=120)
    return [json.loads(line) for line in run.stdout.split("\n") if line]


def call(id, method, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def updates(messages, session):
    params = [message["params"] for message in messages if message.get("method") == "session/update"]
    return [given["update"] for given in params if given["sessionId"] == session]


logs = shown = refused = bad = 0
for log in found:
    with tempfile.TemporaryDirectory() as scratch:
        id, cwd = place(pathlib.Path(scratch), log)
        hello = call(0, "initialize", protocolVersion=1, clientCapabilities={"session": {"compaction": {}}})
        fork = call(2, "session/fork", sessionId=id, cwd=cwd, mcpServers=[], _meta={"sessiond": {"childSessionId": "fork"}})
        load = lambda number, session: call(number, "session/load", sessionId=session, cwd=cwd, mcpServers=[])
        first = serve(scratch, [hello, load(1, id), fork, load(3, "fork")])
        answers = {message["id"]: message for message in first if "id" in message}
        if "error" in answers[1]:
            refused += 1
            continue
        again = serve(scratch, [hello, load(1, id)])
        history, forked = updates(first, id), updates(first, "fork")
        same = history == updates(again, id)
        # A fork's last updates tell its own time and title; the history before them is its parent's.
        own = {"session_info_update", "usage_update", "plan"}
        cut = [one for one in history if one["sessionUpdate"] not in own]
        prefix = "error" in answers[2] or [one for one in forked if one["sessionUpdate"] not in own] == cut
        faults = [error.message for one in history + forked for error in update.iter_errors(one)]
        logs, shown = logs + 1, shown + len(history) + len(forked)
        if faults or not same or not prefix:
            bad += 1
            print(f"FAIL {log.name}: same={same} prefix={prefix} {faults[:2]}")
print(f"{logs} logs, {shown} updates, {refused} logs refused, {bad} failed")
if logs == 0:
    print("every log was refused: SESSIOND loads none of CORPUS", file=sys.stderr)
sys.exit(bad > 0 or logs == 0)
