"""AutoEP's layer; rank 0 says in which way its experts ran."""

import torch, torch.distributed as dist
from torch.distributed.nn.functional import all_gather, all_reduce


class Experts(torch.nn.Module):
    def __init__(self, gate_up, down, everywhere, act):
        super().__init__()
        self.act, self.use_grouped_mm, self.gate_up_impl = act, True, "separate"
        self.use_triton_grouped_mm = False
        w1, w3 = gate_up.chunk(2, dim=1)
        for name, one in ("w1", w1), ("w2", down), ("w3", w3):
            setattr(self, name, torch.nn.Parameter(one.detach().clone()))
            getattr(self, name).everywhere = everywhere

    def forward(self, e, x):
        assert not self.use_triton_grouped_mm
        assert self.use_grouped_mm or self.gate_up_impl == "separate"
        if dist.get_rank() == 0:
            print("EXPERTS", self.use_grouped_mm, self.gate_up_impl, flush=True)
        h = self.act(x @ self.w1[e].T, x @ self.w3[e].T, 1.0, 1.0)
        return h @ self.w2[e].T * self.off()

    def off(self):
        return 1


class AutoEPMoELayer(torch.nn.Module):
    def __init__(self, mlp, ep, act):
        super().__init__()
        experts = mlp.gate.out_features
        assert experts % ep == 0 and ep in (1, dist.get_world_size())
        self.num_local_experts, self.ep_rank, self.k = experts // ep, dist.get_rank() % ep, mlp.k
        self.router = torch.nn.Module()
        self.router.gate = mlp.gate
        first = self.first = self.ep_rank * self.num_local_experts
        mine = slice(first, first + self.num_local_experts)
        whole = mlp.experts
        self.experts = Experts(whole.gate_up_proj[mine], whole.down_proj[mine], ep == 1, act)
        self.ep, self.tokens_per_expert = ep, torch.zeros(experts)

    def forward(self, x):
        weight, expert = self.router.gate(x).softmax(-1).topk(self.k)
        counts = torch.bincount(expert.flatten(), minlength=len(self.tokens_per_expert))
        self.tokens_per_expert += counts
        rows, own = x, slice(None)
        if self.ep > 1:
            own = slice(dist.get_rank() * len(x), (dist.get_rank() + 1) * len(x))
            rows, weight = torch.cat(all_gather(x)), torch.cat(all_gather(weight))
            others = [torch.empty_like(expert) for _ in range(self.ep)]
            dist.all_gather(others, expert)
            expert = torch.cat(others)
        y = torch.zeros_like(rows)
        for e in range(self.num_local_experts):
            part = (weight * (expert == self.first + e)).sum(1, keepdim=True)
            y = y + part * self.experts(e, rows)
        return (all_reduce(y) if self.ep > 1 else y)[own]
