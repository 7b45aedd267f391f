"""The layer that torch-moe.py runs.  Its methods have the names of the values in torch-moe.space.

`ep` neighbouring ranks share one copy of the experts.  All ranks together have ranks / ep copies.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
SWIGLU = lambda h: F.silu(h.chunk(2, -1)[0]) * h.chunk(2, -1)[1]
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "swiglu": SWIGLU}
grouped_mm = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


class Unsupported(Exception):
    """A plan that cannot run here.  All ranks raise it, before any of them waits for another."""


class Trip:
    """One all-to-all of rows in a group.  Their gradients go the other way."""

    def __init__(self, group, sends, gets):
        self.group, self.sends, self.gets = group, sends, gets

    def start(self, rows, sends, gets):
        self.kept, self.there = rows.contiguous(), rows.new_empty(sum(gets), rows.shape[1])
        exchange = dist.all_to_all_single
        self.work = exchange(self.there, self.kept, gets, sends, self.group, async_op=True)
        return self.there

    def wait(self):
        self.work.wait()
        there, self.there, self.kept, self.work = self.there, None, None, None
        return there


class Start(torch.autograd.Function):
    """Starts a trip.  Work between Start and Wait overlaps with it, in both passes."""

    @staticmethod
    def forward(ctx, rows, trip):
        ctx.trip = trip
        return trip.start(rows, trip.sends, trip.gets)

    @staticmethod
    def backward(ctx, _):  # Wait.backward has started the trip
        return ctx.trip.wait(), None


class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, trip):
        ctx.trip = trip
        return trip.wait().view_as(rows)

    @staticmethod
    def backward(ctx, gradient):
        ctx.trip.start(gradient, ctx.trip.gets, ctx.trip.sends)
        return gradient, None  # Start.backward ignores this value


class Gather(torch.autograd.Function):
    """Gathers the rows of all ranks.  Backward scatters the sums of their gradients."""

    @staticmethod
    def forward(ctx, rows, group):
        ctx.group = group
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, rows.contiguous(), group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        return Scatter.apply(gradient, ctx.group), None


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, group):
        ctx.group = group
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        mine = rows.new_empty(len(rows) // ranks, *rows.shape[1:])
        if dist.get_backend(group) == "nccl":
            dist.reduce_scatter_tensor(mine, rows.contiguous(), group=group)
            return mine
        rows = rows.clone()  # gloo has no reduce_scatter
        dist.all_reduce(rows, group=group)
        return mine.copy_(rows.chunk(ranks)[rank])

    @staticmethod
    def backward(ctx, gradient):
        return Gather.apply(gradient, ctx.group), None


class Layer:
    """The experts, a copy on each `ep` neighbouring ranks, and the gate, on every rank."""

    def __init__(self, shape, ep, device):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        if ranks % ep or shape["E"] % ep:
            raise Unsupported(f"ep={ep} does not divide {ranks} ranks and {shape['E']} experts")
        self.shape, self.ep, self.per_rank = shape, ep, shape["E"] // ep
        self.act, self.dtype = ACTIVATIONS[shape["act"]], DTYPES[shape["dtype"]]
        self.device = device
        self.group = self.own([range(n, n + ep) for n in range(0, ranks, ep)])
        self.copies = self.own([range(n, ranks, ep) for n in range(ep)])
        self.first = rank % ep * self.per_rank
        self.gate = self.draw(0, shape["D"], shape["E"]).requires_grad_()
        self.up, self.down = self.weights(range(self.first, self.first + self.per_rank))
        self.cannot_group = self.try_grouped()

    def own(self, lists):
        groups = [dist.new_group(list(ranks)) for ranks in lists]  # on every rank
        return next(g for g, ranks in zip(groups, lists) if dist.get_rank() in ranks)

    def draw(self, seed, *sizes):
        values = torch.randn(sizes, generator=torch.Generator().manual_seed(seed))
        return (values / sizes[-1] ** 0.5).to(self.device, self.dtype)

    def weights(self, experts):
        d, h = self.shape["D"], self.shape["H"]
        gated = 2 if self.shape["act"] == "swiglu" else 1
        up = [self.draw(2 * e + 1, gated * h, d) for e in experts]
        down = [self.draw(2 * e + 2, d, h) for e in experts]
        return torch.stack(up).requires_grad_(), torch.stack(down).requires_grad_()

    def try_grouped(self):
        """Returns why this version of torch cannot group the products; None: it can."""
        try:
            rows = self.draw(1, 16, self.shape["D"]).requires_grad_()
            y = self.grouped(rows, [16] + [0] * (self.per_rank - 1))
            y.backward(torch.ones_like(y))
        except (RuntimeError, TypeError, NotImplementedError) as error:
            return str(error) or "torch cannot group products"

    def route(self, x):
        return (x @ self.gate).softmax(-1).topk(self.shape["k"])

    # ---- inputs, and a step

    def batch(self, tokens, skew=1.0):
        """Returns tokens of this rank, and a gradient of their results.

        Expert 0 gets about `skew` times the mean: a shift of some tokens raises its score alone.
        """
        x = torch.randn(tokens, self.shape["D"], device=self.device)
        most = self.shape["E"] / self.shape["k"]  # then every token chooses expert 0
        if min(skew, most) > 1:
            chosen = torch.rand(tokens, 1, device=self.device) < (skew - 1) / (most - 1)
            x += 20 * chosen * torch.linalg.pinv(self.gate.detach().float())[0]
        x = x.to(self.dtype).requires_grad_()
        return x, torch.randn_like(x)

    @torch.no_grad()
    def skew(self, x):
        """Returns the fullest expert's rows over the mean, of all ranks.  No plan changes it."""
        counts = self.route(x)[1].flatten().bincount(minlength=self.shape["E"])
        dist.all_reduce(counts)
        return float(counts.max() * len(counts) / counts.sum())

    def step(self, x, dy, plan):
        """Runs forward and backward, and sums the gradients over ranks."""
        weights = self.gate, self.up, self.down
        for one in (x, *weights):
            one.grad = None
        y = self(x, plan)
        y.backward(dy)
        for one, group in zip(weights, (None, self.copies, self.copies)):
            dist.all_reduce(one.grad, group=group)
        return [y.detach(), x.grad, *(one.grad for one in weights)]

    def __call__(self, x, plan):
        if plan["experts"] == "grouped" and self.cannot_group:
            raise Unsupported(self.cannot_group)
        self.run = getattr(self, plan["experts"])
        return getattr(self, plan["dispatcher"])(x, *self.route(x), plan["chunks"])

    # ---- experts, on rows that are sorted by expert

    def loop(self, rows, counts):
        parts = enumerate(rows.split(counts))
        return torch.cat([self.act(part @ self.up[e].T) @ self.down[e].T for e, part in parts])

    def padded(self, rows, counts):
        most, at = max(counts), torch.tensor(counts).cumsum(0) - torch.tensor(counts)
        shift = torch.arange(len(counts)) * most - at
        place = torch.arange(len(rows)) + shift.repeat_interleave(torch.tensor(counts))
        place = place.to(self.device)
        boxes = rows.new_zeros(len(counts) * most, rows.shape[1]).index_copy(0, place, rows)
        h = self.act(boxes.view(len(counts), most, rows.shape[1]) @ self.up.transpose(1, 2))
        return (h @ self.down.transpose(1, 2)).flatten(0, 1)[place]

    def grouped(self, rows, counts):
        if grouped_mm is None:
            raise NotImplementedError(f"torch {torch.__version__} has no grouped_mm")
        ends = torch.tensor(counts).cumsum(0).to(self.device, torch.int32)
        h = self.act(grouped_mm(rows, self.up.transpose(1, 2), offs=ends))
        return grouped_mm(h, self.down.transpose(1, 2), offs=ends)

    # ---- dispatchers

    def allgather(self, x, weight, expert, _):
        if self.ep > 1:
            x, weight = Gather.apply(x, self.group), Gather.apply(weight, self.group)
            expert = Gather.apply(expert, self.group)
        here = expert - self.first
        token, choice = ((here >= 0) & (here < self.per_rank)).nonzero(as_tuple=True)
        order = here[token, choice].argsort(stable=True)
        token, choice = token[order], choice[order]
        counts = here[token, choice].bincount(minlength=self.per_rank).tolist()
        rows = self.run(x[token], counts) * weight[token, choice, None]
        y = torch.zeros_like(x).index_add(0, token, rows)
        return Scatter.apply(y, self.group) if self.ep > 1 else y

    def alltoall(self, x, weight, expert, chunks):
        parts = [(part.flatten().argsort(stable=True), part) for part in expert.chunk(chunks)]
        sends = [part.flatten().bincount(minlength=self.shape["E"]) for _, part in parts]
        sends = torch.stack(sends).view(len(parts), self.ep, self.per_rank)
        sends = sends.transpose(0, 1).contiguous()
        gets = torch.empty_like(sends)
        dist.all_to_all_single(gets, sends, group=self.group)
        sends, gets = sends.sum(2).T.tolist(), gets.cpu().transpose(0, 1)
        under_way, first = [], 0
        for (order, part), sent, got in zip(parts, sends, gets):
            trip = Trip(self.group, sent, got.sum(1).tolist())
            token = first + order // self.shape["k"]
            under_way.append((trip, Start.apply(x[token], trip), got))
            first += len(part)
        back = []
        for trip, rows, got in under_way:
            expert_of = torch.arange(self.per_rank).repeat(self.ep).repeat_interleave(got.flatten())
            order = expert_of.argsort(stable=True).to(self.device)
            rows = self.run(Wait.apply(rows, trip)[order], got.sum(0).tolist())
            trip = Trip(self.group, trip.gets, trip.sends)
            rows = torch.zeros_like(rows).index_copy(0, order, rows)
            back.append((trip, Start.apply(rows, trip)))
        y, first = [], 0
        for (trip, rows), (order, part) in zip(back, parts):
            share = weight[first : first + len(part)].flatten()[order, None]
            rows, token = Wait.apply(rows, trip) * share, order // self.shape["k"]
            y.append(x.new_zeros(len(part), x.shape[1]).index_add(0, token, rows))
            first += len(part)
        return torch.cat(y)
