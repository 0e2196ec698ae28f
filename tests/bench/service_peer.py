"""The peer of bench-service: attention with weights as most would write it today, FastAPI on uvicorn, orjson both
ways, PyTorch on one thread. Started by service.py; prints a line once it serves."""
import math
import sys

import numpy as np
import orjson
import torch
import uvicorn
from fastapi import FastAPI, Request, Response

torch.set_num_threads(1)
app = FastAPI()


@app.post("/v1/attention")
async def attention(request: Request):
    body = orjson.loads(await request.body())
    query, key, value = (torch.from_numpy(np.array(body[name], np.float32)) for name in ("query", "key", "value"))
    with torch.inference_mode():
        weights = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]), -1)
        output = weights @ value
    answer = orjson.dumps({"output": output.numpy(), "weights": weights.numpy()}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(answer, media_type="application/json")


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("ready", flush=True)


Server(uvicorn.Config(app, port=int(sys.argv[1]), log_level="error", access_log=False)).run()
