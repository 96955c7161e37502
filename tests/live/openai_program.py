"""A program with OpenAI's SDK, for the SDK's own environment: `openai_program.py URL`.

Each line of stdin is the fields of one streamed chat request. Every chunk is printed as it comes, then `{"end": true}`,
or `{"error": ...}` with what the SDK raised.
"""

import importlib
import json
import sys
from typing import Any


def main(url: str) -> None:
    client: Any = importlib.import_module("openai").OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
    for line in sys.stdin:
        try:
            for chunk in client.chat.completions.create(**json.loads(line), stream=True):
                print(json.dumps({"chunk": chunk.model_dump(mode="json")}), flush=True)
            print(json.dumps({"end": True}), flush=True)
        # Whatever the SDK raises is what its user sees.
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
