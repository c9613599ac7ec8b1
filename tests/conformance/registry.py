"""A registry for real serializers: it answers what they ask, and stores each schema as Confluent's registry does."""

import hashlib
import json
import threading
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry:
    """A registry that is used as a context manager.

    Args:
        proto: the text of the Protobuf schema. A registry stores it for the descriptor that confluent-kafka sends.

    Attributes:
        url: where it listens.
        records: the records of its topic so far: keys and values.
    """

    def __init__(self, proto):
        self._proto = proto
        self.records = []
        self._ids = {}
        self._schemas = {}
        self._versions = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).split("/")
                self._answer(registry.register(path[2], body))

            def do_GET(self):
                path = urllib.parse.urlsplit(self.path).path
                found = registry.schema(path.removeprefix("/schemas/ids/"))
                if found is None:
                    self._answer({"error_code": 404, "message": "not found"}, 404)
                else:
                    self._answer(found)

            def _answer(self, answer, code=200):
                self.send_response(code)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_):
                """Write no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def register(self, subject, body):
        """Register a schema, unless it is there, and return what a client wants to know."""
        kind, references = body.get("schemaType", "AVRO"), body.get("references") or []
        text = self._proto if kind == "PROTOBUF" else body["schema"]
        named = (text, kind, json.dumps(references))
        is_new = named not in self._ids
        schema_id = self._ids.setdefault(named, len(self._ids) + 1)
        versions = self._versions.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
            version = {"subject": subject, "version": len(versions), "id": schema_id}
            value = version | {"schema": text, "deleted": False}
            value |= {} if kind == "AVRO" else {"schemaType": kind}
            value |= {"references": references} if references else {}
            key = {"keytype": "SCHEMA", "subject": subject, "version": len(versions), "magic": 1}
            self.records.append((json.dumps(key), json.dumps(value)))
        if is_new:
            md5 = hashlib.md5(text.encode())
            for one in references:
                md5.update((one["name"] + one["subject"]).encode() + one["version"].to_bytes(4, "big"))
            guid = str(uuid.UUID(bytes=md5.digest()))
            self._schemas[schema_id] = {"id": schema_id, "guid": guid, "schema": text, "schemaType": kind}
            self._schemas[schema_id] |= {"references": references} if references else {}
        return self._schemas[schema_id] | {"subject": subject, "version": versions.index(schema_id) + 1}

    def schema(self, schema_id):
        """Return the schema with an id, which is text; None for anything else that a client asks for."""
        return self._schemas.get(int(schema_id)) if schema_id.isdecimal() else None
