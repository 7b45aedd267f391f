"""Stand-ins for torch, where it is not installed, and for Tutel's layer."""

import threading
import types

rank_here = threading.local()


class FakeTensor(list):
    def tolist(self):
        return list(self)


class FakeGroup:
    """What collectives need: everybody arrives, everybody reads, everybody leaves."""

    def __init__(self, ranks):
        self.barrier, self.ranks, self.given = threading.Barrier(ranks, timeout=200), ranks, {}

    def exchange(self, value):
        self.barrier.wait()
        self.given[rank_here.rank] = value
        self.barrier.wait()
        return dict(self.given)

    def broadcast(self, tensor, src, group=None):
        shared = self.exchange(list(tensor))[src]
        assert len(shared) == len(tensor), "ranks broadcast different sizes"
        tensor[:] = shared

    def all_reduce(self, tensor, op, group=None):
        assert op == "the largest", op
        tensor[:] = map(max, *self.exchange(list(tensor)).values())

    def all_gather(self, tensors, tensor, group=None):
        shared = self.exchange(list(tensor))
        for rank, one in enumerate(tensors):
            one[:] = shared[rank]


def fake_torch(group):
    torch = types.ModuleType("torch")
    torch.uint8 = torch.int64 = None
    torch.device = lambda *name: name
    torch.tensor = lambda values, dtype, device: FakeTensor(values)
    torch.zeros = lambda n, dtype, device: FakeTensor([0] * n)
    dist = torch.distributed = types.ModuleType("torch.distributed")
    dist.is_available = dist.is_initialized = lambda: group is not None
    dist.get_rank = lambda group=None: rank_here.rank
    dist.get_backend = lambda group=None: "gloo"
    if group:
        dist.get_world_size = lambda _=None: group.ranks
        dist.broadcast, dist.all_gather = group.broadcast, group.all_gather
        dist.all_reduce, dist.ReduceOp = group.all_reduce, types.SimpleNamespace(MAX="the largest")
    return {"torch": torch, "torch.distributed": dist}


class Input:
    def __init__(self, *shape):
        self.shape = shape


def extract_critical(scores, top_k, capacity_factor, alignment, inequivalent_tokens=False):
    """Where Tutel finds the capacity: `scores` is here what experts need at most."""
    needed, tokens, experts = scores
    rows = min(top_k, experts) * int(abs(capacity_factor) * -(-tokens // experts))
    if inequivalent_tokens:
        rows += 64  # another rank has more tokens
    if capacity_factor <= 0:
        rows = min(needed, rows) if capacity_factor else needed
    return (
        experts,
        "indices",
        "locations",
        "gates",
        -(-rows // alignment) * alignment,
        "last",
    ), "loss"


class Gate:
    def __init__(self, k, factor):
        self.top_k, self.capacity_factor = k, factor


class FakeLayer:
    """Decides in the order in which Tutel does."""

    def __init__(self, experts=2, ranks=4, factor=1.0, k=2):
        self.num_global_experts, self.world_size = experts, ranks
        shards = max(1, ranks // experts)
        self.shards = shards
        self.valid_rs = [0] + [r for r in range(1, shards + 1) if shards % r == 0]
        self.gates = [Gate(k, factor), Gate(1, 2.0)]
        self.adaptive_degree, self.a2a_ffn_overlap_degree, self.use_2dh = 1, 1, False
        self.needed = 0
        self.skip_moe = False

    def __call__(self, *args, **options):
        return self.forward(*args, **options)

    def forward(
        self,
        input,
        gate_index=0,
        capacity_factor=None,
        top_k=None,
        a2a_ffn_overlap_degree=None,
        reserve_dims=1,
        inequivalent_tokens=False,
        adaptive_r=None,
        megablocks_size=0,
    ):
        if self.skip_moe:
            return None
        gate, tokens = self.gates[gate_index], 1
        for size in input.shape[:-reserve_dims]:
            tokens *= size
        if a2a_ffn_overlap_degree is not None:
            self.a2a_ffn_overlap_degree = a2a_ffn_overlap_degree
        d = self.a2a_ffn_overlap_degree
        critical, _ = extract_critical(
            (self.needed, tokens, self.num_global_experts),
            top_k=top_k or gate.top_k,
            capacity_factor=gate.capacity_factor if capacity_factor is None else capacity_factor,
            alignment=self.shards * d,
            inequivalent_tokens=inequivalent_tokens,
        )
        if adaptive_r is not None:
            self.adaptive_degree = adaptive_r
        assert critical[4] % (self.shards * d) == 0
        a = "2dh" if self.use_2dh else "linear"
        return f"r={self.adaptive_degree} d={d} a={a}", critical[4]
