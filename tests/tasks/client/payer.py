"""Pays for N requests at URL with answers recorded beside the lake at FOLDER; the parent may kill it at any moment."""

import sys
from pathlib import Path
from types import SimpleNamespace

from schemas.recipe import Budget
from tasks.client.client import ModelClient
from tasks.client.request import ModelReply, ModelRequest
from tasks.rollout.teacher.openai import OpenAI
from warehouse.address import resolve

if __name__ == "__main__":
    folder, url, count, parallel = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    client = ModelClient.for_lake(SimpleNamespace(where=resolve(folder)), Budget())  # type: ignore[arg-type]
    teacher = OpenAI(base_url=url, model="m", parallel=parallel)
    requests = [ModelRequest(messages=({"role": "user", "content": f"q{i}"},), item_id=f"i{i}") for i in range(count)]
    results = client.complete_all(teacher, requests)
    client.close()
    print(sum(isinstance(result, ModelReply) for result in results))
