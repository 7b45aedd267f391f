"""What moetune init deepspeed calls of DeepSpeed: an engine of plain sums."""

import logging, types
import torch, torch.distributed as dist

__version__ = "0.99"
utils = types.SimpleNamespace(logger=logging.getLogger("deepspeed"))


class Engine:
    def __init__(self, layer):
        self.layer, self.stepped = layer, True

    def train(self, mode):
        self.layer.train(mode)

    def __call__(self, x):
        return self.layer(x)

    def backward(self, loss):
        assert self.stepped
        loss.backward()
        for one in self.layer.parameters():
            if getattr(one, "group_name", "ep_size_1") == "ep_size_1":
                dist.all_reduce(one.grad)
            one.grad /= self.ranks()
        self.stepped = False

    def ranks(self):
        return dist.get_world_size()

    def step(self):
        self.stepped = True
        for one in self.layer.parameters():
            one.grad = None


def initialize(model, model_parameters, config, dist_init_required):
    assert config["optimizer"]["params"]["lr"] == 0 and dist_init_required is False
    assert {one.group_name for one in model.parameters() if hasattr(one, "group_name")}
    return Engine(model), None, None, None
