"""The discovery document of fleetd's API as OpenAPI 3, for tools that make requests of it.

    tests/schema.py DISCOVERY.json > OPENAPI.json

This program adds promises of the API that the discovery document lacks: errors are entities, and
each method has a set of statuses. The tool chooses the requests (tests/stages/schema).
"""

import json
import sys

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
        }
    },
}
# Statuses of a method in addition to its success.
REFUSALS = ["400", "404", "405", "408", "409", "413", "415", "503"]
DONE = {"GET": ["200"], "PUT": ["201", "204"], "DELETE": ["204"]}


def translated(value):
    """Returns a schema with its references in the places of OpenAPI."""
    if isinstance(value, list):
        return [translated(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {key: translated(one) for key, one in value.items() if key != "id" or isinstance(one, dict)}
    if isinstance(value.get("$ref"), str):
        made["$ref"] = "#/components/schemas/" + value["$ref"]
    return made


def entity(schema):
    return {"application/json": {"schema": schema}}


def operation(method):
    verb = method["httpMethod"]
    responses = {status: {"description": "refused", "content": entity(ERROR)} for status in REFUSALS}
    for status in DONE[verb]:
        responses[status] = {"description": "done"}
    if "response" in method:
        responses["200"]["content"] = entity(translated(method["response"]))
    made = {"operationId": method["id"], "responses": responses}
    made["parameters"] = [
        {
            "name": name,
            "in": told["location"],
            "required": told.get("required", False),
            "schema": {"type": told["type"]},
        }
        for name, told in method.get("parameters", {}).items()
    ]
    if "request" in method:
        made["requestBody"] = {"required": True, "content": entity(translated(method["request"]))}
    return made


def main():
    document = json.load(open(sys.argv[1], encoding="utf-8"))
    paths = {}
    for resource in document["resources"].values():
        for method in resource["methods"].values():
            path = paths.setdefault("/" + method["path"], {})
            path[method["httpMethod"].lower()] = operation(method)
    made = {
        "openapi": "3.0.3",
        "info": {"title": document["title"], "version": document["version"]},
        "paths": paths,
        "components": {"schemas": translated(document["schemas"])},
    }
    json.dump(made, sys.stdout, indent=1)


main()
