"""What moetune init autoep calls of DeepSpeed; rank 0 says in how many chunks a step came."""

import logging, types
import torch, torch.distributed as dist
from .module_inject.auto_ep_layer import AutoEPMoELayer
from .moe.ep_experts import ACTIVATIONS

__version__ = "0.99"
utils = types.SimpleNamespace(logger=logging.getLogger("deepspeed"))


class Engine(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module, self.last, self.chunks = module, True, []

    def forward(self, texts, use_cache):
        return self.module(texts, use_cache)

    def set_gradient_accumulation_boundary(self, last):
        self.last = last

    def backward(self, loss):
        loss.backward()
        self.chunks.append(self.last)
        for one in self.parameters() if self.last else ():
            if getattr(one, "everywhere", True):
                dist.all_reduce(one.grad)
            one.grad /= dist.get_world_size()

    def step(self):
        assert self.chunks == [False] * (len(self.chunks) - 1) + [True], self.chunks
        if dist.get_rank() == 0:
            print("CHUNKS", len(self.chunks), flush=True)
        self.chunks = []
        for one in self.parameters():
            one.grad = None


def initialize(model, config, dist_init_required):
    parallel = config["expert_parallel"]
    assert parallel["enabled"] and config["optimizer"]["params"]["lr"] == 0
    assert parallel["expert_activation"] in ACTIVATIONS and dist_init_required is False
    act = ACTIVATIONS[parallel["expert_activation"]]
    model.block.mlp = AutoEPMoELayer(model.block.mlp, parallel["autoep_size"], act)
    return Engine(model), None, None, None
