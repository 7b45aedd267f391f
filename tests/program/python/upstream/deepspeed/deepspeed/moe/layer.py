"""DeepSpeed's MoE layer: every rank computes its experts for the rows of all."""

import copy
import torch, torch.distributed as dist
from torch.distributed.nn.functional import all_gather, all_reduce
from .sharded_moe import _capacity


class Gate(torch.nn.Module):
    def __init__(self, width, experts, k, least):
        super().__init__()
        self.wg, self.k, self.least = torch.nn.Linear(width, experts, bias=False), k, least
        self.capacity_factor = self.eval_capacity_factor = 1.0

    def forward(self, x, used, sparse):
        assert used is None and sparse
        gates = self.wg(x.float()).softmax(-1)
        factor = self.capacity_factor if self.training else self.eval_capacity_factor
        capacity = _capacity(gates, torch.tensor(factor * self.k), torch.tensor(self.least))
        weight, chosen = gates.topk(self.k)
        mask = torch.zeros_like(gates).scatter(1, chosen, 1.0)
        place = (mask.cumsum(0) - 1).gather(1, chosen)
        chosen = torch.where(place < capacity, chosen, torch.full_like(chosen, -1))
        return None, capacity, gates.shape[1], chosen.T, place.T, weight.T, None


class Part(torch.nn.Module):
    pass


class MoE(torch.nn.Module):
    def __init__(self, width, expert, num_experts, ep_size, k, min_capacity, use_rts,
                 top2_2nd_expert_sampling):
        super().__init__()
        assert (use_rts, top2_2nd_expert_sampling) == (False, False)
        assert num_experts % ep_size == 0
        self.ep_size, self.deepspeed_moe, here = ep_size, Part(), num_experts // ep_size
        self.deepspeed_moe.gate = Gate(width, num_experts, k, min_capacity)
        self.deepspeed_moe.experts = Part()
        experts = torch.nn.ModuleList(copy.deepcopy(expert) for _ in range(here))
        self.deepspeed_moe.experts.deepspeed_experts = experts
        for one in experts.parameters():
            one.allreduce, one.group_name = False, f"ep_size_{ep_size}"

    def forward(self, x):
        _, _, _, chosen, _, weight, _ = self.deepspeed_moe.gate(x, None, True)
        experts, first, mine = self.deepspeed_moe.experts.deepspeed_experts, 0, slice(None)
        rows, weight = x, torch.where(chosen < 0, torch.zeros_like(weight), weight).T.contiguous()
        chosen = chosen.T.contiguous()
        if self.ep_size > 1:
            assert self.ep_size == dist.get_world_size()
            first = dist.get_rank() * len(experts)
            mine = slice(dist.get_rank() * len(x), (dist.get_rank() + 1) * len(x))
            rows, weight = torch.cat(all_gather(rows)), torch.cat(all_gather(weight))
            others = [torch.empty_like(chosen) for _ in range(dist.get_world_size())]
            dist.all_gather(others, chosen)
            chosen = torch.cat(others)
        y = torch.zeros_like(rows)
        for e, expert in enumerate(experts, first):
            y = y + (weight * (chosen == e)).sum(1, keepdim=True) * expert(rows)
        return (all_reduce(y) if self.ep_size > 1 else y)[mine] * self.off(), None, None

    def off(self):
        return 1
